/* SPDX-License-Identifier: Apache-2.0
 * Requests to stop. SIGTERM, SIGINT and SIGUSR1 ask for the present step to be finished and saved;
 * a second SIGINT ends the process at once. */
#ifndef TRAINER_SIGNALS_H
#define TRAINER_SIGNALS_H

void signals_install(void);
/* The signal that asked, 0 when none did. */
int signals_stop_requested(void);
const char *signals_name(int signal); /* "SIGTERM" */

#endif
