/* Starting a program from a process that must not fork(): one with threads, or with MPI. Any
 * thread. */
#ifndef PENSTOCK_BASE_SPAWN_H
#define PENSTOCK_BASE_SPAWN_H

#include <sys/types.h>

/* Starts the program `path` as the leader of a process group of its own, with an empty standard
 * input, no signal blocked, and all signals at their defaults. `words` and `environment` end with
 * NULL. `fd`: the program has it as descriptor `as`; -1: none. Returns 0, or an errno. */
int spawn_program(const char *path, char *const *words, char *const *environment, int fd, int as,
                  pid_t *ret_pid);

#endif
