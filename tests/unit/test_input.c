/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/input.h"

#include <stdlib.h>

#include "common/buf.h"
#include "common/file.h"
#include "formats/compress.h"
#include "tests/support/check.h"

/* "hello\n" and "world\n" as gzip members. */
static const uint8_t hello_gz[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                   0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0xe7, 0x02, 0x00,
                                   0x20, 0x30, 0x3a, 0x36, 0x06, 0x00, 0x00, 0x00};
static const uint8_t world_gz[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                   0x03, 0x2b, 0xcf, 0x2f, 0xca, 0x49, 0xe1, 0x02, 0x00,
                                   0xa8, 0x61, 0x38, 0xdd, 0x06, 0x00, 0x00, 0x00};

/* Reads a file with these bytes in steps of `step`. */
static ft_status read_all(struct buf *out, const struct buf *file, size_t step, ft_error *err)
{
    struct input *in;
    const char *path = test_path("input");
    size_t n = 1;
    buf_clear(out);
    assert_int_equal(file_publish(path, file->data, file->len, err), FT_OK);
    ft_status st = input_open(&in, path, err);
    while (st == FT_OK && n > 0) {
        void *dst = buf_reserve(out, step);
        assert_non_null(dst);
        st = input_read(&n, in, dst, step, err);
        out->len += st == FT_OK ? n : 0;
    }
    if (st == FT_OK) {
        assert_int_equal(input_bytes(in), file->len);
        assert_true(hash128_eq(input_hash(in), hash128_of(file->data, file->len)));
    }
    input_close(in);
    return st;
}

static void expect(const struct buf *file, const char *text)
{
    struct buf got = {0};
    ft_error err;
    for (size_t step = 1; step < 100; step += 24) {
        ASSERT_OK(read_all(&got, file, step, &err));
        buf_byte(&got, 0);
        assert_string_equal((char *)got.data, text);
    }
    buf_free(&got);
}

static void expect_error(const struct buf *file, const char *part)
{
    struct buf got = {0};
    ft_error err;
    ASSERT_FAILS(read_all(&got, file, 4096, &err), FT_EFORMAT, part);
    buf_free(&got);
}

static void plain_files_come_as_they_are(void **state)
{
    struct buf f = {0};
    (void)state;
    expect(&f, "");
    buf_cstr(&f, "x");
    expect(&f, "x");
    buf_cstr(&f, "yz\n\x1F\x8B");
    expect(&f, "xyz\n\x1F\x8B");
    buf_free(&f);
}

static void gzip_members_follow_one_another(void **state)
{
    struct buf f = {0};
    (void)state;
    buf_append(&f, hello_gz, sizeof hello_gz);
    expect(&f, "hello\n");
    buf_append(&f, world_gz, sizeof world_gz);
    expect(&f, "hello\nworld\n");
    buf_append(&f, "\0\0\0\0", 4); /* padding, as tape writers leave it */
    expect(&f, "hello\nworld\n");
    buf_byte(&f, 'x');
    expect_error(&f, "input: near byte 52: damaged gzip data (text behind the end)");
    f.len = 30;
    expect_error(&f, "input: unexpected end at byte 30: the compressed file is cut off");
    f.len = 52;
    f.data[40] ^= 0x10;
    expect_error(&f, "damaged gzip data");
    f.len = 26;
    buf_cstr(&f, "garbage");
    expect_error(&f, "damaged gzip data (incorrect header check)");
    buf_free(&f);
}

static void zstd_frames_follow_one_another(void **state)
{
    static const uint8_t skippable[] = {0x51, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    struct compressor *c;
    struct buf f = {0};
    ft_error err;
    (void)state;
    ASSERT_OK(compressor_create(&c, 3, &err));
    buf_append(&f, skippable, sizeof skippable);
    ASSERT_OK(compressor_append(&f, c, "hello\n", 6, &err));
    expect(&f, "hello\n");
    size_t one = f.len;
    ASSERT_OK(compressor_append(&f, c, "world\n", 6, &err));
    buf_append(&f, skippable, sizeof skippable);
    expect(&f, "hello\nworld\n");
    f.len = one + 7;
    expect_error(&f, "the compressed file is cut off");
    f.len = one;
    buf_cstr(&f, "garbage");
    expect_error(&f, "damaged zstd data");
    buf_free(&f);
    compressor_destroy(c);
}

static void a_megabyte_of_one_letter_takes_many_windows(void **state)
{
    struct compressor *c;
    struct buf f = {0}, got = {0};
    size_t n = 3 << 20;
    char *text = malloc(n);
    ft_error err;
    (void)state;
    memset(text, 'a', n);
    ASSERT_OK(compressor_create(&c, 3, &err));
    ASSERT_OK(compressor_append(&f, c, text, n, &err));
    ASSERT_OK(read_all(&got, &f, 70000, &err));
    assert_int_equal(got.len, n);
    assert_memory_equal(got.data, text, n);
    free(text);
    buf_free(&f);
    buf_free(&got);
    compressor_destroy(c);
}

static void size_and_hash_cover_what_was_not_asked_for(void **state)
{
    struct input *in;
    char byte;
    size_t n;
    ft_error err;
    (void)state;
    ASSERT_OK(file_publish(test_path("drain"), hello_gz, sizeof hello_gz, &err));
    ASSERT_OK(input_open(&in, test_path("drain"), &err));
    assert_int_equal(input_kind(in), INPUT_GZIP);
    ASSERT_OK(input_read(&n, in, &byte, 1, &err));
    ASSERT_OK(input_drain(in, &err));
    assert_int_equal(input_bytes(in), sizeof hello_gz);
    assert_true(hash128_eq(input_hash(in), hash128_of(hello_gz, sizeof hello_gz)));
    input_close(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_files_come_as_they_are),
        cmocka_unit_test(gzip_members_follow_one_another),
        cmocka_unit_test(zstd_frames_follow_one_another),
        cmocka_unit_test(a_megabyte_of_one_letter_takes_many_windows),
        cmocka_unit_test(size_and_hash_cover_what_was_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
