/* SPDX-License-Identifier: Apache-2.0
 * JSON forms that manifest.json, plan.json and the descriptions of parts have in common: files,
 * options, sources, the report, and the checksum at the end. manifest_put_* append, manifest_get_*
 * read members of an object into structs and keep strings in the arena; messages name the member.
 */
#ifndef FORMATS_MANIFEST_JSON_H
#define FORMATS_MANIFEST_JSON_H

#include "formats/json.h"
#include "formats/manifest.h"

#define MANIFEST_MAX_COUNT INT64_C(9007199254740992) /* 2^53: exact in any JSON reader */

void manifest_put_hash(struct buf *b, const char *key, hash128 h);
void manifest_put_text(struct buf *b, const char *key, const char *value);
void manifest_put_file(struct buf *b, const struct manifest_file *f);   /* three members */
void manifest_put_counts(struct buf *b, const struct shard_counts *c);  /* three members */
void manifest_put_times(struct buf *b, const struct manifest_group *g); /* weight, repeat, limit */
void manifest_put_options(struct buf *b, const struct manifest_options *o);
/* "tool" to "options", a line each at an indentation of two */
void manifest_put_recipe(struct buf *b, const struct manifest *m);
/* "groups": [...],\n  "sources": [...],\n at an indentation of two */
void manifest_put_sources(struct buf *b, const struct manifest *m);
void manifest_put_report(struct buf *b, const struct report *r);
/* Appends the checksum of what is in b as the last member, and the closing bracket. */
FT_NODISCARD ft_status manifest_put_checksum(hash128 *out, struct buf *b, ft_error *err);

FT_NODISCARD ft_status manifest_get_count(uint64_t *out, const json *o, const char *key,
                                          int64_t max, ft_error *err);
FT_NODISCARD ft_status manifest_get_u32(uint32_t *out, const json *o, const char *key,
                                        ft_error *err);
FT_NODISCARD ft_status manifest_get_text(const char **out, struct arena *a, const json *o,
                                         const char *key, ft_error *err);
FT_NODISCARD ft_status manifest_get_hash(hash128 *out, const json *o, const char *key,
                                         ft_error *err);
/* One of names; its index goes to *out. */
FT_NODISCARD ft_status manifest_get_choice(int *out, const json *o, const char *key,
                                           const char *const *names, int n, ft_error *err);
FT_NODISCARD ft_status manifest_get_file(struct manifest_file *out, struct arena *a, const json *o,
                                         ft_error *err);
FT_NODISCARD ft_status manifest_get_counts(struct shard_counts *out, const json *o, ft_error *err);
FT_NODISCARD ft_status manifest_get_options(struct manifest_options *out, struct arena *a,
                                            const json *o, ft_error *err);
FT_NODISCARD ft_status manifest_get_recipe(struct manifest *m, const json *root, ft_error *err);
/* "sources" and "groups" of root; without "groups" each source is one. */
FT_NODISCARD ft_status manifest_get_sources(struct manifest *m, const json *root, ft_error *err);
/* Sources of examples are below n_sources, and the fates add up to the totals. */
FT_NODISCARD ft_status manifest_get_report(struct report *out, struct arena *a, const json *o,
                                           size_t n_sources, ft_error *err);
/* "format" and "version" of a file. */
FT_NODISCARD ft_status manifest_get_format(const json *root, const char *format, int version,
                                           ft_error *err);
/* Compares the last member with the hash of everything before it. */
FT_NODISCARD ft_status manifest_get_checksum(hash128 *out, str text, const json *root,
                                             ft_error *err);

#endif
