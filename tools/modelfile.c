/* SPDX-License-Identifier: Apache-2.0
 * Ollama's templates are Go templates over a list of messages. Ours come from rendering three short
 * conversations whose contents are marker bytes, and cutting the result at the markers. */
#include "tools/modelfile.h"

#include <string.h>

/* What a template writes around contents. Slices of the rendered texts. */
struct turn_texts {
    str head;                    /* in front of a conversation without a system message */
    str system_pre, system_post; /* around a system message */
    str user_pre, user_post;     /* around a user message, up to the assistant's first word */
    str assistant_post;
};

enum { MAX_PARTS = 5 };

/* One conversation: contents are the bytes 1, 2, ... */
static ft_status render_marked(struct chat_text *out, const struct chat_template *t,
                               const enum chat_role *roles, size_t n, ft_error *err)
{
    static const char markers[] = "\1\2\3\4";
    struct chat_message messages[MAX_PARTS - 1] = {0};
    const struct chat_conversation c = {.messages = messages, .n = n};
    FT_ASSERT(n < MAX_PARTS);
    for (size_t i = 0; i < n; i++)
        messages[i] = (struct chat_message){.role = roles[i], .content = {markers + i, 1}};
    return chat_render(out, t, &c, true, err);
}

/* The n + 1 texts between n markers; false when a marker is not there exactly once, in order. */
static bool split_at_markers(str parts[MAX_PARTS], const struct chat_text *text, size_t n)
{
    str rest = buf_view(&text->text);
    for (size_t i = 0; i < n; i++) {
        const char *at = rest.len == 0 ? NULL : memchr(rest.ptr, (int)i + 1, rest.len);
        if (at == NULL)
            return false;
        size_t cut = (size_t)(at - rest.ptr);
        parts[i] = str_sub(rest, 0, cut);
        rest = str_sub(rest, cut + 1, rest.len);
    }
    parts[n] = rest;
    for (size_t i = 0; i <= n; i++)
        for (size_t c = 0; c < parts[i].len; c++)
            if (parts[i].ptr[c] >= 1 && parts[i].ptr[c] <= (char)n)
                return false;
    return true;
}

static size_t common_suffix(str a, str b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[a.len - 1 - n] == b.ptr[b.len - 1 - n])
        n++;
    return n;
}

/* Between two turns stands the end of one and the start of the next. Any cut gives the same
 * prompts; this one, behind the token that ends a turn and its line break, is the one a reader
 * expects. */
static size_t cut_behind_stop(str joint, size_t from, str stop)
{
    size_t cut = from;
    for (size_t i = from; stop.len > 0 && i + stop.len <= joint.len; i++)
        if (memcmp(joint.ptr + i, stop.ptr, stop.len) == 0)
            cut = i + stop.len;
    while (cut > from && cut < joint.len && joint.ptr[cut] == '\n')
        cut++;
    return cut;
}

static bool starts_with(str s, str prefix)
{
    return prefix.len > 0 && str_starts(s, prefix);
}

/* llama.cpp puts BOS in front by itself, so it must not stand in the template a second time, unless
 * every turn starts with that same token. */
static void drop_bos(struct turn_texts *t, str bos)
{
    if (starts_with(t->user_pre, bos))
        return;
    if (starts_with(t->system_pre, bos))
        t->system_pre = str_sub(t->system_pre, bos.len, t->system_pre.len);
    if (starts_with(t->head, bos))
        t->head = str_sub(t->head, bos.len, t->head.len);
}

/* a: system, user, assistant, user. b: user. c: user, assistant, user. All with the header of the
 * answer at the end. False when the text around a message depends on its neighbours. */
static bool derive(struct turn_texts *out, const str a[MAX_PARTS], const str b[MAX_PARTS],
                   const str c[MAX_PARTS], str stop)
{
    if (!str_eq(a[2], a[4]) || !str_eq(b[1], a[4]) || !str_eq(c[0], b[0]) || !str_eq(c[1], a[2]) ||
        !str_eq(c[2], a[3]) || !str_eq(c[3], a[4]))
        return false;
    size_t same = FT_MIN(common_suffix(a[1], a[3]), common_suffix(a[3], b[0]));
    size_t cut = cut_behind_stop(a[3], a[3].len - same, stop);
    out->user_pre = str_sub(a[3], cut, a[3].len);
    out->assistant_post = str_sub(a[3], 0, cut);
    out->system_pre = a[0];
    out->system_post = str_sub(a[1], 0, a[1].len - out->user_pre.len);
    out->head = str_sub(b[0], 0, b[0].len - out->user_pre.len);
    out->user_post = a[4];
    return true;
}

