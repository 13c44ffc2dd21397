/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tok_round_trip.h"

#include <stdlib.h>

void tok_round_trip(const struct tok *t)
{
    struct buf blob = {0};
    struct tok *copy;
    ft_error err;
    if (tok_to_blob(&blob, t, &err) != FT_OK ||
        tok_from_blob(&copy, "again", buf_view(&blob), &err) != FT_OK)
        abort();
    if (!hash128_eq(tok_fingerprint(t), tok_fingerprint(copy)))
        abort();
    tok_close(copy);
    buf_free(&blob);
}
