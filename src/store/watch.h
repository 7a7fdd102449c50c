/* Store calls under way: so that one that does not come back is noticed while it hangs.
 *
 * A thread that waits in the kernel for a dead file server cannot be called back, and says nothing.
 * So each call to a store is noted here before it begins, and somebody else (the watchdog of
 * penstock-reader) looks for the one that has been under way for longest. Here, too, is counted
 * what had to be tried again.
 *
 * One watch for all stores of a process; it must outlive them and the threads that use them. Any
 * thread may call anything. What stores call takes a NULL watch, and does nothing then.
 */
#ifndef PENSTOCK_STORE_WATCH_H
#define PENSTOCK_STORE_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { STORE_WATCH_PATH_BYTES = 1024 };

struct store_watch;

/* NO_MEMORY. */
MUST_USE enum status store_watch_new(struct store_watch **ret_watch, struct error *err);
void store_watch_free(struct store_watch *watch);

/* Notes that a call for `key` (may be "") of the store `uri` begins. Returns what its end is to be
 * told with. Where more calls are under way than a process has threads, one goes unwatched. */
int store_watch_begin(struct store_watch *watch, const char *uri, const char *key);
void store_watch_end(struct store_watch *watch, int call);

/* Counts a call that failed and is tried again. */
void store_watch_retried(struct store_watch *watch, const struct error *cause);

/* Notes what a store could not do as it was asked to, and went on without: for the log. What was
 * not taken yet is kept, the new note is dropped. */
void store_watch_note(struct store_watch *watch, const struct error *note);

/* False if there is nothing new. */
bool store_watch_take_note(struct store_watch *watch, struct error *ret_note);

/* The call that has been under way for longest. */
struct store_watch_call {
    uint64_t number; /* tells calls apart */
    uint64_t age_ns;
    char path[STORE_WATCH_PATH_BYTES]; /* cut to fit */
};

/* False when none is under way. */
bool store_watch_oldest(struct store_watch *watch, struct store_watch_call *ret_call);

/* How often calls were tried again, and why the last time. */
uint64_t store_watch_retries(struct store_watch *watch, struct error *ret_last);

#endif
