/* SPDX-License-Identifier: Apache-2.0
 * Renders templates for comparison with the reference: reads lines {"template", "vars"} from
 * standard input and writes one line for each: {"text", "generation": [[from, to] in code points]}
 * or {"error"}. The clock stands at 2024-07-26 12:34:56, a Friday. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/jinja.h"

static size_t count_chars(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += (s.ptr[i] & 0xC0) != 0x80;
    return n;
}

static void write_spans(struct buf *line, const struct jinja_output *o)
{
    size_t from = 0, begin = 0;
    bool open = false, first = true;
    for (size_t i = 0; i <= o->n_pieces; i++) {
        bool inside = i < o->n_pieces && (o->pieces[i].origin & JINJA_GENERATION);
        if (inside && !open)
            begin = from;
        if (!inside && open) {
            buf_printf(line, "%s[%zu, %zu]", first ? "" : ", ",
                       count_chars(str_sub(o->text, 0, begin)),
                       count_chars(str_sub(o->text, 0, from)));
            first = false;
        }
        open = inside;
        from = i < o->n_pieces ? o->pieces[i].end : from;
    }
}

static ft_status render(struct buf *line, struct jinja_run *run, const json *c, ft_error *err)
{
    struct jinja_output o;
    struct jinja *t = NULL;
    str source;
    FT_TRY(json_need_str(&source, c, "template", err));
    ft_status st = jinja_compile(&t, "template", source, err);
    if (st == FT_OK) {
        jinja_run_reset(run);
        st = jinja_render(&o, t, run, jinja_json(run, json_get(c, "vars"), JINJA_DATA), err);
    }
    if (st == FT_OK) {
        buf_cstr(line, "{\"text\": ");
        json_write_str(line, o.text);
        buf_cstr(line, ", \"generation\": [");
        write_spans(line, &o);
        buf_cstr(line, "]}");
    }
    jinja_destroy(t);
    return st;
}

static void write_line(struct buf *line, struct jinja_run *run, str text)
{
    struct json_doc *doc = NULL;
    ft_error err = {0};
    buf_clear(line);
    ft_status st = json_parse(&doc, "input", text, JSON_STRICT, &err);
    if (st == FT_OK)
        st = render(line, run, json_root(doc), &err);
    if (st != FT_OK) {
        buf_clear(line);
        buf_cstr(line, "{\"error\": ");
        json_write_str(line, str_from(err.text));
        buf_cstr(line, "}");
    }
    buf_byte(line, '\n');
    fwrite(line->data, 1, line->len, stdout);
    json_close(doc);
}

int main(void)
{
    struct tm clock = {.tm_year = 124,
                       .tm_mon = 6,
                       .tm_mday = 26,
                       .tm_hour = 12,
                       .tm_min = 34,
                       .tm_sec = 56,
                       .tm_wday = 5,
                       .tm_yday = 207,
                       .tm_isdst = -1};
    struct jinja_run *run;
    struct buf line = {0};
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    ft_error err;
    if (jinja_run_create(&run, JINJA_LIMITS, &err) != FT_OK)
        return 1;
    jinja_run_clock(run, &clock);
    while ((n = getline(&text, &cap, stdin)) > 0)
        write_line(&line, run, (str){text, (size_t)n - (text[n - 1] == '\n')});
    free(text);
    buf_free(&line);
    jinja_run_destroy(run);
    return 0;
}
