/* What processes share: the journal in DST, its plan, and locks on blocks. See stats.h. */
#include "workshop/stats/stats.h"

#include "base/number.h"
#include "base/progress.h"
#include "workshop/making/journal.h"
#include "workshop/making/making.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* *ret_fd: -1 where another thread has the block, of any process. The lock goes with the
 * descriptor. */
enum status stats_claim(const struct stats *stats, uint64_t block, int *ret_fd, struct error *err)
{
    char name[64];
    snprintf(name, sizeof name, "claim.%" PRIu64, block);
    enum status status = STATUS_OK;
    int fd = openat(stats->folder_fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    bool is_mine = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!is_mine && (fd < 0 || errno != EWOULDBLOCK))
        status = error_set_errno(err, STATUS_IO, "claim a block by '%s/.penstock-stats/%s'",
                                 stats->path, name);
    if (!is_mine && fd >= 0)
        close(fd);
    *ret_fd = is_mine ? fd : -1;
    return status;
}

/* *ret_free: nobody is at one of the missing blocks. */
enum status stats_count_missing(const struct stats *stats, uint64_t *ret_missing, bool *ret_free,
                                struct error *err)
{
    uint64_t missing = 0;
    bool is_free = false;
    for (uint64_t block = 0; block < stats->block_count; block++) {
        int fd = -1;
        if (stats_has_block(stats, block))
            continue;
        missing++;
        enum status status = is_free ? STATUS_OK : stats_claim(stats, block, &fd, err);
        if (status != STATUS_OK)
            return status;
        if (fd >= 0) {
            is_free = true;
            close(fd);
        }
    }
    *ret_missing = missing;
    *ret_free = is_free;
    return STATUS_OK;
}

/* Until others have done what they are at, or have died. Each look takes a few calls for each block
 * that is missing, of a file system that all share. */
enum status stats_wait_for_others(const struct stats *stats, struct error *err)
{
    struct progress progress;
    uint64_t missing, wait_ms = 50;
    bool is_free;
    enum status status;
    progress_init(&progress, "waiting for other processes", "blocks", stats->block_count);
    while ((status = stats_count_missing(stats, &missing, &is_free, err)) == STATUS_OK &&
           missing > 0 && !is_free && journal_has_plan(stats->path, ".penstock-stats")) {
        progress_update(&progress, stats->block_count - missing, 0);
        nanosleep(&(struct timespec){.tv_sec = (time_t)(wait_ms / 1000),
                                     .tv_nsec = (long)(wait_ms % 1000) * 1000000},
                  NULL);
        wait_ms = min_u64(2 * wait_ms, 1000);
    }
    progress_done(&progress);
    return status;
}

struct digest_text stats_make_request(const struct stats *stats, const char *uri)
{
    const struct dataset *dataset = stats->dataset;
    struct text text = {0};
    text_append(&text, "penstock stats 1\n%s\n%016" PRIx64 " %016" PRIx64 "\n", uri,
                dataset->fingerprint, dataset->anchors ? anchors_hash(dataset->anchors) : 0);
    for (size_t f = 0; f < stats->field_count; f++) {
        const struct stats_field *field = &stats->fields[f];
        const char *store = dataset_field_store(dataset, field->number);
        text_append(&text, "%s%s%s", field->name, store ? " of " : "", store ? store : "");
        for (int axis = 0; axis < field->rank; axis++)
            text_append(&text, " %" PRIu64 "%s", field->lengths[axis],
                        field->kept[axis] ? "+" : "");
        text_append(&text, "\n");
    }
    for (size_t q = 0; q < stats->quantile_count; q++)
        text_append(&text, "%.17g\n", stats->quantiles[q]);
    struct digest_text request = digest_of_text(text.data, text.length);
    text_done(&text);
    return request;
}

/* The first process writes the plan; the others find the same. */
enum status stats_settle_plan(const struct stats *stats, struct error *err)
{
    char found[64] = "";
    int fd = openat(stats->folder_fd, "plan", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "make the plan in '%s'", stats->path);
    enum status status = STATUS_OK;
    size_t length = strlen(stats->request.text);
    if (flock(fd, LOCK_EX) < 0)
        status = error_set_errno(err, STATUS_IO, "lock the plan in '%s'", stats->path);
    ssize_t got = status != STATUS_OK ? 0 : pread(fd, found, sizeof found - 1, 0);
    if (status == STATUS_OK && got <= 0 &&
        pwrite(fd, stats->request.text, length, 0) != (ssize_t)length)
        status = error_set_errno(err, STATUS_IO, "write the plan in '%s'", stats->path);
    else if (status == STATUS_OK && got > 0 && strcmp(found, stats->request.text) != 0)
        status = error_set(err, STATUS_INVALID,
                           "'%s' holds the beginning of other statistics: of another dataset or "
                           "configuration, or with other options; remove it to start anew",
                           stats->path);
    close(fd);
    return status;
}

void stats_remove_journal(const struct stats *stats)
{
    char path[4096];
    int fd = dup(stats->folder_fd);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strcmp(entry->d_name, "plan") != 0 && strcmp(entry->d_name, "finish") != 0)
            unlinkat(stats->folder_fd, entry->d_name, 0);
    if (folder)
        closedir(folder);
    unlinkat(stats->folder_fd, "plan", 0);
    unlinkat(stats->folder_fd, "finish", 0);
    snprintf(path, sizeof path, "%s/.penstock-stats", stats->path);
    rmdir(path);
}

bool stats_has_ended(const struct stats *stats)
{
    return making_has_ended(stats->path, ".penstock-stats", stats->request.text);
}

/* One process writes the store; the others wait for its end. */
enum status stats_finish(const struct stats *stats, struct error *err)
{
    int fd = openat(stats->folder_fd, "finish", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "finish '%s'", stats->path);
    enum status status = STATUS_OK;
    if (flock(fd, LOCK_EX) < 0)
        status = error_set_errno(err, STATUS_IO, "finish '%s'", stats->path);
    if (status == STATUS_OK && !stats_has_ended(stats)) {
        status = stats_write(stats, stats->path, stats->request.text, err);
        if (status == STATUS_OK)
            stats_remove_journal(stats);
    }
    close(fd);
    return status;
}

/* A process that finishes removes what others may still read. */
void stats_wait_for_finish(const struct stats *stats)
{
    int fd = openat(stats->folder_fd, "finish", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    while (flock(fd, LOCK_SH) < 0 && errno == EINTR)
        continue;
    close(fd);
}
