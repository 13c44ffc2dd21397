/* SPDX-License-Identifier: Apache-2.0
 * Inside the template engine: values, strings with origins, and what the parts offer each other.
 * All memory of a rendering is in the arena of its run; nothing is freed before the run is reset.
 * Functions fail with the line and column of the node that is being evaluated. */
#ifndef FORMATS_JINJA_INTERNAL_H
#define FORMATS_JINJA_INTERNAL_H

#include "formats/jinja_ast.h"

enum jinja_type {
    JV_UNDEFINED,
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_BIG, /* an integer beyond 64 bits: its digits; it can be printed and compared, no more */
    JV_FLOAT,
    JV_STR,
    JV_LIST,
    JV_TUPLE,
    JV_DICT,
    JV_RANGE,
    JV_KEYS, /* views of a dict */
    JV_VALUES,
    JV_ITEMS,
    JV_ITER, /* a generator or iterator of Python: can be walked once */
    JV_NAMESPACE,
    JV_MACRO,
    JV_LOOP,
    JV_CYCLER,
    JV_JOINER,
    JV_FUNCTION, /* as.id: enum jinja_global */
    JV_METHOD,
    JV_MISSING, /* a variable that was never set */
};

enum jinja_flag { JINJA_MARKUP = 1, JINJA_GROUP = 2 }; /* of strings; of groupby's tuples */

struct jinja_str {
    const char *ptr;
    uint32_t len, n_pieces;
    const struct jinja_piece *pieces; /* empty strings have none */
};

struct jinja_seq {
    struct jinja_value *items;
    size_t n, cap;
};

struct jinja_entry {
    struct jinja_value key, value;
    uint64_t hash;
};

struct jinja_dict {
    struct jinja_entry *items; /* in order of insertion */
    size_t n, cap;
    uint32_t *index; /* hash table of 1 + position; NULL while the dict is small */
    size_t n_index;  /* a power of two */
};

struct jinja_range {
    int64_t start, stop, step, n;
};

/* Why a value is undefined, for the message when it is used. */
struct jinja_undefined {
    const char *hint;  /* the whole message, or NULL */
    str name;          /* of the variable or attribute */
    const char *owner; /* type of the object that lacks it, NULL for variables */
    bool unsafe;       /* an attribute the sandbox forbids */
};

struct jinja_env;

struct jinja_iter {
    ft_status (*next)(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                      bool *done);
    struct jinja_value source;
    struct jinja_iter *inner;      /* what a filter walks */
    const struct jinja_call *call; /* arguments of the filter */
    int64_t i, n;
    bool finished;
    int mode; /* of the filter */
    void *state;
    const struct jinja_node *node; /* loop condition */
    struct jinja_env *env;
};

/* Variables of one activation of a function. */
struct jinja_env {
    struct jinja_env *up;
    struct jinja_value *slots;
};

struct jinja_macro {
    const struct jinja_node *node;
    const struct jinja_function *function;
    struct jinja_env *env;
};

struct jinja_loop {
    struct jinja_iter *iter;
    struct jinja_value iterable, before, current, after, changed;
    bool has_after, has_changed;
    int64_t index0, length, depth0; /* length -1 = not known yet */
    const struct jinja_node *node;
    struct jinja_env *env; /* of the function around the loop */
};

struct jinja_cycler {
    struct jinja_seq *items; /* NULL for a joiner */
    struct jinja_value separator;
    size_t position;
    bool used;
};

struct jinja_method {
    struct jinja_value self;
    int id; /* meaning depends on the type of self */
};

/* Arguments of a call, evaluated. */
struct jinja_call {
    struct jinja_value *args;
    size_t n;
    str *names; /* of the keywords */
    struct jinja_value *values;
    size_t n_keywords;
};

struct jinja_builder {
    char *data;
    size_t len, cap;
    struct jinja_piece *pieces;
    size_t n_pieces, cap_pieces;
};

enum { JINJA_MAX_CALLS = 1200, JINJA_MAX_VALUE_DEPTH = 400 };

