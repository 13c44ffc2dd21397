/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint directory of which one file holds any bytes. The first byte of the input chooses the
 * file: s = state.json, o = optimizer.bin, anything else = COMMIT. */
#include "formats/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/fuzz_checkpoint_XXXXXX";

static void put_file(const char *name, const void *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static void remove_files(void)
{
    static const char *const names[] = {"state.json", "optimizer.bin", "COMMIT"};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    struct checkpoint_state state;
    float m[3], v[3];
    ft_error err;
    if (!ready) {
        if (mkdtemp(dir) == NULL)
            abort();
        atexit(remove_files);
        ready = true;
    }
    if (size == 0)
        return 0;
    put_file(data[0] == 's'   ? "state.json"
             : data[0] == 'o' ? "optimizer.bin"
                              : "COMMIT",
             data + 1, size - 1);
    (void)!checkpoint_verify(dir, &err);
    if (checkpoint_read_state(&state, dir, &err) == FT_OK && state.updates > state.step)
        abort();
    (void)!checkpoint_read_moments(m, v, 3, dir, &err);
    return 0;
}
