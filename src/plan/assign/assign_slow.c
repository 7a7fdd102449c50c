/* See assign_slow.h. */
#include "plan/assign/assign_slow.h"

#include "base/number.h"
#include "plan/assign/assign_internal.h"

/* So many times longer than on average its rows take a reader that gives rows away: by the average
 * of MANY_PACES pace samples. Fewer have to say more. */
static const double SLOW = 1.25;
enum { MANY_PACES = 8 };
static const double ALMOST_ONE = 0.999; /* to round up what is more than a whole number */

void slow_note_pace(struct candidate *reader, uint64_t row_ns)
{
    reader->told.count += reader->told.count < MANY_PACES;
    reader->told.mean_ns += ((double)row_ns - reader->told.mean_ns) / reader->told.count;
}

static bool is_known(const struct candidate *reader)
{
    return reader->told.count > 0;
}

/* Counts the rows that are near each reader. Returns how many rows are to be read. */
static uint64_t count_rows(struct assigner *assigner, const struct assigner_task *task)
{
    uint64_t rows = 0;
    for (uint64_t window_row = 0; window_row < task->window->row_count; window_row++) {
        uint16_t near = assigner->near[window_row];
        bool is_read = !is_reader(task->owners[window_row]) && near != NEAR_UNREAD;
        rows += is_read;
        if (is_read && is_reader(near))
            assigner->readers[near].window.near++;
    }
    return rows;
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

void slow_share(struct assigner *assigner, const struct assigner_task *task)
{
    double rows = (double)count_rows(assigner, task), rows_per_ns = 0;
    double average_ns = average_pace(assigner);
    for (uint32_t r = 0; r < assigner->reader_count; r++)
        rows_per_ns += 1 / pace_of(&assigner->readers[r], average_ns);
    double even_ns = rows / rows_per_ns;
    for (uint32_t r = 0; r < assigner->reader_count; r++) {
        struct candidate *reader = &assigner->readers[r];
        double row_ns = pace_of(reader, average_ns), even = even_ns / row_ns;
        double share = task->epoch->plan.locality ? reader->near_share : reader->share;
        double usual_ns = share * rows * row_ns; /* a window's rows vary by chance */
        uint64_t near = reader->window.near, given = reader->window.given;
        uint64_t most = min_u64((uint64_t)(even + ALMOST_ONE), assigner->most_rows - given);
        reader->window.gains = most > near ? most - near : 0;
        if (reader->is_waited_for && usual_ns * reader->told.count > SLOW * MANY_PACES * even_ns &&
            near > (uint64_t)even)
            reader->window.loses = near - (uint64_t)even;
    }
}

bool slow_gives_away(struct candidate *reader)
{
    uint64_t loses = reader->window.loses, passed = reader->window.passed++;
    return loses > 0 &&
           passed * loses / reader->window.near != (passed + 1) * loses / reader->window.near;
}
