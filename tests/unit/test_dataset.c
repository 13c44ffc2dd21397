/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/dataset.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/rng.h"
#include "formats/packs.h"
#include "formats/shard.h"
#include "tests/support/check.h"
#include "tests/support/make_dataset.h"

enum { N_TRAIN = 900, N_EVAL = 60, MAX_LENGTH = 1500 };

static uint32_t lengths[N_TRAIN + N_EVAL];

static struct made sample_set(const char *name, int64_t vocab)
{
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        lengths[i] = 2 + (uint32_t)(rng_u64(1, 2, i) % (MAX_LENGTH - 1));
    return (struct made){test_path(name), vocab, MAX_LENGTH, lengths, N_TRAIN, N_EVAL, 250};
}

static void check_sample(struct dataset_reader *r, const struct dataset *d, const struct made *m,
                         enum dataset_split s, uint64_t i)
{
    int32_t tokens[MAX_LENGTH];
    uint8_t mask[MAX_LENGTH];
    uint32_t trained = 0;
    ft_error err;
    struct sample_info info = dataset_sample_info(d, s, i);
    assert_int_equal(info.n_tokens, lengths[s == SPLIT_TRAIN ? i : N_TRAIN + i]);
    assert_int_equal(info.row, i);
    ASSERT_OK(dataset_read(r, s, i, tokens, mask, &err));
    for (uint32_t j = 0; j < info.n_tokens; j++) {
        assert_int_equal(tokens[j], made_token(m, s, i, j));
        assert_int_equal(mask[j], made_mask(m, s, i, j));
        trained += mask[j];
    }
    assert_int_equal(trained, info.n_trained);
}

/* Both token widths, several shards, in order and at random. */
static void every_sample_reads_back(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        struct made m = sample_set("readback", wide ? 128256 : 49152);
        struct dataset *d;
        struct dataset_reader *r;
        ft_error err;
        make_dataset(&m);
        ASSERT_OK(dataset_open(&d, m.dir, &err));
        ASSERT_OK(dataset_reader_create(&r, d, &err));
        assert_int_equal(dataset_split(d, SPLIT_TRAIN)->n_samples, N_TRAIN);
        assert_int_equal(dataset_vocab(d), m.vocab);
        assert_int_equal(dataset_max_length(d), MAX_LENGTH);
        assert_string_equal(dataset_template(d), "chatml");
        assert_string_equal(dataset_source_path(d, 0), "made.jsonl");
        for (uint64_t i = 0; i < N_TRAIN; i++)
            check_sample(r, d, &m, SPLIT_TRAIN, i);
        for (uint64_t i = 0; i < 300; i++)
            check_sample(r, d, &m, SPLIT_TRAIN, rng_u64(3, 4, i) % N_TRAIN);
        for (uint64_t i = 0; i < N_EVAL; i++)
            check_sample(r, d, &m, SPLIT_EVAL, i);
        dataset_reader_destroy(r);
        dataset_close(d);
    }
}

static void packs_cover_every_sample_once(void **state)
{
    struct made m = sample_set("covered", 1000);
    struct dataset *d;
    ft_error err;
    uint8_t seen[N_TRAIN] = {0};
    (void)state;
    make_dataset(&m);
    ASSERT_OK(dataset_open(&d, m.dir, &err));
    const struct split_info *info = dataset_split(d, SPLIT_TRAIN);
    for (uint64_t b = 0; b < info->n_packs; b++) {
        size_t n;
        const uint32_t *bin = dataset_pack(d, SPLIT_TRAIN, b, &n);
        assert_non_null(bin);
        for (size_t k = 0; k < n; k++)
            seen[bin[k]]++;
    }
    for (size_t i = 0; i < N_TRAIN; i++)
        assert_int_equal(seen[i], 1);
    dataset_close(d);
}

/* --- damage ---------------------------------------------------------------------------------- */

static str load(struct arena *a, const char *dir, const char *name)
{
    str s;
    ft_error err;
    ASSERT_OK(file_read_all(&s, a, path_join(a, dir, name), 64 << 20, &err));
    return s;
}

