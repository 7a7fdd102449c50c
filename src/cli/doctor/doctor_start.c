/* What keeps programs from starting on this node, for `penstock doctor` and, before MPI says the
 * same in many words, for penstock-run: see doctor.h. */
#include "base/size.h"
#include "cli/doctor/doctor.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Open MPI keeps a file of 4 MiB, and smaller ones, for each job. */
static const uint64_t TEMPORARY_LEAST_BYTES = UINT64_C(8) << 20;
static const uint64_t TEMPORARY_FEW_BYTES = UINT64_C(64) << 20;

/* A limit of the process below which MPI or a reader crashes, or says little. */
struct least {
    int resource;
    char option; /* of ulimit */
    const char *check;
    uint64_t least;
    uint64_t unit; /* of ulimit, in those of the limit */
    const char *what;
};

static const struct least leasts[] = {
    {RLIMIT_AS, 'v', "limits.as", UINT64_C(256) << 20, 1024, "memory that a process may map"},
    {RLIMIT_DATA, 'd', "limits.data", UINT64_C(64) << 20, 1024, "memory that a process may take"},
    {RLIMIT_STACK, 's', "limits.stack", UINT64_C(256) << 10, 1024, "a thread's stack"},
    {RLIMIT_FSIZE, 'f', "limits.fsize", UINT64_C(8) << 20, 1024,
     "a file, and memory that processes share"},
    {RLIMIT_CPU, 't', "limits.cpu", 60, 1, "cpu time of a process"},
    {RLIMIT_NOFILE, 'n', "limits.nofile", DOCTOR_LEAST_FILES, 1, "files that a process may open"},
};

/* A number of bytes, seconds or files. */
static struct shown_text amount(const struct least *least, uint64_t value)
{
    struct shown_text shown;
    if (least->unit > 1)
        snprintf(shown.text, sizeof shown.text, "%s", size_format(value).text);
    else
        snprintf(shown.text, sizeof shown.text, "%" PRIu64 "%s", value,
                 least->resource == RLIMIT_CPU ? " s" : "");
    return shown;
}

static void check_limit(struct diagnosis *diagnosis, const struct least *least)
{
    struct rlimit limit;
    char advice[FINDING_TEXT_BYTES];
    if (getrlimit((__rlimit_resource_t)least->resource, &limit) < 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= least->least)
        return;
    snprintf(advice, sizeof advice,
             "raise the limit before the run: 'ulimit -%c unlimited', or at least %" PRIu64
             "; the batch system, a login script or limits.conf may have set it",
             least->option, least->least / least->unit);
    diagnosis_add(diagnosis, FINDING_FAILURE, least->check, advice,
                  "'ulimit -%c' allows %s (%s), and a run takes at least %s", least->option,
                  amount(least, limit.rlim_cur).text, least->what,
                  amount(least, least->least).text);
}

/* Threads of this process's user; some may come or go meanwhile. */
static uint64_t count_threads(void)
{
    DIR *processes = opendir("/proc");
    uint64_t count = 0;
    for (const struct dirent *entry; processes && (entry = readdir(processes));) {
        char path[300], line[256];
        struct stat info;
        unsigned long long threads;
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
        if (stat(path, &info) < 0 || info.st_uid != getuid())
            continue;
        FILE *status = fopen(path, "re");
        while (status && fgets(line, sizeof line, status))
            if (sscanf(line, "Threads: %llu", &threads) == 1)
                count += threads;
        if (status)
            fclose(status);
    }
    if (processes)
        closedir(processes);
    return count;
}

/* The limit is on all of a user's threads on the node; root has none. */
static void check_threads(struct diagnosis *diagnosis, const struct needs *needs)
{
    struct rlimit limit;
    if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    enum { LAUNCHER = 16, OF_TRAINER = 4 };
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t there = count_threads(),
             needed = LAUNCHER + OF_TRAINER * needs->trainers + (uint64_t)(cpus > 0 ? cpus : 1);
    if (there + needed <= limit.rlim_cur)
        return;
    diagnosis_add(diagnosis, FINDING_FAILURE, "limits.nproc",
                  "raise it (ulimit -u, nproc in /etc/security/limits.conf), or end what else this "
                  "user runs here",
                  "'ulimit -u' allows this user %ju threads, %" PRIu64
                  " are there, and a run takes some %" PRIu64 " more",
                  (uintmax_t)limit.rlim_cur, there, needed);
}

/* Where Open MPI and shells keep temporary files. */
static const char *temporary_folder(void)
{
    static const char *const names[] = {"TMPDIR", "TEMP", "TMP"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *folder = getenv(names[i]);
        if (folder && *folder)
            return folder;
    }
    return "/tmp";
}

/* Neither permissions nor a read-only file system say whether a file can be made: O_TMPFILE does,
 * but not everywhere. 0, or an errno. */
static int try_to_write(const char *folder)
{
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0) {
        close(file);
        return 0;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return errno;
    return access(folder, W_OK | X_OK) < 0 ? errno : 0;
}

static void check_temporary_folder(struct diagnosis *diagnosis)
{
    static const char advice[] = "mpirun keeps its files there: empty it, or set TMPDIR to a "
                                 "folder on a local disk that this user may write to";
    const char *folder = temporary_folder();
    struct statvfs info;
    int failure = try_to_write(folder);
    if (failure || statvfs(folder, &info) < 0) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "tmpdir", advice,
                      "TMPDIR, which is '%s', cannot be written to: %s", text_shown(folder).text,
                      strerror(failure ? failure : errno));
        return;
    }
    uint64_t left = (uint64_t)info.f_bavail * info.f_frsize;
    bool no_inodes = info.f_files > 0 && info.f_favail < 64;
    enum finding_level level = no_inodes || left < TEMPORARY_LEAST_BYTES ? FINDING_FAILURE
                               : left < TEMPORARY_FEW_BYTES              ? FINDING_WARNING
                                                                         : FINDING_OK;
    diagnosis_add(diagnosis, level, "tmpdir", level ? advice : NULL,
                  "TMPDIR, which is '%s', has %s free%s", text_shown(folder).text,
                  size_format(left).text, no_inodes ? ", but no inodes" : "");
}

bool doctor_start(struct diagnosis *diagnosis, const struct needs *needs)
{
    size_t before = diagnosis->count;
    bool starts = true;
    for (size_t i = 0; i < sizeof leasts / sizeof leasts[0]; i++)
        check_limit(diagnosis, &leasts[i]);
    check_threads(diagnosis, needs);
    check_temporary_folder(diagnosis);
    for (size_t i = before; i < diagnosis->count; i++)
        starts = starts && diagnosis->findings[i].level != FINDING_FAILURE;
    return starts;
}
