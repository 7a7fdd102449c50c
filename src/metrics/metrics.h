/* Metrics: what a reader counts, under the names that the world sees. One table makes the struct of
 * values, the text for Prometheus, docs/run/metrics.md, the report's figures and `penstock top`.
 *
 * A snapshot has all metrics of one reader and its trainers at one time. The reader makes one a few
 * times a second (mpi/account/meter.h), and puts it in its metrics file (metrics_file.h). Everybody
 * else reads pages. Values are integers: counts, bytes, nanoseconds, milliseconds since 1970. The
 * functions here are pure.
 */
#ifndef PENSTOCK_METRICS_METRICS_H
#define PENSTOCK_METRICS_METRICS_H

#include "base/counters.h"
#include "base/text.h"
#include "delivery/ring/layout.h"

#include <stddef.h>
#include <stdint.h>

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };
enum metrics_unit { METRICS_COUNT, METRICS_BYTES, METRICS_NS, METRICS_MS };

/* A reader's metrics: name, member of struct metrics_values, type, unit, label, what it is; and who
 * knows the value, for readers of this table. Those that count come last. A row is one series.
 * Series of one name follow one another, and differ in the label; what the first one is holds for
 * all. Nanoseconds and milliseconds are shown as seconds. */
#define METRICS_TABLE(X)                                                                           \
    X("start_time_seconds", start_ms, GAUGE, MS, "", "when the reader started",                    \
      "the system's clock")                                                                        \
    X("sessions_total", sessions, COUNTER, COUNT, "",                                              \
      "sessions begun; more than one: a trainer was lost and came again", "the service")           \
    X("epoch", epoch, GAUGE, COUNT, "", "epoch of the next step that will be published", "rounds") \
    X("step", step, GAUGE, COUNT, "", "that step, within its epoch", "rounds")                     \
    X("epochs", epochs, GAUGE, COUNT, "", "epochs of the run; 0: they have no end",                \
      "order.epochs")                                                                              \
    X("steps_per_epoch", steps_per_epoch, GAUGE, COUNT, "", "steps in an epoch", "the plan")       \
    X("trainers", trainers, GAUGE, COUNT, "", "trainers that this reader serves", "the server")    \
    X("workers", workers, GAUGE, COUNT, "", "worker threads of this reader", "readers.threads")    \
    X("memory_limit_bytes", memory_limit, GAUGE, BYTES, "", "memory that this reader may take",    \
      "readers.memory_limit")                                                                      \
    X("memory_planned_bytes", memory_planned, GAUGE, BYTES, "",                                    \
      "memory that this reader takes, as settled before the start", "the budget")                  \
    X("dataset_rows", dataset_rows, GAUGE, COUNT, "", "rows of the dataset", "the dataset")        \
    X("cached_rows", cached_rows, GAUGE, COUNT, "",                                                \
      "rows that this reader keeps in memory for later epochs", "the row store")                   \
    COUNTER_TABLE(X, X, X, X)

/* Metrics of one trainer, with the label rank. A histogram's member is the sum of its values. */
#define METRICS_TRAINER_TABLE(X)                                                                  \
    X("trainer_batches_total", batches, COUNTER, COUNT, "", "batches that the trainer has taken", \
      "the trainer's ring")                                                                       \
    X("trainer_wait_seconds", wait, HISTOGRAM, NS, "",                                            \
      "how long penstock_next() waited for a batch; a rate of the sum above 0: training waits "   \
      "for data",                                                                                 \
      "the trainer's ring")                                                                       \
    X("trainer_waiting", waiting, GAUGE, COUNT, "", "1 while the trainer waits for a batch",      \
      "the trainer's ring")                                                                       \
    X("ring_ready_slots", ready, GAUGE, COUNT, "", "batches that the trainer could take at once", \
      "the trainer's ring")                                                                       \
    X("ring_held_slots", held, GAUGE, COUNT, "", "batches taken and not released",                \
      "the trainer's ring")                                                                       \
    X("ring_slots", slots, GAUGE, COUNT, "", "batches that the ring has room for",                \
      "delivery.slots")                                                                           \
    X("trainer_last_release_timestamp_seconds", released_ms, GAUGE, MS, "",                       \
      "when the trainer last released a batch; 0: never", "the trainer's ring")

struct metrics_values {
    METRICS_TABLE(COUNTER_MEMBER)
};
struct metrics_trainer_values {
    METRICS_TRAINER_TABLE(COUNTER_MEMBER)
};

enum { METRICS_BUCKETS = RING_WAIT_BUCKETS }; /* the last one has no bound */

struct metrics_trainer {
    uint32_t rank;
    uint32_t connected; /* 1: serves its loop; 0: it has left, or is lost */
    struct metrics_trainer_values values;
    uint64_t wait_buckets[METRICS_BUCKETS]; /* batches by their wait: delivery/ring/waits.h */
};

enum metrics_state { METRICS_GATHERING, METRICS_SERVING, METRICS_STATE_COUNT };

enum {
    METRICS_NODE_BYTES = 64,
    METRICS_TEXT_BYTES = 256,
    METRICS_VERSION_BYTES = 16,
    METRICS_RUN_BYTES = 32
};

struct metrics_snapshot {
    uint64_t now_ms; /* since 1970 */
    uint64_t pid;
    uint32_t reader, reader_count;
    uint32_t state; /* enum metrics_state: all trainers are waited for, or are served */
    uint32_t trainer_count;
    uint64_t order_id, seed;
    char node[METRICS_NODE_BYTES]; /* texts are NUL-terminated, and shown text (base/text.h) */
    char run[METRICS_RUN_BYTES];   /* of --also; "": the run that is trained on */
    char version[METRICS_VERSION_BYTES];
    char dataset[METRICS_TEXT_BYTES];
    char listen[METRICS_NODE_BYTES]; /* address of the reader's metrics; "": none */
    struct metrics_values values;
    struct metrics_trainer trainers[]; /* [trainer_count] */
};

/* The tables as rows, for whoever goes through all metrics. `offset` is that of the value in struct
 * metrics_values or struct metrics_trainer_values. */
struct metrics_row {
    const char *name, *label, *help;
    enum metrics_type type;
    enum metrics_unit unit;
    size_t offset;
};
extern const struct metrics_row metrics_rows[];
extern const size_t metrics_row_count;
extern const struct metrics_row metrics_trainer_rows[];
extern const size_t metrics_trainer_row_count;

/* The value of a row in its struct. */
static inline uint64_t metrics_value(const struct metrics_row *row, const void *values)
{
    return *(const uint64_t *)((const char *)values + row->offset);
}

/* A value in its unit of the outside world: "12", "0.25" for 250,000,000 ns. */
struct metrics_number {
    char text[32];
};
struct metrics_number metrics_number(enum metrics_unit unit, uint64_t value);

/* Appends a snapshot in Prometheus' text format, version 0.0.4. */
void metrics_text(const struct metrics_snapshot *snapshot, struct text *out);

/* Appends values as a JSON object by the names of the table, with labels:
 * {"blocked_seconds_total{on=\"decode\"}": 1.5}. */
void metrics_json(const struct metrics_values *values, struct text *out);

/* Appends a snapshot as a JSON object: what it says of the reader, "metrics" and "trainers". */
void metrics_snapshot_json(const struct metrics_snapshot *snapshot, struct text *out);

/* Appends the tables as Markdown, for docs/run/metrics.md. */
void metrics_markdown(struct text *out);

#endif
