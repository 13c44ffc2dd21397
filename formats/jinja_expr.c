/* SPDX-License-Identifier: Apache-2.0
 * Expressions of templates: tokens to trees. One function per level of precedence, loosest first;
 * they are Jinja's levels, which are not quite Python's (`~` binds tighter than +, ** is left
 * associative, a sign binds tighter than **). */
#include <stdlib.h>
#include <string.h>

#include "formats/jinja_ast.h"
#include "formats/jinja_internal.h"

/* --- nodes ----------------------------------------------------------------------------------- */

static ft_status deepen(struct jinja_parser *p, struct jinja_node *n,
                        const struct jinja_node *child)
{
    if (child == NULL || child->depth < n->depth)
        return FT_OK;
    n->depth = (uint16_t)(child->depth + 1);
    return n->depth <= JINJA_MAX_DEPTH
               ? FT_OK
               : jinja_parse_fail(p, n->at, "expression nested deeper than %d", JINJA_MAX_DEPTH);
}

static ft_status make(struct jinja_node **out, struct jinja_parser *p, enum jinja_kind kind,
                      uint32_t at, struct jinja_node *a, struct jinja_node *b)
{
    struct jinja_node *n;
    FT_TRY(jinja_node_new(&n, p, kind, at));
    FT_TRY(deepen(p, n, a));
    FT_TRY(deepen(p, n, b));
    n->a = a;
    n->b = b;
    *out = n;
    return FT_OK;
}

static ft_status add(struct jinja_parser *p, struct jinja_node *n, struct jinja_node *child)
{
    FT_TRY(deepen(p, n, child));
    return jinja_nodes_push(p, &n->list, child);
}

/* Recursion of the parser itself, which parentheses drive without any node. */
static ft_status enter(struct jinja_parser *p)
{
    return ++p->depth <= JINJA_MAX_DEPTH
               ? FT_OK
               : jinja_parse_fail(p, p->token->at, "expression nested deeper than %d",
                                  JINJA_MAX_DEPTH);
}

/* --- primary expressions --------------------------------------------------------------------- */

static ft_status parse_unary(struct jinja_node **out, struct jinja_parser *p, bool filters);

static ft_status parse_name(struct jinja_node **out, struct jinja_parser *p, bool namespaces)
{
    static const struct {
        const char *word;
        uint8_t type;
        bool b;
    } words[] = {{"true", JV_BOOL, true},   {"True", JV_BOOL, true},  {"false", JV_BOOL, false},
                 {"False", JV_BOOL, false}, {"none", JV_NONE, false}, {"None", JV_NONE, false}};
    const struct jinja_token *t = p->token++;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_is(t->text, words[i].word)) {
            FT_TRY(make(out, p, JN_CONST, t->at, NULL, NULL));
            (*out)->value.type = words[i].type;
            (*out)->value.as.b = words[i].b;
            return FT_OK;
        }
    FT_TRY(make(out, p, JN_NAME, t->at, NULL, NULL));
    (*out)->text = t->text;
    if (namespaces && jinja_skip(p, JT_DOT)) {
        (*out)->kind = JN_NSREF;
        (*out)->attribute = p->token->text;
        return jinja_expect(p, JT_NAME);
    }
    return FT_OK;
}

static ft_status parse_string(struct jinja_node **out, struct jinja_parser *p)
{
    struct buf joined = {0};
    uint32_t at = p->token->at;
    while (p->token->type == JT_STRING)
        buf_str(&joined, (p->token++)->text);
    str s = arena_str(&p->t->arena, buf_view(&joined));
    bool failed = joined.failed || s.ptr == NULL;
    buf_free(&joined);
    if (failed)
        return ft_fail_memory(p->err, s.len, "a template");
    FT_TRY(make(out, p, JN_CONST, at, NULL, NULL));
    return jinja_const_text(&(*out)->value, &p->t->arena, s, p->err);
}

