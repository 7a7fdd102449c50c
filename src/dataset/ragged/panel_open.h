/* Opening panels: which columns they list. Called while opening, by one thread. Inside src/dataset.
 */
#ifndef PENSTOCK_DATASET_RAGGED_PANEL_OPEN_H
#define PENSTOCK_DATASET_RAGGED_PANEL_OPEN_H

#include "dataset/panel.h"

/* Settles the panel of a field, which has one, and the shape of its tensor. Names are looked up in
 * the first store, and have to be at the same columns in the others. INVALID: no such column, one
 * twice, none; other names in other stores; a tensor of another shape. NOT_FOUND: an unknown name;
 * the message says which is nearest. Other errors as of panel_names_read(). */
MUST_USE enum status panel_settle(const struct dataset *dataset,
                                  const struct dataset_options *options,
                                  struct ragged_origin *origin, struct error *err);

/* The memory that all panels of a dataset take in each process. Pure. */
size_t panels_bytes(const struct dataset *dataset);

/* NULL is fine. */
void panel_free(struct ragged_panel *panel);

/* panel_scan.c: with the offsets of all stores, reads all indices, and makes of these the offsets
 * of the panel, in place. Blocks on the stores. Errors as of frame_array_read(). */
MUST_USE enum status panel_scan(const struct dataset *dataset, struct ragged_origin *origin,
                                uint64_t *offsets, struct error *err);

/* panel_scan.c: the offsets of the panel, as scanned: [entry_count + 1]. False: the lengths are not
 * of so many entries. Pure. */
bool panel_take_offsets(const struct ragged_panel *panel, uint64_t entry_count, uint64_t *offsets);

#endif
