/* See copies.h. */
#include "rounds/copies.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>

/* A piece is large enough for its start and its end not to count: of small samples as much as the
 * cache of a core has room for, of large samples a few. Where there are few copies for many
 * workers, each worker gets some all the same. */
enum {
    PIECES_A_WORKER = 4,
    PIECE_BYTES = 256 * 1024,
    PIECE_MOST_BYTES = 1024 * 1024, /* of few samples */
    PIECE_FEW = 8,
    PIECE_MOST_COPIES = 4096,
    FETCH_AHEAD = 8,
};
_Static_assert((int)PIECE_MOST_COPIES <= (int)PILE_MOST_COPIES, "a pile counts so many");

/* A ring, and the NUMA node whose workers copy there. */
struct ring_numa {
    const unsigned char *slots;
    uint32_t numa;
};

static int by_address(const void *a, const void *b)
{
    const struct ring_numa *left = a, *right = b;
    return left->slots < right->slots ? -1 : left->slots > right->slots;
}

static struct round_pile *piles_new(const struct copies *copies, struct round *lanes,
                                    uint32_t lane_count)
{
    size_t count = (size_t)lane_count * copies->numa_count;
    struct round_pile *piles = aligned_alloc(MEMORY_LINE_BYTES, count * sizeof *piles);
    if (!piles)
        return NULL;
    memset(piles, 0, count * sizeof *piles);
    for (size_t i = 0; i < count; i++)
        piles[i].round = &lanes[i / copies->numa_count];
    return piles;
}

enum status copies_init(struct copies *copies, const struct session *session, struct round *lanes,
                        uint32_t lane_count, struct error *err)
{
    const struct job *job = session->job;
    const struct placement *placement = pool_placement(job->pool);
    copies->job = job;
    copies->session = session;
    copies->numa_count = placement->numa_count;
    copies->sample_bytes = session->layout.slot_stride / session->layout.batch_size;
    copies->rings = calloc(session->ring_count + 1, sizeof *copies->rings);
    copies->workers = calloc(copies->numa_count, sizeof *copies->workers);
    copies->fills = piles_new(copies, lanes, lane_count);
    copies->arrivals = piles_new(copies, lanes, lane_count);
    if (!copies->rings || !copies->workers || !copies->fills || !copies->arrivals)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    for (uint32_t i = 0; i < placement->worker_count; i++)
        copies->workers[placement->workers[i].numa]++;
    for (uint32_t i = 0; i < session->ring_count; i++) {
        const struct job_ring *ring = &session->rings[i];
        copies->rings[i] = (struct ring_numa){server_slot(job->server, ring->ring, 0), ring->numa};
    }
    qsort(copies->rings, session->ring_count, sizeof *copies->rings, by_address);
    return STATUS_OK;
}

void copies_done(struct copies *copies)
{
    free(copies->arrivals);
    free(copies->fills);
    free(copies->workers);
    free(copies->rings);
}

static uint32_t numa_of_slot(const struct copies *copies, const unsigned char *slot)
{
    uint32_t low = 0, high = copies->session->ring_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (copies->rings[middle].slots <= slot)
            low = middle;
        else
            high = middle;
    }
    return copies->rings[low].numa;
}

uint32_t copies_lane_numa(const struct copies *copies, uint32_t lane)
{
    return lane % copies->numa_count;
}

static void call(const struct copies *copies, uint32_t numa, struct round_pile *pile,
                 pool_function *function)
{
    while (pile_wants_helper(&pile->pieces, copies->workers[numa]))
        if (!pool_submit(copies->job->pool, numa, POOL_URGENT, function, pile, 0, 0)) {
            pile_leave(&pile->pieces);
            return;
        }
}

void copies_call(const struct copies *copies, uint32_t lane)
{
    for (uint32_t n = 0; n < copies->numa_count; n++) {
        size_t pile = (size_t)lane * copies->numa_count + n;
        call(copies, n, &copies->fills[pile], round_fill_task);
        call(copies, n, &copies->arrivals[pile], round_scatter_task);
    }
}

/* False: the pile is full. */
static bool put(const struct copies *copies, uint32_t numa, struct round_pile *piles,
                pool_function *function, uint64_t begin, uint64_t end)
{
    struct round_pile *pile = &piles[numa];
    atomic_fetch_add(&pile->round->tasks, 1);
    if (!pile_put(&pile->pieces, begin, end)) {
        atomic_fetch_sub(&pile->round->tasks, 1);
        return false;
    }
    call(copies, numa, pile, function);
    return true;
}

/* How many of a round's `count` copies are a piece. */
static uint64_t piece_copies(const struct copies *copies, uint64_t count)
{
    uint64_t bytes = copies->job->setup.record_bytes + 1;
    if (copies->job->dataset->ragged_count > 0)
        bytes = max_u64(bytes, copies->sample_bytes);
    uint64_t even = count / (PIECES_A_WORKER * pool_worker_count(copies->job->pool));
    uint64_t few = min_u64(even, min_u64(PIECE_FEW, PIECE_MOST_BYTES / bytes));
    uint64_t items = min_u64(max_u64(PIECE_BYTES / bytes, few), PIECE_MOST_COPIES);
    return max_u64(items, 1);
}

