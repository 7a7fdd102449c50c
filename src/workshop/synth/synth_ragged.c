/* Numbers for synthetic samples of unequal lengths: events of a camera, cells and documents. Pure,
 * any thread.
 *
 * Samples come in blocks of 64, which have about equally many items. Within a block, a sample's
 * share of the items is its weight: most weights are alike, some are zero, and events and documents
 * have a few samples that are many times as long.
 */
#include "base/number.h"
#include "base/random.h"
#include "workshop/synth/synth.h"

#include <string.h>

enum { BLOCK_SAMPLES = 64, STREAM_WEIGHTS = 1100, STREAM_CENTERS };

/* Where the samples of one block begin. */
struct block {
    uint64_t seed, number, samples, items; /* of the whole array: what the block was made for */
    bool long_tail, known;
    uint64_t first;                     /* sample */
    uint32_t count;                     /* samples */
    uint64_t begins[BLOCK_SAMPLES + 1]; /* items; the last one: where the next block begins */
};

static uint32_t weight(uint64_t seed, uint64_t sample, bool long_tail)
{
    uint64_t bits = random_u64(seed, STREAM_WEIGHTS, sample);
    if (bits % 32 == 0)
        return 0;
    if (long_tail && bits % 64 == 1)
        return 1000 + (uint32_t)(bits >> 8) % 3000;
    return 50 + (uint32_t)(bits >> 8) % 100;
}

static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
    return (uint64_t)((unsigned __int128)a * b / c);
}

static void make_block(struct block *block)
{
    uint64_t sum = 0, sums[BLOCK_SAMPLES + 1] = {0};
    uint64_t begin, end;
    block->first = block->number * BLOCK_SAMPLES;
    block->count = (uint32_t)min_u64(BLOCK_SAMPLES, block->samples - block->first);
    begin = scale(block->first, block->items, block->samples);
    end = scale(block->first + block->count, block->items, block->samples);
    for (uint32_t i = 0; i < block->count; i++) {
        sum += weight(block->seed, block->first + i, block->long_tail);
        sums[i + 1] = sum;
    }
    for (uint32_t i = 0; i <= block->count; i++)
        block->begins[i] =
            sum > 0 ? begin + scale(sums[i], end - begin, sum) : (i < block->count ? begin : end);
    block->known = true;
}

/* Most entries are in the block of the entry before. */
static const struct block *find_block(uint64_t seed, bool long_tail, uint64_t number,
                                      uint64_t samples, uint64_t items)
{
    static _Thread_local struct block last;
    if (!last.known || last.seed != seed || last.number != number || last.samples != samples ||
        last.items != items || last.long_tail != long_tail) {
        last = (struct block){.seed = seed,
                              .number = number,
                              .samples = samples,
                              .items = items,
                              .long_tail = long_tail};
        make_block(&last);
    }
    return &last;
}

/* One item: the sample that has the item, which of the sample's items it is, and of how many. */
struct item {
    uint64_t sample, at, count;
};

static struct item find_item(const struct synth_array *array, uint64_t index)
{
    uint64_t samples = array->range, items = array->shape[0];
    uint64_t blocks = (samples + BLOCK_SAMPLES - 1) / BLOCK_SAMPLES;
    uint64_t number = min_u64(scale(index, samples, items) / BLOCK_SAMPLES, blocks - 1);
    const struct block *block;
    uint32_t i = 0;
    for (;;) {
        block = find_block(array->seed, array->long_tail, number, samples, items);
        if (index < block->begins[block->count])
            break;
        number++; /* rounding */
    }
    while (block->begins[i + 1] <= index)
        i++;
    return (struct item){block->first + i, index - block->begins[i],
                         block->begins[i + 1] - block->begins[i]};
}

void synth_fill_offset(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint64_t samples = array->shape[0] - 1, items = array->range;
    int64_t offset = (int64_t)items;
    if (index < samples)
        offset = (int64_t)find_block(array->seed, array->long_tail, index / BLOCK_SAMPLES, samples,
                                     items)
                     ->begins[index % BLOCK_SAMPLES];
    memcpy(ret_entry, &offset, sizeof offset);
}

/* Events of a spot that moves over the picture: in order of time, and around the spot. */
static uint32_t event_coordinate(const struct synth_array *array, uint64_t index, uint32_t side)
{
    struct item item = find_item(array, index);
    uint64_t bits = random_u64(array->seed, array->stream, index);
    uint64_t center = random_u64(array->seed, STREAM_CENTERS + array->stream, item.sample) % side;
    uint64_t moved = scale(item.at, side / 4 + 1, item.count);
    uint64_t spread = bits % side * (bits >> 32 & 0xff) / 256;
    return (uint32_t)((center + moved + spread) % side);
}

void synth_fill_event_bin(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    struct item item = find_item(array, index);
    uint16_t bin = (uint16_t)scale(item.at, array->side, item.count);
    memcpy(ret_entry, &bin, sizeof bin);
}

void synth_fill_event_coordinate(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint16_t at = (uint16_t)event_coordinate(array, index, (uint32_t)array->side);
    memcpy(ret_entry, &at, sizeof at);
}

void synth_fill_event_count(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint64_t bits = random_u64(array->seed, array->stream, index);
    uint8_t count = (uint8_t)(1 + (bits % 8 == 0) + (bits % 64 == 0));
    memcpy(ret_entry, &count, sizeof count);
}

/* Genes of a cell rise, and none comes twice: each in a stretch of genes of its own. */
void synth_fill_gene(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    struct item item = find_item(array, index);
    uint64_t bits = random_u64(array->seed, array->stream, index);
    uint64_t half = array->side / 2;
    int32_t gene = (int32_t)((item.at * array->side + random_below(bits, half)) / item.count);
    memcpy(ret_entry, &gene, sizeof gene);
}

void synth_fill_expression(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint64_t bits = random_u64(array->seed, array->stream, index);
    float value = (float)(1 + random_below(bits, 1 + (bits >> 40) % 30));
    memcpy(ret_entry, &value, sizeof value);
}

/* int64: one of ten classes. */
void synth_fill_label(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    int64_t label = (int64_t)(random_u64(array->seed, array->stream, index) % 10);
    memcpy(ret_entry, &label, sizeof label);
}
