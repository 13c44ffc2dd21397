/* SPDX-License-Identifier: Apache-2.0
 * The small files around exported weights: configurations, tokenizer, chat template, Modelfile. */
#ifndef TOOLS_EXPORT_FILES_H
#define TOOLS_EXPORT_FILES_H

#include "tools/export_base.h"

struct export_files {
    const struct export_base *base;
    const char *base_path; /* as the user gave it */
    const struct tok *tok; /* of the base; NULL = none, or not understood */
};

/* The chat template's Jinja source; writes nothing when there is none. */
FT_NODISCARD ft_status export_chat_template(const struct export_files *f, const char *path,
                                            ft_error *err);
/* A Modelfile. adapter: what its ADAPTER line names; NULL = the model lies beside the file. Warns
 * when it has no TEMPLATE. */
FT_NODISCARD ft_status export_modelfile(const struct export_files *f, const char *path,
                                        const char *adapter, ft_error *err);
/* config.json, generation_config.json, tokenizer, chat template and Modelfile of a whole model. A
 * Hugging Face base has its own tokenizer files copied; otherwise tokenizer.json is written from
 * the parsed tokenizer, read back and compared. */
FT_NODISCARD ft_status export_companions(const struct export_files *f, const char *dir,
                                         ft_error *err);

#endif
