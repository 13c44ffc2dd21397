/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/emit.h"

#include <string.h>

/* 'text' for the shell, whatever it holds. */
static void shell_quote(struct buf *out, const char *text)
{
    buf_byte(out, '\'');
    for (; *text != '\0'; text++)
        if (*text == '\'')
            buf_cstr(out, "'\\''");
        else
            buf_byte(out, (uint8_t)*text);
    buf_byte(out, '\'');
}

/* As above inside a recipe or an assignment of make. */
static void make_quote(struct buf *out, const char *text)
{
    struct buf quoted = {0};
    shell_quote(&quoted, text);
    for (size_t i = 0; i < quoted.len; i++) {
        if (quoted.data[i] == '$')
            buf_byte(out, '$');
        buf_byte(out, quoted.data[i]);
    }
    out->failed |= quoted.failed;
    buf_free(&quoted);
}

/* As a name of a target. */
static void make_name(struct buf *out, const char *dir)
{
    for (; *dir != '\0'; dir++) {
        if (strchr(" :#\\", *dir) != NULL)
            buf_byte(out, '\\');
        buf_cstr(out, *dir == '$' ? "$" : "");
        buf_byte(out, (uint8_t)*dir);
    }
}

void emit_make(struct buf *out, const struct emit_options *o,
               const char *(*part_name)(void *ctx, size_t i), void *ctx)
{
    buf_cstr(out, "# Made by 'ftprep plan --emit make'. Run: make -j N -f THIS OUT=data\n"
                  "FTPREP ?= ftprep\n"
                  "THREADS ?= 1\n"
                  "OUT ?= data\n\n"
                  "$(OUT)/manifest.json: parts\n"
                  "\t$(FTPREP) merge --force --out '$(OUT)' ");
    make_quote(out, o->dir);
    buf_cstr(out, "\n\n.PHONY: parts\nparts:");
    for (size_t i = 0; i < o->n_parts; i++) {
        buf_cstr(out, " \\\n    ");
        make_name(out, o->dir);
        buf_printf(out, "/%s", part_name(ctx, i));
    }
    buf_cstr(out, "\n");
    for (size_t i = 0; i < o->n_parts; i++) {
        buf_cstr(out, "\n");
        make_name(out, o->dir);
        buf_printf(out, "/%s:\n\t$(FTPREP) map --threads $(THREADS) --shard %zu ",
                   part_name(ctx, i), i);
        make_quote(out, o->dir);
        buf_cstr(out, "\n");
    }
}

/* One array of tasks; each maps per_task parts from `first` on. */
static void emit_array(struct buf *out, const struct emit_options *o, size_t first, size_t tasks)
{
    buf_printf(
        out,
        "id=$(sbatch --parsable --job-name=ftprep-map --array=0-%zu --cpus-per-task=\"$cpus\" "
        "$flags \\\n    --wrap \"$map --shard \\$((%zu + SLURM_ARRAY_TASK_ID * %zu))+%zu "
        "\\\"$plan\\\"\")\n"
        "ids=$ids:${id%%%%;*}\n",
        tasks - 1, first, o->per_task, o->per_task);
}

void emit_slurm(struct buf *out, const struct emit_options *o)
{
    size_t n_tasks = (o->n_parts + o->per_task - 1) / o->per_task;
    buf_cstr(out, "#!/bin/sh\n"
                  "# Made by 'ftprep plan --emit slurm'. Run: sh THIS OUT [flags of sbatch]\n"
                  "set -eu\n"
                  "out=${1:?the directory of the data set is missing}\n"
                  "shift\n"
                  "flags=$*\n"
                  "cpus=${CPUS:-4}\n"
                  "plan=");
    shell_quote(out, o->dir);
    buf_cstr(out, "\nmap=\"${FTPREP:-ftprep} map --threads $cpus\"\nids=\n");
    for (size_t done = 0; done < n_tasks; done += o->array_size)
        emit_array(out, o, done * o->per_task, FT_MIN(o->array_size, n_tasks - done));
    buf_cstr(out, "sbatch --job-name=ftprep-merge --dependency=\"afterok$ids\" $flags \\\n"
                  "    --wrap \"${FTPREP:-ftprep} merge --force --out \\\"$out\\\" "
                  "\\\"$plan\\\"\"\n");
}
