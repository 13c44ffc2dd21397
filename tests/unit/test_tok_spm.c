/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"
#include "formats/compress.h"
#include "formats/tok/charsmap.h"
#include "formats/tok/grapheme.h"
#include "formats/tok/tok_export.h"
#include "formats/tok/tok_internal.h"
#include "formats/tok/unigram.h"
#include "tests/support/check.h"
#include "tests/support/naive_spm.h"

/* --- models -------------------------------------------------------------------------------------
 */

static const char *const golden_models[] = {
    "unigram", "unigram_nfkc_cf", "unigram_nfkc", "unigram_user", "unigram_suffix", "unigram_free",
    "bpe",     "bpe_bytes",       "bpe_user",     "bpe_free",
};

/* The frame of a compressed model, into the arena. */
static str unpack(struct arena *a, str frame)
{
    enum { MOST = 1 << 20 };
    struct unzstd *u;
    ft_error err;
    char *out = arena_alloc(a, MOST, 1);
    size_t n_out = MOST, n_in = frame.len;
    assert_non_null(out);
    ASSERT_OK(unzstd_create(&u, &err));
    ASSERT_OK(unzstd_run(u, out, &n_out, frame.ptr, &n_in, &err));
    assert_true(unzstd_complete(u));
    unzstd_destroy(u);
    return (str){out, n_out};
}

static struct tok *open_golden(const char *name)
{
    struct arena a = {0};
    struct tok *t;
    ft_error err;
    char path[128];
    str bytes;
    snprintf(path, sizeof path, "tests/golden/spm/%s.model", name);
    if (path_exists(path)) {
        ASSERT_OK(tok_open(&t, path, &err));
        return t;
    }
    snprintf(path, sizeof path, "tests/golden/spm/%s.model.zst", name);
    ASSERT_OK(file_read_all(&bytes, &a, path, 1 << 20, &err));
    ASSERT_OK(tok_spm_parse(&t, name, unpack(&a, bytes), &err));
    arena_destroy(&a);
    return t;
}

/* A model of a few pieces. */
struct small {
    struct spm_piece pieces[300];
    char names[256][8];
    struct spm_file file;
};

static void add(struct small *s, const char *text, float score, enum spm_piece_type type)
{
    s->pieces[s->file.n_pieces++] = (struct spm_piece){str_from(text), score, type};
}

static void start(struct small *s, enum spm_model_type type)
{
    const struct spm_normalizer_spec plain = {STR(""), STR(""), true, false, true};
    s->file = (struct spm_file){
        .pieces = s->pieces,
        .model_type = type,
        .unk_piece = STR("<unk>"),
        .bos_piece = STR("<s>"),
        .eos_piece = STR("</s>"),
        .pad_piece = STR("<pad>"),
        .unk_surface = STR("?"),
        .normalizer = plain,
        .denormalizer = plain,
    };
    add(s, "<unk>", 0, SPM_UNKNOWN);
    add(s, "<s>", 0, SPM_CONTROL);
    add(s, "</s>", 0, SPM_CONTROL);
}

static void add_bytes(struct small *s)
{
    s->file.byte_fallback = true;
    for (unsigned c = 0; c < 256; c++) {
        snprintf(s->names[c], sizeof s->names[c], "<0x%02X>", c);
        add(s, s->names[c], 0, SPM_BYTE);
    }
}

static struct tok *make(const struct small *s)
{
    struct tok *t;
    ft_error err;
    ASSERT_OK(tok_spm_make(&t, &s->file, &err));
    return t;
}

static void assert_ids(const struct tok *t, const char *text, enum tok_specials specials,
                       const int32_t *want, size_t n)
{
    struct tok_encoder *e;
    struct tok_ids ids = {0};
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    for (int round = 0; round < 2; round++) { /* the second time from the cache */
        ids.n = 0;
        ASSERT_OK(tok_encode(e, &ids, str_from(text), specials, &err));
        assert_int_equal(ids.n, n);
        if (n > 0)
            assert_memory_equal(ids.ids, want, n * sizeof *want);
    }
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
}

