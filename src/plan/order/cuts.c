/* See cuts.h, and order_internal.h for the steps of an epoch. */
#include "plan/order/cuts.h"

#include "base/number.h"
#include "base/random.h"
#include "base/size.h"
#include "plan/order/keys.h"
#include "plan/order/order_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { DEFAULT_WINDOW_PART = 16 };

static uint64_t samples_of(const struct plan_cuts *cuts, uint32_t bucket)
{
    return cuts->samples(cuts->of, cuts->field, bucket);
}

enum status plan_cuts_check(const struct plan_cuts *cuts, struct error *err)
{
    assert(cuts->bucket_count >= 1 && cuts->bucket_count <= PLAN_MAX_BUCKETS);
    if (cuts->longest <= cuts->items)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "batch.budget_items %" PRIu64
                     " is below the longest sample, which has %" PRIu64
                     " items: raise it, or cut samples with deliver: {pad: N, truncate: true}",
                     cuts->items, cuts->longest);
}

/* A bucket may reach beyond the longest sample that a step has room for, unless it is fixed. */
uint64_t plan_cuts_bound(const struct plan_cuts *cuts, uint32_t bucket)
{
    uint64_t bound = min_u64(cuts->bound(cuts->of, cuts->field, bucket), cuts->items);
    return bound > 0 ? bound : 1;
}

uint64_t plan_cuts_most(const struct plan_cuts *cuts, uint64_t global_batch, uint32_t bucket)
{
    return min_u64(cuts->items / plan_cuts_bound(cuts, bucket), global_batch);
}

/* Bounds rise from bucket to bucket. */
uint64_t plan_cuts_most_samples(const struct plan_cuts *cuts, uint64_t global_batch)
{
    uint32_t k = 0;
    while (k + 1 < cuts->bucket_count && samples_of(cuts, k) == 0)
        k++;
    return plan_cuts_most(cuts, global_batch, k);
}

uint64_t plan_cuts_most_items(const struct plan_cuts *cuts, uint64_t global_batch,
                              uint64_t trainers)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++)
        if (samples_of(cuts, k) > 0) {
            uint64_t share = size_divide_up(plan_cuts_most(cuts, global_batch, k), trainers);
            most = max_u64(most, share * plan_cuts_bound(cuts, k));
        }
    return most;
}

uint64_t plan_cuts_scarce(const struct plan_cuts *cuts, uint64_t global_batch, uint64_t trainers)
{
    uint64_t count = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++)
        count += plan_cuts_most(cuts, global_batch, k) < trainers ? samples_of(cuts, k) : 0;
    return count;
}

uint64_t plan_cuts_hash(const struct plan_cuts *cuts)
{
    uint64_t numbers[2 * PLAN_MAX_BUCKETS];
    uint32_t count = cuts->bucket_count;
    for (uint32_t k = 0; k < count; k++) {
        numbers[k] = samples_of(cuts, k);
        numbers[count + k] = plan_cuts_bound(cuts, k);
    }
    return XXH3_64bits(numbers, count * (cuts->is_fixed ? 2 : 1) * sizeof numbers[0]);
}

/* Steps of samples that come bucket by bucket. */
struct cutter {
    uint32_t *sizes; /* of the steps; NULL: they are counted alone */
    uint64_t count;  /* of the steps that are over */
    uint64_t open;   /* samples of the step that is not */
    double bound;    /* of the bucket before, for padded_items() */
};

static void end_step(struct cutter *cutter, uint64_t size)
{
    if (cutter->sizes)
        cutter->sizes[cutter->count] = (uint32_t)size;
    cutter->count++;
}

/* `samples` of a bucket of which a step has `most`. */
static void cut_bucket(struct cutter *cutter, uint64_t samples, uint64_t most)
{
    uint64_t room = most - min_u64(most, cutter->open);
    if (samples <= room) {
        cutter->open += samples;
        return;
    }
    end_step(cutter, cutter->open + room);
    for (samples -= room; samples > most; samples -= most)
        end_step(cutter, most);
    cutter->open = samples;
}

static void cut_rest(struct cutter *cutter)
{
    if (cutter->open > 0)
        end_step(cutter, cutter->open);
    cutter->open = 0;
}

/* How many steps the whole takes, in units of 2^-32, if samples may be divided: rounded up. */
enum { UNIT_BITS = 32 };

