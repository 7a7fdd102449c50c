/* See ragged.h: the ragged fields of a mix. Each source has its own offsets,
 * pages and trailers. The mix says what all sources have together, and at most. */
#include "dataset/mix/mix.h"

#include "base/number.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Comparing
 * ---------------------------------------------------------------------------------------------- */

static const struct ragged *find_ragged(const struct dataset *dataset, const char *name)
{
    for (size_t r = 0; r < dataset->ragged_count; r++)
        if (strcmp(dataset->ragged[r].name, name) == 0)
            return &dataset->ragged[r];
    return NULL;
}

/* "padded to 30"; NULL: no ragged field. */
static void describe(const struct ragged *ragged, struct text *out)
{
    static const char *const combines[] = {
        [RAGGED_SUM] = "sum", [RAGGED_LAST] = "last", [RAGGED_MAX] = "max"};
    if (!ragged)
        text_append(out, "not ragged");
    else if (ragged->form == RAGGED_CSR && ragged->multiple > 0)
        text_append(out, "ragged, padded to multiples of %" PRIu64, ragged->multiple);
    else if (ragged->form == RAGGED_CSR)
        text_append(out, "ragged, delivered as csr");
    else if (ragged->form == RAGGED_BOUND)
        text_append(out, "ragged, padded to the bound of each step");
    else if (ragged->form == RAGGED_PAD)
        text_append(out, "ragged, padded to %" PRIu64, ragged->pad_items);
    else
        text_append(out, "ragged, put into a dense tensor of rank %d by combine %s",
                    ragged->dense_rank, combines[ragged->combine]);
    if (ragged && ragged->panel_count > 0)
        text_append(out, ", of %" PRIu64 " columns", ragged->panel_count);
    if (ragged && ragged->step_count > 0)
        text_append(out, ", with %zu steps", ragged->step_count);
}

static bool is_same(const struct ragged *a, const struct ragged *b)
{
    return b && a->form == b->form && a->step_count == b->step_count &&
           a->panel_count == b->panel_count && a->pad_items == b->pad_items &&
           a->multiple == b->multiple && a->dense_rank == b->dense_rank &&
           (a->form != RAGGED_DENSE || a->combine == b->combine);
}

static enum status refuse(const char *name, const struct ragged *a, const struct ragged *b,
                          const char *const names[2], struct error *err)
{
    struct text first = {0}, second = {0};
    describe(a, &first);
    describe(b, &second);
    enum status status = error_set(
        err, STATUS_INVALID,
        "field '%s' is %s in source '%s', and %s in '%s': the sources of a mix have the same "
        "ragged fields, delivered alike (deliver and steps can make them the same)",
        name, first.data, names[0], second.data, names[1]);
    text_done(&first);
    text_done(&second);
    return status;
}

enum status mix_compare_ragged(const struct dataset *a, const struct dataset *b,
                               const char *const names[2], struct error *err)
{
    for (size_t r = 0; r < a->ragged_count; r++) {
        const struct ragged *other = find_ragged(b, a->ragged[r].name);
        if (!is_same(&a->ragged[r], other))
            return refuse(a->ragged[r].name, &a->ragged[r], other, names, err);
    }
    for (size_t r = 0; r < b->ragged_count; r++)
        if (!find_ragged(a, b->ragged[r].name))
            return refuse(b->ragged[r].name, NULL, &b->ragged[r], names, err);
    return STATUS_OK;
}

/* Sums
 * ---------------------------------------------------------------------------------------------- */

static void add_lengths(struct ragged_lengths *sum, const struct ragged_lengths *lengths)
{
    lengths_add_longest(&sum->samples, &lengths->samples, UINT64_MAX, 1);
    lengths_add_longest(&sum->rows, &lengths->rows, UINT64_MAX, 1);
    sum->chunks += lengths->chunks;
    sum->decoded += lengths->decoded;
}

