/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/fault.h"
#include "common/file.h"
#include "formats/json.h"

enum {
    MOMENTS_HEADER = 64,
    MOMENTS_VERSION = 1,
    STATE_VERSION = 1,
    MAX_STATE = 1 << 20,
    MAX_COMMIT = 1 << 16,
    MAX_FILES = 64,
};
static const char MOMENTS_MAGIC[8] = {'F', 'T', 'M', 'O', 'M', 'E', 'N', 'T'};
static const char *const STATE_FORMAT = "fttrain checkpoint";

static ft_status join(const char **out, struct arena *a, const char *dir, const char *name,
                      ft_error *err)
{
    *out = path_join(a, dir, name);
    return *out == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
}

static ft_status step_path(const char **out, struct arena *a, const char *parent, int64_t step,
                           const char *suffix, ft_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "step_%" PRId64 "%s", step, suffix);
    return join(out, a, parent, name, err);
}

const char *checkpoint_path(struct arena *a, const char *parent, int64_t step)
{
    ft_error ignored;
    const char *path;
    return step_path(&path, a, parent, step, "", &ignored) == FT_OK ? path : NULL;
}

static ft_status rename_dir(const char *from, const char *to, ft_error *err)
{
    if ((fault_hit(FAULT_WRITE) ? (errno = EIO, -1) : rename(from, to)) != 0)
        return ft_fail_errno(err, "%s: cannot rename to %s", from, to);
    return FT_OK;
}

/* --- state.json ------------------------------------------------------------------------------ */

struct state_field {
    const char *name;
    bool is_count;
    size_t offset;
};

#define COUNT(field)                                                                               \
    {                                                                                              \
#field, true, offsetof(struct checkpoint_state, field)                                     \
    }
#define REAL(field)                                                                                \
    {                                                                                              \
#field, false, offsetof(struct checkpoint_state, field)                                    \
    }
static const struct state_field state_fields[] = {
    COUNT(step),      COUNT(updates),       COUNT(tokens),         COUNT(trained_tokens),
    REAL(seconds),    COUNT(eval_step),     REAL(first_eval_loss), REAL(eval_loss),
    COUNT(best_step), REAL(best_eval_loss), REAL(train_loss),      COUNT(sample_step),
    COUNT(n_params),
};

ft_status checkpoint_write_state(const char *dir, const struct checkpoint_state *s, ft_error *err)
{
    struct arena a = {0};
    struct buf b = {0};
    char base[HASH_HEX_LEN + 1], data[HASH_HEX_LEN + 1];
    const char *path;
    ft_status st;
    buf_printf(&b, "{\n  \"format\": \"%s\",\n  \"version\": %d", STATE_FORMAT, STATE_VERSION);
    for (size_t i = 0; i < ARRAY_LEN(state_fields); i++) {
        const struct state_field *f = &state_fields[i];
        const char *at = (const char *)s + f->offset;
        buf_printf(&b, ",\n  \"%s\": ", f->name);
        if (f->is_count)
            buf_printf(&b, "%" PRId64, *(const int64_t *)at);
        else
            buf_printf(&b, "%.17g", *(const double *)at);
    }
    hash128_hex(base, s->base);
    hash128_hex(data, s->data);
    buf_printf(&b, ",\n  \"base\": \"%s\",\n  \"data\": \"%s\"\n}\n", base, data);
    FT_GOTO(buf_status(&b, "the checkpoint's state", err));
    FT_GOTO(join(&path, &a, dir, "state.json", err));
    FT_GOTO(file_publish(path, b.data, b.len, err));
out:
    buf_free(&b);
    arena_destroy(&a);
    return st;
}

static ft_status read_hash(hash128 *out, const json *root, const char *key, ft_error *err)
{
    str hex;
    FT_TRY(json_need_str(&hex, root, key, err));
    if (!hash128_parse(out, hex))
        return ft_fail(err, FT_EFORMAT, "\"%s\": expected %d hex digits", key, HASH_HEX_LEN);
    return FT_OK;
}

static ft_status check_state(const struct checkpoint_state *s, ft_error *err)
{
    if (s->updates > s->step || s->eval_step > s->step || s->best_step > s->step ||
        s->sample_step > s->step || s->trained_tokens > s->tokens)
        return ft_fail(err, FT_EFORMAT, "the counters contradict each other");
    return FT_OK;
}

