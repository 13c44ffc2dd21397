/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/gguf.h"

#include <stdlib.h>

#include "common/file.h"
#include "common/half.h"
#include "tests/support/check.h"
#include "tests/support/gguf_bytes.h"

static void put_bytes(struct buf *b, const char *key, enum gguf_kind kind, uint64_t v, size_t n)
{
    uint8_t bytes[8];
    store_u64le(bytes, v);
    gguf_put_key(b, key, kind);
    buf_append(b, bytes, n);
}

static void put_array(struct buf *b, const char *key, enum gguf_kind kind, uint64_t n)
{
    gguf_put_key(b, key, GGUF_ARRAY);
    buf_u32le(b, kind);
    buf_u64le(b, n);
}

/* Every kind of value, and two tensors: 2 x 32 elements of Q8_0, then 3 of F32. */
static void put_sample(struct buf *b, uint32_t version)
{
    gguf_put_header(b, version, 2, 17);
    gguf_put_str(b, "general.architecture", "llama");
    gguf_put_u32(b, "general.alignment", 64);
    put_bytes(b, "u8", GGUF_U8, 200, 1);
    put_bytes(b, "i8", GGUF_I8, (uint8_t)-5, 1);
    put_bytes(b, "u16", GGUF_U16, 60000, 2);
    put_bytes(b, "i16", GGUF_I16, (uint16_t)-300, 2);
    put_bytes(b, "i32", GGUF_I32, (uint32_t)-70000, 4);
    put_bytes(b, "u64", GGUF_U64, UINT64_MAX, 8);
    put_bytes(b, "i64", GGUF_I64, (uint64_t)INT64_MIN, 8);
    gguf_put_f32(b, "f32", 0.5f);
    put_bytes(b, "f64", GGUF_F64, 0x3FD0000000000000u, 8);
    put_bytes(b, "bool", GGUF_BOOL, 1, 1);
    put_array(b, "strings", GGUF_STRING, 3);
    gguf_put_string(b, "one");
    gguf_put_string(b, "");
    gguf_put_string(b, "three");
    put_array(b, "numbers", GGUF_I32, 2);
    buf_u32le(b, 7);
    buf_u32le(b, (uint32_t)-8);
    put_array(b, "floats", GGUF_F32, 1);
    buf_u32le(b, f32_to_bits(1.5f));
    put_array(b, "none", GGUF_STRING, 0);
    gguf_put_str(b, "empty", "");
    gguf_put_tensor(b, "b", 1, (uint64_t[]){3}, 0, 128);
    gguf_put_tensor(b, "a", 2, (uint64_t[]){32, 2}, 8, 0);
    buf_pad(b, 64);
    for (int i = 0; i < 128 + 12; i++)
        buf_byte(b, (uint8_t)i);
}

static void scalars_are_read(const struct gguf *g)
{
    ft_error err;
    int64_t v;
    double d;
    bool flag;
    static const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"u8", 200},     {"i8", -5},         {"u16", 60000},           {"i16", -300},
                {"i32", -70000}, {"i64", INT64_MIN}, {"general.alignment", 64}};
    for (size_t i = 0; i < ARRAY_LEN(ints); i++) {
        ASSERT_OK(gguf_need_i64(&v, g, ints[i].key, INT64_MIN, INT64_MAX, &err));
        assert_true(v == ints[i].value);
    }
    ASSERT_FAILS(gguf_need_i64(&v, g, "u64", INT64_MIN, INT64_MAX, &err), FT_EFORMAT, "u64 is");
    ASSERT_OK(gguf_opt_f64(&d, g, "f32", 0, &err));
    assert_true(d == 0.5);
    ASSERT_OK(gguf_opt_f64(&d, g, "f64", 0, &err));
    assert_true(d == 0.25);
    ASSERT_OK(gguf_opt_bool(&flag, g, "bool", false, &err));
    assert_true(flag);
}