static void store(struct arena *a, const char *dir, const char *name, const void *data, size_t n)
{
    ft_error err;
    ASSERT_OK(file_publish(path_join(a, dir, name), data, n, &err));
}

/* Opens and reads everything; true when no call failed. */
static bool reads_whole(const char *dir, ft_error *err)
{
    static int32_t tokens[MAX_LENGTH];
    static uint8_t mask[MAX_LENGTH];
    struct dataset *d;
    struct dataset_reader *r = NULL;
    *err = (ft_error){0};
    ft_status st = dataset_open(&d, dir, err);
    if (st == FT_OK)
        st = dataset_reader_create(&r, d, err);
    for (int s = 0; s < SPLITS && st == FT_OK; s++)
        for (uint64_t i = 0; i < dataset_split(d, s)->n_samples && st == FT_OK; i++)
            st = dataset_read(r, (enum dataset_split)s, i, tokens, mask, err);
    dataset_reader_destroy(r);
    dataset_close(d);
    return st == FT_OK;
}

static void a_cut_file_is_refused_at_every_length(void **state)
{
    const char *const files[] = {"train-00000.shard", "train.packs", "manifest.json"};
    uint32_t few[] = {5, 9, 3, 7};
    struct made m = {test_path("cut"), 1000, 16, few, 3, 1, 0};
    struct arena a = {0};
    ft_error err;
    (void)state;
    make_dataset(&m);
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        str whole = load(&a, m.dir, files[f]);
        for (size_t n = 0; n < whole.len - (f == 2); n++) { /* a missing last newline is fine */
            store(&a, m.dir, files[f], whole.ptr, n);
            if (reads_whole(m.dir, &err))
                fail_msg("%s cut to %zu of %zu bytes was accepted", files[f], n, whole.len);
            if (strstr(err.text, files[f]) == NULL)
                fail_msg("message does not name %s: %s", files[f], err.text);
        }
        store(&a, m.dir, files[f], whole.ptr, whole.len);
        assert_true(reads_whole(m.dir, &err));
    }
    arena_destroy(&a);
}

/* Any single bit of the manifest and of what a sample needs from a shard. Damage of the parts that
 * reading does not touch is found by `ftprep verify`. */
static void a_flipped_bit_never_reads_wrong_data(void **state)
{
    uint32_t few[] = {5, 9, 3, 7};
    struct made m = {test_path("flip"), 1000, 16, few, 3, 1, 0};
    const char *const files[] = {"train-00000.shard", "manifest.json"};
    struct arena a = {0};
    ft_error err;
    (void)state;
    make_dataset(&m);
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        str whole = load(&a, m.dir, files[f]);
        char *copy = arena_alloc(&a, whole.len, 1);
        size_t survived = 0;
        for (size_t bit = 0; bit < whole.len * 8; bit++) {
            memcpy(copy, whole.ptr, whole.len);
            copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
            store(&a, m.dir, files[f], copy, whole.len);
            survived += reads_whole(m.dir, &err);
        }
        store(&a, m.dir, files[f], whole.ptr, whole.len);
        /* Harmless ones: reserved and padding bytes and some zstd header bits of the shard; white
         * space behind the manifest. Never more than those. */
        assert_true(survived <= (f == 0 ? (3 * 4 + 8) * 8 + 8 : 10));
    }
    arena_destroy(&a);
}

static void a_damaged_block_is_named(void **state)
{
    struct made m = sample_set("damaged", 1000);
    struct arena a = {0};
    ft_error err;
    (void)state;
    make_dataset(&m);
    str whole = load(&a, m.dir, "train-00001.shard");
    char *copy = arena_alloc(&a, whole.len, 1);
    memcpy(copy, whole.ptr, whole.len);
    copy[SHARD_HEADER_BYTES + 200] ^= 4;
    store(&a, m.dir, "train-00001.shard", copy, whole.len);
    assert_false(reads_whole(m.dir, &err));
    assert_non_null(strstr(err.text, "train-00001.shard: block 0: "));
    arena_destroy(&a);
}

