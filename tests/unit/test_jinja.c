/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/jinja.h"

#include "common/file.h"
#include "tests/support/check.h"

struct fixture {
    struct jinja_run *run;
    struct jinja_output out;
};

static int create_run(void **state)
{
    static struct fixture f;
    static const struct tm clock = {.tm_year = 124,
                                    .tm_mon = 6,
                                    .tm_mday = 26,
                                    .tm_hour = 12,
                                    .tm_min = 34,
                                    .tm_sec = 56,
                                    .tm_wday = 5,
                                    .tm_yday = 207};
    ft_error err;
    ASSERT_OK(jinja_run_create(&f.run, JINJA_LIMITS, &err));
    jinja_run_clock(f.run, &clock);
    *state = &f;
    return 0;
}

static int destroy_run(void **state)
{
    struct fixture *f = *state;
    jinja_run_destroy(f->run);
    return 0;
}

/* Renders with variables given as JSON. */
static ft_status render(struct fixture *f, str source, const json *vars, ft_error *err)
{
    struct jinja *t;
    FT_TRY(jinja_compile(&t, "T", source, err));
    jinja_run_reset(f->run);
    ft_status st = jinja_render(&f->out, t, f->run, jinja_json(f->run, vars, JINJA_DATA + 1), err);
    jinja_destroy(t);
    return st;
}

static ft_status render_text(struct fixture *f, const char *source, const char *vars, ft_error *err)
{
    static struct json_doc *doc; /* what is rendered borrows from it */
    json_close(doc);
    FT_TRY(json_parse(&doc, "vars", str_from(vars), JSON_STRICT, err));
    ft_status st = render(f, str_from(source), json_root(doc), err);
    if (st != FT_OK) {
        json_close(doc);
        doc = NULL;
    }
    return st;
}

static void assert_renders(void **state, const char *source, const char *vars, const char *expected)
{
    struct fixture *f = *state;
    ft_error err;
    ASSERT_OK(render_text(f, source, vars, &err));
    assert_int_equal(f->out.text.len, strlen(expected));
    if (f->out.text.len > 0)
        assert_memory_equal(f->out.text.ptr, expected, f->out.text.len);
    assert_true(render_text(f, "", "{}", &err) == FT_OK);
}

/* --- against the reference ------------------------------------------------------------------- */

static void check_case(struct fixture *f, const char *path, size_t line, const json *c)
{
    struct arena a = {0};
    str source, expected = {NULL, 0}, file;
    ft_error err = {0};
    if (json_str(json_get(c, "file"), &file)) {
        const char *name = path_join(&a, "tests/golden/jinja/templates", arena_cstr(&a, file));
        ASSERT_OK(file_read_all(&source, &a, name, 1 << 20, &err));
    } else {
        assert_true(json_str(json_get(c, "template"), &source));
    }
    bool fails = !json_str(json_get(c, "text"), &expected);
    ft_status st = render(f, source, json_get(c, "vars"), &err);
    if (fails != (st != FT_OK) || (!fails && !str_eq(f->out.text, expected)))
        fail_msg("%s:%zu: expected %s'%.*s', found '%.*s' (%s)", path, line,
                 fails ? "an error " : "", STR_ARG(expected), STR_ARG(f->out.text), err.text);
    if (fails && strstr(err.text, "line ") == NULL)
        fail_msg("%s:%zu: no place in '%s'", path, line, err.text);
    arena_destroy(&a);
}

static size_t check_file(struct fixture *f, const char *path)
{
    struct arena a = {0};
    struct json_doc *doc;
    ft_error err;
    str rest;
    size_t n = 0;
    ASSERT_OK(file_read_all(&rest, &a, path, 1 << 22, &err));
    while (rest.len > 0) {
        ASSERT_OK(json_parse(&doc, path, str_cut(&rest, '\n'), JSON_STRICT, &err));
        check_case(f, path, ++n, json_root(doc));
        json_close(doc);
    }
    arena_destroy(&a);
    return n;
}