struct jinja_run {
    struct arena arena;
    struct jinja_limits limits;
    uint64_t steps;
    ft_status latched;  /* of values made before the rendering */
    size_t depth;       /* of evaluation */
    size_t value_depth; /* of comparing and printing nested values */
    const struct jinja *t;
    const struct jinja_node *at;
    ft_error *err;
    struct jinja_value vars;
    struct jinja_env *env;
    struct jinja_builder *out;
    struct tm now;
    bool has_clock;
};

/* --- errors, memory, limits (jinja.c) -------------------------------------------------------- */

FT_NODISCARD ft_status jinja_raise(struct jinja_run *r, const char *fmt, ...) FT_PRINTF(2, 3);
/* A construct of Python or Jinja that is not reproduced. */
FT_NODISCARD ft_status jinja_unsupported(struct jinja_run *r, const char *what);
FT_NODISCARD ft_status jinja_new(void *out, struct jinja_run *r, size_t count, size_t size);
/* Counts work; FT_ELIMIT when it is too much. */
FT_NODISCARD ft_status jinja_steps(struct jinja_run *r, uint64_t n);
/* Guards recursion over nested values. */
FT_NODISCARD ft_status jinja_enter_value(struct jinja_run *r);
uint32_t jinja_mix(uint32_t a, uint32_t b); /* origin of what is made of both */

/* --- strings (jinja_str.c) ------------------------------------------------------------------- */

FT_NODISCARD ft_status jinja_put(struct jinja_run *r, struct jinja_builder *b, str text,
                                 uint32_t origin);
FT_NODISCARD ft_status jinja_put_str(struct jinja_run *r, struct jinja_builder *b,
                                     const struct jinja_str *s);
FT_NODISCARD ft_status jinja_put_sub(struct jinja_run *r, struct jinja_builder *b,
                                     const struct jinja_str *s, size_t from, size_t to);
FT_NODISCARD ft_status jinja_put_char(struct jinja_run *r, struct jinja_builder *b, uint32_t c,
                                      uint32_t origin);
FT_NODISCARD ft_status jinja_built(struct jinja_value *out, struct jinja_run *r,
                                   struct jinja_builder *b);
FT_NODISCARD ft_status jinja_new_text(struct jinja_value *out, struct jinja_run *r, str text,
                                      uint32_t origin); /* borrowed */
FT_NODISCARD ft_status jinja_copy_text(struct jinja_value *out, struct jinja_run *r, str text,
                                       uint32_t origin);
/* Bytes [from, to), sharing the text. */
FT_NODISCARD ft_status jinja_substring(struct jinja_value *out, struct jinja_run *r,
                                       struct jinja_value s, size_t from, size_t to);
FT_NODISCARD ft_status jinja_const_text(struct jinja_value *out, struct arena *a, str text,
                                        ft_error *err);
FT_NODISCARD ft_status jinja_const_big(struct jinja_value *out, struct arena *a, str digits,
                                       ft_error *err);
str jinja_view(struct jinja_value s);
uint32_t jinja_str_origin(const struct jinja_str *s); /* mixed over all of it */

/* Walks code points with their origins. */
struct jinja_cursor {
    const struct jinja_str *s;
    size_t at, piece;
};
bool jinja_cursor_next(struct jinja_cursor *c, uint32_t *code_point, uint32_t *origin);

size_t jinja_count_chars(str s);
/* Byte offset of the n-th code point; s.len behind the end. */
size_t jinja_char_offset(str s, size_t n);
/* Offset of needle at or behind `from`, SIZE_MAX when there is none. */
size_t jinja_find(str s, str needle, size_t from);
size_t jinja_rfind(str s, str needle, size_t to); /* last one that ends at or before `to` */

enum jinja_case {
    JINJA_TO_LOWER,
    JINJA_TO_UPPER,
    JINJA_TO_TITLE,
    JINJA_TO_CAPITAL,
    JINJA_TO_SWAPPED,
    JINJA_TO_FOLDED
};
FT_NODISCARD ft_status jinja_put_case(struct jinja_run *r, struct jinja_builder *b,
                                      const struct jinja_str *s, enum jinja_case to);