#define ASSERT_IDS(t, text, ...)                                                                   \
    assert_ids(t, text, TOK_SPECIALS_LITERAL, (const int32_t[]){__VA_ARGS__},                      \
               ARRAY_LEN(((const int32_t[]){__VA_ARGS__})))

/* --- the strings of make_spm.py -----------------------------------------------------------------
 */

static const char *const fragments[] = {
    "the",
    "of",
    "license",
    "copyright",
    "work",
    "under",
    "you",
    "a",
    "b",
    "ab",
    "abc",
    "bc",
    "x",
    "e",
    " ",
    "  ",
    "    ",
    "\n",
    "\t",
    "\u2581",
    "\u2581\u2581",
    "\u3000",
    "\u00a0",
    ".",
    ",",
    "...",
    "-",
    "--",
    "(",
    ")",
    "1",
    "12",
    "2024",
    "\u00e9",
    "e\u0301",
    "\u0301",
    "\u00df",
    "\u0130",
    "\uff21\uff22",
    "\uff76\uff9e",
    "\ufb01",
    "\u2460",
    "\u337f",
    "\ufdfa",
    "\u4e2d\u6587",
    "\u8bb8\u53ef",
    "\u65e5\u672c\u8a9e",
    "\u30d7\u30ed",
    "\u304b\u3099",
    "\u1100\u1161\u11a8",
    "\uac01",
    "\u0915\u094d\u0937",
    "\u0e33",
    "\u0627\u064e",
    "\u05d0\u05b0",
    "\U0001f999",
    "\U0001f468\u200d\U0001f469",
    "\U0001f1e9\U0001f1ea",
    "\0",
    "\x01",
    "\x7f",
    "\xC2\x85",
    "\u200b",
    "\ufeff",
    "\ufffd",
    "<s>",
    "</s>",
    "<unk>",
    "<0x41>",
    "<ctl>",
    "<INTEGER>",
    "foo bar",
    "ooo",
    "\u2122",
    "\u212b",
    "\u00bd",
    "\u00aa\u0300",
    "\u01c6",
};
static const uint32_t ranges[][2] = {
    {0x20, 0x7E},     {0xA0, 0x24F},      {0x300, 0x36F},     {0x400, 0x4FF},   {0x900, 0x97F},
    {0x1E00, 0x1FFF}, {0x2000, 0x22FF},   {0x3000, 0x33FF},   {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3},
    {0xF900, 0xFFFD}, {0x1D400, 0x1D7FF}, {0x1F300, 0x1FAFF}, {0x0, 0xD7FF},
};

static uint64_t below(uint64_t *state, uint64_t n)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % n;
}

static void put_times(struct buf *out, str part, uint64_t times)
{
    for (; times > 0; times--)
        buf_str(out, part);
}

static void random_string(struct buf *out, uint64_t seed)
{
    uint64_t state = seed;
    char utf8[4];
    buf_clear(out);
    for (uint64_t n = 1 + below(&state, 16); n > 0; n--) {
        if (below(&state, 8) == 0) {
            const uint32_t *range = ranges[below(&state, ARRAY_LEN(ranges))];
            uint32_t c = range[0] + (uint32_t)below(&state, range[1] - range[0] + 1);
            str part = {utf8, str_utf8_put(utf8, c)};
            put_times(out, part, 1 + below(&state, 3));
        } else {
            const char *f = fragments[below(&state, ARRAY_LEN(fragments))];
            str part = f[0] == '\0' ? (str){f, 1} : str_from(f);
            bool many = below(&state, 32) == 0;
            uint64_t times = below(&state, 40);
            put_times(out, part, 1 + (many ? times : 0));
        }
    }
}

static uint64_t fnv(uint64_t h, const void *data, size_t n)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001B3);
    return h;
}

static uint64_t fnv_u32(uint64_t h, uint32_t v)
{
    uint8_t bytes[4];
    store_u32le(bytes, v);
    return fnv(h, bytes, sizeof bytes);
}

struct hashes {
    uint64_t ids, offsets, text;
};

