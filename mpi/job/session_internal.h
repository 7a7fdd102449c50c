/* For the job's own files; session.h is for others. Main thread only. Where a function is
 * collective, all ranks return the same status and error. */
#ifndef PENSTOCK_MPI_JOB_SESSION_INTERNAL_H
#define PENSTOCK_MPI_JOB_SESSION_INTERNAL_H

#include "job/job_internal.h"
#include "job/session.h"

/* job_children.c. Looks at this reader's children, and starts failed ones again if they may be.
 * LOST: a child failed for good; the message says how. */
MUST_USE enum status session_look_after_children(struct session *session, struct error *err);

/* session_attendance.c. One look at sockets and children before the trainers are gathered, with a
 * sign of life for trainers that are there already. To be called a few times a second while
 * something else takes long. Errors as session_gather(), of this reader alone. */
MUST_USE enum status session_keep_trainers(struct session *session, struct error *err);

/* Collective: waits until all trainers of the run have said hello to some reader: as many as in the
 * session before, or as all of them say. Errors as session_gather(). */
MUST_USE enum status session_await_trainers(struct session *session, bool quiet, struct error *err);

/* Collective: the same on all ranks. The world size of all trainers that are there; 0: there are
 * none, or they have several. */
uint32_t session_world_size(const struct session *session);

/* session_resize.c. Before trainers are mapped: the run goes on with as many trainers as have come.
 * What is known of those before, who are gone, is forgotten. */
void session_resize(struct job *job, struct session *session, uint32_t trainers);

/* Before trainers can connect: the number of the session before, as a supervisor knows it. INVALID:
 * this run cannot have so many. */
MUST_USE enum status session_resize_as_told(struct job *job, struct session *session,
                                            struct error *err);

/* After that, with the trainers' wishes. REFUSED: some trainers go on from a state, and others do
 * not: these would get what the others had. */
MUST_USE enum status session_check_resized(const struct session *session, const uint64_t *wishes,
                                           struct error *err);

/* session_attendance.c: notes the cursors of trainers that have gone on since the last session's
 * end, for those who come fresh should these die. */
void session_note_progress(struct session *session);

/* Notes the cursor of the trainer of rank `rank`, where a fresh process of this rank goes on. Tells
 * a supervisor, too: the readers may die before that process connects. */
void session_note_cursor(struct session *session, uint32_t rank, uint64_t cursor);

/* session_wishes.c. Collective: settles where the session starts, and where each trainer starts,
 * from the cursors that the trainers ask for. REFUSED: trainers have states of different steps. */
MUST_USE enum status session_settle_start(struct session *session, bool quiet, struct error *err);

/* session_locality.c. Collective: settles the locality at the first session, with order.placement
 * local: as in the run that goes on, or as it fits where the trainers are. INVALID: trainers go on
 * with different localities, or with one that cannot be; or their cursors differ and nobody knows
 * the locality. NO_MEMORY. */
MUST_USE enum status session_settle_locality(struct job *job, struct session *session,
                                             struct error *err);

/* Notes the locality of a trainer that goes on. A trainer of its rank that came before with another
 * one, and is gone, was of another run: its cursor is forgotten. INVALID: no trainers have that
 * number, or the run's is settled and another. Nothing is noted with order.placement fixed. */
MUST_USE enum status session_note_locality(struct session *session, uint32_t rank, uint32_t number,
                                           struct error *err);

/* Frees what says where trainers are. */
void session_free_map(struct session *session);

#endif
