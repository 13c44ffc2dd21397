/* SPDX-License-Identifier: Apache-2.0
 * ftprep: everything that happens before and after training. */
#include "tools/commands.h"

int main(int argc, char **argv)
{
    /* In the order of a first use, a line each; `ftprep --help` shows it. */
    const struct command commands[] = {
        /* clang-format off */
        cmd_check,
        cmd_build,
        cmd_plan,
        cmd_map,
        cmd_merge,
        cmd_inspect,
        cmd_stats,
        cmd_pack,
        cmd_verify,
        cmd_diff,
        cmd_quantize,
        cmd_export,
        cmd_tokenize,
        cmd_detokenize,
        cmd_count,
        cmd_templates,
        /* clang-format on */
    };
    const struct program program = {
        .name = "ftprep",
        .summary = "Prepares chat data and base weights for fttrain, and exports what it trained",
        .version = FT_VERSION,
        .exit_codes = "  0  done\n"
                      "  1  failed; the message says what and where\n"
                      "  2  the command line is wrong\n"
                      "  3  stopped on request; nothing was written, start it again",
        .commands = commands,
        .n_commands = ARRAY_LEN(commands),
    };
    return program_main(&program, argc, argv);
}
