/* The cheapest way for a row: how its samples come to the readers whose trainers get them. Inside
 * src/plan; the assigner (assign.c, assign_each.c) is the only user.
 *
 *     SEND   one reader, the owner, has the row or reads it, and sends decoded samples
 *     EACH   every reader whose trainers get samples of the row loads the row by itself, from its
 *            memory, its disk cache or the store; nothing is sent
 *     TAPE   as EACH, but the owner, which keeps the row as stored, sends the stored bytes
 *
 * The choice is greedy, row by row, so that the busiest resource is busy for as short as possible:
 * online load balancing (Aspnes, Azar, Fiat, Plotkin and Waarts, Journal of the ACM 44(3), 1997).
 * Resources are, of each reader, the workers' time and the link in either direction; and the store,
 * which all readers share. A resource's load is the time that it is busy with the rows given out so
 * far, older windows counting less and less. A row takes the way that adds less to the sum of the
 * loads' WAYS_POWERth powers, which lies close to the highest load. So several ways are used at
 * once where that is faster than any way alone.
 *
 * Rates are never quite right: a resource's rate is known only while this resource is the limit. So
 * what rounds wait for has the last word. Where they wait for reading, while rows are read again,
 * all reading counts as slower than its rates say, by a factor, the burden; where they wait for
 * links, as faster. And rows are sent as long as the mixture promises little: reading again has to
 * be worth it.
 *
 * A row that stays with whoever loads it need not be sent in later epochs, either. So for such rows
 * the promise is that of the epochs to come, WAYS_EPOCHS at most, and SEND is as many times dearer
 * as the row will be wanted there. Since powers of loads are compared, the busiest resource is busy
 * for little longer in this epoch. Where loading all rows takes no longer than sending them all,
 * what is sent only puts off a load: all such rows are EACH.
 *
 * With order.placement local few samples of each row travel, and which ones is not known when rows
 * are given out. All kept rows that readers have room for as replicas are SEND there, or all are
 * EACH: once the link would take longer to move these samples than their recipients take to load
 * the rows. What rounds wait for has no say there: a row is loaded once and stays.
 *
 * Without rates nothing is known, and rows are sent. Nothing here is exact, and nothing has to be:
 * every choice delivers the same samples. Plain functions; one thread.
 */
#ifndef PENSTOCK_PLAN_WAYS_H
#define PENSTOCK_PLAN_WAYS_H

#include <stdbool.h>
#include <stdint.h>

enum { WAYS_POWER = 8, WAYS_EPOCHS = 16 };

/* Which ways may be taken. */
enum ways_choice {
    WAYS_AUTO, /* the cheaper one, once rates are known */
    WAYS_SEND,
    WAYS_EACH,  /* EACH wherever there are buffers */
    WAYS_TAPES, /* as EACH, where rows are kept as stored: the owner sends the stored bytes */
};

/* The names of exchange.way, in the order of the enum. */
#define WAYS_CHOICE_NAMES "auto", "send", "each", "tapes"

/* How fast a reader is, in ns; 0: not known. */
struct ways_rates {
    double row_ns;  /* to read and decode a row: a worker's time, over the workers */
    double byte_ns; /* of the link, for a byte in one direction */
};

/* The store that all readers share. 0: there is none, or nothing is known. */
struct ways_store {
    double row_ns;    /* of the store, for a row, all readers together */
    double row_bytes; /* of a row, which come in over the reader's link, too */
};

/* What rounds waited for of late: shares of the time. */
struct ways_waits {
    double reads; /* rows that a reader loads */
    double links; /* the exchange */
};

/* The time that resources are busy, in ns. */
struct ways_load {
    double work, out, in;
};

/* How one row is to come to those who want it. */
enum ways_way { WAY_SEND, WAY_EACH, WAY_TAPE };

/* What the rows of a window would take in one way, or take as chosen. */
enum ways_plan { WAYS_CHOSEN, WAYS_ALL_SEND, WAYS_ALL_EACH, WAYS_PLANS };