static void random_templates_equal_the_reference(void **state)
{
    assert_int_equal(check_file(*state, "tests/golden/jinja/random-0.jsonl"), 700);
    assert_int_equal(check_file(*state, "tests/golden/jinja/random-1.jsonl"), 700);
    assert_int_equal(check_file(*state, "tests/golden/jinja/random-2.jsonl"), 700);
}

static void templates_of_models_equal_the_reference(void **state)
{
    assert_true(check_file(*state, "tests/golden/jinja/templates.jsonl") > 150);
}

/* --- corners that random templates seldom meet ----------------------------------------------- */

static void white_space_goes_as_in_jinja(void **state)
{
    assert_renders(state, "a\n  {% if true %}\n b\n  {% endif %}\nc\n", "{}", "a\n b\nc");
    assert_renders(state, "a \n {%- if true -%} \n b {%+ endif %}\n", "{}", "ab ");
    assert_renders(state, "  {{ 1 }}\n{{- 2 -}}\n 3", "{}", "  123");
    assert_renders(state, "x\r\ny\rz\r\n\r\n", "{}", "x\ny\nz\n");
    assert_renders(state, "  {# c #}\n{#- d -#}  e", "{}", "e");
    assert_renders(state, " {% raw -%} {{ x }} {%- endraw %}\n.", "{}", "{{ x }}.");
}

static void numbers_keep_their_kind(void **state)
{
    assert_renders(state, "{{ x }} {{ x|tojson }}", "{\"x\": [1, 1.0, 1e3, -0, -0.0, 0.1, 1e400]}",
                   "[1, 1.0, 1000.0, 0, -0.0, 0.1, inf] [1, 1.0, 1000.0, 0, -0.0, 0.1, Infinity]");
    assert_renders(state, "{{ x|tojson }}{{ x == 12345678901234567890 }}",
                   "{\"x\": 12345678901234567890}", "12345678901234567890True");
    assert_renders(state, "{{ 9007199254740993 }}{{ x }}", "{\"x\": 9007199254740993}",
                   "90071992547409939007199254740993");
    assert_renders(state, "{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }}",
                   "{}", "-4 2 3.5 4 0.5");
}

static void nul_and_keys_with_nul_pass_through(void **state)
{
    struct fixture *f = *state;
    ft_error err;
    ASSERT_OK(render_text(f, "{{ s|length }}{{ d|tojson }}{{ s }}",
                          "{\"s\": \"a\\u0000b\", \"d\": {\"k\\u0000\": 1}}", &err));
    assert_int_equal(f->out.text.len, 1 + 14 + 3);
    assert_memory_equal(f->out.text.ptr, "3{\"k\\u0000\": 1}", 15);
}

static void generators_work_once_and_late(void **state)
{
    assert_renders(state, "{% set g = [1, 2]|map('string') %}{{ g|join }}{{ g|join }}", "{}", "12");
    assert_renders(state, "{% set g = [1]|map('nosuch') %}fine", "{}", "fine");
    assert_renders(state,
                   "{% set ns = namespace(go=true) %}{% for x in [1, 2, 3] if ns.go %}{{ x }}"
                   "{% set ns.go = x < 2 %}{% endfor %}",
                   "{}", "12");
    assert_renders(state, "{% for x in [1] %}{% continue %}{% else %}else{% endfor %}", "{}",
                   "else");
}

static void scopes_are_those_of_jinja(void **state)
{
    assert_renders(state,
                   "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{% endfor %}{{ x }}",
                   "{}", "111");
    assert_renders(state, "{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}", "{}",
                   "2");
    assert_renders(state, "{% if x %}{% set x = 2 %}{% endif %}{{ x }}", "{\"x\": \"\"}", "");
    assert_renders(state,
                   "{% for a in [[1, [2]]] recursive %}{{ loop.depth }}{{ loop(a[1:]) if a is not "
                   "number and loop.depth < 3 }}{% endfor %}",
                   "{}", "12");
}

/* --- errors ---------------------------------------------------------------------------------- */