static void arrays_are_read(const struct gguf *g)
{
    ft_error err;
    struct gguf_array a;
    ASSERT_OK(gguf_need_array(&a, g, "strings", GGUF_STRING, &err));
    assert_int_equal(a.n, 3);
    assert_true(str_is(gguf_array_next_str(&a), "one"));
    assert_true(str_is(gguf_array_next_str(&a), ""));
    assert_true(str_is(gguf_array_next_str(&a), "three"));
    assert_int_equal(a.n, 0);
    ASSERT_OK(gguf_need_array(&a, g, "numbers", GGUF_I32, &err));
    assert_true(gguf_array_i64(&a, 0) == 7 && gguf_array_i64(&a, 1) == -8);
    ASSERT_OK(gguf_need_array(&a, g, "floats", GGUF_F32, &err));
    assert_true(gguf_array_f64(&a, 0) == 1.5);
    ASSERT_OK(gguf_need_array(&a, g, "none", GGUF_STRING, &err));
    assert_int_equal(a.n, 0);
    ASSERT_FAILS(gguf_need_array(&a, g, "numbers", GGUF_F32, &err), FT_EFORMAT,
                 "numbers: the elements are each an int32, expected a float32");
}

static void tensors_are_placed(const struct gguf *g)
{
    const struct gguf_tensor *a = gguf_find_tensor(g, STR("a")), *b = gguf_tensor(g, 0);
    assert_int_equal(gguf_tensors(g), 2);
    assert_ptr_equal(a, gguf_tensor(g, 1));
    assert_ptr_equal(b, gguf_find_tensor(g, STR("b")));
    assert_null(gguf_find_tensor(g, STR("c")));
    assert_true(a->dtype == DT_Q8_0 && a->n_dims == 2 && a->bytes == 68);
    assert_true(a->shape[0] == 32 && a->shape[1] == 2 && a->shape[2] == 1 && a->shape[3] == 1);
    assert_true(b->dtype == DT_F32 && b->bytes == 12 && b->data == a->data + 128);
    assert_true(a->data[0] == 0 && b->data[0] == 128);
}

static void everything_is_read_from_versions_2_and_3(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct buf b = {0};
        struct gguf *g;
        ft_error err;
        put_sample(&b, version);
        ASSERT_OK(gguf_parse(&g, "sample", b.data, b.len, &err));
        scalars_are_read(g);
        arrays_are_read(g);
        tensors_are_placed(g);
        gguf_close(g);
        buf_free(&b);
    }
}

static void wrong_or_missing_metadata_is_named(void **state)
{
    struct buf b = {0};
    struct gguf *g;
    struct gguf_array a;
    ft_error err;
    int64_t v;
    double d;
    bool flag;
    str s;
    (void)state;
    put_sample(&b, 3);
    ASSERT_OK(gguf_parse(&g, "file", b.data, b.len, &err));
    ASSERT_FAILS(gguf_need_str(&s, g, "nope", &err), FT_EFORMAT,
                 "file: the metadata key nope is missing, expected a string");
    ASSERT_FAILS(gguf_need_str(&s, g, "u8", &err), FT_EFORMAT,
                 "u8: expected a string, found a uint8");
    ASSERT_FAILS(gguf_need_i64(&v, g, "bool", 0, 1, &err), FT_EFORMAT, "expected an integer");
    ASSERT_FAILS(gguf_need_i64(&v, g, "u8", 0, 10, &err), FT_EFORMAT,
                 "u8 is 200, expected a whole number from 0 to 10");
    ASSERT_FAILS(gguf_opt_f64(&d, g, "u8", 0, &err), FT_EFORMAT, "expected a float");
    ASSERT_FAILS(gguf_opt_bool(&flag, g, "u8", 0, &err), FT_EFORMAT, "expected a bool");
    ASSERT_FAILS(gguf_need_array(&a, g, "u8", GGUF_U8, &err), FT_EFORMAT, "expected an array");
    ASSERT_FAILS(gguf_need_array(&a, g, "nope", GGUF_U8, &err), FT_EFORMAT, "nope is missing");
    ASSERT_OK(gguf_opt_i64(&v, g, "nope", -3, 0, 1, &err));
    assert_int_equal(v, -3);
    ASSERT_OK(gguf_opt_str(&s, g, "nope", STR("x"), &err));
    assert_true(str_is(s, "x"));
    assert_true(gguf_has(g, "empty") && !gguf_has(g, "nope"));
    gguf_close(g);
    buf_free(&b);
}

