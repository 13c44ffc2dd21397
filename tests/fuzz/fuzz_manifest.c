/* SPDX-License-Identifier: Apache-2.0
 * Manifests. The checksum would stop nearly every input, so it is made right first; the input is
 * the text before it. What is accepted is written again and must read back the same. */
#include "formats/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct manifest *m)
{
    for (int s = 0; s < SPLITS; s++) {
        const struct manifest_split *split = &m->splits[s];
        uint64_t samples = 0;
        for (size_t i = 0; i < split->n_shards; i++) {
            FT_ASSERT(strchr(split->shards[i].file.name, '/') == NULL);
            samples += split->shards[i].n_samples;
        }
        FT_ASSERT(samples == split->info.n_samples && samples <= UINT32_MAX);
    }
    for (size_t f = 0; f < ROW_FATES; f++)
        for (size_t i = 0; i < m->report.fates[f].n_examples; i++)
            FT_ASSERT(m->report.fates[f].examples[i].source < m->n_sources);
}

static void check_rewrite(struct manifest *m)
{
    struct manifest again;
    ft_error err;
    const char *dir = getenv("FT_TEST_TMP") == NULL ? "/tmp" : getenv("FT_TEST_TMP");
    if (manifest_write(m, dir, &err) != FT_OK)
        abort();
    if (manifest_load(&again, dir, &err) != FT_OK)
        abort();
    FT_ASSERT(hash128_eq(again.fingerprint, m->fingerprint));
    manifest_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = {0};
    struct manifest m;
    char hex[HASH_HEX_LEN + 1];
    ft_error err;
    buf_append(&text, data, size);
    hash128_hex(hex, hash128_of(text.data, text.len));
    buf_printf(&text, "\"checksum\": \"%s\"\n}\n", hex);
    if (manifest_parse(&m, "fuzz", buf_view(&text), &err) == FT_OK) {
        check(&m);
        if (size % 16 == 0)
            check_rewrite(&m);
        manifest_free(&m);
    }
    buf_free(&text);
    return 0;
}
