/* See anchors.h: the block, its encodings, and look-ups. */
#include "anchors/anchors_internal.h"
#include "anchors/bits.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t BLOCK_MAGIC = UINT64_C(0x32726f68636e6170); /* "panchor2" */

static uint64_t block_count(uint64_t frames)
{
    return size_divide_up(frames, RANK_BLOCK);
}

uint64_t anchors_block_bytes(const struct anchors_header *sizes)
{
    uint64_t words = 2 * (sizes->stores + 1) + sizes->episodes, bytes;
    words += sizes->runs ? 2 * (sizes->runs + 1)
                         : bits_words(sizes->frames) + block_count(sizes->frames) + 1;
    words += size_divide_up(sizes->rows, 2);
    if (sizes->weights)
        words = add_sat(words, sizes->samples + 1);
    bytes = add_sat(sizeof *sizes, mul_sat(words, sizeof(uint64_t)));
    return bytes;
}

/* ret->header and all other pointers, by the header's sizes. */
static void locate(void *block, struct anchors *ret)
{
    struct anchors_header *header = block;
    uint64_t *next = (uint64_t *)(header + 1);
    *ret = (struct anchors){.header = header, .row_divider = divider_of(header->row_length)};
    ret->store_frames = next;
    ret->store_rows = ret->store_frames + header->stores + 1;
    ret->episode_ends = ret->store_rows + header->stores + 1;
    next = ret->episode_ends + header->episodes;
    if (header->runs) {
        ret->runs = (struct run *)next;
        next += 2 * (header->runs + 1);
    } else {
        ret->words = next;
        ret->ranks = ret->words + bits_words(header->frames);
        next = ret->ranks + block_count(header->frames) + 1;
    }
    ret->row_samples = (uint32_t *)next;
    if (header->weights)
        ret->weight_sums = next + size_divide_up(header->rows, 2);
}

enum status anchors_new(const struct anchors_header *sizes, struct anchors **ret, struct error *err)
{
    uint64_t bytes = anchors_block_bytes(sizes);
    struct anchors *anchors = malloc(sizeof *anchors);
    struct anchors_header *header = calloc(1, bytes);
    if (!anchors || !header) {
        free(anchors);
        free(header);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tables of samples, %s",
                         size_format(bytes).text);
    }
    memory_prefer_huge(header, bytes);
    *header = *sizes;
    header->magic = BLOCK_MAGIC;
    header->bytes = bytes;
    locate(header, anchors);
    anchors->owned = header;
    *ret = anchors;
    return STATUS_OK;
}

void anchors_free(struct anchors *anchors)
{
    if (!anchors)
        return;
    free(anchors->owned);
    free(anchors);
}

static enum status check_packed(const void *bytes, size_t size, struct error *err)
{
    struct anchors_header header;
    bool fits = size >= sizeof header;
    if (fits) {
        memcpy(&header, bytes, sizeof header);
        fits = header.magic == BLOCK_MAGIC && header.bytes == size && header.row_length > 0 &&
               header.stride > 0 && (header.runs > 0 || header.frames / 64 <= size) &&
               header.stores < size && header.episodes < size && header.runs < size &&
               header.rows < size && header.samples <= header.frames &&
               header.weights <= WEIGHTS_REPLACED && anchors_block_bytes(&header) == size;
    }
    if (!fits)
        return error_set(err, STATUS_CORRUPT,
                         "%zu bytes that should be the tables of samples are something else", size);
    return STATUS_OK;
}

enum status anchors_unpack(const void *bytes, size_t size, bool borrow, struct anchors **ret,
                           struct error *err)
{
    enum status status = check_packed(bytes, size, err);
    if (status != STATUS_OK)
        return status;

    struct anchors *anchors = malloc(sizeof *anchors);
    void *copy = borrow ? NULL : malloc(size);
    if (!anchors || (!borrow && !copy)) {
        free(anchors);
        free(copy);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tables of samples, %s",
                         size_format(size).text);
    }
    if (copy) {
        memory_prefer_huge(copy, size);
        memcpy(copy, bytes, size);
    }
    locate(copy ? copy : (void *)(uintptr_t)bytes, anchors);
    anchors->owned = copy;
    *ret = anchors;
    return STATUS_OK;
}

const void *anchors_packed(const struct anchors *anchors)
{
    return anchors->header;
}

size_t anchors_bytes(const struct anchors *anchors)
{
    return anchors->header->bytes;
}

uint64_t anchors_count(const struct anchors *anchors)
{
    return anchors->header->samples;
}

uint64_t anchors_frames(const struct anchors *anchors)
{
    return anchors->header->frames;
}

uint64_t anchors_row_count(const struct anchors *anchors)
{
    return anchors->header->rows;
}

uint64_t anchors_hash(const struct anchors *anchors)
{
    return anchors->header->hash;
}

uint32_t anchors_row_samples(const struct anchors *anchors, uint64_t row)
{
    return anchors->row_samples[row];
}

