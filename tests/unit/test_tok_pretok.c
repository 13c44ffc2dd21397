/* SPDX-License-Identifier: Apache-2.0
 * The block scanner against a matcher that walks the pattern's alternatives one character at a
 * time.
 */
#include "formats/tok/pretok.h"

#include "common/rng.h"
#include "formats/tok/unicode.h"
#include "tests/support/check.h"

enum { MAX_TEXT = 4096 };

/* --- the pattern, alternative by alternative -------------------------------------------------- */

struct matcher {
    str text;
    bool digits;
};

static unsigned classes_at(const struct matcher *m, size_t at, size_t *length)
{
    unsigned c = unicode_classes(str_utf8_next(str_sub(m->text, at, m->text.len), length));
    return c;
}

static bool is_other(unsigned c)
{
    return !(c & (UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE));
}

/* End of the run of characters from `at` whose class is in `wanted` (0: none of the three). */
static size_t run_end(const struct matcher *m, size_t at, unsigned wanted)
{
    size_t length;
    while (at < m->text.len) {
        unsigned c = classes_at(m, at, &length);
        if (wanted == 0 ? !is_other(c) : !(c & wanted))
            break;
        at += length;
    }
    return at;
}

static size_t match_contraction(const struct matcher *m, size_t at)
{
    static const char *const list[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < ARRAY_LEN(list); i++)
        if (str_starts(str_sub(m->text, at, m->text.len), str_from(list[i])))
            return at + strlen(list[i]);
    return at;
}

/* \s+(?!\S)|\s+ : the last character is given back when something else follows. */
static size_t match_space(const struct matcher *m, size_t at)
{
    size_t end = run_end(m, at, UNICODE_SPACE), last = end;
    if (end == m->text.len)
        return end;
    do
        last--;
    while (((uint8_t)m->text.ptr[last] & 0xC0) == 0x80);
    return last > at ? last : end;
}

static size_t match_pattern(const struct matcher *m, size_t at)
{
    static const unsigned kinds[] = {UNICODE_LETTER, UNICODE_NUMBER, 0};
    size_t end = match_contraction(m, at);
    if (end > at)
        return end;
    size_t body = at + (m->text.ptr[at] == ' ');
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        end = run_end(m, body, kinds[i]);
        if (end > body)
            return end;
    }
    return match_space(m, at);
}

/* Pieces of the Digits stage, each matched as a text of its own. */
static size_t split(const struct matcher *m, uint32_t *ends)
{
    size_t n = 0, length;
    for (size_t at = 0; at < m->text.len;) {
        size_t to = at;
        while (to < m->text.len &&
               !(m->digits && (classes_at(m, to, &length) & UNICODE_NUMERIC) != 0)) {
            classes_at(m, to, &length);
            to += length;
        }
        if (to == at) {
            classes_at(m, at, &length);
            to = at + length;
        }
        struct matcher piece = {str_sub(m->text, 0, to), m->digits};
        for (; at < to; ends[n++] = (uint32_t)at)
            at = match_pattern(&piece, at);
    }
    return n;
}

/* --- comparison ------------------------------------------------------------------------------- */

static size_t scan(uint32_t *ends, str text, bool digits, enum cpu_tier tier)
{
    static const struct pretok_stage stages[] = {{.kind = PRETOK_DIGITS},
                                                 {.kind = PRETOK_BYTE_LEVEL}};
    const struct pretok *p = pretok_find(digits ? stages : stages + 1, digits ? 2 : 1);
    struct pretok_scan s = {
        .text = (const uint8_t *)text.ptr, .to = text.len, .classify = classify_select(tier)};
    size_t n = 0;
    while (s.at < s.to) {
        uint32_t batch[PRETOK_BATCH];
        size_t got = p->next(&s, batch);
        assert_true(got <= PRETOK_BATCH);
        memcpy(ends + n, batch, got * sizeof *batch);
        n += got;
    }
    return n;
}

