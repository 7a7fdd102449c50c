/* A binary heap of readers, the next one to get a row on top. Inside src/plan; the assigner
 * (assign.c) is the only user. A reader is in a heap once at most. Plain functions;
 * one thread.
 */
#ifndef PENSTOCK_PLAN_READER_HEAP_H
#define PENSTOCK_PLAN_READER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct assigner;

struct reader_heap {
    uint16_t *readers; /* [reader_count] */
    uint16_t *indices; /* [reader_count] of a reader in `readers`; NOWHERE */
    uint32_t count;
    bool (*before)(const struct assigner *assigner, uint32_t a, uint32_t b);
};
enum { NOWHERE = 0xffff };

/* An empty heap, whose arrays the caller frees. False: no memory. */
bool reader_heap_new(struct reader_heap *heap, uint32_t reader_count,
                     bool (*before)(const struct assigner *, uint32_t, uint32_t));

/* To fill an empty heap: readers are appended, then put in order. */
void reader_heap_append(struct reader_heap *heap, uint16_t reader);
void reader_heap_order(const struct assigner *assigner, struct reader_heap *heap);

/* Takes a reader out, if it is there. O(log readers). */
void reader_heap_remove(const struct assigner *assigner, struct reader_heap *heap, uint32_t reader);

/* A reader's key has grown: it comes later, if it is there. O(log readers). */
void reader_heap_lower(const struct assigner *assigner, struct reader_heap *heap, uint32_t reader);

#endif
