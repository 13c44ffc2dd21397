/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/visible.h"

#include "tests/support/check.h"

static void expect(void (*show)(struct buf *, str), str text, const char *expected)
{
    struct buf out = {0};
    show(&out, text);
    buf_byte(&out, '\0');
    assert_string_equal((const char *)out.data, expected);
    buf_free(&out);
}

static void ordinary_text_stays(void **state)
{
    (void)state;
    expect(visible_text, STR("a <b> & \"c\"\n\t\xE5\x88\x97 \xF0\x9F\x98\x80"),
           "a <b> & \"c\"\n\t\xE5\x88\x97 \xF0\x9F\x98\x80");
    expect(visible_text, STR(""), "");
}

static void what_steers_or_is_no_text_becomes_an_escape(void **state)
{
    (void)state;
    expect(visible_text, STR("\x1B[31m\r\x7F\0x"), "\\x1b[31m\\x0d\\x7f\\x00x");
    expect(visible_text, STR("\xC2\x9B"), "\\xc2\\x9b");
    expect(visible_text, STR("\xE5\x88|\xFF\xC0\x80"), "\\xe5\\x88|\\xff\\xc0\\x80");
    expect(visible_text,
           STR("\xE2\x80\xAE"
               "abc\xE2\x81\xA9"),
           "\\u202eabc\\u2069");
}

static void nothing_leaves_an_html_text(void **state)
{
    (void)state;
    expect(visible_html, STR("<script x='1' y=\"2\">&amp;"),
           "&lt;script x=&#39;1&#39; y=&quot;2&quot;&gt;&amp;amp;");
    expect(visible_html, STR("\0</pre>"), "\\x00&lt;/pre&gt;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_stays),
        cmocka_unit_test(what_steers_or_is_no_text_becomes_an_escape),
        cmocka_unit_test(nothing_leaves_an_html_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