static void damaged_packs_give_no_bin(void **state)
{
    uint32_t few[] = {5, 9, 3, 7};
    struct made m = {test_path("bad_packs"), 1000, 16, few, 4, 0, 0};
    struct arena a = {0};
    struct dataset *d;
    ft_error err;
    size_t n;
    (void)state;
    make_dataset(&m);
    str whole = load(&a, m.dir, "train.packs");
    char *copy = arena_alloc(&a, whole.len, 1);
    for (size_t word = PACKS_HEADER_BYTES / 4; word < whole.len / 4; word++) {
        memcpy(copy, whole.ptr, whole.len);
        store_u32le(copy + word * 4, 0xFFFFFFF0u);
        store(&a, m.dir, "train.packs", copy, whole.len);
        ASSERT_OK(dataset_open(&d, m.dir, &err));
        size_t missing = 0;
        for (uint64_t b = 0; b < dataset_split(d, SPLIT_TRAIN)->n_packs; b++)
            missing += dataset_pack(d, SPLIT_TRAIN, b, &n) == NULL;
        assert_true(missing >= 1);
        dataset_close(d);
    }
    arena_destroy(&a);
}

static void files_of_another_data_set_are_refused(void **state)
{
    uint32_t few[] = {5, 9, 3, 7};
    struct made one = {test_path("one"), 1000, 16, few, 4, 0, 0};
    struct made two = {test_path("two"), 1000, 16, few, 3, 0, 0};
    struct arena a = {0};
    struct dataset *d;
    ft_error err;
    (void)state;
    make_dataset(&one);
    make_dataset(&two);
    str shard = load(&a, two.dir, "train-00000.shard"), packs = load(&a, two.dir, "train.packs");
    str own = load(&a, one.dir, "train.packs");
    store(&a, one.dir, "train.packs", packs.ptr, packs.len);
    ASSERT_FAILS(dataset_open(&d, one.dir, &err), FT_EFORMAT, "belongs to another data set");
    store(&a, one.dir, "train.packs", own.ptr, own.len);
    store(&a, one.dir, "train-00000.shard", shard.ptr, shard.len);
    ASSERT_FAILS(dataset_open(&d, one.dir, &err), FT_EFORMAT, "belongs to another data set");
    arena_destroy(&a);
}

static void a_directory_without_manifest_is_no_data_set(void **state)
{
    struct dataset *d;
    ft_error err;
    const char *dir = test_path("nothing");
    (void)state;
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_FAILS(dataset_open(&d, dir, &err), FT_EFORMAT, "not a data set: there is no manifest");
    assert_null(d);
    ASSERT_FAILS(dataset_open(&d, test_path("absent"), &err), FT_EIO, "absent");
}

/* 200 times the samples, the same time: only the manifest and headers are read. */
static void opening_does_not_depend_on_the_number_of_samples(void **state)
{
    enum { MANY = 200000 };
    static uint32_t short_ones[MANY];
    double best[2] = {1e9, 1e9};
    ft_error err;
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        short_ones[i] = 2 + (uint32_t)(i % 9);
    struct made sets[] = {{test_path("few"), 1000, 16, short_ones, MANY / 200, 0, 0},
                          {test_path("many"), 1000, 16, short_ones, MANY, 0, 0}};
    for (int k = 0; k < 2; k++) {
        make_dataset(&sets[k]);
        for (int turn = 0; turn < 20; turn++) {
            struct dataset *d;
            double start = clock_seconds();
            ASSERT_OK(dataset_open(&d, sets[k].dir, &err));
            best[k] = FT_MIN(best[k], clock_seconds() - start);
            dataset_close(d);
        }
    }
    if (best[1] > best[0] * 5 + 1e-3)
        fail_msg("opening took %.6f s for few and %.6f s for many samples", best[0], best[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_reads_back),
        cmocka_unit_test(packs_cover_every_sample_once),
        cmocka_unit_test(a_cut_file_is_refused_at_every_length),
        cmocka_unit_test(a_flipped_bit_never_reads_wrong_data),
        cmocka_unit_test(a_damaged_block_is_named),
        cmocka_unit_test(damaged_packs_give_no_bin),
        cmocka_unit_test(files_of_another_data_set_are_refused),
        cmocka_unit_test(a_directory_without_manifest_is_no_data_set),
        cmocka_unit_test(opening_does_not_depend_on_the_number_of_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
