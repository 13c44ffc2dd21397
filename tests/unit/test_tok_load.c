/* SPDX-License-Identifier: Apache-2.0
 * What a tokenizer.json may say, and what is refused and how. */
#include "common/clock.h"
#include "common/file.h"
#include "formats/tok/tok.h"
#include "tests/support/check.h"

/* A whole file; each test replaces some part. */
static const char BASE[] =
    "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"normalizer\": null,\n"
    " \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", \"special\": true}],\n"
    " \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
    "true},\n"
    " \"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\"},\n"
    " \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null,\n"
    "  \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120a\": 3}, \"merges\": [\"a b\"]}}";

/* Its pre-tokenizer. */
#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}"

/* Writes BASE with the first occurrence of `from` replaced and opens it. */
static ft_status open_changed(struct tok **t, const char *from, const char *to, ft_error *err)
{
    const char *path = test_path("changed.json"), *at = strstr(BASE, from);
    struct buf text = {0};
    assert_non_null(at);
    buf_append(&text, BASE, (size_t)(at - BASE));
    buf_cstr(&text, to);
    buf_cstr(&text, at + strlen(from));
    assert_int_equal(file_publish(path, text.data, text.len, err), FT_OK);
    buf_free(&text);
    return tok_open(t, path, err);
}

static void unsupported_components_are_refused_by_name_and_place(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"\"1.0\"", "\"2.0\"", "version"},
        {"\"truncation\": null", "\"truncation\": {}", "truncation: a value other than null"},
        {"\"padding\": null", "\"padding\": {}", "padding: a value other than null"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"BertNormalizer\"}",
         "normalizer: the component \"BertNormalizer\""},
        {"\"normalizer\": null",
         "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Nmt\"}]}",
         "normalizer.normalizers[0]: the component \"Nmt\""},
        {"\"type\": \"ByteLevel\", \"add", "\"type\": \"FixedLength\", \"add",
         "pre_tokenizer: the component \"FixedLength\""},
        {BYTE_LEVEL, "{\"type\": \"Metaspace\", \"replacement\": \"_\"}",
         "pre_tokenizer: Metaspace with a replacement other than U+2581"},
        {BYTE_LEVEL,
         "{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\", \"add_prefix_space\": false}",
         "add_prefix_space: false contradicts prepend_scheme: \"always\""},
        {BYTE_LEVEL,
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}, {\"type\": "
         "\"ByteLevel\"}]}",
         "pre_tokenizer.pretokenizers[1]: ByteLevel with add_prefix_space: true behind other "
         "stages"},
        {BYTE_LEVEL,
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\", "
         "\"add_prefix_space\": false}, {\"type\": \"Digits\", \"individual_digits\": true}]}",
         "pre_tokenizer.pretokenizers[1]: a pre-tokenizer behind ByteLevel"},
        {BYTE_LEVEL, "{\"type\": \"Split\", \"pattern\": \"a+\", \"behavior\": \"Isolated\"}",
         "pre_tokenizer: pattern: expected {\"String\": ...} or {\"Regex\": ...}"},
        {BYTE_LEVEL,
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a+\"}, \"behavior\": \"Cut\"}",
         "pre_tokenizer: behavior: \"Cut\" is not supported"},
        {BYTE_LEVEL, "null", "decoder: ByteLevel without the pre-tokenizer ByteLevel"},
        {"\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": null", "decoder: the component"},
        {"\"decoder\": {\"type\": \"ByteLevel\"}", "\"decoder\": {\"type\": \"Fuse\"}",
         "decoder: a decoder other than ByteLevel behind the pre-tokenizer ByteLevel"},
        {"\"type\": \"BPE\"", "\"type\": \"WordPiece\"", "model: the component \"WordPiece\""},
        {"\"type\": \"BPE\"", "\"type\": \"Unigram\"",
         "model: Unigram behind the pre-tokenizer ByteLevel"},
        {"\"dropout\": null", "\"dropout\": 0.1", "model.dropout"},
        {"\"dropout\": null", "\"dropout\": \"no\"", "model.dropout"},
        {"\"dropout\": null", "\"end_of_word_suffix\": \"</w>\"", "model.end_of_word_suffix"},
        {"\"dropout\": null", "\"continuing_subword_prefix\": \"##\"",
         "model.continuing_subword_prefix"},
        {"\"dropout\": null", "\"byte_fallback\": true", "model.byte_fallback"},
        {"\"unk_token\": null", "\"unk_token\": \"x\"",
         "model.unk_token: \"x\" is not in the vocabulary"},
        {"\"vocab\": {\"a\": 0", "\"vocab\": {\"a\": \"x\"",
         "model.vocab: the id of \"a\" is not a whole number"},
        {"\"vocab\": {\"a\": 0", "\"vocab\": {\"a\": 1", "model.vocab: token id 1 is given to"},
        {"\"vocab\": {\"a\": 0", "\"vocab\": {\"a\": -1", "model.vocab: token id -1"},
        {"\"vocab\": {\"a\": 0", "\"vocab\": {\"a\": 99999999", "model.vocab: token id 99999999"},
        {"\"vocab\": {\"a\": 0", "\"vocab\": {\"a\": 0, \"a\": 9",
         "model.vocab: the token \"a\" has two ids, 0 and 9"},
        {"\"a b\"", "\"a c\"", "model.merges[0]: \"c\" is not in the vocabulary"},
        {"\"a b\"", "\"a b\", \"b b\"", "model.merges[1]: \"bb\" is not in the vocabulary"},
        {"\"a b\"", "\"ab\"", "model.merges[0]: \"ab\" is not two tokens"},
        {"\"a b\"", "[\"a\"]", "model.merges[0]: expected"},
        {"\"a b\"", "5", "model.merges[0]: expected"},
        {"\"content\": \"<s>\"", "\"content\": \"\"", "added_tokens[0]: an added token needs"},
        {"\"content\": \"<s>\"", "\"content\": 1", "added_tokens[0]: \"content\": expected"},
        {"\"id\": 4", "\"id\": 3",
         "added_tokens[0]: id 3, where Hugging Face tokenizers assigns 4"},
        {"\"special\": true", "\"special\": 1", "added_tokens[0]: \"special\": expected"},
        {"\"model\"", "\"modell\"", "\"model\""},
        {"\"merges\": [\"a b\"]", "\"merges\": null", "\"merges\": expected"},
    };
    struct tok *t;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ASSERT_FAILS(open_changed(&t, cases[i].from, cases[i].to, &err),
                     strstr(cases[i].message, "token id -1") || strstr(cases[i].message, "9999")
                         ? FT_ELIMIT
                         : FT_EFORMAT,
                     cases[i].message);
        assert_non_null(strstr(err.text, "changed.json: "));
        assert_null(t);
    }
}

