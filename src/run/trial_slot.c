/* See trial_slot.h. */
#include "run/trial_slot.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "delivery/ring/ring.h"
#include "delivery/ring/sealed.h"
#include "plan/order/plan.h"
#include "run/one_sample.h"
#include "run/setup_internal.h"
#include "run/trailers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_SAMPLES = 2 };

struct trial {
    const struct dataset *dataset; /* of one source; held */
    struct one_sample samples[MOST_SAMPLES];
    uint32_t count;
    uint64_t bound; /* the most items of a step of any field */
    struct ring_header *header;
    unsigned char *slot;
};

/* The frame of sample `number` of a row, if there is one. */
static bool find_frame(const struct dataset *dataset, uint64_t row, uint64_t number,
                       uint64_t *ret_frame)
{
    const struct anchors *anchors = dataset->anchors;
    if (number >= (anchors ? anchors_row_samples(anchors, row) : dataset_row_frames(dataset, row)))
        return false;
    *ret_frame =
        anchors ? anchors_frame_at(anchors, row, number) : dataset_row_first(dataset, row) + number;
    return true;
}

static void add_sample(struct trial *trial, uint64_t row, uint64_t frame, uint64_t seed)
{
    struct one_sample *sample = &trial->samples[trial->count++];
    *sample = one_sample_at(trial->dataset, frame);
    sample->row = row;
    sample->key = plan_sample_key(seed, 0, frame);
}

/* The first sample, and one of another row: a row may have one sample, or equal ones. */
static void find_samples(struct trial *trial, uint64_t seed)
{
    const struct dataset *dataset = trial->dataset;
    uint64_t frame = 0;
    for (uint64_t row = 0; row < dataset->row_count && trial->count < MOST_SAMPLES; row++)
        if (find_frame(dataset, row, 0, &frame))
            add_sample(trial, row, frame, seed);
    if (trial->count == 1 && find_frame(dataset, trial->samples[0].row, 1, &frame))
        add_sample(trial, trial->samples[0].row, frame, seed);
}

/* The items of ragged field `number` in all samples, with what pads them. */
static uint64_t count_items(struct trial *trial, size_t number)
{
    const struct ragged *ragged = &trial->dataset->ragged[number];
    uint64_t multiple = max_u64(ragged->multiple, 1), steps = max_u64(ragged->step_count, 1);
    uint64_t all = 0;
    const struct dataset_field *field = &trial->dataset->fields[ragged->columns[0].field];
    for (uint32_t i = 0; i < trial->count; i++)
        for (uint64_t k = 0; k < steps; k++) {
            int32_t step = field->step_count > 0 ? field->steps[k] : 0;
            struct ragged_span span =
                ragged_frame(ragged, one_sample_frame_at(&trial->samples[i], step));
            trial->bound = max_u64(trial->bound, span.end - span.begin);
            all += size_round_up(span.end - span.begin, multiple);
        }
    return all;
}

static enum status lay_out(struct trial *trial, struct error *err)
{
    const struct dataset *dataset = trial->dataset;
    struct ring_layout *layout = &trial->header->layout;
    uint64_t items[RAGGED_MAX_FIELDS] = {0};
    trial->bound = 1;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        items[r] = count_items(trial, r);
    *layout = (struct ring_layout){.field_count = (uint32_t)dataset->field_count,
                                   .slot_count = 1,
                                   .batch_size = trial->count,
                                   .member_count = 1};
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        bool has_items = field->source == FIELD_RAGGED && ragged_has_item_shape(field->ragged);
        uint64_t capacity = 0;
        if (has_items)
            capacity = field->ragged->form == RAGGED_BOUND
                           ? trial->count * trial->bound
                           : max_u64(items[field->ragged - dataset->ragged], 1);
        layout->fields[f] = setup_slot_field(field, capacity);
    }
    return ring_layout_settle(layout, err);
}

/* What the ragged fields of all samples need; a dataset without them has none. */
struct items {
    struct trailer_sources *sources;
    uint64_t *starts;
};

static void items_end(struct items *items)
{
    trailer_sources_free(items->sources);
    free(items->starts);
}

static enum status items_begin(const struct trial *trial, struct items *items, struct error *err)
{
    if (trial->dataset->ragged_count == 0)
        return STATUS_OK;
    enum status status =
        trailer_sources_new(trial->dataset, &trial->header->layout, &items->sources, err);
    if (status != STATUS_OK)
        return status;
    const struct trailers *trailers = items->sources->of[0];
    items->starts = calloc(trailers->starts_count + 1, sizeof *items->starts);
    if (!items->starts)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the items of a trial");
    for (uint32_t i = 0; i < trial->count; i++)
        trailers_note(trailers, trial->samples[i].frame, i, items->starts);
    trailers_start(trailers, trial->count, trial->bound, items->starts, trial->slot);
    return STATUS_OK;
}

