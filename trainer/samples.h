/* SPDX-License-Identifier: Apache-2.0
 * The answers to sample.prompts during training, written to samples.jsonl and the log. */
#ifndef TRAINER_SAMPLES_H
#define TRAINER_SAMPLES_H

#include "formats/manifest.h"
#include "trainer/generate.h"
#include "trainer/step_log.h"
#include "trainer/train_options.h"

struct samples {
    const struct train_options *o;
    struct tok *tok;
    struct chat_template *chat;
    struct tok_ids *prompts; /* [o->sample.prompts.n] */
    struct sampler sampler;
    struct step_log log;
};

/* Loads the data set's tokenizer and encodes the prompts; does nothing when there are none. */
FT_NODISCARD ft_status samples_open(struct samples *out, const struct train_options *o,
                                    const struct manifest *data, ft_error *err);
void samples_close(struct samples *s); /* also after a failed open */

/* Positions that the longest prompt and answer take together; 0 without prompts. */
int64_t samples_context(const struct samples *s);

/* Opens samples.jsonl and keeps the answers up to keep_step. */
FT_NODISCARD ft_status samples_start(struct samples *s, const char *path, int64_t keep_step,
                                     int64_t n_vocab, ft_error *err);
/* Answers every prompt and then records the answers. *done is false when a request to stop came in
 * between; nothing is recorded then. */
FT_NODISCARD ft_status samples_answer(bool *done, struct samples *s, struct model *m,
                                      struct backend *be, int64_t step, ft_error *err);

#endif
