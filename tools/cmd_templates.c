/* SPDX-License-Identifier: Apache-2.0
 * ftprep templates: the named chat templates, and the strings they are made of. */
#include <stdio.h>
#include <string.h>

#include "formats/chat.h"
#include "tools/commands.h"

/* One a line, for shells. */
static void list_names(void)
{
    for (size_t i = 0; i < chat_known_count(); i++)
        puts(chat_known_name(i));
}

static ft_status print_strings(const char *name, ft_error *err)
{
    struct buf text = {0};
    size_t i = 0;
    while (i < chat_known_count() && strcmp(chat_known_name(i), name) != 0)
        i++;
    if (i == chat_known_count())
        return ft_fail(err, FT_EUSAGE, "'%s' is no template; ftprep templates lists them", name);
    bool has_strings = chat_known_strings(&text, i);
    ft_status st = buf_status(&text, "the strings", err);
    if (st == FT_OK && !has_strings)
        st = ft_fail(err, FT_EUSAGE, "'%s' is not made of strings", name);
    if (st == FT_OK)
        fwrite(text.data, 1, text.len, stdout);
    buf_free(&text);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    (void)values;
    if (n_args == 1)
        return print_strings(args[0], err);
    list_names();
    return FT_OK;
}

const struct command cmd_templates = {
    .name = "templates",
    .summary = "List the chat templates, or show the strings of one",
    .usage = "[NAME]",
    .details = "The strings of a template are a JSON object, which can be changed and given as\n"
               "--template FILE.json. {input}, {system} and {round} stand for the user message, "
               "the\n"
               "system message and the number of the turn; {{ and }} for braces.",
    .examples = "  ftprep templates\n"
                "  ftprep templates deepseek_v2 > mine.json",
    .max_args = 1,
    .run = run,
};
