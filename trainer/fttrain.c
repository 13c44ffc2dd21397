/* SPDX-License-Identifier: Apache-2.0
 * fttrain: QLoRA training on a data set and base weights made by ftprep, and answers from the
 * result. */
#include "trainer/commands.h"

int main(int argc, char **argv)
{
    /* In the order of a first use; `fttrain --help` shows it. */
    const struct command commands[] = {cmd_train, cmd_generate};
    const struct program program = {
        .name = "fttrain",
        .summary = "Trains LoRA adapters on 4-bit base weights, and answers prompts with them",
        .version = FT_VERSION,
        .exit_codes = "  0  done\n"
                      "  1  failed; the message says what and where\n"
                      "  2  the command line or the run file is wrong\n"
                      "  3  stopped on request, everything is saved; the same command goes on",
        .commands = commands,
        .n_commands = ARRAY_LEN(commands),
    };
    return program_main(&program, argc, argv);
}
