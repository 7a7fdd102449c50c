/* Layouts of synthetic datasets that have a room of their own. Internal to cli/. */
#ifndef PENSTOCK_WORKSHOP_SYNTH_SYNTH_LAYOUTS_H
#define PENSTOCK_WORKSHOP_SYNTH_SYNTH_LAYOUTS_H

#include "workshop/synth/synth.h"

/* Adds an array with a random stream of its own; a chunk_length of 0 is the whole array. */
void synth_add_array(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                     struct synth_array array);

/* Samples of unequal lengths: offsets, and items one sample after another. */
void synth_add_events(const struct synth_sizes *sizes, struct synth_dataset *dataset);
void synth_add_csr(const struct synth_sizes *sizes, struct synth_dataset *dataset);
void synth_add_documents(const struct synth_sizes *sizes, struct synth_dataset *dataset);

#endif
