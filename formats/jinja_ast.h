/* SPDX-License-Identifier: Apache-2.0
 * Between the stages of the template compiler: tokens, syntax trees and resolved names. */
#ifndef FORMATS_JINJA_AST_H
#define FORMATS_JINJA_AST_H

#include "formats/jinja.h"

/* --- tokens ---------------------------------------------------------------------------------- */

enum jinja_token_type {
    JT_EOF,
    JT_DATA,
    JT_VARIABLE_BEGIN,
    JT_VARIABLE_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INTEGER,
    JT_FLOAT,
    JT_ADD,
    JT_SUB,
    JT_MUL,
    JT_POW,
    JT_DIV,
    JT_FLOORDIV,
    JT_MOD,
    JT_TILDE,
    JT_EQ,
    JT_NE,
    JT_LT,
    JT_LTEQ,
    JT_GT,
    JT_GTEQ,
    JT_ASSIGN,
    JT_DOT,
    JT_COLON,
    JT_COMMA,
    JT_SEMICOLON,
    JT_PIPE,
    JT_LPAREN,
    JT_RPAREN,
    JT_LBRACKET,
    JT_RBRACKET,
    JT_LBRACE,
    JT_RBRACE,
};

struct jinja_token {
    enum jinja_token_type type;
    uint32_t at; /* byte offset in the source */
    str text;    /* of data, names and numbers; the content of strings, without escapes */
};

struct jinja_tokens {
    struct jinja_token *items; /* on the heap, the last one is JT_EOF */
    size_t n, cap;
};

/* Source with \n line ends and without the last one, as the lexer expects it. */
FT_NODISCARD ft_status jinja_normalize(str *out, struct arena *a, str source, ft_error *err);
FT_NODISCARD ft_status jinja_lex(struct jinja_tokens *out, struct arena *a, const char *name,
                                 str source, ft_error *err);
void jinja_tokens_free(struct jinja_tokens *t);
/* What stands in messages for a token. */
const char *jinja_token_name(enum jinja_token_type t);
/* FT_EFORMAT "NAME: line L, column C: message". */
FT_NODISCARD ft_status jinja_fail_at(ft_error *err, ft_status st, const char *name, str source,
                                     uint32_t at, const char *fmt, ...) FT_PRINTF(6, 7);

/* --- syntax trees ---------------------------------------------------------------------------- */

enum jinja_kind {
    /* expressions */
    JN_CONST,   /* value */
    JN_NAME,    /* text, ref */
    JN_NSREF,   /* text.attribute as a target: ref, attribute */
    JN_TUPLE,   /* list */
    JN_LIST,    /* list */
    JN_DICT,    /* list: key, value, key, value... */
    JN_COND,    /* a if b else c (NULL = none) */
    JN_AND,     /* a and b */
    JN_OR,      /* a or b */
    JN_NOT,     /* not a */
    JN_NEG,     /* -a */
    JN_POS,     /* +a */
    JN_BINARY,  /* a op b; op: token type */
    JN_CONCAT,  /* list, joined by ~ */
    JN_COMPARE, /* a, then list of JN_OPERAND */
    JN_OPERAND, /* op: token type or enum jinja_membership; a */
    JN_GETATTR, /* a.text */
    JN_GETITEM, /* a[b] */
    JN_SLICE,   /* a:b:c, any of them NULL */
    JN_CALL,    /* a(args) */
    JN_FILTER,  /* a|text(args), a = NULL: the block's text; filter */
    JN_TEST,    /* a is text(args); test */
    /* statements */
    JN_OUTPUT,       /* list of expressions */
    JN_DATA,         /* text: template data, inside JN_OUTPUT */
    JN_IF,           /* a: test, body, list: JN_IFs of elif branches, orelse */
    JN_FOR,          /* a: target, b: iterable, c: condition, body, orelse, recursive */
    JN_SET,          /* a: target, b: expression */
    JN_SET_BLOCK,    /* a: target, b: filter or NULL, body */
    JN_WITH,         /* list: target, value, target, value..., body */
    JN_MACRO,        /* text, params, body */
    JN_CALL_BLOCK,   /* a: JN_CALL, params, body */
    JN_GENERATION,   /* body; a call block of its own in Jinja, with a scope of that kind */
    JN_FILTER_BLOCK, /* b: filter, body */
    JN_BREAK,
    JN_CONTINUE,
};

enum jinja_membership { JINJA_IN = 100, JINJA_NOT_IN };

/* A list of nodes. */
struct jinja_nodes {
    struct jinja_node **items;
    size_t n;
};

struct jinja_keyword {
    str name;
    struct jinja_node *value;
};

struct jinja_args {
    struct jinja_nodes positional;
    struct jinja_keyword *keywords;
    size_t n_keywords;
    struct jinja_node *star, *double_star; /* NULL = none */
};

