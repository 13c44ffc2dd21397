/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/nf4_file.h"

#include <stdlib.h>

#include "common/file.h"
#include "common/half.h"
#include "common/mem.h"
#include "formats/nf4_write.h"
#include "tests/support/check.h"
#include "tests/support/source_case.h"

enum { MAX_TENSORS = 64 };

/* A weight of a linear layer, quantised; memory of malloc. */
struct layer {
    float *x, *absmax;
    uint8_t *codes, *absmax_q;
    float *absmax2;
    struct nf4_matrix m;
};

static void make_layer(struct layer *l, const struct model_tensor *t, int64_t i)
{
    int64_t n = t->shape[0] * t->shape[1], n_blocks = nf4_blocks(n);
    *l = (struct layer){malloc((size_t)n * 4),
                        malloc((size_t)n_blocks * 4),
                        malloc((size_t)(n + 1) / 2),
                        malloc((size_t)n_blocks),
                        malloc((size_t)nf4_blocks2(n) * 4),
                        {.rows = t->shape[0], .cols = t->shape[1]}};
    source_values(l->x, t, i);
    nf4_quantize(l->codes, l->absmax, l->x, n);
    nf4_quantize_absmax(l->absmax_q, l->absmax2, &l->m.offset, l->absmax, n_blocks);
    l->m.codes = l->codes;
    l->m.absmax = l->absmax_q;
    l->m.absmax2 = l->absmax2;
    l->m.map = (const float *)(const void *)nf4_map_bits;
}

static void free_layer(struct layer *l)
{
    free(l->x);
    free(l->absmax);
    free(l->codes);
    free(l->absmax_q);
    free(l->absmax2);
}

static void write_one(struct nf4_writer *w, const struct model_config *c, int64_t i)
{
    struct model_tensor t;
    model_tensor_at(&t, c, i);
    if (t.is_linear) {
        struct layer l;
        make_layer(&l, &t, i);
        nf4_writer_matrix(w, &l.m);
        free_layer(&l);
        return;
    }
    size_t n = (size_t)(t.shape[0] * t.shape[1]);
    float *x = malloc(n * 4);
    source_values(x, &t, i);
    nf4_writer_data(w, x, 4);
    nf4_writer_data(w, x + 1, (n - 1) * 4);
    free(x);
}

static void write_model(const char *path, const struct model_config *c, str tokenizer)
{
    enum dtype dtypes[MAX_TENSORS];
    struct nf4_writer *w;
    ft_error err;
    for (int64_t i = 0; i < model_tensors(c); i++) {
        struct model_tensor t;
        model_tensor_at(&t, c, i);
        dtypes[i] = t.is_linear ? DT_NF4 : DT_F32;
    }
    struct nf4_write_options o = {.config = c,
                                  .dtypes = dtypes,
                                  .quant_from = NF4_FROM_F16,
                                  .source = "some \"model\"",
                                  .tokenizer = tokenizer,
                                  .tokenizer_fingerprint = {5, 6}};
    ASSERT_OK(nf4_writer_open(&w, path, &o, &err));
    for (int64_t i = 0; i < model_tensors(c); i++)
        write_one(w, c, i);
    uint64_t bytes = nf4_writer_bytes(w);
    ASSERT_OK(nf4_writer_commit(w, (hash128){1, 2}, &err));
    nf4_writer_close(w);
    struct file_map map;
    ASSERT_OK(file_map_open(&map, path, &err));
    assert_int_equal(map.bytes, bytes);
    file_map_close(&map);
}

static void check_tensors(const struct nf4_file *f, const struct model_config *c)
{
    assert_int_equal(nf4_file_tensors(f), model_tensors(c));
    for (int64_t i = 0; i < model_tensors(c); i++) {
        struct model_tensor spec;
        const struct nf4_tensor *t = nf4_file_tensor(f, (size_t)i);
        model_tensor_at(&spec, c, i);
        assert_string_equal(t->name, spec.name);
        assert_ptr_equal(nf4_file_find(f, spec.name), t);
        assert_true(t->n_dims == spec.n_dims && t->shape[0] == spec.shape[0]);
        size_t n = (size_t)(spec.shape[0] * spec.shape[1]);
        struct layer l;
        make_layer(&l, &spec, i);
        if (spec.is_linear) {
            assert_true(t->dtype == DT_NF4 && t->data == NULL && t->nf4.cols == spec.shape[1]);
            assert_memory_equal(t->nf4.codes, l.codes, (n + 1) / 2);
            assert_memory_equal(t->nf4.absmax, l.absmax_q, (size_t)nf4_blocks((int64_t)n));
            assert_memory_equal(t->nf4.absmax2, l.absmax2, (size_t)nf4_blocks2((int64_t)n) * 4);
            assert_memory_equal(t->nf4.map, nf4_map_bits, sizeof nf4_map_bits);
            assert_true(f32_to_bits(t->nf4.offset) == f32_to_bits(l.m.offset));
            assert_int_equal((uintptr_t)t->nf4.codes % 64, 0);
        } else {
            assert_true(t->dtype == DT_F32 && t->bytes == n * 4);
            assert_memory_equal(t->data, l.x, n * 4);
            assert_int_equal((uintptr_t)t->data % 64, 0);
        }
        free_layer(&l);
    }
    assert_null(nf4_file_find(f, "nope"));
}

