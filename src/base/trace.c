/* See trace.h. */
#include "base/trace.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ARGUMENT_BITS = 56, LEFT_OUT = 4 };

struct trace_track {
    struct trace_track *next; /* set before the track is in the list */
    char name[24];
    bool claimed;           /* under the mutex */
    _Atomic uint64_t count; /* spans noted so far */
    struct trace_span spans[TRACE_SPANS];
};

static const struct {
    const char *name, *argument;
} kinds[] = {
#define TRACE_KIND_ROW(id, name, argument) {name, argument},
    TRACE_KINDS(TRACE_KIND_ROW)};

_Atomic bool trace_is_on;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct trace_track *tracks;                        /* the newest first; none ever goes */
static _Thread_local struct trace_track *own_track;

static struct trace_track *new_track(const char *name)
{
    struct trace_track *track = aligned_alloc(
        MEMORY_PAGE_BYTES, (sizeof *track / MEMORY_PAGE_BYTES + 1) * MEMORY_PAGE_BYTES);
    if (!track)
        return NULL;
    memset(track, 0, sizeof *track);
    snprintf(track->name, sizeof track->name, "%s", name);
    track->next = tracks;
    tracks = track;
    return track;
}

struct trace_track *trace_claim(const char *name)
{
    pthread_mutex_lock(&mutex);
    struct trace_track *track = tracks;
    while (track && (track->claimed || strcmp(track->name, name) != 0))
        track = track->next;
    if (!track)
        track = new_track(name);
    if (track)
        track->claimed = true;
    pthread_mutex_unlock(&mutex);
    return track;
}

void trace_release(struct trace_track *track)
{
    pthread_mutex_lock(&mutex);
    if (track)
        track->claimed = false;
    pthread_mutex_unlock(&mutex);
}

void trace_use(struct trace_track *track)
{
    own_track = track;
}

struct trace_track *trace_own_track(void)
{
    return own_track;
}

void trace_start(void)
{
    atomic_store(&trace_is_on, true);
}

static void trace_stop(void)
{
    atomic_store(&trace_is_on, false);
}

void trace_add(struct trace_track *track, enum trace_kind kind, uint64_t start_ns, uint64_t end_ns,
               uint64_t argument)
{
    if (!track)
        return;
    uint64_t count = atomic_load_explicit(&track->count, memory_order_relaxed);
    struct trace_span *span = &track->spans[count % TRACE_SPANS];
    uint64_t most = (UINT64_C(1) << ARGUMENT_BITS) - 1;
    atomic_store_explicit(&span->start_ns, start_ns, memory_order_relaxed);
    atomic_store_explicit(&span->end_ns, end_ns, memory_order_relaxed);
    atomic_store_explicit(&span->what, (uint64_t)kind << ARGUMENT_BITS | (argument & most),
                          memory_order_relaxed);
    atomic_store_explicit(&track->count, count + 1, memory_order_release);
}

/* What clock_now_ns() is behind the time of day. The best of some looks: others may take the core
 * between two clocks. */
static uint64_t realtime_offset_ns(void)
{
    enum { LOOKS = 16 };
    uint64_t offset = 0, least = UINT64_MAX;
    for (int look = 0; look < LOOKS; look++) {
        struct timespec now;
        uint64_t before = clock_now_ns();
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t passed = clock_now_ns() - before;
        if (passed >= least)
            continue;
        least = passed;
        offset = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - (before + passed / 2);
    }
    return offset;
}

static void write_name(FILE *file, const char *what, uint64_t pid, uint32_t tid, const char *name)
{
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu32
            ",\"args\":{\"name\":\"%s\"}},\n",
            what, pid, tid, name);
}

/* `base_ns`: what times are counted from, of clock_now_ns(). */
static void write_span(FILE *file, const struct trace_span *span, uint64_t pid, uint32_t tid,
                       uint64_t base_ns, uint64_t since_ns)
{
    uint64_t start = atomic_load_explicit(&span->start_ns, memory_order_relaxed) - base_ns;
    uint64_t end = atomic_load_explicit(&span->end_ns, memory_order_relaxed) - base_ns;
    uint64_t what = atomic_load_explicit(&span->what, memory_order_relaxed);
    uint64_t kind = what >> ARGUMENT_BITS, argument = what << 8 >> 8;
    if (kind >= TRACE_KIND_COUNT || start + base_ns < since_ns || end < start)
        return;
    fprintf(file,
            "{\"ph\":\"X\",\"cat\":\"penstock\",\"name\":\"%s\",\"pid\":%" PRIu64
            ",\"tid\":%" PRIu32 ",\"ts\":%" PRIu64 ".%03" PRIu64 ",\"dur\":%" PRIu64 ".%03" PRIu64,
            kinds[kind].name, pid, tid, start / 1000, start % 1000, (end - start) / 1000,
            (end - start) % 1000);
    if (*kinds[kind].argument)
        fprintf(file, ",\"args\":{\"%s\":%" PRIu64 "}", kinds[kind].argument, argument);
    fputs("},\n", file);
}

static void write_track(FILE *file, const struct trace_track *track, uint64_t pid, uint32_t tid,
                        uint64_t base_ns, uint64_t since_ns)
{
    uint64_t count = atomic_load_explicit(&track->count, memory_order_acquire);
    uint64_t first = count > TRACE_SPANS - LEFT_OUT ? count - (TRACE_SPANS - LEFT_OUT) : 0;
    write_name(file, "thread_name", pid, tid, track->name);
    for (uint64_t i = first; i < count; i++)
        write_span(file, &track->spans[i % TRACE_SPANS], pid, tid, base_ns, since_ns);
}

/* Times are relative to the trace's first moment, so that they stay exact as JSON's numbers. */
static void write_all(FILE *file, const char *name, uint64_t pid, uint64_t since_ns)
{
    pthread_mutex_lock(&mutex);
    struct trace_track *newest = tracks;
    pthread_mutex_unlock(&mutex);
    fprintf(file,
            "{\"baseTimeNanoseconds\":%" PRIu64 ",\n\"displayTimeUnit\":\"ms\",\n"
            "\"traceEvents\":[\n",
            realtime_offset_ns() + since_ns);
    uint32_t tid = 0;
    for (const struct trace_track *track = newest; track; track = track->next)
        write_track(file, track, pid, ++tid, since_ns, since_ns);
    fprintf(file,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRIu64
            ",\"tid\":0,\"args\":{\"name\":\"%s\"}}\n]}\n",
            pid, name);
}

enum status trace_write(const char *path, const char *name, uint64_t pid, uint64_t since_ns,
                        struct error *err)
{
    char temporary[4096];
    trace_stop();
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid()) >=
        sizeof temporary)
        return error_set(err, STATUS_INVALID, "trace: the path '%s' is too long", path);
    FILE *file = fopen(temporary, "we");
    if (!file)
        return error_set_errno(err, STATUS_IO, "trace: create '%s'", temporary);
    write_all(file, name, pid, since_ns);
    bool written = !ferror(file);
    if (fclose(file) == 0 && written && rename(temporary, path) == 0)
        return STATUS_OK;
    error_set_errno(err, STATUS_IO, "trace: write '%s'", path);
    unlink(temporary);
    return STATUS_IO;
}
