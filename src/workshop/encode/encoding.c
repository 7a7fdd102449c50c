/* See encoding.h. */
#include "workshop/encode/encoding.h"

#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "workshop/encode/encoding_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opening
 * ------------------------------------------------------------------------------------------- */

static enum status make_field(const struct zarr_array *array, struct ring_field *ret_field,
                              struct error *err)
{
    struct ring_field field = {.dtype = (uint32_t)array->dtype, .rank = (uint32_t)array->rank - 1};
    if (strlen(array->path) >= sizeof field.name || dtype_bytes(array->dtype) != array->item_bytes)
        return error_set(err, STATUS_UNSUPPORTED,
                         "array '%s': encoders get numbers, and names of less than %zu bytes",
                         array->path, sizeof field.name);
    snprintf(field.name, sizeof field.name, "%s", array->path);
    memcpy(field.shape, &array->shape[1], field.rank * sizeof *field.shape);
    *ret_field = field;
    return STATUS_OK;
}

static enum status make_fields(const struct encoding_plan *plan, struct ring_field *fields,
                               struct error *err)
{
    enum status status = STATUS_OK;
    if (plan->input_count > RING_MAX_FIELDS)
        return error_set(err, STATUS_UNSUPPORTED, "%zu arrays for encoders; at most %d",
                         plan->input_count, RING_MAX_FIELDS);
    for (size_t i = 0; i < plan->input_count && status == STATUS_OK; i++) {
        const struct zarr_array *array = &plan->inputs[i].array, *first = &plan->inputs[0].array;
        if (array->rank < 1 || array->shape[0] == 0)
            return error_set(err, STATUS_INVALID, "array '%s' has no samples", array->path);
        if (array->shape[0] != first->shape[0])
            return error_set(err, STATUS_INVALID,
                             "array '%s' has %" PRIu64 " samples, and '%s' has %" PRIu64,
                             array->path, array->shape[0], first->path, first->shape[0]);
        status = make_field(array, &fields[i], err);
    }
    return status;
}

/* Rings, and results that were given and not collected, as far as their size is known. */
static uint64_t encoding_bytes(const struct encoding *encoding)
{
    uint64_t batch = min_u64(encoding->plan->options->batch, encoding->sample_count);
    uint64_t results = encoding->sample_bytes * batch;
    return encoders_bytes(encoding->encoders) +
           results * encoding->plan->options->encoders * ENCODERS_SLOTS;
}

enum status encoding_check_memory(const struct encoding *encoding, struct error *err)
{
    const struct encoding_plan *plan = encoding->plan;
    uint64_t bytes = encoding_bytes(encoding), most = plan->memory_bytes;
    if (bytes < most)
        return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY,
                     "%" PRIu64 " encoder%s with %d batches of %" PRIu64
                     " samples each%s take %s of "
                     "shared memory, and --memory is %s: raise --memory, or lower --batch or "
                     "--encoders",
                     plan->options->encoders, count_plural(plan->options->encoders), ENCODERS_SLOTS,
                     min_u64(plan->options->batch, encoding->sample_count),
                     encoding->sample_bytes > 0 ? ", and with as many results," : "",
                     size_format(bytes).text, size_format(most).text);
}

enum status encoding_new(const struct encoding_plan *plan, struct encoding **ret_encoding,
                         struct error *err)
{
    struct ring_field fields[RING_MAX_FIELDS] = {0};
    enum status status = make_fields(plan, fields, err);
    if (status != STATUS_OK)
        return status;
    struct encoding *encoding = calloc(1, sizeof *encoding);
    if (!encoding)
        return error_set(err, STATUS_NO_MEMORY, "no memory for encoders");
    encoding->plan = plan;
    encoding->sample_count = plan->inputs[0].array.shape[0];
    const struct encoders_options options = {
        .command = plan->options->command,
        .count = (uint32_t)plan->options->encoders,
        .batch = (uint32_t)min_u64(plan->options->batch, encoding->sample_count),
        .timeout_ns = plan->options->timeout_s * UINT64_C(1000000000),
        .sample_count = encoding->sample_count,
        .field_count = (uint32_t)plan->input_count,
        .fields = fields,
    };
    status = encoders_new(&options, &encoding->encoders, err);
    if (status == STATUS_OK)
        status = encoding_check_memory(encoding, err);
    if (status != STATUS_OK)
        encoding_free(encoding);
    else
        *ret_encoding = encoding;
    return status;
}

void encoding_free(struct encoding *encoding)
{
    if (!encoding)
        return;
    encoders_free(encoding->encoders);
    free(encoding->first);
    free(encoding);
}

/* Reading
 * ------------------------------------------------------------------------------------------- */

enum status encoding_open(void *argument, void **ret_reader, struct error *err)
{
    struct encoding *encoding = argument;
    const struct encoding_plan *plan = encoding->plan;
    struct encoding_reader *reader = calloc(1, sizeof *reader);
    if (reader)
        reader->inner = calloc(plan->input_count, sizeof *reader->inner);
    if (!reader || !reader->inner) {
        free(reader);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    }
    reader->encoding = encoding;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < plan->input_count && status == STATUS_OK; i++)
        status = plan->inner.open(plan->inner.argument, &reader->inner[i], err);
    if (status != STATUS_OK)
        encoding_close(reader);
    else
        *ret_reader = reader;
    return status;
}

