/* The node's part of `penstock doctor`: see doctor.h. */
#include "base/cgroup.h"
#include "base/memory.h"
#include "base/size.h"
#include "cli/doctor/doctor.h"
#include "topology/nics.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

static const uint64_t SHM_LEAST_BYTES = UINT64_C(16) << 20; /* MPI gives up below, or is slow */
static const uint64_t SHM_FEW_BYTES = UINT64_C(128) << 20;
static const uint64_t MEMORY_LEAST_BYTES = UINT64_C(256) << 20;
static const uint64_t MEMORY_FEW_BYTES = UINT64_C(2) << 30;
static const uint64_t MEMORY_SLACK_BYTES = UINT64_C(64) << 20; /* looked at a moment apart */

/* Descriptors of a reader: its own, the sockets, rings and wake-ups of its trainers, and requests.
 */
static uint64_t descriptors_needed(const struct needs *needs)
{
    enum { OWN = 96, OF_TRAINER = 8, OF_REQUESTS = 256 };
    return OWN + OF_TRAINER * needs->trainers + (needs->remote ? OF_REQUESTS : 0);
}

static void check_descriptors(struct diagnosis *diagnosis, const struct needs *needs)
{
    struct rlimit limit;
    uint64_t needed = descriptors_needed(needs);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < DOCTOR_LEAST_FILES)
        return;
    if (limit.rlim_cur >= needed) {
        diagnosis_add(diagnosis, FINDING_OK, "limits.nofile", NULL,
                      "%ju files may be open, a reader takes some %" PRIu64,
                      (uintmax_t)limit.rlim_cur, needed);
        return;
    }
    char advice[FINDING_TEXT_BYTES];
    snprintf(advice, sizeof advice,
             limit.rlim_max >= needed
                 ? "run 'ulimit -n %ju' before, or set nofile in /etc/security/limits.conf"
                 : "the hard limit is %ju: have root raise nofile in /etc/security/limits.conf, "
                   "LimitNOFILE= of the service, or docker run --ulimit nofile=65536",
             (uintmax_t)limit.rlim_max);
    diagnosis_add(diagnosis, FINDING_FAILURE, "limits.nofile", advice,
                  "only %ju files may be open, a reader takes some %" PRIu64,
                  (uintmax_t)limit.rlim_cur, needed);
}

static bool has_entries(const char *path)
{
    DIR *folder = opendir(path);
    bool found = false;
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));)
        found = entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return found;
}

/* RDMA registers memory, which counts as locked; TCP and shared memory do not. */
static void check_locked_memory(struct diagnosis *diagnosis)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return;
    bool unlimited = limit.rlim_cur == RLIM_INFINITY;
    if (unlimited || !has_entries("/sys/class/infiniband"))
        diagnosis_add(diagnosis, FINDING_OK, "limits.memlock", NULL,
                      unlimited ? "memory may be locked without limit"
                                : "%s may be locked, and no InfiniBand or RoCE device needs more",
                      size_format(limit.rlim_cur).text);
    else
        diagnosis_add(diagnosis, FINDING_WARNING, "limits.memlock",
                      "set memlock to unlimited in /etc/security/limits.conf; in Slurm set "
                      "PropagateResourceLimitsExcept=MEMLOCK and LimitMEMLOCK=infinity for slurmd",
                      "only %s may be locked, and MPI locks memory to send over InfiniBand or RoCE",
                      size_format(limit.rlim_cur).text);
}

static void check_shared_memory(struct diagnosis *diagnosis)
{
    struct statvfs info;
    const char *advice = "MPI keeps there what processes of a node share: make /dev/shm larger "
                         "(docker run --shm-size=2g), or empty it";
    if (statvfs("/dev/shm", &info) < 0 || access("/dev/shm", W_OK) < 0) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "shm", advice,
                      "/dev/shm cannot be written to: %s", strerror(errno));
        return;
    }
    uint64_t left = (uint64_t)info.f_bavail * info.f_frsize;
    enum finding_level level = left < SHM_LEAST_BYTES ? FINDING_FAILURE
                               : left < SHM_FEW_BYTES ? FINDING_WARNING
                                                      : FINDING_OK;
    diagnosis_add(diagnosis, level, "shm", level ? advice : NULL, "/dev/shm has %s free",
                  size_format(left).text);
}

