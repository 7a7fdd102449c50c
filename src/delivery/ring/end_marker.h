/* Word that every batch of a run was delivered, for a trainer that comes when its readers have
 * left: its process before was killed after its goodbye.
 *
 * The word is an empty file PREFIXend, beside the cursor files of the run
 * (delivery/client/cursor_file.h): PREFIX is PENSTOCK_CURSORS, which a supervisor names for each
 * run anew. The supervisor removes the file. Any thread. */
#ifndef PENSTOCK_DELIVERY_RING_END_MARKER_H
#define PENSTOCK_DELIVERY_RING_END_MARKER_H

#include <stdbool.h>

/* For a reader whose trainers all have their last batch. Without the file, as on a full disk, such
 * a trainer looks for readers until its timeout. `prefix` NULL: there are no such files. */
void end_marker_make(const char *prefix);

/* Whether the file is there. `prefix` as above. */
bool end_marker_found(const char *prefix);

#endif
