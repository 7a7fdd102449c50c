/* See journal.h.
 *
 *     plan     "penstock-<work>-plan 1 <digest of the plan> <slab bytes>\n"
 *     done.R   lines "<slab> <sum> <XXH3-128 of what stands before it>\n"
 *
 * The plan appears as a whole (a link to a finished file), and the first process' one stays. Each
 * part appends to a file of its own, which it keeps locked. A line that was cut short fails its
 * hash and does not count.
 */
#include "workshop/making/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 128, NAME_BYTES = 64 };

/* DST
 * ------------------------------------------------------------------------------------------- */

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void remove_entries(int journal_fd);

/* After a work that was killed while it removed its journal, its last act: removes
 * the rest. Metadata is written last, so that what has it is complete. */
static bool is_complete(int fd, const char *folder)
{
    int journal_fd = openat(fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal_fd < 0)
        return false;
    bool complete = faccessat(fd, "zarr.json", F_OK, 0) == 0;
    if (complete)
        remove_entries(journal_fd);
    close(journal_fd);
    return complete && unlinkat(fd, folder, AT_REMOVEDIR) == 0;
}

/* DST, which has no plan, may hold a journal that was just begun; or nothing. */
static enum status check_empty(int fd, const char *path, const struct targets *targets,
                               struct error *err)
{
    if (is_complete(fd, targets->folder))
        return error_set(err, STATUS_INVALID,
                         "'%s' is complete: a %s was killed after it had written all; remove "
                         "it, or choose another destination",
                         path, targets->work);
    DIR *folder = opendir(path);
    if (!folder)
        return error_set_errno(err, STATUS_IO, "open '%s'", path);
    bool empty = true;
    const struct dirent *entry;
    while ((entry = readdir(folder)))
        empty = empty && (is_dot(entry->d_name) || strcmp(entry->d_name, targets->folder) == 0);
    closedir(folder);
    if (!empty)
        return error_set(err, STATUS_INVALID,
                         "'%s' is not empty, and no interrupted %s: remove it, or choose "
                         "another destination",
                         path, targets->work);
    return STATUS_OK;
}

bool journal_has_plan(const char *path, const char *folder)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/%s/plan", path, folder);
    return access(name, F_OK) == 0;
}

enum status journal_open_folder(const char *path, const struct targets *targets, int *ret_fd,
                                struct error *err)
{
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return error_set_errno(err, STATUS_IO, "make '%s'", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "open '%s'", path);
    enum status status = STATUS_OK;
    if (!journal_has_plan(path, targets->folder))
        status = check_empty(fd, path, targets, err);
    if (status == STATUS_OK && mkdirat(fd, targets->folder, 0777) < 0 && errno != EEXIST)
        status = error_set_errno(err, STATUS_IO, "make '%s/%s'", path, targets->folder);
    int journal_fd = -1;
    if (status == STATUS_OK) {
        journal_fd = openat(fd, targets->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (journal_fd < 0)
            status = error_set_errno(err, STATUS_IO, "open '%s/%s'", path, targets->folder);
    }
    close(fd);
    if (status == STATUS_OK)
        *ret_fd = journal_fd;
    return status;
}

/* The plan
 * ------------------------------------------------------------------------------------------- */

static enum status write_file(int folder, const char *name, const char *text, struct error *err)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create '%s' in the journal", name);
    ssize_t put = write(fd, text, strlen(text));
    int number = errno;
    if (close(fd) < 0 || put != (ssize_t)strlen(text)) {
        errno = put < 0 ? number : ENOSPC;
        return error_set_errno(err, STATUS_IO, "write '%s' in the journal", name);
    }
    return STATUS_OK;
}

static enum status offer_plan(int folder, const char *line, uint32_t part, struct error *err)
{
    char name[NAME_BYTES];
    char host[32] = "";
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "plan.%u.%s.%ld", part, host, (long)getpid());
    enum status status = write_file(folder, name, line, err);
    if (status == STATUS_OK && linkat(folder, name, folder, "plan", 0) < 0 && errno != EEXIST)
        status = error_set_errno(err, STATUS_IO, "write the plan into the journal");
    unlinkat(folder, name, 0);
    return status;
}

