/* SPDX-License-Identifier: Apache-2.0
 * manifest.json: what a data set is made of, where it came from and what became of every row. Its
 * size depends on the number of sources and shards, not on the number of samples. Byte level:
 * docs/formats/manifest.md. */
#ifndef FORMATS_MANIFEST_H
#define FORMATS_MANIFEST_H

#include "common/arena.h"
#include "common/hash.h"
#include "formats/dataset.h"
#include "formats/shard.h"

enum {
    MANIFEST_VERSION = 1,
    REPORT_EXAMPLES = 5,
    MANIFEST_MAX_TIMES = 10000, /* weight, repeat */
};

#define MANIFEST_FILE  "manifest.json"
#define TOKENIZER_FILE "tokenizer.tok"

/* --- what became of the rows ----------------------------------------------------------------- */

/* Every row read has exactly one fate. */
enum row_fate {
    ROW_KEPT,
    ROW_INVALID,      /* breaks a rule of the input format (--on-error skip) */
    ROW_NO_ASSISTANT, /* no assistant message: nothing to learn */
    ROW_UNTRAINED,    /* no token carries loss */
    ROW_TOO_LONG,     /* more than max_length tokens */
    ROW_UNSELECTED,   /* left out by the weight of its source */
    ROW_FATES
};
extern const char *const row_fate_names[ROW_FATES];

/* Things that happened to rows, with an amount of their own. */
enum row_note {
    NOTE_TRAILING,        /* messages behind the last assistant message, left out */
    NOTE_EMPTY_ASSISTANT, /* assistant messages without content, not trained */
    NOTE_CUT,             /* tokens cut off at max_length */
    NOTE_LEADING,         /* assistant messages in front that the template leaves out */
    NOTE_SPECIALS,        /* special tokens spelled in the text of messages */
    NOTE_MERGED,          /* messages joined to the one before (--merge-consecutive) */
    NOTE_SPLIT,           /* samples beyond the first one of a row that was split at turns */
    NOTE_DROPPED_TURNS,   /* tokens of turns of split rows that are too long alone, or untrained */
    NOTE_DUPLICATE,       /* samples removed as duplicates; the amount is their tokens */
    NOTE_REPEATED,        /* further copies of samples; the amount is their tokens */
    ROW_NOTES
};
extern const char *const row_note_names[ROW_NOTES];

struct report_example {
    uint32_t source;
    uint64_t row, line; /* row from 0, line from 1 */
    const char *text;   /* message, or "" */
};

struct report_line {
    uint64_t rows;
    uint64_t amount; /* tokens of these rows; for notes: messages or tokens concerned */
    size_t n_examples;
    struct report_example examples[REPORT_EXAMPLES]; /* the first ones in input order */
};

struct report {
    struct report_line fates[ROW_FATES];
    struct report_line notes[ROW_NOTES];
};

uint64_t report_rows(const struct report *r);   /* rows read */
uint64_t report_tokens(const struct report *r); /* tokens encoded: kept + cut + dropped */
/* What both splits hold together: kept + split - duplicates + repeated. */
uint64_t report_samples(const struct report *r);
uint64_t report_stored_tokens(const struct report *r);

/* --- the manifest ---------------------------------------------------------------------------- */

struct manifest_file {
    const char *name; /* inside the directory; NULL = there is none */
    uint64_t bytes;
    hash128 hash; /* XXH3-128 of the file */
};

struct manifest_shard {
    struct manifest_file file;
    uint64_t n_samples, n_tokens, n_trained;
};

struct manifest_split {
    struct split_info info;
    struct manifest_shard *shards;
    size_t n_shards;
    struct manifest_file packs;
};

enum source_use { SOURCE_TRAIN, SOURCE_EVAL, SOURCE_BOTH }; /* BOTH: --eval-fraction decides */
extern const char *const source_use_names[SOURCE_BOTH + 1];

/* Files that are mixed with one weight: what one argument of the command line names. */
struct manifest_group {
    const char *name;
    double weight;  /* average number of times that a sample is taken, before repeat */
    int64_t repeat; /* factor on top of it */
    int64_t limit;  /* rows read at most; 0 = all */
    struct shard_counts stored;
};

struct manifest_source {
    const char *path; /* as given on the command line, or found in a directory given there */
    uint64_t bytes;   /* of the file as stored, like the hash */
    uint64_t rows;    /* read */
    hash128 hash;
    enum source_use use;
    uint32_t group;
};

enum too_long { TOO_LONG_DROP, TOO_LONG_TRUNCATE, TOO_LONG_SPLIT, TOO_LONG_ERROR };
extern const char *const too_long_names[TOO_LONG_ERROR + 1];

struct manifest_options {
    int64_t max_length;
    enum too_long too_long;
    bool skip_errors;     /* --on-error */
    bool strict;          /* --strict */
    bool parse_specials;  /* --content-specials */
    const char *rows;     /* --rows, or the items of --columns; NULL = auto */
    const char *train_on; /* --train-on; NULL = assistant */
    bool merge;           /* --merge-consecutive */
    bool dedup;           /* --dedup: of samples with the same ids only the first */
    double eval_fraction;
    int64_t seed; /* of the choice that a weight makes */
    int64_t part_bytes, shard_bytes, compression_level;
};

struct manifest {
    struct arena arena; /* holds all strings and arrays */
    const char *tool;   /* "ftprep 0.1.0" */
    const char *chat_template;
    const char *template_source; /* text of a user's own template; "" or NULL for a known one */
    hash128 template_hash;       /* of the chat_template in the tokenizer's file */
    struct manifest_options options;
    int64_t n_vocab;
    uint32_t token_bytes;
    hash128 tokenizer_fingerprint;
    struct manifest_file tokenizer;
    struct manifest_source *sources;
    size_t n_sources;
    struct manifest_group *groups; /* in the order of the sources */
    size_t n_groups;
    struct manifest_split splits[SPLITS];
    struct report report;
    hash128 fingerprint; /* of the content; set by manifest_write and manifest_load */
};

void manifest_free(struct manifest *m); /* zeroed is fine */

FT_NODISCARD ft_status manifest_add_shard(struct manifest *m, enum dataset_split split,
                                          const struct manifest_shard *shard, ft_error *err);

/* Feeds what decides the samples besides the rows: tool, template, tokenizer, options. */
FT_NODISCARD ft_status manifest_hash_recipe(struct hasher *h, const struct manifest *m,
                                            ft_error *err);
/* Over everything that decides the bytes of the data set: the recipe, the groups, and the sources'
 * paths and contents. Equal values mean the same build. */
FT_NODISCARD ft_status manifest_build_key(hash128 *out, const struct manifest *m, ft_error *err);

/* Size and XXH3-128 of dir/name. */
FT_NODISCARD ft_status manifest_file_of(struct manifest_file *out, struct arena *a, const char *dir,
                                        const char *name, ft_error *err);

/* FT_EFORMAT unless dir/f->name has the size and hash that it should have; fine when there is none.
 */
FT_NODISCARD ft_status manifest_check_file(const struct manifest_file *f, const char *dir,
                                           ft_error *err);

/* Publishes dir/manifest.json: from then on dir is a data set. */
FT_NODISCARD ft_status manifest_write(struct manifest *m, const char *dir, ft_error *err);
/* Reads dir/manifest.json and checks its checksum, types, ranges and sums. */
FT_NODISCARD ft_status manifest_load(struct manifest *out, const char *dir, ft_error *err);
/* As manifest_load, from text; name is for messages. */
FT_NODISCARD ft_status manifest_parse(struct manifest *out, const char *name, str text,
                                      ft_error *err);

#endif
