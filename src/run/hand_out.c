/* See hand_out.h. */
#include "run/hand_out.h"

#include "base/text.h"
#include "delivery/ring/handout.h"

_Static_assert((int)DATASET_MAX_CONSTANTS <= (int)HANDOUT_MAX_CONSTANTS, "every constant fits");

static struct handout_source source_of(const struct dataset_constant *constant)
{
    return (struct handout_source){.name = constant->name,
                                   .dtype = constant->dtype,
                                   .rank = (uint32_t)constant->rank,
                                   .shape = constant->shape,
                                   .data = constant->data,
                                   .data_bytes = constant->bytes,
                                   .attributes = constant->attributes};
}

enum status hand_out(const struct dataset *dataset, int *ret_memfd, struct error *err)
{
    struct handout_source sources[DATASET_MAX_FIELDS + DATASET_MAX_CONSTANTS] = {0};
    struct text attributes[DATASET_MAX_FIELDS] = {0};
    const struct dataset *first = dataset_source(dataset, 0);
    size_t fields = dataset->field_count;
    for (size_t i = 0; i < fields; i++) {
        dataset_field_attributes(dataset, i, &attributes[i]);
        sources[i] = (struct handout_source){.name = dataset->fields[i].name,
                                             .shape = dataset->fields[i].shape,
                                             .attributes = attributes[i].data};
    }
    for (size_t i = 0; i < first->constant_count; i++)
        sources[fields + i] = source_of(&first->constants[i]);
    enum status status =
        handout_create(sources, (uint32_t)fields, (uint32_t)first->constant_count, ret_memfd, err);
    for (size_t i = 0; i < fields; i++)
        text_done(&attributes[i]);
    return status;
}

uint64_t hand_out_bytes(const struct dataset *dataset)
{
    return dataset->constant_bytes + dataset_source(dataset, 0)->constant_bytes;
}
