/* See round_copy.h. */
#include "rounds/round_copy.h"

#include "base/clock.h"
#include "base/trace.h"

#include <stdlib.h>
#include <string.h>

enum { FETCH_AHEAD = 16 };

/* How much room a fill's sample has in its episode; NULL where no fragment needs to know. */
static const struct fragment_room *room_of(const struct round *round, const struct fill *fill)
{
    return round->rooms ? &round->rooms[fill - round->fills] : NULL;
}

/* The key that says where a fragment's crop lies. */
static uint64_t key_of(const struct round *round, const struct fragment *fragment,
                       const struct fill *fill)
{
    return fragment->crop ? round->keys[fill - round->fills] : 0;
}

/* Whether a fill's sample could be read. */
static bool is_good(const struct fragments *fragments, const struct fill *fill,
                    const unsigned char *row)
{
    return !fragments->mask || row[fragments->valid_row_offset + fill->offset];
}

/* Where a fragment of the next fill lies; NULL: there is none, or the CPU need not know. */
static const unsigned char *next_of(const struct round *round, const struct fragment *fragment,
                                    const struct fill *next)
{
    if (!next || fragment->bytes < COPY_FETCH_BYTES || fragment->bytes > COPY_FETCH_MOST_BYTES)
        return NULL;
    return fragment_in_row(fragment, row_store_data(round->job->store, *next->buffer), next->offset,
                           room_of(round, next));
}

/* `next`: the fill after this one, if its sample has the same fragments; NULL: there is none. */
static void fill_slot(const struct round *round, const struct fragments *fragments,
                      const struct fill *fill, const struct fill *next, const unsigned char *row)
{
    const struct fragment_room *room = room_of(round, fill);
    for (size_t f = 0; f < fragments->count; f++) {
        const struct fragment *fragment = &fragments->all[f];
        unsigned char *to = fragment_in_slot(fragment, fill->to.slot, fill->batch_index);
        const unsigned char *from = fragment_in_row(fragment, row, fill->offset, room);
        if (fragment->cutting)
            fragment_divide(fragment, fill->to.slot, fill->batch_index, from,
                            key_of(round, fragment, fill), room);
        else if (fragment->crop)
            fragment_cut(fragment, to, from, key_of(round, fragment, fill));
        else
            fragment_fill(fragment, to, from, next_of(round, fragment, next));
    }
    if (fragments->finishes)
        fragments_finish(fragments, fill->to.slot, fill->batch_index,
                         is_good(fragments, fill, row));
}

static void fill_record(const struct round *round, const struct fragments *fragments,
                        const struct fill *fill, const struct fill *next, const unsigned char *row)
{
    const struct fragment_room *room = room_of(round, fill);
    unsigned char *record = round->send + fill->to.remote.record * round->unit_bytes;
    for (size_t f = 0; f < fragments->packed_count; f++) {
        const struct fragment *fragment = &fragments->all[f];
        const unsigned char *from = fragment_in_row(fragment, row, fill->offset, room);
        if (fragment->cutting)
            fragment_pack_parts(fragment, record + fragment->record_offset, from,
                                key_of(round, fragment, fill), room);
        else if (fragment->crop)
            fragment_cut(fragment, record + fragment->record_offset, from,
                         key_of(round, fragment, fill));
        else
            fragment_copy(fragment, record + fragment->record_offset, from,
                          next_of(round, fragment, next));
    }
    if (fragments->mask)
        record[fragments->valid_record_offset] = row[fragments->valid_row_offset + fill->offset];
}

/* Where the items of a row's ragged fields lie. */
struct found_row {
    int32_t buffer; /* -1: none */
    uint32_t source;
    uint64_t first, end; /* its frames, which no other row of the source has */
    const struct trailers *trailers;
    struct row_store_pages pages;
    struct trailer_row lies;
};

enum { FOUND_ROWS = 32 };
struct found_rows {
    struct found_row rows[FOUND_ROWS]; /* [buffer modulo their number] */
};
_Static_assert(sizeof(struct found_rows) == BUDGET_FOUND_BYTES, "counted in the budget");

