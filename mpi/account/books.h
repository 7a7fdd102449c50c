/* The books of a session: for each epoch the time it took, the work it cost, and what the rounds
 * waited for.
 *
 * When the last step of an epoch is published, the books close this epoch and open the next one.
 * The pool's work counts in the epoch that is open when the work is done. Main thread only.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_BOOKS_H
#define PENSTOCK_MPI_ACCOUNT_BOOKS_H

#include "base/progress.h"
#include "job/session.h"
#include "read/pool.h"
#include "rounds/rounds.h"
#include "windows/windows.h"

enum { SERVICE_MAX_EPOCH_STATS = 256, BOOKS_RECENT_EPOCHS = 256 };

/* How long turns of the service loop took: up to 0.1 ms, 0.3, 1, 3, 10, or longer. */
enum { BOOKS_TURN_BINS = 6 };

/* One epoch, as this reader saw it: counters (base/counters.h) alone. Epochs beyond
 * SERVICE_MAX_EPOCH_STATS are added to the last entry. */
struct epoch_stats {
    struct pool_stats work; /* while the epoch was under way */
    COUNTER_TABLE(COUNTER_NONE, COUNTER_NONE, COUNTER_MEMBER, COUNTER_NONE)
    uint64_t duration_ns;
    uint64_t steps; /* that were given to the trainer of this reader that came furthest */
    uint64_t fill_ns, scatter_ns; /* see struct rounds_times */
    uint64_t moved_samples;       /* that were sent to other readers */
    uint64_t further_passes;      /* of rounds, behind the first one of each */
    uint64_t cpu_ns;              /* of this process */
    uint64_t stall_count;         /* waits for a trainer longer than delivery.stall_warning */
    uint64_t turns[BOOKS_TURN_BINS];
    uint64_t blocked_ns[BLOCK_COUNT]; /* of BLOCK_ROWS, the table's are a part: books_update() */
    uint64_t foreseen_samples;        /* rank 0: moved_samples of all readers, as the assignment
                                       * foresees */
};

/* An epoch as the log tells it: since it was told last. */
struct recent_epoch {
    uint64_t epoch;
    uint64_t samples; /* that this reader's trainers were given */
    uint64_t duration_ns;
};

struct service_summary {
    struct pool_stats counted; /* the pool's figures that are in `epochs` already; rows are read
                                * between sessions, too */
    uint64_t session_count;
    uint64_t epoch_count;
    uint64_t first_epoch;
    struct epoch_stats epochs[SERVICE_MAX_EPOCH_STATS];
    struct recent_epoch recent[BOOKS_RECENT_EPOCHS]; /* [epoch % BOOKS_RECENT_EPOCHS] */
};

/* How long the first `count` epochs took: from the last reader's end of one to the last reader's
 * end of the next, by `epochs`, [readers][count]. Readers end an epoch at different times, and who
 * is first waits in the next one for the others. Of several sessions, a reader's times are added up
 * first. Pure. */
void books_durations(const struct epoch_stats *epochs, uint64_t readers, uint64_t count,
                     uint64_t *ret_durations_ns);

/* The entry of an epoch, borrowed. An epoch before the first one, where a session goes back, counts
 * in the first entry. */
struct epoch_stats *books_epoch(struct service_summary *summary, uint64_t epoch);

/* The same for the log, which tells epochs apart however many there are: an entry takes the place
 * of that of BOOKS_RECENT_EPOCHS epochs before. */
struct recent_epoch *books_recent(struct service_summary *summary, uint64_t epoch);

/* Epochs that are not told yet are over: the run begins anew. */
void books_forget_recent(struct service_summary *summary);

struct books {
    const struct job *job;           /* borrowed */
    const struct session *session;   /* borrowed */
    struct windows *windows;         /* borrowed */
    struct rounds *rounds;           /* borrowed */
    struct service_summary *summary; /* borrowed */
    uint64_t now_ns;                 /* start of this turn of the service loop */
    uint64_t published;              /* the cursor of the first step that is not published */
    bool finished;                   /* everything is published, and the books are closed */
    uint64_t epoch;                  /* the open epoch */
    uint64_t epoch_start_ns;
    uint64_t epoch_cpu_ns;           /* of this process, when the epoch began */
    struct rounds_times epoch_times; /* of rounds, when the epoch began */
    uint64_t rows_wait_ns;           /* that rounds waited for rows, and of which nobody knows yet
                                      * whether that was the store or decoding */
    bool said_serving;               /* the supervisor was told that the first batch is published */
    bool show_progress;              /* true on rank 0, unless it is quiet */
    struct progress progress;        /* of the epoch whose number is in its label */
    uint64_t progress_epoch;
    char progress_label[48];
};

/* Opens the books of a session. Everything but *books is borrowed until books_close(). */
void books_open(struct books *books, const struct session *session, struct windows *windows,
                struct rounds *rounds, struct service_summary *summary, bool quiet);

/* To be called at each turn of the loop: adds the time since the last turn to what the oldest round
 * waits for, and closes epochs whose last step is published. */
void books_keep(struct books *books);

/* Brings the entry of the open epoch up to date. The time in which rounds waited for rows is
 * divided as the workers' own time was since the last call, between reads and decoding. Rows of a
 * remote store that no worker has yet wait for the store, and so does everything while no worker
 * has ended anything and a call to the store takes long. Does nothing once the books are closed. */
void books_update(struct books *books);

/* Closes the last epoch, once everything is published. */
void books_finish(struct books *books);

/* Counts the work of a session that ends early, rows for later epochs included. */
void books_break_off(struct books *books);

/* Counts a turn of the service loop that took `duration_ns`, without its sleep. */
void books_count_turn(struct books *books, uint64_t duration_ns);

/* Counts one wait for a trainer that is longer than delivery.stall_warning. */
void books_count_stall(struct books *books);

/* Prints the log's line of an epoch that has ended, of which all trainers were given `samples`
 * samples since the epoch was told last, in this reader's own time. The table with all readers'
 * figures comes at the end of the run. */
void books_announce(struct books *books, uint64_t epoch, uint64_t samples);

/* Counts what was sent since the last epoch ended, and ends the progress line on standard error. */
void books_close(struct books *books);

#endif
