/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/jsonl.h"

#include <stdlib.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/rng.h"
#include "tests/support/check.h"

/* Reads text as a file; rows come back joined by '|', each with "row@line:". */
static ft_status read_all(struct buf *out, str text, size_t max_row, ft_error *failure)
{
    ft_error err;
    struct jsonl *r;
    struct jsonl_row row;
    bool more = true;
    const char *path = test_path("rows");
    buf_clear(out);
    ASSERT_OK(file_publish(path, text.ptr, text.len, &err));
    ASSERT_OK(jsonl_open(&r, path, max_row, &err));
    ft_status st = FT_OK;
    while (st == FT_OK && more) {
        st = jsonl_next(&row, &more, r, failure);
        if (st == FT_OK && more) {
            assert_memory_equal(text.ptr + row.offset, row.text.ptr, row.text.len);
            buf_printf(out, "%s%d@%d:%.*s", out->len > 0 ? "|" : "", (int)row.row, (int)row.line,
                       STR_ARG(row.text));
        }
    }
    if (st == FT_OK) {
        assert_int_equal(input_bytes(jsonl_input(r)), text.len);
        assert_true(hash128_eq(input_hash(jsonl_input(r)), hash128_of(text.ptr, text.len)));
    }
    jsonl_close(r);
    buf_byte(out, '\0');
    return st;
}

static void expect_rows(str text, const char *expected)
{
    struct buf got = {0};
    ft_error err;
    ASSERT_OK(read_all(&got, text, JSONL_MAX_ROW, &err));
    assert_string_equal((const char *)got.data, expected);
    buf_free(&got);
}

static void expect_error(str text, ft_status status, const char *part)
{
    struct buf got = {0};
    ft_error err;
    ASSERT_FAILS(read_all(&got, text, JSONL_MAX_ROW, &err), status, part);
    buf_free(&got);
}

static void lines_with_any_ending(void **state)
{
    (void)state;
    expect_rows(STR("{\"a\":1}\n{\"b\":2}\n"), "0@1:{\"a\":1}|1@2:{\"b\":2}");
    expect_rows(STR("{\"a\":1}\r\n\r\n  \n{\"b\":2}"), "0@1:{\"a\":1}|1@4:{\"b\":2}");
    expect_rows(STR("\xEF\xBB\xBF\n\n {\"a\":1} \t\n"), "0@3:{\"a\":1}");
    expect_rows(STR("1\nnull\n\"x\""), "0@1:1|1@2:null|2@3:\"x\"");
    expect_rows(STR(""), "");
    expect_rows(STR("\xEF\xBB\xBF \n"), "");
}

static void arrays_over_any_lines(void **state)
{
    (void)state;
    expect_rows(STR("[]"), "");
    expect_rows(STR(" [ ] \n"), "");
    expect_rows(STR("[{\"a\":\"],}\\\"[\"}, {\"b\":[1,{}]}]"),
                "0@1:{\"a\":\"],}\\\"[\"}|1@1:{\"b\":[1,{}]}");
    expect_rows(STR("\xEF\xBB\xBF[\n  {\n \"a\": 1\n  },\n  2\n,[3,4]\n]\n"),
                "0@2:{\n \"a\": 1\n  }|1@5:2|2@6:[3,4]");
}

/* An array of messages on the first line is a row, not the file. */
static void lines_of_bare_lists_are_lines(void **state)
{
    (void)state;
    expect_rows(STR("[{\"role\":\"user\"}]\n[{\"role\":\"x\"}]\n"),
                "0@1:[{\"role\":\"user\"}]|1@2:[{\"role\":\"x\"}]");
    expect_rows(STR("[{\"from\":\"human\"},1]\n"), "0@1:[{\"from\":\"human\"},1]");
    expect_rows(STR("[[{\"role\":\"user\"}],[]]"), "0@1:[{\"role\":\"user\"}]|1@1:[]");
    expect_rows(STR("[{\"role\":\"a\",\"messages\":[]}]"), "0@1:{\"role\":\"a\",\"messages\":[]}");
}

static void broken_arrays_name_the_place(void **state)
{
    (void)state;
    expect_error(STR("[{\"a\":1},\n{\"b\":"), FT_EFORMAT,
                 "unexpected end at byte 15, after 1 complete row: the file is cut off");
    expect_error(STR("[1,2"), FT_EFORMAT, "after 1 complete row");
    expect_error(STR("[1,2,"), FT_EFORMAT, "after 2 complete rows");
    expect_error(STR("["), FT_EFORMAT, "after 0 complete rows");
    expect_error(STR("[1,]"), FT_EFORMAT, "byte 3: not JSON: a value is missing");
    expect_error(STR("[,1]"), FT_EFORMAT, "a value is missing");
    expect_error(STR("[\n1}"), FT_EFORMAT, "line 2, byte 3: not JSON: expected ',' or ']'");
    expect_error(STR("[1]\n[2]"), FT_EFORMAT, "line 2, byte 4: not JSON: text after the end");
    expect_error(STR("[\"abc"), FT_EFORMAT, "cut off");
}

static void other_formats_are_named(void **state)
{
    (void)state;
    expect_error((str){"\xFF\xFE{\0", 4}, FT_EFORMAT, "UTF-16");
    expect_error((str){"\xFE\xFF\0{", 4}, FT_EFORMAT, "UTF-16");
    expect_error(STR("PAR1..."), FT_EFORMAT, "Parquet");
}

