/* SPDX-License-Identifier: Apache-2.0
 * Allocation wrappers and the process's memory figures. */
#include "common/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault.h"

void *mem_alloc(size_t count, size_t size)
{
    if (fault_hit(FAULT_ALLOC))
        return NULL;
    if (count == 0 || size == 0)
        count = size = 1;
    return calloc(count, size);
}

ft_status mem_new(void *out, size_t count, size_t size, const char *what, ft_error *err)
{
    void *p = mem_alloc(count, size);
    memcpy(out, &p, sizeof p);
    if (p != NULL)
        return FT_OK;
    size_t bytes;
    if (!size_mul(count, size, &bytes))
        return ft_fail(err, FT_ELIMIT, "%s: %zu entries of %zu bytes overflow the address space",
                       what, count, size);
    return ft_fail_memory(err, bytes, what);
}

void *mem_alloc_aligned(size_t bytes)
{
    if (fault_hit(FAULT_ALLOC) || bytes > SIZE_MAX - 64)
        return NULL;
    return aligned_alloc(64, size_align(bytes == 0 ? 1 : bytes, 64));
}

void *mem_realloc(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (fault_hit(FAULT_ALLOC) || !size_mul(count, size, &bytes))
        return NULL;
    return realloc(p, bytes == 0 ? 1 : bytes);
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = mem_alloc(n, 1);
    if (copy != NULL)
        memcpy(copy, s, n);
    return copy;
}

void mem_free(void *p)
{
    free(p);
}

/* First unsigned number after `key` in a /proc or cgroup text file; false when absent. */
static bool read_number(const char *path, const char *key, uint64_t *out)
{
    char line[256];
    FILE *f = fopen(path, "r");
    bool found = false;
    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        size_t n = strlen(key);
        found = strncmp(line, key, n) == 0 && sscanf(line + n, "%" SCNu64, out) == 1;
    }
    fclose(f);
    return found;
}

uint64_t mem_available(void)
{
    uint64_t kib, limit, used;
    uint64_t available = read_number("/proc/meminfo", "MemAvailable:", &kib) ? kib * 1024 : 0;
    if (read_number("/sys/fs/cgroup/memory.max", "", &limit) &&
        read_number("/sys/fs/cgroup/memory.current", "", &used)) {
        uint64_t room = limit > used ? limit - used : 0;
        available = available == 0 ? room : FT_MIN(available, room);
    }
    return available;
}

uint64_t mem_peak_rss(void)
{
    uint64_t kib;
    return read_number("/proc/self/status", "VmHWM:", &kib) ? kib * 1024 : 0;
}
