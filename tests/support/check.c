/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "tests/support/check.h"

#include <errno.h>
#include <stdlib.h>

#include "common/file.h"

const char *test_path(const char *name)
{
    static char paths[4][1024];
    static unsigned turn;
    const char *root = getenv("FT_TEST_TMP");
    ft_error err;
    char dir[512], *dst = paths[turn++ % ARRAY_LEN(paths)];
    snprintf(dir, sizeof dir, "%s/%s", root == NULL ? "build/test-tmp" : root,
             program_invocation_short_name);
    ASSERT_OK(dir_create(dir, &err));
    snprintf(dst, sizeof paths[0], "%s/%s", dir, name);
    return dst;
}
