/* SPDX-License-Identifier: Apache-2.0
 * Row borders: any bytes give rows in order and an end; plain text gives rows inside the file, and
 * pieces cut anywhere read alone give the same rows. Compressed inputs are in the corpus, too. */
#include "formats/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_ROW = 1 << 16, PIECE = 64 };

/* Reads the piece alone and returns the number of its rows. */
static uint64_t read_piece(const char *path, const struct jsonl_piece *piece)
{
    struct jsonl *r;
    struct jsonl_row row;
    struct jsonl_piece again;
    bool more = true;
    uint64_t n = 0;
    ft_error err;
    if (jsonl_open_piece(&r, path, piece, MAX_ROW, &err) != FT_OK)
        abort();
    while (jsonl_next(&row, &more, r, &err) == FT_OK && more)
        FT_ASSERT(row.row == piece->row + n++);
    if (jsonl_cut(&again, r, &err) != FT_OK)
        abort();
    FT_ASSERT(again.to == piece->to && hash128_eq(again.hash, piece->hash));
    jsonl_close(r);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jsonl *r;
    struct jsonl_row row;
    struct jsonl_piece piece;
    bool more = true;
    uint64_t n = 0, end = 0, line = 0;
    char path[64];
    ft_error err;
    int fd = (int)syscall(SYS_memfd_create, "rows", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (jsonl_open(&r, path, MAX_ROW, &err) != FT_OK)
        abort();
    bool plain = input_kind(jsonl_input(r)) == INPUT_PLAIN;
    ft_status st;
    while ((st = jsonl_next(&row, &more, r, &err)) == FT_OK && more) {
        FT_ASSERT(row.row == n++ && row.offset >= end && row.line >= line);
        FT_ASSERT(row.text.len > 0);
        FT_ASSERT(!plain || (row.offset + row.text.len <= size &&
                             memcmp(data + row.offset, row.text.ptr, row.text.len) == 0));
        end = row.offset + row.text.len;
        line = row.line;
        if (plain && jsonl_piece_bytes(r) >= PIECE) {
            if (jsonl_cut(&piece, r, &err) != FT_OK)
                abort();
            FT_ASSERT(read_piece(path, &piece) == piece.n_rows);
        }
    }
    if (st == FT_OK) {
        if (input_drain(jsonl_input(r), &err) != FT_OK)
            abort();
        FT_ASSERT(input_bytes(jsonl_input(r)) == size);
        FT_ASSERT(hash128_eq(input_hash(jsonl_input(r)), hash128_of(data, size)));
    }
    jsonl_close(r);
    close(fd);
    return 0;
}
