/* A trainer's place in a file that outlives it, so that a process that comes fresh instead
 * goes on behind the last batch that was released, even if trainers and readers die in one instant.
 *
 * A supervisor names the files (PENSTOCK_PLACES), new ones for each run; without it there are none.
 * The file is mapped, and the place one aligned word that is stored whenever a batch is released:
 * no system call, and never half written. It survives the process, not the node.
 *
 *     PREFIX<rank>   | magic | struct order | steps per epoch | place |
 */
#ifndef PENSTOCK_CLIENT_KEPT_PLACE_H
#define PENSTOCK_CLIENT_KEPT_PLACE_H

#include "delivery/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct kept_place;

/* Reads what a trainer of that rank has left, when it is dead (five seconds at most are waited for
 * that): of *ret_service the members that tell runs apart.
 * False: nothing, or nothing that makes sense. */
bool kept_place_read(const char *prefix, uint32_t rank, struct ring_service *ret_service,
                     uint64_t *ret_place);

/* Makes the file, or takes it over, waiting likewise; NULL where that fails: then there is none.
 */
struct kept_place *kept_place_open(const char *prefix, uint32_t rank,
                                   const struct ring_service *service, uint64_t place);

/* Every batch before `place` has been released; a lesser place than before changes nothing. Any
 * thread. NULL is fine here and below. */
void kept_place_note(struct kept_place *kept, uint64_t place);

/* Removes the file, of a trainer that is about to say goodbye: that is remembered elsewhere. */
void kept_place_remove(struct kept_place *kept);

/* Frees it, and leaves the file. */
void kept_place_close(struct kept_place *kept);

#endif
