/* SPDX-License-Identifier: Apache-2.0
 * The public library on the tiny tokenizer: allowed specials, threads, streaming, errors. */
#include "formats/tok/ftok.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/str.h"
#include "tests/support/check.h"

static const char TINY[] = "data-samples/tokenizer-tiny.json";
static const char CHAT[] = "<|im_start|>user\nHi \xC3\xA9\xE4\xB8\xAD<|im_end|>\n";

static ftok *open_tiny(void)
{
    ftok *t;
    ftok_error err;
    if (ftok_open(&t, TINY, &err) != FTOK_OK)
        fail_msg("%s", err.text);
    return t;
}

static void ordinary_text_has_no_special_ids(void **state)
{
    ftok *t = open_tiny();
    ftok_tokens tokens = {.want_offsets = 1};
    size_t n = 0;
    (void)state;
    assert_int_equal(ftok_encode_ordinary(t, &tokens, CHAT, strlen(CHAT), NULL), FTOK_OK);
    for (size_t i = 0; i < tokens.n; i++) {
        assert_false(ftok_is_special(t, tokens.ids[i]));
        assert_true(i == 0 ? tokens.offsets[i] == 0 : tokens.offsets[i] >= tokens.offsets[i - 1]);
    }
    assert_int_equal(ftok_count(t, &n, CHAT, strlen(CHAT), NULL), FTOK_OK);
    assert_int_equal(n, tokens.n);
    ftok_tokens_free(&tokens);
    ftok_close(t);
}

static void special_tokens_are_allowed_or_an_error(void **state)
{
    static const char *const one[] = {"<|im_start|>"};
    static const char *const both[] = {"<|im_end|>", "<|im_start|>"};
    static const char *const unknown[] = {"<|nobody|>"};
    ftok *t = open_tiny();
    ftok_tokens a = {0}, b = {0};
    ftok_error err;
    (void)state;
    assert_int_equal(ftok_encode(t, &a, CHAT, strlen(CHAT), one, 1, &err), FTOK_ESPECIAL);
    assert_non_null(strstr(err.text, "\"<|im_end|>\" at byte 25"));
    assert_int_equal(a.n, 0);
    assert_int_equal(ftok_encode(t, &a, CHAT, strlen(CHAT), both, 2, &err), FTOK_OK);
    assert_int_equal(ftok_encode(t, &b, CHAT, strlen(CHAT), NULL, FTOK_ALL, &err), FTOK_OK);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof *a.ids);
    assert_int_equal(a.ids[0], ftok_special_id(t, "<|im_start|>"));
    assert_int_equal(ftok_encode(t, &a, CHAT, strlen(CHAT), unknown, 1, &err), FTOK_EARG);
    assert_non_null(strstr(err.text, "\"<|nobody|>\" is not a special token"));
    assert_int_equal(ftok_encode(t, &a, "plain", 5, NULL, 0, &err), FTOK_OK);
    ftok_tokens_free(&a);
    ftok_tokens_free(&b);
    ftok_close(t);
}

