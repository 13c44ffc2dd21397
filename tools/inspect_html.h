/* SPDX-License-Identifier: Apache-2.0
 * A data set as one page for a browser: no scripts, nothing loaded from elsewhere. Head, any number
 * of samples, tail. */
#ifndef TOOLS_INSPECT_HTML_H
#define TOOLS_INSPECT_HTML_H

#include "common/buf.h"
#include "formats/dataset.h"
#include "formats/tok/tok.h"

/* Everything before the samples: what the data set is, what became of the rows, lengths, sources,
 * padding in batches of `batch`. dir is where d was opened. */
FT_NODISCARD ft_status inspect_html_head(struct buf *out, const struct dataset *d, const char *dir,
                                         uint64_t batch, ft_error *err);

struct inspect_sample {
    enum dataset_split split;
    uint64_t number;
    struct sample_info info;
    const char *source;
    const int32_t *tokens;
    const uint8_t *mask; /* both [info.n_tokens] */
};

void inspect_html_sample(struct buf *out, const struct inspect_sample *s, const struct tok *tok);
void inspect_html_tail(struct buf *out, uint64_t n_shown, uint64_t n_samples);

#endif