static struct hashes hash_results(struct tok *t)
{
    const uint64_t basis = UINT64_C(0xCBF29CE484222325);
    struct hashes h = {basis, basis, basis};
    struct tok_encoder *e;
    struct tok_ids ids = {.want_offsets = true};
    struct buf text = {0}, decoded = {0};
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    for (uint64_t seed = 0; seed < 2000; seed++) {
        random_string(&text, seed);
        ids.n = 0;
        ASSERT_OK(tok_encode(e, &ids, buf_view(&text), TOK_SPECIALS_LITERAL, &err));
        h.ids = fnv_u32(h.ids, (uint32_t)ids.n);
        for (size_t i = 0; i < ids.n; i++) {
            h.ids = fnv_u32(h.ids, (uint32_t)ids.ids[i]);
            h.offsets = fnv_u32(h.offsets, ids.offsets[i]);
        }
        buf_clear(&decoded);
        tok_decode(t, &decoded, ids.ids, ids.n, true);
        h.text = fnv(h.text, decoded.data, decoded.len);
    }
    buf_free(&text);
    buf_free(&decoded);
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
    return h;
}

static void ids_offsets_and_text_are_those_of_sentencepiece(void **state)
{
    (void)state;
    struct arena a = {0};
    ft_error err;
    str expected;
    ASSERT_OK(file_read_all(&expected, &a, "tests/golden/spm/expected.txt", 1 << 16, &err));
    for (size_t i = 0; i < ARRAY_LEN(golden_models); i++) {
        struct tok *t = open_golden(golden_models[i]);
        struct hashes h = hash_results(t);
        char line[160];
        int n = snprintf(line, sizeof line, "%s %016llx %016llx %016llx", golden_models[i],
                         (unsigned long long)h.ids, (unsigned long long)h.offsets,
                         (unsigned long long)h.text);
        str want = str_cut(&expected, '\n');
        if (!str_eq(want, (str){line, (size_t)n}))
            fail_msg("got  %s\nwant %.*s", line, STR_ARG(want));
        tok_close(t);
    }
    arena_destroy(&a);
}

/* --- the rules of the models --------------------------------------------------------------------
 */

static void equal_scores_merge_from_the_left(void **state)
{
    (void)state;
    struct small s = {0};
    start(&s, SPM_BPE);
    s.file.normalizer.add_dummy_prefix = false;
    add(&s, "a", -3, SPM_NORMAL);
    add(&s, "aa", -1, SPM_NORMAL);    /* 4 */
    add(&s, "aaa", -1, SPM_NORMAL);   /* 5 */
    add(&s, "ab", -0.5f, SPM_NORMAL); /* 6: b is no piece, but ab is one */
    struct tok *t = make(&s);
    ASSERT_IDS(t, "aaaaa", 5, 4);
    ASSERT_IDS(t, "aab", 3, 6);
    ASSERT_IDS(t, "b", 0);
    tok_close(t);
}

static void user_symbols_do_not_merge(void **state)
{
    (void)state;
    struct small s = {0};
    start(&s, SPM_BPE);
    s.file.normalizer.add_dummy_prefix = false;
    add(&s, "a", -3, SPM_NORMAL);
    add(&s, "b", -3, SPM_NORMAL);
    add(&s, "ab", 0, SPM_USER_DEFINED);  /* 5 */
    add(&s, "aba", -1, SPM_NORMAL);      /* 6: never, ab is taken first */
    add(&s, "abb", 0, SPM_USER_DEFINED); /* 7: the longer one counts */
    struct tok *t = make(&s);
    ASSERT_IDS(t, "aba", 5, 3);
    ASSERT_IDS(t, "abba", 7, 3);
    tok_close(t);
}

