/* SPDX-License-Identifier: Apache-2.0
 * bench_tokenize TOKENIZER FILE [ROUNDS]: one thread over a text cut into documents, as a JSON line
 * for the benchmarks. A document ends at the first newline behind DOCUMENT_BYTES. All ids of a pass
 * are held. ROUNDS is how often the text is encoded after the first, cold pass. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/file.h"
#include "formats/tok/tok.h"

enum { DOCUMENT_BYTES = 2048, ROUNDS = 3 };

/* Processor time, so that a busy machine does not count. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static str next_document(str *rest)
{
    str all = *rest;
    size_t skip = FT_MIN(all.len, (size_t)DOCUMENT_BYTES);
    *rest = str_sub(all, skip, all.len);
    str tail = str_cut(rest, '\n');
    size_t n = skip + tail.len + (rest->ptr != tail.ptr + tail.len);
    return str_sub(all, 0, n);
}

/* One pass over all documents; MB/s. */
static ft_status pass(double *speed, size_t *n_tokens, struct tok_encoder *e, struct tok_ids *ids,
                      str text, ft_error *err)
{
    str rest = text;
    double started = cpu_seconds();
    ids->n = 0;
    while (rest.len > 0)
        FT_TRY(tok_encode(e, ids, next_document(&rest), TOK_SPECIALS_PARSE, err));
    *n_tokens = ids->n;
    *speed = (double)text.len / 1e6 / (cpu_seconds() - started);
    return FT_OK;
}

static ft_status blob_load_ms(double *ms, const struct tok *t, ft_error *err)
{
    struct buf blob = {0};
    struct tok *copy = NULL;
    ft_status st = tok_to_blob(&blob, t, err);
    double started = cpu_seconds();
    if (st == FT_OK)
        st = tok_from_blob(&copy, "blob", buf_view(&blob), err);
    *ms = (cpu_seconds() - started) * 1e3;
    tok_close(copy);
    buf_free(&blob);
    return st;
}

static ft_status run(const struct tok *t, double load_ms, str text, int rounds, ft_error *err)
{
    struct tok_encoder *e;
    struct tok_ids plain = {0}, offsets = {.want_offsets = true};
    double cold, warm = 0, with_offsets = 0, blob_ms, speed;
    size_t n_tokens;
    ft_status st;
    FT_TRY(blob_load_ms(&blob_ms, t, err));
    FT_TRY(tok_encoder_create(&e, t, err));
    FT_GOTO(pass(&cold, &n_tokens, e, &plain, text, err));
    for (int i = 0; i < rounds; i++) {
        FT_GOTO(pass(&speed, &n_tokens, e, &plain, text, err));
        warm = FT_MAX(warm, speed);
        FT_GOTO(pass(&speed, &n_tokens, e, &offsets, text, err));
        with_offsets = FT_MAX(with_offsets, speed);
    }
    printf("{\"tokens\":%zu,\"load_ms\":%.1f,\"blob_load_ms\":%.1f,\"cold\":%.1f,\"warm\":%.1f,"
           "\"offsets\":%.1f}\n",
           n_tokens, load_ms, blob_ms, cold, warm, with_offsets);
out:
    tok_encoder_destroy(e);
    tok_ids_free(&plain);
    tok_ids_free(&offsets);
    return st;
}

int main(int argc, char **argv)
{
    struct tok *t = NULL;
    struct arena a = {0};
    str text;
    ft_error err;
    ft_status st;
    if (argc != 3 && argc != 4)
        return 2;
    double started = cpu_seconds();
    FT_GOTO(tok_open(&t, argv[1], &err));
    double load_ms = (cpu_seconds() - started) * 1e3;
    FT_GOTO(file_read_all(&text, &a, argv[2], (size_t)1 << 32, &err));
    st = run(t, load_ms, text, argc == 4 ? atoi(argv[3]) : ROUNDS, &err);
out:
    if (st != FT_OK)
        fprintf(stderr, "bench_tokenize: error: %s\n", err.text);
    tok_close(t);
    arena_destroy(&a);
    return ft_exit_code(st);
}