static ft_status parse_state(struct checkpoint_state *out, const json *root, ft_error *err)
{
    static const int64_t max = (int64_t)1 << 53;
    str format;
    int64_t version;
    FT_TRY(json_need_str(&format, root, "format", err));
    if (!str_is(format, STATE_FORMAT))
        return ft_fail(err, FT_EFORMAT, "\"format\": expected \"%s\"", STATE_FORMAT);
    FT_TRY(json_need_i64(&version, root, "version", 1, max, err));
    if (version != STATE_VERSION)
        return ft_fail(err, FT_EFORMAT, "version %" PRId64 ", this program reads version %d",
                       version, STATE_VERSION);
    for (size_t i = 0; i < ARRAY_LEN(state_fields); i++) {
        const struct state_field *f = &state_fields[i];
        char *at = (char *)out + f->offset;
        const json *v;
        if (f->is_count) {
            FT_TRY(json_need_i64((int64_t *)at, root, f->name, -1, max, err));
            continue;
        }
        FT_TRY(json_need(&v, root, f->name, JSON_NUMBER, err));
        if (!json_f64(v, (double *)at) || !isfinite(*(double *)at))
            return ft_fail(err, FT_EFORMAT, "\"%s\": not a finite number", f->name);
    }
    FT_TRY(read_hash(&out->base, root, "base", err));
    FT_TRY(read_hash(&out->data, root, "data", err));
    return check_state(out, err);
}

ft_status checkpoint_read_state(struct checkpoint_state *out, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct json_doc *doc = NULL;
    const char *path;
    ft_status st;
    *out = (struct checkpoint_state){0};
    FT_GOTO(join(&path, &a, dir, "state.json", err));
    FT_GOTO(json_load(&doc, path, JSON_STRICT, MAX_STATE, err));
    if (parse_state(out, json_root(doc), err) != FT_OK)
        st = ft_wrap(err, "%s", path);
out:
    json_close(doc);
    arena_destroy(&a);
    return st;
}

/* --- optimizer.bin --------------------------------------------------------------------------- */

ft_status checkpoint_write_moments(const char *dir, const float *m, const float *v, int64_t n,
                                   ft_error *err)
{
    uint8_t header[MOMENTS_HEADER] = {0};
    struct arena a = {0};
    struct file_writer w = {.fd = -1};
    const char *path;
    ft_status st;
    memcpy(header, MOMENTS_MAGIC, sizeof MOMENTS_MAGIC);
    store_u32le(header + 8, MOMENTS_VERSION);
    store_u64le(header + 16, (uint64_t)n);
    FT_GOTO(join(&path, &a, dir, "optimizer.bin", err));
    FT_GOTO(file_writer_open(&w, path, err));
    file_write(&w, header, sizeof header);
    file_write(&w, m, (size_t)n * sizeof *m);
    file_write(&w, v, (size_t)n * sizeof *v);
    FT_GOTO(file_writer_commit(&w, err));
out:
    file_writer_abort(&w);
    arena_destroy(&a);
    return st;
}

static ft_status check_moments(const struct file_map *map, int64_t n, const char *path,
                               ft_error *err)
{
    if (map->bytes < MOMENTS_HEADER || memcmp(map->data, MOMENTS_MAGIC, sizeof MOMENTS_MAGIC) != 0)
        return ft_fail(err, FT_EFORMAT, "%s: not an optimiser state", path);
    if (load_u32le(map->data + 8) != MOMENTS_VERSION)
        return ft_fail(err, FT_EFORMAT, "%s: version %u, this program reads version %d", path,
                       load_u32le(map->data + 8), MOMENTS_VERSION);
    uint64_t stored = load_u64le(map->data + 16);
    if (stored != (uint64_t)n)
        return ft_fail(err, FT_EFORMAT, "%s: %" PRIu64 " values, the adapter has %" PRId64, path,
                       stored, n);
    size_t expected = MOMENTS_HEADER + 2 * sizeof(float) * (size_t)n;
    if (map->bytes != expected)
        return ft_fail(err, FT_EFORMAT, "%s: %zu bytes, expected %zu", path, map->bytes, expected);
    return FT_OK;
}

