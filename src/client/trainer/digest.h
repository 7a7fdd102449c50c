/* Sample digests: one line a sample, `epoch step position index digest`.
 *
 * The digest is XXH3-64 over the sample's field bytes as delivered, fields in order of name, as 16
 * hex digits; the position is the one within the global batch. Lines of runs of any shape can be
 * sorted, merged and compared.
 */
#ifndef PENSTOCK_TRAINER_DIGEST_H
#define PENSTOCK_TRAINER_DIGEST_H

#include "penstock.h"

#include <stdbool.h>

struct digest;

/* Creates or empties the file. `padding`: write samples that only pad the last step, too. NULL with
 * errno set on failure. */
struct digest *digest_open(const char *path, bool padding);

/* Once it returns, the batch's lines are in the file, even if the process is killed. False, with
 * errno set, when the file cannot be written. */
bool digest_batch(struct digest *digest, const struct penstock_info *info,
                  const struct penstock_batch *batch);

/* Closes the file; false, with errno set, when something did not get there, now or before. NULL is
 * fine. */
bool digest_close(struct digest *digest);

#endif