static void spellings_of_the_same_thing_are_accepted(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\"a b\"", "[\"a\", \"b\"]"},
        {"\"a b\"", "\"a b\", \"a b\""},
        {"\"type\": \"BPE\", ", ""},
        {"\"dropout\": null", "\"dropout\": 0.0"},
        {"\"dropout\": null", "\"continuing_subword_prefix\": \"\", \"end_of_word_suffix\": null"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": []}"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\", "
         "\"add_prefix_space\": false}]}"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
         "{\"Regex\":"
         "\"'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| "
         "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|"
         "\\\\s+\"}, \"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\", "
         "\"add_prefix_space\": false, \"use_regex\": false}]}"},
    };
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(open_changed(&t, "\"a b\"", "\"a b\"", &err));
    hash128 plain = tok_fingerprint(t);
    tok_close(t);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ASSERT_OK(open_changed(&t, cases[i].from, cases[i].to, &err));
        assert_true(hash128_eq(tok_fingerprint(t), plain));
        tok_close(t);
    }
}

static void whatever_decides_ids_changes_the_fingerprint(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"\"a b\"", ""},
        {"\"ab\": 2, \"\\u0120a\": 3", "\"ab\": 3, \"\\u0120a\": 2"},
        {"\"\\u0120a\": 3", "\"\\u0120b\": 3"},
        {"\"special\": true", "\"special\": false"},
        {"\"special\": true", "\"special\": true, \"lstrip\": true"},
        {"\"content\": \"<s>\"", "\"content\": \"<t>\""},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
         "\"individual_digits\": "
         "true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false}]}"},
    };
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(open_changed(&t, "\"a b\"", "\"a b\"", &err));
    hash128 plain = tok_fingerprint(t);
    tok_close(t);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ASSERT_OK(open_changed(&t, cases[i].from, cases[i].to, &err));
        assert_false(hash128_eq(tok_fingerprint(t), plain));
        tok_close(t);
    }
}

