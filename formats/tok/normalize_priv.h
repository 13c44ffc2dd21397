/* SPDX-License-Identifier: Apache-2.0
 * How the steps of a normalizer write their output. */
#ifndef FORMATS_TOK_NORMALIZE_PRIV_H
#define FORMATS_TOK_NORMALIZE_PRIV_H

#include "formats/tok/normalize.h"

/* One step over one text. */
struct normalize_pass {
    const struct normalize_step *step;
    const void *compiled;
    str in;
    const uint32_t *origin; /* of each byte of `in`; NULL = its own offset */
    struct normalize_text *out;
    struct normalize_work *work;
    ft_error *err;
};

/* Appends n bytes that all come from the byte `at` of the input of the step. */
FT_NODISCARD ft_status normalize_put(struct normalize_pass *p, const void *bytes, size_t n,
                                     size_t at);
/* Appends the bytes [from, to) of the input. */
FT_NODISCARD ft_status normalize_copy(struct normalize_pass *p, size_t from, size_t to);

/* NFC, NFD, NFKC, NFKD. *changed stays false when the text has the form already. */
FT_NODISCARD ft_status normalize_form(bool *changed, struct normalize_pass *p);
FT_NODISCARD ft_status normalize_lowercase(bool *changed, struct normalize_pass *p);
FT_NODISCARD ft_status normalize_strip_accents(bool *changed, struct normalize_pass *p);

#endif
