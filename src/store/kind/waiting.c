/* Threads that must not wait for a store. */
#include "store/kind/store_internal.h"

#include <assert.h>

static _Thread_local bool waiting_is_forbidden;

void store_forbid_waiting(bool forbidden)
{
    waiting_is_forbidden = forbidden;
}

void store_may_wait(void)
{
    assert(!waiting_is_forbidden);
}