static void a_stream_gives_whole_characters(void **state)
{
    ftok *t = open_tiny();
    ftok_tokens tokens = {0};
    ftok_stream *s;
    char all[256] = "", *whole;
    const char *text;
    size_t bytes, n_whole;
    (void)state;
    assert_int_equal(ftok_encode(t, &tokens, CHAT, strlen(CHAT), NULL, FTOK_ALL, NULL), FTOK_OK);
    assert_int_equal(ftok_stream_create(&s, t, 0, NULL), FTOK_OK);
    for (size_t i = 0; i < tokens.n; i++) {
        assert_int_equal(ftok_stream_push(s, tokens.ids[i], &text, &bytes, NULL), FTOK_OK);
        assert_int_equal(str_utf8_invalid_at((str){text, bytes}), bytes);
        strncat(all, text, sizeof all - strlen(all) - 1);
    }
    assert_int_equal(ftok_stream_finish(s, &text, &bytes, NULL), FTOK_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(all, CHAT);
    assert_int_equal(ftok_decode(t, &whole, &n_whole, tokens.ids, tokens.n, 0, NULL), FTOK_OK);
    assert_string_equal(whole, CHAT);
    ftok_free(whole);
    ftok_stream_destroy(s);
    ftok_tokens_free(&tokens);
    ftok_close(t);
}

/* The id whose bytes are the one given; the tiny vocabulary has all 256. */
static int32_t byte_id(const ftok *t, uint8_t byte)
{
    for (int32_t id = 0; id < ftok_n_vocab(t); id++) {
        size_t bytes;
        const char *p = ftok_token_bytes(t, id, &bytes);
        if (p != NULL && bytes == 1 && (uint8_t)p[0] == byte)
            return id;
    }
    fail_msg("no id for the byte %u", byte);
    return -1;
}

static void broken_characters_become_one_replacement_each(void **state)
{
    static const uint8_t bytes_in[] = {0xE4, 0xB8, 'a', 0x80, 0xED, 0xA0, 0xF0, 0x9F, 0x98};
    static const char expected[] = "\uFFFDa\uFFFD\uFFFD\uFFFD\uFFFD"; /* as Python's "replace" */
    ftok *t = open_tiny();
    ftok_stream *s;
    char all[64] = "";
    const char *text;
    size_t bytes;
    (void)state;
    assert_int_equal(ftok_stream_create(&s, t, 0, NULL), FTOK_OK);
    for (size_t i = 0; i < sizeof bytes_in; i++) {
        assert_int_equal(ftok_stream_push(s, byte_id(t, bytes_in[i]), &text, &bytes, NULL),
                         FTOK_OK);
        strncat(all, text, sizeof all - strlen(all) - 1);
    }
    assert_int_equal(ftok_stream_finish(s, &text, &bytes, NULL), FTOK_OK);
    strncat(all, text, sizeof all - strlen(all) - 1);
    assert_string_equal(all, expected);
    ftok_stream_destroy(s);
    ftok_close(t);
}

static void errors_say_what_is_wrong(void **state)
{
    ftok *t = NULL;
    ftok_error err;
    ftok_tokens tokens = {0};
    (void)state;
    assert_int_equal(ftok_open(&t, "no-such-file", &err), FTOK_EIO);
    assert_null(t);
    assert_int_equal(ftok_open(&t, "Makefile", &err), FTOK_EFORMAT);
    t = open_tiny();
    assert_int_equal(ftok_encode_ordinary(t, &tokens, "ab\xFF", 3, &err), FTOK_EUTF8);
    assert_string_equal(err.text, "the text is not valid UTF-8 at byte 2");
    assert_int_equal(ftok_special_id(t, "a"), -1);
    assert_int_equal(ftok_is_special(t, -1), 0);
    ftok_close(t);
    ftok_close(NULL);
}

struct run {
    const ftok *t;
    bool ok;
};

static void *encode_often(void *arg)
{
    struct run *r = arg;
    ftok_tokens tokens = {0};
    r->ok = true;
    for (int i = 0; i < 200 && r->ok; i++) {
        char text[64], *back = NULL;
        size_t bytes;
        int n = snprintf(text, sizeof text, "thread text %d of many, %d", i, i * 7919);
        r->ok = ftok_encode_ordinary(r->t, &tokens, text, (size_t)n, NULL) == FTOK_OK &&
                ftok_decode(r->t, &back, &bytes, tokens.ids, tokens.n, 0, NULL) == FTOK_OK &&
                strcmp(back, text) == 0;
        ftok_free(back);
    }
    ftok_tokens_free(&tokens);
    return NULL;
}

static void threads_share_one_tokenizer(void **state)
{
    enum { N = 4 };
    ftok *t = open_tiny();
    pthread_t threads[N];
    struct run runs[N];
    (void)state;
    for (int i = 0; i < N; i++) {
        runs[i].t = t;
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &runs[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_true(runs[i].ok);
    }
    ftok_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_has_no_special_ids),
        cmocka_unit_test(special_tokens_are_allowed_or_an_error),
        cmocka_unit_test(a_stream_gives_whole_characters),
        cmocka_unit_test(broken_characters_become_one_replacement_each),
        cmocka_unit_test(errors_say_what_is_wrong),
        cmocka_unit_test(threads_share_one_tokenizer),
    };
    return cmocka_run_group_tests_name("ftok", tests, NULL, NULL);
}
