/* See assign_wants.h. */
#include "plan/assign_wants.h"

#include "base/number.h"
#include "plan/assign_internal.h"
#include "plan/locality.h"

/* So many times longer than on average its rows take a reader that gives rows away: by the average
 * of MANY_PACES pace samples. Fewer have to say more. */
static const double SLOW = 1.25;
enum { MANY_PACES = 8 };
static const double ALMOST_ONE = 0.999; /* to round up what is more than a whole number */

void wants_note_pace(struct candidate *reader, uint64_t row_ns)
{
    reader->told.count += reader->told.count < MANY_PACES;
    reader->told.mean_ns += ((double)row_ns - reader->told.mean_ns) / reader->told.count;
}

static bool is_known(const struct candidate *reader)
{
    return reader->told.count > 0;
}

/* `position`: of the row's sample, if the row has one sample. */
static uint16_t wanted_by(const struct assigner *assigner, const struct assigner_task *task,
                          uint64_t window_row, uint64_t position)
{
    const struct plan *plan = &task->epoch->plan;
    if (task->window->row_samples == 1 && position >= plan->position_count)
        return WANTED_BY_NONE;
    if (plan->locality)
        return (uint16_t)assigner
            ->reader_of_trainer[locality_trainer(locality_near(plan), assigner->rows[window_row])];
    if (task->window->row_samples > 1)
        return WANTED_BY_ANY;
    return (uint16_t)assigner->reader_of_trainer[plan_trainer_at(task->epoch, position)];
}

void wants_find(struct assigner *assigner, const struct assigner_task *task)
{
    enum { BLOCK = 128 };
    const struct plan_window *window = task->window;
    for (uint64_t first = 0; first < window->row_count; first += BLOCK) {
        struct plan_location locations[BLOCK] = {{0}};
        uint64_t positions[BLOCK] = {0};
        size_t count = min_u64(BLOCK, window->row_count - first);
        for (size_t i = 0; i < count; i++)
            locations[i].window_row = first + i;
        if (window->row_samples == 1)
            plan_positions_of(window, locations, count, positions);
        for (size_t i = 0; i < count; i++)
            assigner->wanting[first + i] = wanted_by(assigner, task, first + i, positions[i]);
    }
}

static void count_wants(struct assigner *assigner, const struct assigner_task *task)
{
    for (uint32_t r = 0; r < assigner->reader_count; r++)
        assigner->readers[r].window_wants = assigner->readers[r].window_passed =
            assigner->readers[r].window_loses = assigner->readers[r].window_gains = 0;
    for (uint64_t window_row = 0; window_row < task->window->row_count; window_row++)
        if (task->owners[window_row] == HOME_NONE && is_reader(assigner->wanting[window_row]))
            assigner->readers[assigner->wanting[window_row]].window_wants++;
}

/* Readers whose pace is not known count as average ones. */
static double average_pace(const struct assigner *assigner)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        const struct candidate *reader = &assigner->readers[r];
        sum += is_known(reader) ? reader->told.mean_ns : 0;
        count += is_known(reader);
    }
    return count > 0 ? sum / count : 1;
}

static double pace_of(const struct candidate *reader, double average_ns)
{
    return is_known(reader) ? reader->told.mean_ns : average_ns;
}

void wants_share(struct assigner *assigner, const struct assigner_task *task)
{
    count_wants(assigner, task);
    double average_ns = average_pace(assigner), rows = 0, rows_per_ns = 0;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        rows += (double)assigner->readers[r].window_wants;
        rows_per_ns += 1 / pace_of(&assigner->readers[r], average_ns);
    }
    double even_ns = rows / rows_per_ns;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        struct candidate *reader = &assigner->readers[r];
        double row_ns = pace_of(reader, average_ns), even = even_ns / row_ns;
        double usual_ns = assigner->share[r] * rows * row_ns; /* a window's wants vary by chance */
        uint64_t wants = reader->window_wants, given = reader->window_given;
        uint64_t most = min_u64((uint64_t)(even + ALMOST_ONE), assigner->most_rows - given);
        reader->window_gains = most > wants ? most - wants : 0;
        if (reader->is_waited_for && usual_ns * reader->told.count > SLOW * MANY_PACES * even_ns &&
            wants > (uint64_t)even)
            reader->window_loses = wants - (uint64_t)even;
    }
}

/* The next reader in turn that has time to spare; HOME_NONE: there is none. */
static uint32_t next_gainer(struct assigner *assigner)
{
    for (uint32_t i = 1; i <= assigner->reader_count; i++) {
        uint32_t reader = (assigner->gainer + i) % assigner->reader_count;
        if (assigner->readers[reader].window_gains > 0 && assigner->pace.indices[reader] != NOWHERE)
            return assigner->gainer = reader;
    }
    return HOME_NONE;
}

uint32_t wants_reader(struct assigner *assigner, uint32_t wanting)
{
    struct candidate *reader = &assigner->readers[wanting];
    uint64_t loses = reader->window_loses, passed = reader->window_passed++;
    if (loses == 0 ||
        passed * loses / reader->window_wants == (passed + 1) * loses / reader->window_wants)
        return wanting;
    uint32_t gainer = next_gainer(assigner);
    if (gainer == HOME_NONE) {
        reader->window_loses = 0; /* nobody will have time in this window */
        return wanting;
    }
    assigner->readers[gainer].window_gains--;
    return gainer;
}