static void check(str text)
{
    for (int digits = 0; digits < 2; digits++) {
        uint32_t want[MAX_TEXT], got[MAX_TEXT];
        struct matcher m = {text, digits != 0};
        size_t n = split(&m, want);
        for (enum cpu_tier tier = CPU_PORTABLE; tier <= cpu_tier(); tier++) {
            size_t n_got = scan(got, text, digits != 0, tier);
            if (n_got != n || memcmp(got, want, n * sizeof *want) != 0)
                fail_msg("%s, digits %d: %zu pieces, expected %zu, of \"%.*s\"",
                         cpu_tier_name(tier), digits, n_got, n, STR_ARG(text));
        }
    }
}

static void every_code_point_is_cut_as_the_pattern_says(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char ch[4], text[160];
        /* In the sparse planes one of a kind, and the borders between classes. */
        bool alike = c > 0x3500 && unicode_classes(c) == unicode_classes(c - 1) && c % 61 != 0;
        if (alike || (c >= 0xD800 && c < 0xE000))
            continue;
        int n = (int)str_utf8_put(ch, c);
        int len = snprintf(text, sizeof text, "%.*sa%.*s %.*s  %.*s%.*s 1%.*s1 '%.*s's%.*s", n, ch,
                           n, ch, n, ch, n, ch, n, ch, n, ch, n, ch, n, ch);
        if (c != 0)
            check((str){text, (size_t)len});
    }
}

static void random_texts_are_cut_as_the_pattern_says_at_every_block_position(void **state)
{
    static const char *const parts[] = {
        "a",      "b",          "sdf",     " ",      " ",          "  ", "\n", "\t",
        "'s",     "'ll",        "'re",     "'",      "'v",         "1",  "23", "\u00A0",
        "\u3000", "\u0665",     "\u2460",  "\u4E00", "\u00E9",     "--", "!",  ".",
        "\u2028", "\U0001F600", "e\u0301", "\u2167", "\U00016FF4",
    };
    (void)state;
    for (uint64_t k = 0; k < 40000; k++) {
        char text[MAX_TEXT];
        size_t n = 0, n_parts = rng_u64(1, k, 0) % 120;
        /* Spaces in front move everything over the block borders. */
        for (uint64_t i = 0; i < k % 64; i++)
            text[n++] = 'x';
        for (uint64_t i = 1; i <= n_parts; i++) {
            const char *part = parts[rng_u64(1, k, i) % ARRAY_LEN(parts)];
            memcpy(text + n, part, strlen(part));
            n += strlen(part);
        }
        check((str){text, n});
    }
}

static void the_tiers_classify_random_bytes_alike(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 20000; k++) {
        uint8_t block[CLASSIFY_BLOCK];
        struct classify_masks want, got;
        for (uint64_t i = 0; i < CLASSIFY_BLOCK; i++)
            block[i] = (uint8_t)rng_u64(2, k, i);
        classify_select(CPU_PORTABLE)(&want, block);
        for (enum cpu_tier tier = CPU_AVX2; tier <= cpu_tier(); tier++) {
            classify_select(tier)(&got, block);
            assert_memory_equal(&got, &want, sizeof got);
        }
    }
}

/* The encoder promises nothing about invalid UTF-8 but to stay inside the text. */
static void invalid_bytes_give_ascending_ends_inside_the_text(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 20000; k++) {
        char text[200];
        uint32_t ends[MAX_TEXT];
        size_t n = 1 + rng_u64(3, k, 0) % sizeof text;
        for (size_t i = 0; i < n; i++)
            text[i] = (char)(rng_u64(3, k, 1 + i) | (k % 2 == 0 ? 0x80 : 0));
        size_t n_ends = scan(ends, (str){text, n}, k % 3 == 0, cpu_tier());
        assert_int_equal(ends[n_ends - 1], n);
        for (size_t i = 1; i < n_ends; i++)
            assert_true(ends[i - 1] < ends[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_cut_as_the_pattern_says),
        cmocka_unit_test(random_texts_are_cut_as_the_pattern_says_at_every_block_position),
        cmocka_unit_test(the_tiers_classify_random_bytes_alike),
        cmocka_unit_test(invalid_bytes_give_ascending_ends_inside_the_text),
    };
    return cmocka_run_group_tests_name("pretok", tests, NULL, NULL);
}
