/* Sample digests: one line a sample, `epoch step position index digest`.
 *
 * The digest is XXH3-64 over the sample's field bytes as delivered, fields in order of name, in 16
 * hex digits. Of a ragged field the sample's own items count, and of offsets its own lengths, as
 * int64. The position is the sample's within the global batch of its step. Lines of runs of
 * any shape can be sorted, merged and compared.
 */
#ifndef PENSTOCK_TRAINER_DIGEST_H
#define PENSTOCK_TRAINER_DIGEST_H

#include "penstock.h"

#include <stdbool.h>

struct digest;

/* Creates the file, or empties it. `padding`: also writes samples that only fill the last step. The
 * result is the caller's, for digest_close(). NULL, with errno set: the file cannot be opened. */
struct digest *digest_open(const char *path, bool padding);

/* Writes a batch's lines. When it returns, the lines are in the file, even if the process is
 * killed. False, with errno set: the file cannot be written. */
bool digest_batch(struct digest *digest, const struct penstock_info *info,
                  const struct penstock_batch *batch);

/* Closes the file. False, with errno set: some lines could not be written, now or before. NULL is
 * fine. */
bool digest_close(struct digest *digest);

#endif
