/* SPDX-License-Identifier: Apache-2.0
 * Row borders: any bytes give rows inside the file, in order, and an end. */
#include "formats/jsonl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jsonl *r;
    struct jsonl_row row;
    bool more = true;
    uint64_t n = 0, end = 0, line = 0;
    char path[64];
    ft_error err;
    int fd = (int)syscall(SYS_memfd_create, "rows", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (jsonl_open(&r, path, 1 << 16, &err) != FT_OK)
        abort();
    ft_status st;
    while ((st = jsonl_next(&row, &more, r, &err)) == FT_OK && more) {
        FT_ASSERT(row.row == n++ && row.offset >= end && row.line >= line);
        FT_ASSERT(row.text.len > 0 && row.offset + row.text.len <= size);
        FT_ASSERT(memcmp(data + row.offset, row.text.ptr, row.text.len) == 0);
        end = row.offset + row.text.len;
        line = row.line;
    }
    if (st == FT_OK)
        FT_ASSERT(jsonl_bytes(r) == size && hash128_eq(jsonl_hash(r), hash128_of(data, size)));
    jsonl_close(r);
    close(fd);
    return 0;
}