static unsigned __int128 divide_units(unsigned __int128 a, unsigned __int128 b)
{
    return ((a << UNIT_BITS) + b - 1) / b;
}

static unsigned __int128 whole_units(const struct plan_cuts *cuts, uint64_t global_batch)
{
    unsigned __int128 units = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++)
        units += divide_units(samples_of(cuts, k), plan_cuts_most(cuts, global_batch, k));
    return units;
}

/* What a window takes more at most: each bucket leaves fewer samples than a step has, and these go
 * on to steps of the next one, which have fewer. And the last step may be short. */
static unsigned __int128 window_units(const struct plan_cuts *cuts, uint64_t global_batch)
{
    unsigned __int128 units = (unsigned __int128)1 << UNIT_BITS;
    uint64_t before = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++) {
        uint64_t most = plan_cuts_most(cuts, global_batch, k);
        if (before > most)
            units += divide_units((unsigned __int128)(before - 1) * (before - most),
                                  (unsigned __int128)before * most);
        if (before > 0 || samples_of(cuts, k) > 0)
            before = most;
    }
    return units;
}

static uint64_t all_samples(const struct plan_cuts *cuts)
{
    uint64_t count = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++)
        count += samples_of(cuts, k);
    return count;
}

/* All windows together need no more than this, whichever samples each has. With one window it is
 * known what each epoch needs. */
uint64_t plan_cuts_steps(const struct plan_cuts *cuts, uint64_t global_batch, uint64_t window_count)
{
    if (window_count > 1) {
        unsigned __int128 units =
            whole_units(cuts, global_batch) + window_count * window_units(cuts, global_batch);
        unsigned __int128 steps = units >> UNIT_BITS;
        uint64_t samples = all_samples(cuts);
        return steps < samples ? (uint64_t)steps : samples;
    }
    struct cutter cutter = {0};
    for (uint32_t k = 0; k < cuts->bucket_count; k++)
        cut_bucket(&cutter, samples_of(cuts, k), plan_cuts_most(cuts, global_batch, k));
    cut_rest(&cutter);
    return cutter.count;
}

uint64_t plan_cuts_window_batch(const struct plan_cuts *cuts, uint64_t global_batch)
{
    uint64_t steps = (uint64_t)(whole_units(cuts, global_batch) >> UNIT_BITS) + 1;
    return mul_sat(DEFAULT_WINDOW_PART, size_divide_up(all_samples(cuts), steps));
}

/* Of each bucket's samples a window has the same part, as far as whole numbers go. */
static double padded_items(const struct plan_cuts *cuts, uint64_t global_batch,
                           uint64_t window_count)
{
    struct cutter cutter = {0};
    uint64_t sum = 0, given = 0;
    double padded = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++) {
        sum += samples_of(cuts, k);
        uint64_t samples = sum / window_count - given;
        if (samples == 0)
            continue;
        given += samples;
        padded += (double)samples * (double)plan_cuts_bound(cuts, k);
        uint64_t before = cutter.open, room = plan_cuts_most(cuts, global_batch, k);
        if (before < room) /* what joins this bucket's step is as long as its longest */
            padded += (double)before * ((double)plan_cuts_bound(cuts, k) - cutter.bound);
        cut_bucket(&cutter, samples, room);
        cutter.bound = (double)plan_cuts_bound(cuts, k);
    }
    return padded * (double)window_count;
}

struct plan_cuts_padding plan_cuts_padding(const struct plan_cuts *cuts, uint64_t global_batch,
                                           uint64_t window_count, uint64_t items)
{
    double samples = (double)all_samples(cuts), sum = 0, longest = 0;
    double steps = (double)plan_cuts_steps(cuts, global_batch, window_count);
    for (uint32_t k = 0; k < cuts->bucket_count; k++) { /* of the longest of a step by chance */
        double before = pow(sum / samples, samples / steps);
        sum += (double)samples_of(cuts, k);
        longest +=
            (double)plan_cuts_bound(cuts, k) * (pow(sum / samples, samples / steps) - before);
    }
    double padded = padded_items(cuts, global_batch, window_count);
    return (struct plan_cuts_padding){.budget =
                                          padded > 0 ? fmax(1 - (double)items / padded, 0) : 0,
                                      .chance = fmax(1 - (double)items / (samples * longest), 0)};
}

/* Samples of a window
 * ---------------------------------------------------------------------------------------------- */

