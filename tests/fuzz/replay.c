/* SPDX-License-Identifier: Apache-2.0
 * Runs one fuzz target over files and directories given as arguments, without libFuzzer, so that
 * the ordinary tests replay every corpus under any compiler and sanitizer. Each input is copied to
 * a block of exactly its size, so that the address sanitizer sees an over-read of one byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_inputs;

static ft_status replay_file(const char *path, ft_error *err)
{
    struct arena a = {0};
    str text;
    ft_status st = file_read_all(&text, &a, path, 64 << 20, err);
    if (st == FT_OK) {
        uint8_t *exact = malloc(text.len == 0 ? 1 : text.len);
        FT_ASSERT(exact != NULL);
        memcpy(exact, text.ptr, text.len);
        LLVMFuzzerTestOneInput(exact, text.len);
        free(exact);
        n_inputs++;
    }
    arena_destroy(&a);
    return st;
}

static ft_status replay(const char *path, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n;
    if (!path_is_dir(path))
        return replay_file(path, err);
    ft_status st = dir_list(&names, &n, &a, path, err);
    for (size_t i = 0; i < n && st == FT_OK; i++)
        st = replay(path_join(&a, path, names[i]), err);
    arena_destroy(&a);
    return st;
}

int main(int argc, char **argv)
{
    ft_error err;
    for (int i = 1; i < argc; i++)
        if (replay(argv[i], &err) != FT_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
    if (n_inputs == 0) {
        fprintf(stderr, "no inputs to replay\n");
        return 1;
    }
    printf("%zu inputs\n", n_inputs);
    return 0;
}