struct found_rows *found_rows_new(uint32_t count)
{
    struct found_rows *found = calloc(count, sizeof *found);
    for (uint32_t i = 0; found && i < count; i++)
        for (size_t r = 0; r < FOUND_ROWS; r++)
            found[i].rows[r].buffer = -1;
    return found;
}

/* The row of fill `i`. What the row store says of a buffer changes with each use of its row, so the
 * fill's own frame tells whether the buffer has the same row still. */
static const struct found_row *find_row(const struct round *round, uint64_t i,
                                        struct found_rows *rows)
{
    const struct row_store *store = round->job->store;
    int32_t buffer = *round->fills[i].buffer;
    uint32_t source = round_source_of(round, i);
    uint64_t frame = round->trailers->fills[i].frame, row;
    struct found_row *found = &rows->rows[(uint32_t)buffer % FOUND_ROWS];
    if (found->buffer == buffer && found->source == source && frame >= found->first &&
        frame < found->end)
        return found;
    dataset_source_of_row(round->job->dataset, row_store_row(store, buffer), &row);
    found->buffer = buffer;
    found->source = source;
    found->trailers = round->trailers->trailers->of[source];
    found->first = dataset_row_first(found->trailers->dataset, row);
    found->end = found->first + dataset_row_frames(found->trailers->dataset, row);
    trailers_find(found->trailers, row, row_store_pages(store, buffer, &found->pages),
                  &found->lies);
    return found;
}

/* Where the items of a fill's ragged fields lie. */
struct found {
    const struct trailers *trailers;
    struct row_store_pages pages;
    struct trailer_row lies;
    struct trailer_source source;
};
enum { FOUND_AHEAD = 2 }; /* fills: the CPU is told of one while the one before is copied */

static void find_trailer(const struct round *round, uint64_t i, struct found_rows *rows,
                         struct found *ret_found)
{
    const struct fill *fill = &round->fills[i];
    const struct found_row *row = find_row(round, i, rows);
    ret_found->trailers = row->trailers;
    ret_found->pages = row->pages; /* `rows` may forget them */
    trailers_copy_row(row->trailers, &row->lies, &ret_found->pages.pages, &ret_found->lies);
    ret_found->source =
        (struct trailer_source){&ret_found->lies, round->trailers->fills[i].frame,
                                is_good(round_fragments_of(round, i), fill,
                                        row_store_data(round->job->store, *fill->buffer))};
    trailers_fetch_widths(ret_found->trailers, &ret_found->source);
}

/* The items of a fill's ragged fields, to its slot or its trailer. `next`: those of the next fill;
 * NULL: there is none. */
static void fill_trailer(const struct round *round, const struct fill *fill,
                         const struct found *found, const struct found *next)
{
    const struct round_trailers *trailers = round->trailers;
    const struct round_trailer *trailer = &trailers->fills[fill - round->fills];
    bool alike = next && next->trailers == found->trailers;
    if (fill->batch_index == FILL_REMOTE)
        trailers_pack(found->trailers, &found->source,
                      trailers->send + trailer->at * TRAILER_UNIT_BYTES);
    else
        trailers_fill(found->trailers, &found->source, alike ? &next->source : NULL, fill->to.slot,
                      fill->batch_index, round_starts(trailers, trailer->table));
}

/* Samples lie scattered in memory: the CPU is told of those that come a little later. */
static void fetch_ahead(const struct round *round, uint64_t i)
{
    const struct fill *fill = &round->fills[i];
    const struct fragments *fragments = round_fragments_of(round, i);
    const struct fragment *first = &fragments->all[0];
    const unsigned char *row = row_store_data(round->job->store, *fill->buffer);
    __builtin_prefetch(fragment_in_row(first, row, fill->offset, NULL));
    if (round->trailers)
        trailers_fetch_offsets(round->trailers->trailers->of[round_source_of(round, i)],
                               round->trailers->fills[i].frame);
}

