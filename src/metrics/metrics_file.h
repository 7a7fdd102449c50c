/* The metrics file: a file in the run directory with a reader's last snapshot.
 *
 *     RUN_DIR/reader-3.metrics    | struct metrics_file_head | struct metrics_snapshot |
 *
 * The reader writes the whole page at once. Whoever reads a page while the page is written finds
 * that the checksum does not fit, and reads again. So there is no lock, and nobody who looks on can
 * hold up a reader. The run directory is private to the user. Still, whatever is read is checked.
 */
#ifndef PENSTOCK_METRICS_METRICS_FILE_H
#define PENSTOCK_METRICS_METRICS_FILE_H

#include "base/error.h"
#include "metrics/metrics.h"

struct metrics_file_head {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes;    /* of the snapshot */
    uint64_t checksum; /* XXH3 of the snapshot */
};

/* Opens the page of reader `reader` in the run directory `dir` (borrowed) for writing, and empties
 * the page. *ret_fd is the caller's, to close. IO. */
MUST_USE enum status metrics_file_create(int dir, uint32_t reader, int *ret_fd, struct error *err);

/* Writes a snapshot, with the file system's usual delay at most. A failure is left to whoever reads
 * the page. */
void metrics_file_write(int fd, const struct metrics_snapshot *snapshot);

/* Reads the page of reader `reader`. *ret_snapshot is the caller's, to free. NOT_FOUND: there is no
 * page, or nothing was written yet. UNSUPPORTED: another version of Penstock wrote it. CORRUPT: the
 * page makes no sense, again and again. IO, NO_MEMORY. */
MUST_USE enum status metrics_file_read(int dir, uint32_t reader,
                                       struct metrics_snapshot **ret_snapshot, struct error *err);

/* The same for a page that begins at `offset` of a file (overview.h). The error's message does not
 * name the file. NOT_FOUND: nothing was written there yet. */
void metrics_file_write_at(int fd, uint64_t offset, const struct metrics_snapshot *snapshot);
MUST_USE enum status metrics_file_read_at(int fd, uint64_t offset,
                                          struct metrics_snapshot **ret_snapshot,
                                          struct error *err);

/* The bytes of a snapshot of so many trainers. */
static inline size_t metrics_snapshot_bytes(uint32_t trainer_count)
{
    return sizeof(struct metrics_snapshot) + trainer_count * sizeof(struct metrics_trainer);
}

#endif