static void every_truncation_is_refused(void **state)
{
    struct buf b = {0};
    struct gguf *g;
    ft_error err;
    (void)state;
    put_sample(&b, 3);
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *exact = malloc(n == 0 ? 1 : n);
        memcpy(exact, b.data, n);
        ASSERT_FAILS(gguf_parse(&g, "cut", exact, n, &err), FT_EFORMAT, "cut: ");
        assert_null(g);
        free(exact);
    }
    buf_free(&b);
}

/* Damages eight bytes of the sample and expects a message. */
static void expect_refusal(size_t at, uint64_t value, size_t n, ft_status status, const char *part)
{
    struct buf b = {0};
    struct gguf *g;
    ft_error err;
    uint8_t bytes[8];
    put_sample(&b, 3);
    store_u64le(bytes, value);
    memcpy(b.data + at, bytes, n);
    ASSERT_FAILS(gguf_parse(&g, "bad", b.data, b.len, &err), status, part);
    buf_free(&b);
}

/* Offset of text in the sample. */
static size_t place(const char *text)
{
    struct buf b = {0};
    size_t at = 0;
    put_sample(&b, 3);
    while (memcmp(b.data + at, text, strlen(text)) != 0)
        at++;
    buf_free(&b);
    return at;
}

static void lying_numbers_are_refused(void **state)
{
    size_t strings = place("strings"), arch = place("general.arch");
    (void)state;
    expect_refusal(0, 'g', 1, FT_EFORMAT, "bad: not a GGUF file");
    expect_refusal(4, 1, 4, FT_EFORMAT, "GGUF version 1, expected 2 or 3");
    expect_refusal(4, 4, 4, FT_EFORMAT, "GGUF version 4");
    expect_refusal(4, 0x03000000, 4, FT_EFORMAT, "a big-endian GGUF file");
    expect_refusal(8, UINT64_MAX, 8, FT_ELIMIT, "tensors, at most");
    expect_refusal(8, 1000000, 8, FT_EFORMAT, "the header promises 1000000 tensors");
    expect_refusal(16, UINT64_MAX, 8, FT_ELIMIT, "metadata keys, at most");
    expect_refusal(16, 60000, 8, FT_EFORMAT, "the header promises 60000 metadata keys");
    expect_refusal(24, UINT64_MAX, 8, FT_ELIMIT, "a metadata key of");
    expect_refusal(24, 60000, 8, FT_EFORMAT, "the file ends inside a metadata key");
    expect_refusal(arch + 20, 13, 4, FT_EFORMAT,
                   "key 'general.architecture' has the unknown value type 13");
    expect_refusal(strings + 7 + 4, GGUF_ARRAY, 4, FT_EFORMAT, "'strings' is an array of arrays");
    expect_refusal(strings + 7 + 8, UINT64_MAX, 8, FT_EFORMAT, "the file ends inside");
    expect_refusal(strings + 7 + 16, UINT64_MAX, 8, FT_EFORMAT,
                   "the file ends inside a string of an array");
    expect_refusal(place("numbers") + 7 + 8, UINT64_MAX / 4 + 2, 8, FT_EFORMAT,
                   "the file ends inside an array");
    expect_refusal(place("general.alignment") + 21, 48, 4, FT_EFORMAT, "expected a power of two");
    expect_refusal(place("general.alignment") + 21, 0, 4, FT_EFORMAT, "general.alignment is 0");
}

