/* SPDX-License-Identifier: Apache-2.0
 * Stored pack plans. The header's checksum is made right, so that the sizes behind it are reached.
 */
#include "formats/packs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct packs *p)
{
    for (uint32_t b = 0; b < p->n_bins; b++) {
        size_t n;
        const uint32_t *bin = p->parts == NULL ? packs_bin(p, b, &n) : NULL;
        const struct pack_part *parts = p->parts != NULL ? packs_bin_parts(p, b, &n) : NULL;
        FT_ASSERT((bin == NULL && parts == NULL) == (n == 0));
        for (size_t i = 0; i < n; i++)
            FT_ASSERT((bin != NULL ? bin[i] : parts[i].sample) < p->n_samples);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t head[PACKS_PLAN_BYTES] = {0};
    struct packs p;
    char path[64];
    ft_error err;
    int fd = (int)syscall(SYS_memfd_create, "packs", 0);
    size_t n = size < sizeof head ? size : sizeof head;
    memcpy(head, data, n);
    if (n == sizeof head && head[8] == PACKS_PLAN_VERSION)
        store_u64le(head + 120, hash64(head, 120));
    else if (n >= PACKS_HEADER_BYTES)
        store_u64le(head + 56, hash64(head, 56));
    if (fd < 0 || write(fd, head, n) != (ssize_t)n ||
        write(fd, data + n, size - n) != (ssize_t)(size - n))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (packs_open(&p, path, &err) == FT_OK)
        check(&p);
    packs_close(&p);
    close(fd);
    return 0;
}
