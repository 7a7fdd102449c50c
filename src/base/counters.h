/* Counters of a reader: one table. A row makes the counter a member of the struct of whoever counts
 * it, and of struct metrics_values (metrics/metrics.h), which Prometheus, `penstock top` and the
 * report show:
 *
 *     READ     by a worker that reads       struct zarr_read_stats
 *     WORK     by a worker's other tasks    struct pool_stats, which has struct zarr_read_stats
 *     EPOCH    by the main thread           struct epoch_stats, which has struct pool_stats
 *     OTHER    by others, whom mpi/account/meter.c asks
 *
 * These structs have members of uint64_t alone, and are added up word by word. So a counter that
 * the world does not see is a plain member of its struct. A struct of counters is its owner's
 * alone: others see copies.
 */
#ifndef PENSTOCK_BASE_COUNTERS_H
#define PENSTOCK_BASE_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

/* The columns are those of METRICS_TABLE, and so is the order: metrics files have it. */
#define COUNTER_TABLE(READ, WORK, EPOCH, OTHER)                                                   \
    EPOCH("samples_delivered_total", samples, COUNTER, COUNT, "",                                 \
          "samples that this reader's trainers were given: batches that are released (with "      \
          "batch.budget about right within an epoch, in a mix within a pass)",                    \
          "the tally")                                                                            \
    OTHER("steps_published_total", steps_published, COUNTER, COUNT, "",                           \
          "steps whose batches this reader's trainers could take", "rounds")                      \
    OTHER("bad_samples_total", bad_samples, COUNTER, COUNT, "",                                   \
          "samples that could not be read and were masked; of all readers, at reader 0", "masks") \
    EPOCH("blocked_seconds_total", blocked_storage_ns, COUNTER, NS, "on=\"storage\"",             \
          "time in which the next round waited; storage: for reads of the store", "books")        \
    EPOCH("blocked_seconds_total", blocked_decode_ns, COUNTER, NS, "on=\"decode\"",               \
          "for workers that decode", "books")                                                     \
    OTHER("blocked_seconds_total", blocked_memory_ns, COUNTER, NS, "on=\"memory\"",               \
          "for copies to slots and messages", "books")                                            \
    OTHER("blocked_seconds_total", blocked_network_ns, COUNTER, NS, "on=\"network\"",             \
          "for other readers: their messages, or their rows", "books")                            \
    OTHER("blocked_seconds_total", blocked_transform_ns, COUNTER, NS, "on=\"transform\"",         \
          "for processes of delivery.transform", "books")                                         \
    OTHER("blocked_seconds_total", blocked_trainers_ns, COUNTER, NS, "on=\"trainers\"",           \
          "for trainers to release batches: data is ready", "books")                              \
    OTHER("blocked_seconds_total", blocked_planning_ns, COUNTER, NS, "on=\"planning\"",           \
          "for planning, or reader 0's assignment of rows", "books")                              \
    OTHER("transform_seconds_total", transform_ns, COUNTER, NS, "",                               \
          "time of the processes of delivery.transform with batches, of all together",            \
          "processes")                                                                            \
    READ("store_read_bytes_total", stored_bytes, COUNTER, BYTES, "", "bytes read from the store", \
         "workers")                                                                               \
    READ("store_read_seconds_total", read_ns, COUNTER, NS, "",                                    \
         "time of workers in reads of the store and its caches, of all together; what "           \
         "remote stores send before a worker asks takes no worker's time",                        \
         "workers")                                                                               \
    OTHER("store_retries_total", store_retries, COUNTER, COUNT, "",                               \
          "requests to the store that were tried again", "the store's watch")                     \
    READ("cache_read_bytes_total", memory_bytes, COUNTER, BYTES, "tier=\"memory\"",               \
         "stored bytes that came from a cache; memory: from rows kept as stored", "workers")      \
    READ("cache_read_bytes_total", disk_bytes, COUNTER, BYTES, "tier=\"disk\"",                   \
         "from the node's disk cache", "workers")                                                 \
    EPOCH("rows_read_total", rows_read, COUNTER, COUNT, "",                                       \
          "rows read from the store or the disk cache, once their epoch is delivered", "windows") \
    READ("decoded_bytes_total", decoded_bytes, COUNTER, BYTES, "", "bytes decoded to rows",       \
         "workers")                                                                               \
    READ("decode_seconds_total", decode_ns, COUNTER, NS, "",                                      \
         "time of workers in codecs and conversions, of all together", "workers")                 \
    WORK("copy_seconds_total", copy_ns, COUNTER, NS, "",                                          \
         "time of workers in copies to slots and messages, of all together", "workers")           \
    EPOCH("plan_seconds_total", plan_ns, COUNTER, NS, "",                                         \
          "time of workers in planning rounds, of all together", "rounds")                        \
    EPOCH("exchange_sent_bytes_total", sent_bytes, COUNTER, BYTES, "",                            \
          "bytes sent to other readers", "rounds")                                                \
    EPOCH("exchange_seconds_total", exchange_ns, COUNTER, NS, "",                                 \
          "time of the main thread inside MPI's exchange calls", "rounds")                        \
    OTHER("cpu_seconds_total", cpu_ns, COUNTER, NS, "",                                           \
          "processor time of the reader, all threads", "the system")

/* For tables with these columns. */
#define COUNTER_MEMBER(name, member, ...) uint64_t member;
#define COUNTER_NONE(...)

/* Adds the counters of `more`, or takes them away: structs of one type, of so many bytes. */
static inline void counters_add(void *sum, const void *more, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        ((uint64_t *)sum)[i] += ((const uint64_t *)more)[i];
}
static inline void counters_subtract(void *sum, const void *less, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        ((uint64_t *)sum)[i] -= ((const uint64_t *)less)[i];
}

#endif