static void wrong_tensors_are_refused_by_name(void **state)
{
    size_t b = place("b\x01"), a = place("a\x02");
    (void)state;
    expect_refusal(b + 1, 5, 4, FT_EFORMAT, "tensor 'b': more than 4 dimensions (5)");
    expect_refusal(b + 5, 0, 8, FT_EFORMAT, "tensor 'b': a dimension is zero or too large");
    expect_refusal(b + 5, UINT64_MAX, 8, FT_EFORMAT,
                   "tensor 'b': a dimension is zero or too large");
    expect_refusal(b + 5, (uint64_t)INT64_MAX, 8, FT_EFORMAT, "tensor 'b'");
    expect_refusal(b + 5, 1000, 8, FT_EFORMAT,
                   "tensor 'b': its 4000 bytes at offset 128 go beyond");
    expect_refusal(b + 13, 4, 4, FT_EFORMAT, "tensor 'b': unknown tensor type; convert");
    expect_refusal(b + 13, 4000, 4, FT_EFORMAT, "tensor 'b': unknown tensor type");
    expect_refusal(b + 17, 100, 8, FT_EFORMAT, "tensor 'b': its offset is not a multiple");
    expect_refusal(b + 17, 0, 8, FT_EFORMAT, "the tensors 'b' and 'a' overlap");
    expect_refusal(b + 17, UINT64_MAX - 63, 8, FT_EFORMAT, "go beyond the end of the file");
    expect_refusal(a + 5, 33, 8, FT_EFORMAT, "tensor 'a': the row length is not a multiple");
    expect_refusal(a + 13, UINT64_MAX / 32, 8, FT_EFORMAT, "tensor 'a': a dimension is zero");
    expect_refusal(b, 'a', 1, FT_EFORMAT, "the tensor 'a' appears twice");
    expect_refusal(place("i16"), 'u', 1, FT_EFORMAT, "the metadata key 'u16' appears twice");
}

static void types_that_cannot_be_decoded_are_listed(void **state)
{
    struct buf b = {0};
    struct gguf *g;
    ft_error err;
    (void)state;
    gguf_put_header(&b, 3, 1, 0);
    gguf_put_tensor(&b, "k", 1, (uint64_t[]){256}, 13, 0);
    buf_pad(&b, 32);
    memset(buf_reserve(&b, 176), 0, 176);
    b.len += 176;
    ASSERT_OK(gguf_parse(&g, "q5", b.data, b.len, &err));
    assert_true(gguf_tensor(g, 0)->dtype == DTYPES && gguf_tensor(g, 0)->bytes == 176);
    assert_string_equal(gguf_tensor(g, 0)->type_name, "Q5_K");
    gguf_close(g);
    buf_free(&b);
}

static void files_open_and_an_empty_model_is_fine(void **state)
{
    struct buf b = {0};
    struct gguf *g;
    ft_error err;
    (void)state;
    const char *path = test_path("sample.gguf");
    put_sample(&b, 3);
    ASSERT_OK(file_publish(path, b.data, b.len, &err));
    ASSERT_OK(gguf_open(&g, path, &err));
    assert_string_equal(gguf_name(g), path);
    tensors_are_placed(g);
    gguf_release_tensor(g, gguf_tensor(g, 0));
    tensors_are_placed(g);
    gguf_close(g);
    buf_clear(&b);
    gguf_put_header(&b, 3, 0, 0);
    ASSERT_OK(gguf_parse(&g, "empty", b.data, b.len, &err));
    assert_int_equal(gguf_tensors(g), 0);
    assert_null(gguf_find_tensor(g, STR("a")));
    gguf_close(g);
    gguf_close(NULL);
    buf_free(&b);
    ASSERT_FAILS(gguf_open(&g, "does/not/exist.gguf", &err), FT_EIO, "does/not/exist.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read_from_versions_2_and_3),
        cmocka_unit_test(wrong_or_missing_metadata_is_named),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(lying_numbers_are_refused),
        cmocka_unit_test(wrong_tensors_are_refused_by_name),
        cmocka_unit_test(types_that_cannot_be_decoded_are_listed),
        cmocka_unit_test(files_open_and_an_empty_model_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
