/* SPDX-License-Identifier: Apache-2.0
 * libftok: exact tokenizers for C programs, in the manner of tiktoken. Load a tokenizer once, use
 * it from any number of threads. This header stands alone and is the only one that is installed;
 * link with `pkg-config --cflags --libs ftok`.
 *
 * Text is UTF-8 given as pointer and length, may contain NUL and is at most 4 GiB. Ids are exactly
 * those of the library the file was made for: Hugging Face tokenizers for tokenizer.json,
 * SentencePiece for .model, tiktoken for rank files. Nothing is ever added around a text.
 *
 * Functions that can fail return an ftok_status and, when err is not NULL, leave one line of
 * explanation there. Outputs are unchanged on failure. */
#ifndef FTOK_H
#define FTOK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FTOK_API __attribute__((visibility("default")))
#else
#define FTOK_API
#endif

/* Raised when a function is added; the soname changes when one changes its meaning. */
#define FTOK_API_VERSION 1

typedef enum ftok_status {
    FTOK_OK = 0,
    FTOK_EIO,      /* a file cannot be read */
    FTOK_EFORMAT,  /* a file breaks its format or uses a component that is not reproduced exactly */
    FTOK_EUTF8,    /* the text is not valid UTF-8 */
    FTOK_ESPECIAL, /* the text holds a special token that is not allowed */
    FTOK_ELIMIT,   /* a documented maximum is exceeded */
    FTOK_EMEM,     /* out of memory */
    FTOK_EARG      /* a name that is no special token of this tokenizer */
} ftok_status;

typedef struct ftok_error {
    ftok_status status;
    char text[1024]; /* one line, ends in NUL, no newline */
} ftok_error;

typedef struct ftok ftok; /* a loaded tokenizer */

/* The version of the library, as "0.1.0". */
FTOK_API const char *ftok_version(void);

/* Opens a tokenizer.json, a SentencePiece .model, a tiktoken rank file, a tekken.json, a GGUF
 * file, or a directory that holds one of them. */
FTOK_API ftok_status ftok_open(ftok **out, const char *path, ftok_error *err);
/* No other call on t may be running. NULL is fine. */
FTOK_API void ftok_close(ftok *t);

FTOK_API int32_t ftok_n_vocab(const ftok *t); /* every id is below it */
FTOK_API int32_t ftok_bos(const ftok *t);     /* -1 = none */
FTOK_API int32_t ftok_eos(const ftok *t);     /* -1 = none */
/* Id of a special token by its text, e.g. "<|im_end|>"; -1 when there is none. */
FTOK_API int32_t ftok_special_id(const ftok *t, const char *text);
FTOK_API int ftok_is_special(const ftok *t, int32_t id); /* 0 for ids out of range, too */
/* The bytes one id stands for, owned by t, not ended by NUL; NULL for ids that do not exist. */
FTOK_API const char *ftok_token_bytes(const ftok *t, int32_t id, size_t *bytes);

/* --- text to ids ----------------------------------------------------------------------------- */

/* Zeroed = empty. Every encoding replaces its content; reuse it to keep its memory. */
typedef struct ftok_tokens {
    int32_t *ids;      /* [n] */
    uint32_t *offsets; /* [n] byte of the text at which each token starts; NULL unless
                          want_offsets was set */
    size_t n;
    size_t capacity;
    int want_offsets;
} ftok_tokens;
FTOK_API void ftok_tokens_free(ftok_tokens *tokens);

/* All of the text is ordinary text: the name of a special token is encoded letter by letter. Right
 * for text from users. */
FTOK_API ftok_status ftok_encode_ordinary(const ftok *t, ftok_tokens *out, const char *text,
                                          size_t bytes, ftok_error *err);

/* Special tokens that stand in the text become their ids when they are among allowed[0..n_allowed);
 * FTOK_ALL as n_allowed allows all. Any other special token in the text is an error
 * (FTOK_ESPECIAL), so that nothing is mistaken in silence. */
#define FTOK_ALL SIZE_MAX
FTOK_API ftok_status ftok_encode(const ftok *t, ftok_tokens *out, const char *text, size_t bytes,
                                 const char *const *allowed, size_t n_allowed, ftok_error *err);

/* How many ids ftok_encode_ordinary gives. */
FTOK_API ftok_status ftok_count(const ftok *t, size_t *n, const char *text, size_t bytes,
                                ftok_error *err);

/* --- ids to text ----------------------------------------------------------------------------- */

enum { FTOK_SKIP_SPECIALS = 1 }; /* flags of decoding */

/* The text of the ids as a new block that ends in NUL (not counted in *bytes); release it with
 * ftok_free. Ids that do not exist give nothing. The result need not be valid UTF-8 when ids were
 * cut in the middle of a character. */
FTOK_API ftok_status ftok_decode(const ftok *t, char **out, size_t *bytes, const int32_t *ids,
                                 size_t n, unsigned flags, ftok_error *err);
FTOK_API void ftok_free(void *block);

/* Decoding id by id, as a model gives them: only whole characters come out, the rest waits. What
 * comes out in all is the text ftok_decode gives, with U+FFFD for bytes that are no UTF-8. */
typedef struct ftok_stream ftok_stream;
FTOK_API ftok_status ftok_stream_create(ftok_stream **out, const ftok *t, unsigned flags,
                                        ftok_error *err);
FTOK_API void ftok_stream_destroy(ftok_stream *s); /* NULL is fine */
/* *text, owned by s, ended by NUL and valid until the next call, is what the id completes; often
 * nothing. */
FTOK_API ftok_status ftok_stream_push(ftok_stream *s, int32_t id, const char **text, size_t *bytes,
                                      ftok_error *err);
/* What still waits, when no more ids come. The stream is empty then and can be used again. */
FTOK_API ftok_status ftok_stream_finish(ftok_stream *s, const char **text, size_t *bytes,
                                        ftok_error *err);

#ifdef __cplusplus
}
#endif
#endif
