/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's models written down as simply as they are defined: every piece is compared with
 * every place, nothing is cut or remembered. For comparison with the real thing on small inputs. */
#ifndef TESTS_SUPPORT_NAIVE_SPM_H
#define TESTS_SUPPORT_NAIVE_SPM_H

#include "formats/tok/spm_file.h"
#include "formats/tok/tok.h"

/* Appends the ids of normalised text, in which U+2581 stands as U+0020 (as spm_normalized gives
 * it). The model is one that spm_create accepts. Aborts when memory is exhausted. */
void naive_spm_encode(struct tok_ids *out, const struct spm_file *f, str normalized);

#endif
