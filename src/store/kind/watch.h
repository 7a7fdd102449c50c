/* Store calls under way: so that a call that does not come back is noticed while it hangs.
 *
 * A thread that waits in the kernel for a dead file server cannot be called back, and says nothing.
 * So a store notes each call here before the call begins, and somebody else (the watchdog of
 * penstock-reader) looks for the call that has been under way for longest. The watch also counts
 * the calls that were tried again.
 *
 * A process has one watch for all its stores. The watch must outlive the stores and the threads
 * that use them. Any thread may call anything but store_watch_free(). No call waits for a store.
 *
 * Noting a call formats nothing, and shares no cache line with threads that note one call at a
 * time: store_watch_oldest() makes the text, of a call that is still under way.
 */
#ifndef PENSTOCK_STORE_KIND_WATCH_H
#define PENSTOCK_STORE_KIND_WATCH_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { STORE_WATCH_PATH_BYTES = 1024 };

struct store_watch;

/* NO_MEMORY. */
MUST_USE enum status store_watch_new(struct store_watch **ret_watch, struct error *err);

/* NULL is fine. */
void store_watch_free(struct store_watch *watch);

/* For stores: notes that a call for `key` (may be "") of the store `uri` begins, and returns the
 * number for store_watch_end(). Borrows both texts until then. While 1024 calls are under way,
 * further calls are not watched. NULL watch: notes nothing. */
int store_watch_begin(struct store_watch *watch, const char *uri, const char *key);

/* For stores: notes that the call has ended. May wait while store_watch_oldest() copies the call's
 * text. NULL watch: does nothing. */
void store_watch_end(struct store_watch *watch, int call);

/* For stores: counts a call that failed with `cause` (copied) and is tried again. NULL watch: does
 * nothing. */
void store_watch_retried(struct store_watch *watch, const struct error *cause);

/* For stores: notes for the log that a store could not work as its options say, and went on in
 * another way. `note` is copied. A note that was not taken yet is kept, and the new one is dropped.
 * NULL watch: does nothing. */
void store_watch_note(struct store_watch *watch, const struct error *note);

/* Takes the note. False: there is none, and *ret_note is untouched. `watch` is not NULL. */
bool store_watch_take_note(struct store_watch *watch, struct error *ret_note);

/* The call that has been under way for longest. */
struct store_watch_call {
    uint64_t number; /* tells calls apart */
    uint64_t age_ns;
    char path[STORE_WATCH_PATH_BYTES]; /* uri and key, cut to fit */
};

/* False: no call is under way, and *ret_call is untouched. `watch` is not NULL. */
bool store_watch_oldest(struct store_watch *watch, struct store_watch_call *ret_call);

/* Returns how often calls were tried again. *ret_last is the cause of the last time; its status is
 * OK while there was none. `watch` is not NULL. */
uint64_t store_watch_retries(struct store_watch *watch, struct error *ret_last);

#endif