struct ways {
    uint32_t reader_count;
    enum ways_choice choice;
    double record_bytes;      /* of a sample */
    double tape_bytes;        /* of a row as stored; 0: there is no TAPE */
    uint64_t row_samples;     /* of a row */
    struct ways_rates *rates; /* [reader_count] */
    double moved;          /* with order.placement local the share of samples that travel; else 0 */
    double replicas, held; /* local: rows times readers that may keep them besides their homes, and
                            * how many of these do, as expected */
    const double *share;   /* [reader_count] of the samples; borrowed */
    double *wants;         /* [reader_count] how likely it is that it gets samples of a row */
    double wanted;         /* their sum */
    struct ways_load *loads;             /* [reader_count] */
    struct ways_load *plans[WAYS_PLANS]; /* [reader_count] of the window */
    struct ways_store store;
    double store_load, plan_store[WAYS_PLANS];
    double epochs;  /* to come, this one included, WAYS_EPOCHS at most */
    double stays;   /* the share of rows that stay with whoever loads them */
    bool all_known; /* rates of all readers are */
    bool mixes;     /* rows are given out as chosen; else all are sent */
    bool loads_all; /* those that stay are not sent */
    double loaded;  /* rows given out that others than their owner load, of the last windows */
    double burden, burden_step; /* the latter: its logarithm changes by so much at most */
    /* Sums over readers that are looked at for each long row: brought up to date now and then. */
    double in_price, each_price, tape_price; /* of a whole row, at the loads of the last refresh */
    double sent_rows, each_rows, tape_rows;  /* since then */
    uint32_t stale;                          /* rows given out since then */
};

/* All zero for so many readers, but for what is given, and one epoch; `tape_bytes` and `stays` may
 * be set afterwards. False: no memory. `share` is borrowed. */
bool ways_init(struct ways *ways, uint32_t reader_count, enum ways_choice choice,
               double record_bytes, uint64_t row_samples, const double *share);
void ways_done(struct ways *ways);
uint64_t ways_bytes(uint32_t reader_count);

/* The shares are set, or have changed. */
void ways_note_shares(struct ways *ways);

/* Rates as measured. A rate that differs from the one in use by less than an eighth changes
 * nothing, so that choices do not swing. */
void ways_note_rates(struct ways *ways, uint32_t reader, const struct ways_rates *rates);
void ways_note_store(struct ways *ways, const struct ways_store *store);

/* What rounds waited for since choices changed last, or began to change what is read and sent. */
void ways_note_waits(struct ways *ways, const struct ways_waits *waits);

/* A window begins, with so many epochs to come: what was given out before counts half. Settles
 * whether rows may be EACH. */
void ways_begin_window(struct ways *ways, uint64_t epochs);

/* `reader` reads a row: the store's time, too, unless the row is in its memory, as stored. */
void ways_add_read(struct ways *ways, uint32_t reader, bool from_memory);

/* A row that one reader wants, or many. */
struct ways_row {
    uint32_t from;           /* has the row in memory, or is to read it */
    bool reads;              /* it is to */
    bool decodes;            /* rows in memory are as stored */
    bool stays;              /* with whoever loads the row, decoded */
    const uint16_t *holders; /* [holder_count], ascending: other readers that have the row in
                              * memory, too */
    uint32_t holder_count;
};

/* The way of a row whose samples all go to the reader `to`, and which `from` has in memory.
 * `holds`: `to` has the row in memory, too. Adds the choice. `allowed` false: `to` may not load the
 * row. */
enum ways_way ways_choose_single(struct ways *ways, const struct ways_row *row, uint32_t to,
                                 bool holds, bool allowed);

/* The way that is best for such a row; and whether all may load the row: while the mixture is not
 * worth it, only a row that all have in memory. Add nothing. What was better is added even if it
 * may not be. */
enum ways_way ways_prefer(struct ways *ways, const struct ways_row *row);
bool ways_allows_each(const struct ways *ways, const struct ways_row *row);

/* Adds such a row, sent by `from`. */
void ways_add_sent(struct ways *ways, const struct ways_row *row);

/* Adds such a row, loaded by those who want it; and one whose tape `from` sends them. */
void ways_add_each(struct ways *ways, const struct ways_row *row);
void ways_add_tape(struct ways *ways, const struct ways_row *row);

/* With order.placement local, rows that are in memory at their homes: whether whoever gets samples
 * of such a row loads the row, and keeps it. All rows take one way: who gets which sample is not
 * known yet. Adds a row that does. */
bool ways_loads_local(const struct ways *ways);
void ways_add_local(struct ways *ways);

/* The busiest resource's time of the window: as chosen, if all rows were sent, if each reader read
 * for itself. 0 where rates are not known. */
double ways_window_ns(struct ways *ways, enum ways_plan plan);

#endif
