/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/tok.h"

#include "common/cpu.h"
#include "common/file.h"
#include "common/rng.h"
#include "formats/json.h"
#include "tests/support/check.h"

static const char TINY[] = "data-samples/tokenizer-tiny.json";

static struct tok *open_tok(const char *path)
{
    struct tok *t;
    ft_error err;
    ASSERT_OK(tok_open(&t, path, &err));
    return t;
}

static struct tok_encoder *open_encoder(const struct tok *t)
{
    struct tok_encoder *e;
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    return e;
}

static str read_file(struct arena *a, const char *path)
{
    str text;
    ft_error err;
    ASSERT_OK(file_read_all(&text, a, path, 1 << 24, &err));
    return text;
}

static void assert_ids(const struct tok_ids *ids, const int32_t *expected, size_t n)
{
    assert_int_equal(ids->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids->ids[i], expected[i]);
}

/* --- golden files ------------------------------------------------------------------------------
 */

static void check_ids(const struct tok_ids *ids, str line, const char *path, size_t row)
{
    struct json_doc *doc;
    size_t i = 0;
    ft_error err;
    ASSERT_OK(json_parse(&doc, path, line, JSON_STRICT, &err));
    if (json_count(json_root(doc)) != ids->n)
        fail_msg("%s: row %zu: %zu ids, expected %.*s", path, row, ids->n, STR_ARG(line));
    for (const json *v = json_first(json_root(doc)); v != NULL; v = json_next(v), i++) {
        int64_t id;
        if (!json_i64(v, &id) || id != ids->ids[i])
            fail_msg("%s: row %zu: id %zu is %d, expected %.*s", path, row, i, ids->ids[i],
                     STR_ARG(line));
    }
    json_close(doc);
}

/* Encodes every string of NAME.MODE.in twice, from a cold and from a warm cache. */
static void check_golden(const char *tokenizer, const char *name, enum tok_specials mode)
{
    struct tok *t = open_tok(tokenizer);
    struct tok_encoder *e = open_encoder(t);
    struct arena a = {0};
    struct tok_ids ids = {0};
    char in[64], out[64];
    ft_error err;
    const char *mode_name = mode == TOK_SPECIALS_PARSE ? "parse" : "literal";
    snprintf(in, sizeof in, "tests/golden/tok/%s.%s.in", name, mode_name);
    snprintf(out, sizeof out, "tests/golden/tok/%s.%s.out", name, mode_name);
    str inputs = read_file(&a, in), outputs = read_file(&a, out);
    for (size_t row = 1; inputs.len > 0; row++) {
        struct json_doc *doc;
        str text, expected = str_cut(&outputs, '\n');
        ASSERT_OK(json_parse(&doc, in, str_cut(&inputs, '\n'), JSON_STRICT, &err));
        assert_true(json_str(json_root(doc), &text));
        for (int round = 0; round < 2; round++) {
            ids.n = 0;
            ASSERT_OK(tok_encode(e, &ids, text, mode, &err));
            check_ids(&ids, expected, in, row);
        }
        json_close(doc);
    }
    assert_int_equal(outputs.len, 0);
    tok_ids_free(&ids);
    arena_destroy(&a);
    tok_encoder_destroy(e);
    tok_close(t);
}

static void ids_equal_the_reference_on_every_tier(void **state)
{
    enum cpu_tier best = cpu_tier();
    (void)state;
    for (enum cpu_tier tier = CPU_PORTABLE; tier <= best; tier++) {
        cpu_tier_limit(tier);
        check_golden(TINY, "tiny", TOK_SPECIALS_LITERAL);
        check_golden(TINY, "tiny", TOK_SPECIALS_PARSE);
        check_golden("tests/golden/tok/added.json", "added", TOK_SPECIALS_LITERAL);
        check_golden("tests/golden/tok/added.json", "added", TOK_SPECIALS_PARSE);
    }
    cpu_tier_limit(CPU_TIERS);
}

static size_t character_start(str text, size_t at)
{
    while (at > 0 && ((uint8_t)text.ptr[at] & 0xC0) == 0x80)
        at--;
    return at;
}