/* Text inside a Go template inside Modelfile quotes. False when it would end either. */
static bool is_plain(str s)
{
    for (size_t i = 0; i + 1 < s.len; i++)
        if ((s.ptr[i] == '{' && s.ptr[i + 1] == '{') ||
            (i + 2 < s.len && memcmp(s.ptr + i, "\"\"\"", 3) == 0))
            return false;
    return true;
}

static void write_template(struct buf *out, const struct turn_texts *t, str stop)
{
    buf_cstr(out, "TEMPLATE \"\"\"");
    if (t->head.len > 0) {
        buf_cstr(out, "{{ if not .System }}");
        buf_str(out, t->head);
        buf_cstr(out, "{{ end }}");
    }
    buf_cstr(out, "{{ range .Messages }}{{ if eq .Role \"system\" }}");
    buf_str(out, t->system_pre);
    buf_cstr(out, "{{ .Content }}");
    buf_str(out, t->system_post);
    buf_cstr(out, "{{ else if eq .Role \"user\" }}");
    buf_str(out, t->user_pre);
    buf_cstr(out, "{{ .Content }}");
    buf_str(out, t->user_post);
    buf_cstr(out, "{{ else if eq .Role \"assistant\" }}{{ .Content }}");
    buf_str(out, t->assistant_post);
    buf_cstr(out, "{{ end }}{{ end }}\"\"\"\n");
    if (stop.len > 0) {
        buf_cstr(out, "PARAMETER stop \"");
        buf_str(out, stop);
        buf_cstr(out, "\"\n");
    }
}

static str token_text(const struct tok *tok, int32_t id)
{
    return id < 0 ? (str){"", 0} : tok_bytes(tok, id);
}

/* The word that ends a turn. */
static str stop_text(const struct chat_template *t, const struct tok *tok)
{
    const int32_t *ids;
    return chat_stop_ids(t, &ids) == 0 ? (str){"", 0} : tok_bytes(tok, ids[0]);
}

static ft_status try_template(struct buf *out, bool *done, const struct chat_template *t,
                              const struct tok *tok, ft_error *err)
{
    static const enum chat_role roles[] = {CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_USER};
    struct chat_text text[3] = {0};
    str a[MAX_PARTS], b[MAX_PARTS], c[MAX_PARTS], stop = stop_text(t, tok);
    struct turn_texts turns = {0};
    ft_status st;
    FT_GOTO(render_marked(&text[0], t, roles, 4, err));
    FT_GOTO(render_marked(&text[1], t, roles + 1, 1, err));
    FT_GOTO(render_marked(&text[2], t, roles + 1, 3, err));
    *done = split_at_markers(a, &text[0], 4) && split_at_markers(b, &text[1], 1) &&
            split_at_markers(c, &text[2], 3) && derive(&turns, a, b, c, stop);
    drop_bos(&turns, token_text(tok, tok_bos(tok)));
    *done = *done && is_plain(turns.head) && is_plain(turns.system_pre) &&
            is_plain(turns.system_post) && is_plain(turns.user_pre) && is_plain(turns.user_post) &&
            is_plain(turns.assistant_post);
    if (*done)
        write_template(out, &turns, stop);
out:
    for (size_t i = 0; i < ARRAY_LEN(text); i++)
        chat_text_free(&text[i]);
    return st;
}

ft_status modelfile_write(struct buf *out, bool *has_template, const struct modelfile *m,
                          ft_error *err)
{
    const char *name = m->tok == NULL ? NULL : chat_known_for(tok_chat_template(m->tok));
    struct chat_template *t = NULL;
    *has_template = false;
    if (m->note != NULL)
        buf_printf(out, "# %s\n", m->note);
    buf_printf(out, "FROM %s\n", m->from);
    if (m->adapter != NULL)
        buf_printf(out, "ADAPTER %s\n", m->adapter);
    if (name != NULL)
        FT_TRY(chat_template_open(&t, name, m->tok, err));
    ft_status st = t == NULL ? FT_OK : try_template(out, has_template, t, m->tok, err);
    chat_template_close(t);
    return st == FT_OK ? buf_status(out, "a Modelfile", err) : st;
}
