/* Frames that cannot be read, and the samples that touch them. Any thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_READ_BAD_FRAMES_H
#define PENSTOCK_DATASET_READ_BAD_FRAMES_H

#include "dataset/read/row_walk.h"

/* Counts missing chunks of a field, or of the ragged field number `ragged`. */
void note_filled(const struct dataset *dataset, size_t field, uint64_t count);
void note_filled_ragged(const struct dataset *dataset, size_t ragged, uint64_t count);

/* Marks the samples of a row bad that touch the frames [begin, end) of the row field `field`, which
 * leads. `valid` has a byte for each frame of the row. */
void mark_touching(const struct dataset *dataset, const struct row_walk *row, size_t field,
                   uint64_t begin, uint64_t end, unsigned char *valid);

/* Marks the samples of a row bad that touch a frame of a ragged field. */
void mark_ragged(const struct dataset *dataset, const struct row_walk *row, size_t ragged,
                 uint64_t frame, unsigned char *valid);

#endif
