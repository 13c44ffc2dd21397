/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stop.h"

static atomic_bool requested;

static void request_stop(int signal_number)
{
    (void)signal_number;
    atomic_store(&requested, true);
}

void stop_catch(struct stop *s)
{
    struct sigaction action = {.sa_handler = request_stop, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    atomic_store(&requested, false);
    sigaction(SIGINT, &action, &s->saved[0]);
    sigaction(SIGTERM, &action, &s->saved[1]);
}

void stop_restore(const struct stop *s)
{
    sigaction(SIGINT, &s->saved[0], NULL);
    sigaction(SIGTERM, &s->saved[1], NULL);
}

const atomic_bool *stop_flag(void)
{
    return &requested;
}

ft_status stop_check_flag(const atomic_bool *flag, ft_error *err)
{
    if (!atomic_load(flag))
        return FT_OK;
    return ft_fail(err, FT_ESTOP, "stopped on request; nothing was written");
}

ft_status stop_check(ft_error *err)
{
    return stop_check_flag(&requested, err);
}
