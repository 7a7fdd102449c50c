/* Starts processes of a transform anew from a thread of its own: on a busy machine a start takes
 * milliseconds, and the main thread has messages to move. The thread begins with the first start,
 * and stays, since the processes get a signal when it ends. Main thread only. */
#ifndef PENSTOCK_TRANSFORM_STARTER_H
#define PENSTOCK_TRANSFORM_STARTER_H

#include "transform/process.h"

struct starter;

/* `command` is borrowed. For processes 0 to count - 1. NO_MEMORY. */
MUST_USE enum status starter_new(const struct transform_command *command, uint32_t count,
                                 struct starter **ret_starter, struct error *err);

/* Waits for the start that is under way, and stops what nobody has taken. NULL is fine. */
void starter_free(struct starter *starter);

/* Has process `number` started. IO: there is no thread. */
MUST_USE enum status starter_ask(struct starter *starter, uint32_t number, struct error *err);

/* Whether process `number` was started since it was asked for: taken once. The status of
 * transform_process_start(), in *ret_status and *err. */
bool starter_take(struct starter *starter, uint32_t number, struct transform_process *ret_process,
                  enum status *ret_status, struct error *err);

/* Whether a process was started, and not taken yet. */
bool starter_owns(struct starter *starter, pid_t pid);

#endif
