/* See partitions.h. */
#include "run/partitions.h"

#include "zarr/metadata/array.h"

#include <stdlib.h>
#include <string.h>

static int by_first(const void *left, const void *right)
{
    uint64_t a = ((const struct zarr_run *)left)->first;
    uint64_t b = ((const struct zarr_run *)right)->first;
    return (a > b) - (a < b);
}

/* Runs that touch one another become one. Returns how many are left. */
static size_t join_runs(struct zarr_run *runs, size_t count)
{
    size_t kept = 0;
    qsort(runs, count, sizeof *runs, by_first);
    for (size_t i = 0; i < count; i++) {
        struct zarr_run *last = kept > 0 ? &runs[kept - 1] : NULL;
        uint64_t end = runs[i].first + runs[i].count;
        if (last && last->first + last->count >= runs[i].first) {
            if (end > last->first + last->count)
                last->count = end - last->first;
        } else if (runs[i].count > 0) {
            runs[kept++] = runs[i];
        }
    }
    return kept;
}

/* The indices along the k-th cut axis of a field that are needed. `count` 0: all, or more runs than
 * a narrowed field has. */
static void find_kept(const struct shares *shares, size_t f, uint32_t k, const struct needs *needs,
                      struct share_kept *ret_kept)
{
    struct zarr_run runs[2 * CUT_MOST_PARTS];
    size_t count = 0;
    uint32_t parts = shares_part_count(shares, f);
    *ret_kept = (struct share_kept){0};
    for (uint32_t p = 0; p < parts; p++) {
        if (!needs_part(needs, shares->first_parts[f] + p))
            continue;
        struct cut_run run = shares_run_of(shares, f, k, p);
        runs[count++] = (struct zarr_run){run.begin, run.length};
        if (run.has_second)
            runs[count++] = (struct zarr_run){run.second, run.length};
    }
    count = join_runs(runs, count);
    if (count == 0 || count > NARROW_MOST_RUNS || runs[0].count == shares->fields[f].lengths[k])
        return;
    ret_kept->count = count;
    memcpy(ret_kept->runs, runs, count * sizeof runs[0]);
}

/* The axis of a frame that a cut axis is; -1: the axis of steps, or one that cannot be narrowed. */
static int frame_axis(const struct shares *shares, const struct dataset *dataset, size_t f,
                      uint32_t k)
{
    int axis = (int)shares->fields[f].axes[k] - (dataset->fields[f].step_count > 0);
    return axis >= 0 && dataset_may_narrow(dataset, f, axis) ? axis : -1;
}

/* Which part of its chunks along that axis holds the indices, of 1. */
static double chunks_touched(const struct zarr_array *view, int axis, const struct share_kept *kept,
                             uint64_t length)
{
    uint64_t chunk = view->chunk_shape[axis + 1], touched = 0, last = UINT64_MAX;
    for (size_t i = 0; i < kept->count; i++) {
        uint64_t first = kept->runs[i].first / chunk;
        uint64_t end = (kept->runs[i].first + kept->runs[i].count - 1) / chunk;
        touched += end - first + (last != first);
        last = end;
    }
    return (double)touched / (double)((length + chunk - 1) / chunk);
}

static double indices_kept(const struct share_kept *kept, uint64_t length)
{
    uint64_t count = 0;
    for (size_t i = 0; i < kept->count; i++)
        count += kept->runs[i].count;
    return (double)count / (double)length;
}

/* Bytes of a frame of the field that are decoded for these needs, or of these that are kept. */
static double field_bytes(const struct shares *shares, const struct dataset *dataset, size_t f,
                          const struct needs *needs, bool decoded)
{
    const struct dataset_field *field = &dataset->fields[f];
    double cost = (double)field->frame_bytes;
    struct share_kept kept;
    if (!needs_field(needs, f))
        return 0;
    for (uint32_t k = 0; k < shares->fields[f].axis_count; k++) {
        int axis = frame_axis(shares, dataset, f, k);
        find_kept(shares, f, k, needs, &kept);
        uint64_t length = shares->fields[f].lengths[k];
        if (axis >= 0 && kept.count > 0)
            cost *= decoded ? chunks_touched(dataset_field_array(dataset, f), axis, &kept, length)
                            : indices_kept(&kept, length);
    }
    return cost;
}

/* Whether a field's frames are read row by row, in a memory of their own. */
static bool is_read(const struct dataset *dataset, size_t f)
{
    return dataset->fields[f].source == FIELD_ROW && dataset->fields[f].row_leader == f;
}

static double ragged_bytes(const struct dataset *dataset)
{
    double bytes = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        bytes += (double)dataset->ragged[r].item_count *
                 (double)dataset->ragged[r].trailer_item_bytes / (double)dataset->frame_count;
    return bytes;
}

/* Whether each class has as many readers. */
static bool are_even(const struct need_classes *classes, uint32_t reader_count)
{
    for (uint32_t c = 0; c < classes->count; c++) {
        uint32_t readers = 0;
        for (uint32_t r = 0; r < reader_count; r++)
            readers += classes->of[r] == c;
        if (readers * classes->count != reader_count)
            return false;
    }
    return true;
}