static void what_is_written_reads_back(void **state)
{
    static const char *const architectures[] = {"llama", "qwen2"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        struct model_config c = source_config(architectures[i]);
        struct nf4_file *f;
        ft_error err;
        const char *path = test_path("round.nf4");
        write_model(path, &c, i == 0 ? STR("tokenizer \0 blob") : STR(""));
        ASSERT_OK(nf4_file_open(&f, path, &err));
        check_tensors(f, &c);
        ASSERT_OK(nf4_file_verify(f, &err));
        assert_true(str_is(nf4_file_source(f), "some \"model\""));
        assert_true(hash128_eq(nf4_file_source_fingerprint(f), (hash128){1, 2}));
        assert_int_equal(nf4_file_quant_from(f), NF4_FROM_F16);
        assert_string_equal(nf4_file_config(f)->architecture, architectures[i]);
        if (i == 0) {
            assert_true(str_eq(nf4_file_tokenizer(f), STR("tokenizer \0 blob")));
            assert_true(hash128_eq(nf4_file_tokenizer_fingerprint(f), (hash128){5, 6}));
        } else {
            assert_int_equal(nf4_file_tokenizer(f).len, 0);
        }
        nf4_file_close(f);
    }
    nf4_file_close(NULL);
}

static void an_unfinished_file_does_not_appear(void **state)
{
    struct model_config c = source_config("llama");
    enum dtype dtypes[MAX_TENSORS];
    struct nf4_writer *w;
    ft_error err;
    (void)state;
    for (int64_t i = 0; i < model_tensors(&c); i++) {
        struct model_tensor t;
        model_tensor_at(&t, &c, i);
        dtypes[i] = t.is_linear ? DT_NF4 : DT_BF16;
    }
    struct nf4_write_options o = {.config = &c, .dtypes = dtypes, .source = "x"};
    ASSERT_OK(nf4_writer_open(&w, test_path("gone.nf4"), &o, &err));
    nf4_writer_close(w);
    nf4_writer_close(NULL);
    assert_false(path_exists(test_path("gone.nf4")));
    ASSERT_FAILS(nf4_writer_open(&w, test_path("no/such/dir.nf4"), &o, &err), FT_EIO, "dir.nf4");
    assert_null(w);
}

/* --- damage ---------------------------------------------------------------------------------- */

struct image {
    uint8_t *data;
    size_t bytes;
};

static void load_image(struct image *im)
{
    struct model_config c = source_config("llama");
    struct arena a = {0};
    str text;
    ft_error err;
    write_model(test_path("damage.nf4"), &c, STR("tokenizer"));
    ASSERT_OK(file_read_all(&text, &a, test_path("damage.nf4"), 1 << 24, &err));
    im->bytes = text.len;
    im->data = mem_alloc_aligned(text.len);
    memcpy(im->data, text.ptr, text.len);
    arena_destroy(&a);
}

/* Makes the preamble agree with the JSON and with a file of `bytes`. */
static void seal(struct image *im, size_t bytes)
{
    size_t json_bytes = load_u64le(im->data + 16);
    store_u64le(im->data + 24, bytes);
    store_u64le(im->data + 32, hash64(im->data + 64, json_bytes));
}

static void replace(struct image *im, const char *old, const char *new)
{
    uint8_t *at = im->data + 64;
    assert_int_equal(strlen(old), strlen(new));
    while (memcmp(at, old, strlen(old)) != 0) {
        at++;
        assert_true(at + strlen(old) < im->data + im->bytes);
    }
    memcpy(at, new, strlen(new));
    seal(im, im->bytes);
}