void encoding_close(void *argument)
{
    struct encoding_reader *reader = argument;
    const struct encoding_plan *plan = reader->encoding->plan;
    for (size_t i = 0; i < plan->input_count; i++)
        if (reader->inner[i])
            plan->inner.close(reader->inner[i]);
    free(reader->inner);
    free(reader);
}

enum status encoding_ask(struct encoding_reader *reader, uint64_t begin, uint32_t count,
                         struct encoded *ret_encoded, struct error *err)
{
    struct encoding *encoding = reader->encoding;
    const struct encoding_plan *plan = encoding->plan;
    struct encoders_submission submission;
    struct error error = {0};
    enum status status = encoders_reserve(encoding->encoders, &submission, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < plan->input_count && status == STATUS_OK; i++)
        status =
            plan->inner.read(reader->inner[i], &plan->inputs[i], begin, begin + count,
                             encoders_field(encoding->encoders, &submission, (uint32_t)i), &error);
    if (status != STATUS_OK) { /* the submissions behind it would wait */
        encoders_abandon(encoding->encoders, &error);
        if (err)
            *err = error;
        return status;
    }
    encoders_submit(encoding->encoders, &submission, begin, count);
    return encoders_collect(encoding->encoders, &submission, ret_encoded, err);
}

static bool is_as_settled(const struct encoding *encoding, const struct encoded *encoded)
{
    return encoded->dtype == encoding->dtype && encoded->rank == encoding->rank &&
           memcmp(&encoded->shape[1], &encoding->shape[1],
                  (size_t)(encoding->rank - 1) * sizeof *encoded->shape) == 0;
}

static enum status read_batch(struct encoding_reader *reader, uint64_t begin, uint32_t count,
                              unsigned char *samples, struct error *err)
{
    const struct encoding *encoding = reader->encoding;
    struct encoded encoded = {0};
    struct text before = {0};
    if (begin == 0 && count == encoding->shape[0]) {
        memcpy(samples, encoding->first, count * encoding->sample_bytes);
        return STATUS_OK;
    }
    enum status status = encoding_ask(reader, begin, count, &encoded, err);
    if (status != STATUS_OK)
        return status;
    if (is_as_settled(encoding, &encoded)) {
        memcpy(samples, encoded.data, encoded.bytes);
    } else {
        text_append(&before, "%s",
                    encoded_describe(encoding->dtype, encoding->rank - 1, &encoding->shape[1]));
        status = error_set(err, STATUS_INVALID,
                           "samples %" PRIu64 " to %" PRIu64
                           ": the encoder gave %s for each, and %s for the first ones",
                           begin, begin + count - 1,
                           encoded_describe(encoded.dtype, encoded.rank - 1, &encoded.shape[1]),
                           before.data);
    }
    text_done(&before);
    encoded_done(&encoded);
    return status;
}

static enum status read_samples(void *argument, const struct target *target, uint64_t begin,
                                uint64_t end, void *samples, struct error *err)
{
    struct encoding_reader *reader = argument;
    const struct encoding *encoding = reader->encoding;
    const struct encoding_plan *plan = encoding->plan;
    enum status status = STATUS_OK;
    if (strcmp(target->array.path, plan->output) != 0)
        return plan->inner.read(reader->inner[0], target, begin, end, samples, err);
    for (uint64_t at = begin, count; at < end && status == STATUS_OK; at += count) {
        count = min_u64(plan->options->batch, end - at);
        status = read_batch(reader, at, (uint32_t)count,
                            (unsigned char *)samples + (at - begin) * encoding->sample_bytes, err);
    }
    return status;
}

static uint64_t reader_bytes(const void *argument, const struct target *target)
{
    const struct encoding *encoding = argument;
    const struct encoding_plan *plan = encoding->plan;
    uint64_t bytes = 0;
    if (strcmp(target->array.path, plan->output) != 0)
        return plan->inner.reader_bytes(plan->inner.argument, target);
    for (size_t i = 0; i < plan->input_count; i++)
        bytes += plan->inner.reader_bytes(plan->inner.argument, &plan->inputs[i]);
    return bytes;
}

static enum status before_late(void *argument, struct error *err)
{
    const struct encoding *encoding = argument;
    const struct sample_source *inner = &encoding->plan->inner;
    return inner->before_late ? inner->before_late(inner->argument, err) : STATUS_OK;
}

struct sample_source encoding_source(struct encoding *encoding)
{
    return (struct sample_source){
        .argument = encoding,
        .reader_bytes = reader_bytes,
        .open = encoding_open,
        .read = read_samples,
        .close = encoding_close,
        .before_late = before_late,
    };
}

/* Making
 * ------------------------------------------------------------------------------------------- */

void encoding_cut(const struct encoding_options *options, struct target *target)
{
    struct slabs_demand *demand = &target->demand;
    uint64_t batch = min_u64(options->batch, demand->sample_count);
    demand->granule = common_multiple(demand->granule, batch);
    demand->period = demand->granule;
    demand->wanted_bytes = 1;
}

enum status encoding_make(const struct encoding *encoding, const struct making_options *making,
                          struct targets *targets, struct making_result *ret_result,
                          struct error *err)
{
    uint64_t bytes = encoding_bytes(encoding);
    struct making_options rest = *making;
    enum status status = encoding_check_memory(encoding, err);
    if (status != STATUS_OK)
        return status;
    rest.memory_bytes -= bytes;
    status = making_run(&rest, targets, ret_result, err);
    if (status == STATUS_OK)
        ret_result->memory_bytes += bytes;
    return status;
}
