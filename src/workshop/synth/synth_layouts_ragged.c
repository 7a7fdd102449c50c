/* Which arrays datasets of unequal lengths have. */
#include "workshop/synth/synth_layouts.h"

#include <inttypes.h>
#include <stdio.h>

static void add_offsets(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                        const char *name, bool long_tail)
{
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = name,
                                         .dtype = DTYPE_INT64,
                                         .rank = 1,
                                         .shape = {sizes->samples + 1},
                                         .chunk_length = 65536,
                                         .range = sizes->samples * sizes->items,
                                         .long_tail = long_tail,
                                         .fill = synth_fill_offset});
}

/* An array of items: values are below `side`. */
static void add_items(const struct synth_sizes *sizes, struct synth_dataset *dataset,
                      const char *name, enum dtype dtype, uint64_t side, bool long_tail,
                      synth_fill *fill)
{
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = name,
                                         .dtype = dtype,
                                         .rank = 1,
                                         .shape = {sizes->samples * sizes->items},
                                         .chunk_length = sizes->chunk,
                                         .range = sizes->samples,
                                         .side = side,
                                         .long_tail = long_tail,
                                         .fill = fill});
}

void synth_add_events(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    add_offsets(sizes, dataset, "events/offsets", true);
    add_items(sizes, dataset, "events/bin", DTYPE_UINT16, sizes->shape[0], true,
              synth_fill_event_bin);
    add_items(sizes, dataset, "events/y", DTYPE_UINT16, sizes->shape[1], true,
              synth_fill_event_coordinate);
    add_items(sizes, dataset, "events/x", DTYPE_UINT16, sizes->shape[2], true,
              synth_fill_event_coordinate);
    add_items(sizes, dataset, "events/count", DTYPE_UINT8, 0, true, synth_fill_event_count);
    synth_add_array(sizes, dataset,
                    (struct synth_array){.name = "label",
                                         .dtype = DTYPE_INT64,
                                         .rank = 1,
                                         .shape = {sizes->samples},
                                         .chunk_length = 65536,
                                         .fill = synth_fill_label});
}

void synth_add_csr(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    snprintf(dataset->group_attributes, sizeof dataset->group_attributes,
             "{\"encoding-type\": \"csr_matrix\", \"encoding-version\": \"0.1.0\", \"shape\": "
             "[%" PRIu64 ", %" PRIu64 "]}",
             sizes->samples, sizes->shape[0]);
    add_offsets(sizes, dataset, "X/indptr", false);
    add_items(sizes, dataset, "X/indices", DTYPE_INT32, sizes->shape[0], false, synth_fill_gene);
    add_items(sizes, dataset, "X/data", DTYPE_FLOAT32, 0, false, synth_fill_expression);
}

void synth_add_documents(const struct synth_sizes *sizes, struct synth_dataset *dataset)
{
    add_offsets(sizes, dataset, "tokens/offsets", true);
    add_items(sizes, dataset, "tokens/values", DTYPE_UINT16, 0, true, synth_fill_tokens);
}