static enum status read_plan(int folder, char *line, size_t size, struct error *err)
{
    int fd = openat(folder, "plan", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "open the journal's plan");
    ssize_t got = read(fd, line, size - 1);
    int number = errno;
    close(fd);
    errno = number;
    if (got < 0)
        return error_set_errno(err, STATUS_IO, "read the journal's plan");
    line[got] = '\0';
    return STATUS_OK;
}

static enum status agree_on_plan(int folder, const char *path, const struct targets *targets,
                                 uint32_t part, uint64_t *slab_bytes, struct error *err)
{
    struct digest_text digest = digest_of_text(targets->plan.data, targets->plan.length);
    char line[LINE_BYTES], found_work[16] = "", found[33] = "";
    uint64_t found_bytes = 0;
    snprintf(line, sizeof line, "penstock-%s-plan 1 %s %" PRIu64 "\n", targets->work, digest.text,
             *slab_bytes);
    bool is_new = faccessat(folder, "plan", F_OK, 0) < 0;
    enum status status = is_new ? offer_plan(folder, line, part, err) : STATUS_OK;
    if (status == STATUS_OK)
        status = read_plan(folder, line, sizeof line, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'%s': ", path);
    if (sscanf(line, "penstock-%15[a-z]-plan 1 %32s %" SCNu64, found_work, found, &found_bytes) !=
            3 ||
        strcmp(found_work, targets->work) != 0 || strcmp(found, digest.text) != 0)
        return error_set(err, STATUS_INVALID,
                         "'%s' holds the beginning of another %s: of another source, of one "
                         "that has changed since, or with other options; remove it to start anew",
                         path, targets->work);
    *slab_bytes = found_bytes;
    return STATUS_OK;
}

/* Journals
 * ------------------------------------------------------------------------------------------- */

static bool has_journals(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)))
        found = found || strncmp(entry->d_name, "done.", 5) == 0;
    if (entries)
        closedir(entries);
    return found;
}

/* A new line first: what was cut short before ends there. */
static enum status open_own(struct journal *journal, const char *path, uint32_t part,
                            struct error *err)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "done.%u", part);
    journal->resumed = has_journals(journal->folder_fd);
    journal->file_fd =
        openat(journal->folder_fd, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (journal->file_fd < 0)
        return error_set_errno(err, STATUS_IO, "open '%s/%s/%s'", path, journal->folder, name);
    if (flock(journal->file_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return error_set(err, STATUS_IO, "another process writes part %u of '%s': wait for its end",
                         part, path);
    if (write(journal->file_fd, "\n", 1) != 1)
        return error_set_errno(err, STATUS_IO, "write '%s/%s/%s'", path, journal->folder, name);
    return STATUS_OK;
}

enum status journal_open(const char *path, const struct targets *targets, uint32_t part,
                         uint64_t *slab_bytes, struct journal *journal, struct error *err)
{
    *journal = (struct journal){.work = targets->work,
                                .folder = targets->folder,
                                .folder_fd = -1,
                                .file_fd = -1,
                                .lock_fd = -1};
    pthread_mutex_init(&journal->mutex, NULL);
    enum status status = journal_open_folder(path, targets, &journal->folder_fd, err);
    if (status == STATUS_OK)
        status = agree_on_plan(journal->folder_fd, path, targets, part, slab_bytes, err);
    if (status == STATUS_OK)
        status = open_own(journal, path, part, err);
    if (status != STATUS_OK)
        journal_close(journal);
    return status;
}

void journal_close(struct journal *journal)
{
    if (journal->lock_fd >= 0)
        close(journal->lock_fd);
    if (journal->file_fd >= 0)
        close(journal->file_fd);
    if (journal->folder_fd >= 0)
        close(journal->folder_fd);
    journal->lock_fd = journal->file_fd = journal->folder_fd = -1;
    pthread_mutex_destroy(&journal->mutex);
}

enum status journal_add(struct journal *journal, uint64_t slab, const struct digest_sum *sum,
                        struct error *err)
{
    char line[LINE_BYTES];
    int length = snprintf(line, sizeof line, "%" PRIu64 " %s", slab, digest_sum_format(sum).text);
    struct digest_text check = digest_of_text(line, (size_t)length);
    length += snprintf(line + length, sizeof line - (size_t)length, " %s\n", check.text);
    pthread_mutex_lock(&journal->mutex);
    ssize_t put = write(journal->file_fd, line, (size_t)length);
    int number = errno;
    pthread_mutex_unlock(&journal->mutex);
    errno = put < 0 ? number : ENOSPC;
    if (put != length)
        return error_set_errno(err, STATUS_IO, "write the journal");
    return STATUS_OK;
}

static enum status read_lines(int folder, const char *name, journal_take *take, void *argument,
                              struct error *err)
{
    char line[JOURNAL_LINE_BYTES];
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return STATUS_OK;
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file)
        return error_set_errno(err, STATUS_IO, "read '%s' of the journal", name);
    while (fgets(line, sizeof line, file))
        take(argument, line);
    fclose(file);
    return STATUS_OK;
}

enum status journal_read_lines(int folder_fd, const char *prefix, journal_take *take,
                               void *argument, struct error *err)
{
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder)
        return error_set_errno(err, STATUS_IO, "list the journal");
    enum status status = STATUS_OK;
    const struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(folder)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            status = read_lines(folder_fd, entry->d_name, take, argument, err);
    closedir(folder);
    return status;
}

