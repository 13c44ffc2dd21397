/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify_packs.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "tools/pack.h"

static ft_status check_fullest(uint64_t fullest, const struct split_info *info, ft_error *err)
{
    if (fullest == info->longest_pack)
        return FT_OK;
    return ft_fail(err, FT_EFORMAT,
                   "the fullest pack has %" PRIu64 " tokens, the plan says %" PRIu32, fullest,
                   info->longest_pack);
}

/* --- whole samples --------------------------------------------------------------------------- */

static ft_status check_bins(const struct dataset *d, enum dataset_split s, uint8_t *seen,
                            ft_error *err)
{
    const struct split_info *info = dataset_split(d, s);
    uint64_t covered = 0, fullest = 0;
    for (uint64_t b = 0; b < info->n_packs; b++) {
        size_t n;
        uint64_t tokens = 0;
        const uint32_t *bin = dataset_pack(d, s, b, &n);
        if (bin == NULL)
            return ft_fail(err, FT_EFORMAT, "pack %" PRIu64 " is damaged or longer than %" PRIu32,
                           b, info->longest_pack);
        for (size_t k = 0; k < n; k++) {
            if (seen[bin[k]] != 0)
                return ft_fail(err, FT_EFORMAT,
                               "pack %" PRIu64 ": sample %" PRIu32 " is in another pack already", b,
                               bin[k]);
            seen[bin[k]] = 1;
            tokens += dataset_sample_info(d, s, bin[k]).n_tokens;
        }
        covered += n;
        fullest = FT_MAX(fullest, tokens);
    }
    FT_TRY(check_fullest(fullest, info, err));
    if (covered != info->n_samples)
        return ft_fail(err, FT_EFORMAT, "%" PRIu64 " of %" PRIu64 " samples are in no pack",
                       info->n_samples - covered, info->n_samples);
    return FT_OK;
}

static ft_status check_whole(const struct dataset *d, enum dataset_split s, ft_error *err)
{
    uint8_t *seen;
    FT_TRY(mem_new(&seen, dataset_split(d, s)->n_samples, 1, "the check of packs", err));
    ft_status st = check_bins(d, s, seen, err);
    mem_free(seen);
    return st;
}

/* --- parts ----------------------------------------------------------------------------------- */

/* Parts of a sample follow each other without overlap; ends[] is where the last one ended. */
static ft_status check_part_bin(uint64_t *n_tokens, uint32_t *ends, const struct dataset *d,
                                uint64_t b, ft_error *err)
{
    size_t n;
    uint64_t trained = 0;
    const struct pack_part *parts = dataset_pack_parts(d, SPLIT_TRAIN, b, &n);
    *n_tokens = 0;
    if (parts == NULL)
        return ft_fail(err, FT_EFORMAT, "pack %" PRIu64 " is damaged or too full", b);
    for (size_t i = 0; i < n; i++) {
        if (parts[i].from < ends[parts[i].sample])
            return ft_fail(err, FT_EFORMAT,
                           "pack %" PRIu64 ": token %" PRIu32 " of sample %" PRIu32
                           " is in a pack already",
                           b, parts[i].from, parts[i].sample);
        ends[parts[i].sample] = parts[i].from + parts[i].n_tokens;
        *n_tokens += parts[i].n_tokens;
        trained += parts[i].n_trained;
    }
    return trained > 0 ? FT_OK
                       : ft_fail(err, FT_EFORMAT, "pack %" PRIu64 " has no trained token", b);
}

static ft_status check_part_bins(const struct dataset *d, uint32_t *ends, ft_error *err)
{
    const struct split_info *info = dataset_split(d, SPLIT_TRAIN);
    uint64_t covered = dataset_plan(d, SPLIT_TRAIN)->untrained, fullest = 0, n_tokens;
    for (uint64_t b = 0; b < info->n_packs; b++) {
        FT_TRY(check_part_bin(&n_tokens, ends, d, b, err));
        covered += n_tokens;
        fullest = FT_MAX(fullest, n_tokens);
    }
    if (covered != info->n_tokens)
        return ft_fail(err, FT_EFORMAT,
                       "%" PRIu64 " tokens are in packs or left out, the samples have %" PRIu64,
                       covered, info->n_tokens);
    return check_fullest(fullest, info, err);
}

/* The trained tokens of each part, counted anew. */
static ft_status check_trained(const struct dataset *d, ft_error *err)
{
    const struct packs *p = dataset_plan(d, SPLIT_TRAIN);
    struct packs again = *p;
    struct pack_part *parts;
    FT_TRY(mem_new(&parts, p->n_entries, sizeof *parts, "the check of packs", err));
    memcpy(parts, p->parts, packs_entry_bytes(p));
    again.parts = parts;
    ft_status st = pack_count_trained(&again, d, err);
    if (st == FT_OK && memcmp(parts, p->parts, packs_entry_bytes(p)) != 0)
        st = ft_fail(err, FT_EFORMAT, "the trained tokens of parts are not those of the samples");
    mem_free(parts);
    return st;
}

static ft_status check_parts(const struct dataset *d, ft_error *err)
{
    uint32_t *ends;
    FT_TRY(mem_new(&ends, dataset_split(d, SPLIT_TRAIN)->n_samples, sizeof *ends,
                   "the check of packs", err));
    ft_status st = check_part_bins(d, ends, err);
    mem_free(ends);
    return st == FT_OK ? check_trained(d, err) : st;
}

/* --- all of them ----------------------------------------------------------------------------- */

ft_status verify_packs(const struct dataset *d, ft_error *err)
{
    for (enum dataset_split s = 0; s < SPLITS; s++) {
        if (dataset_split(d, s)->n_packs == 0)
            continue;
        if ((dataset_has_parts(d, s) ? check_parts(d, err) : check_whole(d, s, err)) != FT_OK)
            return ft_wrap(err, "%s", split_names[s]);
    }
    return FT_OK;
}

static ft_status verify_plan(const char *dir, const char *name, ft_error *err)
{
    struct dataset *d;
    ft_status st;
    FT_TRY(dataset_open(&d, dir, err));
    FT_GOTO(dataset_use_plan(d, name, err));
    const struct packs *p = dataset_plan(d, SPLIT_TRAIN);
    const void *entries = p->parts != NULL ? (const void *)p->parts : p->samples;
    if (hash64(p->starts, ((size_t)p->n_bins + 1) * sizeof *p->starts) != p->starts_hash ||
        hash64(entries, packs_entry_bytes(p)) != p->entries_hash)
        FT_GOTO(ft_fail(err, FT_EFORMAT, "the plan is damaged (checksum differs)"));
    FT_GOTO(verify_packs(d, err));
out:
    dataset_close(d);
    return st == FT_OK ? st : ft_wrap(err, "plan %s", name);
}

ft_status verify_plans(const char *dir, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n = 0;
    ft_status st = dir_list(&names, &n, &a, dir, err);
    for (size_t i = 0; i < n && st == FT_OK; i++) {
        const char *name = dataset_plan_name(&a, names[i]);
        if (name != NULL)
            st = verify_plan(dir, name, err);
    }
    arena_destroy(&a);
    return st;
}