/* Whether each class has trainers of all groups, with ranks in blocks. */
static bool have_all_groups(const struct mesh *mesh, const struct need_classes *classes,
                            uint32_t reader_count)
{
    uint32_t groups = mesh_group_count(mesh), seen = 0;
    bool *is_there = calloc((size_t)groups * classes->count, sizeof *is_there);
    for (uint32_t r = 0; is_there && r < reader_count; r++) {
        uint32_t end = mesh_block_first(mesh, reader_count, r + 1);
        for (uint32_t rank = mesh_block_first(mesh, reader_count, r); rank < end; rank++) {
            bool *at = &is_there[(size_t)classes->of[r] * groups + mesh_group_of(mesh, rank)];
            seen += !*at;
            *at = true;
        }
    }
    free(is_there);
    return seen == groups * classes->count;
}

bool partitions_fit(const struct shares *shares, const struct dataset *dataset,
                    const struct need_classes *classes, uint32_t reader_count,
                    struct partitions_cost *ret_cost)
{
    const double bearable = 1.05;
    double whole = ragged_bytes(dataset), least, sum = 0, most = 0, most_kept = 0;
    *ret_cost = (struct partitions_cost){.most = 1, .sum = 1, .class_count = classes->count};
    if (classes->count < 2 || dataset->source_count > 0 || dataset->mask)
        return false;
    for (size_t f = 0; f < dataset->field_count; f++)
        whole += is_read(dataset, f) ? (double)dataset->fields[f].frame_bytes : 0;
    least = whole;
    for (uint32_t c = 0; c < classes->count; c++) {
        double decoded = ragged_bytes(dataset), kept = 0;
        for (size_t f = 0; f < dataset->field_count; f++) {
            if (!is_read(dataset, f))
                continue;
            decoded += field_bytes(shares, dataset, f, &classes->needs[c], true);
            kept += field_bytes(shares, dataset, f, &classes->needs[c], false);
        }
        if (kept > most_kept) {
            most_kept = kept;
            ret_cost->largest = c;
        }
        most = decoded > most ? decoded : most;
        least = decoded < least ? decoded : least;
        sum += decoded;
    }
    ret_cost->most = most / whole;
    ret_cost->sum = sum / whole;
    return least > 0 && sum <= bearable * whole && reader_count <= shares->mesh.rank_count &&
           are_even(classes, reader_count) && have_all_groups(&shares->mesh, classes, reader_count);
}

uint32_t partitions_copies(const struct mesh *mesh, const struct need_classes *classes,
                           uint32_t reader_count)
{
    struct last_seen {
        uint32_t reader,
            count; /* the last reader of a group and partition, plus 1; how many there were */
    };
    uint32_t groups = mesh_group_count(mesh), most = 0;
    struct last_seen *seen = calloc((size_t)groups * classes->count, sizeof *seen);
    for (uint32_t r = 0; seen && r < reader_count; r++)
        for (uint32_t rank = mesh_block_first(mesh, reader_count, r);
             rank < mesh_block_first(mesh, reader_count, r + 1); rank++) {
            struct last_seen *of =
                &seen[(size_t)classes->of[r] * groups + mesh_group_of(mesh, rank)];
            of->count += of->reader != r + 1;
            of->reader = r + 1;
            most = of->count > most ? of->count : most;
        }
    free(seen);
    return most;
}

void partitions_narrow(const struct shares *shares, const struct dataset *dataset,
                       const struct needs *needs, struct dataset_narrowed *fields,
                       struct dataset_narrowing *ret_narrowing, struct shares *ret_shares)
{
    size_t count = 0;
    uint64_t held = 0;
    *ret_shares = *shares;
    for (size_t f = 0; f < dataset->field_count; f++) {
        struct share_field *share = &ret_shares->fields[f];
        struct dataset_narrowed *field = &fields[count];
        held |= (uint64_t)(dataset->fields[f].source == FIELD_HELD) << f;
        if (dataset->fields[f].source != FIELD_ROW)
            continue;
        *field = (struct dataset_narrowed){.name = dataset->fields[f].name,
                                           .is_absent = !needs_field(needs, f)};
        for (uint32_t k = 0; k < share->axis_count && !field->is_absent; k++) {
            int axis = frame_axis(shares, dataset, f, k);
            if (axis < 0)
                continue;
            find_kept(shares, f, k, needs, &share->kept[k]);
            if (share->kept[k].count == 0)
                continue;
            field->axes[field->axis_count].axis = axis;
            field->axes[field->axis_count].run_count = share->kept[k].count;
            memcpy(field->axes[field->axis_count++].runs, share->kept[k].runs,
                   sizeof share->kept[k].runs);
        }
        count += field->is_absent || field->axis_count > 0;
    }
    *ret_narrowing = (struct dataset_narrowing){
        .row_length = dataset->row_length, .held = held, .fields = fields, .field_count = count};
}