/* The reference counts characters: all tokens inside one lie at its start. */
static void offsets_equal_the_reference(void **state)
{
    struct tok *t = open_tok("tests/golden/tok/added.json");
    struct tok_encoder *e = open_encoder(t);
    struct arena a = {0};
    struct tok_ids ids = {.want_offsets = true};
    ft_error err;
    (void)state;
    str inputs = read_file(&a, "tests/golden/tok/added.parse.in");
    str starts = read_file(&a, "tests/golden/tok/added.offsets");
    while (inputs.len > 0) {
        struct json_doc *text_doc, *starts_doc;
        str text;
        size_t i = 0;
        ASSERT_OK(json_parse(&text_doc, "in", str_cut(&inputs, '\n'), JSON_STRICT, &err));
        ASSERT_OK(json_parse(&starts_doc, "offsets", str_cut(&starts, '\n'), JSON_STRICT, &err));
        assert_true(json_str(json_root(text_doc), &text));
        ids.n = 0;
        ASSERT_OK(tok_encode(e, &ids, text, TOK_SPECIALS_PARSE, &err));
        const json *v = json_first(json_root(starts_doc));
        for (; v != NULL; v = json_next(v), i++) {
            int64_t expected;
            assert_true(json_i64(v, &expected));
            assert_int_equal(character_start(text, ids.offsets[i]), expected);
        }
        assert_int_equal(i, ids.n);
        json_close(text_doc);
        json_close(starts_doc);
    }
    tok_ids_free(&ids);
    arena_destroy(&a);
    tok_encoder_destroy(e);
    tok_close(t);
}

/* --- one vocabulary in several formats ---------------------------------------------------------
 */

static void put_gguf_str(struct buf *b, str s)
{
    buf_u64le(b, s.len);
    buf_str(b, s);
}

static void put_gguf_array(struct buf *b, const char *key, uint32_t kind, uint64_t n)
{
    put_gguf_str(b, str_from(key));
    buf_u32le(b, 9);
    buf_u32le(b, kind);
    buf_u64le(b, n);
}

static void put_gguf_pair(struct buf *b, const char *key, const char *value)
{
    put_gguf_str(b, str_from(key));
    buf_u32le(b, 8);
    put_gguf_str(b, str_from(value));
}

enum { TINY_VOCAB = 512, NORMAL = 1, CONTROL = 3, USER_DEFINED = 4 };

/* The model of the tiny tokenizer and those of its added tokens that GGUF can express, as
 * tokenizer.json and as GGUF. */
static void write_both(const char *json_path, const char *gguf_path)
{
    struct arena a = {0};
    struct json_doc *doc;
    struct buf gguf = {0}, text = {0};
    str tokens[TINY_VOCAB];
    uint32_t types[TINY_VOCAB];
    ft_error err;
    size_t n = 0;
    ASSERT_OK(json_load(&doc, TINY, JSON_STRICT, 1 << 20, &err));
    const json *model = json_get(json_root(doc), "model");
    for (const json *v = json_first(json_get(model, "vocab")); v != NULL; v = json_next(v), n++) {
        int64_t id;
        assert_true(json_i64(v, &id));
        tokens[id] = json_key(v);
        types[id] = id < 3 ? CONTROL : NORMAL;
    }
    tokens[n] = STR("<user defined>");
    types[n++] = USER_DEFINED;

    buf_append(&gguf, "GGUF", 4);
    buf_u32le(&gguf, 3);
    buf_u64le(&gguf, 0);
    buf_u64le(&gguf, 5);
    put_gguf_pair(&gguf, "tokenizer.ggml.model", "gpt2");
    put_gguf_pair(&gguf, "tokenizer.ggml.pre", "smollm");
    put_gguf_array(&gguf, "tokenizer.ggml.tokens", 8, n);
    for (size_t i = 0; i < n; i++)
        put_gguf_str(&gguf, tokens[i]);
    put_gguf_array(&gguf, "tokenizer.ggml.token_type", 5, n);
    for (size_t i = 0; i < n; i++)
        buf_u32le(&gguf, types[i]);
    const json *merges = json_get(model, "merges");
    put_gguf_array(&gguf, "tokenizer.ggml.merges", 8, json_count(merges));

    buf_cstr(&text,
             "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
             "{\"type\":\"Digits\",\"individual_digits\":true},{\"type\":\"ByteLevel\","
             "\"add_prefix_space\":false,\"use_regex\":true}]},\"decoder\":{\"type\":"
             "\"ByteLevel\"},\"added_tokens\":[");
    for (size_t i = 0; i < 4; i++) {
        size_t id = i < 3 ? i : n - 1;
        buf_printf(&text,
                   "%s{\"id\":%zu,\"special\":%s,\"normalized\":%s,\"content\":", i == 0 ? "" : ",",
                   id, i < 3 ? "true" : "false", i < 3 ? "false" : "true");
        json_write_str(&text, tokens[id]);
        buf_cstr(&text, "}");
    }
    buf_cstr(&text, "],\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (size_t i = 0; i + 1 < n; i++) {
        buf_cstr(&text, i == 0 ? "" : ",");
        json_write_str(&text, tokens[i]);
        buf_printf(&text, ":%zu", i);
    }
    buf_cstr(&text, "},\"merges\":[");
    for (const json *v = json_first(merges); v != NULL; v = json_next(v)) {
        str left, right, pair;
        assert_true(json_str(json_first(v), &left) && json_str(json_next(json_first(v)), &right));
        char joined[256];
        snprintf(joined, sizeof joined, "%.*s %.*s", STR_ARG(left), STR_ARG(right));
        pair = str_from(joined);
        put_gguf_str(&gguf, pair);
        buf_cstr(&text, v == json_first(merges) ? "" : ",");
        json_write_str(&text, pair);
    }
    buf_cstr(&text, "]}}");
    ASSERT_OK(file_publish(json_path, text.data, text.len, &err));
    ASSERT_OK(file_publish(gguf_path, gguf.data, gguf.len, &err));
    buf_free(&gguf);
    buf_free(&text);
    json_close(doc);
    arena_destroy(&a);
}

