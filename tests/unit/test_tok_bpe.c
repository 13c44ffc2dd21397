/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/bpe.h"

#include "common/clock.h"
#include "common/rng.h"
#include "tests/support/check.h"

enum { LETTERS = 4, MAX_MERGES = 64, MAX_WORD = 12, MAX_TEXT = 400 };

/* A random vocabulary: ids 0 to 3 are letters, each merge makes a new id. Some pairs come twice and
 * some results are shared, as "ab"+"c" and "a"+"bc" share "abc". */
struct language {
    struct bpe_merge merges[MAX_MERGES];
    char text[LETTERS + MAX_MERGES][MAX_WORD + 1]; /* what each id spells */
    int n_ids;
};

static int id_of(const struct language *l, const char *text)
{
    for (int i = 0; i < l->n_ids; i++)
        if (strcmp(l->text[i], text) == 0)
            return i;
    return -1;
}

static void make_language(struct language *l, uint64_t seed)
{
    l->n_ids = LETTERS;
    for (int i = 0; i < LETTERS; i++)
        l->text[i][0] = (char)('a' + i);
    for (int i = 0; i < MAX_MERGES; i++) {
        uint64_t r = rng_u64(seed, 1, (uint64_t)i);
        int left = (int)(r % (uint64_t)l->n_ids), right = (int)((r >> 32) % (uint64_t)l->n_ids);
        size_t n_left = strlen(l->text[left]), n_right = strlen(l->text[right]);
        if (n_left + n_right > MAX_WORD) { /* keep to words that occur */
            left = right = 0;
            n_left = n_right = 1;
        }
        char joined[MAX_WORD + 1] = {0};
        memcpy(joined, l->text[left], n_left);
        memcpy(joined + n_left, l->text[right], n_right);
        int result = id_of(l, joined);
        if (result < 0) {
            result = l->n_ids++;
            memcpy(l->text[result], joined, sizeof joined);
        }
        l->merges[i] = (struct bpe_merge){left, right, result, (uint32_t)i};
    }
}

/* The definition: the last of equal pairs counts; the lowest rank goes first, leftmost on ties. */
static size_t merge_by_definition(const struct language *l, int32_t *ids, uint32_t *starts,
                                  size_t n)
{
    for (;;) {
        int best_rank = MAX_MERGES;
        size_t best = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            int rank = -1;
            for (int m = 0; m < MAX_MERGES; m++)
                if (l->merges[m].left == ids[i] && l->merges[m].right == ids[i + 1])
                    rank = m;
            if (rank >= 0 && rank < best_rank) {
                best_rank = rank;
                best = i;
            }
        }
        if (best_rank == MAX_MERGES)
            return n;
        ids[best] = l->merges[best_rank].result;
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        memmove(starts + best + 1, starts + best + 2, (n - best - 2) * sizeof *starts);
        n--;
    }
}

static void short_and_long_pieces_follow_the_definition(void **state)
{
    struct bpe_work w = {0};
    ft_error err;
    (void)state;
    for (uint64_t seed = 0; seed < 15; seed++) {
        struct language l = {0};
        struct bpe_merge merges[MAX_MERGES];
        struct bpe b;
        make_language(&l, seed);
        memcpy(merges, l.merges, sizeof merges);
        ASSERT_OK(bpe_init(&b, merges, MAX_MERGES, &err));
        for (uint64_t k = 0; k < 40; k++) {
            int32_t ids[MAX_TEXT];
            uint32_t starts[MAX_TEXT];
            size_t n = rng_u64(seed, 2, k) % (k % 2 == 0 ? 40 : MAX_TEXT);
            ASSERT_OK(bpe_work_reserve(&w, n, &err));
            w.n = n;
            for (size_t i = 0; i < n; i++) {
                ids[i] = w.ids[i] = (int32_t)(rng_u64(seed, 3 + k, i) % LETTERS);
                starts[i] = w.starts[i] = (uint32_t)i;
            }
            n = merge_by_definition(&l, ids, starts, n);
            ASSERT_OK(bpe_merge(&b, &w, &err));
            assert_int_equal(w.n, n);
            assert_memory_equal(w.ids, ids, n * sizeof *ids);
            assert_memory_equal(w.starts, starts, n * sizeof *starts);
        }
        bpe_destroy(&b);
    }
    bpe_work_free(&w);
}

static void a_replaced_merge_leaves_the_list(void **state)
{
    struct bpe_merge merges[] = {{0, 1, 2, 0}, {1, 1, 3, 1}, {0, 1, 2, 2}};
    struct bpe b;
    ft_error err;
    (void)state;
    ASSERT_OK(bpe_init(&b, merges, ARRAY_LEN(merges), &err));
    assert_int_equal(b.n_merges, 2);
    assert_int_equal(b.merges[0].result, 3);
    assert_int_equal(b.merges[1].result, 2);
    bpe_destroy(&b);
}

static void no_merges_and_no_symbols_are_fine(void **state)
{
    struct bpe_work w = {0};
    struct bpe b;
    ft_error err;
    (void)state;
    ASSERT_OK(bpe_init(&b, NULL, 0, &err));
    ASSERT_OK(bpe_merge(&b, &w, &err));
    assert_int_equal(w.n, 0);
    ASSERT_OK(bpe_work_reserve(&w, 50, &err));
    for (w.n = 0; w.n < 50; w.n++)
        w.ids[w.n] = 0;
    ASSERT_OK(bpe_merge(&b, &w, &err));
    assert_int_equal(w.n, 50);
    bpe_work_free(&w);
    bpe_destroy(&b);
}

/* Quadratic behaviour would take minutes. */
static void a_megabyte_of_one_letter_takes_no_longer_than_seconds(void **state)
{
    enum { N = 1 << 20 };
    struct bpe_merge merges[20];
    struct bpe_work w = {0};
    struct bpe b;
    ft_error err;
    (void)state;
    for (int i = 0; i < 20; i++)
        merges[i] = (struct bpe_merge){i, i, i + 1, (uint32_t)i};
    ASSERT_OK(bpe_init(&b, merges, 20, &err));
    ASSERT_OK(bpe_work_reserve(&w, N, &err));
    memset(w.ids, 0, N * sizeof *w.ids);
    w.n = N;
    double started = clock_seconds();
    ASSERT_OK(bpe_merge(&b, &w, &err));
    assert_true(clock_seconds() - started < 10);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.ids[0], 20);
    bpe_work_free(&w);
    bpe_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_and_long_pieces_follow_the_definition),
        cmocka_unit_test(a_replaced_merge_leaves_the_list),
        cmocka_unit_test(no_merges_and_no_symbols_are_fine),
        cmocka_unit_test(a_megabyte_of_one_letter_takes_no_longer_than_seconds),
    };
    return cmocka_run_group_tests_name("bpe", tests, NULL, NULL);
}
