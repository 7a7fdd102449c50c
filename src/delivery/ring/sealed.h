/* Two processes share memory as a memfd whose size is sealed. Without seals one process could
 * shrink the memory, and the other would get SIGBUS. Any thread; descriptors are borrowed. */
#ifndef PENSTOCK_DELIVERY_RING_SEALED_H
#define PENSTOCK_DELIVERY_RING_SEALED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Seals the size of a memfd, which was created with MFD_ALLOW_SEALING and has its final size. IO:
 * the kernel refuses. */
MUST_USE enum status sealed_make(int memfd, struct error *err);

/* Whether a descriptor of another process is a memfd with these seals. If so, *ret_bytes is its
 * size. */
bool sealed_check(int memfd, uint64_t *ret_bytes);

/* The same for memory that nobody can write to any more, either. It may be mapped nowhere for
 * writing by now. */
MUST_USE enum status sealed_make_constant(int memfd, struct error *err);
bool sealed_is_constant(int memfd, uint64_t *ret_bytes);

#endif
