/* SPDX-License-Identifier: Apache-2.0
 * The template language of Hugging Face chat templates: Jinja 3.1 in the immutable sandbox, with
 * trim_blocks, lstrip_blocks, loop controls and {% generation %}. Output is byte for byte what
 * Python gives; what cannot be reproduced is refused with line and column. Every output byte knows
 * where it came from. docs/templates.md lists the language. */
#ifndef FORMATS_JINJA_H
#define FORMATS_JINJA_H

#include <time.h>

#include "common/arena.h"
#include "common/buf.h"
#include "formats/json.h"

/* --- compiled templates ---------------------------------------------------------------------- */

/* Immutable: threads share it. */
struct jinja;

/* name appears in messages. FT_EFORMAT with line and column, FT_ELIMIT above 1 MiB or nested too
 * deeply. */
FT_NODISCARD ft_status jinja_compile(struct jinja **out, const char *name, str source,
                                     ft_error *err);
void jinja_destroy(struct jinja *t);                  /* NULL is fine */
bool jinja_has_generation(const struct jinja *t);     /* any {% generation %} */
bool jinja_mentions(const struct jinja *t, str name); /* reads a variable of that name */

/* --- where text comes from ------------------------------------------------------------------- */

/* Origins of text. Callers number their data from JINJA_DATA on; JINJA_DATA itself is also what
 * remains when an operation mixes several. The flag is set inside {% generation %}. */
enum jinja_origin { JINJA_TEMPLATE = 0, JINJA_DATA = 1, JINJA_GENERATION = 1 << 30 };

struct jinja_piece {
    uint32_t end;    /* behind its last byte; it begins where the piece before ends */
    uint32_t origin; /* with the flag JINJA_GENERATION */
};

/* --- values ---------------------------------------------------------------------------------- */

/* A value of the language. Belongs to the run it was made in, until jinja_run_reset. */
struct jinja_value {
    uint8_t type;    /* enum jinja_type of jinja_internal.h */
    uint8_t flags;   /* enum jinja_flag */
    uint32_t origin; /* of numbers and of what a container is made of */
    union {
        bool b;
        int64_t i;
        double f;
        int id;
        const struct jinja_str *str;
        struct jinja_seq *seq;
        struct jinja_dict *dict;
        const struct jinja_range *range;
        struct jinja_iter *iter;
        const struct jinja_undefined *undefined;
        struct jinja_macro *macro;
        struct jinja_loop *loop;
        struct jinja_cycler *cycler;
        struct jinja_method *method;
    } as;
};

/* What a rendering may use at most. */
struct jinja_limits {
    uint64_t steps; /* evaluated nodes, iterations and 64-byte units of copied text */
    size_t bytes;   /* memory for all values and the output */
};
#define JINJA_LIMITS ((struct jinja_limits){.steps = 20 * 1000 * 1000, .bytes = (size_t)512 << 20})

/* The memory and the counters of renderings; one per thread. Failures while values are made are
 * latched and reported by jinja_render. */
struct jinja_run;

FT_NODISCARD ft_status jinja_run_create(struct jinja_run **out, struct jinja_limits limits,
                                        ft_error *err);
void jinja_run_destroy(struct jinja_run *r); /* NULL is fine */
void jinja_run_reset(struct jinja_run *r);   /* forgets all values; the clock stays */
/* What strftime_now takes for the present, in local time. Until it is set, strftime_now fails. */
void jinja_run_clock(struct jinja_run *r, const struct tm *now);

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool b);
/* Valid UTF-8, borrowed. */
struct jinja_value jinja_text(struct jinja_run *r, str s, uint32_t origin);
/* The whole tree; its strings are borrowed. */
struct jinja_value jinja_json(struct jinja_run *r, const json *v, uint32_t origin);
struct jinja_value jinja_list(struct jinja_run *r);
void jinja_list_push(struct jinja_run *r, struct jinja_value list, struct jinja_value item);
/* The list without what lies behind its first n items; shares them. */
struct jinja_value jinja_list_head(struct jinja_run *r, struct jinja_value list, size_t n);
struct jinja_value jinja_dict(struct jinja_run *r);
/* Replaces what is under the key. */
void jinja_dict_put(struct jinja_run *r, struct jinja_value dict, str key, struct jinja_value v);

/* --- rendering ------------------------------------------------------------------------------- */

/* Belongs to the run, until jinja_run_reset. */
struct jinja_output {
    str text;
    const struct jinja_piece *pieces; /* cover the text */
    size_t n_pieces;
};

/* vars: a dict. Values may be used for several renderings. Fails as Jinja does (FT_EFORMAT, with
 * the template's own message for raise_exception), on what is not supported, and with FT_ELIMIT
 * when a limit is reached; always with line and column. */
FT_NODISCARD ft_status jinja_render(struct jinja_output *out, const struct jinja *t,
                                    struct jinja_run *r, struct jinja_value vars, ft_error *err);

#endif