/* Where a variable lives: `hops` functions up, in that slot. */
struct jinja_ref {
    uint16_t hops, slot;
};

enum jinja_load_action { JINJA_LOAD_PARAM, JINJA_LOAD_CONTEXT, JINJA_LOAD_ALIAS, JINJA_LOAD_UNSET };

/* What happens to a variable when its frame is entered. */
struct jinja_load {
    enum jinja_load_action action;
    uint16_t slot;
    struct jinja_ref from; /* of an alias */
    str name;              /* looked up in the context */
};

struct jinja_frame {
    struct jinja_load *loads;
    size_t n;
};

/* Macros, call blocks, recursive loops and loop conditions: what has variables of its own. */
struct jinja_function {
    str name;                   /* empty = anonymous */
    struct jinja_node **params; /* JN_NAME */
    struct jinja_node **defaults;
    size_t n_params, n_defaults; /* the defaults belong to the last parameters */
    struct jinja_frame frame;
    size_t n_slots;
    bool takes_caller, takes_kwargs, takes_varargs;
    uint16_t caller_slot, kwargs_slot, varargs_slot;
};

struct jinja_node {
    uint8_t kind; /* enum jinja_kind */
    uint8_t op;
    bool lenient;             /* slices in constant output: what cannot be sliced is undefined */
    bool recursive, extended; /* loops: called again by name; with a `loop` variable */
    uint16_t depth;           /* 1 + the deepest child */
    uint16_t loop_slot;
    uint32_t at;
    struct jinja_node *a, *b, *c;
    str text;
    str attribute;
    struct jinja_ref ref;
    struct jinja_value value;
    struct jinja_nodes list, body, orelse;
    struct jinja_args args;
    int builtin;                      /* index of a filter or test, -1 = unknown */
    struct jinja_function *function;  /* of macros, call blocks, recursive loops */
    struct jinja_function *condition; /* of loops with an if */
    struct jinja_frame frame, else_frame;
};

struct jinja {
    const char *name;
    str source; /* normalised */
    struct jinja_nodes body;
    struct jinja_function root;
    bool has_generation;
    struct arena arena;
};

/* Source to tree: jinja_parse.c for statements, jinja_expr.c for expressions. */
struct jinja_parser {
    struct jinja *t;
    const struct jinja_token *token;
    ft_error *err;
    size_t depth;
};

enum { JINJA_MAX_NESTING = 100, JINJA_MAX_DEPTH = 250, JINJA_MAX_SOURCE = 1 << 20 };

FT_NODISCARD ft_status jinja_parse(struct jinja *t, const struct jinja_token *tokens,
                                   ft_error *err);

/* Fails at a token or node. */
FT_NODISCARD ft_status jinja_parse_fail(struct jinja_parser *p, uint32_t at, const char *fmt, ...)
    FT_PRINTF(3, 4);
FT_NODISCARD ft_status jinja_node_new(struct jinja_node **out, struct jinja_parser *p,
                                      enum jinja_kind kind, uint32_t at);
/* Appends; grows by doubling inside the arena. */
FT_NODISCARD ft_status jinja_nodes_push(struct jinja_parser *p, struct jinja_nodes *list,
                                        struct jinja_node *n);
bool jinja_token_is(const struct jinja_parser *p, const char *name);
bool jinja_skip_name(struct jinja_parser *p, const char *name);
bool jinja_skip(struct jinja_parser *p, enum jinja_token_type type);
FT_NODISCARD ft_status jinja_expect(struct jinja_parser *p, enum jinja_token_type type);
FT_NODISCARD ft_status jinja_expect_name(struct jinja_parser *p, const char *name);

/* One expression; `conditional`: with "if ... else" at its top. */
FT_NODISCARD ft_status jinja_parse_expression(struct jinja_node **out, struct jinja_parser *p,
                                              bool conditional);
/* One expression, or several with commas. end: a name that ends the list too, or NULL. */
FT_NODISCARD ft_status jinja_parse_tuple(struct jinja_node **out, struct jinja_parser *p,
                                         bool conditional, const char *end);
/* A name, a tuple of names and, with `namespaces`, attributes of namespaces. */
FT_NODISCARD ft_status jinja_parse_target(struct jinja_node **out, struct jinja_parser *p,
                                          bool namespaces, const char *end);
FT_NODISCARD ft_status jinja_parse_name_target(struct jinja_node **out, struct jinja_parser *p);
/* Filters behind node (NULL: the text of a block). inline: the first | has been left out. */
FT_NODISCARD ft_status jinja_parse_filters(struct jinja_node **out, struct jinja_parser *p,
                                           struct jinja_node *node, bool without_pipe);

/* Gives every name its place (jinja_scope.c), and checks what Jinja checks when it compiles. */
FT_NODISCARD ft_status jinja_resolve(struct jinja *t, ft_error *err);

#endif