static void unused_pieces_are_taken_apart(void **state)
{
    (void)state;
    struct small s = {0};
    ft_error err;
    struct tok *t;
    start(&s, SPM_BPE);
    s.file.normalizer.add_dummy_prefix = false;
    add(&s, "a", -3, SPM_NORMAL);
    add(&s, "b", -3, SPM_UNUSED);
    add(&s, "ab", -1, SPM_UNUSED);
    add(&s, "abc", -2, SPM_NORMAL);
    t = make(&s);
    ASSERT_IDS(t, "ab", 3, 0);
    ASSERT_IDS(t, "abc", 6);
    tok_close(t);
    add(&s, "bc", -2, SPM_NORMAL);
    add(&s, "abcc", -2, SPM_UNUSED);
    add(&s, "cc", -2, SPM_NORMAL);
    ASSERT_FAILS(tok_spm_make(&t, &s.file, &err), FT_EFORMAT, "piece 8 is unused");
}

static void unknown_characters_join_or_become_bytes(void **state)
{
    (void)state;
    struct small s = {0};
    start(&s, SPM_UNIGRAM);
    add(&s, "\u2581a", -1, SPM_NORMAL);
    add(&s, "a", -2, SPM_NORMAL); /* 4 */
    struct tok *t = make(&s);
    ASSERT_IDS(t, "a\u4e2d\u6587a\u4e2d", 3, 0, 4, 0);
    tok_close(t);
    add_bytes(&s);
    t = make(&s);
    ASSERT_IDS(t, "a\u4e2d", 3, 5 + 0xE4, 5 + 0xB8, 5 + 0xAD);
    ASSERT_IDS(t, "\u4e2d", 5 + 0xE2, 5 + 0x96, 5 + 0x81, 5 + 0xE4, 5 + 0xB8, 5 + 0xAD);
    tok_close(t);
}

static void control_pieces_are_text_unless_parsed(void **state)
{
    (void)state;
    struct small s = {0};
    start(&s, SPM_BPE);
    add(&s, "\u2581", -1, SPM_NORMAL);
    add(&s, "a", -1, SPM_NORMAL);       /* 4 */
    add(&s, "\u2581a", -1, SPM_NORMAL); /* 5 */
    struct tok *t = make(&s);
    const int32_t parsed[] = {5, 1, 5, 2};
    ASSERT_IDS(t, "a<s>", 5, 0);
    assert_ids(t, "a<s>a</s>", TOK_SPECIALS_PARSE, parsed, ARRAY_LEN(parsed));
    assert_int_equal(tok_bos(t), 1);
    assert_int_equal(tok_eos(t), 2);
    assert_int_equal(tok_special(t, STR("</s>")), 2);
    assert_true(tok_is_special(t, 1) && !tok_is_special(t, 4));
    tok_close(t);
}

/* A sum of scores that has grown changes what near-ties become, and starts anew. */
static void sums_are_of_type_float(void **state)
{
    (void)state;
    struct small s = {0};
    struct tok_encoder *e;
    struct tok_ids got = {0}, want = {0};
    struct buf text = {0};
    ft_error err;
    start(&s, SPM_UNIGRAM);
    add(&s, "\u2581", -56.008f, SPM_NORMAL);
    add(&s, "a", -72.8f, SPM_NORMAL);
    add(&s, "b", -90.4f, SPM_NORMAL);
    add(&s, "ab", -163.1992f, SPM_NORMAL);
    add(&s, "aba", -235.9984f, SPM_NORMAL);
    add(&s, "\u2581a", -128.8096f, SPM_NORMAL);
    struct tok *t = make(&s);
    uint64_t rng = 7;
    for (int i = 0; i < 3000; i++)
        buf_str(&text, (str){&"ab a"[below(&rng, 4)], 1});
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    ASSERT_OK(tok_encode(e, &got, buf_view(&text), TOK_SPECIALS_LITERAL, &err));
    struct buf normal = {0};
    buf_byte(&normal, ' ');
    buf_str(&normal, buf_view(&text));
    naive_spm_encode(&want, &s.file, buf_view(&normal));
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.ids, want.ids, want.n * sizeof *want.ids);
    buf_free(&text);
    buf_free(&normal);
    tok_ids_free(&got);
    tok_ids_free(&want);
    tok_encoder_destroy(e);
    tok_close(t);
}

