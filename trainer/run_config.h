/* SPDX-License-Identifier: Apache-2.0
 * The run file: JSON with comments, {"section": {"key": value}} or {"section.key": value}, then
 * key=value overrides. */
#ifndef TRAINER_RUN_CONFIG_H
#define TRAINER_RUN_CONFIG_H

#include "trainer/train_options.h"

/* The set points into values: do not move the struct between load and close. */
struct run_config {
    struct train_options values;
    struct opt_set set;
};

/* Reads the file and applies the overrides in order. Paths in the file are relative to the file,
 * paths in overrides to the current directory. Everything wrong with the configuration is
 * FT_EUSAGE naming the file (or the override) and the key; an unknown key names the nearest valid
 * one. Close after success and after failure. */
FT_NODISCARD ft_status run_config_load(struct run_config *out, const char *path,
                                       const char *const *overrides, size_t n_overrides,
                                       ft_error *err);
void run_config_close(struct run_config *c);

/* The resolved configuration: every key that has an effect, paths made absolute. It is a run file
 * itself and loads to the same values. */
FT_NODISCARD ft_status run_config_json(struct buf *out, const struct run_config *c, ft_error *err);

/* Compares the keys that a resumed run must share with its checkpoint. FT_ESTATE names the first
 * one that differs, both values, and where the saved configuration lies. */
FT_NODISCARD ft_status run_config_check_same(const struct run_config *now,
                                             const struct run_config *saved, const char *saved_path,
                                             ft_error *err);

#endif