static void a_row_above_the_limit_is_refused(void **state)
{
    size_t n = 3 << 20;
    char *big = malloc(n + 16);
    struct buf got = {0};
    ft_error err;
    (void)state;
    memset(big, 'x', n + 16);
    memcpy(big, "1\n\"", 3);
    memcpy(big + n, "\"\n", 2);
    ASSERT_OK(read_all(&got, (str){big, n + 2}, 4 << 20, &err));
    ASSERT_FAILS(read_all(&got, (str){big, n + 2}, 1 << 20, &err), FT_ELIMIT,
                 "line 2: row 1 is longer than 1048576 bytes");
    free(big);
    buf_free(&got);
}

/* Rows around the read size, so that every border falls everywhere. */
static void rows_of_all_sizes_keep_their_text(void **state)
{
    struct buf text = {0};
    (void)state;
    for (int array = 0; array < 2; array++) {
        struct jsonl *r;
        struct jsonl_row row;
        bool more;
        ft_error err;
        uint64_t n = 0;
        buf_clear(&text);
        buf_cstr(&text, array ? "[" : "");
        for (uint64_t i = 0; i < 400; i++) {
            buf_cstr(&text, i == 0 ? "" : array ? " ,\n" : "\n");
            buf_printf(&text, "{\"n\": %d, \"x\": \"", (int)i);
            for (uint64_t k = rng_u64(1, 1, i) % 9000; k > 0; k--)
                buf_cstr(&text, k % 97 == 0 ? "\\\"" : "y");
            buf_cstr(&text, "\"}");
        }
        buf_cstr(&text, array ? "]" : "");
        ASSERT_OK(file_publish(test_path("sizes"), text.data, text.len, &err));
        ASSERT_OK(jsonl_open(&r, test_path("sizes"), 1 << 20, &err));
        for (;; n++) {
            char start[32];
            ASSERT_OK(jsonl_next(&row, &more, r, &err));
            if (!more)
                break;
            int len = snprintf(start, sizeof start, "{\"n\": %d,", (int)n);
            assert_true(row.row == n && row.line == n + 1);
            assert_memory_equal(row.text.ptr, start, (size_t)len);
            assert_int_equal(row.text.ptr[row.text.len - 1], '}');
        }
        assert_int_equal(n, 400);
        jsonl_close(r);
    }
    buf_free(&text);
}

/* Cuts the text at every row, reads each piece alone, and expects the same rows and hashes. */
static void expect_pieces(str text)
{
    struct jsonl *whole, *part;
    struct jsonl_row row, again;
    struct jsonl_piece piece;
    bool more;
    ft_error err;
    const char *path = test_path("pieces");
    ASSERT_OK(file_publish(path, text.ptr, text.len, &err));
    ASSERT_OK(jsonl_open(&whole, path, 1 << 20, &err));
    uint64_t end = 0;
    for (;;) {
        ASSERT_OK(jsonl_next(&row, &more, whole, &err));
        if (!more)
            break;
        ASSERT_OK(jsonl_cut(&piece, whole, &err));
        assert_true(piece.from == end && piece.n_rows == 1 && piece.row == row.row);
        end = piece.to;
        assert_true(hash128_eq(piece.hash, hash128_of(text.ptr + piece.from, end - piece.from)));
        ASSERT_OK(jsonl_open_piece(&part, path, &piece, 1 << 20, &err));
        ASSERT_OK(jsonl_next(&again, &more, part, &err));
        assert_true(more && str_eq(again.text, row.text) && again.row == row.row);
        assert_true(again.line == row.line && again.offset == row.offset);
        ASSERT_OK(jsonl_next(&again, &more, part, &err));
        assert_false(more);
        ASSERT_OK(jsonl_cut(&piece, part, &err));
        assert_true(piece.to == end && piece.n_rows == 1);
        jsonl_close(part);
    }
    ASSERT_OK(jsonl_cut(&piece, whole, &err));
    assert_true(piece.n_rows == 0 && piece.to == text.len);
    jsonl_close(whole);
}

static void pieces_read_alone_give_the_same_rows(void **state)
{
    (void)state;
    expect_pieces(STR("{\"a\":1}\n\n{\"b\":2}\r\n  3\n"));
    expect_pieces(STR("\xEF\xBB\xBF{\"a\":\"\\\\\"}\n2"));
    expect_pieces(STR("[1,\n 2 ,{\"a\":\"x\\\",\\\\\"},\n\n[3,4]\n]\n"));
    expect_pieces(STR("[{\"role\":\"user\"}]\n[{\"role\":\"x\"}]\n"));
    expect_pieces(STR("  \n"));
}

static void a_missing_file_is_an_io_error(void **state)
{
    struct jsonl *r;
    ft_error err;
    (void)state;
    ASSERT_FAILS(jsonl_open(&r, test_path("no_such_rows"), 1, &err), FT_EIO, "no_such_rows");
    ASSERT_OK(dir_create(test_path("a_dir"), &err));
    ASSERT_FAILS(jsonl_open(&r, test_path("a_dir"), 1, &err), FT_EIO, "read failed at byte 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_with_any_ending),
        cmocka_unit_test(arrays_over_any_lines),
        cmocka_unit_test(lines_of_bare_lists_are_lines),
        cmocka_unit_test(broken_arrays_name_the_place),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(a_row_above_the_limit_is_refused),
        cmocka_unit_test(rows_of_all_sizes_keep_their_text),
        cmocka_unit_test(pieces_read_alone_give_the_same_rows),
        cmocka_unit_test(a_missing_file_is_an_io_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