/* Uses of rows that are over, and not told the row store yet. Workers that tell it of each sample
 * take turns with the row's memory line. */
enum { TOLD_TOGETHER = 256 };
struct uses {
    struct row_store *store;
    int32_t buffers[TOLD_TOGETHER]; /* [buffer modulo their number] */
    uint32_t counts[TOLD_TOGETHER]; /* 0: none */
};

static void tell(struct uses *uses, uint32_t at)
{
    row_store_used(uses->store, uses->buffers[at], uses->counts[at]);
    uses->counts[at] = 0;
}

static void note_uses(struct uses *uses, int32_t buffer, uint32_t count)
{
    uint32_t at = (uint32_t)buffer % TOLD_TOGETHER;
    if (uses->counts[at] > 0 && uses->buffers[at] != buffer)
        tell(uses, at);
    uses->buffers[at] = buffer;
    uses->counts[at] += count;
}

static void tell_all(struct uses *uses)
{
    for (uint32_t at = 0; at < TOLD_TOGETHER; at++)
        if (uses->counts[at] > 0)
            tell(uses, at);
}

/* What a helper copies. */
struct copying {
    struct round *round;
    struct found_rows *rows; /* NULL: there are no ragged fields */
    struct uses uses;
    uint64_t pieces, copies; /* so far */
};

static void fill_piece(struct copying *copying, uint64_t begin, uint64_t end)
{
    const struct round *round = copying->round;
    const struct fragments *only = round->fill_kinds ? NULL : round->fragments->of[0];
    struct row_store *store = round->job->store;
    struct found_rows *rows = copying->rows;
    struct found found[FOUND_AHEAD + 1];
    for (uint64_t i = begin; i < end && i < begin + FETCH_AHEAD; i++)
        fetch_ahead(round, i);
    for (uint64_t i = begin; rows && i < end && i < begin + FOUND_AHEAD; i++)
        find_trailer(round, i, rows, &found[i % (FOUND_AHEAD + 1)]);
    for (uint64_t i = begin; i < end; i++) {
        const struct fill *fill = &round->fills[i];
        const unsigned char *row = row_store_data(store, *fill->buffer);
        if (i + FETCH_AHEAD < end)
            fetch_ahead(round, i + FETCH_AHEAD);
        const struct fragments *fragments = only ? only : round_fragments_of(round, i);
        bool remote = fill->batch_index == FILL_REMOTE, has_next = i + 1 < end;
        const struct fill *next = only && has_next ? fill + 1 : NULL;
        if (remote)
            fill_record(round, fragments, fill, next, row);
        else
            fill_slot(round, fragments, fill, next, row);
        if (rows && i + FOUND_AHEAD < end)
            find_trailer(round, i + FOUND_AHEAD, rows,
                         &found[(i + FOUND_AHEAD) % (FOUND_AHEAD + 1)]);
        if (rows)
            fill_trailer(round, fill, &found[i % (FOUND_AHEAD + 1)],
                         has_next ? &found[(i + 1) % (FOUND_AHEAD + 1)] : NULL);
        if (!remote || fragments->messages == 0)
            note_uses(&copying->uses, *fill->buffer, round_uses_of(round, i));
    }
}

/* `record` NULL: nothing is packed. */
static void take_record(const struct fragments *fragments, const struct arrival *arrival,
                        const unsigned char *record)
{
    for (size_t f = 0; f < fragments->packed_count; f++) {
        const struct fragment *fragment = &fragments->all[f];
        if (fragment->cutting) {
            fragment_take_parts(fragment, arrival->slot, arrival->batch_index,
                                record + fragment->record_offset);
            continue;
        }
        memcpy(fragment_in_slot(fragment, arrival->slot, arrival->batch_index),
               record + fragment->record_offset, fragment->bytes);
    }
    if (fragments->finishes)
        fragments_finish(fragments, arrival->slot, arrival->batch_index,
                         !fragments->mask || record[fragments->valid_record_offset]);
}

