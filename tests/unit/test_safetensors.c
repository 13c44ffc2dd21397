/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/safetensors.h"

#include <stdlib.h>

#include "common/buf.h"
#include "tests/support/check.h"

/* A file from its header text and so many bytes of data: 0, 1, 2, ... */
static void put_file(struct buf *b, const char *header, size_t data_bytes)
{
    buf_clear(b);
    buf_u64le(b, strlen(header));
    buf_cstr(b, header);
    for (size_t i = 0; i < data_bytes; i++)
        buf_byte(b, (uint8_t)i);
}

#define SAMPLE                                                                                     \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[4,28]},"                           \
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"                             \
    "\"none\":{\"dtype\":\"F16\",\"shape\":[0,5],\"data_offsets\":[4,4]},"                         \
    "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]}}"

static void a_file_is_read(void **state)
{
    struct buf b = {0};
    struct safetensors *s;
    ft_error err;
    (void)state;
    put_file(&b, SAMPLE, 36);
    ASSERT_OK(safetensors_parse(&s, "x", b.data, b.len, &err));
    assert_int_equal(safetensors_count(s), 4);
    const struct safetensors_tensor *a = safetensors_find(s, "a"), *t = safetensors_find(s, "b");
    assert_ptr_equal(a, safetensors_at(s, 0));
    assert_true(a->dtype == DT_BF16 && a->n_dims == 1 && a->shape[0] == 2 && a->data[0] == 0);
    assert_true(t->dtype == DT_F32 && t->n_dims == 2 && t->numel == 6 && t->bytes == 24);
    assert_true(t->shape[0] == 2 && t->shape[1] == 3 && t->data[0] == 4);
    assert_true(safetensors_find(s, "none")->bytes == 0);
    const struct safetensors_tensor *one = safetensors_find(s, "one");
    assert_true(one->dtype == DTYPES && one->n_dims == 0 && one->numel == 1);
    assert_string_equal(one->type_name, "I64");
    assert_null(safetensors_find(s, "c"));
    assert_true(str_is(safetensors_metadata(s, "format"), "pt"));
    assert_null(safetensors_metadata(s, "other").ptr);
    safetensors_close(s);
    safetensors_close(NULL);
    put_file(&b, "{}", 0);
    ASSERT_OK(safetensors_parse(&s, "x", b.data, b.len, &err));
    assert_int_equal(safetensors_count(s), 0);
    assert_null(safetensors_find(s, "a"));
    safetensors_close(s);
    buf_free(&b);
}

static void every_truncation_is_refused(void **state)
{
    struct buf b = {0};
    struct safetensors *s;
    ft_error err;
    (void)state;
    put_file(&b, SAMPLE, 36);
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *exact = malloc(n == 0 ? 1 : n);
        memcpy(exact, b.data, n);
        ASSERT_FAILS(safetensors_parse(&s, "cut", exact, n, &err), FT_EFORMAT, "cut: ");
        assert_null(s);
        free(exact);
    }
    buf_free(&b);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void wrong_headers_are_refused_with_the_tensor(void **state)
{
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"[]", "x: the header must be a JSON object"},
        {"{\"a\":1}", "tensor 'a': expected an object"},
        {"{" T("a", "F32", "[2]", "[0,8]") ",}", "x: line 1"},
        {"{" T("a", "F31", "[2]", "[0,8]") "}", "tensor 'a': unknown dtype \"F31\""},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "\"dtype\" is missing"},
        {"{" T("a", "F32", "2", "[0,8]") "}", "\"shape\" must be a list"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") "}", "\"shape\" must be a list"},
        {"{" T("a", "F32", "[-2]", "[0,8]") "}", "invalid or too large extent"},
        {"{" T("a", "F32", "[1.5]", "[0,8]") "}", "invalid or too large extent"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "[0,8]") "}", "invalid or too large extent"},
        {"{" T("a", "F32", "[9007199254740992,512]", "[0,8]") "}", "its shape needs"},
        {"{" T("a", "F32", "[2]", "[0]") "}", "\"data_offsets\" must be"},
        {"{" T("a", "F32", "[2]", "[8,0]") "}", "\"data_offsets\" must be"},
        {"{" T("a", "F32", "[2]", "[-8,0]") "}", "\"data_offsets\" must be"},
        {"{" T("a", "F32", "[2]", "[0,4]") "}", "its shape needs 8 bytes, data_offsets give 4"},
        {"{" T("a", "F32", "[3]", "[0,12]") "}", "tensor 'a' ends at byte 12 of the data"},
        {"{" T("a", "F32", "[1]", "[4,8]") "}", "there is a hole"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[2]", "[0,8]") "}",
         "tensor 'b': overlaps"},
        {"{" T("a", "F32", "[1]", "[0,4]") "}", "x: 4 bytes after the last tensor"},
        {"{}", "8 bytes after the last tensor"},
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("a", "F32", "[2]", "[0,8]") "}",
         "the key \"a\" appears twice"},
        {"{\"__metadata__\":[]," T("a", "F32", "[2]", "[0,8]") "}", "must be an object"},
        {"{\"__metadata__\":{\"k\":1}," T("a", "F32", "[2]", "[0,8]") "}", "only strings"},
    };
    struct buf b = {0};
    struct safetensors *s;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put_file(&b, cases[i].header, 8);
        ASSERT_FAILS(safetensors_parse(&s, "x", b.data, b.len, &err), FT_EFORMAT, cases[i].message);
        assert_null(s);
    }
    put_file(&b, "{}", 0);
    store_u64le(b.data, UINT64_MAX);
    ASSERT_FAILS(safetensors_parse(&s, "x", b.data, b.len, &err), FT_EFORMAT,
                 "not a safetensors file, or truncated");
    buf_free(&b);
}