FT_NODISCARD ft_status jinja_recase(struct jinja_value *out, struct jinja_run *r,
                                    struct jinja_value s, enum jinja_case to);
/* Without the characters of `set` (NULL: white space) on the sides asked for. */
FT_NODISCARD ft_status jinja_strip(struct jinja_value *out, struct jinja_run *r,
                                   struct jinja_value s, const struct jinja_value *set, bool left,
                                   bool right);
FT_NODISCARD ft_status jinja_concat(struct jinja_value *out, struct jinja_run *r,
                                    struct jinja_value a, struct jinja_value b);
FT_NODISCARD ft_status jinja_replace(struct jinja_value *out, struct jinja_run *r,
                                     struct jinja_value s, struct jinja_value old,
                                     struct jinja_value new, int64_t count);
FT_NODISCARD ft_status jinja_escape(struct jinja_value *out, struct jinja_run *r,
                                    struct jinja_value s); /* of HTML; gives Markup */

/* --- values (jinja_value.c) ------------------------------------------------------------------ */

struct jinja_value jinja_int(int64_t i);
struct jinja_value jinja_float(double f);
struct jinja_value jinja_missing(void);
FT_NODISCARD ft_status jinja_undefined(struct jinja_value *out, struct jinja_run *r,
                                       const char *hint);
/* "NAME is undefined" or "OWNER has no attribute NAME". */
FT_NODISCARD ft_status jinja_undefined_name(struct jinja_value *out, struct jinja_run *r,
                                            const char *owner, str name, bool unsafe);
FT_NODISCARD ft_status jinja_raise_undefined(struct jinja_run *r, struct jinja_value v);
FT_NODISCARD ft_status jinja_new_seq(struct jinja_value *out, struct jinja_run *r,
                                     enum jinja_type type, size_t cap);
FT_NODISCARD ft_status jinja_push(struct jinja_run *r, struct jinja_seq *s, struct jinja_value v);
FT_NODISCARD ft_status jinja_new_dict(struct jinja_value *out, struct jinja_run *r);
FT_NODISCARD ft_status jinja_dict_set(struct jinja_run *r, struct jinja_dict *d,
                                      struct jinja_value key, struct jinja_value v);
/* NULL when absent; FT_EFORMAT when the key cannot be hashed. */
FT_NODISCARD ft_status jinja_dict_get(struct jinja_value **out, struct jinja_run *r,
                                      const struct jinja_dict *d, struct jinja_value key);
struct jinja_value *jinja_dict_at(const struct jinja_dict *d, str key); /* NULL when absent */
FT_NODISCARD ft_status jinja_pair(struct jinja_value *out, struct jinja_run *r,
                                  struct jinja_value a, struct jinja_value b);

const char *jinja_type_name(struct jinja_value v); /* of Python: "str", "NoneType"... */
bool jinja_is_int(struct jinja_value v); /* int or bool within 64 bits: .as.i by jinja_to_int */
int64_t jinja_to_int(struct jinja_value v);
bool jinja_is_number(struct jinja_value v); /* int, bool, float */
double jinja_to_float(struct jinja_value v);
bool jinja_truth(struct jinja_value v);
FT_NODISCARD ft_status jinja_length(int64_t *out, struct jinja_run *r, struct jinja_value v);
FT_NODISCARD ft_status jinja_equal(bool *out, struct jinja_run *r, struct jinja_value a,
                                   struct jinja_value b);
/* op: JT_EQ ... JT_GTEQ, JINJA_IN, JINJA_NOT_IN. */
FT_NODISCARD ft_status jinja_compare(bool *out, struct jinja_run *r, int op, struct jinja_value a,
                                     struct jinja_value b);
FT_NODISCARD ft_status jinja_hash(uint64_t *out, struct jinja_run *r, struct jinja_value v);

