/* Wake-ups between two processes: an eventfd, which one reads and polls, and the other one writes.
 * ring.h tells when. Any thread.
 */
#ifndef PENSTOCK_DELIVERY_WAKEUP_H
#define PENSTOCK_DELIVERY_WAKEUP_H

#include "base/error.h"

#include <stdbool.h>

/* A non-blocking one. IO. */
MUST_USE enum status wakeup_new(int *ret_fd, struct error *err);

/* Whether a descriptor that came from elsewhere is such a one. */
bool wakeup_check(int fd);

void wakeup_signal(int fd);

/* Takes what has been signalled; nothing is fine. */
void wakeup_drain(int fd);

#endif
