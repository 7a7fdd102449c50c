/* A trainer's cursor in a file that outlives the trainer. A fresh process of the same rank goes on
 * behind the last batch that the dead one released, even if trainers and readers die at the same
 * moment.
 *
 * A supervisor names the files (PENSTOCK_CURSORS), with new names for each run. Without
 * PENSTOCK_CURSORS there are no files. The file is mapped, and the cursor is one aligned word that
 * is stored at each release: without a system call, and never half written. The file survives the
 * process, but not the node.
 *
 *     PREFIX<rank>   | magic | struct order | steps per epoch | cursor |
 */
#ifndef PENSTOCK_DELIVERY_CLIENT_CURSOR_FILE_H
#define PENSTOCK_DELIVERY_CLIENT_CURSOR_FILE_H

#include "delivery/ring/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct cursor_file;

/* Waits until the process that has the file of rank `rank` open is dead, or until `until_ns`
 * (clock_now_ns()). False: it lives. True: nobody has the file, or there is none. */
bool cursor_file_await(const char *prefix, uint32_t rank, uint64_t until_ns);

/* Reads the file of rank `rank`. *ret_service gets `steps_per_epoch` and `order`; its other members
 * are 0. False: there is no file, or the file makes no sense. */
bool cursor_file_read(const char *prefix, uint32_t rank, struct ring_service *ret_service,
                      uint64_t *ret_cursor);

/* Makes the file, or takes it over, and stores `cursor`. The result is the caller's, for
 * cursor_file_close(). NULL: the file cannot be made, and the trainer goes on without. */
struct cursor_file *cursor_file_open(const char *prefix, uint32_t rank,
                                     const struct ring_service *service, uint64_t cursor);

/* Stores `cursor`: the trainer has released every batch before it. A lesser cursor than before
 * changes nothing. Any thread; the other functions are for one thread. NULL is fine here and below.
 */
void cursor_file_note(struct cursor_file *file, uint64_t cursor);

/* Removes the file. For a trainer that is about to say goodbye: its readers remember the goodbye.
 */
void cursor_file_remove(struct cursor_file *file);

/* Frees `file`. The file on disk stays, unless it was removed. */
void cursor_file_close(struct cursor_file *file);

#endif
