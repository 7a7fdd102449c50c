/* Text for people about a placement. Pure. */
#include "topology/topology.h"

#include "base/size.h"

/* Appends "cpus 0-3", or "a core each of cpus 0-3" where seats differ. */
static void describe_cpus(const struct placement_worker *workers, uint32_t count, struct text *out)
{
    bool same = true;
    struct cpuset all = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        same = same && cpuset_equal(&workers[i].cpuset, &workers[0].cpuset);
        cpuset_unite(&all, &workers[i].cpuset);
    }
    text_append(out, same ? "cpus " : "a core each of cpus ");
    cpuset_print(&all, out);
    text_append(out, "\n");
}

static void describe_workers(const struct placement *placement, struct text *out)
{
    uint32_t end;
    for (uint32_t first = 0; first < placement->worker_count; first = end) {
        const struct placement_worker *worker = &placement->workers[first];
        end = first + 1;
        while (end < placement->worker_count && placement->workers[end].numa == worker->numa)
            end++;
        text_append(out, "%4u worker%s on NUMA node %u, ", end - first, count_plural(end - first),
                    worker->numa_os_index);
        describe_cpus(worker, end - first, out);
    }
}

static bool same_seat(const struct placement_trainer *a, const struct placement_trainer *b)
{
    return a->numa_os_index == b->numa_os_index && cpuset_equal(&a->cpuset, &b->cpuset);
}

static void describe_trainers(const struct placement *placement, struct text *out)
{
    uint32_t end;
    for (uint32_t first = 0; first < placement->seat_count; first = end) {
        const struct placement_trainer *trainer = &placement->trainers[first];
        end = first + 1;
        while (end < placement->seat_count && same_seat(trainer, &placement->trainers[end]))
            end++;
        text_append(out, "%4u trainer%s on NUMA node %u, cpus ", end - first,
                    count_plural(end - first), trainer->numa_os_index);
        cpuset_print(&trainer->cpuset, out);
        for (uint32_t i = first; i < end && trainer->gpu[0]; i++)
            text_append(out, "%s %s", i == first ? ", GPU" : "", placement->trainers[i].gpu);
        text_append(out, "\n");
    }
    uint32_t unseated = placement->trainer_count - placement->seat_count;
    if (unseated > 0)
        text_append(out, "%4u trainer%s on any cpu\n", unseated, count_plural(unseated));
}

void topology_describe(const struct placement *placement, struct text *out)
{
    describe_workers(placement, out);
    describe_trainers(placement, out);
}

/* What can be lowered; nothing where all are one. */
static void advise_crowd(const struct placement *placement, struct text *out)
{
    const char *before = "; lower", *between = " or";
    if (placement->all_workers > placement->all_readers) {
        text_append(out, "%s readers.threads", before);
        before = between;
    }
    if (placement->all_readers > 1) {
        text_append(out, "%s the readers of a node", before);
        before = between;
    }
    if (placement->all_trainers > 1)
        text_append(out, "%s the trainers of a node", before);
}

void topology_describe_crowd(const struct placement *placement, struct text *out)
{
    if (!placement->crowded)
        return;
    text_append(out,
                "%u reader%s with %u worker thread%s and %u trainer%s share %u core%s: they take "
                "turns",
                placement->all_readers, count_plural(placement->all_readers),
                placement->all_workers, count_plural(placement->all_workers),
                placement->all_trainers, count_plural(placement->all_trainers),
                placement->all_cores, count_plural(placement->all_cores));
    advise_crowd(placement, out);
}
