/* See comm.h. */
#include "comm.h"

#include "base/clock.h"
#include "base/size.h"

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* How many processes the launcher says that it has started; 1 if it says nothing. mpirun's account
 * before Slurm's, which is about mpirun's daemons then. */
static long launched_count(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *count = getenv(names[i]);
        if (count)
            return strtol(count, NULL, 10);
    }
    return 1;
}

/* MPI libraries keep what processes of a node share in /dev/shm, and say little when it is full:
 * Open MPI does without, MPICH gives up. Containers have 64 MiB there, or none. */
static void warn_of_small_shm(void)
{
    const uint64_t least_bytes = UINT64_C(16) << 20;
    const char *local_rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    if (!local_rank)
        local_rank = getenv("MPI_LOCALRANKID");
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

enum status comm_init(struct comm *ret_comm, struct error *err)
{
    int provided = MPI_THREAD_SINGLE;
    long launched = launched_count(); /* before MPI adds to the environment */
    /* Over TCP, Open MPI by default asks for each message's data, and says when it is all there, in
     * messages that queue behind the data of other rounds on the same connection: a link of
     * 1 Gbit/s stands still half of the time. Plain sends do not. A user's own value counts. */
    setenv("OMPI_MCA_btl_tcp_flags", "send", 0);
    if (launched > 1)
        warn_of_small_shm();
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    if (provided < MPI_THREAD_FUNNELED)
        return error_set(err, STATUS_MPI,
                         "this MPI library does not allow threads (MPI_THREAD_FUNNELED)");
    struct comm comm = {.signal_fd = -1};
    MPI_Comm_rank(MPI_COMM_WORLD, &comm.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &comm.size);
    if (comm.size == 1 && launched > 1)
        return error_set(
            err, STATUS_MPI,
            "the launcher has started %ld processes, but MPI knows of this one alone, "
            "so that each would deliver everything: use the mpirun of the MPI that this "
            "program is built with, or another --mpi with srun (srun --mpi=list)",
            launched);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.world);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.control);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.drain);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.rounds);
    for (int i = 0; i < COMM_LANES; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm.lanes[i]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.pace);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.windows);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.tapes);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.tally);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm.overview);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, comm.rank, MPI_INFO_NULL, &comm.node);
    MPI_Comm_rank(comm.node, &comm.node_rank);
    MPI_Comm_size(comm.node, &comm.node_size);
    if (gethostname(comm.node_name, sizeof comm.node_name) != 0)
        snprintf(comm.node_name, sizeof comm.node_name, "unknown");
    comm.node_name[sizeof comm.node_name - 1] = '\0';
    *ret_comm = comm;
    return STATUS_OK;
}

void comm_done(struct comm *comm)
{
    MPI_Request all_here;
    MPI_Ibarrier(comm->world, &all_here);
    comm_wait(comm, &all_here);
    MPI_Comm_free(&comm->node);
    MPI_Comm_free(&comm->windows);
    MPI_Comm_free(&comm->tapes);
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
    MPI_Finalize();
}

int comm_take_signal(const struct comm *comm)
{
    struct signalfd_siginfo info;
    bool taken = comm->signal_fd >= 0 && read(comm->signal_fd, &info, sizeof info) == sizeof info;
    return taken ? (int)info.ssi_signo : 0;
}

void comm_heed_signals(const struct comm *comm)
{
    int number = comm_take_signal(comm);
    if (number)
        comm->on_signal(comm->on_signal_argument, number);
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
    if (comm->requests)
        return requests_ask(comm->requests, request);
    MPI_Test(request, &complete, MPI_STATUS_IGNORE);
    return complete;
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

enum status comm_agree(const struct comm *comm, enum status status, struct error *err)
{
    int mine = status == STATUS_OK ? INT_MAX : comm->rank;
    int first = INT_MAX;
    MPI_Request request;
    MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm->world, &request);
    comm_wait(comm, &request);
    if (first == INT_MAX)
        return STATUS_OK;
    struct error failure = *err;
    if (first == comm->rank)
        failure.rank = comm->rank;
    MPI_Ibcast(&failure, sizeof failure, MPI_BYTE, first, comm->world, &request);
    comm_wait(comm, &request);
    *err = failure;
    return (enum status)failure.status;
}

void comm_share(const struct comm *comm, void **bytes, size_t *size)
{
    enum { PIECE_BYTES = 1 << 30 };
    uint64_t total = *size;
    MPI_Request request;
    MPI_Ibcast(&total, 1, MPI_UINT64_T, 0, comm->world, &request);
    comm_wait(comm, &request);
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
        MPI_Ibcast(data + done, (int)piece, MPI_BYTE, 0, comm->world, &request);
        comm_wait(comm, &request);
    }
    *bytes = data;
    *size = total;
}
