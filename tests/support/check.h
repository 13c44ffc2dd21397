/* SPDX-License-Identifier: Apache-2.0
 * What every unit test needs: cmocka with its prerequisites, and assertions on ft_status. */
#ifndef TESTS_SUPPORT_CHECK_H
#define TESTS_SUPPORT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"

/* The call succeeds; on failure its message is shown. Needs a local `ft_error err`. */
#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        err = (ft_error){0};                                                                       \
        if ((call) != FT_OK)                                                                       \
            fail_msg("%s: %s", #call, err.text);                                                   \
    } while (0)

/* The call fails with this status and a message that contains `part`. */
#define ASSERT_FAILS(call, expected, part)                                                         \
    do {                                                                                           \
        err = (ft_error){0};                                                                       \
        ft_status status_ = (call);                                                                \
        if (status_ != (expected))                                                                 \
            fail_msg("%s: status %d, expected %d (%s)", #call, status_, expected, err.text);       \
        if (strstr(err.text, part) == NULL)                                                        \
            fail_msg("%s: message \"%s\" does not contain \"%s\"", #call, err.text, part);         \
    } while (0)

/* "<test directory>/<this program>/name"; the directory exists. Static storage, four results stay
 * valid. */
const char *test_path(const char *name);

#endif