/* --- iteration (jinja_iter.c) ---------------------------------------------------------------- */

FT_NODISCARD ft_status jinja_iterate(struct jinja_iter **out, struct jinja_run *r,
                                     struct jinja_value v);
/* done: there was no further item. */
FT_NODISCARD ft_status jinja_next(struct jinja_run *r, struct jinja_iter *it,
                                  struct jinja_value *out, bool *done);
FT_NODISCARD ft_status jinja_reversed(struct jinja_iter **out, struct jinja_run *r,
                                      struct jinja_value v);
/* A fresh list or tuple of all items. */
FT_NODISCARD ft_status jinja_collect(struct jinja_value *out, struct jinja_run *r,
                                     struct jinja_value v, enum jinja_type type);
struct jinja_value jinja_iter_value(struct jinja_iter *it);
bool jinja_can_iterate(struct jinja_value v);
FT_NODISCARD ft_status jinja_new_range(struct jinja_value *out, struct jinja_run *r, int64_t start,
                                       int64_t stop, int64_t step);

/* --- printing (jinja_print.c) ---------------------------------------------------------------- */

FT_NODISCARD ft_status jinja_put_value(struct jinja_run *r, struct jinja_builder *b,
                                       struct jinja_value v); /* str(v) */
FT_NODISCARD ft_status jinja_put_repr(struct jinja_run *r, struct jinja_builder *b,
                                      struct jinja_value v);
FT_NODISCARD ft_status jinja_to_text(struct jinja_value *out, struct jinja_run *r,
                                     struct jinja_value v); /* str(v); strings as they are */
enum { JINJA_FLOAT_TEXT = 40 };
void jinja_float_text(char out[JINJA_FLOAT_TEXT], double f); /* repr(f) */

/* --- operators (jinja_ops.c) ----------------------------------------------------------------- */

FT_NODISCARD ft_status jinja_binary(struct jinja_value *out, struct jinja_run *r, int op,
                                    struct jinja_value a, struct jinja_value b);
FT_NODISCARD ft_status jinja_negate(struct jinja_value *out, struct jinja_run *r, bool minus,
                                    struct jinja_value v);
FT_NODISCARD ft_status jinja_getattr(struct jinja_value *out, struct jinja_run *r,
                                     struct jinja_value object, str name);
FT_NODISCARD ft_status jinja_getitem(struct jinja_value *out, struct jinja_run *r,
                                     struct jinja_value object, struct jinja_value key);
bool jinja_can_slice(struct jinja_value v);
/* parts: start, stop, step; JV_NONE = not given. */
FT_NODISCARD ft_status jinja_slice(struct jinja_value *out, struct jinja_run *r,
                                   struct jinja_value object, const struct jinja_value parts[3]);
/* Slice bounds of a sequence of n items as Python normalises them. */
void jinja_slice_bounds(int64_t n, int64_t *from, int64_t *to);

/* --- formatting (jinja_format.c) ------------------------------------------------------------- */

FT_NODISCARD ft_status jinja_percent(struct jinja_value *out, struct jinja_run *r,
                                     struct jinja_value format, struct jinja_value values);
FT_NODISCARD ft_status jinja_str_format(struct jinja_value *out, struct jinja_run *r,
                                        struct jinja_value format, const struct jinja_call *call);
FT_NODISCARD ft_status jinja_strftime(struct jinja_value *out, struct jinja_run *r,
                                      struct jinja_value format);
/* int(text, base) and float(text) of Python; false when the text is no number. */
FT_NODISCARD ft_status jinja_parse_int(struct jinja_value *out, bool *ok, struct jinja_run *r,
                                       str text, int64_t base);
bool jinja_parse_float(double *out, str text);

/* --- calls (jinja_call.c) -------------------------------------------------------------------- */

/* Binds a call to names ("value,width=4"): what stands behind = only says that it may be left out;
 * such slots become JV_MISSING. A * in front: everything is positional only. */