static void errors_name_line_and_column(void **state)
{
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"{{ raise_exception('no ' ~ 'way') }}", "T: line 1, column 19: the template says: no way"},
        {"é\n {{ x.y.z }}", "T: line 2, column 8: dict has no attribute 'y'"},
        {"{{ nope.x }}", "T: line 1, column 8: 'nope' is undefined"},
        {"\n\n{% endif %}", "T: line 3, column 4: unknown tag 'endif'"},
        {"{% if x %}", "T: line 1, column 11: the template ends, but 'endif' is missing"},
        {"{% include 'x' %}", "T: line 1, column 4: the tag 'include' is not supported"},
        {"{{ x | pprint }}", "T: line 1, column 8: the filter 'pprint' is not known"},
        {"{{ 1 + 'a' }}", "T: line 1, column 6: '+' cannot be applied to int and str"},
        {"{{ x.update }}{{ x.update(1) }}", "access to attribute 'update' of a dict is unsafe"},
        {"{{ 'a' 1 }}", "expected '}}', found 'integer'"},
        {"{{ ' }}", "T: line 1, column 4: the string has no end"},
        {"{# x", "the comment has no end"},
        {"{{ (1] }}", "unexpected ']', expected ')'"},
        {"{{ 9223372036854775807 + 1 }}", "not supported: integers beyond 64 bits"},
        {"{{ [1]|map('upper') }}", "a generator cannot be printed"},
        {"{% break %}", "break and continue belong in a loop"},
        {"{{ '\\ud800' }}", "the escape is no Unicode character"},
        {"{{ [1] | random }}", "the filter 'random' is not known or not supported"},
    };
    struct fixture *f = *state;
    ft_error err;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ASSERT_FAILS(render_text(f, cases[i].source, "{\"x\": {}}", &err), FT_EFORMAT,
                     cases[i].message);
    ASSERT_FAILS(render(f, STR("a\xff"), NULL, &err), FT_EFORMAT,
                 "line 1, column 2: invalid UTF-8");
}

static void endless_templates_end(void **state)
{
    static const char *const steps[] = {
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'abcdefghijklmnopqrstuvwxyz' * 999999999 }}",
        "{{ [1, 2, 3] * 999999999 }}",
        ("{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
         "{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
        "{{ 'x'.center(999999999) }}",
    };
    static const char *const depth[] = {
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a(n) %}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}{{ a(1) "
        "}}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        ("{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}{% endfor "
         "%}"
         "{{ ns.l|tojson }}"),
        "{{ range(100001) }}",
    };
    struct fixture *f = *state;
    ft_error err;
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        ASSERT_FAILS(render_text(f, steps[i], "{}", &err), FT_ELIMIT, "the template needs too m");
    for (size_t i = 0; i < ARRAY_LEN(depth); i++)
        assert_int_equal(render_text(f, depth[i], "{}", &err), FT_EFORMAT);
}

static void deep_sources_are_refused(void **state)
{
    static char source[40000];
    struct fixture *f = *state;
    static const char *const parts[] = {
        "(", "-", "not ", "[", "{1:", "1 if ", "a.", "x|f(", "1+", "{% if 1 %}"};
    ft_error err;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        strcpy(source, parts[i][0] == '{' && parts[i][1] == '%' ? "" : "{{ ");
        for (size_t k = strlen(source); k < sizeof source - 20; k += strlen(parts[i]))
            memcpy(source + k, parts[i], strlen(parts[i]) + 1);
        assert_true(render_text(f, source, "{}", &err) != FT_OK);
    }
}

static void memory_is_bounded(void **state)
{
    struct jinja_run *run;
    struct jinja *t;
    struct jinja_output out;
    ft_error err;
    (void)state;
    ASSERT_OK(
        jinja_run_create(&run, (struct jinja_limits){.steps = 100000000, .bytes = 1 << 20}, &err));
    ASSERT_OK(jinja_compile(&t, "T",
                            STR("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}"
                                "{% set ns.l = ns.l + [i] %}{% endfor %}"),
                            &err));
    ASSERT_FAILS(jinja_render(&out, t, run, jinja_dict(run), &err), FT_ELIMIT,
                 "line 1, column 77: the template needs too much memory");
    for (size_t i = 0; i < 100000; i++) /* values that do not fit are reported later, too */
        jinja_dict(run);
    jinja_run_reset(run);
    struct jinja_value list = jinja_list(run);
    for (size_t i = 0; i < 100000; i++)
        jinja_list_push(run, list, jinja_text(run, STR("x"), JINJA_DATA));
    struct jinja_value vars = jinja_dict(run);
    ASSERT_FAILS(jinja_render(&out, t, run, vars, &err), FT_ELIMIT, "too much memory");
    jinja_destroy(t);
    jinja_run_destroy(run);
}

