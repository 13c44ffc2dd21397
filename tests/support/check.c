/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check.h"

#include <stdlib.h>

#include "common/file.h"

const char *test_path(const char *name)
{
    static char paths[4][1024];
    static unsigned turn;
    const char *dir = getenv("FT_TEST_TMP");
    ft_error err;
    char *dst = paths[turn++ % ARRAY_LEN(paths)];
    if (dir == NULL)
        dir = "build/test-tmp";
    ASSERT_OK(dir_create(dir, &err));
    snprintf(dst, sizeof paths[0], "%s/%s", dir, name);
    return dst;
}
