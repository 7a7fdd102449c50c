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

/* NULL is fine. */
void panel_free(struct ragged_panel *panel);

/* panel_scan.c: with the offsets of all stores, reads all indices, and makes of these the offsets
 * of the panel, in place, and their lengths in `list`. Blocks on the stores. Errors as of
 * frame_array_read(). */
MUST_USE enum status panel_scan(const struct dataset *dataset, struct ragged_origin *origin,
                                uint64_t *offsets, struct error *err);

#endif
