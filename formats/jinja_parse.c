/* SPDX-License-Identifier: Apache-2.0
 * Statements of templates: tokens to trees. The grammar follows Jinja's parser step by step, so
 * that the same texts are accepted. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/jinja_ast.h"

/* --- shared with jinja_expr.c ---------------------------------------------------------------- */

ft_status jinja_parse_fail(struct jinja_parser *p, uint32_t at, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return jinja_fail_at(p->err, FT_EFORMAT, p->t->name, p->t->source, at, "%s", text);
}

static ft_status no_memory(struct jinja_parser *p)
{
    return ft_fail_memory(p->err, sizeof(struct jinja_node), "a template");
}

ft_status jinja_node_new(struct jinja_node **out, struct jinja_parser *p, enum jinja_kind kind,
                         uint32_t at)
{
    struct jinja_node *n = arena_alloc(&p->t->arena, 1, sizeof *n);
    if (n == NULL)
        return no_memory(p);
    n->kind = (uint8_t)kind;
    n->at = at;
    n->depth = 1;
    *out = n;
    return FT_OK;
}

ft_status jinja_nodes_push(struct jinja_parser *p, struct jinja_nodes *list, struct jinja_node *n)
{
    if ((list->n & (list->n - 1)) == 0) { /* full: it grows at each power of two */
        size_t cap = list->n == 0 ? 1 : list->n * 2;
        struct jinja_node **grown = arena_alloc(&p->t->arena, cap, sizeof(struct jinja_node *));
        if (grown == NULL)
            return no_memory(p);
        if (list->n > 0)
            memcpy(grown, list->items, list->n * sizeof(struct jinja_node *));
        list->items = grown;
    }
    list->items[list->n++] = n;
    return FT_OK;
}

bool jinja_token_is(const struct jinja_parser *p, const char *name)
{
    return p->token->type == JT_NAME && str_is(p->token->text, name);
}

bool jinja_skip_name(struct jinja_parser *p, const char *name)
{
    bool is = jinja_token_is(p, name);
    p->token += is;
    return is;
}

bool jinja_skip(struct jinja_parser *p, enum jinja_token_type type)
{
    bool is = p->token->type == type;
    p->token += is && type != JT_EOF;
    return is;
}

static ft_status unexpected(struct jinja_parser *p, const char *expected)
{
    const struct jinja_token *t = p->token;
    if (t->type == JT_NAME)
        return jinja_parse_fail(p, t->at, "expected '%s', found '%.*s'", expected,
                                STR_ARG(t->text));
    return jinja_parse_fail(p, t->at, "expected '%s', found '%s'", expected,
                            jinja_token_name(t->type));
}

ft_status jinja_expect(struct jinja_parser *p, enum jinja_token_type type)
{
    return jinja_skip(p, type) ? FT_OK : unexpected(p, jinja_token_name(type));
}

ft_status jinja_expect_name(struct jinja_parser *p, const char *name)
{
    return jinja_skip_name(p, name) ? FT_OK : unexpected(p, name);
}

/* --- bodies ---------------------------------------------------------------------------------- */

/* Up to four names that end a body. */
struct ends {
    const char *names[4];
};

static ft_status parse_statement(struct jinja_node **out, struct jinja_parser *p);

static bool at_end(const struct jinja_parser *p, const struct ends *ends)
{
    for (size_t i = 0; ends != NULL && i < ARRAY_LEN(ends->names); i++)
        if (ends->names[i] != NULL && jinja_token_is(p, ends->names[i]))
            return true;
    return false;
}

/* Neighbouring texts and expressions share one JN_OUTPUT. */
static ft_status add_output(struct jinja_parser *p, struct jinja_nodes *body,
                            struct jinja_node *child)
{
    struct jinja_node *last = body->n == 0 ? NULL : body->items[body->n - 1];
    if (last == NULL || last->kind != JN_OUTPUT) {
        FT_TRY(jinja_node_new(&last, p, JN_OUTPUT, child->at));
        FT_TRY(jinja_nodes_push(p, body, last));
    }
    return jinja_nodes_push(p, &last->list, child);
}

static ft_status parse_data(struct jinja_parser *p, struct jinja_nodes *body)
{
    struct jinja_node *n = NULL;
    FT_TRY(jinja_node_new(&n, p, JN_DATA, p->token->at));
    n->text = p->token->text;
    p->token++;
    return add_output(p, body, n);
}

static ft_status parse_variable(struct jinja_parser *p, struct jinja_nodes *body)
{
    struct jinja_node *n = NULL;
    p->token++;
    FT_TRY(jinja_parse_tuple(&n, p, true, NULL));
    FT_TRY(jinja_expect(p, JT_VARIABLE_END));
    return add_output(p, body, n);
}

