/* SPDX-License-Identifier: Apache-2.0
 * ftprep verify: is a data set or a base model what was written? */
#include <inttypes.h>
#include <stdio.h>

#include "common/file.h"
#include "common/log.h"
#include "formats/manifest.h"
#include "formats/nf4_file.h"
#include "tools/commands.h"
#include "tools/verify.h"

static ft_status verify_base(const char *path, ft_error *err)
{
    struct nf4_file *f;
    char size[32], hex[HASH_HEX_LEN + 1];
    FT_TRY(nf4_file_open(&f, path, err));
    ft_status st = nf4_file_verify(f, err);
    hash128_hex(hex, nf4_file_fingerprint(f));
    if (st == FT_OK)
        printf("%s: ok: %zu tensors, %s, fingerprint %s\n", path, nf4_file_tensors(f),
               format_bytes(size, (double)nf4_file_bytes(f)), hex);
    nf4_file_close(f);
    return st;
}

static ft_status verify_directory(const char *dir, ft_error *err)
{
    struct manifest m;
    char hex[HASH_HEX_LEN + 1];
    FT_TRY(verify_dataset(dir, err));
    FT_TRY(manifest_load(&m, dir, err));
    hash128_hex(hex, m.fingerprint);
    printf("%s: ok: %" PRIu64 " samples, %" PRIu64 " tokens, fingerprint %s\n", dir,
           report_samples(&m.report), report_stored_tokens(&m.report), hex);
    manifest_free(&m);
    return FT_OK;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    (void)values;
    for (int i = 0; i < n_args; i++)
        FT_TRY(path_is_dir(args[i]) ? verify_directory(args[i], err) : verify_base(args[i], err));
    return FT_OK;
}

const struct command cmd_verify = {
    .name = "verify",
    .summary = "Check a data set or a base model completely",
    .usage = "DIR|FILE.nf4...",
    .details =
        "Recomputes every checksum and count. For a data set also: every token id and loss\n"
        "span, the order of samples, which samples are held out, the pack plan (every sample\n"
        "once, none too long) and the report of rows and tokens. Exit code 1 and one message\n"
        "that names file and place when anything differs.",
    .examples = "  ftprep verify data/          # a data set\n"
                "  ftprep verify model.nf4      # a base model",
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
