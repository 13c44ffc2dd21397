/* SPDX-License-Identifier: Apache-2.0
 * Regular expressions of tokenizer files that have no scanner of their own. Oniguruma runs them,
 * the engine Hugging Face tokenizers uses; the classes of characters come from our tables, since
 * the library on a machine may follow another version of Unicode than the reference does. A
 * construct whose meaning would depend on the library's own tables is refused by name. */
#ifndef FORMATS_TOK_REGEX_H
#define FORMATS_TOK_REGEX_H

#include "common/error.h"
#include "common/str.h"

enum regex_dialect {
    REGEX_ONIGURUMA, /* as Hugging Face tokenizers reads a pattern: Ruby's syntax */
    REGEX_FANCY,     /* as tiktoken reads it */
};

struct regex; /* immutable, shared by threads */

/* FT_EFORMAT naming the construct and its place in the pattern. */
FT_NODISCARD ft_status regex_create(struct regex **out, str pattern, enum regex_dialect dialect,
                                    ft_error *err);
void regex_destroy(struct regex *r); /* NULL is fine */

/* One match after the other, as the references find them: the next search starts at the end of a
 * match; an empty match there does not count. */
struct regex_search {
    const struct regex *regex;
    str text;
    size_t at;       /* where the search goes on; starts at 0 */
    size_t last_end; /* of the last match */
    bool matched;    /* there was one */
};
/* Start and end of the next match; *found is false at the end. FT_ELIMIT when the pattern needs too
 * much time on this text. */
FT_NODISCARD ft_status regex_next(size_t *start, size_t *end, bool *found, struct regex_search *s,
                                  ft_error *err);

#endif
