/* What becomes of a sample at which the transform fails, with errors.bad_sample: mask: `valid` 0,
 * and zeros in all fields that come from rows or from the transform, as of a sample that cannot be
 * read. It is listed as a chunk of the array "delivery.transform". Main thread only.
 */
#ifndef PENSTOCK_TRANSFORM_MASK_H
#define PENSTOCK_TRANSFORM_MASK_H

#include "base/error.h"
#include "dataset/read/bad_log.h"
#include "delivery/ring/layout.h"

/* Zero: nothing is masked. */
struct mask_rule {
    struct bad_log *log; /* borrowed; NULL: a sample that fails ends the run */
    uint64_t fields;     /* bit f: field f of the ring becomes zeros */
    uint32_t has_source; /* of a mix: */
    uint32_t source;     /* the field that says which source a sample is of */
};

/* Lists a sample of a slot, with what the transform said, `cause`. NO_MEMORY: too many wait to be
 * listed; the message has the cause. */
MUST_USE enum status mask_list(const struct mask_rule *rule, const struct ring_layout *layout,
                               const unsigned char *slot, uint32_t sample,
                               const struct error *cause, struct error *err);

/* Masks a sample of a slot. What the slot says of items may be nonsense: others write there. */
void mask_sample(const struct mask_rule *rule, const struct ring_layout *layout,
                 unsigned char *slot, uint32_t sample);

#endif
