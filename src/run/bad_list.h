/* The list of a run's bad chunks, each chunk once, and the check that they are not too many.
 *
 * A file of JSON lines, replaced as a whole (base/file.h), so that it can be read at any time:
 *
 *     {"dataset":"1f0c94d33ac07e52","array":"images","chunk":"3.0.0","samples":[48,64],
 *      "reader":1,"node":"n2","error":"array 'images' chunk 3.0.0: ..."}        (on one line)
 *
 * `samples` is [first, end). With a mix, "source" follows the dataset: the number of the source
 * that the samples are of. Lines of the same dataset that the file holds already are kept and not
 * repeated: a run that is started again, or resumed, adds to the list. Chunks of earlier runs do
 * not count.
 *
 * Memory grows with what is found, within the bound on samples and BAD_LIST_MAX_BYTES. One
 * thread.
 */
#ifndef PENSTOCK_RUN_BAD_LIST_H
#define PENSTOCK_RUN_BAD_LIST_H

#include "base/error.h"
#include "dataset/read/bad_log.h"

#include <stdint.h>

enum { BAD_LIST_MAX_BYTES = 64 << 20 };

struct bad_list;

/* With `path` "" chunks are counted and not listed. Reads the file if there is one. IO: it cannot
 * be read, or the folder not be written to. INVALID: it is longer than the bound. NO_MEMORY. */
MUST_USE enum status bad_list_new(const char *path, uint64_t fingerprint, uint64_t max_samples,
                                  struct bad_list **ret_list, struct error *err);
void bad_list_free(struct bad_list *list);

/* Adds a chunk that `reader` on `node` has found, if it is new. The chunk's own status: with it
 * there are more bad samples than max_samples, or the list is full; the message has its cause, and
 * names the option. */
MUST_USE enum status bad_list_add(struct bad_list *list, const struct bad_chunk *bad, int reader,
                                  const char *node, struct error *err);

/* Distinct bad samples so far. */
uint64_t bad_list_samples(const struct bad_list *list);

/* Writes the file if anything is new, and the first time. Blocks on the disk. IO. */
MUST_USE enum status bad_list_write(struct bad_list *list, struct error *err);

#endif
