/* See selection.h. */
#include "zarr/metadata/selection.h"

#include "base/number.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A portion, with the chunk that it lies in. */
struct placed_portion {
    uint64_t chunk;
    struct zarr_portion portion;
};

static int compare_portions(const void *a, const void *b)
{
    const struct placed_portion *left = a, *right = b;
    if (left->chunk != right->chunk)
        return left->chunk < right->chunk ? -1 : 1;
    return left->portion.from < right->portion.from ? -1 : left->portion.from > right->portion.from;
}

static enum status check_runs(uint64_t length, const struct zarr_run *runs, size_t run_count,
                              struct error *err)
{
    if (run_count == 0 || run_count > ZARR_MAX_RUNS)
        return error_set(err, STATUS_INVALID, "%zu runs of indices; it takes 1 to %d", run_count,
                         ZARR_MAX_RUNS);
    for (size_t i = 0; i < run_count; i++) {
        if (runs[i].count == 0)
            return error_set(err, STATUS_INVALID, "a range without any index");
        if (runs[i].first >= length || runs[i].count > length - runs[i].first)
            return error_set(err, STATUS_INVALID,
                             "index %" PRIu64 " is out of range: the axis has %" PRIu64
                             ", from 0 on",
                             max_u64(runs[i].first, length), length);
    }
    return STATUS_OK;
}

/* How many portions the runs are cut into. */
static size_t count_portions(uint64_t chunk_length, const struct zarr_run *runs, size_t run_count)
{
    size_t count = 0;
    for (size_t i = 0; i < run_count; i++)
        count +=
            (runs[i].first + runs[i].count - 1) / chunk_length - runs[i].first / chunk_length + 1;
    return count;
}

/* Cuts the runs at the ends of chunks, and sorts the portions. */
static void cut_runs(uint64_t chunk_length, const struct zarr_run *runs, size_t run_count,
                     struct placed_portion *portions)
{
    size_t count = 0;
    uint64_t to = 0;
    for (size_t i = 0; i < run_count; i++)
        for (uint64_t done = 0; done < runs[i].count;) {
            uint64_t index = runs[i].first + done, from = index % chunk_length;
            uint64_t length = min_u64(chunk_length - from, runs[i].count - done);
            portions[count++] = (struct placed_portion){index / chunk_length, {from, to, length}};
            done += length;
            to += length;
        }
    qsort(portions, count, sizeof *portions, compare_portions);
}

static enum status check_portions(uint64_t chunk_length, const struct placed_portion *portions,
                                  size_t count, struct error *err)
{
    for (size_t i = 1; i < count; i++) {
        const struct placed_portion *last = &portions[i - 1];
        if (last->chunk == portions[i].chunk &&
            last->portion.from + last->portion.count > portions[i].portion.from)
            return error_set(err, STATUS_INVALID, "index %" PRIu64 " is there twice",
                             portions[i].chunk * chunk_length + portions[i].portion.from);
    }
    return STATUS_OK;
}

/* Fills the selection's lists, which have room for one chunk a portion. */
static void list_portions(struct zarr_selection *selection, const struct placed_portion *portions,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || portions[i].chunk != portions[i - 1].chunk) {
            selection->chunks[selection->chunk_count] = portions[i].chunk;
            selection->first_portions[selection->chunk_count++] = i;
        }
        selection->portions[i] = portions[i].portion;
        selection->count += portions[i].portion.count;
    }
    selection->first_portions[selection->chunk_count] = count;
}

enum status zarr_selection_new(uint64_t length, uint64_t chunk_length, const struct zarr_run *runs,
                               size_t run_count, struct zarr_selection **ret_selection,
                               struct error *err)
{
    enum status status = check_runs(length, runs, run_count, err);
    if (status != STATUS_OK)
        return status;
    size_t count = count_portions(chunk_length, runs, run_count);
    struct placed_portion *portions = calloc(count, sizeof *portions);
    struct zarr_selection *selection = calloc(1, sizeof *selection);

    if (selection) {
        selection->runs = malloc(run_count * sizeof *runs);
        selection->chunks = malloc(count * sizeof *selection->chunks);
        selection->first_portions = malloc((count + 1) * sizeof *selection->first_portions);
        selection->portions = malloc(count * sizeof *selection->portions);
    }
    if (!portions || !selection || !selection->runs || !selection->chunks ||
        !selection->first_portions || !selection->portions) {
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a selection of indices");
    } else {
        memcpy(selection->runs, runs, run_count * sizeof *runs);
        selection->run_count = run_count;
        cut_runs(chunk_length, runs, run_count, portions);
        status = check_portions(chunk_length, portions, count, err);
        list_portions(selection, portions, count);
    }
    free(portions);
    if (status == STATUS_OK)
        *ret_selection = selection;
    else
        zarr_selection_free(selection);
    return status;
}

void zarr_selection_free(struct zarr_selection *selection)
{
    if (!selection)
        return;
    free(selection->runs);
    free(selection->chunks);
    free(selection->first_portions);
    free(selection->portions);
    free(selection);
}

size_t zarr_selection_find(const struct zarr_selection *selection, uint64_t chunk)
{
    size_t i = find_last_u64(selection->chunks, 0, selection->chunk_count, chunk);
    assert(selection->chunks[i] == chunk);
    return i;
}