static void what_is_written_reads_back(void **state)
{
    static const struct safetensors_entry entries[] = {
        {"w", DT_F32, 2, {2, 3}}, {"v\"\n", DT_BF16, 1, {5}}, {"h", DT_F16, 0, {0}}};
    static const char *const metadata[][2] = {{"format", "pt"}, {"note", "a \"b\""}};
    static const float w[6] = {1, 2, 3, 4, 5, 6};
    static const uint16_t v[5] = {1, 2, 3, 4, 5}, h = 7;
    struct safetensors_writer writer;
    struct safetensors *s;
    ft_error err;
    (void)state;
    const char *path = test_path("written.safetensors");
    ASSERT_OK(safetensors_writer_open(&writer, path, entries, 3, metadata, 2, &err));
    safetensors_write(&writer, w, 8);
    safetensors_write(&writer, w + 2, 16);
    safetensors_write(&writer, v, sizeof v);
    safetensors_write(&writer, &h, sizeof h);
    ASSERT_OK(safetensors_writer_commit(&writer, &err));
    ASSERT_OK(safetensors_open(&s, path, &err));
    assert_memory_equal(safetensors_find(s, "w")->data, w, sizeof w);
    assert_memory_equal(safetensors_find(s, "v\"\n")->data, v, sizeof v);
    assert_memory_equal(safetensors_find(s, "h")->data, &h, sizeof h);
    assert_int_equal((uintptr_t)safetensors_find(s, "w")->data % 8, 0);
    assert_true(str_is(safetensors_metadata(s, "note"), "a \"b\""));
    safetensors_release(s, safetensors_find(s, "w"));
    safetensors_close(s);
}

static void an_aborted_file_does_not_appear(void **state)
{
    static const struct safetensors_entry entry = {"w", DT_F32, 1, {1}};
    struct safetensors_writer writer;
    ft_error err;
    (void)state;
    const char *path = test_path("aborted.safetensors");
    ASSERT_OK(safetensors_writer_open(&writer, path, &entry, 1, NULL, 0, &err));
    safetensors_writer_abort(&writer);
    assert_false(path_exists(path));
}

static void publish_text(const char *path, const char *text)
{
    ft_error err;
    ASSERT_OK(file_publish(path, text, strlen(text), &err));
}

static void publish_file(const char *path, const char *header, size_t data_bytes)
{
    struct buf b = {0};
    ft_error err;
    put_file(&b, header, data_bytes);
    ASSERT_OK(file_publish(path, b.data, b.len, &err));
    buf_free(&b);
}

static void shards_are_joined_by_their_index(void **state)
{
    struct safetensors *s;
    ft_error err;
    char index[1100];
    (void)state;
    publish_file(test_path("m-1.safetensors"), "{" T("a", "F32", "[1]", "[0,4]") "}", 4);
    publish_file(test_path("m-2.safetensors"), "{" T("b", "F32", "[2]", "[0,8]") "}", 8);
    publish_file(test_path("m-3.safetensors"), "{" T("a", "F32", "[2]", "[0,8]") "}", 8);
    snprintf(index, sizeof index, "%s", test_path("m.index.json"));
    publish_text(index, "{\"metadata\":{\"total_size\":12},\"weight_map\":"
                        "{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}");
    ASSERT_OK(safetensors_open(&s, index, &err));
    assert_int_equal(safetensors_count(s), 2);
    assert_int_equal(safetensors_find(s, "b")->bytes, 8);
    safetensors_release(s, safetensors_find(s, "b"));
    safetensors_close(s);
}

static void wrong_indexes_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
        ft_status status;
    } cases[] = {
        {"{}", "\"weight_map\" is missing", FT_EFORMAT},
        {"{\"weight_map\":{}}", "weight_map is empty", FT_EFORMAT},
        {"{\"weight_map\":{\"a\":1}}", "'a' does not name a .safetensors file", FT_EFORMAT},
        {"{\"weight_map\":{\"a\":\"../m-1.safetensors\"}}", "'a' does not name", FT_EFORMAT},
        {"{\"weight_map\":{\"a\":\"m-1.bin\"}}", "'a' does not name", FT_EFORMAT},
        {"{\"weight_map\":{\"a\":\"m-9.safetensors\"}}", "m-9.safetensors", FT_EIO},
        {"{\"weight_map\":{\"b\":\"m-1.safetensors\"}}", "tensor 'b' is not in m-1.safetensors",
         FT_EFORMAT},
        {"{\"weight_map\":{\"a\":\"m-2.safetensors\",\"b\":\"m-1.safetensors\"}}",
         "is not in m-2.safetensors as weight_map says", FT_EFORMAT},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\"}}",
         "weight_map lists 2 tensors, the shards hold 1", FT_EFORMAT},
        {"{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-3.safetensors\"}}",
         "tensor 'a' appears in both", FT_EFORMAT},
    };
    struct safetensors *s;
    ft_error err;
    char index[1100];
    (void)state;
    snprintf(index, sizeof index, "%s", test_path("bad.index.json"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        publish_text(index, cases[i].text);
        ASSERT_FAILS(safetensors_open(&s, index, &err), cases[i].status, cases[i].message);
        assert_null(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(wrong_headers_are_refused_with_the_tensor),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(an_aborted_file_does_not_appear),
        cmocka_unit_test(shards_are_joined_by_their_index),
        cmocka_unit_test(wrong_indexes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
