/* Metadata documents of a synthetic dataset, in both Zarr formats. Internal to cli/. */
#ifndef PENSTOCK_WORKSHOP_SYNTH_SYNTH_DOCUMENTS_H
#define PENSTOCK_WORKSHOP_SYNTH_SYNTH_DOCUMENTS_H

#include "base/text.h"
#include "store/store.h"
#include "workshop/synth/synth.h"

/* The array's metadata document (.zarray or zarr.json); `codecs` may be empty. `as_text`: as what
 * array->text says; Penstock's own reader reads the numbers. */
void synth_array_document(const struct synth_array *array, bool as_text, enum zarr_format format,
                          const struct codec_chain *codecs, struct text *out);

/* Writes the mark of a Zarr group; a directory without the mark is no dataset. IO. */
MUST_USE enum status synth_put_group(const struct store *store, enum zarr_format format,
                                     struct error *err);

/* Writes the arrays' documents and, last, the consolidated metadata. documents[i] is arrays[i]'s.
 * IO. */
MUST_USE enum status synth_put_metadata(const struct store *store,
                                        const struct synth_dataset *dataset,
                                        const struct text *documents, struct error *err);

#endif
