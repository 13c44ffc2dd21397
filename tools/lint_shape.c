/* SPDX-License-Identifier: Apache-2.0
 * Paths are kept as hashes, so the memory does not depend on how long keys are. */
#include "tools/lint_shape.h"

#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "common/mem.h"

enum { SLOTS = LINT_SHAPE_PATHS * 2, MAX_DEPTH = 12 };

struct slot {
    uint64_t path; /* 0 = free */
    enum json_kind kind;
};

struct lint_shape {
    struct slot slots[SLOTS];
    size_t n;
};

ft_status lint_shape_create(struct lint_shape **out, ft_error *err)
{
    return mem_new(out, 1, sizeof **out, "the types of columns", err);
}

void lint_shape_destroy(struct lint_shape *s)
{
    mem_free(s);
}

/* A value and how it was reached. */
struct place {
    const json *value;
    uint64_t path;
    char name[LINT_FIELD_BYTES];
    enum lint_code code; /* of a changed type here */
    int depth;
};

static uint64_t mix(uint64_t path, str step)
{
    uint64_t parts[2] = {path, hash64(step.ptr, step.len)};
    return hash64(parts, sizeof parts) | 1;
}

/* The kind first seen at this path: that of the value itself when it is new. */
static enum json_kind first_kind(struct lint_shape *s, uint64_t path, enum json_kind kind)
{
    size_t i = path % SLOTS;
    while (s->slots[i].path != 0 && s->slots[i].path != path)
        i = (i + 1) % SLOTS;
    if (s->slots[i].path == path)
        return s->slots[i].kind;
    if (s->n < LINT_SHAPE_PATHS) {
        s->slots[i] = (struct slot){path, kind};
        s->n++;
    }
    return kind;
}

/* before + between + step, cut to what fits. */
static void join(char dst[LINT_FIELD_BYTES], const char *before, const char *between, str step)
{
    const str parts[] = {str_from(before), str_from(between), step};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        size_t bytes = FT_MIN(parts[i].len, (size_t)LINT_FIELD_BYTES - 1 - n);
        memcpy(dst + n, parts[i].ptr, bytes);
        n += bytes;
    }
    dst[n] = '\0';
}

static struct place member_of(const struct place *p, const json *v)
{
    str key = json_key(v);
    struct place m = {.value = v, .depth = p->depth + 1};
    m.code = p->code == LINT_J06 ? LINT_J01 : p->code;
    m.path = mix(p->path, key);
    join(m.name, p->name, p->name[0] == '\0' ? "" : ".", key);
    if (p->depth == 0 && str_is(key, "id"))
        m.code = LINT_J02;
    if (str_is(key, "arguments"))
        m.code = LINT_M13;
    return m;
}

static struct place element_of(const struct place *p, const json *v)
{
    struct place e = {.value = v, .code = p->code, .depth = p->depth + 1};
    e.path = mix(p->path, STR("[]"));
    join(e.name, p->name, "", STR("[]"));
    if (e.code == LINT_J01)
        e.code = LINT_J06;
    return e;
}

/* Flags have rules of their own. */
static bool is_flag(const json *v)
{
    return str_is(json_key(v), "loss") || str_is(json_key(v), "weight");
}

static void check(struct lint_shape *s, struct lint_list *l, const struct place *p)
{
    enum json_kind kind = json_kind(p->value), first;
    if (kind == JSON_NULL || p->depth > MAX_DEPTH)
        return;
    first = first_kind(s, p->path, kind);
    if (first != kind && l->counts[p->code] == 0) /* one of a kind per row is enough */
        lint_add(l, p->code, p->name, "%s here, %s before", json_kind_name(kind),
                 json_kind_name(first));
    for (const json *v = json_first(p->value); v != NULL; v = json_next(v)) {
        struct place below = kind == JSON_OBJECT ? member_of(p, v) : element_of(p, v);
        if (kind != JSON_OBJECT || !is_flag(v))
            check(s, l, &below);
    }
}

void lint_shape_row(struct lint_shape *s, struct lint_list *l, const json *row)
{
    struct place root = {.value = row, .path = 1, .code = LINT_J01};
    check(s, l, &root);
}
