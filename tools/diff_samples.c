/* SPDX-License-Identifier: Apache-2.0
 * The samples of a source are one range in each part, in the order of its rows. A cursor joins the
 * ranges of the two parts, and two cursors are merged by row. */
#include "tools/diff_samples.h"

#include <string.h>

#include "common/mem.h"
#include "formats/manifest.h"
#include "tools/stop.h"
#include "tools/visible.h"

/* --- sources --------------------------------------------------------------------------------- */

static uint32_t find_source(const struct manifest *b, const bool *matched,
                            const struct manifest_source *s, bool by_content)
{
    for (uint32_t i = 0; i < b->n_sources; i++) {
        const struct manifest_source *other = &b->sources[i];
        if (!matched[i] && (by_content ? hash128_eq(other->hash, s->hash) && s->bytes > 0
                                       : strcmp(other->path, s->path) == 0))
            return i;
    }
    return NO_SOURCE;
}

ft_status diff_match_sources(uint32_t **b_of_a, bool **b_matched, const struct dataset *a,
                             const struct dataset *b, ft_error *err)
{
    const struct manifest *ma = dataset_manifest(a), *mb = dataset_manifest(b);
    *b_matched = NULL;
    FT_TRY(mem_new(b_of_a, ma->n_sources, sizeof **b_of_a, "the list of sources", err));
    FT_TRY(mem_new(b_matched, mb->n_sources, sizeof **b_matched, "the list of sources", err));
    for (uint32_t i = 0; i < ma->n_sources; i++)
        (*b_of_a)[i] = NO_SOURCE;
    for (int by_content = 0; by_content < 2; by_content++) /* names first */
        for (uint32_t i = 0; i < ma->n_sources; i++) {
            if ((*b_of_a)[i] != NO_SOURCE)
                continue;
            uint32_t k = find_source(mb, *b_matched, &ma->sources[i], by_content != 0);
            (*b_of_a)[i] = k;
            if (k != NO_SOURCE)
                (*b_matched)[k] = true;
        }
    return FT_OK;
}

/* --- samples of one source in the order of rows ---------------------------------------------- */

struct cursor {
    const struct diff_side *side;
    struct dataset_reader *reader;
    uint64_t at[SPLITS], end[SPLITS];
    /* the sample it stands on */
    bool done;
    enum dataset_split split;
    struct sample_info info;
    /* its content, once it was read */
    int32_t *tokens;
    uint8_t *mask; /* both [longest] */
    struct buf text;
};

