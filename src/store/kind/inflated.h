/* Inflated values: memory in which deflated values of zip archives, and manifests of Icechunk
 * repositories, lie whole while parts of them are read. A value is known by an address, `of`. All
 * that is there together takes no more than callers have reserved; a value that needs more alone is
 * there alone. A value that is read by several threads at once is inflated once. A value stays
 * until its memory is wanted for another one, that of the longest unused value first.
 *
 * The stores of a joined store share one. Any thread; calls that wait say so. Inside src/store.
 */
#ifndef PENSTOCK_STORE_KIND_INFLATED_H
#define PENSTOCK_STORE_KIND_INFLATED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct inflated;

/* Makes one without any memory; its only holder is the caller. NULL: no memory. */
struct inflated *inflated_new(void);

/* Makes *own the same as `with`, which has one holder more then, and frees what *own was. `with`
 * has reserved as much as either had, since it is one memory now. Nobody reads yet. */
void inflated_join(struct inflated **own, struct inflated *with);

/* One holder less; the last one frees all values. NULL is fine. */
void inflated_free(struct inflated *inflated);

/* Changes how many bytes may be taken. What is unused beyond them is freed. */
void inflated_reserve(struct inflated *inflated, int64_t bytes);

/* Writes the value to `memory`, [bytes]. */
typedef enum status inflated_make(void *context, void *memory, struct error *err);

/* Pins the value `of`, of `bytes` bytes, which make() makes if the value is not there, with
 * `more` bytes meanwhile. Waits while another thread makes the value, or has the memory. The caller
 * must have nothing pinned. *ret_value is borrowed until inflated_unpin(). NO_MEMORY, and errors of
 * make(). */
MUST_USE enum status inflated_pin(struct inflated *inflated, const void *of, uint64_t bytes,
                                  uint64_t more, inflated_make *make, void *context,
                                  const unsigned char **ret_value, struct error *err);

void inflated_unpin(struct inflated *inflated, const void *of);

/* Pins the value if it is there. NULL: it is not. Does not wait. */
const unsigned char *inflated_find(struct inflated *inflated, const void *of);

/* Pins the value if it is there. NULL: it is not; `bytes` are taken instead, as pinning would, for
 * inflated_give_back(). Waits for memory, but not for a value that is being made. */
const unsigned char *inflated_find_or_take(struct inflated *inflated, const void *of,
                                           uint64_t bytes);
void inflated_give_back(struct inflated *inflated, uint64_t bytes);

#endif
