/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/naive_spm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/half.h"

struct symbol {
    size_t from, to;
    bool frozen;
};

struct naive {
    const struct spm_file *f;
    str *texts; /* of pieces that text can become, else empty */
    int32_t unk;
    str text;
    struct tok_ids *out;
    bool after_unk;
};

static void *must(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

static size_t char_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static str text_of(struct arena *a, const struct spm_file *f, const struct spm_piece *p)
{
    bool escape = f->normalizer.escape_whitespaces;
    bool nul = p->text.len == 1 && p->text.ptr[0] == '\0';
    char *dst = must(arena_alloc(a, p->text.len, 1));
    size_t n = 0;
    if (p->type == SPM_UNKNOWN || p->type == SPM_CONTROL || p->type == SPM_BYTE || nul ||
        (escape && memchr(p->text.ptr, ' ', p->text.len) != NULL))
        return (str){"", 0};
    for (size_t i = 0; i < p->text.len;) {
        bool mark =
            escape && i + 3 <= p->text.len && memcmp(p->text.ptr + i, "\xE2\x96\x81", 3) == 0;
        dst[n++] = mark ? ' ' : p->text.ptr[i];
        i += mark ? 3 : 1;
    }
    return (str){dst, n};
}

static int32_t find(const struct naive *n, size_t from, size_t to)
{
    for (size_t id = 0; id < n->f->n_pieces; id++)
        if (n->texts[id].len > 0 && str_eq(n->texts[id], str_sub(n->text, from, to)))
            return (int32_t)id;
    return -1;
}

/* --- output -------------------------------------------------------------------------------------
 */

static void put(struct naive *n, int32_t id)
{
    ft_error err;
    if (tok_ids_put(n->out, id, 0, &err) != FT_OK)
        abort();
}

static void put_byte(struct naive *n, uint8_t byte)
{
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    for (size_t id = 0; id < n->f->n_pieces; id++)
        if (n->f->pieces[id].type == SPM_BYTE && str_is(n->f->pieces[id].text, name))
            put(n, (int32_t)id);
}

static void put_unknown(struct naive *n, size_t from, size_t to)
{
    for (size_t i = from; i < to && n->f->byte_fallback; i++) {
        bool mark = n->text.ptr[i] == ' ' && n->f->normalizer.escape_whitespaces;
        str bytes = mark ? STR("\xE2\x96\x81") : str_sub(n->text, i, i + 1);
        for (size_t k = 0; k < bytes.len; k++)
            put_byte(n, (uint8_t)bytes.ptr[k]);
    }
    if (n->f->byte_fallback)
        return;
    if (!n->after_unk)
        put(n, n->unk);
    n->after_unk = true;
}

static void put_known(struct naive *n, int32_t id)
{
    put(n, id);
    n->after_unk = false;
}

/* --- BPE ----------------------------------------------------------------------------------------
 */

static size_t user_symbol(const struct naive *n, size_t at)
{
    size_t longest = 0;
    for (size_t id = 0; id < n->f->n_pieces; id++)
        if (n->f->pieces[id].type == SPM_USER_DEFINED && n->texts[id].len > longest &&
            str_starts(str_sub(n->text, at, n->text.len), n->texts[id]))
            longest = n->texts[id].len;
    return longest;
}

/* Higher scores first; as integers, so that -0 is below +0. */
static bool higher(float a, float b)
{
    int32_t x = (int32_t)f32_to_bits(a), y = (int32_t)f32_to_bits(b);
    return x < 0 && y < 0 ? x < y : x > y;
}

/* The left one of the pair that merges next, or `count`. */
static size_t best_pair(const struct naive *n, const struct symbol *s, size_t count)
{
    size_t best = count;
    float score = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        int32_t id = s[i].frozen || s[i + 1].frozen ? -1 : find(n, s[i].from, s[i + 1].to);
        if (id < 0 || (best < count && !higher(n->f->pieces[id].score, score)))
            continue;
        best = i;
        score = n->f->pieces[id].score;
    }
    return best;
}

/* The one way to put an unused piece together of two that text can become. */
static size_t find_split(const struct naive *n, size_t from, size_t to)
{
    for (size_t at = from + char_bytes((uint8_t)n->text.ptr[from]); at < to;
         at += char_bytes((uint8_t)n->text.ptr[at])) {
        bool left = at - from == char_bytes((uint8_t)n->text.ptr[from]) || find(n, from, at) >= 0;
        bool right = to - at == char_bytes((uint8_t)n->text.ptr[at]) || find(n, at, to) >= 0;
        if (left && right)
            return at;
    }
    return to;
}