/* The word in brackets of a file such as "always [madvise] never". */
static bool chosen_word(const char *path, char *ret_word, size_t size)
{
    char line[128] = "";
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, sizeof line, file);
    if (file)
        fclose(file);
    const char *from = read ? strchr(line, '[') : NULL;
    const char *to = from ? strchr(from, ']') : NULL;
    if (!to || (size_t)(to - from) >= size)
        return false;
    memcpy(ret_word, from + 1, (size_t)(to - from - 1));
    ret_word[to - from - 1] = '\0';
    return true;
}

/* Kernels before Linux 6.1 make none for those who ask, and follow these settings. */
static void check_huge_pages(struct diagnosis *diagnosis)
{
    char word[32];
    const char *advice = NULL, *more = "";
    if (!chosen_word("/sys/kernel/mm/transparent_hugepage/enabled", word, sizeof word))
        return;
    bool never = strcmp(word, "never") == 0;
    if (memory_makes_huge_pages()) {
        more = never ? ", but made where they are asked for" : "";
    } else if (never) {
        advice =
            "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, as root: rows are copied "
            "faster from huge pages";
    } else if (!memory_shares_huge_pages()) {
        more = ", and none for rings, which are shared memory";
        advice =
            "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled, as root: batches are "
            "copied faster to huge pages";
    }
    diagnosis_add(diagnosis, advice ? FINDING_WARNING : FINDING_OK, "hugepages", advice,
                  "transparent huge pages: %s%s", word, more);
}

static void check_memory(struct diagnosis *diagnosis)
{
    struct cgroup_memory group;
    struct memory_limit limit;
    uint64_t left = memory_available_bytes();
    enum finding_level level = left < MEMORY_LEAST_BYTES ? FINDING_FAILURE
                               : left < MEMORY_FEW_BYTES ? FINDING_WARNING
                                                         : FINDING_OK;
    if (memory_process_limit(&limit) && limit.left_bytes <= left + MEMORY_SLACK_BYTES)
        diagnosis_add(diagnosis, level, "memory",
                      level ? "raise the limit of each process, which 'ulimit -v unlimited' or the "
                              "batch system (h_vmem) sets"
                            : NULL,
                      "%s are left of the %s that 'ulimit -%c' allows a process",
                      size_format(limit.left_bytes).text, size_format(limit.bytes).text,
                      limit.option);
    else if (cgroup_memory("", &group) && group.left_bytes <= left + MEMORY_SLACK_BYTES)
        diagnosis_add(diagnosis, level, "memory",
                      level
                          ? "the limit is the control group's: ask for more (sbatch --mem, docker "
                            "run --memory, resources.limits.memory of a pod)"
                          : NULL,
                      "%s are left of the %s that control group %s may take",
                      size_format(group.left_bytes).text, size_format(group.limit_bytes).text,
                      text_shown(group.path).text);
    else
        diagnosis_add(diagnosis, level, "memory",
                      level ? "end what else takes memory on this node, or take a larger one"
                            : NULL,
                      "%s are available", size_format(left).text);
}

/* Cores that a quota of time is worth; 0: there is none. Of the process's own group: limits of
 * groups above show in the container's. */
static double cpu_quota(void)
{
    double quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file && fscanf(file, "%lf %lf", &quota, &period) != 2)
        quota = 0;
    if (file)
        fclose(file);
    return period > 0 && quota > 0 ? quota / period : 0;
}