/* --- where text comes from ------------------------------------------------------------------- */

/* "t" for each byte of the template's, "d" for the data's; capitals inside generation tags. */
static void assert_origins(void **state, const char *source, const char *vars, const char *text,
                           const char *origins)
{
    struct fixture *f = *state;
    char found[200];
    ft_error err;
    size_t from = 0;
    ASSERT_OK(render_text(f, source, vars, &err));
    assert_int_equal(f->out.text.len, strlen(text));
    assert_memory_equal(f->out.text.ptr, text, strlen(text));
    for (size_t i = 0; i < f->out.n_pieces; i++)
        for (; from < f->out.pieces[i].end; from++) {
            uint32_t o = f->out.pieces[i].origin;
            found[from] = (o & ~(uint32_t)JINJA_GENERATION) == JINJA_TEMPLATE ? 't' : 'd';
            if (o & JINJA_GENERATION)
                found[from] = (char)(found[from] - 'a' + 'A');
        }
    found[from] = '\0';
    assert_string_equal(found, origins);
}

static void every_byte_knows_where_it_comes_from(void **state)
{
    const char *vars = "{\"s\": \"ab\", \"l\": [\"x\", \"y\"], \"n\": 12, \"p\": \" q \"}";
    assert_origins(state, "<{{ s }}>{{ 'k' + s ~ 1 }}", vars, "<ab>kab1", "tddttddt");
    assert_origins(state, "{{ ('<' + s + '>')[1:3] }}{{ ('<' ~ s ~ '>')[::-1] }}", vars, "ab>ba<",
                   "ddtddt");
    assert_origins(state, "{{ ('- ' ~ p)|trim|upper }}{{ p.strip() }}", vars, "-  Qq", "ttddd");
    assert_origins(state, "{{ l|join(',') }}{{ '%s!%d' % (s, n) }}", vars, "x,yab!12", "dtdddtdd");
    assert_origins(state, "{{ s|replace('a', '<') }}{{ n + 1 }}{{ loop }}", vars, "<b13", "tddd");
    assert_origins(state, "{{ l }}{{ {'k': s}|tojson }}", vars, "['x', 'y']{\"k\": \"ab\"}",
                   "ddddddddddttttttddddt");
    assert_origins(state,
                   "{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(s) }}{% set b %}({{ s }}){% "
                   "endset %}{{ b.split('a')[1] }}",
                   vars, "[ab]b)", "tddtdt");
}

static void generation_tags_mark_bytes(void **state)
{
    assert_origins(state, "a{% generation %}b{{ s }}{% endgeneration %}c", "{\"s\": \"x\"}", "abxc",
                   "tTDt");
    assert_origins(
        state,
        "{% macro m() %}<{% generation %}{{ s }}{% endgeneration %}>{% endmacro %}"
        "{{ m()|upper }}{% filter trim %} {% generation %}z{% endgeneration %}{% endfilter %}",
        "{\"s\": \"x\"}", "<X>z", "tDtT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_templates_equal_the_reference),
        cmocka_unit_test(templates_of_models_equal_the_reference),
        cmocka_unit_test(white_space_goes_as_in_jinja),
        cmocka_unit_test(numbers_keep_their_kind),
        cmocka_unit_test(nul_and_keys_with_nul_pass_through),
        cmocka_unit_test(generators_work_once_and_late),
        cmocka_unit_test(scopes_are_those_of_jinja),
        cmocka_unit_test(errors_name_line_and_column),
        cmocka_unit_test(endless_templates_end),
        cmocka_unit_test(deep_sources_are_refused),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(every_byte_knows_where_it_comes_from),
        cmocka_unit_test(generation_tags_mark_bytes),
    };
    return cmocka_run_group_tests(tests, create_run, destroy_run);
}