/* Whenever the lead of the best way is said to hold, it holds. */
static void the_lead_of_a_way_is_a_bound(void **state)
{
    (void)state;
    struct arena a = {0};
    struct unigram u = {.unk = -1, .unk_score = -20};
    struct unigram_work w = {0};
    ft_error err;
    size_t held = 0;
    struct spm_trie_key keys[] = {{STR("a"), 0, -3.3f},       {STR("b"), 1, -4.7f},
                                  {STR("ab"), 2, -8.0001f},   {STR("ba"), 3, -8.0f},
                                  {STR("aab"), 4, -11.2999f}, {STR("bab"), 5, -12.7003f}};
    ASSERT_OK(spm_trie_init(&u.trie, &a, keys, ARRAY_LEN(keys), &err));
    uint64_t rng = 3;
    for (int round = 0; round < 20000; round++) {
        char text[24];
        int32_t best[24];
        float limit, sum;
        size_t n = 1 + below(&rng, sizeof text);
        for (size_t i = 0; i < n; i++)
            text[i] = "ab"[below(&rng, 2)];
        ASSERT_OK(unigram_measure(&u, &w, (str){text, n}, &limit, &err));
        size_t n_best = w.n;
        memcpy(best, w.ids, w.n * sizeof *best);
        if (limit <= 0)
            continue;
        held++;
        sum = -limit * (float)below(&rng, 1000) / 1000;
        ASSERT_OK(unigram_run(&u, &w, (str){text, n}, &sum, &err));
        assert_int_equal(w.n, n_best);
        assert_memory_equal(w.ids, best, n_best * sizeof *best);
    }
    assert_true(held > 1000);
    unigram_work_free(&w);
    arena_destroy(&a);
}

/* --- decoding -----------------------------------------------------------------------------------
 */

static void one_by_one_gives_the_same_text(void **state)
{
    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(golden_models); m++) {
        struct tok *t = open_golden(golden_models[m]);
        struct buf whole = {0}, parts = {0};
        uint64_t rng = m;
        for (int round = 0; round < 200; round++) {
            int32_t ids[40];
            struct tok_decoding d = {0};
            buf_clear(&whole);
            buf_clear(&parts);
            for (size_t i = 0; i < ARRAY_LEN(ids); i++)
                ids[i] = (int32_t)below(&rng, round % 2 == 0 ? 259 : (uint64_t)tok_n_vocab(t));
            tok_decode(t, &whole, ids, ARRAY_LEN(ids), true);
            for (size_t i = 0; i < ARRAY_LEN(ids); i++)
                tok_decode_next(&d, t, &parts, ids[i], true);
            tok_decode_end(&d, &parts);
            assert_true(str_eq(buf_view(&whole), buf_view(&parts)));
            assert_int_equal(str_utf8_invalid_at(buf_view(&whole)), whole.len);
        }
        buf_free(&whole);
        buf_free(&parts);
        tok_close(t);
    }
}

static void incomplete_characters_wait(void **state)
{
    (void)state;
    struct small s = {0};
    struct buf out = {0};
    struct tok_decoding d = {0};
    start(&s, SPM_BPE);
    add_bytes(&s);
    struct tok *t = make(&s);
    const uint8_t bytes[] = {0xE4, 0xB8, 0xAD, 0xE4, 0xB8, 'x', 0xED, 0xA0, 0xF0, 0x9F};
    const size_t lengths[] = {0, 0, 3, 3, 3, 10, 10, 16, 16, 16};
    for (size_t i = 0; i < sizeof bytes; i++) {
        tok_decode_next(&d, t, &out, 3 + bytes[i], true);
        assert_int_equal(out.len, lengths[i]);
    }
    tok_decode_end(&d, &out);
    assert_true(str_is(buf_view(&out), "\u4e2d\ufffd\ufffdx\ufffd\ufffd\ufffd\ufffd"));
    buf_free(&out);
    tok_close(t);
}

/* --- files --------------------------------------------------------------------------------------
 */