uint64_t anchors_row_frames(const struct anchors *anchors, uint64_t row, uint64_t *ret_end)
{
    uint64_t stores = anchors->header->stores, length = anchors->header->row_length;
    uint64_t store = find_last_u64(anchors->store_rows, 0, stores, row);
    uint64_t first = anchors->store_frames[store] + (row - anchors->store_rows[store]) * length;
    *ret_end = min_u64(first + length, anchors->store_frames[store + 1]);
    return first;
}

/* The row of a frame, and the row's first frame. */
static uint64_t row_of(const struct anchors *anchors, uint64_t frame, uint64_t *ret_first)
{
    uint64_t stores = anchors->header->stores;
    uint64_t store = find_last_u64(anchors->store_frames, 0, stores, frame);
    uint64_t row = divide(anchors->row_divider, frame - anchors->store_frames[store]);
    *ret_first = anchors->store_frames[store] + row * anchors->header->row_length;
    return anchors->store_rows[store] + row;
}

/* The last run of [low, low + count) that begins at `frame` or before; `low` if none does. */
static uint64_t run_at_frame(const struct run *runs, uint64_t low, uint64_t count, uint64_t frame)
{
    while (count > 1) {
        uint64_t half = count / 2;
        bool up = runs[low + half].first <= frame;
        low += up ? half : 0;
        count = up ? count - half : half;
    }
    return low;
}

static uint64_t run_of_rank(const struct run *runs, uint64_t low, uint64_t count, uint64_t rank)
{
    while (count > 1) {
        uint64_t half = count / 2;
        bool up = runs[low + half].rank <= rank;
        low += up ? half : 0;
        count = up ? count - half : half;
    }
    return low;
}

/* How many anchors of a run, and of those before, are before `frame`. */
static uint64_t rank_in_run(const struct anchors *anchors, uint64_t run, uint64_t frame)
{
    const struct run *at = &anchors->runs[run];
    if (frame <= at->first)
        return at->rank;
    uint64_t distance = frame - at->first, stride = anchors->header->stride;
    return min_u64(at[1].rank, at->rank + (stride == 1 ? distance : (distance - 1) / stride + 1));
}

uint64_t anchors_rank(const struct anchors *anchors, uint64_t frame)
{
    if (anchors->runs)
        return rank_in_run(anchors, run_at_frame(anchors->runs, 0, anchors->header->runs, frame),
                           frame);
    return anchors->ranks[frame / RANK_BLOCK] +
           bits_count(anchors->words, frame / RANK_BLOCK * RANK_BLOCK, frame);
}

static uint64_t frame_in_runs(const struct anchors *anchors, uint64_t first, uint64_t end,
                              uint32_t offset)
{
    const struct run *runs = anchors->runs;
    uint64_t run = run_at_frame(runs, 0, anchors->header->runs, first);
    uint64_t rank = rank_in_run(anchors, run, first) + offset;
    /* Each frame of the row begins one run at most. */
    run = run_of_rank(runs, run, min_u64(end - first + 1, anchors->header->runs - run), rank);
    return runs[run].first + (rank - runs[run].rank) * anchors->header->stride;
}

static uint64_t frame_in_bitmap(const struct anchors *anchors, uint64_t first, uint64_t end,
                                uint32_t offset)
{
    uint64_t rank = anchors_rank(anchors, first) + offset;
    uint64_t block =
        find_last_u64(anchors->ranks, first / RANK_BLOCK, (end - 1) / RANK_BLOCK + 1, rank);
    uint64_t word = block * RANK_BLOCK_WORDS, left = rank - anchors->ranks[block], here;
    while ((here = bits_count_word(anchors->words[word])) <= left) {
        left -= here;
        word++;
    }
    return word * 64 + bits_select_word(anchors->words[word], left);
}

uint64_t anchors_frame_at(const struct anchors *anchors, uint64_t row, uint32_t offset)
{
    uint64_t end, first = anchors_row_frames(anchors, row, &end);
    assert(offset < anchors->row_samples[row]);
    if (anchors->row_samples[row] == end - first)
        return first + offset;
    return anchors->runs ? frame_in_runs(anchors, first, end, offset)
                         : frame_in_bitmap(anchors, first, end, offset);
}

uint64_t anchors_offset_of(const struct anchors *anchors, uint64_t frame, uint64_t *ret_row)
{
    uint64_t first;
    *ret_row = row_of(anchors, frame, &first);
    uint64_t rank = anchors_rank(anchors, frame);
    if (anchors_rank(anchors, frame + 1) == rank)
        return UINT64_MAX;
    return rank - anchors_rank(anchors, first);
}

struct anchors_episode anchors_episode_of(const struct anchors *anchors, uint64_t frame)
{
    const uint64_t *ends = anchors->episode_ends;
    uint64_t number = count_up_to_u64(ends, anchors->header->episodes - 1, frame);
    return (struct anchors_episode){number ? ends[number - 1] : 0, ends[number], number};
}
