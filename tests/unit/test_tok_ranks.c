/* SPDX-License-Identifier: Apache-2.0
 * Rank files and tekken.json on small vocabularies: rules of merging, what stands beside the file,
 * what is refused. Real files: tests/reference/diff_tiktoken.py. */
#include "common/base64.h"
#include "common/file.h"
#include "formats/json.h"
#include "formats/tok/tok_internal.h"
#include "tests/support/check.h"

/* "ab" and "bc" overlap; "abcd" can only be met whole; ranks 256 to 259. */
static const char *const longer[] = {"bc", "ab", "abcd", "a\xFF"};

static void put_ranks(struct buf *out)
{
    for (unsigned i = 0; i < 256 + ARRAY_LEN(longer); i++) {
        char byte = (char)i;
        base64_write(out, i < 256 ? (str){&byte, 1} : str_from(longer[i - 256]));
        buf_printf(out, " %u\n", i);
    }
}

static const char *write_text(const char *name, const struct buf *text)
{
    const char *path = test_path(name);
    struct file_writer w;
    ft_error err;
    ASSERT_OK(file_writer_open(&w, path, &err));
    file_write(&w, text->data, text->len);
    ASSERT_OK(file_writer_commit(&w, &err));
    return path;
}

static void check_ids(const struct tok *t, const char *text, enum tok_specials specials,
                      const char *expected)
{
    struct tok_encoder *e;
    struct tok_ids ids = {0};
    struct buf out = {0};
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    ASSERT_OK(tok_encode(e, &ids, str_from(text), specials, &err));
    for (size_t i = 0; i < ids.n; i++)
        buf_printf(&out, "%s%d", i > 0 ? " " : "", ids.ids[i]);
    buf_byte(&out, 0);
    assert_string_equal((const char *)out.data, expected);
    buf_free(&out);
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
}

static void ranks_merge_as_tiktoken_does(void **state)
{
    struct buf ranks = {0}, sidecar = {0};
    struct tok *t;
    ft_error err;
    char path[512];
    (void)state;
    put_ranks(&ranks);
    buf_cstr(&sidecar, "{\"pattern\": \"cl100k\", \"special_tokens\": {\"<|end|>\": 300}, "
                       "\"eos_token\": \"<|end|>\"}");
    snprintf(path, sizeof path, "%s", write_text("small.tiktoken", &ranks));
    write_text("small.tiktoken.json", &sidecar);
    ASSERT_OK(tok_open(&t, path, &err));
    check_ids(t, "abc", TOK_SPECIALS_LITERAL, "97 256"); /* "bc" has the lower rank */
    check_ids(t, "abcd", TOK_SPECIALS_LITERAL, "258");   /* whole pieces first */
    check_ids(t, "xabcd", TOK_SPECIALS_LITERAL, "120 97 256 100");
    check_ids(t, "ab<|end|>", TOK_SPECIALS_PARSE, "257 300");
    assert_int_equal(tok_eos(t), 300);
    assert_int_equal(tok_bos(t), -1);
    tok_close(t);
    buf_free(&ranks);
    buf_free(&sidecar);
}

static void an_unknown_file_needs_a_description(void **state)
{
    struct buf ranks = {0};
    struct tok *t;
    ft_error err;
    (void)state;
    put_ranks(&ranks);
    assert_int_equal(tok_open(&t, write_text("lonely.tiktoken", &ranks), &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "not one of the known rank files"));
    assert_non_null(strstr(err.text, ".json behind it"));
    buf_free(&ranks);
}

static void faults_name_the_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"YQ== 0\nYg==\n", "line 2: expected a token in base64, a space and its rank, found"},
        {"YQ== 0\n!!!! 1\n", "line 2: \"!!!!\" is not base64"},
        {"YQ== 0\nYg== -1\n", "line 2: expected"},
        {"YQ== 0\nYg== 99999999999\n", "line 2: expected"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf text = {0};
        struct tok *t;
        ft_error err;
        buf_cstr(&text, cases[i].text);
        assert_int_equal(tok_open(&t, write_text("broken.tiktoken", &text), &err), FT_EFORMAT);
        if (strstr(err.text, cases[i].message) == NULL)
            fail_msg("\"%s\", expected \"%s\"", err.text, cases[i].message);
        buf_free(&text);
    }
}

