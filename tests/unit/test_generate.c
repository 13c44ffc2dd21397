/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/generate.h"

#include "tests/support/check.h"

/* Feeds the bytes one by one, as tokens may cut them anywhere, and returns what comes out; every
 * piece must be whole characters. */
static void stream(struct buf *all, const char *bytes, size_t n)
{
    struct buf pending = {0}, out = {0};
    buf_clear(all);
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            buf_byte(&pending, (uint8_t)bytes[i]);
        generate_take_text(&out, &pending, 0, i == n);
        assert_int_equal(str_utf8_invalid_at(buf_view(&out)), out.len);
        assert_true(pending.len <= 3);
        buf_str(all, buf_view(&out));
    }
    assert_int_equal(pending.len, 0);
    buf_free(&pending);
    buf_free(&out);
}

static void characters_come_out_whole_however_they_are_cut(void **state)
{
    const char *text = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80z";
    struct buf all = {0};
    (void)state;
    stream(&all, text, strlen(text));
    assert_true(str_is(buf_view(&all), text));
    buf_free(&all);
}

static void bytes_that_are_not_text_are_replaced(void **state)
{
#define R "\xEF\xBF\xBD"
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"\xFF", R},             /* never valid */
        {"a\x80z", "a" R "z"},   /* a continuation without a start */
        {"\xE4\xB8", R R},       /* cut at the end */
        {"\xE4\xB8z", R R "z"},  /* cut by another character */
        {"\xC0\x80", R R},       /* overlong */
        {"\xED\xA0\x80", R R R}, /* a surrogate */
        {"\xF0\x9F\x98\x80\xF0", "\xF0\x9F\x98\x80" R},
        {"", ""},
    };
    struct buf all = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        stream(&all, cases[i].bytes, strlen(cases[i].bytes));
        assert_true(str_is(buf_view(&all), cases[i].text));
    }
    buf_free(&all);
}

/* The answer that comes out when the bytes are generated one by one. */
static void stream_to_stop(struct buf *all, const char *bytes, const str *words, size_t n_words)
{
    struct buf pending = {0}, out = {0};
    bool stopped = false;
    buf_clear(all);
    for (size_t i = 0; bytes[i] != '\0' && !stopped; i++) {
        size_t keep;
        buf_byte(&pending, (uint8_t)bytes[i]);
        stopped = generate_cut_at_stop(&pending, &keep, words, n_words);
        generate_take_text(&out, &pending, keep, stopped);
        buf_str(all, buf_view(&out));
    }
    generate_take_text(&out, &pending, 0, true);
    buf_str(all, buf_view(&out));
    buf_byte(all, '\0');
    buf_free(&pending);
    buf_free(&out);
}

static void the_answer_ends_in_front_of_a_stop_word(void **state)
{
    static const str words[] = {{"<eoc>", 5}, {"<eom>", 5}, {"\xE9\x97\xAE\xEF\xBC\x9A", 6}};
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"one <eoc> two", "one "},
        {"<eom>", ""},
        {"<eo", "<eo"},
        {"<<eoc>", "<"},
        {"<eo<eoc>", "<eo"},
        {"a<eod><eom>", "a<eod>"},
        {"\xE9\x97\xAE\xE9\x97\xAE\xEF\xBC\x9A x", "\xE9\x97\xAE"},
        {"plain", "plain"},
    };
    struct buf all = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        stream_to_stop(&all, cases[i].bytes, words, ARRAY_LEN(words));
        assert_string_equal((const char *)all.data, cases[i].text);
    }
    buf_free(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_out_whole_however_they_are_cut),
        cmocka_unit_test(bytes_that_are_not_text_are_replaced),
        cmocka_unit_test(the_answer_ends_in_front_of_a_stop_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