static void check_cpus(struct diagnosis *diagnosis, const struct needs *needs)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return;
    int cpus = CPU_COUNT(&allowed);
    double quota = cpu_quota();
    if (quota > 0 && quota < cpus)
        diagnosis_add(diagnosis, FINDING_WARNING, "cpus",
                      "raise the quota (docker run --cpus, resources.limits.cpu of a pod), or set "
                      "readers.threads to no more than the quota",
                      "%d cpus may be used, but the control group's quota is worth %.1f: threads "
                      "are stopped in between",
                      cpus, quota);
    else if ((uint64_t)cpus <= needs->trainers)
        diagnosis_add(diagnosis, FINDING_WARNING, "cpus",
                      "ask for more cpus (sbatch --cpus-per-task, --exclusive): a reader wants "
                      "some, and each trainer one",
                      "%d cpus may be used, by readers and %" PRIu64 " trainers", cpus,
                      needs->trainers);
    else
        diagnosis_add(diagnosis, FINDING_OK, "cpus", NULL, "%d cpus may be used", cpus);
}

static void check_clock(struct diagnosis *diagnosis, const struct needs *needs)
{
    struct timex state = {0};
    int answer = adjtimex(&state);
    bool unknown = answer < 0;
    bool set = answer >= 0 && answer != TIME_ERROR && !(state.status & STA_UNSYNC);
    if (unknown || set)
        diagnosis_add(diagnosis, FINDING_OK, "clock", NULL,
                      set ? "the clock is synchronised"
                          : "the kernel does not say how its clock is");
    else
        diagnosis_add(diagnosis, needs->signs ? FINDING_WARNING : FINDING_OK, "clock",
                      needs->signs ? "run chrony or systemd-timesyncd: clouds refuse requests that "
                                     "are 15 minutes off"
                                   : NULL,
                      "nothing synchronises the clock, as far as the kernel knows");
}

static bool is_interface(const char *name)
{
    char path[FINDING_TEXT_BYTES];
    snprintf(path, sizeof path, "/sys/class/net/%s", name);
    return access(path, F_OK) == 0;
}

/* NICs that programs of Linux's drivers show, and what readers make of them. */
static void check_nics(struct diagnosis *diagnosis)
{
    struct topology *topology = NULL;
    struct text found = {0};
    const char *chosen = getenv("UCX_NET_DEVICES");
    if (topology_load(NULL, NULL, &topology, NULL) != STATUS_OK)
        return;
    topology_describe_nics(topology, &found);
    if (found.length > 0)
        diagnosis_add(diagnosis, FINDING_OK, "nics", NULL, "%s%s%s", text_shown(found.data).text,
                      chosen ? "; UCX_NET_DEVICES=" : "",
                      chosen                             ? text_shown(chosen).text
                      : topology_nic_count(topology) > 1 ? "; several readers of a node share out "
                                                           "those of InfiniBand"
                                                         : "");
    text_done(&found);
    topology_free(topology);
}

/* Interfaces that Open MPI is told to use, unless by address: it says little where one is not
 * there. */
static void check_interfaces(struct diagnosis *diagnosis)
{
    const char *list = getenv("OMPI_MCA_btl_tcp_if_include");
    for (const char *at = list; at && *at;) {
        char name[64];
        size_t size = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)size, at);
        if (!strchr(name, '/') && !is_interface(name))
            diagnosis_add(diagnosis, FINDING_FAILURE, "network",
                          "name one of 'ip -brief address', or a network such as 10.0.0.0/24 where "
                          "nodes name their interfaces differently",
                          "OMPI_MCA_btl_tcp_if_include has '%s', and this node has no such "
                          "interface",
                          text_shown(name).text);
        at += size + (at[size] == ',');
    }
}

void doctor_node(struct diagnosis *diagnosis, const struct needs *needs)
{
    check_interfaces(diagnosis);
    check_nics(diagnosis);
    check_descriptors(diagnosis, needs);
    check_locked_memory(diagnosis);
    check_shared_memory(diagnosis);
    check_huge_pages(diagnosis);
    check_memory(diagnosis);
    check_cpus(diagnosis, needs);
    check_clock(diagnosis, needs);
}
