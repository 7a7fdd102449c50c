/* Links: how fast a byte comes from one reader to another, measured once, at the start, for rank
 * 0's choice of ways (plan/ways.h). Main thread only.
 */
#ifndef PENSTOCK_MPI_LINKS_H
#define PENSTOCK_MPI_LINKS_H

#include "job.h"

/* Collective over the pace's communicator: tells rank 0's assigner how long each reader's link
 * takes for a byte, both directions being busy. Moves data for about a fifth of a second, and
 * nothing if all readers share a node. NO_MEMORY, the same on all ranks. */
MUST_USE enum status links_measure(struct job *job, struct error *err);

#endif
