/* Memory that two processes share is a memfd of sealed size: without the seals one could shrink it
 * under the other's feet, which is SIGBUS. Any thread. */
#ifndef PENSTOCK_DELIVERY_SEALED_H
#define PENSTOCK_DELIVERY_SEALED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Seals a memfd that allows it, which has its size. IO. */
MUST_USE enum status sealed_make(int memfd, struct error *err);

/* Whether a descriptor that came from elsewhere is such memory, and of how many bytes. */
bool sealed_check(int memfd, uint64_t *ret_bytes);

#endif
