/* A trainer's cursor in a file that outlives it, so that a process that comes fresh instead
 * goes on behind the last batch that was released, even if trainers and readers die in one instant.
 *
 * A supervisor names the files (PENSTOCK_CURSORS), new ones for each run; without it there are
 * none. The file is mapped, and the cursor one aligned word that is stored whenever a batch is
 * released: no system call, and never half written. It survives the process, not the node.
 *
 *     PREFIX<rank>   | magic | struct order | steps per epoch | cursor |
 */
#ifndef PENSTOCK_CLIENT_CURSOR_FILE_H
#define PENSTOCK_CLIENT_CURSOR_FILE_H

#include "delivery/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct cursor_file;

/* Reads what a trainer of that rank has left, when it is dead (five seconds at most are waited for
 * that): of *ret_service the members that tell runs apart.
 * False: nothing, or nothing that makes sense. */
bool cursor_file_read(const char *prefix, uint32_t rank, struct ring_service *ret_service,
                      uint64_t *ret_cursor);

/* Makes the file, or takes it over, waiting likewise; NULL where that fails: then there is none.
 */
struct cursor_file *cursor_file_open(const char *prefix, uint32_t rank,
                                     const struct ring_service *service, uint64_t cursor);

/* Every batch before `cursor` has been released; a lesser cursor than before changes nothing. Any
 * thread. NULL is fine here and below. */
void cursor_file_note(struct cursor_file *file, uint64_t cursor);

/* Removes the file, of a trainer that is about to say goodbye: that is remembered elsewhere. */
void cursor_file_remove(struct cursor_file *file);

/* Frees it, and leaves the file. */
void cursor_file_close(struct cursor_file *file);

#endif
