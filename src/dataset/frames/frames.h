/* What stores say of frames, as opening asks for it. By one thread, which has others beside it
 * while it reads. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FRAMES_FRAMES_H
#define PENSTOCK_DATASET_FRAMES_FRAMES_H

#include "dataset/dataset_internal.h"

/* align.c: finds the elements that frames of aligned fields have, unless they are known. Blocks on
 * the store. INVALID: coordinates that cannot be compared, or that do not rise. Errors as of
 * frame_coordinate_open() and frame_array_read(). */
MUST_USE enum status align_settle(struct dataset *dataset, struct error *err);

/* samples.c: reads the arrays that the spec names, and makes the anchors, if the spec or any field
 * asks for them. Blocks on the store. Errors as of dataset_open(). */
MUST_USE enum status samples_settle(struct dataset *dataset, const struct dataset_options *options,
                                    struct error *err);

/* time_doubts.c: appends a line where the sample axis has a coordinate of times that jumps: a
 * warning if samples go across, a note if only samples of several steps would. Without such a
 * coordinate, or where it cannot be read: nothing. Blocks on the store. */
void time_doubts_describe(const struct dataset *dataset, struct text *out);

#endif