static void put_tekken(struct buf *out, const char *specials)
{
    buf_printf(out,
               "{\"config\": {\"pattern\": \"\\\\s+|\\\\S+\", \"default_vocab_size\": 269, "
               "\"default_num_special_tokens\": 10}, %s \"vocab\": [",
               specials);
    for (unsigned i = 0; i < 256 + ARRAY_LEN(longer); i++) {
        char byte = (char)i;
        buf_printf(out, "%s{\"rank\": %u, \"token_bytes\": \"", i > 0 ? ", " : "", i);
        base64_write(out, i < 256 ? (str){&byte, 1} : str_from(longer[i - 256]));
        buf_cstr(out, "\"}");
    }
    buf_cstr(out, "]}");
}

static void tekken_ids_stand_behind_the_special_ones(void **state)
{
    struct buf text = {0};
    struct tok *t;
    ft_error err;
    (void)state;
    put_tekken(&text, "\"special_tokens\": [{\"rank\": 0, \"token_str\": \"<unk>\"}, {\"rank\": 1, "
                      "\"token_str\": \"<s>\"}, {\"rank\": 2, \"token_str\": \"</s>\"}],");
    ASSERT_OK(tok_open(&t, write_text("tekken.json", &text), &err));
    assert_int_equal(tok_n_vocab(t), 269); /* the last rank does not fit */
    check_ids(t, "abc ab", TOK_SPECIALS_LITERAL, "107 266 42 267");
    check_ids(t, "<s>a<SPECIAL_9>", TOK_SPECIALS_PARSE, "1 107 9");
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_eos(t), 2);
    tok_close(t);
    buf_free(&text);
}

static void tekken_with_too_many_specials_is_refused(void **state)
{
    struct buf text = {0};
    struct tok *t;
    ft_error err;
    (void)state;
    put_tekken(&text, ""); /* the 20 early ones do not fit into 10 */
    assert_int_equal(tok_open(&t, write_text("tekken.json", &text), &err), FT_EFORMAT);
    assert_non_null(strstr(err.text, "special_tokens: 20, at most 10 fit"));
    buf_free(&text);
}

/* What comes out of a rank file goes into data sets as a blob. */
static void a_blob_gives_the_same_ids(void **state)
{
    struct buf text = {0}, blob = {0};
    struct tok *t, *copy;
    ft_error err;
    (void)state;
    put_tekken(&text, "\"special_tokens\": [{\"rank\": 0, \"token_str\": \"<s>\"}],");
    ASSERT_OK(tok_open(&t, write_text("tekken.json", &text), &err));
    ASSERT_OK(tok_to_blob(&blob, t, &err));
    ASSERT_OK(tok_from_blob(&copy, "blob", buf_view(&blob), &err));
    check_ids(copy, "abc abcd<s>", TOK_SPECIALS_PARSE, "107 266 42 268 0");
    hash128 a = tok_fingerprint(t), b = tok_fingerprint(copy);
    assert_memory_equal(&a, &b, sizeof a);
    tok_close(t);
    tok_close(copy);
    buf_free(&text);
    buf_free(&blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_merge_as_tiktoken_does),
        cmocka_unit_test(an_unknown_file_needs_a_description),
        cmocka_unit_test(faults_name_the_line),
        cmocka_unit_test(tekken_ids_stand_behind_the_special_ones),
        cmocka_unit_test(tekken_with_too_many_specials_is_refused),
        cmocka_unit_test(a_blob_gives_the_same_ids),
    };
    return cmocka_run_group_tests_name("tok_ranks", tests, NULL, NULL);
}
