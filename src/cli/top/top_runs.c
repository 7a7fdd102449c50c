/* See top_runs.h. */
#include "cli/top/top_runs.h"

#include "cli/top/top_look.h"
#include "delivery/ring/rundir.h"
#include "metrics/metrics_file.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What each reader of the node says of the run. A page may not be there yet. */
static void look_at_readers(int dir, const uint32_t *readers, struct top_run *run)
{
    for (size_t r = 0; r < run->here; r++) {
        struct metrics_snapshot *snapshot;
        if (metrics_file_read(dir, readers[r], &snapshot, NULL) != STATUS_OK)
            continue;
        if (run->readers == 0) {
            free(run->name);
            free(run->dataset);
            run->name = strdup(snapshot->run);
            run->dataset = strdup(snapshot->dataset);
            run->pid = snapshot->pid;
            run->readers = snapshot->reader_count;
        }
        run->trainers += snapshot->trainer_count;
        for (uint32_t t = 0; t < snapshot->trainer_count; t++)
            run->connected += snapshot->trainers[t].connected != 0;
        free(snapshot);
    }
}

/* A lock is made when its reader starts. */
static uint64_t age_of(int dir, uint32_t reader)
{
    char name[32];
    struct stat stat;
    snprintf(name, sizeof name, "reader-%" PRIu32 ".lock", reader);
    if (fstatat(dir, name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    time_t now = time(NULL);
    return now > stat.st_mtime ? (uint64_t)(now - stat.st_mtime) : 0;
}

static bool is_listed(const struct top_runs *runs, int dir)
{
    struct stat mine, other;
    if (fstat(dir, &mine) != 0)
        return true;
    for (size_t i = 0; i < runs->count; i++)
        if (stat(runs->runs[i].path, &other) == 0 && other.st_ino == mine.st_ino &&
            other.st_dev == mine.st_dev)
            return true;
    return false;
}

static void add(struct top_runs *runs, const char *path)
{
    static uint32_t readers[TOP_MOST_READERS];
    int dir;
    if (runs->count == TOP_MOST_RUNS || rundir_open(path, false, &dir, NULL) != STATUS_OK)
        return;
    size_t count = rundir_readers(dir, readers, TOP_MOST_READERS);
    if (count > 0 && !is_listed(runs, dir)) {
        struct top_run *run = &runs->runs[runs->count++];
        *run = (struct top_run){.path = strdup(path),
                                .name = strdup(""),
                                .dataset = strdup(""),
                                .age_s = age_of(dir, readers[0]),
                                .here = count};
        look_at_readers(dir, readers, run);
    }
    close(dir);
}

static int by_age(const void *left, const void *right)
{
    const struct top_run *a = left, *b = right;
    if (a->age_s != b->age_s)
        return a->age_s < b->age_s ? -1 : 1;
    return strcmp(a->path, b->path);
}

void top_runs_find(struct top_runs *runs)
{
    const char *named = getenv("PENSTOCK_RUN_DIR");
    glob_t found = {0};
    runs->count = 0;
    if (named && *named)
        add(runs, named);
    if (glob("/tmp/penstock-*", GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add(runs, found.gl_pathv[i]);
    globfree(&found);
    qsort(runs->runs, runs->count, sizeof runs->runs[0], by_age);
}

struct age_text {
    char text[32];
};

static struct age_text age_text(uint64_t seconds)
{
    struct age_text age;
    if (seconds < 3600)
        snprintf(age.text, sizeof age.text, "%" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
    else
        snprintf(age.text, sizeof age.text, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600,
                 seconds / 60 % 60, seconds % 60);
    return age;
}

void top_runs_print(const struct top_runs *runs, struct text *out)
{
    int width = 7;
    for (size_t i = 0; i < runs->count; i++)
        width = (int)strlen(runs->runs[i].path) > width ? (int)strlen(runs->runs[i].path) : width;
    text_append(out, "%-*s  %8s  %9s  %15s  %8s  %s\n", width, "run_dir", "pid", "age",
                "readers (here)", "trainers", "dataset");
    for (size_t i = 0; i < runs->count; i++) {
        const struct top_run *run = &runs->runs[i];
        char readers[48], trainers[48];
        snprintf(readers, sizeof readers, "%" PRIu32 " (%zu)", run->readers, run->here);
        snprintf(trainers, sizeof trainers, "%" PRIu32 "/%" PRIu32, run->connected, run->trainers);
        text_append(out, "%-*s  %8" PRIu64 "  %9s  %15s  %8s  %s%s%s%s\n", width,
                    text_shown(run->path).text, run->pid, age_text(run->age_s).text, readers,
                    trainers, run->dataset, *run->name ? " (--also " : "", run->name,
                    *run->name ? ")" : "");
    }
    text_append(out, "next: penstock top ");
    text_append_word(out, runs->runs[0].path);
    text_append(out, "\n");
}

void top_runs_json(const struct top_runs *runs, struct text *out)
{
    text_append(out, "{\"runs\":[");
    for (size_t i = 0; i < runs->count; i++) {
        const struct top_run *run = &runs->runs[i];
        text_append(out, "%s{\"run_dir\":", i ? "," : "");
        text_append_json(out, run->path);
        text_append(out, ",\"run\":");
        text_append_json(out, run->name);
        text_append(out, ",\"dataset\":");
        text_append_json(out, run->dataset);
        text_append(out,
                    ",\"pid\":%" PRIu64 ",\"seconds\":%" PRIu64 ",\"readers\":%" PRIu32
                    ",\"readers_here\":%zu,\"trainers\":%" PRIu32 ",\"connected\":%" PRIu32 "}",
                    run->pid, run->age_s, run->readers, run->here, run->trainers, run->connected);
    }
    text_append(out, "]}\n");
}

void top_runs_done(struct top_runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        free(runs->runs[i].path);
        free(runs->runs[i].name);
        free(runs->runs[i].dataset);
    }
    runs->count = 0;
}