FT_NODISCARD ft_status jinja_bind(struct jinja_value *out, size_t n_out, struct jinja_run *r,
                                  const char *what, const char *signature,
                                  const struct jinja_call *call);
FT_NODISCARD ft_status jinja_call(struct jinja_value *out, struct jinja_run *r,
                                  struct jinja_value callee, const struct jinja_call *call);
/* Global function of that name, JV_MISSING when there is none. */
struct jinja_value jinja_global(str name);
/* Methods (jinja_methods.c): the id of a method of v's type, -1 when there is none. */
enum jinja_attribute {
    JINJA_NO_ATTRIBUTE = -1,
    JINJA_UNSAFE_ATTRIBUTE = -2,
    JINJA_OTHER_ATTRIBUTE = -3
};
int jinja_method_find(struct jinja_value v, str name);
FT_NODISCARD ft_status jinja_method_call(struct jinja_value *out, struct jinja_run *r,
                                         const struct jinja_method *m,
                                         const struct jinja_call *call);

/* --- filters and tests ----------------------------------------------------------------------- */

int jinja_filter_find(str name); /* -1 when there is none */
FT_NODISCARD ft_status jinja_filter_call(struct jinja_value *out, struct jinja_run *r, int id,
                                         struct jinja_value v, const struct jinja_call *call);
int jinja_test_find(str name);
FT_NODISCARD ft_status jinja_test_call(bool *out, struct jinja_run *r, int id, struct jinja_value v,
                                       const struct jinja_call *call);
/* The same by a name that is only known now (map, select...). */
FT_NODISCARD ft_status jinja_filter_named(struct jinja_value *out, struct jinja_run *r,
                                          struct jinja_value name, struct jinja_value v,
                                          const struct jinja_call *call);
FT_NODISCARD ft_status jinja_test_named(bool *out, struct jinja_run *r, struct jinja_value name,
                                        struct jinja_value v, const struct jinja_call *call);
/* a: the bound arguments, the value first. */
typedef ft_status jinja_filter(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a);
/* jinja_sequences.c and jinja_tojson.c */
jinja_filter jinja_batch, jinja_slices, jinja_dictsort, jinja_sort, jinja_unique, jinja_min,
    jinja_max, jinja_sum, jinja_groupby, jinja_join, jinja_reverse, jinja_first, jinja_last,
    jinja_tojson;
enum jinja_lazy { JINJA_MAP, JINJA_SELECT, JINJA_REJECT, JINJA_SELECTATTR, JINJA_REJECTATTR };
FT_NODISCARD ft_status jinja_lazy_filter(struct jinja_value *out, struct jinja_run *r,
                                         enum jinja_lazy mode, struct jinja_value v,
                                         const struct jinja_call *call);

/* --- evaluation (jinja_eval.c, jinja_exec.c) ------------------------------------------------- */

FT_NODISCARD ft_status jinja_eval(struct jinja_value *out, struct jinja_run *r,
                                  const struct jinja_node *n);
/* Values and names of a call's arguments. */
FT_NODISCARD ft_status jinja_eval_args(struct jinja_call *out, struct jinja_run *r,
                                       const struct jinja_args *args);
FT_NODISCARD ft_status jinja_assign(struct jinja_run *r, const struct jinja_node *target,
                                    struct jinja_value v);
FT_NODISCARD ft_status jinja_macro_call(struct jinja_value *out, struct jinja_run *r,
                                        const struct jinja_macro *m, const struct jinja_call *call);
FT_NODISCARD ft_status jinja_loop_call(struct jinja_value *out, struct jinja_run *r,
                                       const struct jinja_loop *l, struct jinja_value iterable);
FT_NODISCARD ft_status jinja_loop_attribute(struct jinja_value *out, bool *found,
                                            struct jinja_run *r, struct jinja_loop *l, str name);
/* Renders the whole template into r->out. */
FT_NODISCARD ft_status jinja_exec_root(struct jinja_run *r);
struct jinja_value *jinja_slot(struct jinja_run *r, struct jinja_ref ref);

#endif
