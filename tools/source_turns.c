/* SPDX-License-Identifier: Apache-2.0
 * XTuner's own form, {"conversation": [{"system", "input", "output", "output_with_loss",
 * "need_eos_token", "sep"}]}: each turn is up to three messages. */
#include "tools/source_shapes.h"

static ft_status read_answer(struct chat_message *m, const json *turn, ft_error *err)
{
    static const char *const keys[] = {"output_with_loss", "need_eos_token", "system", "input",
                                       "output"},
                             *output = "output";
    const json *v = json_get(turn, output), *eos = json_get(turn, "need_eos_token");
    bool needs_eos = true;
    if (v == NULL)
        return source_missing_key(turn, &output, 1, err);
    if (!json_str(v, &m->content))
        return source_wrong_kind(".output", "a string", v, err);
    FT_TRY(source_refuse_misspelt(turn, keys, ARRAY_LEN(keys), 2, err));
    FT_TRY(source_read_flag(&m->loss, turn, "output_with_loss", err));
    if (!source_is_absent(eos) && !json_bool(eos, &needs_eos))
        return source_wrong_kind(".need_eos_token", "true or false", eos, err);
    m->no_eos = !needs_eos;
    return source_opt_str(&m->sep, turn, "sep", err);
}

static ft_status read_turn(struct conversation *out, const json *turn, ft_error *err)
{
    struct chat_message question = {.role = CHAT_USER}, answer = {.role = CHAT_ASSISTANT};
    str system;
    if (json_kind(turn) != JSON_OBJECT)
        return source_wrong_kind("", "an object with \"input\" and \"output\"", turn, err);
    FT_TRY(source_opt_str(&system, turn, "system", err));
    FT_TRY(source_opt_str(&question.content, turn, "input", err));
    FT_TRY(read_answer(&answer, turn, err));
    FT_TRY(source_add_system(out, system, err));
    FT_TRY(source_add(out, &question, err));
    return source_add(out, &answer, err);
}

ft_status source_read_turns(struct conversation *out, const char *path, const json *list,
                            ft_error *err)
{
    size_t i = 0;
    if (json_kind(list) != JSON_ARRAY)
        return source_wrong_kind(path, "a list of turns", list, err);
    for (const json *turn = json_first(list); turn != NULL; turn = json_next(turn), i++)
        if (read_turn(out, turn, err) != FT_OK)
            return source_inside(path, i, err);
    return FT_OK;
}
