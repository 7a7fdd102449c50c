/* One slab of a target: read from the targets' source, hashed, encoded, written, read back. A
 * writer has one thread's readers and buffers, for one array at a time. */
#ifndef PENSTOCK_WORKSHOP_MAKING_SLAB_WRITER_H
#define PENSTOCK_WORKSHOP_MAKING_SLAB_WRITER_H

#include "base/error.h"
#include "scan/digest.h"
#include "store/store.h"
#include "workshop/making/targets.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory of a thread beside its slab. */
uint64_t target_thread_bytes(const struct targets *targets, const struct target *target,
                             bool verify);

/* `destination` NULL: nothing is written, for slab_encode(). All is borrowed. */
struct slab_writer;
MUST_USE enum status slab_writer_new(const struct store *destination, const struct targets *targets,
                                     uint64_t slab_bytes, bool verify,
                                     struct slab_writer **ret_writer, struct error *err);
void slab_writer_free(struct slab_writer *writer);

/* What a slab takes. */
struct slab_bytes {
    uint64_t decoded, stored;
};

/* Reads slab `number` from the source, writes its values, and reads them back where that is wanted.
 */
MUST_USE enum status slab_write(struct slab_writer *writer, uint64_t number,
                                struct digest_sum *ret_sum, struct slab_bytes *ret_bytes,
                                struct error *err);

/* The two halves of slab_write() alone, for benchmarks: reading into `samples`, and encoding from
 * `samples` without writing. */
MUST_USE enum status slab_read(struct slab_writer *writer, uint64_t number, void *samples,
                               struct error *err);
MUST_USE enum status slab_encode(struct slab_writer *writer, uint64_t number, const void *samples,
                                 struct error *err);

/* Whether the destination's slab reads as `sum`. False, too, if reading fails. */
bool slab_is_written(struct slab_writer *writer, uint64_t number, const struct digest_sum *sum);

#endif
