/* SPDX-License-Identifier: Apache-2.0
 * Options declared once in a table: the same row gives the default, the command-line flag or the
 * configuration key, the checks, the help text, the man page and the resolved dump. */
#ifndef COMMON_OPT_H
#define COMMON_OPT_H

#include <stdio.h>

#include "common/arena.h"
#include "common/buf.h"

struct opt_list {
    const char **items;
    size_t n;
};

enum opt_type {
    OPT_BOOL,   /* bool */
    OPT_INT,    /* int64_t */
    OPT_FLOAT,  /* double */
    OPT_STRING, /* const char *, NULL when the default is NULL */
    OPT_CHOICE, /* int, index into choices */
    OPT_LIST,   /* struct opt_list of strings; "a,b" or repeated */
};

struct opt {
    const char *name; /* flag "max-length" (given as --max-length) or key "optimizer.lr" */
    enum opt_type type;
    size_t offset;       /* of the field in the values struct */
    const char *def;     /* as text; NULL = unset (required when `required`) */
    double min, max;     /* numbers: inclusive; both 0 = unchecked */
    const char *choices; /* "a|b|c" */
    const char *metavar; /* "N", "DIR" */
    const char *help;    /* one sentence, no full stop */
    bool required;
};

/* Values being filled: a struct, which rows were set by the user, and the memory of the strings. */
struct opt_set {
    const struct opt *table;
    size_t n;
    void *values;
    bool *given; /* [n] */
    struct arena arena;
};

/* Applies the defaults. values must outlive the set, opt_set_destroy frees the strings. */
FT_NODISCARD ft_status opt_set_init(struct opt_set *s, const struct opt *table, size_t n,
                                    void *values, ft_error *err);
void opt_set_destroy(struct opt_set *s);

const struct opt *opt_find(const struct opt_set *s, str name);
bool opt_given(const struct opt_set *s, const char *name); /* asserts that name exists */
/* Parses text into the field. Errors name the option, the value and what was expected. A second
 * value for a list appends. */
FT_NODISCARD ft_status opt_assign(struct opt_set *s, const struct opt *o, str text, ft_error *err);
/* Appends one item to a list as it is, commas included. */
FT_NODISCARD ft_status opt_append(struct opt_set *s, const struct opt *o, str item, ft_error *err);
/* Back to the default, as if the user had not given it. */
FT_NODISCARD ft_status opt_reset(struct opt_set *s, const struct opt *o, ft_error *err);
/* FT_EUSAGE: "unknown <kind> NAME; did you mean ...?" */
FT_NODISCARD ft_status opt_unknown(const struct opt_set *s, const char *kind, str name,
                                   ft_error *err);
/* Every required row must have been given. */
FT_NODISCARD ft_status opt_check_required(const struct opt_set *s, const char *prefix,
                                          ft_error *err);
/* The value as JSON text (numbers, true/false, quoted strings, arrays, null). */
void opt_value_json(struct buf *out, const struct opt_set *s, const struct opt *o);
/* Quotes and escapes s as a JSON string. */
void opt_json_string(struct buf *out, str s);

/* --- programs and sub-commands --------------------------------------------------------------- */

struct command {
    const char *name;     /* "build" */
    const char *summary;  /* one line for the list of commands */
    const char *usage;    /* positional arguments: "INPUT..." */
    const char *details;  /* paragraphs for --help and the man page; may be NULL */
    const char *examples; /* one per line, each "command   # what it does"; may be NULL */
    const struct opt *options;
    size_t n_options;
    size_t values_bytes;      /* size of the values struct */
    int min_args, max_args;   /* positional arguments; max_args -1 = any number */
    const struct opt *config; /* extra rows shown as configuration keys; may be NULL */
    size_t n_config;
    ft_status (*run)(void *values, int n_args, const char **args, ft_error *err);
};

struct program {
    const char *name, *summary, *version;
    const char *exit_codes; /* one per line */
    const struct command *commands;
    size_t n_commands;
};

/* Everything main() does: picks the command, parses --flag value, --flag=value, --no-flag for
 * booleans, -- ; prints help, version and man pages (`NAME man [COMMAND]`, roff on stdout); runs;
 * prints the error; returns the exit code. */
int program_main(const struct program *p, int argc, char **argv);

#endif
