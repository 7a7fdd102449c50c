/* What the report is made of, on rank 0: for report.c (table and JSON) and report_html.c (HTML). */
#ifndef PENSTOCK_MPI_REPORT_REPORT_INTERNAL_H
#define PENSTOCK_MPI_REPORT_REPORT_INTERNAL_H

#include "job/session.h"
#include "loop/service.h"
#include "metrics/series.h"

/* One reader's metrics, as it sends them. */
struct report_reader {
    struct metrics_values values;
    struct metrics_trainer waited_most; /* of its trainers */
};

/* How the readers' values grew, all added up, at `bins` + 1 times at equal distances from the start
 * to `end_ns`. Each reader counts from its own start. */
enum { TIMELINE_BINS = 300 };
struct timeline {
    uint64_t end_ns;
    uint32_t bins; /* 0: no time has passed */
    double points[TIMELINE_BINS + 1][SERIES_MEMBERS];
};

/* Every reader's epochs. */
struct all_epochs {
    uint64_t reader_count, epoch_count;
    struct epoch_stats *epochs;    /* [readers][epochs], owned */
    uint64_t *durations_ns;        /* [epochs], from the last reader's end of one epoch to the last
                                    * reader's end of the next; owned */
    struct report_reader *readers; /* [readers], owned */
    struct timeline timeline;
    uint64_t filled[DATASET_MAX_FIELDS]; /* dataset_filled_chunks() of each field */
};

/* One epoch of the report: how long it took, sums over readers, and what bounded it. */
struct epoch_line {
    uint64_t epoch;
    uint64_t duration_ns;
    struct epoch_stats sum;
    const char *bound;
};

/* The line of the epoch with index `i`. Borrows the summary. */
struct epoch_line report_epoch(const struct service_summary *summary, const struct all_epochs *all,
                               uint64_t i);

/* What rank 0 foresaw for the exchange of an epoch when it assigned rows. */
uint64_t report_foreseen_bytes(const struct job *job, const struct epoch_stats *sum);

/* Appends the report as one HTML file that needs no other file, no network and no script. */
void report_html(const struct job *job, const struct service_summary *summary,
                 const struct all_epochs *all, struct text *out);

#endif