/* The bucket of each sample of the window, row after row, and how many there are of each bucket. */
static void find_buckets(const struct plan_epoch *epoch, const struct plan_window *window,
                         const struct plan_cut_scratch *scratch)
{
    enum { BLOCK = 128 };
    const struct plan *plan = &epoch->plan;
    const struct plan_cuts *cuts = &plan->cuts;
    uint16_t *buckets = scratch->buckets;
    uint64_t rows[BLOCK];
    memset(scratch->counts, 0, cuts->bucket_count * sizeof *scratch->counts);
    for (uint64_t i = 0; i < window->row_count; i++) {
        size_t at = i % BLOCK, count = min_u64(BLOCK, window->row_count - i);
        for (size_t k = 0; at == 0 && k < count; k++)
            rows[k] = window->first_row_position + i + k;
        if (at == 0)
            plan_rows_at(epoch, rows, count);
        uint64_t samples = plan_window_row_samples(window, i);
        for (uint64_t s = 0; s < samples; s++) {
            uint32_t k = cuts->bucket(cuts->of, cuts->field, plan_frame_at(plan, rows[at], s));
            scratch->counts[k]++;
            *buckets++ = (uint16_t)k;
        }
    }
}

/* Adds the steps of a window to `cutter`. */
static void cut_window(const struct plan *plan, const uint64_t *counts, struct cutter *cutter)
{
    for (uint32_t k = 0; k < plan->cuts.bucket_count; k++)
        if (counts[k] > 0)
            cut_bucket(cutter, counts[k], plan_cuts_most(&plan->cuts, plan->global_batch, k));
    cut_rest(cutter);
}

/* Puts the window's samples in order of bucket, those of one bucket in the window's own order. */
static void sort_window(const struct plan_epoch *epoch, const struct plan_window *window,
                        const struct plan_cut_scratch *scratch, uint32_t *ret_numbers)
{
    enum { BLOCK = 256 };
    uint64_t *ends = scratch->counts, numbers[BLOCK], sum = 0;
    find_buckets(epoch, window, scratch);
    for (uint32_t k = 0; k < epoch->plan.cuts.bucket_count; k++) {
        uint64_t samples = ends[k];
        ends[k] = sum;
        sum += samples;
    }
    for (uint64_t done = 0; done < window->sample_count;) {
        size_t count = min_u64(BLOCK, window->sample_count - done);
        for (size_t i = 0; i < count; i++)
            numbers[i] = done + i;
        if (window->shuffle)
            permutation_apply_many(&window->samples, numbers, count);
        for (size_t i = 0; i < count; i++)
            ret_numbers[ends[scratch->buckets[numbers[i]]]++] = (uint32_t)numbers[i];
        done += count;
    }
}

/* Steps of an epoch
 * ---------------------------------------------------------------------------------------------- */

/* Steps that are to be divided, spread over all gaps between samples of one step. */
struct divisions {
    uint64_t wanted, gaps; /* of the epoch */
    uint64_t passed;       /* gaps so far */
};

/* Into how many parts a step of `size` samples is divided. */
static uint32_t parts_of(struct divisions *divisions, uint32_t size)
{
    unsigned __int128 wanted = divisions->wanted;
    uint64_t begin = divisions->passed, end = begin + size - 1;
    divisions->passed = end;
    if (end == begin)
        return 1;
    return 1 + (uint32_t)(wanted * end / divisions->gaps - wanted * begin / divisions->gaps);
}

/* Where each of a window's steps begins in the window's samples, with the parts of those that are
 * divided. Returns how many there are. */
static uint32_t divide_steps(const uint32_t *sizes, uint32_t count, struct divisions *divisions,
                             uint32_t *ret_begins)
{
    uint32_t parts = 0, begin = 0;
    for (uint32_t s = 0; s < count; s++) {
        uint32_t m = parts_of(divisions, sizes[s]);
        for (uint64_t j = 0; j < m; j++)
            ret_begins[parts++] = begin + (uint32_t)(j * sizes[s] / m);
        begin += sizes[s];
    }
    ret_begins[parts] = begin;
    return parts;
}

/* The order of a window's steps: which of those from short to long comes as number `s`. */
struct step_order {
    bool shuffle;
    struct permutation permutation;
};