static void fill_items(const struct trial *trial, uint32_t i, const struct one_sample_row *row,
                       const struct items *items)
{
    struct trailer_row lies;
    if (!items->sources)
        return;
    const struct trailers *trailers = items->sources->of[0];
    trailers_find(trailers, trial->samples[i].row, &row->pages, &lies);
    const struct trailer_source source = {
        .row = &lies, .frame = trial->samples[i].frame, .good = true};
    trailers_fill(trailers, &source, NULL, trial->slot, i, items->starts);
}

static void fill_fields(const struct trial *trial, uint32_t i, const struct one_sample_row *row)
{
    const struct ring_layout *layout = &trial->header->layout;
    const struct one_sample *sample = &trial->samples[i];
    for (uint32_t f = 0; f < layout->field_count; f++) {
        const struct dataset_field *from = &trial->dataset->fields[f];
        const struct ring_field *field = &layout->fields[f];
        unsigned char *to = trial->slot + field->slot_offset + i * field->sample_bytes;
        if (from->ragged)
            continue;
        if (from->source == FIELD_MADE)
            dataset_make(trial->dataset, f, sample->frame, sample->key, to);
        else
            one_sample_take(row, sample, f, to);
    }
}

static void fill_heads(struct trial *trial)
{
    const struct ring_layout *layout = &trial->header->layout;
    struct slot_header *header = (void *)trial->slot;
    *header = (struct slot_header){.sample_count = trial->count, .bound = trial->bound};
    for (uint32_t i = 0; i < trial->count; i++) {
        ((uint64_t *)(void *)(trial->slot + layout->indices_offset))[i] = trial->samples[i].frame;
        ((uint64_t *)(void *)(trial->slot + layout->keys_offset))[i] = trial->samples[i].key;
        trial->slot[layout->valid_offset + i] = 1;
    }
}

static enum status fill(struct trial *trial, struct error *err)
{
    struct items items = {0};
    enum status status = items_begin(trial, &items, err);
    for (uint32_t i = 0; status == STATUS_OK && i < trial->count; i++) {
        struct one_sample_row row = {0};
        status = one_sample_read_row(trial->dataset, trial->samples[i].row, &row, err);
        if (status == STATUS_OK) {
            fill_items(trial, i, &row, &items);
            fill_fields(trial, i, &row);
        }
        one_sample_row_done(&row);
    }
    fill_heads(trial);
    items_end(&items);
    return status;
}

/* Memory for a settled layout, filled. */
static enum status make_memory(struct trial *trial, int memfd, struct error *err)
{
    uint64_t bytes = trial->header->layout.total_bytes;
    struct ring ring;
    if (ftruncate(memfd, (off_t)bytes) < 0)
        return error_set_errno(err, STATUS_NO_MEMORY, "size a slot of %s for a trial",
                               size_format(bytes).text);
    enum status status = sealed_make(memfd, err);
    if (status == STATUS_OK)
        status = ring_map(memfd, bytes, &ring, err);
    if (status != STATUS_OK)
        return status;
    memcpy(ring.memory, trial->header, sizeof *trial->header);
    ring_lay_out(&ring, &trial->header->layout);
    trial->slot = ring_slot(&ring, 0);
    status = fill(trial, err);
    munmap(ring.memory, bytes);
    return status;
}

static enum status make(const struct dataset *dataset, uint64_t seed, int *ret_memfd,
                        struct error *err)
{
    struct trial trial = {.dataset = dataset_source(dataset, 0)};
    trial.header = calloc(1, sizeof *trial.header);
    if (!trial.header)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a trial");
    find_samples(&trial, seed);
    enum status status = lay_out(&trial, err);
    int memfd = -1;
    if (status == STATUS_OK) {
        memfd = memfd_create("penstock-trial", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        status = memfd < 0 ? error_set_errno(err, STATUS_IO, "create memory for a trial")
                           : make_memory(&trial, memfd, err);
    }
    free(trial.header);
    if (status == STATUS_OK)
        *ret_memfd = memfd;
    else if (memfd >= 0)
        close(memfd);
    return status;
}

/* Held arrays are not there yet, and are another memory's later: a copy of the dataset has its own.
 */
enum status trial_slot_make(const struct dataset *dataset, uint64_t seed, int *ret_memfd,
                            struct error *err)
{
    void *bytes = NULL, *held = NULL;
    size_t size = 0;
    struct dataset *copy = NULL;
    if (dataset->held_bytes == 0)
        return make(dataset, seed, ret_memfd, err);
    enum status status = dataset_pack(dataset, &bytes, &size, err);
    if (status == STATUS_OK)
        status = dataset_unpack(bytes, size, NULL, &copy, err);
    free(bytes);
    if (status == STATUS_OK &&
        !(held = aligned_alloc(MEMORY_LINE_BYTES,
                               size_round_up(dataset->held_bytes, MEMORY_LINE_BYTES))))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for held arrays of %s",
                           size_format(dataset->held_bytes).text);
    if (status == STATUS_OK)
        status = dataset_hold(copy, held, err);
    if (status == STATUS_OK)
        status = make(copy, seed, ret_memfd, err);
    dataset_free(copy);
    free(held);
    return status;
}
