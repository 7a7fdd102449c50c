/* A trace: what threads did last, span by span, for a look at a run in Perfetto or
 * chrome://tracing.
 *
 *     trace_note() --> track of the thread --.
 *     trace_note() --> track of the thread ---+--> trace_write() --> file
 *     trace_note_in() --> track of a round --'
 *
 * A track is a ring of the last TRACE_SPANS spans. One thread at a time writes to a track. Tracks
 * are made at the start, and their memory is touched there. While nothing is traced, noting a span
 * costs one relaxed load and a branch. trace_write() stops tracing first. A thread that saw tracing
 * on just before may write one more span, over the oldest one: the oldest spans are left out.
 *
 * A process has one trace.
 */
#ifndef PENSTOCK_BASE_TRACE_H
#define PENSTOCK_BASE_TRACE_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Kinds of spans: name, and what the span's argument is ("": nothing). In the track of a thread,
 * then in that of a round in flight, then in that of a trainer. */
#define TRACE_KINDS(KIND)                                 \
    KIND(ROW, "row", "row")                               \
    KIND(READ, "read", "bytes")                           \
    KIND(DECODE, "decode", "bytes")                       \
    KIND(PLAN_WINDOW, "plan window", "samples")           \
    KIND(PLAN_ROUND, "plan round", "round")               \
    KIND(COPY, "copy", "samples")                         \
    KIND(SCATTER, "scatter", "samples")                   \
    KIND(EXCHANGE, "exchange", "round")                   \
    KIND(WAIT, "wait", "")                                \
    KIND(ROUND_PLANNED, "round planned", "round")         \
    KIND(ROUND_FILLED, "round filled", "round")           \
    KIND(ROUND_WAITS, "round waits", "round")             \
    KIND(ROUND_EXCHANGED, "round exchanged", "round")     \
    KIND(ROUND_SCATTERED, "round scattered", "round")     \
    KIND(ROUND_TRANSFORMED, "round transformed", "round") \
    KIND(NEXT, "next", "batch")

#define TRACE_KIND_ENUM(id, name, argument) TRACE_##id,
enum trace_kind { TRACE_KINDS(TRACE_KIND_ENUM) TRACE_KIND_COUNT };

enum { TRACE_SPANS = 4096 };

/* Of words that are written one by one, so that others may look on. */
struct trace_span {
    _Atomic uint64_t start_ns, end_ns; /* clock_now_ns() */
    _Atomic uint64_t what;             /* kind and argument */
};

struct trace_track;

/* Whether spans are noted now. Set by trace_start() and trace_write() alone. */
extern _Atomic bool trace_is_on;

/* A track of that name: one that was given back, or a new one. To be called at the start. NULL: no
 * memory; then nothing is traced there. Any thread. */
struct trace_track *trace_claim(const char *name);

/* Gives a track back, with its spans. NULL is fine. Any thread. */
void trace_release(struct trace_track *track);

/* Makes `track` the calling thread's own, for trace_note(). NULL: none. */
void trace_use(struct trace_track *track);

void trace_start(void);

/* For trace_note() and trace_note_in(). */
void trace_add(struct trace_track *track, enum trace_kind kind, uint64_t start_ns, uint64_t end_ns,
               uint64_t argument);
struct trace_track *trace_own_track(void);

static inline bool trace_on(void)
{
    return __builtin_expect(atomic_load_explicit(&trace_is_on, memory_order_relaxed), false);
}

/* Notes a span of the calling thread. Arguments beyond 56 bits are cut. */
static inline void trace_note(enum trace_kind kind, uint64_t start_ns, uint64_t end_ns,
                              uint64_t argument)
{
    if (trace_on())
        trace_add(trace_own_track(), kind, start_ns, end_ns, argument);
}

/* Notes a span in a track that only the calling thread writes to. NULL is fine. */
static inline void trace_note_in(struct trace_track *track, enum trace_kind kind, uint64_t start_ns,
                                 uint64_t end_ns, uint64_t argument)
{
    if (trace_on())
        trace_add(track, kind, start_ns, end_ns, argument);
}

/* Stops tracing, and writes the spans of all tracks that began at `since_ns` or later to the file
 * `path`, as JSON of Chrome's trace format: first to a temporary file beside it. The process is
 * called `name` there and has the number `pid`. Not from two threads at once. IO. */
MUST_USE enum status trace_write(const char *path, const char *name, uint64_t pid,
                                 uint64_t since_ns, struct error *err);

#endif