static void assert_same_ids(const struct tok *x, const struct tok *y, str text)
{
    struct tok_encoder *ex = open_encoder(x), *ey = open_encoder(y);
    struct tok_ids ix = {0}, iy = {0};
    ft_error err;
    ASSERT_OK(tok_encode(ex, &ix, text, TOK_SPECIALS_PARSE, &err));
    ASSERT_OK(tok_encode(ey, &iy, text, TOK_SPECIALS_PARSE, &err));
    assert_ids(&ix, iy.ids, iy.n);
    tok_ids_free(&ix);
    tok_ids_free(&iy);
    tok_encoder_destroy(ex);
    tok_encoder_destroy(ey);
}

static void json_gguf_and_blob_give_the_same_fingerprint_and_ids(void **state)
{
    const char *json_path = test_path("same.json"), *gguf_path = test_path("same.gguf");
    const char *dir = test_path("dataset"), *blob_path = test_path("dataset/tokenizer.tok");
    struct buf blob = {0};
    struct arena a = {0};
    ft_error err;
    (void)state;
    write_both(json_path, gguf_path);
    struct tok *j = open_tok(json_path), *g = open_tok(gguf_path);
    ASSERT_OK(tok_to_blob(&blob, j, &err));
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_publish(blob_path, blob.data, blob.len, &err));
    struct tok *b = open_tok(dir), *other = open_tok(TINY);
    assert_true(hash128_eq(tok_fingerprint(j), tok_fingerprint(g)));
    assert_true(hash128_eq(tok_fingerprint(j), tok_fingerprint(b)));
    assert_false(hash128_eq(tok_fingerprint(j), tok_fingerprint(other)));
    assert_int_equal(tok_n_vocab(j), tok_n_vocab(g));
    assert_int_equal(tok_n_vocab(j), tok_n_vocab(b));
    str text = read_file(&a, "data-samples/chat.jsonl");
    assert_same_ids(j, g, text);
    assert_same_ids(j, b, text);
    buf_free(&blob);
    arena_destroy(&a);
    tok_close(j);
    tok_close(g);
    tok_close(b);
    tok_close(other);
}