/* Up to the name of an end tag, which stays the current token. ends NULL: the whole template. */
static ft_status parse_body(struct jinja_nodes *body, struct jinja_parser *p,
                            const struct ends *ends)
{
    struct jinja_node *n = NULL;
    if (++p->depth > JINJA_MAX_NESTING)
        return jinja_parse_fail(p, p->token->at, "statements nested deeper than %d",
                                JINJA_MAX_NESTING);
    for (; p->token->type != JT_EOF;) {
        if (p->token->type == JT_DATA) {
            FT_TRY(parse_data(p, body));
        } else if (p->token->type == JT_VARIABLE_BEGIN) {
            FT_TRY(parse_variable(p, body));
        } else {
            FT_TRY(jinja_expect(p, JT_BLOCK_BEGIN));
            if (at_end(p, ends))
                break;
            FT_TRY(parse_statement(&n, p));
            FT_TRY(jinja_nodes_push(p, body, n));
            FT_TRY(jinja_expect(p, JT_BLOCK_END));
        }
    }
    p->depth--;
    if (ends != NULL && p->token->type == JT_EOF)
        return jinja_parse_fail(p, p->token->at, "the template ends, but '%s' is missing",
                                ends->names[0]);
    return FT_OK;
}

/* The end of a tag (a colon may stand before it) and the body behind it. */
static ft_status parse_block(struct jinja_nodes *body, struct jinja_parser *p, struct ends ends)
{
    jinja_skip(p, JT_COLON);
    FT_TRY(jinja_expect(p, JT_BLOCK_END));
    return parse_body(body, p, &ends);
}

static ft_status parse_block_and_end(struct jinja_nodes *body, struct jinja_parser *p,
                                     const char *end)
{
    FT_TRY(parse_block(body, p, (struct ends){{end}}));
    p->token++;
    return FT_OK;
}

/* --- statements ------------------------------------------------------------------------------ */

static ft_status parse_set(struct jinja_parser *p, struct jinja_node *n)
{
    FT_TRY(jinja_parse_target(&n->a, p, true, NULL));
    if (jinja_skip(p, JT_ASSIGN))
        return jinja_parse_tuple(&n->b, p, true, NULL);
    n->kind = JN_SET_BLOCK;
    FT_TRY(jinja_parse_filters(&n->b, p, NULL, false));
    return parse_block_and_end(&n->body, p, "endset");
}

static ft_status parse_for(struct jinja_parser *p, struct jinja_node *n)
{
    FT_TRY(jinja_parse_target(&n->a, p, false, "in"));
    FT_TRY(jinja_expect_name(p, "in"));
    FT_TRY(jinja_parse_tuple(&n->b, p, false, "recursive"));
    if (jinja_skip_name(p, "if"))
        FT_TRY(jinja_parse_expression(&n->c, p, true));
    n->recursive = jinja_skip_name(p, "recursive");
    FT_TRY(parse_block(&n->body, p, (struct ends){{"endfor", "else"}}));
    bool has_else = jinja_token_is(p, "else");
    p->token++;
    return has_else ? parse_block_and_end(&n->orelse, p, "endfor") : FT_OK;
}

/* A chain of elif becomes JN_IFs in orelse, each tried in turn; what follows them is the else. */
static ft_status parse_if(struct jinja_parser *p, struct jinja_node *n)
{
    struct jinja_node *branch = n;
    for (;;) {
        FT_TRY(jinja_parse_tuple(&branch->a, p, false, NULL));
        FT_TRY(parse_block(&branch->body, p, (struct ends){{"endif", "elif", "else"}}));
        uint32_t at = p->token->at;
        if (jinja_skip_name(p, "else"))
            return parse_block_and_end(&n->orelse, p, "endif");
        if (jinja_skip_name(p, "endif"))
            return FT_OK;
        p->token++;
        FT_TRY(jinja_node_new(&branch, p, JN_IF, at));
        FT_TRY(jinja_nodes_push(p, &n->list, branch));
    }
}

static ft_status parse_with(struct jinja_parser *p, struct jinja_node *n)
{
    struct jinja_node *target, *value;
    while (p->token->type != JT_BLOCK_END) {
        if (n->list.n > 0)
            FT_TRY(jinja_expect(p, JT_COMMA));
        FT_TRY(jinja_parse_target(&target, p, false, NULL));
        FT_TRY(jinja_expect(p, JT_ASSIGN));
        FT_TRY(jinja_parse_expression(&value, p, true));
        FT_TRY(jinja_nodes_push(p, &n->list, target));
        FT_TRY(jinja_nodes_push(p, &n->list, value));
    }
    return parse_block_and_end(&n->body, p, "endwith");
}

static ft_status new_function(struct jinja_parser *p, struct jinja_node *n)
{
    n->function = arena_alloc(&p->t->arena, 1, sizeof *n->function);
    return n->function == NULL ? no_memory(p) : FT_OK;
}