static void put_symbol(struct naive *n, size_t from, size_t to)
{
    int32_t id = find(n, from, to);
    if (id >= 0 && n->f->pieces[id].type != SPM_UNUSED) {
        put_known(n, id);
        return;
    }
    size_t at = id < 0 ? to : find_split(n, from, to);
    if (at == to) {
        put_unknown(n, from, to);
        return;
    }
    put_symbol(n, from, at);
    put_symbol(n, at, to);
}

static void encode_bpe(struct naive *n)
{
    struct symbol *s = must(calloc(n->text.len + 1, sizeof *s));
    size_t count = 0;
    for (size_t at = 0; at < n->text.len; at = s[count++].to) {
        size_t user = user_symbol(n, at);
        s[count] = (struct symbol){
            at, at + (user > 0 ? user : char_bytes((uint8_t)n->text.ptr[at])), user > 0};
    }
    while (n->f->model_type == SPM_BPE) {
        size_t i = best_pair(n, s, count);
        if (i == count)
            break;
        s[i].to = s[i + 1].to;
        memmove(&s[i + 1], &s[i + 2], (count - i - 2) * sizeof *s);
        count--;
    }
    for (size_t i = 0; i < count; i++)
        put_symbol(n, s[i].from, s[i].to);
    free(s);
}

/* --- unigram ------------------------------------------------------------------------------------
 */

struct place {
    float score;
    int32_t id;
    size_t start;
    bool reached;
};

static void offer(struct place *p, float score, int32_t id, size_t start)
{
    if (!p->reached || score > p->score)
        *p = (struct place){score, id, start, true};
}

static float lowest_score(const struct spm_file *f)
{
    float lowest = 0x1.fffffep+127f;
    for (size_t id = 0; id < f->n_pieces; id++)
        if (f->pieces[id].type == SPM_NORMAL && f->pieces[id].score < lowest)
            lowest = f->pieces[id].score;
    return lowest;
}

/* Shorter pieces first, as a trie finds them. */
static void offer_pieces(const struct naive *n, struct place *places, size_t at, float unk_score)
{
    size_t one = char_bytes((uint8_t)n->text.ptr[at]);
    bool has_char = false;
    for (size_t len = 1; at + len <= n->text.len; len++) {
        int32_t id = find(n, at, at + len);
        if (id < 0 || n->f->pieces[id].type == SPM_UNUSED)
            continue;
        const struct spm_piece *p = &n->f->pieces[id];
        float score =
            p->type == SPM_USER_DEFINED ? (float)(0.1 * ((double)p->text.len - 1)) : p->score;
        offer(&places[at + len], score + places[at].score, id, at);
        has_char |= len == one;
    }
    if (!has_char)
        offer(&places[at + one], unk_score + places[at].score, -1, at);
}

static void encode_unigram(struct naive *n)
{
    size_t len = n->text.len;
    struct place *places = must(calloc(len + 1, sizeof *places));
    size_t *starts = must(calloc(len + 1, sizeof *starts)), count = 0;
    float unk_score = lowest_score(n->f) - 10.0f;
    for (size_t at = 0; at < len; at += char_bytes((uint8_t)n->text.ptr[at])) {
        float sum = places[at].score;
        if (sum < -100000.0f || sum > 100000.0f)
            for (size_t i = at; i <= len; i++)
                if (i == at || places[i].reached)
                    places[i].score -= sum;
        offer_pieces(n, places, at, unk_score);
    }
    for (size_t end = len; end > 0; end = places[end].start)
        starts[count++] = end;
    for (; count > 0; count--) {
        const struct place *p = &places[starts[count - 1]];
        if (p->id >= 0)
            put_known(n, p->id);
        else
            put_unknown(n, p->start, starts[count - 1]);
    }
    free(places);
    free(starts);
}

void naive_spm_encode(struct tok_ids *out, const struct spm_file *f, str normalized)
{
    struct arena a = {0};
    struct naive n = {.f = f, .unk = -1, .text = normalized, .out = out};
    n.texts = must(arena_alloc(&a, f->n_pieces, sizeof *n.texts));
    for (size_t id = 0; id < f->n_pieces; id++) {
        n.texts[id] = text_of(&a, f, &f->pieces[id]);
        if (f->pieces[id].type == SPM_UNKNOWN)
            n.unk = (int32_t)id;
    }
    if (f->model_type == SPM_UNIGRAM)
        encode_unigram(&n);
    else
        encode_bpe(&n);
    arena_destroy(&a);
}
