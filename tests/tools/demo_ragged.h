/* The ragged fields of demo-server. */
#ifndef PENSTOCK_TESTS_DEMO_RAGGED_H
#define PENSTOCK_TESTS_DEMO_RAGGED_H

#include "delivery/ring/layout.h"

/* Puts fields into a layout that has its batch_size: events, with as many steps, label and points.
 */
void demo_describe_ragged(struct ring_layout *layout, uint64_t steps);

/* The same with label, name and raw. */
void demo_describe_strings(struct ring_layout *layout);

/* Fills the fields of a slot for samples of these indices. */
void demo_fill_ragged(const struct ring_layout *layout, uint64_t steps, unsigned char *slot,
                      const uint64_t *indices, uint32_t count);
void demo_fill_strings(const struct ring_layout *layout, unsigned char *slot,
                       const uint64_t *indices, uint32_t count);

#endif