static ft_status parse_signature(struct jinja_parser *p, struct jinja_function *f)
{
    struct jinja_nodes params = {0}, defaults = {0};
    struct jinja_node *n;
    FT_TRY(jinja_expect(p, JT_LPAREN));
    while (p->token->type != JT_RPAREN) {
        if (params.n > 0)
            FT_TRY(jinja_expect(p, JT_COMMA));
        FT_TRY(jinja_parse_name_target(&n, p));
        FT_TRY(jinja_nodes_push(p, &params, n));
        if (jinja_skip(p, JT_ASSIGN)) {
            FT_TRY(jinja_parse_expression(&n, p, true));
            FT_TRY(jinja_nodes_push(p, &defaults, n));
        } else if (defaults.n > 0) {
            return jinja_parse_fail(p, p->token->at,
                                    "a parameter without default behind one that has one");
        }
    }
    f->params = params.items;
    f->n_params = params.n;
    f->defaults = defaults.items;
    f->n_defaults = defaults.n;
    return jinja_expect(p, JT_RPAREN);
}

static ft_status parse_macro(struct jinja_parser *p, struct jinja_node *n)
{
    struct jinja_node *name;
    FT_TRY(new_function(p, n));
    FT_TRY(jinja_parse_name_target(&name, p));
    n->text = n->function->name = name->text;
    FT_TRY(parse_signature(p, n->function));
    return parse_block_and_end(&n->body, p, "endmacro");
}

static ft_status parse_call(struct jinja_parser *p, struct jinja_node *n)
{
    FT_TRY(new_function(p, n));
    if (p->token->type == JT_LPAREN)
        FT_TRY(parse_signature(p, n->function));
    FT_TRY(jinja_parse_expression(&n->a, p, true));
    if (n->a->kind != JN_CALL)
        return jinja_parse_fail(p, n->at, "expected a call");
    return parse_block_and_end(&n->body, p, "endcall");
}

static ft_status parse_generation(struct jinja_parser *p, struct jinja_node *n)
{
    p->t->has_generation = true;
    FT_TRY(new_function(p, n));
    return parse_block_and_end(&n->body, p, "endgeneration");
}

static ft_status parse_filter_block(struct jinja_parser *p, struct jinja_node *n)
{
    FT_TRY(jinja_parse_filters(&n->b, p, NULL, true));
    return parse_block_and_end(&n->body, p, "endfilter");
}

static ft_status parse_print(struct jinja_parser *p, struct jinja_node *n)
{
    struct jinja_node *child;
    while (p->token->type != JT_BLOCK_END) {
        if (n->list.n > 0)
            FT_TRY(jinja_expect(p, JT_COMMA));
        FT_TRY(jinja_parse_expression(&child, p, true));
        FT_TRY(jinja_nodes_push(p, &n->list, child));
    }
    return FT_OK;
}

static ft_status parse_bare(struct jinja_parser *p, struct jinja_node *n)
{
    (void)p, (void)n;
    return FT_OK;
}

static const struct {
    const char *tag;
    enum jinja_kind kind;
    ft_status (*parse)(struct jinja_parser *p, struct jinja_node *n);
} statements[] = {
    {"set", JN_SET, parse_set},
    {"for", JN_FOR, parse_for},
    {"if", JN_IF, parse_if},
    {"macro", JN_MACRO, parse_macro},
    {"call", JN_CALL_BLOCK, parse_call},
    {"filter", JN_FILTER_BLOCK, parse_filter_block},
    {"generation", JN_GENERATION, parse_generation},
    {"with", JN_WITH, parse_with},
    {"print", JN_OUTPUT, parse_print},
    {"break", JN_BREAK, parse_bare},
    {"continue", JN_CONTINUE, parse_bare},
};

/* Tags of Jinja that need other files or that chat templates have no use for. */
static const char *const refused[] = {"include", "import", "from",
                                      "extends", "block",  "autoescape"};

static ft_status parse_statement(struct jinja_node **out, struct jinja_parser *p)
{
    const struct jinja_token *tag = p->token;
    if (tag->type != JT_NAME)
        return unexpected(p, "name of a tag");
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        if (!str_is(tag->text, statements[i].tag))
            continue;
        FT_TRY(jinja_node_new(out, p, statements[i].kind, tag->at));
        p->token++;
        return statements[i].parse(p, *out);
    }
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (str_is(tag->text, refused[i]))
            return jinja_parse_fail(p, tag->at, "the tag '%s' is not supported", refused[i]);
    return jinja_parse_fail(p, tag->at, "unknown tag '%.*s'", STR_ARG(tag->text));
}

ft_status jinja_parse(struct jinja *t, const struct jinja_token *tokens, ft_error *err)
{
    struct jinja_parser p = {.t = t, .token = tokens, .err = err};
    return parse_body(&t->body, &p, NULL);
}