ft_status checkpoint_read_moments(float *m, float *v, int64_t n, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct file_map map = {0};
    const char *path;
    ft_status st;
    FT_GOTO(join(&path, &a, dir, "optimizer.bin", err));
    FT_GOTO(file_map_open(&map, path, err));
    FT_GOTO(check_moments(&map, n, path, err));
    size_t bytes = sizeof(float) * (size_t)n;
    memcpy(m, map.data + MOMENTS_HEADER, bytes);
    memcpy(v, map.data + MOMENTS_HEADER + bytes, bytes);
out:
    file_map_close(&map);
    arena_destroy(&a);
    return st;
}

/* --- COMMIT: "<xxh128>  <name>" per file, as xxh128sum prints and checks -----------------------
 */

static const char *const COMMIT = "COMMIT";

static ft_status hash_file(hash128 *out, const char *path, ft_error *err)
{
    struct file_map map;
    FT_TRY(file_map_open(&map, path, err));
    *out = hash128_of(map.data, map.bytes);
    file_map_close(&map);
    return FT_OK;
}

static ft_status write_commit(const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct buf b = {0};
    const char **names, *path;
    size_t n;
    hash128 hash;
    char hex[HASH_HEX_LEN + 1];
    ft_status st;
    FT_GOTO(dir_list(&names, &n, &a, dir, err));
    FT_ASSERT(n <= MAX_FILES);
    for (size_t i = 0; i < n; i++) {
        FT_GOTO(join(&path, &a, dir, names[i], err));
        FT_GOTO(hash_file(&hash, path, err));
        hash128_hex(hex, hash);
        buf_printf(&b, "%s  %s\n", hex, names[i]);
    }
    FT_GOTO(buf_status(&b, "the commit record", err));
    FT_GOTO(join(&path, &a, dir, COMMIT, err));
    FT_GOTO(file_publish(path, b.data, b.len, err));
out:
    buf_free(&b);
    arena_destroy(&a);
    return st;
}

static ft_status verify_line(const char *dir, struct arena *a, str line, ft_error *err)
{
    hash128 wanted, found;
    const char *path;
    str hex = str_sub(line, 0, FT_MIN(line.len, (size_t)HASH_HEX_LEN));
    str rest = str_sub(line, hex.len, line.len);
    bool well_formed = hash128_parse(&wanted, hex) && str_starts(rest, STR("  ")) && rest.len > 2 &&
                       memchr(rest.ptr, '/', rest.len) == NULL &&
                       memchr(rest.ptr, '\0', rest.len) == NULL;
    if (!well_formed)
        return ft_fail(err, FT_EFORMAT, "%s/%s: not a commit record", dir, COMMIT);
    const char *name = arena_cstr(a, str_sub(rest, 2, rest.len));
    if (name == NULL)
        return ft_fail_memory(err, rest.len, "a file name");
    FT_TRY(join(&path, a, dir, name, err));
    if (!path_exists(path))
        return ft_fail(err, FT_EFORMAT, "%s: is missing", path);
    FT_TRY(hash_file(&found, path, err));
    if (!hash128_eq(wanted, found))
        return ft_fail(err, FT_EFORMAT, "%s: is damaged (its hash is not the one in %s)", path,
                       COMMIT);
    return FT_OK;
}

ft_status checkpoint_verify(const char *dir, ft_error *err)
{
    struct arena a = {0};
    const char *path;
    str text;
    size_t n = 0;
    ft_status st;
    FT_GOTO(join(&path, &a, dir, COMMIT, err));
    if (!path_exists(path)) {
        st = ft_fail(err, FT_EFORMAT, "%s: was never finished (no %s)", dir, COMMIT);
        goto out;
    }
    FT_GOTO(file_read_all(&text, &a, path, MAX_COMMIT, err));
    for (; text.len > 0 && st == FT_OK; n++) {
        str line = str_cut(&text, '\n');
        if (n == MAX_FILES)
            st = ft_fail(err, FT_ELIMIT, "%s: more than %d files", path, MAX_FILES);
        else
            st = verify_line(dir, &a, line, err);
    }
    if (st == FT_OK && n == 0)
        st = ft_fail(err, FT_EFORMAT, "%s: is empty", path);
out:
    arena_destroy(&a);
    return st;
}

