/* See comm.h. */
#include "ranks/comm.h"

#include "base/clock.h"
#include "base/launcher.h"
#include "base/size.h"

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* How many processes the launcher says that it has started; 1 if it says nothing. mpirun's account
 * before Slurm's, which is about mpirun's daemons then. A launcher that tells ranks alone, as PALS
 * with PMIx, has started one more than this rank at least, or what penstock-run says in WORLD_SIZE.
 * RANK=0 and WORLD_SIZE=1 are a user's word that this process is alone. */
static long launched_count(void)
{
    const struct launcher *whole = launcher_of_size(), *half = launcher_of_half();
    const char *world_size = launcher_value("WORLD_SIZE");
    long size = whole ? strtol(launcher_value(whole->size), NULL, 10) : 1;
    bool is_alone = launcher_value("RANK") && world_size && strcmp(world_size, "1") == 0;
    if (size > 1 || is_alone || !half || (whole && whole < half))
        return size;
    long least = strtol(launcher_value(half->rank), NULL, 10) + 1;
    bool counts = world_size && (least > 1 || half->local_rank);
    long count = counts ? strtol(world_size, NULL, 10) : 1;
    return count > least ? count : least;
}

/* Whether Open MPI has started all processes of the job on this node. */
static bool is_local(long launched)
{
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    return local && strtol(local, NULL, 10) == launched;
}

/* MPI libraries keep what processes of a node share in /dev/shm, and say little when it is full:
 * Open MPI does without, MPICH gives up. Containers have 64 MiB there, or none. */
static void warn_of_small_shm(void)
{
    const uint64_t least_bytes = UINT64_C(16) << 20;
    const char *local_rank = NULL;
    for (int i = LAUNCHER_OPEN_MPI; i < LAUNCHERS && !local_rank; i++)
        local_rank = launcher_value(launchers[i].local_rank);
    struct statvfs info;
    if ((local_rank && strcmp(local_rank, "0") != 0) || statvfs("/dev/shm", &info) != 0)
        return;
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    if (free_bytes >= least_bytes)
        return;
    fprintf(stderr,
            "penstock-reader: warning: /dev/shm has %s free: if MPI fails or is slow, empty it or "
            "make it larger (docker run --shm-size)\n",
            size_format(free_bytes).text);
}

/* Divides every node's processes evenly: *ret_base has those of this process's run. False: they
 * cannot be divided. */