/* The items of an arrival's ragged fields. */
static void take_trailer(const struct round *round, const struct fragments *fragments,
                         const struct arrival *arrival, const unsigned char *record)
{
    const struct round_trailers *trailers = round->trailers;
    const struct round_trailer *trailer = &trailers->arrivals[arrival - round->arrivals];
    trailers_take(trailers->trailers->of[arrival->kind % round->fragments->source_count],
                  trailer->frame, trailers->received + trailer->at * TRAILER_UNIT_BYTES,
                  !fragments->mask || record[fragments->valid_record_offset], arrival->slot,
                  arrival->batch_index, round_starts(trailers, trailer->table));
}

static uint64_t packed_bytes(const struct round *round)
{
    return fragment_sources_packed(round->fragments,
                                   round->session->needs.of[round->job->comm.rank]);
}

static void scatter_piece(struct copying *copying, uint64_t begin, uint64_t end)
{
    const struct round *round = copying->round;
    bool packed = packed_bytes(round) > 0; /* or what arrives needs finishing alone */
    for (uint64_t i = begin; i < end; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        const struct fragments *fragments = round->fragments->of[arrival->kind];
        const unsigned char *record =
            packed ? round->received + arrival->record * round->unit_bytes : NULL;
        take_record(fragments, arrival, record);
        if (round->trailers)
            take_trailer(round, fragments, arrival, record);
    }
}

/* Takes pieces until the pile is empty. The main thread, which has more to do, takes one. */
static void copy_pieces(const struct pool_worker *worker, struct pile *pile,
                        void (*copy)(struct copying *copying, uint64_t begin, uint64_t end),
                        struct copying *copying)
{
    bool helps = worker->index == pool_worker_count(copying->round->job->pool);
    uint64_t begin, end;
    do {
        while ((!helps || copying->pieces == 0) && pile_take(pile, &begin, &end)) {
            copy(copying, begin, end);
            copying->pieces++;
            copying->copies += end - begin;
        }
        pile_leave(pile);
    } while (!helps && pile_return(pile));
}

/* The main thread is told of the last pieces of a round. */
static void end_pieces(struct pool_worker *worker, const struct copying *copying)
{
    uint64_t pieces = copying->pieces;
    worker->quiet =
        pieces == 0 || atomic_fetch_sub_explicit(&copying->round->tasks, (uint32_t)pieces,
                                                 memory_order_release) > pieces;
}

void round_fill_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin, (void)end;
    struct round_pile *pile = argument;
    struct round *round = pile->round;
    struct copying copying = {.round = round, .uses.store = round->job->store};
    if (round->trailers)
        copying.rows = &round->trailers->found[worker->index];
    uint64_t start_ns = clock_now_ns();
    copy_pieces(worker, &pile->pieces, fill_piece, &copying);
    tell_all(&copying.uses);
    uint64_t end_ns = clock_now_ns();
    worker->stats.copy_ns += end_ns - start_ns;
    worker->stats.copy_bytes += copying.copies * round->job->setup.record_bytes;
    if (copying.pieces > 0)
        trace_note(TRACE_COPY, start_ns, end_ns, copying.copies);
    round_time_add(&round->times[worker->index].fill_ns, end_ns - start_ns);
    end_pieces(worker, &copying);
}

void round_scatter_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin, (void)end;
    struct round_pile *pile = argument;
    struct round *round = pile->round;
    struct copying copying = {.round = round};
    uint64_t start_ns = clock_now_ns();
    copy_pieces(worker, &pile->pieces, scatter_piece, &copying);
    uint64_t end_ns = clock_now_ns();
    worker->stats.copy_ns += end_ns - start_ns;
    worker->stats.copy_bytes += copying.copies * packed_bytes(round);
    if (copying.pieces > 0)
        trace_note(TRACE_SCATTER, start_ns, end_ns, copying.copies);
    round_time_add(&round->times[worker->index].scatter_ns, end_ns - start_ns);
    end_pieces(worker, &copying);
}