static void a_blob_keeps_everything(void **state)
{
    struct buf first = {0}, second = {0};
    struct tok *t = open_tok(TINY), *copy;
    ft_error err;
    (void)state;
    ASSERT_OK(tok_to_blob(&first, t, &err));
    ASSERT_OK(tok_from_blob(&copy, "copy", buf_view(&first), &err));
    ASSERT_OK(tok_to_blob(&second, copy, &err));
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
    for (int32_t id = 0; id < tok_n_vocab(t); id++) {
        assert_true(str_eq(tok_bytes(t, id), tok_bytes(copy, id)));
        assert_int_equal(tok_is_special(t, id), tok_is_special(copy, id));
    }
    buf_free(&first);
    buf_free(&second);
    tok_close(t);
    tok_close(copy);
}

static void damaged_blobs_are_refused(void **state)
{
    struct buf blob = {0};
    struct tok *t = open_tok(TINY), *copy;
    ft_error err;
    (void)state;
    ASSERT_OK(tok_to_blob(&blob, t, &err));
    for (size_t n = 0; n < blob.len; n++)
        ASSERT_FAILS(tok_from_blob(&copy, "cut", (str){(char *)blob.data, n}, &err), FT_EFORMAT,
                     "cut: ");
    for (size_t i = 0; i < blob.len; i++) {
        blob.data[i] ^= 1;
        ASSERT_FAILS(tok_from_blob(&copy, "flipped", buf_view(&blob), &err), FT_EFORMAT,
                     "flipped: ");
        assert_null(copy);
        blob.data[i] ^= 1;
    }
    /* With a checksum that fits, every field still meets its own check. */
    for (uint64_t k = 0; k < 30000; k++) {
        size_t at = rng_u64(1, 1, k) % (k % 2 == 0 ? 64 : blob.len - 8);
        uint8_t kept = blob.data[at];
        blob.data[at] = (uint8_t)rng_u64(1, 2, k);
        store_u64le(blob.data + blob.len - 8, hash64(blob.data, blob.len - 8));
        if (tok_from_blob(&copy, "forged", buf_view(&blob), &err) == FT_OK)
            tok_close(copy);
        blob.data[at] = kept;
    }
    buf_free(&blob);
    tok_close(t);
}

/* --- ranges ------------------------------------------------------------------------------------
 */

static void specials_are_parsed_only_inside_the_ranges(void **state)
{
    struct tok *t = open_tok(TINY);
    struct tok_encoder *e = open_encoder(t);
    struct tok_ids ids = {.want_offsets = true}, part = {0};
    int32_t end = tok_special(t, STR("<|im_end|>"));
    str text = STR("<|im_end|> a<|im_end|>b<|im_end|>");
    struct tok_range parse[] = {{12, 22}, {24, 33}}; /* the second cuts a special token in two */
    ft_error err;
    (void)state;
    ASSERT_OK(tok_encode_ranges(e, &ids, text, parse, 2, &err));
    ASSERT_OK(tok_encode(e, &part, str_sub(text, 0, 12), TOK_SPECIALS_LITERAL, &err));
    size_t at = part.n;
    assert_memory_equal(ids.ids, part.ids, part.n * sizeof *part.ids);
    assert_int_equal(ids.ids[at], end);
    assert_int_equal(ids.offsets[at], 12);
    part.n = 0;
    ASSERT_OK(tok_encode(e, &part, str_sub(text, 22, 33), TOK_SPECIALS_LITERAL, &err));
    assert_int_equal(ids.n, at + 1 + part.n);
    assert_memory_equal(ids.ids + at + 1, part.ids, part.n * sizeof *part.ids);
    tok_ids_free(&ids);
    tok_ids_free(&part);
    tok_encoder_destroy(e);
    tok_close(t);
}

static void ordinary_text_is_joined_across_a_border(void **state)
{
    struct tok *t = open_tok(TINY);
    struct tok_encoder *e = open_encoder(t);
    struct tok_ids whole = {0}, ranges = {0};
    str text = STR("the training data");
    ft_error err;
    (void)state;
    for (size_t border = 0; border <= text.len; border++) {
        struct tok_range parse = {0, border};
        whole.n = ranges.n = 0;
        ASSERT_OK(tok_encode(e, &whole, text, TOK_SPECIALS_LITERAL, &err));
        ASSERT_OK(tok_encode_ranges(e, &ranges, text, &parse, 1, &err));
        assert_ids(&ranges, whole.ids, whole.n);
    }
    tok_ids_free(&whole);
    tok_ids_free(&ranges);
    tok_encoder_destroy(e);
    tok_close(t);
}