static void what_is_written_is_the_same_tokenizer(void **state)
{
    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(golden_models); m++) {
        struct tok *t = open_golden(golden_models[m]), *copy;
        struct buf blob = {0};
        ft_error err;
        ASSERT_OK(tok_to_blob(&blob, t, &err));
        ASSERT_OK(tok_from_blob(&copy, "copy", buf_view(&blob), &err));
        assert_true(hash128_eq(tok_fingerprint(t), tok_fingerprint(copy)));
        assert_int_equal(tok_bos(t), tok_bos(copy));
        buf_free(&blob);
        tok_close(copy);
        tok_close(t);
    }
}

static void the_file_can_be_written_again(void **state)
{
    (void)state;
    for (size_t m = 0; m < ARRAY_LEN(golden_models); m++) {
        struct tok *t = open_golden(golden_models[m]), *copy;
        struct buf file = {0};
        const char *path = test_path(tok_file_name(t));
        ft_error err;
        assert_string_equal(tok_file_name(t), "tokenizer.model");
        ASSERT_OK(tok_to_file(&file, t, &err));
        ASSERT_OK(file_publish(path, file.data, file.len, &err));
        ASSERT_OK(tok_open(&copy, test_path(""), &err)); /* the directory that holds it */
        assert_true(hash128_eq(tok_fingerprint(t), tok_fingerprint(copy)));
        buf_free(&file);
        tok_close(copy);
        tok_close(t);
    }
}

static void a_bad_file_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *name, *part;
    } cases[] = {
        {"cut", "are left"},
        {"longlen", "are left"},
        {"endless", "does not end"},
        {"group", "kind"},
        {"field0", "no field begins here"},
        {"wrongkind", "trainer_spec is of kind 0"},
        {"bad_type", "unknown type 9"},
        {"type7", "model_type 7 is unknown"},
        {"word", "type WORD"},
        {"nan", "is not a number"},
        {"empty_piece", "has 0 bytes"},
        {"utf8", "not valid UTF-8"},
        {"nul_inside", "contains a NUL"},
        {"nul", "contains a NUL"},
        {"twice", "pieces 2 and 5 are equal"},
        {"two_unk", "both the unknown piece"},
        {"no_unk", "no piece is the unknown piece"},
        {"byte_without", "byte_fallback is off"},
        {"badmap", "precompiled_charsmap"},
        {"denorm", "denormalizer_spec"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tok *t;
        ft_error err;
        char path[96];
        snprintf(path, sizeof path, "tests/fuzz/corpus/spm_file/%s", cases[i].name);
        ASSERT_FAILS(tok_spm_load(&t, path, &err), FT_EFORMAT, cases[i].part);
        assert_null(t);
        assert_non_null(strstr(err.text, path));
    }
}

static void a_piece_of_one_nul_stands_for_nothing(void **state)
{
    (void)state;
    struct small s = {0};
    start(&s, SPM_BPE);
    add_bytes(&s);
    s.pieces[s.file.n_pieces++] = (struct spm_piece){{"\0", 1}, 0, SPM_NORMAL};
    struct tok *t = make(&s);
    struct tok_encoder *e;
    struct tok_ids ids = {0};
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, t, &err));
    ASSERT_OK(tok_encode(e, &ids, (str){"\0", 1}, TOK_SPECIALS_LITERAL, &err));
    assert_int_equal(ids.n, 4); /* the mark's three bytes, then this one */
    assert_int_equal(ids.ids[3], 3);
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
    tok_close(t);
}

static void the_trainers_examples_are_read(void **state)
{
    (void)state;
    struct arena a = {0};
    struct spm_file f;
    ft_error err;
    str bytes;
    ASSERT_OK(file_read_all(&bytes, &a, "tests/fuzz/corpus/spm_file/selftest", 1 << 16, &err));
    ASSERT_OK(spm_file_parse(&f, &a, bytes, &err));
    assert_int_equal(f.n_tests, 1);
    assert_true(str_is(f.tests[0].input, "a") && str_is(f.tests[0].output, "\u2581a"));
    arena_destroy(&a);
}

/* --- rules --------------------------------------------------------------------------------------
 */

