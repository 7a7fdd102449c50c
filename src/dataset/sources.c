/* Which source of a mix a row is of, and how messages call a store. */
#include "dataset/dataset_internal.h"

#include "base/number.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const struct dataset *dataset_source(const struct dataset *dataset, uint32_t source)
{
    assert(source < dataset->source_count || source == 0);
    return dataset->source_count > 0 ? dataset->sources[source] : dataset;
}

uint32_t dataset_source_of_row(const struct dataset *dataset, uint64_t row,
                               uint64_t *ret_row_in_source)
{
    *ret_row_in_source = row;
    if (dataset->source_count == 0)
        return 0;
    const uint64_t *first = dataset->private->source_rows;
    uint64_t source = find_last_u64(first, 0, dataset->source_count, row);
    *ret_row_in_source -= first[source];
    return (uint32_t)source;
}

size_t dataset_own_store(const struct dataset *dataset, const char *uri)
{
    const char *name;
    size_t i = uri ? dataset->private->store_count : 0;
    while (uri && strcmp(store_uri(store_joined_at(dataset->private->store, i, &name)), uri) != 0)
        i++;
    return i;
}

const char *dataset_field_store(const struct dataset *dataset, size_t field)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    size_t i = origin->is_items ? origin->ragged->own_store : origin->own_store;
    const char *name;
    return i > 0 ? store_uri(store_joined_at(dataset->private->store, i, &name)) : NULL;
}

void dataset_describe_snapshots(const struct dataset *dataset, struct text *out)
{
    for (uint32_t d = 0; d < dataset->source_count; d++)
        dataset_describe_snapshots(dataset->sources[d], out);
    for (size_t i = 0; dataset->source_count == 0 && i < dataset->private->store_count; i++) {
        const char *name;
        const char *id = store_snapshot(store_joined_at(dataset->private->store, i, &name));
        if (id)
            text_append(out, "note: %s is read at snapshot %s\n",
                        dataset_store_text(dataset, i).text, id);
    }
}

struct store_text dataset_store_text(const struct dataset *dataset, size_t i)
{
    struct store_text out;
    const char *name;
    const struct store *store = store_joined_at(dataset->private->store, i, &name);
    snprintf(out.text, sizeof out.text, "'%.250s'", store_uri(store));
    return out;
}
