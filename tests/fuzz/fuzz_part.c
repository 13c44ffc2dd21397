/* SPDX-License-Identifier: Apache-2.0
 * Descriptions of parts, before their checksum, which is made right first. What is accepted adds
 * up, and is written again and reads back the same. */
#include "formats/part.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_SOURCES = 3 };

static void check(const struct part *p)
{
    uint64_t samples = 0;
    for (int s = 0; s < SPLITS; s++) {
        const struct part_split *split = &p->splits[s];
        FT_ASSERT((split->file.name == NULL) == (split->counts.n_samples == 0));
        FT_ASSERT(split->file.name == NULL || strchr(split->file.name, '/') == NULL);
        samples += split->counts.n_samples;
    }
    FT_ASSERT(p->rows.bytes == samples * PART_ROW_BYTES);
    for (int f = 0; f < ROW_FATES; f++)
        for (size_t i = 0; i < p->report.fates[f].n_examples; i++)
            FT_ASSERT(p->report.fates[f].examples[i].source < N_SOURCES);
}

static void check_rewrite(const struct part *p)
{
    struct part again;
    ft_error err;
    const char *dir = getenv("FT_TEST_TMP") == NULL ? "/tmp" : getenv("FT_TEST_TMP");
    if (part_write(p, dir, &err) != FT_OK ||
        part_load(&again, dir, p->key, N_SOURCES, &err) != FT_OK)
        abort();
    FT_ASSERT(report_tokens(&again.report) == report_tokens(&p->report));
    part_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = {0};
    struct part p;
    char hex[HASH_HEX_LEN + 1];
    ft_error err;
    buf_append(&text, data, size);
    hash128_hex(hex, hash128_of(text.data, text.len));
    buf_printf(&text, "\"checksum\": \"%s\"\n}\n", hex);
    if (part_parse(&p, "fuzz", buf_view(&text), N_SOURCES, &err) == FT_OK) {
        check(&p);
        /* One name, so that fuzzing does not fill the disk. */
        memset(&p.key, 0, sizeof p.key);
        if (size % 16 == 0)
            check_rewrite(&p);
        part_free(&p);
    }
    buf_free(&text);
    return 0;
}
