/* SPDX-License-Identifier: Apache-2.0
 * A tokenizer written as a blob must load again as the same tokenizer. Aborts if not. */
#ifndef TESTS_SUPPORT_TOK_ROUND_TRIP_H
#define TESTS_SUPPORT_TOK_ROUND_TRIP_H

#include "formats/tok/tok.h"

void tok_round_trip(const struct tok *t);

#endif
