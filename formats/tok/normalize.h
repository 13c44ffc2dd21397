/* SPDX-License-Identifier: Apache-2.0
 * Normalizers: what is done to a piece of text before it is cut, as a list of steps. */
#ifndef FORMATS_TOK_NORMALIZE_H
#define FORMATS_TOK_NORMALIZE_H

#include "common/arena.h"
#include "common/error.h"

enum normalize_kind {
    NORMALIZE_PREPEND, /* content in front of text that is not empty */
    NORMALIZE_REPLACE, /* each occurrence of the text `pattern` by content */
    NORMALIZE_REGEX,   /* each match of the regular expression `pattern` by content */
    NORMALIZE_STRIP,   /* white space at the ends: flags */
    NORMALIZE_NFC,     /* the forms of Unicode 9, as Hugging Face has them */
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP_ACCENTS, /* combining marks vanish */
    NORMALIZE_PRECOMPILED, /* the character map `content` of SentencePiece, as Hugging Face applies
                              it */
    NORMALIZE_KINDS,
};

enum { NORMALIZE_LEFT = 1, NORMALIZE_RIGHT = 2 };

/* The kinds are numbers in blobs: new ones go to the end. */
struct normalize_step {
    enum normalize_kind kind;
    unsigned flags;
    str pattern, content;
};

/* Steps with what is compiled from them. */
struct normalizer {
    const struct normalize_step *steps; /* [n] borrowed */
    size_t n;
    void **compiled; /* [n] */
};

/* FT_EFORMAT when a step does not make sense or is not supported. The steps and their strings stay
 * borrowed. */
FT_NODISCARD ft_status normalizer_init(struct normalizer *out, const struct normalize_step *steps,
                                       size_t n, ft_error *err);
void normalizer_destroy(struct normalizer *n);

/* A text and where each of its bytes comes from. */
struct normalize_text {
    uint8_t *bytes;
    uint32_t *origin; /* offset in the input; NULL when nobody asked */
    size_t n, cap;
    bool want_origin;
};

/* Memory of one thread. Zeroed = empty; reusable. */
struct normalize_work {
    struct normalize_text texts[2];
    void *characters;
    size_t characters_cap;
};
void normalize_work_free(struct normalize_work *w);

/* What text (valid UTF-8, under 4 GiB) becomes. *out is NULL when nothing changes, else valid until
 * the next call with the same work. FT_ELIMIT when it grows beyond 4 GiB. */
FT_NODISCARD ft_status normalize(const struct normalize_text **out, struct normalize_work *w,
                                 const struct normalizer *n, str text, bool want_origin,
                                 ft_error *err);

#endif
