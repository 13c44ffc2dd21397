/* SPDX-License-Identifier: Apache-2.0
 * A run file of any bytes loads or is refused; what loads is dumped, loads again and dumps alike.
 */
#define _GNU_SOURCE
#include "trainer/run_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Loads the bytes through a file that exists in memory only. */
static bool load(struct run_config *c, const void *data, size_t size)
{
    char path[64];
    ft_error err;
    int fd = memfd_create("run", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool ok = run_config_load(c, path, NULL, 0, &err) == FT_OK;
    close(fd);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_config first, second;
    struct buf a = {0}, b = {0};
    ft_error err;
    if (load(&first, data, size)) {
        if (run_config_json(&a, &first, &err) != FT_OK || !load(&second, a.data, a.len) ||
            run_config_json(&b, &second, &err) != FT_OK || !str_eq(buf_view(&a), buf_view(&b)) ||
            run_config_check_same(&first, &second, "second", &err) != FT_OK)
            abort();
        run_config_close(&second);
    }
    run_config_close(&first);
    buf_free(&a);
    buf_free(&b);
    return 0;
}