static void add_ragged(struct ragged *sum, const struct ragged *ragged)
{
    sum->item_count += ragged->item_count;
    sum->frame_items += ragged->frame_items;
    sum->sample_items += ragged->sample_items;
    sum->most_frame_items = max_u64(sum->most_frame_items, ragged->most_frame_items);
    sum->page_items = max_u64(sum->page_items, ragged->page_items);
    sum->columns_bytes = max_u64(sum->columns_bytes, ragged->columns_bytes);
    sum->page_bytes = max_u64(sum->page_bytes, ragged->page_bytes);
    sum->trailer_item_bytes = max_u64(sum->trailer_item_bytes, ragged->trailer_item_bytes);
    sum->is_held &= ragged->is_held;
}

static void set_amplification(struct ragged *ragged)
{
    const struct ragged_lengths *lengths = ragged->lengths;
    ragged->decode_amplification =
        lengths->chunks > 0 ? (double)lengths->decoded / (double)lengths->chunks : 1;
}

static enum status sum_up(struct dataset *mix, size_t r, struct error *err)
{
    struct ragged *ragged = &mix->private->raggeds[r];
    struct ragged_lengths *lengths = calloc(1, sizeof *lengths);
    if (!lengths)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a mix");
    mix->private->ragged_origins[r].lengths = lengths;
    *ragged = mix->sources[0]->ragged[r];
    ragged->offsets = NULL;
    ragged->entries = NULL;
    memset(ragged->held_items, 0, sizeof ragged->held_items);
    ragged->lengths = lengths;
    add_lengths(lengths, mix->sources[0]->ragged[r].lengths);
    for (uint32_t d = 1; d < mix->source_count; d++) {
        add_ragged(ragged, &mix->sources[d]->ragged[r]);
        add_lengths(lengths, mix->sources[d]->ragged[r].lengths);
    }
    set_amplification(ragged);
    return STATUS_OK;
}

enum status mix_settle_ragged(struct dataset *mix, struct error *err)
{
    enum status status = STATUS_OK;
    mix->ragged_count = mix->sources[0]->ragged_count;
    for (size_t r = 0; r < mix->ragged_count && status == STATUS_OK; r++)
        status = sum_up(mix, r, err);
    mix->ragged = mix->ragged_count > 0 ? mix->private->raggeds : NULL;
    for (uint32_t d = 0; d < mix->source_count; d++)
        mix->page_bytes = max_u64(mix->page_bytes, mix->sources[d]->page_bytes);
    return status;
}

/* What draws have at most
 * ---------------------------------------------------------------------------------------------- */

uint64_t mix_most_items(const struct dataset *mix, size_t ragged, const uint64_t *draws,
                        const uint64_t *copies, uint64_t samples)
{
    struct lengths together = {0};
    for (uint32_t d = 0; d < mix->source_count; d++)
        lengths_add_longest(&together, &mix->sources[d]->ragged[ragged].lengths->samples,
                            min_u64(samples, draws[d]), copies[d]);
    return lengths_most(&together, samples);
}

uint64_t mix_most_trailer(const struct dataset *mix, const uint64_t *draws, const uint64_t *copies,
                          uint64_t samples)
{
    uint64_t bytes = 0;
    bool is_padded = false;
    for (uint32_t d = 0; d < mix->source_count; d++)
        for (size_t r = 0; r < mix->ragged_count; r++)
            is_padded |=
                mix->sources[d]->ragged[r].trailer_item_bytes % RAGGED_TRAILER_ALIGNMENT != 0;
    for (size_t r = 0; r < mix->ragged_count; r++)
        bytes = add_sat(bytes, mul_sat(mix_most_items(mix, r, draws, copies, samples),
                                       mix->ragged[r].trailer_item_bytes));
    if (is_padded)
        bytes = add_sat(bytes, mul_sat(samples, RAGGED_TRAILER_ALIGNMENT - 1));
    return bytes > UINT64_MAX - RAGGED_TRAILER_ALIGNMENT
               ? UINT64_MAX
               : size_round_up(bytes, RAGGED_TRAILER_ALIGNMENT);
}
