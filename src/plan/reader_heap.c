/* See reader_heap.h. */
#include "plan/reader_heap.h"

#include <stdlib.h>
#include <string.h>

bool reader_heap_new(struct reader_heap *heap, uint32_t reader_count,
                     bool (*before)(const struct assigner *, uint32_t, uint32_t))
{
    heap->before = before;
    heap->readers = malloc(reader_count * sizeof *heap->readers);
    heap->indices = malloc(reader_count * sizeof *heap->indices);
    if (heap->indices)
        memset(heap->indices, 0xff, reader_count * sizeof *heap->indices); /* NOWHERE */
    return heap->readers && heap->indices;
}

static void heap_put(struct reader_heap *heap, uint32_t index, uint16_t reader)
{
    heap->readers[index] = reader;
    heap->indices[reader] = (uint16_t)index;
}

static void sift_down(const struct assigner *assigner, struct reader_heap *heap, uint32_t at)
{
    uint16_t reader = heap->readers[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->before(assigner, heap->readers[child + 1], heap->readers[child]))
            child++;
        if (!heap->before(assigner, heap->readers[child], reader))
            break;
        heap_put(heap, at, heap->readers[child]);
        at = child;
    }
    heap_put(heap, at, reader);
}

static void sift_up(const struct assigner *assigner, struct reader_heap *heap, uint32_t at)
{
    uint16_t reader = heap->readers[at];
    while (at > 0 && heap->before(assigner, reader, heap->readers[(at - 1) / 2])) {
        heap_put(heap, at, heap->readers[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(heap, at, reader);
}

void reader_heap_remove(const struct assigner *assigner, struct reader_heap *heap, uint32_t reader)
{
    uint32_t at = heap->indices[reader];
    if (at == NOWHERE)
        return;
    heap->indices[reader] = NOWHERE;
    uint16_t last = heap->readers[--heap->count];
    if (last == reader)
        return;
    heap_put(heap, at, last);
    sift_up(assigner, heap, at);
    sift_down(assigner, heap, heap->indices[last]);
}

void reader_heap_lower(const struct assigner *assigner, struct reader_heap *heap, uint32_t reader)
{
    if (heap->indices[reader] != NOWHERE)
        sift_down(assigner, heap, heap->indices[reader]);
}

void reader_heap_append(struct reader_heap *heap, uint16_t reader)
{
    heap_put(heap, heap->count++, reader);
}

void reader_heap_order(const struct assigner *assigner, struct reader_heap *heap)
{
    for (uint32_t i = heap->count / 2; i-- > 0;)
        sift_down(assigner, heap, i);
}
