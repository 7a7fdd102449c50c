/* See held.h. */
#include "job/held.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static enum status map_shared(int fd, size_t bytes, int protection, void **ret_memory,
                              struct error *err)
{
    void *memory = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map %s for the held arrays",
                               size_format(bytes).text);
    *ret_memory = memory;
    return STATUS_OK;
}

struct loading {
    const struct held_options *options;
    struct progress progress;
};

static void look(void *argument, uint64_t chunks, uint64_t chunk_count, uint64_t bytes)
{
    struct loading *loading = argument;
    loading->progress.total = chunk_count;
    if (loading->options->shows_progress)
        progress_update(&loading->progress, chunks, bytes);
    loading->options->waiting(loading->options->argument);
}

static enum status load(struct dataset *dataset, const struct held_options *options, void *memory,
                        struct error *err)
{
    struct loading loading = {.options = options};
    progress_init(&loading.progress, "loading held arrays", "chunks", 1);
    const struct dataset_hold_options hold = {.thread_count = options->thread_count,
                                              .memory_bytes = options->memory_bytes,
                                              .progress = look,
                                              .argument = &loading};
    enum status status = dataset_hold_with(dataset, &hold, memory, err);
    progress_done(&loading.progress);
    return status;
}

/* Makes the memory and fills it. Readers of all NUMA nodes look up any samples: pages lie
 * on all nodes in turn. posix_fallocate: a machine without room says so here, not by
 * SIGBUS. */
static enum status fill(int fd, struct dataset *dataset, const struct held_options *options,
                        void **ret_memory, struct error *err)
{
    enum status status =
        map_shared(fd, dataset->held_bytes, PROT_READ | PROT_WRITE, ret_memory, err);
    if (status != STATUS_OK)
        return status;
    (void)!memory_interleave(*ret_memory, dataset->held_bytes);
    int failure = posix_fallocate(fd, 0, (off_t)dataset->held_bytes);
    if (failure) {
        errno = failure;
        return error_set_errno(err, STATUS_NO_MEMORY, "allocate %s for the held arrays",
                               size_format(dataset->held_bytes).text);
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return load(dataset, options, *ret_memory, err);
}

static enum status attach(const int source[2], struct dataset *dataset, void **ret_memory,
                          struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", source[0], source[1]);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(
            err, STATUS_IO,
            "share held arrays with the node's first reader through '%s' (start one "
            "reader a node if readers have PID namespaces of their own)",
            path);
    enum status status = map_shared(fd, dataset->held_bytes, PROT_READ, ret_memory, err);
    close(fd);
    if (status == STATUS_OK)
        dataset_attach(dataset, *ret_memory);
    return status;
}

/* Until all readers are here. */
static void wait_for_readers(const struct comm *comm, const struct held_options *options)
{
    enum { LOOK_NS = 50000000 };
    MPI_Request request;
    int complete = 0;
    unsigned idle = 0;
    uint64_t looked_ns = clock_now_ns();
    MPI_Ibarrier(comm->world, &request);
    for (MPI_Test(&request, &complete, MPI_STATUS_IGNORE); !complete;
         MPI_Test(&request, &complete, MPI_STATUS_IGNORE)) {
        comm_heed_signals(comm);
        comm_back_off(&idle);
        if (clock_now_ns() - looked_ns < LOOK_NS)
            continue;
        looked_ns = clock_now_ns();
        options->waiting(options->argument);
    }
}

enum status held_share(const struct comm *comm, struct dataset *dataset,
                       const struct held_options *options, void **ret_memory, struct error *err)
{
    enum status status = STATUS_OK;
    int fd = -1;
    if (dataset->held_bytes == 0) {
        *ret_memory = NULL;
        return STATUS_OK;
    }
    if (comm->node_rank == 0) {
        fd = memfd_create("penstock-held", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        status = fd < 0 ? error_set_errno(err, STATUS_IO, "create shared memory")
                        : fill(fd, dataset, options, ret_memory, err);
    }
    wait_for_readers(comm, options);
    status = comm_agree(comm, comm_name_reader(comm, status, err), err);
    if (status == STATUS_OK) {
        int source[2] = {(int)getpid(), fd};
        comm_broadcast(comm, source, sizeof source, 0, comm->node);
        if (comm->node_rank != 0)
            status = attach(source, dataset, ret_memory, err);
        status = comm_agree(comm, status, err);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

void held_free(void *memory, const struct dataset *dataset)
{
    if (memory)
        munmap(memory, dataset->held_bytes);
}