static bool divide(int run_count, struct comm *comm, MPI_Comm *ret_base)
{
    int local_rank, local_size, odd, runs[2];
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_size(node, &local_size);
    MPI_Comm_free(&node);
    odd = local_size % run_count != 0;
    MPI_Allreduce(MPI_IN_PLACE, &odd, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (odd)
        return false;
    comm->run = local_rank / (local_size / run_count);
    comm->run_count = run_count;
    for (int run = 0; run < run_count; run++) {
        runs[0] = comm->run == run ? comm->rank : INT_MAX;
        MPI_Allreduce(&runs[0], &runs[1], 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        comm->leaders[run] = runs[1];
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm->all);
    MPI_Comm_split(MPI_COMM_WORLD, comm->run, comm->rank, ret_base);
    MPI_Comm_rank(*ret_base, &comm->rank);
    MPI_Comm_size(*ret_base, &comm->size);
    return true;
}

/* How many of a node's readers share a core, 1 or more. */
static uint32_t crowd_of(uint32_t readers)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 && readers > cores ? (uint32_t)(readers / cores) : 1;
}

/* By the launcher's word, before MPI can be asked. */
static uint32_t launched_crowd(void)
{
    struct launcher_standing standing;
    struct error unused;
    bool told = launcher_node(LAUNCHER_OPEN_MPI, &standing, &unused) == STATUS_OK && standing.told;
    return crowd_of(told ? standing.size : 1);
}

/* The kernel may end each sleep of this process as much later, MPI's own included. Readers that
 * have a core sleep no longer than they mean to. Where many share one, each looks less often: else
 * MPI_Init() alone, which looks every 100 us whether all processes are there, takes all cores. */
static void settle_sleeps(uint32_t crowd)
{
    enum { ALONE_NS = 5000, CROWDED_NS = 100000, MOST_CROWD = 200 };
    uint32_t counted = crowd < MOST_CROWD ? crowd : MOST_CROWD;
    prctl(PR_SET_TIMERSLACK, crowd > 1 ? counted * CROWDED_NS : ALONE_NS);
}

/* Without spinning, as MPI_Comm_dup() would. */
static void duplicate(const struct comm *comm, MPI_Comm base, MPI_Comm *ret_copy)
{
    MPI_Request request;
    MPI_Comm_idup(base, ret_copy, &request);
    comm_wait(comm, &request);
}

static void make_communicators(MPI_Comm base, struct comm *comm)
{
    MPI_Comm *const kinds[] = {&comm->world, &comm->control, &comm->drain, &comm->rounds,
                               &comm->pace,  &comm->windows, &comm->tally, &comm->overview};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        duplicate(comm, base, kinds[i]);
    for (int i = 0; i < COMM_LANES; i++)
        duplicate(comm, base, &comm->lanes[i]);
    MPI_Comm_split_type(base, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &comm->node);
}

/* Under srun a process may leave MPI_Init before others. Its first message then reaches one that
 * still waits there, and Open MPI 5 crashes (open-mpi/ompi#12495): 19 of 120 starts of six readers
 * on three nodes with Slurm 24.11, and none of 80 where each waits for the late ones. */
enum { LATE_NS = 300000000 };

static bool is_open_mpi_5(void)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(library, &length);
    return strncmp(library, "Open MPI v5", strlen("Open MPI v5")) == 0;
}

enum status comm_init(int run_count, struct comm *ret_comm, struct error *err)
{
    MPI_Comm base = MPI_COMM_WORLD;
    int provided = MPI_THREAD_SINGLE;
    long launched = launched_count(); /* before MPI adds to the environment */
    /* Over TCP, Open MPI by default asks for each message's data, and says when it is all there, in
     * messages that queue behind the data of other rounds on the same connection: a link of
     * 1 Gbit/s stands still half of the time. Plain sends do not. A user's own value counts. */
    setenv("OMPI_MCA_btl_tcp_flags", "send", 0);
    /* Open MPI 5 pairs interfaces also of processes on one node, which share memory, and complains
     * of those with IPv6. */
    if (launched > 1 && is_local(launched))
        setenv("OMPI_MCA_btl_tcp_disable_family", "6", 0);
    if (launched > 1)
        warn_of_small_shm();
    char nics[NICS_BYTES];
    nics_choose(run_count, nics);
    uint32_t crowd = launched_crowd();
    settle_sleeps(crowd);
    if (crowd > 1)
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); /* as mpirun has it with --oversubscribe */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    nics_forget(nics);
    if (launched > 1 && getenv("SLURM_STEP_ID") && !getenv("PRTE_LAUNCHED") && is_open_mpi_5())
        clock_sleep_ns(LATE_NS);
    if (provided < MPI_THREAD_FUNNELED)
        return error_set(err, STATUS_MPI,
                         "this MPI library does not allow threads (MPI_THREAD_FUNNELED)");
    struct comm comm = {.signal_fd = -1,
                        .all = MPI_COMM_NULL,
                        .run_count = 1,
                        .is_hasty = getenv("PRTE_LAUNCHED") != NULL}; /* Open MPI 5 */
    memcpy(comm.nics, nics, sizeof nics);
    MPI_Comm_rank(MPI_COMM_WORLD, &comm.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm.size);
    if (comm.size == 1 && launched > 1)
        return error_set(
            err, STATUS_MPI,
            "the launcher has started %ld processes, but MPI knows of this one alone, "
            "so that each would deliver everything: use the mpirun of the MPI that this "
            "program is built with, or another --mpi with srun (srun --mpi=list), --pmi with "
            "PALS; or RANK=0 and WORLD_SIZE=1 for a reader that is to be alone",
            launched);
    if (run_count > 1 && !divide(run_count, &comm, &base)) {
        ret_comm->rank = comm.rank;
        return error_set(err, STATUS_INVALID,
                         "with --also each node has to have as many processes for each of the %d "
                         "runs: start %d on a node, or a multiple of %d",
                         run_count, run_count, run_count);
    }
    make_communicators(base, &comm);
    if (base != MPI_COMM_WORLD)
        MPI_Comm_free(&base);
    MPI_Comm_rank(comm.node, &comm.node_rank);
    MPI_Comm_size(comm.node, &comm.node_size);
    comm.crowd = crowd_of((uint32_t)comm.node_size);
    settle_sleeps(comm.crowd);
    if (gethostname(comm.node_name, sizeof comm.node_name) != 0)
        snprintf(comm.node_name, sizeof comm.node_name, "unknown");
    comm.node_name[sizeof comm.node_name - 1] = '\0';
    *ret_comm = comm;
    return STATUS_OK;
}