static void hostile_rules_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *part;
    } cases[] = {
        {"loop", "more than 1024 bytes"},
        {"outside", "behind their end"},
        {"leafless", "has no replacement"},
        {"value", "has no replacement"},
        {"no_nul", "do not end with a NUL"},
        {"inside", "inside a character"},
        {"utf8", "not valid UTF-8"},
        {"short", "begin with the length"},
        {"no_root", "no root"},
        {"long", "more than 1024 bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct charsmap m;
        ft_error err;
        char path[96];
        str bytes;
        snprintf(path, sizeof path, "tests/fuzz/corpus/charsmap/%s", cases[i].name);
        ASSERT_OK(file_read_all(&bytes, &a, path, 1 << 20, &err));
        err = (ft_error){0};
        assert_true(charsmap_init(&m, &a, bytes, &err) != FT_OK);
        if (strstr(err.text, cases[i].part) == NULL)
            fail_msg("%s: %s", path, err.text);
        arena_destroy(&a);
    }
}

static void clusters_end_where_readers_see_them_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"ab", 1},
        {"\r\na", 2},
        {"\n\u0301", 1},
        {"a\u0301\u0302b", 5},
        {"\u0600a", 3},
        {"\u1100\u1161\u11a8\u1100", 9},
        {"\uac00\u11a8a", 6},
        {"\uac01\u1161", 3},
        {"\U0001f1e9\U0001f1ea\U0001f1e9", 8},
        {"\U0001f468\u200d\U0001f469x", 11},
        {"a\u200d\U0001f469", 4},
        {"\u0915\u094d\u0937", 9},
        {"\u0915\u0301\u0937", 5},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(grapheme_bytes(str_from(cases[i].text)), cases[i].bytes);
}

/* --- time ---------------------------------------------------------------------------------------
 */

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A megabyte of one thing takes little more than eight times an eighth of it. */
static void long_runs_take_linear_time(void **state)
{
    (void)state;
    static const char *const parts[] = {"a", " ", "\u0301", "\u4e2d", "\u2581", "ab", "\n"};
    for (size_t m = 0; m < ARRAY_LEN(golden_models); m++) {
        struct tok *t = open_golden(golden_models[m]);
        struct tok_encoder *e;
        struct tok_ids ids = {0};
        ft_error err;
        ASSERT_OK(tok_encoder_create(&e, t, &err));
        for (size_t p = 0; p < ARRAY_LEN(parts); p++) {
            struct buf text = {0};
            while (text.len < 1 << 20)
                buf_cstr(&text, parts[p]);
            double begin = cpu_seconds();
            ids.n = 0;
            ASSERT_OK(tok_encode(e, &ids, buf_view(&text), TOK_SPECIALS_LITERAL, &err));
            assert_true(cpu_seconds() - begin < 20); /* a second under sanitizers, if linear */
            buf_free(&text);
        }
        tok_ids_free(&ids);
        tok_encoder_destroy(e);
        tok_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_offsets_and_text_are_those_of_sentencepiece),
        cmocka_unit_test(equal_scores_merge_from_the_left),
        cmocka_unit_test(user_symbols_do_not_merge),
        cmocka_unit_test(unused_pieces_are_taken_apart),
        cmocka_unit_test(unknown_characters_join_or_become_bytes),
        cmocka_unit_test(control_pieces_are_text_unless_parsed),
        cmocka_unit_test(sums_are_of_type_float),
        cmocka_unit_test(the_lead_of_a_way_is_a_bound),
        cmocka_unit_test(one_by_one_gives_the_same_text),
        cmocka_unit_test(incomplete_characters_wait),
        cmocka_unit_test(what_is_written_is_the_same_tokenizer),
        cmocka_unit_test(the_file_can_be_written_again),
        cmocka_unit_test(a_bad_file_is_named_with_its_place),
        cmocka_unit_test(a_piece_of_one_nul_stands_for_nothing),
        cmocka_unit_test(the_trainers_examples_are_read),
        cmocka_unit_test(hostile_rules_are_refused),
        cmocka_unit_test(clusters_end_where_readers_see_them_end),
        cmocka_unit_test(long_runs_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
