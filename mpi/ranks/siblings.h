/* Siblings: the runs that one launcher has started together (--also). The first run is the one that
 * is trained on: it decides when all end.
 *
 *     run 0 -> the others    it drains because of a signal; or it is over, with its outcome
 *     the others -> run 0    they failed
 *
 * Words go from rank 0 to rank 0, without waiting. Main thread only.
 */
#ifndef PENSTOCK_MPI_RANKS_SIBLINGS_H
#define PENSTOCK_MPI_RANKS_SIBLINGS_H

#include "ranks/comm.h"

#include <stdbool.h>

struct siblings;

/* What was heard of other runs so far. */
struct siblings_news {
    int signal_number;    /* run 0 drains because of this signal; 0: it does not */
    bool over;            /* run 0 is over, or, for run 0, another run has failed */
    struct error outcome; /* with `over`; status OK: in good order */
};

/* `comm` and `name` (of this run; NULL: run 0) are borrowed until siblings_free(). *ret_siblings is
 * NULL if there is one run. Not collective. NO_MEMORY. */
MUST_USE enum status siblings_new(const struct comm *comm, const char *name,
                                  struct siblings **ret_siblings, struct error *err);

/* Tells the others, once each: run 0 tells all other runs, they tell run 0. For rank 0 of a run;
 * other ranks, and NULL, do nothing. */
void siblings_tell_signal(struct siblings *siblings, int number);
void siblings_tell_end(struct siblings *siblings, const struct error *outcome);

/* What rank 0 has heard, borrowed; on other ranks, and of NULL, nothing ever comes. */
const struct siblings_news *siblings_hear(struct siblings *siblings);

/* Collective over all runs, once each run has told its end: waits for words that are on their way.
 * NULL is fine. */
void siblings_free(struct siblings *siblings);

#endif