void comm_done(struct comm *comm)
{
    enum { LEAST_PRIORITY = 19 };
    MPI_Request all_here;
    MPI_Ibarrier(comm->all == MPI_COMM_NULL ? comm->world : comm->all, &all_here);
    comm_wait(comm, &all_here);
    if (comm->all != MPI_COMM_NULL)
        MPI_Comm_free(&comm->all);
    MPI_Comm_free(&comm->node);
    MPI_Comm_free(&comm->windows);
    MPI_Comm_free(&comm->tally);
    MPI_Comm_free(&comm->overview);
    MPI_Comm_free(&comm->pace);
    for (int i = 0; i < COMM_LANES; i++)
        MPI_Comm_free(&comm->lanes[i]);
    MPI_Comm_free(&comm->rounds);
    MPI_Comm_free(&comm->drain);
    MPI_Comm_free(&comm->control);
    MPI_Comm_free(&comm->world);
    /* Nobody reads signals from here on, and there is nothing left to clean up: they just end us,
     * but for the one that asks for an end in good order. */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Open MPI's launcher fails if it has not answered each process within 2 s that all at once say
     * that they end: it goes first. */
    if (comm->crowd > 1)
        setpriority(PRIO_PROCESS, 0, LEAST_PRIORITY);
    MPI_Finalize();
}

/* Run 0 says what becomes of all runs, if it is still there after as long. */
static int defer(int number)
{
    static const uint64_t patience_ns = 750000000;
    static int deferred;
    static uint64_t since_ns;
    if ((number == SIGINT || number == SIGTERM) && !deferred) {
        deferred = number;
        since_ns = clock_now_ns();
    }
    return deferred && clock_now_ns() - since_ns > patience_ns ? deferred : 0;
}

int comm_take_signal(const struct comm *comm)
{
    struct signalfd_siginfo info;
    bool taken = comm->signal_fd >= 0 && read(comm->signal_fd, &info, sizeof info) == sizeof info;
    int number = taken ? (int)info.ssi_signo : 0;
    return comm->run > 0 ? defer(number) : number;
}

void comm_heed_signals(const struct comm *comm)
{
    int number = comm_take_signal(comm);
    if (number)
        comm->on_signal(comm->on_signal_argument, number);
}

void comm_move(const struct comm *comm)
{
    int here;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm->control, &here, MPI_STATUS_IGNORE);
}

void comm_back_off(unsigned *idle)
{
    enum { SHORTEST_NS = 20000, LONGEST_NS = 1000000, DOUBLINGS = 6 };
    unsigned step = *idle < DOUBLINGS ? *idle : DOUBLINGS;
    uint64_t duration_ns = (uint64_t)SHORTEST_NS << step;
    clock_sleep_ns(duration_ns < LONGEST_NS ? duration_ns : LONGEST_NS);
    ++*idle;
}

bool comm_test(const struct comm *comm, MPI_Request *request)
{
    int complete = 0;
    if (comm->requests && comm->requests->are_looked_at)
        return requests_ask(comm->requests, request);
    MPI_Test(request, &complete, MPI_STATUS_IGNORE);
    return complete;
}