struct slabs_done {
    uint64_t slab_count;
    bool *done;
    struct digest_sum *sums;
};

static void take_slab(void *argument, char *line)
{
    const struct slabs_done *slabs = argument;
    uint64_t slab;
    struct digest_sum sum;
    char check[33];
    int end = 0;
    if (sscanf(line, "%" SCNu64 " %16" SCNx64 "%16" SCNx64 "%n %32s", &slab, &sum.high, &sum.low,
               &end, check) != 4 ||
        slab >= slabs->slab_count || strcmp(digest_of_text(line, (size_t)end).text, check) != 0)
        return;
    slabs->done[slab] = true;
    slabs->sums[slab] = sum;
}

enum status journal_read(const struct journal *journal, uint64_t slab_count, bool *done,
                         struct digest_sum *sums, struct error *err)
{
    struct slabs_done slabs = {slab_count, done, sums};
    return journal_read_lines(journal->folder_fd, "done.", take_slab, &slabs, err);
}

enum status journal_lock(struct journal *journal, struct error *err)
{
    journal->lock_fd = openat(journal->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (journal->lock_fd < 0 && errno == ENOENT)
        return STATUS_OK; /* the folder is gone: another process has finished */
    while (journal->lock_fd < 0 || flock(journal->lock_fd, LOCK_EX) < 0)
        if (journal->lock_fd < 0 || errno != EINTR)
            return error_set_errno(err, STATUS_IO, "lock the journal");
    return STATUS_OK;
}

/* The end
 * ------------------------------------------------------------------------------------------- */

static int remove_partial(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    static const char prefix[] = ".penstock-partial-";
    (void)info;
    if (type == FTW_F && strncmp(path + walk->base, prefix, sizeof prefix - 1) == 0)
        unlink(path);
    return 0;
}

static void remove_entries(int journal_fd)
{
    int fd = openat(journal_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries)))
        if (!is_dot(entry->d_name))
            unlinkat(journal_fd, entry->d_name, 0);
    if (entries)
        closedir(entries);
}

void journal_remove(struct journal *journal, const char *path)
{
    char folder[4096];
    if (journal->resumed)
        nftw(path, remove_partial, 64, FTW_PHYS);
    remove_entries(journal->folder_fd);
    snprintf(folder, sizeof folder, "%s/%s", path, journal->folder);
    rmdir(folder);
}