/* Rows lie scattered in the row store: the CPU is told of those that come a little later. */
static void prefetch_row(const struct copies *copies, const struct round *round, uint64_t i)
{
    if (i < round->fill_count && *round->fills[i].buffer != ROW_NONE)
        row_store_prefetch(copies->job->store, *round->fills[i].buffer);
}

/* How many of the fills from `begin` on have their rows ready, at most `limit`. */
static enum status count_ready(const struct copies *copies, const struct round *round,
                               uint64_t begin, uint64_t limit, uint64_t *ret_count,
                               struct error *err)
{
    const struct row_store *store = copies->job->store;
    uint64_t count = 0;
    for (; count < limit && begin + count < round->fill_count; count++) {
        prefetch_row(copies, round, begin + count + FETCH_AHEAD);
        int32_t buffer = *round->fills[begin + count].buffer;
        if (buffer == ROW_NONE)
            break;
        enum row_state state = row_store_state(store, buffer);
        if (state == ROW_FAILED) {
            *err = *row_store_error(store, buffer);
            return (enum status)err->status;
        }
        if (state != ROW_READY)
            break;
    }
    *ret_count = count;
    return STATUS_OK;
}

static uint32_t numa_of_fill(const struct copies *copies, const struct round *round, uint32_t lane,
                             uint64_t i)
{
    const struct fill *fill = &round->fills[i];
    return fill->batch_index == FILL_REMOTE ? copies_lane_numa(copies, lane)
                                            : numa_of_slot(copies, fill->to.slot);
}

static uint32_t numa_of_arrival(const struct copies *copies, const struct round *round,
                                uint32_t lane, uint64_t i)
{
    (void)lane;
    return numa_of_slot(copies, round->arrivals[i].slot);
}

/* The NUMA node that copy `i` of a round writes to. */
typedef uint32_t numa_of_copy(const struct copies *copies, const struct round *round, uint32_t lane,
                              uint64_t i);

/* Where the copies from `begin` on are made, and the end of those, at most `end`, that are made
 * there, too. They are in order of position, so that each trainer's come together. */
static uint64_t same_numa_end(const struct copies *copies, const struct round *round,
                              numa_of_copy *numa_of, uint32_t lane, uint64_t begin, uint64_t end,
                              uint32_t *ret_numa)
{
    if (copies->numa_count == 1) {
        *ret_numa = 0;
        return end;
    }
    *ret_numa = numa_of(copies, round, lane, begin);
    for (uint64_t i = begin + 1; i < end; i++)
        if (numa_of(copies, round, lane, i) != *ret_numa)
            return i;
    return end;
}

/* Whether workers have anything to do for fills [begin, end). */
static bool needs_copies(const struct round *round, uint64_t begin, uint64_t end)
{
    if (round->fragments->packed_bytes > 0 || round->trailers)
        return true;
    for (uint64_t i = begin; i < end; i++)
        if (round->fills[i].batch_index != FILL_REMOTE)
            return true;
    return false;
}

enum status copies_next_fills(const struct copies *copies, struct round *round, uint32_t lane,
                              uint64_t *ret_end, struct error *err)
{
    uint64_t begin = round->fill_next, wanted = piece_copies(copies, round->fill_count), ready = 0;
    enum status status = count_ready(copies, round, begin, wanted, &ready, err);
    if (status != STATUS_OK)
        return status;
    *ret_end = begin;
    if (ready == 0)
        return STATUS_OK;
    uint64_t ready_end = begin + ready;
    bool whole = ready == wanted || ready_end == round->fill_count;
    uint32_t numa;
    uint64_t end = same_numa_end(copies, round, numa_of_fill, lane, begin, ready_end, &numa);
    if (!whole && end == ready_end && atomic_load(&round->tasks) > 0)
        return STATUS_OK;
    if (needs_copies(round, begin, end) &&
        !put(copies, numa, copies->fills + (size_t)lane * copies->numa_count, round_fill_task,
             begin, end))
        return STATUS_OK;
    *ret_end = end;
    return STATUS_OK;
}

bool copies_scatter(const struct copies *copies, struct round *round, uint32_t lane)
{
    bool active = false;
    uint64_t wanted = piece_copies(copies, round->arrival_count);
    struct round_pile *piles = copies->arrivals + (size_t)lane * copies->numa_count;
    while (round->scatter_next < round->arrival_count) {
        uint64_t left = round->arrival_count - round->scatter_next;
        uint64_t end = round->scatter_next + (left < wanted ? left : wanted);
        uint32_t numa;
        end = same_numa_end(copies, round, numa_of_arrival, 0, round->scatter_next, end, &numa);
        if (!put(copies, numa, piles, round_scatter_task, round->scatter_next, end))
            return active;
        round->scatter_next = end;
        active = true;
    }
    return active;
}