static int32_t encode_one(const struct tok *t, str text)
{
    struct tok_encoder *e;
    struct tok_ids ids = {0};
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    ASSERT_OK(tok_encode(e, &ids, text, TOK_SPECIALS_PARSE, &err));
    assert_int_equal(ids.n, 1);
    int32_t id = ids.ids[0];
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
    return id;
}

static void the_vocabulary_decides_the_id_of_an_added_token(void **state)
{
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(open_changed(&t, "\"id\": 4, \"content\": \"<s>\"", "\"id\": 9, \"content\": \"ab\"",
                           &err));
    assert_int_equal(encode_one(t, STR("ab")), 2);
    assert_true(tok_is_special(t, 2));
    assert_int_equal(tok_n_vocab(t), 4);
    tok_close(t);
}

static void a_byte_without_token_vanishes_and_its_neighbours_merge(void **state)
{
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(open_changed(&t, "\"a b\"", "\"a b\"", &err));
    assert_int_equal(encode_one(t, STR("aQb")), 2);
    assert_int_equal(encode_one(t, STR("aQb")), 2);
    tok_close(t);
}

static void ids_may_have_holes(void **state)
{
    struct tok *t;
    struct buf out = {0};
    int32_t hole = 40;
    ft_error err;
    (void)state;
    ASSERT_OK(open_changed(&t, "\"\\u0120a\": 3", "\"\\u0120a\": 100", &err));
    assert_int_equal(tok_n_vocab(t), 101);
    assert_int_equal(tok_bytes(t, hole).len, 0);
    assert_true(str_is(tok_bytes(t, 100), " a"));
    tok_decode(t, &out, &hole, 1, false);
    assert_int_equal(out.len, 0);
    buf_free(&out);
    tok_close(t);
}

static void neighbour_files_give_template_and_ends(void **state)
{
    static const char config[] = "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"<s>\","
                                 " \"chat_template\": \"from config\"}";
    const char *dir = test_path("neighbours");
    struct arena a = {0};
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(dir_remove(dir, &err));
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_FAILS(tok_open(&t, dir, &err), FT_EIO,
                 "no tokenizer.json, tokenizer.model, tekken.json or tokenizer.tok");
    ASSERT_OK(file_publish(path_join(&a, dir, "tokenizer.json"), BASE, strlen(BASE), &err));
    ASSERT_OK(tok_open(&t, dir, &err));
    assert_int_equal(tok_bos(t), -1);
    assert_int_equal(tok_eos(t), -1);
    assert_int_equal(tok_chat_template(t).len, 0);
    tok_close(t);
    ASSERT_OK(
        file_publish(path_join(&a, dir, "tokenizer_config.json"), config, strlen(config), &err));
    ASSERT_OK(tok_open(&t, dir, &err));
    assert_int_equal(tok_bos(t), 4);
    assert_int_equal(tok_eos(t), 4);
    assert_true(str_is(tok_chat_template(t), "from config"));
    tok_close(t);
    ASSERT_OK(file_publish(path_join(&a, dir, "chat_template.jinja"), "jinja", 5, &err));
    ASSERT_OK(tok_open(&t, dir, &err));
    assert_true(str_is(tok_chat_template(t), "jinja"));
    tok_close(t);
    arena_destroy(&a);
}

static ft_status open_with_config(struct tok **t, const char *config, ft_error *result)
{
    const char *dir = test_path("configured");
    struct arena a = {0};
    ft_error err;
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_publish(path_join(&a, dir, "tokenizer.json"), BASE, strlen(BASE), &err));
    ASSERT_OK(
        file_publish(path_join(&a, dir, "tokenizer_config.json"), config, strlen(config), &err));
    arena_destroy(&a);
    return tok_open(t, dir, result);
}

