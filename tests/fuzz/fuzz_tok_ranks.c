/* SPDX-License-Identifier: Apache-2.0
 * Rank files and tekken.json: what opens must encode and give a blob that opens. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/json.h"
#include "formats/tok/tok_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct tok *t)
{
    struct tok_encoder *e;
    struct tok_ids ids = {0};
    struct buf blob = {0};
    struct tok *copy;
    ft_error err;
    if (tok_encoder_create(&e, t, &err) == FT_OK) {
        ft_status st =
            tok_encode(e, &ids, STR("abc \xE4\xB8\xAD 12\n<s>"), TOK_SPECIALS_PARSE, &err);
        FT_ASSERT(st == FT_OK || st == FT_ELIMIT);
        tok_encoder_destroy(e);
    }
    if (tok_to_blob(&blob, t, &err) == FT_OK) {
        FT_ASSERT(tok_from_blob(&copy, "blob", buf_view(&blob), &err) == FT_OK);
        tok_close(copy);
    }
    buf_free(&blob);
    tok_ids_free(&ids);
    tok_close(t);
}

static void run_tekken(str text)
{
    struct json_doc *doc;
    struct tok *t;
    ft_error err;
    if (json_parse(&doc, "fuzz", text, JSON_STRICT, &err) != FT_OK)
        return;
    if (tok_tekken_build(&t, "fuzz", json_root(doc), &err) == FT_OK)
        use(t);
    json_close(doc);
}

static void run_ranks(str text)
{
    struct tok *t;
    char path[64];
    ft_error err;
    int fd = (int)syscall(SYS_memfd_create, "ranks", 0);
    if (fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, text.ptr, text.len) == (ssize_t)text.len &&
        tok_tiktoken_load(&t, path, &err) == FT_OK)
        use(t);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = {(const char *)data, size};
    if (size > 0 && data[0] == '{')
        run_tekken(text);
    else
        run_ranks(text);
    return 0;
}