/* Digits of any base that int(text, 0) takes; too large ones stay text. */
static ft_status parse_integer(struct jinja_value *out, struct jinja_parser *p, str text)
{
    static const char bases[] = "bBoOxX";
    const char *base = text.len > 2 ? memchr(bases, text.ptr[1], 6) : NULL;
    int radix = base == NULL ? 10 : base < bases + 2 ? 2 : base < bases + 4 ? 8 : 16;
    uint64_t v = 0;
    for (size_t i = radix == 10 ? 0 : 2; i < text.len; i++) {
        char c = text.ptr[i];
        uint64_t digit = (uint64_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        if (v > ((uint64_t)INT64_MAX - digit) / (uint64_t)radix) {
            if (radix != 10)
                return jinja_parse_fail(p, p->token->at, "integers above 2^63 are not supported");
            return jinja_const_big(out, &p->t->arena, text, p->err);
        }
        v = v * (uint64_t)radix + digit;
    }
    *out = (struct jinja_value){.type = JV_INT, .as.i = (int64_t)v};
    return FT_OK;
}

static ft_status parse_number(struct jinja_node **out, struct jinja_parser *p)
{
    const struct jinja_token *t = p->token;
    FT_TRY(make(out, p, JN_CONST, t->at, NULL, NULL));
    struct jinja_value *v = &(*out)->value;
    if (t->type == JT_INTEGER) {
        FT_TRY(parse_integer(v, p, t->text));
    } else {
        const char *text = arena_cstr(&p->t->arena, t->text);
        if (text == NULL)
            return ft_fail_memory(p->err, t->text.len, "a template");
        *v = (struct jinja_value){.type = JV_FLOAT, .as.f = strtod(text, NULL)};
        if (v->as.f - v->as.f != 0)
            return jinja_parse_fail(p, t->at, "the number is too large");
    }
    p->token++;
    return FT_OK;
}

static ft_status parse_parenthesis(struct jinja_node **out, struct jinja_parser *p)
{
    uint32_t at = (p->token++)->at;
    if (p->token->type == JT_RPAREN)
        FT_TRY(make(out, p, JN_TUPLE, at, NULL, NULL));
    else
        FT_TRY(jinja_parse_tuple(out, p, true, NULL));
    return jinja_expect(p, JT_RPAREN);
}

static ft_status parse_list(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *item;
    FT_TRY(make(out, p, JN_LIST, (p->token++)->at, NULL, NULL));
    while (p->token->type != JT_RBRACKET) {
        if ((*out)->list.n > 0)
            FT_TRY(jinja_expect(p, JT_COMMA));
        if (p->token->type == JT_RBRACKET)
            break;
        FT_TRY(jinja_parse_expression(&item, p, true));
        FT_TRY(add(p, *out, item));
    }
    return jinja_expect(p, JT_RBRACKET);
}

static ft_status parse_dict(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *key, *value;
    FT_TRY(make(out, p, JN_DICT, (p->token++)->at, NULL, NULL));
    while (p->token->type != JT_RBRACE) {
        if ((*out)->list.n > 0)
            FT_TRY(jinja_expect(p, JT_COMMA));
        if (p->token->type == JT_RBRACE)
            break;
        FT_TRY(jinja_parse_expression(&key, p, true));
        FT_TRY(jinja_expect(p, JT_COLON));
        FT_TRY(jinja_parse_expression(&value, p, true));
        FT_TRY(add(p, *out, key));
        FT_TRY(add(p, *out, value));
    }
    return jinja_expect(p, JT_RBRACE);
}

static ft_status parse_primary(struct jinja_node **out, struct jinja_parser *p, bool namespaces)
{
    switch (p->token->type) {
    case JT_NAME:
        return parse_name(out, p, namespaces);
    case JT_STRING:
        return parse_string(out, p);
    case JT_INTEGER:
    case JT_FLOAT:
        return parse_number(out, p);
    case JT_LPAREN:
        return parse_parenthesis(out, p);
    case JT_LBRACKET:
        return parse_list(out, p);
    case JT_LBRACE:
        return parse_dict(out, p);
    default:
        return jinja_parse_fail(p, p->token->at, "unexpected '%s'",
                                jinja_token_name(p->token->type));
    }
}

/* --- subscripts, calls, filters, tests ------------------------------------------------------- */

/* What may stand in brackets: an expression or a slice. */
static ft_status parse_subscribed(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *start = NULL, *stop = NULL, *step = NULL;
    uint32_t at = p->token->at;
    if (p->token->type != JT_COLON) {
        FT_TRY(jinja_parse_expression(&start, p, true));
        if (p->token->type != JT_COLON) {
            *out = start;
            return FT_OK;
        }
    }
    p->token++;
    if (p->token->type != JT_COLON && p->token->type != JT_RBRACKET && p->token->type != JT_COMMA)
        FT_TRY(jinja_parse_expression(&stop, p, true));
    if (jinja_skip(p, JT_COLON) && p->token->type != JT_RBRACKET && p->token->type != JT_COMMA)
        FT_TRY(jinja_parse_expression(&step, p, true));
    FT_TRY(make(out, p, JN_SLICE, at, start, stop));
    FT_TRY(deepen(p, *out, step));
    (*out)->c = step;
    return FT_OK;
}

static ft_status parse_brackets(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *item, *tuple;
    uint32_t at = (p->token++)->at;
    FT_TRY(make(&tuple, p, JN_TUPLE, at, NULL, NULL));
    while (p->token->type != JT_RBRACKET) {
        if (tuple->list.n > 0)
            FT_TRY(jinja_expect(p, JT_COMMA));
        FT_TRY(parse_subscribed(&item, p));
        FT_TRY(add(p, tuple, item));
    }
    *out = tuple->list.n == 1 ? tuple->list.items[0] : tuple;
    for (size_t i = 0; tuple->list.n > 1 && i < tuple->list.n; i++)
        if (tuple->list.items[i]->kind == JN_SLICE)
            return jinja_parse_fail(p, at, "a slice cannot stand in a tuple");
    return jinja_expect(p, JT_RBRACKET);
}

static ft_status parse_subscript(struct jinja_node **out, struct jinja_parser *p,
                                 struct jinja_node *object)
{
    struct jinja_node *argument;
    const struct jinja_token *t = p->token;
    if (t->type == JT_LBRACKET) {
        FT_TRY(parse_brackets(&argument, p));
        return make(out, p, JN_GETITEM, t->at, object, argument);
    }
    p->token++;
    if (p->token->type == JT_NAME) {
        FT_TRY(make(out, p, JN_GETATTR, t->at, object, NULL));
        (*out)->text = (p->token++)->text;
        return FT_OK;
    }
    if (p->token->type != JT_INTEGER)
        return jinja_parse_fail(p, p->token->at, "expected a name or a number behind the dot");
    FT_TRY(parse_number(&argument, p));
    return make(out, p, JN_GETITEM, t->at, object, argument);
}

static ft_status add_keyword(struct jinja_parser *p, struct jinja_args *args, str name,
                             struct jinja_node *value)
{
    for (size_t i = 0; i < args->n_keywords; i++)
        if (str_eq(args->keywords[i].name, name))
            return jinja_parse_fail(p, value->at, "the argument '%.*s' is given twice",
                                    STR_ARG(name));
    struct jinja_keyword *grown = arena_alloc(&p->t->arena, args->n_keywords + 1, sizeof *grown);
    if (grown == NULL)
        return ft_fail_memory(p->err, sizeof *grown, "a template");
    if (args->n_keywords > 0)
        memcpy(grown, args->keywords, args->n_keywords * sizeof *grown);
    grown[args->n_keywords++] = (struct jinja_keyword){name, value};
    args->keywords = grown;
    return FT_OK;
}

static ft_status parse_argument(struct jinja_parser *p, struct jinja_node *call)
{
    struct jinja_args *args = &call->args;
    struct jinja_node *value;
    bool ok;
    if (jinja_skip(p, JT_MUL)) {
        ok = args->star == NULL && args->double_star == NULL;
        FT_TRY(jinja_parse_expression(&value, p, true));
        args->star = value;
    } else if (jinja_skip(p, JT_POW)) {
        ok = args->double_star == NULL;
        FT_TRY(jinja_parse_expression(&value, p, true));
        args->double_star = value;
    } else if (p->token->type == JT_NAME && p->token[1].type == JT_ASSIGN) {
        str name = p->token->text;
        p->token += 2;
        ok = args->double_star == NULL;
        FT_TRY(jinja_parse_expression(&value, p, true));
        FT_TRY(add_keyword(p, args, name, value));
    } else {
        ok = args->star == NULL && args->double_star == NULL && args->n_keywords == 0;
        FT_TRY(jinja_parse_expression(&value, p, true));
        FT_TRY(jinja_nodes_push(p, &args->positional, value));
    }
    FT_TRY(deepen(p, call, value));
    return ok ? FT_OK : jinja_parse_fail(p, call->at, "the arguments of the call are out of order");
}

static ft_status parse_args(struct jinja_parser *p, struct jinja_node *call)
{
    bool comma = false;
    FT_TRY(jinja_expect(p, JT_LPAREN));
    while (p->token->type != JT_RPAREN) {
        if (comma) {
            FT_TRY(jinja_expect(p, JT_COMMA));
            if (p->token->type == JT_RPAREN)
                break;
        }
        FT_TRY(parse_argument(p, call));
        comma = true;
    }
    return jinja_expect(p, JT_RPAREN);
}

static ft_status parse_call(struct jinja_node **out, struct jinja_parser *p,
                            struct jinja_node *callee)
{
    FT_TRY(make(out, p, JN_CALL, p->token->at, callee, NULL));
    return parse_args(p, *out);
}

static ft_status parse_postfix(struct jinja_node **node, struct jinja_parser *p)
{
    for (;;) {
        if (p->token->type == JT_DOT || p->token->type == JT_LBRACKET)
            FT_TRY(parse_subscript(node, p, *node));
        else if (p->token->type == JT_LPAREN)
            FT_TRY(parse_call(node, p, *node));
        else
            return FT_OK;
    }
}

/* A filter's or test's name; dots may be inside, though no known one has them. */
static ft_status parse_dotted(str *out, struct jinja_parser *p)
{
    const struct jinja_token *last = p->token;
    *out = last->text;
    FT_TRY(jinja_expect(p, JT_NAME));
    while (jinja_skip(p, JT_DOT)) {
        last = p->token;
        FT_TRY(jinja_expect(p, JT_NAME));
        out->len = (size_t)(last->text.ptr + last->text.len - out->ptr);
    }
    return FT_OK;
}

static ft_status parse_filter(struct jinja_node **out, struct jinja_parser *p,
                              struct jinja_node *node)
{
    FT_TRY(make(out, p, JN_FILTER, p->token->at, node, NULL));
    FT_TRY(parse_dotted(&(*out)->text, p));
    (*out)->builtin = jinja_filter_find((*out)->text);
    return p->token->type == JT_LPAREN ? parse_args(p, *out) : FT_OK;
}

ft_status jinja_parse_filters(struct jinja_node **out, struct jinja_parser *p,
                              struct jinja_node *node, bool without_pipe)
{
    while (without_pipe || jinja_skip(p, JT_PIPE)) {
        FT_TRY(parse_filter(&node, p, node));
        without_pipe = false;
    }
    *out = node;
    return FT_OK;
}

/* An argument without parentheses: `is divisibleby 3`. */
static bool starts_argument(const struct jinja_parser *p)
{
    switch (p->token->type) {
    case JT_NAME:
        return !jinja_token_is(p, "else") && !jinja_token_is(p, "or") && !jinja_token_is(p, "and");
    case JT_STRING:
    case JT_INTEGER:
    case JT_FLOAT:
    case JT_LBRACKET:
    case JT_LBRACE:
        return true;
    default:
        return false;
    }
}

static ft_status parse_test(struct jinja_node **out, struct jinja_parser *p,
                            struct jinja_node *node)
{
    struct jinja_node *argument;
    uint32_t at = (p->token++)->at;
    bool negated = jinja_skip_name(p, "not");
    FT_TRY(make(out, p, JN_TEST, at, node, NULL));
    struct jinja_node *test = *out;
    FT_TRY(parse_dotted(&test->text, p));
    test->builtin = jinja_test_find(test->text);
    if (p->token->type == JT_LPAREN) {
        FT_TRY(parse_args(p, test));
    } else if (starts_argument(p)) {
        if (jinja_token_is(p, "is"))
            return jinja_parse_fail(p, p->token->at, "tests cannot be chained");
        FT_TRY(parse_primary(&argument, p, false));
        FT_TRY(parse_postfix(&argument, p));
        FT_TRY(deepen(p, test, argument));
        FT_TRY(jinja_nodes_push(p, &test->args.positional, argument));
    }
    return negated ? make(out, p, JN_NOT, at, test, NULL) : FT_OK;
}

static ft_status parse_filters_and_tests(struct jinja_node **node, struct jinja_parser *p)
{
    for (;;) {
        if (p->token->type == JT_PIPE)
            FT_TRY(jinja_parse_filters(node, p, *node, false));
        else if (jinja_token_is(p, "is"))
            FT_TRY(parse_test(node, p, *node));
        else if (p->token->type == JT_LPAREN)
            FT_TRY(parse_call(node, p, *node));
        else
            return FT_OK;
    }
}

/* --- operators ------------------------------------------------------------------------------- */

static ft_status parse_unary(struct jinja_node **out, struct jinja_parser *p, bool filters)
{
    uint32_t at = p->token->at;
    FT_TRY(enter(p));
    if (p->token->type == JT_SUB || p->token->type == JT_ADD) {
        enum jinja_kind kind = (p->token++)->type == JT_SUB ? JN_NEG : JN_POS;
        FT_TRY(parse_unary(out, p, false));
        FT_TRY(make(out, p, kind, at, *out, NULL));
    } else {
        FT_TRY(parse_primary(out, p, false));
    }
    FT_TRY(parse_postfix(out, p));
    if (filters)
        FT_TRY(parse_filters_and_tests(out, p));
    p->depth--;
    return FT_OK;
}

static ft_status binary(struct jinja_node **left, struct jinja_parser *p,
                        ft_status (*next)(struct jinja_node **out, struct jinja_parser *p))
{
    struct jinja_node *right;
    const struct jinja_token *t = p->token++;
    FT_TRY(next(&right, p));
    FT_TRY(make(left, p, JN_BINARY, t->at, *left, right));
    (*left)->op = (uint8_t)t->type;
    return FT_OK;
}

static ft_status parse_sign(struct jinja_node **out, struct jinja_parser *p)
{
    return parse_unary(out, p, true);
}

static ft_status parse_power(struct jinja_node **out, struct jinja_parser *p)
{
    FT_TRY(parse_sign(out, p));
    while (p->token->type == JT_POW)
        FT_TRY(binary(out, p, parse_sign));
    return FT_OK;
}

static ft_status parse_product(struct jinja_node **out, struct jinja_parser *p)
{
    FT_TRY(parse_power(out, p));
    while (p->token->type == JT_MUL || p->token->type == JT_DIV || p->token->type == JT_FLOORDIV ||
           p->token->type == JT_MOD)
        FT_TRY(binary(out, p, parse_power));
    return FT_OK;
}

static ft_status parse_concat(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *first, *next;
    FT_TRY(parse_product(&first, p));
    *out = first;
    if (p->token->type != JT_TILDE)
        return FT_OK;
    FT_TRY(make(out, p, JN_CONCAT, p->token->at, NULL, NULL));
    FT_TRY(add(p, *out, first));
    while (jinja_skip(p, JT_TILDE)) {
        FT_TRY(parse_product(&next, p));
        FT_TRY(add(p, *out, next));
    }
    return FT_OK;
}

static ft_status parse_sum(struct jinja_node **out, struct jinja_parser *p)
{
    FT_TRY(parse_concat(out, p));
    while (p->token->type == JT_ADD || p->token->type == JT_SUB)
        FT_TRY(binary(out, p, parse_concat));
    return FT_OK;
}

/* The comparison operator at the current token, skipped; 0 when there is none. */
static uint8_t comparison(struct jinja_parser *p)
{
    if (p->token->type >= JT_EQ && p->token->type <= JT_GTEQ)
        return (uint8_t)(p->token++)->type;
    if (jinja_skip_name(p, "in"))
        return JINJA_IN;
    const struct jinja_token *next = p->token + 1;
    if (!jinja_token_is(p, "not") || next->type != JT_NAME || !str_is(next->text, "in"))
        return 0;
    p->token += 2;
    return JINJA_NOT_IN;
}

static ft_status parse_compare(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *first, *operand, *right;
    uint8_t op;
    FT_TRY(parse_sum(&first, p));
    *out = first;
    for (;;) {
        uint32_t at = p->token->at;
        op = comparison(p);
        if (op == 0)
            return FT_OK;
        if (*out == first)
            FT_TRY(make(out, p, JN_COMPARE, at, first, NULL));
        FT_TRY(parse_sum(&right, p));
        FT_TRY(make(&operand, p, JN_OPERAND, at, right, NULL));
        operand->op = op;
        FT_TRY(add(p, *out, operand));
    }
}

static ft_status parse_not(struct jinja_node **out, struct jinja_parser *p)
{
    uint32_t at = p->token->at;
    if (!jinja_skip_name(p, "not"))
        return parse_compare(out, p);
    FT_TRY(enter(p));
    FT_TRY(parse_not(out, p));
    p->depth--;
    return make(out, p, JN_NOT, at, *out, NULL);
}

static ft_status parse_and(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *right;
    FT_TRY(parse_not(out, p));
    for (;;) {
        uint32_t at = p->token->at;
        if (!jinja_skip_name(p, "and"))
            return FT_OK;
        FT_TRY(parse_not(&right, p));
        FT_TRY(make(out, p, JN_AND, at, *out, right));
    }
}

static ft_status parse_or(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *right;
    FT_TRY(parse_and(out, p));
    for (;;) {
        uint32_t at = p->token->at;
        if (!jinja_skip_name(p, "or"))
            return FT_OK;
        FT_TRY(parse_and(&right, p));
        FT_TRY(make(out, p, JN_OR, at, *out, right));
    }
}

static ft_status parse_conditional(struct jinja_node **out, struct jinja_parser *p)
{
    struct jinja_node *test, *otherwise;
    FT_TRY(parse_or(out, p));
    for (;;) {
        uint32_t at = p->token->at;
        if (!jinja_skip_name(p, "if"))
            return FT_OK;
        FT_TRY(parse_or(&test, p));
        otherwise = NULL;
        if (jinja_skip_name(p, "else")) {
            FT_TRY(enter(p));
            FT_TRY(parse_conditional(&otherwise, p));
            p->depth--;
        }
        FT_TRY(make(out, p, JN_COND, at, *out, test));
        FT_TRY(deepen(p, *out, otherwise));
        (*out)->c = otherwise;
    }
}

ft_status jinja_parse_expression(struct jinja_node **out, struct jinja_parser *p, bool conditional)
{
    return conditional ? parse_conditional(out, p) : parse_or(out, p);
}

/* --- tuples and targets ---------------------------------------------------------------------- */

static bool at_tuple_end(const struct jinja_parser *p, const char *end)
{
    return p->token->type == JT_VARIABLE_END || p->token->type == JT_BLOCK_END ||
           p->token->type == JT_RPAREN || (end != NULL && jinja_token_is(p, end));
}

enum tuple_of { EXPRESSIONS, UNCONDITIONAL, TARGETS, NAMESPACE_TARGETS };

static ft_status parse_item(struct jinja_node **out, struct jinja_parser *p, enum tuple_of what)
{
    if (what == EXPRESSIONS || what == UNCONDITIONAL)
        return jinja_parse_expression(out, p, what == EXPRESSIONS);
    return parse_primary(out, p, what == NAMESPACE_TARGETS);
}

static ft_status parse_items(struct jinja_node **out, struct jinja_parser *p, enum tuple_of what,
                             const char *end)
{
    struct jinja_node *item, *tuple;
    FT_TRY(make(&tuple, p, JN_TUPLE, p->token->at, NULL, NULL));
    bool comma = false;
    for (;;) {
        if (at_tuple_end(p, end))
            break;
        FT_TRY(parse_item(&item, p, what));
        FT_TRY(add(p, tuple, item));
        if (!jinja_skip(p, JT_COMMA))
            break;
        comma = true;
    }
    if (tuple->list.n == 0)
        return jinja_parse_fail(p, p->token->at, "expected an expression, found '%s'",
                                jinja_token_name(p->token->type));
    *out = comma ? tuple : tuple->list.items[0];
    return FT_OK;
}

ft_status jinja_parse_tuple(struct jinja_node **out, struct jinja_parser *p, bool conditional,
                            const char *end)
{
    return parse_items(out, p, conditional ? EXPRESSIONS : UNCONDITIONAL, end);
}

static ft_status check_target(struct jinja_parser *p, const struct jinja_node *n)
{
    if (n->kind == JN_TUPLE) {
        for (size_t i = 0; i < n->list.n; i++)
            FT_TRY(check_target(p, n->list.items[i]));
        return FT_OK;
    }
    return n->kind == JN_NAME || n->kind == JN_NSREF
               ? FT_OK
               : jinja_parse_fail(p, n->at, "nothing can be assigned to this");
}

ft_status jinja_parse_target(struct jinja_node **out, struct jinja_parser *p, bool namespaces,
                             const char *end)
{
    FT_TRY(parse_items(out, p, namespaces ? NAMESPACE_TARGETS : TARGETS, end));
    return check_target(p, *out);
}

ft_status jinja_parse_name_target(struct jinja_node **out, struct jinja_parser *p)
{
    const struct jinja_token *t = p->token;
    FT_TRY(jinja_expect(p, JT_NAME));
    FT_TRY(make(out, p, JN_NAME, t->at, NULL, NULL));
    static const char *const constants[] = {"true", "True", "false", "False", "none", "None"};
    for (size_t i = 0; i < ARRAY_LEN(constants); i++)
        if (str_is(t->text, constants[i]))
            return jinja_parse_fail(p, t->at, "nothing can be assigned to '%s'", constants[i]);
    (*out)->text = t->text;
    return FT_OK;
}