static void the_configuration_adds_tokens_and_changes_their_flags(void **state)
{
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(open_with_config(&t,
                               "{\"added_tokens_decoder\": {\"2\": {\"content\": \"ab\", "
                               "\"special\": true}, \"4\": {\"content\": \"<s>\", \"special\": "
                               "false}, \"5\": {\"content\": \"<new>\", \"special\": true, "
                               "\"rstrip\": true}}, \"eos_token\": \"<end>\"}",
                               &err));
    assert_int_equal(tok_special(t, STR("ab")), 2);
    assert_int_equal(tok_special(t, STR("<s>")), -1);
    assert_int_equal(tok_special(t, STR("<new>")), 5);
    assert_int_equal(encode_one(t, STR("<new>  ")), 5);
    assert_int_equal(tok_eos(t), 6);
    assert_int_equal(tok_n_vocab(t), 7);
    tok_close(t);
}

static void a_configuration_of_another_model_is_refused(void **state)
{
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_FAILS(
        open_with_config(&t, "{\"added_tokens_decoder\": {\"9\": {\"content\": \"<s>\"}}}", &err),
        FT_EFORMAT, "\"<s>\" has id 9, by tokenizer.json it has 4");
    assert_non_null(strstr(err.text, "tokenizer_config.json: added_tokens_decoder: "));
}

static void of_several_templates_the_default_counts(void **state)
{
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_OK(open_with_config(&t,
                               "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"T\"}, "
                               "{\"name\": \"default\", \"template\": \"D\"}]}",
                               &err));
    assert_true(str_is(tok_chat_template(t), "D"));
    tok_close(t);
}

static void a_million_special_tokens_load_in_bounded_time(void **state)
{
    enum { N = 1000000 };
    const char *path = test_path("million.json");
    struct buf text = {0};
    struct tok *t;
    ft_error err;
    (void)state;
    const char *at = strstr(BASE, "{\"id\": 4");
    buf_append(&text, BASE, (size_t)(at - BASE));
    for (int i = 0; i < N; i++)
        buf_printf(&text, "{\"id\": %d, \"content\": \"<%d>\", \"special\": true},", 4 + i, i);
    buf_printf(&text, "{\"id\": %d", N + 4);
    buf_cstr(&text, at + strlen("{\"id\": 4"));
    ASSERT_OK(file_publish(path, text.data, text.len, &err));
    buf_free(&text);
    double started = clock_seconds();
    ASSERT_OK(tok_open(&t, path, &err));
    assert_int_equal(encode_one(t, STR("<999999>")), N + 3);
    assert_int_equal(tok_n_vocab(t), N + 5);
    assert_true(clock_seconds() - started < 60);
    tok_close(t);
}

static void a_missing_file_and_other_formats_are_named(void **state)
{
    const char *path = test_path("not-a-tokenizer");
    struct tok *t;
    ft_error err;
    (void)state;
    ASSERT_FAILS(tok_open(&t, test_path("nowhere"), &err), FT_EIO, "nowhere");
    ASSERT_OK(file_publish(path,
                           "\x7f"
                           "ELF",
                           4, &err));
    ASSERT_FAILS(tok_open(&t, path, &err), FT_EFORMAT, "not-a-tokenizer: line 1");
    ASSERT_OK(file_publish(path, "", 0, &err));
    ASSERT_FAILS(tok_open(&t, path, &err), FT_EFORMAT, "not-a-tokenizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsupported_components_are_refused_by_name_and_place),
        cmocka_unit_test(spellings_of_the_same_thing_are_accepted),
        cmocka_unit_test(whatever_decides_ids_changes_the_fingerprint),
        cmocka_unit_test(the_vocabulary_decides_the_id_of_an_added_token),
        cmocka_unit_test(a_byte_without_token_vanishes_and_its_neighbours_merge),
        cmocka_unit_test(ids_may_have_holes),
        cmocka_unit_test(neighbour_files_give_template_and_ends),
        cmocka_unit_test(the_configuration_adds_tokens_and_changes_their_flags),
        cmocka_unit_test(a_configuration_of_another_model_is_refused),
        cmocka_unit_test(of_several_templates_the_default_counts),
        cmocka_unit_test(a_million_special_tokens_load_in_bounded_time),
        cmocka_unit_test(a_missing_file_and_other_formats_are_named),
    };
    return cmocka_run_group_tests_name("tok_load", tests, NULL, NULL);
}
