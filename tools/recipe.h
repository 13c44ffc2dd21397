/* SPDX-License-Identifier: Apache-2.0
 * What `build` and `plan` have in common: the options that decide the samples, and what they open.
 */
#ifndef TOOLS_RECIPE_H
#define TOOLS_RECIPE_H

#include "common/opt.h"
#include "formats/chat.h"
#include "formats/plan.h"
#include "tools/source.h"

/* The values of both commands; each has a table of the options that it takes. */
struct recipe_options {
    const char *tokenizer, *chat_template, *out, *rows, *train_on;
    int64_t max_length, part_bytes, shard_bytes, compression_level, seed;
    double eval_fraction;
    struct opt_list eval, columns;
    int too_long, on_error, content_specials;
    bool strict, merge, dedup;
    /* build */
    int64_t threads;
    int parts;
    bool force, json;
    /* plan */
    int emit;
    int64_t per_task, array_size;
};

#define RECIPE_FIELD(field) offsetof(struct recipe_options, field)

/* Rows of an option table. */
#define RECIPE_ROWS                                                                                \
    {.name = "tokenizer",                                                                          \
     .type = OPT_STRING,                                                                           \
     .offset = RECIPE_FIELD(tokenizer),                                                            \
     .metavar = "PATH",                                                                            \
     .required = true,                                                                             \
     .help = "tokenizer.json, a directory that holds it, a GGUF or .nf4 file, or a data set"},     \
        {.name = "template",                                                                       \
         .type = OPT_STRING,                                                                       \
         .offset = RECIPE_FIELD(chat_template),                                                    \
         .metavar = "NAME",                                                                        \
         .required = true,                                                                         \
         .help = "chat template: auto for the one that the tokenizer file carries, a name, or a "  \
                 "file; ftprep templates lists the names"},                                        \
        {.name = "max-length",                                                                     \
         .type = OPT_INT,                                                                          \
         .offset = RECIPE_FIELD(max_length),                                                       \
         .metavar = "N",                                                                           \
         .required = true,                                                                         \
         .min = 2,                                                                                 \
         .max = SHARD_MAX_TOKENS,                                                                  \
         .help = "most tokens of a sample, and the length of a packed sequence"},                  \
        {.name = "eval-fraction",                                                                  \
         .type = OPT_FLOAT,                                                                        \
         .offset = RECIPE_FIELD(eval_fraction),                                                    \
         .metavar = "F",                                                                           \
         .def = "0",                                                                               \
         .min = 0,                                                                                 \
         .max = 0.9,                                                                               \
         .help = "share of the samples held out for evaluation, chosen by content"},               \
        {.name = "eval",                                                                           \
         .type = OPT_LIST,                                                                         \
         .offset = RECIPE_FIELD(eval),                                                             \
         .metavar = "PATH,...",                                                                    \
         .help = "files whose rows are the held-out part, instead of --eval-fraction"},            \
        {.name = "dedup",                                                                          \
         .type = OPT_BOOL,                                                                         \
         .offset = RECIPE_FIELD(dedup),                                                            \
         .def = "false",                                                                           \
         .help = "of samples with the same tokens keep the first; held-out ones come first"},      \
        {.name = "too-long",                                                                       \
         .type = OPT_CHOICE,                                                                       \
         .offset = RECIPE_FIELD(too_long),                                                         \
         .def = "drop",                                                                            \
         .choices = "drop|truncate|split|error",                                                   \
         .help = "what happens to samples above the maximum length; split makes several of the "   \
                 "turns, each with the system message"},                                           \
        {.name = "on-error",                                                                       \
         .type = OPT_CHOICE,                                                                       \
         .offset = RECIPE_FIELD(on_error),                                                         \
         .def = "stop",                                                                            \
         .choices = "stop|skip",                                                                   \
         .help = "what happens at a row that breaks the rules"},                                   \
        {.name = "strict",                                                                         \
         .type = OPT_BOOL,                                                                         \
         .offset = RECIPE_FIELD(strict),                                                           \
         .def = "false",                                                                           \
         .help = "an empty assistant message is an error"},                                        \
        {.name = "rows",                                                                           \
         .type = OPT_STRING,                                                                       \
         .offset = RECIPE_FIELD(rows),                                                             \
         .metavar = "SHAPE",                                                                       \
         .def = "auto",                                                                            \
         .help = "shape of the rows: auto tells messages, conversations, conversation and alpaca " \
                 "by their keys"},                                                                 \
        {.name = "columns",                                                                        \
         .type = OPT_LIST,                                                                         \
         .offset = RECIPE_FIELD(columns),                                                          \
         .metavar = "ROLE=KEY,...",                                                                \
         .help = "which keys hold what, e.g. user=question,assistant=answer; roles are messages, " \
                 "turns, system, history, user (several) and assistant"},                          \
        {.name = "train-on",                                                                       \
         .type = OPT_STRING,                                                                       \
         .offset = RECIPE_FIELD(train_on),                                                         \
         .metavar = "WHICH",                                                                       \
         .def = "assistant",                                                                       \
         .help = "answers that carry loss: assistant (all), last, flagged, or from-turn:N"},       \
        {.name = "merge-consecutive",                                                              \
         .type = OPT_BOOL,                                                                         \
         .offset = RECIPE_FIELD(merge),                                                            \
         .def = "false",                                                                           \
         .help = "join neighbouring user or system messages"},                                     \
        {.name = "content-specials",                                                               \
         .type = OPT_CHOICE,                                                                       \
         .offset = RECIPE_FIELD(content_specials),                                                 \
         .def = "literal",                                                                         \
         .choices = "literal|parse",                                                               \
         .help = "special tokens spelled inside messages: ordinary text, or the token"},           \
        {.name = "seed",                                                                           \
         .type = OPT_INT,                                                                          \
         .offset = RECIPE_FIELD(seed),                                                             \
         .metavar = "N",                                                                           \
         .def = "0",                                                                               \
         .min = 0,                                                                                 \
         .max = 1e15,                                                                              \
         .help = "of the choice that a weight of an input makes"},                                 \
        {.name = "part-bytes",                                                                     \
         .type = OPT_INT,                                                                          \
         .offset = RECIPE_FIELD(part_bytes),                                                       \
         .metavar = "N",                                                                           \
         .def = "67108864",                                                                        \
         .min = 1,                                                                                 \
         .max = 1e15,                                                                              \
         .help = "input of a part, which is what is mapped again when it changes"},                \
        {.name = "shard-bytes",                                                                    \
         .type = OPT_INT,                                                                          \
         .offset = RECIPE_FIELD(shard_bytes),                                                      \
         .metavar = "N",                                                                           \
         .def = "268435456",                                                                       \
         .min = 4096,                                                                              \
         .max = 1e15,                                                                              \
         .help = "a shard is closed above this size, before compression"},                         \
    {                                                                                              \
        .name = "compression-level", .type = OPT_INT, .offset = RECIPE_FIELD(compression_level),   \
        .metavar = "N", .def = "3", .min = COMPRESS_LEVEL_MIN, .max = COMPRESS_LEVEL_MAX,          \
        .help = "zstd level of the shards"                                                         \
    }

struct recipe {
    struct tok *tok;
    struct chat_template *chat_template;
    struct source_options source;
    struct plan plan; /* its manifest has recipe and sources; no parts yet */
};

FT_NODISCARD ft_status recipe_open(struct recipe *r, const struct recipe_options *o, int n_inputs,
                                   const char **inputs, ft_error *err);
/* That of a plan which was made earlier; tokenizer.tok stands beside it. */
FT_NODISCARD ft_status recipe_restore(struct recipe *r, const char *dir, ft_error *err);
void recipe_close(struct recipe *r); /* zeroed is fine */

#endif