bool comm_take(const struct comm *comm, MPI_Comm where, int tag, void *message, size_t bytes,
               uint64_t *looked_ns)
{
    const uint64_t between_ns = 1000000;
    int is_here = 0;
    MPI_Message handle;
    uint64_t now_ns = clock_now_ns();
    if (comm->requests && comm->requests->are_looked_at && now_ns - *looked_ns < between_ns)
        return false;
    MPI_Improbe(MPI_ANY_SOURCE, tag, where, &is_here, &handle, MPI_STATUS_IGNORE);
    *looked_ns = is_here ? 0 : now_ns; /* the next may be here, too */
    if (is_here)
        MPI_Mrecv(message, (int)bytes, MPI_BYTE, &handle, MPI_STATUS_IGNORE);
    return is_here;
}

void comm_wait(const struct comm *comm, MPI_Request *request)
{
    unsigned idle = 0;
    for (;;) {
        int complete = 0;
        MPI_Test(request, &complete, MPI_STATUS_IGNORE);
        if (complete)
            return;
        comm_heed_signals(comm);
        comm_back_off(&idle);
    }
}

void comm_reduce(const struct comm *comm, void *values, size_t count, MPI_Datatype type,
                 MPI_Op operation, MPI_Comm where)
{
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, values, (int)count, type, operation, where, &request);
    comm_wait(comm, &request);
}

void comm_broadcast(const struct comm *comm, void *bytes, size_t size, int root, MPI_Comm where)
{
    MPI_Request request;
    MPI_Ibcast(bytes, (int)size, MPI_BYTE, root, where, &request);
    comm_wait(comm, &request);
}

enum status comm_name_reader(const struct comm *comm, enum status status, struct error *err)
{
    bool everywhere = status == STATUS_INVALID || status == STATUS_UNSUPPORTED;
    if (status == STATUS_OK || (everywhere && comm->rank == 0))
        return status;
    return error_prefix(err, status, "reader %d on %s: ", comm->rank, comm->node_name);
}

enum status comm_agree(const struct comm *comm, enum status status, struct error *err)
{
    int first = status == STATUS_OK ? INT_MAX : comm->rank;
    comm_reduce(comm, &first, 1, MPI_INT, MPI_MIN, comm->world);
    if (first == INT_MAX)
        return STATUS_OK;
    struct error failure = *err;
    if (first == comm->rank)
        failure.rank = comm->rank;
    comm_broadcast(comm, &failure, sizeof failure, first, comm->world);
    *err = failure;
    return (enum status)failure.status;
}

enum status comm_agree_runs(const struct comm *comm, enum status status, struct error *err)
{
    if (comm->run_count == 1)
        return status;
    int first = status == STATUS_OK ? INT_MAX : comm->run;
    comm_reduce(comm, &first, 1, MPI_INT, MPI_MIN, comm->all);
    if (first == INT_MAX)
        return STATUS_OK;
    comm_share_with_runs(comm, first, err, sizeof *err);
    return (enum status)err->status;
}

void comm_share_with_runs(const struct comm *comm, int run, void *bytes, size_t size)
{
    if (comm->run_count > 1)
        comm_broadcast(comm, bytes, size, comm->leaders[run], comm->all);
}

void comm_share(const struct comm *comm, void **bytes, size_t *size)
{
    enum { PIECE_BYTES = 1 << 30 };
    uint64_t total = *size;
    comm_broadcast(comm, &total, sizeof total, 0, comm->world);
    unsigned char *data = *bytes;
    if (comm->rank != 0) {
        data = calloc(1, total + 1);
        if (!data) {
            fprintf(stderr, "penstock: no memory for %llu bytes of metadata\n",
                    (unsigned long long)total);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    for (uint64_t done = 0; done < total; done += PIECE_BYTES) {
        uint64_t piece = total - done < PIECE_BYTES ? total - done : PIECE_BYTES;
        comm_broadcast(comm, data + done, piece, 0, comm->world);
    }
    *bytes = data;
    *size = total;
}