static void wrong_headers_are_refused(void **state)
{
    static const struct {
        const char *old, *new, *message;
    } cases[] = {
        {"\"model_type\": \"llama\"", "\"model_type\": \"gemma\"", "\"model_type\": \"gemma\""},
        {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "\"tensors\" has 21 entries"},
        {"\"hidden_size\": 96", "\"hidden_size\": 95", "\"shape\": the configuration needs"},
        {"\"map\":0", "\"map\":1", "\"map\": at 1, the layout puts it at 0"},
        {"\"quant_from\":\"f16\"", "\"quant_from\":\"f32\"", "\"quant_from\": expected"},
        {"\"source_f", "\"sourcexf", "\"source_fingerprint\" is missing"},
        {"embed_tokens", "embed_tokenz", "tensor 'model.embed_tokens.weight': found 'model.embed"},
        {"\"dtype\":\"f32\"", "\"dtype\":\"f33\"", "\"dtype\": \"f33\" is unknown"},
        {"\"dtype\":\"nf4\"", "\"dtype\":\"f32\"", "the weights of linear layers, and only they"},
        {"\"dtype\":\"f32\"", "\"dtype\":\"nf4\"", "the weights of linear layers, and only they"},
        {"\"shape\":[50,96]", "\"shape\":[51,96]", "\"shape\": the configuration needs [50, 96]"},
        {"\"shape\":[50,96]", "\"shape\":[5,996]", "\"shape\": the configuration needs"},
        {"\"data\":1024", "\"data\":1088", "\"data\": at 1088, the layout puts it at 1024"},
        {"\"codes\"", "\"kodes\"", "q_proj.weight': \"codes\" is missing"},
        {"\"mean_bits\":\"3", "\"mean_bits\":\"G", "\"mean_bits\": expected 8 hex digits"},
        {"\"bytes\":9,", "\"bytes\":0,", "\"bytes\": 0 is not"},
        {"\"bytes\":9,", "\"bytes\":8,", "the last part ends at byte"},
        {"{\"config\"", "{\"konfig\"", "\"config\" is missing"},
    };
    struct image im;
    struct nf4_file *f;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        load_image(&im);
        replace(&im, cases[i].old, cases[i].new);
        ASSERT_FAILS(nf4_file_parse(&f, "d.nf4", im.data, im.bytes, &err), FT_EFORMAT,
                     cases[i].message);
        assert_null(f);
        assert_int_equal(strncmp(err.text, "d.nf4: ", 7), 0);
        mem_free(im.data);
    }
}

static void damaged_preambles_are_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t xor ;
        const char *message;
    } cases[] = {
        {0, 1, "not an .nf4 file; make one"},
        {8, 2, ".nf4 version 3, this program reads"},
        {12, 1, "the header is damaged"},
        {16, 1, "the header is damaged"},
        {19, 0x80, "a header of"},
        {24, 1, "its header says"},
        {32, 1, "the header is damaged"},
        {40, 1, "the header is damaged"},
        {63, 1, "the header is damaged"},
        {100, 1, "the header is damaged"},
    };
    struct image im;
    struct nf4_file *f;
    ft_error err;
    (void)state;
    load_image(&im);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        im.data[cases[i].at] ^= cases[i].xor ;
        ASSERT_FAILS(nf4_file_parse(&f, "d.nf4", im.data, im.bytes, &err), FT_EFORMAT,
                     cases[i].message);
        im.data[cases[i].at] ^= cases[i].xor ;
    }
    mem_free(im.data);
}

/* Also when the preamble agrees with the shorter file. */
static void every_truncation_is_refused(void **state)
{
    struct image im;
    struct nf4_file *f;
    ft_error err;
    (void)state;
    load_image(&im);
    for (size_t n = 0; n < im.bytes; n += n < 128 || n + 64 > im.bytes ? 1 : 61) {
        uint8_t *exact = mem_alloc_aligned(n);
        memcpy(exact, im.data, n);
        ASSERT_FAILS(nf4_file_parse(&f, "cut", exact, n, &err), FT_EFORMAT, "cut: ");
        if (n >= 64)
            store_u64le(exact + 24, n);
        ASSERT_FAILS(nf4_file_parse(&f, "cut", exact, n, &err), FT_EFORMAT, "cut: ");
        assert_null(f);
        mem_free(exact);
    }
    mem_free(im.data);
}

static void verify_finds_a_flipped_bit(void **state)
{
    struct image im;
    struct nf4_file *f;
    ft_error err;
    (void)state;
    load_image(&im);
    ASSERT_OK(nf4_file_parse(&f, "v", im.data, im.bytes, &err));
    const struct nf4_tensor *q = nf4_file_find(f, "model.layers.1.self_attn.q_proj.weight");
    const void *const places[] = {
        q->nf4.codes, q->nf4.absmax + 3,           q->nf4.absmax2,
        q->nf4.map,   nf4_file_tensor(f, 0)->data, nf4_file_tokenizer(f).ptr};
    ASSERT_OK(nf4_file_verify(f, &err));
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        uint8_t *p = im.data + ((const uint8_t *)places[i] - im.data);
        *p ^= 4;
        ASSERT_FAILS(nf4_file_verify(f, &err), FT_EFORMAT,
                     i + 1 < ARRAY_LEN(places) ? "v: the tensors do not match the fingerprint"
                                               : "v: the tokenizer does not match its hash");
        *p ^= 4;
    }
    nf4_file_close(f);
    mem_free(im.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(an_unfinished_file_does_not_appear),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(damaged_preambles_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(verify_finds_a_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