static struct step_order step_order_of(const struct plan_epoch *epoch, uint64_t window,
                                       uint64_t step_count)
{
    uint64_t key = random_u64(epoch->plan.seed, KEY_STEPS, epoch->epoch);
    struct step_order order = {.shuffle = epoch->plan.shuffle};
    permutation_init(&order.permutation, step_count, random_u64(key, 0, window));
    return order;
}

static uint64_t step_at(const struct step_order *order, uint64_t s)
{
    return order->shuffle ? permutation_apply(&order->permutation, s) : s;
}

/* Where each of a window's steps begins, in their order. */
static void order_steps(const struct plan_epoch *epoch, const struct plan_window *window,
                        const uint32_t *begins, uint32_t step_count, uint64_t *ret_step_begins)
{
    struct step_order order = step_order_of(epoch, window->index, step_count);
    uint64_t at = window->first_position;
    for (uint64_t s = 0; s < step_count; s++) {
        uint64_t step = step_at(&order, s);
        ret_step_begins[s] = at;
        at += begins[step + 1] - begins[step];
    }
}

void plan_cut_fill(struct plan_cut *cut, const struct plan_cut_scratch *scratch,
                   const struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    struct plan_window window;
    struct cutter cutter = {.sizes = scratch->sizes};
    for (uint64_t w = 0; w < plan->window_count; w++) {
        uint64_t before = cutter.count;
        plan_window_at(&window, epoch, w);
        find_buckets(epoch, &window, scratch);
        cut_window(plan, scratch->counts, &cutter);
        scratch->window_steps[w] = (uint32_t)(cutter.count - before);
    }
    assert(cutter.count <= plan->steps_per_epoch);
    struct divisions divisions = {.wanted = plan->steps_per_epoch - cutter.count,
                                  .gaps = plan->sample_count - cutter.count};
    const uint32_t *sizes = scratch->sizes;
    uint64_t step = 0;
    for (uint64_t w = 0; w < plan->window_count; w++) {
        plan_window_at(&window, epoch, w);
        uint32_t count = divide_steps(sizes, scratch->window_steps[w], &divisions, scratch->begins);
        order_steps(epoch, &window, scratch->begins, count, cut->step_begins + step);
        sizes += scratch->window_steps[w];
        step += count;
    }
    assert(step == plan->steps_per_epoch);
    cut->step_begins[step] = plan->sample_count;
    for (uint64_t s = 0; s < step; s++)
        cut->step_buckets[s] = PLAN_NO_BUCKET;
    cut->epoch = epoch->epoch;
}

/* Steps of a window
 * ---------------------------------------------------------------------------------------------- */

/* Where the window's steps begin in its samples by bucket, before they are put in their order. */
static void undo_order(const struct step_order *order, const uint64_t *step_begins,
                       uint64_t step_count, uint32_t *ret_begins)
{
    ret_begins[0] = 0;
    for (uint64_t s = 0; s < step_count; s++)
        ret_begins[step_at(order, s) + 1] = (uint32_t)(step_begins[s + 1] - step_begins[s]);
    for (uint64_t s = 0; s < step_count; s++)
        ret_begins[s + 1] += ret_begins[s];
}

void plan_cut_window_fill(struct plan_cut_window *table, const struct plan_cut_scratch *scratch,
                          const struct plan_epoch *epoch, const struct plan_window *window)
{
    uint64_t first = plan_step_of(&epoch->plan, window->first_position), count = 0, at = 0;
    const uint64_t *step_begins = epoch->cut->step_begins + first;
    while (step_begins[count] < window->first_position + window->sample_count)
        count++;
    struct step_order order = step_order_of(epoch, window->index, count);
    uint32_t *sorted = table->positions; /* for now */
    undo_order(&order, step_begins, count, scratch->begins);
    sort_window(epoch, window, scratch, sorted);
    for (uint64_t s = 0; s < count; s++) {
        uint64_t step = step_at(&order, s), size = step_begins[s + 1] - step_begins[s];
        const uint32_t *from = sorted + scratch->begins[step];
        memcpy(table->numbers + at, from, size * sizeof *from);
        epoch->cut->step_buckets[first + s] = scratch->buckets[from[size - 1]];
        at += size;
    }
    for (uint64_t i = 0; i < window->sample_count; i++)
        table->positions[table->numbers[i]] = (uint32_t)i;
    table->epoch = epoch->epoch;
    table->window = window->index;
}