/* --- directories ----------------------------------------------------------------------------- */

ft_status checkpoint_begin(const char **dir, struct arena *a, const char *parent, int64_t step,
                           ft_error *err)
{
    FT_TRY(step_path(dir, a, parent, step, ".tmp", err));
    FT_TRY(dir_remove(*dir, err));
    return dir_create(*dir, err);
}

ft_status checkpoint_commit(const char *parent, int64_t step, ft_error *err)
{
    struct arena a = {0};
    const char *from, *to, *old;
    ft_status st;
    FT_GOTO(step_path(&from, &a, parent, step, ".tmp", err));
    FT_GOTO(step_path(&to, &a, parent, step, "", err));
    FT_GOTO(step_path(&old, &a, parent, step, ".old.tmp", err));
    FT_GOTO(write_commit(from, err));
    /* A directory cannot be renamed over a full one: the old one steps aside, and back on failure.
     */
    bool replaces = path_exists(to);
    FT_GOTO(dir_remove(old, err));
    if (replaces)
        FT_GOTO(rename_dir(to, old, err));
    st = rename_dir(from, to, err);
    if (st != FT_OK) {
        if (replaces)
            rename(old, to);
        goto out;
    }
    FT_GOTO(dir_sync(parent, err));
    FT_GOTO(dir_remove(old, err));
out:
    arena_destroy(&a);
    return st;
}

/* N of "step_N"; false for every other name. */
static bool parse_step(const char *name, int64_t *step)
{
    str s = str_from(name), prefix = STR("step_");
    if (!str_starts(s, prefix))
        return false;
    s = str_sub(s, prefix.len, s.len);
    bool canonical = s.len == 1 || (s.len > 1 && s.ptr[0] != '0');
    return canonical && str_to_i64(s, step) && *step >= 0;
}

static void insert_sorted(int64_t *steps, size_t n, int64_t step)
{
    for (; n > 0 && steps[n - 1] > step; n--)
        steps[n] = steps[n - 1];
    steps[n] = step;
}

ft_status checkpoint_list(int64_t **steps, size_t *n, struct arena *a, const char *parent,
                          ft_error *err)
{
    const char **names;
    size_t n_names;
    int64_t step;
    *steps = NULL;
    *n = 0;
    if (!path_exists(parent))
        return FT_OK;
    FT_TRY(dir_list(&names, &n_names, a, parent, err));
    *steps = arena_alloc(a, n_names, sizeof **steps);
    if (*steps == NULL)
        return ft_fail_memory(err, n_names * sizeof **steps, "the list of checkpoints");
    for (size_t i = 0; i < n_names; i++)
        if (parse_step(names[i], &step))
            insert_sorted(*steps, (*n)++, step);
    return FT_OK;
}

ft_status checkpoint_remove(const char *parent, int64_t step, ft_error *err)
{
    struct arena a = {0};
    const char *from, *to;
    ft_status st;
    FT_GOTO(step_path(&from, &a, parent, step, "", err));
    FT_GOTO(step_path(&to, &a, parent, step, ".old.tmp", err));
    FT_GOTO(dir_remove(to, err));
    FT_GOTO(rename_dir(from, to, err));
    FT_GOTO(dir_remove(to, err));
out:
    arena_destroy(&a);
    return st;
}

ft_status checkpoint_clean(const char *parent, ft_error *err)
{
    struct arena a = {0};
    const char **names, *path;
    size_t n;
    ft_status st = FT_OK;
    if (!path_exists(parent))
        return FT_OK;
    FT_GOTO(dir_list(&names, &n, &a, parent, err));
    for (size_t i = 0; i < n; i++) {
        str name = str_from(names[i]);
        if (!str_starts(name, STR("step_")) || !str_ends(name, STR(".tmp")))
            continue;
        FT_GOTO(join(&path, &a, parent, names[i], err));
        FT_GOTO(dir_remove(path, err));
    }
out:
    arena_destroy(&a);
    return st;
}