/* First sample of a split whose source is not below `source`. */
static uint64_t lower_bound(const struct dataset *d, enum dataset_split s, uint64_t source)
{
    uint64_t low = 0, high = dataset_split(d, s)->n_samples;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (dataset_sample_info(d, s, middle).source < source)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Moves to the sample with the lowest row, training part first. */
static void settle(struct cursor *c)
{
    c->done = true;
    for (enum dataset_split s = 0; s < SPLITS; s++) {
        if (c->at[s] == c->end[s])
            continue;
        struct sample_info e = dataset_sample_info(c->side->data, s, c->at[s]);
        if (c->done || e.row < c->info.row) {
            c->split = s;
            c->info = e;
        }
        c->done = false;
    }
}

static void start(struct cursor *c, uint32_t source)
{
    for (enum dataset_split s = 0; s < SPLITS; s++) {
        c->at[s] = source == NO_SOURCE ? 0 : lower_bound(c->side->data, s, source);
        c->end[s] = source == NO_SOURCE ? 0 : lower_bound(c->side->data, s, (uint64_t)source + 1);
    }
    settle(c);
}

static void advance(struct cursor *c)
{
    c->at[c->split]++;
    settle(c);
}

static ft_status cursor_open(struct cursor *c, const struct diff_side *side, ft_error *err)
{
    uint32_t longest = FT_MAX(dataset_split(side->data, SPLIT_TRAIN)->longest,
                              dataset_split(side->data, SPLIT_EVAL)->longest);
    c->side = side;
    FT_TRY(mem_new(&c->tokens, longest, sizeof *c->tokens, "a sample", err));
    FT_TRY(mem_new(&c->mask, longest, sizeof *c->mask, "a sample", err));
    return dataset_reader_create(&c->reader, side->data, err);
}

static void cursor_close(struct cursor *c)
{
    dataset_reader_destroy(c->reader);
    mem_free(c->tokens);
    mem_free(c->mask);
    buf_free(&c->text);
}

static ft_status read_sample(struct cursor *c, ft_error *err)
{
    return dataset_read(c->reader, c->split, c->at[c->split], c->tokens, c->mask, err);
}

/* The text of the sample that was read, with trained parts in brackets. */
static ft_status render(struct cursor *c, ft_error *err)
{
    struct buf piece = {0};
    buf_clear(&c->text);
    for (uint32_t i = 0, n = c->info.n_tokens; i < n;) {
        uint32_t from = i;
        while (i < n && (c->mask[i] != 0) == (c->mask[from] != 0))
            i++;
        bool trained = c->mask[from] != 0;
        buf_clear(&piece);
        tok_decode(c->side->tok, &piece, c->tokens + from, i - from, false);
        buf_cstr(&c->text, trained ? "\u27E6" : "");
        visible_text(&c->text, buf_view(&piece));
        buf_cstr(&c->text, trained ? "\u27E7" : "");
        c->text.failed |= piece.failed;
    }
    buf_free(&piece);
    return buf_status(&c->text, "the text of a sample", err);
}

/* --- comparing ------------------------------------------------------------------------------- */

struct differ {
    struct diff_samples *d;
    struct cursor a, b;
    bool same_tokenizer;
    const char *path;
};

/* Both samples have been read; their texts are rendered when they are compared by them. */
static ft_status compare(bool *same, struct differ *f, ft_error *err)
{
    struct cursor *a = &f->a, *b = &f->b;
    FT_TRY(read_sample(a, err));
    FT_TRY(read_sample(b, err));
    if (f->same_tokenizer) {
        size_t n = a->info.n_tokens;
        *same = n == b->info.n_tokens && memcmp(a->tokens, b->tokens, n * sizeof *a->tokens) == 0 &&
                memcmp(a->mask, b->mask, n) == 0;
        return FT_OK;
    }
    FT_TRY(render(a, err));
    FT_TRY(render(b, err));
    *same = str_eq(buf_view(&a->text), buf_view(&b->text));
    return FT_OK;
}

static bool has_a(enum diff_kind kind)
{
    return kind != DIFF_ONLY_B;
}

static bool has_b(enum diff_kind kind)
{
    return kind != DIFF_ONLY_A;
}

static ft_status report(struct differ *f, enum diff_kind kind, ft_error *err)
{
    struct diff_samples *d = f->d;
    const struct cursor *at = has_a(kind) ? &f->a : &f->b;
    if (kind == DIFF_SAME || d->counts[kind]++ >= d->max_examples) {
        d->counts[DIFF_SAME] += kind == DIFF_SAME;
        return FT_OK;
    }
    struct diff_example e = {.kind = kind,
                             .path = f->path,
                             .row = at->info.row,
                             .a_split = f->a.split,
                             .b_split = f->b.split};
    if (has_a(kind)) {
        FT_TRY(read_sample(&f->a, err));
        FT_TRY(render(&f->a, err));
        e.a = buf_view(&f->a.text);
    }
    if (has_b(kind)) {
        FT_TRY(read_sample(&f->b, err));
        FT_TRY(render(&f->b, err));
        e.b = buf_view(&f->b.text);
    }
    return d->example(d->ctx, &e, err);
}

/* Samples of the same row meet in their order; what one side has more of is only there. */
static ft_status step(struct differ *f, ft_error *err)
{
    struct cursor *a = &f->a, *b = &f->b;
    bool same;
    FT_TRY(stop_check_flag(f->d->stop, err));
    if (b->done || (!a->done && a->info.row < b->info.row)) {
        FT_TRY(report(f, DIFF_ONLY_A, err));
        advance(a);
        return FT_OK;
    }
    if (a->done || b->info.row < a->info.row) {
        FT_TRY(report(f, DIFF_ONLY_B, err));
        advance(b);
        return FT_OK;
    }
    FT_TRY(compare(&same, f, err));
    FT_TRY(report(f, !same ? DIFF_CHANGED : a->split != b->split ? DIFF_MOVED : DIFF_SAME, err));
    advance(a);
    advance(b);
    return FT_OK;
}

static ft_status diff_source(struct differ *f, uint32_t source_a, uint32_t source_b, ft_error *err)
{
    f->path = source_a != NO_SOURCE ? dataset_source_path(f->a.side->data, source_a)
                                    : dataset_source_path(f->b.side->data, source_b);
    start(&f->a, source_a);
    start(&f->b, source_b);
    while (!f->a.done || !f->b.done)
        FT_TRY(step(f, err));
    return FT_OK;
}

static ft_status diff_sources(struct differ *f, const uint32_t *b_of_a, const bool *b_matched,
                              ft_error *err)
{
    for (uint32_t i = 0; i < dataset_manifest(f->d->a.data)->n_sources; i++)
        FT_TRY(diff_source(f, i, b_of_a[i], err));
    for (uint32_t i = 0; i < dataset_manifest(f->d->b.data)->n_sources; i++)
        if (!b_matched[i])
            FT_TRY(diff_source(f, NO_SOURCE, i, err));
    return FT_OK;
}

ft_status diff_samples(struct diff_samples *d, ft_error *err)
{
    struct differ f = {.d = d};
    uint32_t *b_of_a = NULL;
    bool *b_matched = NULL;
    ft_status st;
    f.same_tokenizer = hash128_eq(dataset_tokenizer_fingerprint(d->a.data),
                                  dataset_tokenizer_fingerprint(d->b.data));
    FT_GOTO(cursor_open(&f.a, &d->a, err));
    FT_GOTO(cursor_open(&f.b, &d->b, err));
    FT_GOTO(diff_match_sources(&b_of_a, &b_matched, d->a.data, d->b.data, err));
    FT_GOTO(diff_sources(&f, b_of_a, b_matched, err));
out:
    cursor_close(&f.a);
    cursor_close(&f.b);
    mem_free(b_of_a);
    mem_free(b_matched);
    return st;
}
