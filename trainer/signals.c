/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t requested;

static void on_signal(int signal)
{
    requested = signal;
}

void signals_install(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGUSR1, &a, NULL);
    a.sa_flags |= SA_RESETHAND; /* the second one finds the default action */
    sigaction(SIGINT, &a, NULL);
}

int signals_stop_requested(void)
{
    return requested;
}

const char *signals_name(int signal)
{
    return signal == SIGTERM ? "SIGTERM" : signal == SIGUSR1 ? "SIGUSR1" : "SIGINT";
}
