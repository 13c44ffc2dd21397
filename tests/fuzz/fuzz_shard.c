/* SPDX-License-Identifier: Apache-2.0
 * Shards. Header, table and block checksums are made right where the bytes allow it, so that damage
 * gets past them to the code behind; every sample is then read. */
#include "formats/shard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { H_FILE_BYTES = 56, H_HASH = 120, MAX_READ = 1 << 16 };

static void read_samples(const struct shard *s)
{
    static struct decompressor *zstd;
    static struct buf raw;
    ft_error err;
    if (zstd == NULL && decompressor_create(&zstd, &err) != FT_OK)
        abort();
    for (uint64_t i = 0; i < s->counts.n_samples; i++) {
        struct shard_entry e = shard_entry_at(s, i);
        if (e.block >= s->n_blocks || e.n_tokens > MAX_READ)
            continue;
        struct shard_block b = shard_block_at(s, e.block);
        /* The fuzzer cannot guess a checksum: without one the bytes are whatever they decode to. */
        ft_status st = shard_read_block(&raw, s, e.block, zstd, &err);
        if (st != FT_OK && !(raw.len == b.raw_bytes && raw.len > 0))
            continue;
        int32_t *tokens = mem_alloc(e.n_tokens, sizeof *tokens);
        uint8_t *mask = mem_alloc(e.n_tokens, 1);
        if (shard_unpack(tokens, mask, s, i, &raw, 1000, &err) == FT_OK)
            for (uint32_t k = 0; k < e.n_tokens; k++)
                FT_ASSERT(tokens[k] >= 0 && tokens[k] < 1000 && mask[k] <= 1);
        mem_free(tokens);
        mem_free(mask);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t head[SHARD_HEADER_BYTES] = {0};
    struct shard s;
    char path[64];
    ft_error err;
    int fd = (int)syscall(SYS_memfd_create, "shard", 0);
    size_t n = size < sizeof head ? size : sizeof head;
    memcpy(head, data, n);
    if (n == sizeof head) {
        store_u64le(head + H_FILE_BYTES, size);
        store_u64le(head + H_HASH, hash64(head, H_HASH));
    }
    if (fd < 0 || write(fd, head, n) != (ssize_t)n ||
        write(fd, data + n, size - n) != (ssize_t)(size - n))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (shard_open(&s, path, &err) == FT_OK)
        read_samples(&s);
    shard_close(&s);
    close(fd);
    return 0;
}