static void offsets_may_be_wanted_now_and_then(void **state)
{
    struct tok *t = open_tok(TINY);
    struct tok_encoder *e = open_encoder(t);
    struct tok_ids ids = {0};
    static char text[40000];
    ft_error err;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + rng_u64(6, 1, i) % 26);
    for (size_t round = 0; round < 8; round++) {
        size_t n = sizeof text / 8 * (round + 1);
        ids.n = 0;
        ids.want_offsets = round % 2 != 0;
        ASSERT_OK(tok_encode(e, &ids, (str){text, n}, TOK_SPECIALS_LITERAL, &err));
        size_t at = 0;
        for (size_t i = 0; ids.want_offsets && i < ids.n; at += tok_bytes(t, ids.ids[i++]).len)
            assert_int_equal(ids.offsets[i], at);
    }
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
    tok_close(t);
}

static void a_full_cache_changes_nothing(void **state)
{
    struct tok *t = open_tok(TINY);
    struct tok_encoder *e = open_encoder(t);
    struct tok_ids all = {0}, word = {0};
    ft_error err;
    (void)state;
    for (uint64_t k = 0; k < 300000; k++) {
        char text[48];
        size_t n = 1 + k % 20;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)('a' + rng_u64(5, k % 150000, i) % 6);
        all.n = 0;
        ASSERT_OK(tok_encode(e, &all, (str){text, n}, TOK_SPECIALS_LITERAL, &err));
        struct buf back = {0};
        tok_decode(t, &back, all.ids, all.n, false);
        assert_int_equal(back.len, n);
        assert_memory_equal(back.data, text, n);
        buf_free(&back);
        if (k % 1000 == 0) {
            struct tok_encoder *fresh = open_encoder(t);
            word.n = 0;
            ASSERT_OK(tok_encode(fresh, &word, (str){text, n}, TOK_SPECIALS_LITERAL, &err));
            assert_ids(&all, word.ids, word.n);
            tok_encoder_destroy(fresh);
        }
    }
    tok_ids_free(&all);
    tok_ids_free(&word);
    tok_encoder_destroy(e);
    tok_close(t);
}

/* --- decoding ----------------------------------------------------------------------------------
 */

static void decoding_skips_specials_on_demand_and_ignores_other_numbers(void **state)
{
    struct tok *t = open_tok(TINY);
    struct buf out = {0};
    int32_t end = tok_special(t, STR("<|im_end|>")), plain = -1;
    (void)state;
    for (int32_t id = 0; id < tok_n_vocab(t); id++)
        if (str_is(tok_bytes(t, id), " the"))
            plain = id;
    int32_t ids[] = {end, plain, -1, tok_n_vocab(t), INT32_MAX};
    tok_decode(t, &out, ids, ARRAY_LEN(ids), false);
    assert_true(str_is(buf_view(&out), "<|im_end|> the"));
    buf_clear(&out);
    tok_decode(t, &out, ids, ARRAY_LEN(ids), true);
    assert_true(str_is(buf_view(&out), " the"));
    assert_true(tok_is_special(t, end));
    assert_false(tok_is_special(t, plain));
    assert_int_equal(tok_special(t, STR("<plain>")), -1);
    assert_int_equal(tok_special(t, STR("<|im_end")), -1);
    buf_free(&out);
    tok_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_the_reference_on_every_tier),
        cmocka_unit_test(offsets_equal_the_reference),
        cmocka_unit_test(json_gguf_and_blob_give_the_same_fingerprint_and_ids),
        cmocka_unit_test(a_blob_keeps_everything),
        cmocka_unit_test(damaged_blobs_are_refused),
        cmocka_unit_test(specials_are_parsed_only_inside_the_ranges),
        cmocka_unit_test(ordinary_text_is_joined_across_a_border),
        cmocka_unit_test(offsets_may_be_wanted_now_and_then),
        cmocka_unit_test(a_full_cache_changes_nothing),
        cmocka_unit_test(decoding_skips_specials_on_demand_and_ignores_other_numbers),
    };
    return cmocka_run_group_tests_name("tok", tests, NULL, NULL);
}
