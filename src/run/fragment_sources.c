/* See fragment_sources.h. */
#include "run/fragment_sources.h"

#include "base/number.h"
#include "plan/rounds/round.h"

#include <stdlib.h>

/* The sums that are for all sources. */
static void sum_up(struct fragment_sources *all)
{
    for (uint32_t s = 0; s < all->count; s++) {
        const struct fragments *of = all->of[s];
        all->record_bytes = max_u64(all->record_bytes, of->record_bytes);
        all->packed_bytes = max_u64(all->packed_bytes, of->packed_bytes);
        all->messages = max_u64(all->messages, of->messages);
        all->shifts |= of->shifts;
        all->crops |= of->crops;
        all->finishes |= of->finishes;
        for (size_t i = of->packed_count; i < of->count; i++)
            all->message_bytes =
                max_u64(all->message_bytes, min_u64(of->all[i].bytes, ROUND_MESSAGE_BYTES));
    }
}

enum status fragment_sources_new(const struct dataset *dataset, const struct shares *shares,
                                 const struct needs *classes, uint32_t class_count,
                                 struct fragment_sources **ret_fragments, struct error *err)
{
    uint32_t sources = dataset->source_count > 0 ? dataset->source_count : 1;
    uint32_t count = sources * class_count * dataset->phase_count;
    struct fragment_sources *all = calloc(1, sizeof *all + count * sizeof all->of[0]);
    if (!all)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the fragments of samples");
    all->source_count = sources;
    all->class_count = class_count;
    for (; all->count < count; all->count++) {
        uint32_t number = all->count / sources;
        const struct needs *needs = classes ? &classes[number % class_count] : NULL;
        enum status status =
            fragments_new(dataset_source(dataset, all->count % sources), shares, needs,
                          dataset->phase_epochs[number / class_count], &all->of[all->count], err);
        if (status != STATUS_OK) {
            fragment_sources_free(all);
            return status;
        }
    }
    sum_up(all);
    *ret_fragments = all;
    return STATUS_OK;
}

void fragment_sources_free(struct fragment_sources *fragments)
{
    for (uint32_t s = 0; fragments && s < fragments->count; s++)
        fragments_free(fragments->of[s]);
    free(fragments);
}

static bool is_of_class(const struct fragment_sources *fragments, uint32_t kind,
                        uint32_t class_number)
{
    return kind / fragments->source_count % fragments->class_count == class_number;
}

void fragment_sources_set_slots(struct fragment_sources *fragments, uint32_t class_number,
                                const struct ring_layout *layout)
{
    for (uint32_t kind = 0; kind < fragments->count; kind++)
        if (is_of_class(fragments, kind, class_number))
            fragments_set_slots(fragments->of[kind], layout);
}

size_t fragment_sources_packed(const struct fragment_sources *fragments, uint32_t class_number)
{
    size_t most = 0;
    for (uint32_t kind = 0; kind < fragments->count; kind++)
        if (is_of_class(fragments, kind, class_number))
            most = max_u64(most, fragments->of[kind]->packed_bytes);
    return most;
}

size_t fragment_sources_record(const struct fragment_sources *fragments, uint32_t class_number,
                               uint32_t phase)
{
    uint32_t first = (phase * fragments->class_count + class_number) * fragments->source_count;
    size_t most = 0;
    for (uint32_t s = 0; s < fragments->source_count; s++) {
        const struct fragments *of = fragments->of[first + s];
        most = max_u64(most, of->record_bytes - of->packed_bytes);
    }
    return fragment_sources_packed(fragments, class_number) + most;
}

size_t fragment_sources_most_record(const struct fragment_sources *fragments, uint32_t class_number)
{
    uint32_t phases = fragments->count / (fragments->class_count * fragments->source_count);
    size_t most = 0;
    for (uint32_t p = 0; p < phases; p++)
        most = max_u64(most, fragment_sources_record(fragments, class_number, p));
    return most;
}
