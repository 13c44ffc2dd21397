/* SPDX-License-Identifier: Apache-2.0
 * plan.json. The checksum would stop nearly every input, so it is made right first; the input is
 * the text before it. What is accepted is written again and must read back the same. */
#include "formats/plan.h"

#include <stdlib.h>

#include "common/buf.h"
#include "common/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct plan *p)
{
    size_t next = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        FT_ASSERT(p->parts[i].first_piece == next && p->parts[i].n_pieces > 0);
        next += p->parts[i].n_pieces;
    }
    FT_ASSERT(next == p->n_pieces);
    for (size_t i = 0; i < p->n_pieces; i++) {
        const struct jsonl_piece *piece = &p->pieces[i].piece;
        FT_ASSERT(p->pieces[i].source < p->manifest.n_sources && piece->from <= piece->to);
        FT_ASSERT((piece->from == 0) == (piece->form == JSONL_UNKNOWN));
    }
    for (size_t i = 0; i < p->manifest.n_sources; i++)
        FT_ASSERT(p->manifest.sources[i].group < p->manifest.n_groups);
}

static void check_rewrite(struct plan *p)
{
    struct plan again;
    ft_error err;
    const char *dir = getenv("FT_TEST_TMP") == NULL ? "/tmp" : getenv("FT_TEST_TMP");
    if (plan_write(p, dir, &err) != FT_OK || plan_load(&again, dir, &err) != FT_OK)
        abort();
    FT_ASSERT(hash128_eq(again.manifest.fingerprint, p->manifest.fingerprint));
    FT_ASSERT(again.n_pieces == p->n_pieces && again.n_parts == p->n_parts);
    plan_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = {0};
    struct plan p;
    char hex[HASH_HEX_LEN + 1];
    ft_error err;
    buf_append(&text, data, size);
    hash128_hex(hex, hash128_of(text.data, text.len));
    buf_printf(&text, "\"checksum\": \"%s\"\n}\n", hex);
    if (plan_parse(&p, "fuzz", buf_view(&text), &err) == FT_OK) {
        check(&p);
        if (size % 16 == 0)
            check_rewrite(&p);
        plan_free(&p);
    }
    buf_free(&text);
    return 0;
}
