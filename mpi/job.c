/* See job.h. Every stage that can fail on one rank ends in comm_agree(), so that all ranks take the
 * same way. */
#include "job_internal.h"
#include "left.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "held.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { QUEUE_CAPACITY = 256 };

static enum status configure(struct config *config, const struct job_options *options,
                             struct error *err)
{
    enum status status = STATUS_OK;
    if (options->config_path)
        status = config_read_file(config, options->config_path, err);
    if (status == STATUS_OK)
        status = config_read_environment(config, err);
    for (size_t i = 0; i < options->setting_count && status == STATUS_OK; i++)
        status = config_set(config, options->settings[i], err);
    return status == STATUS_OK ? config_check(config, err) : status;
}

/* Rank 0 reads the configuration; the others get its text. */
static enum status share_config(struct job *job, const struct job_options *options,
                                struct error *err)
{
    enum status status = config_init(&job->config, err);
    if (status == STATUS_OK && job->comm.rank == 0)
        status = configure(&job->config, options, err);
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK)
        return status;
    struct text text = {0};
    if (job->comm.rank == 0)
        config_print(&job->config, &text);
    void *bytes = text.data;
    size_t size = text.length;
    comm_share(&job->comm, &bytes, &size);
    if (job->comm.rank != 0) {
        status = config_read_text(&job->config, bytes, size, "configuration of rank 0", "/", err);
        free(bytes);
    }
    text_done(&text);
    return comm_agree(&job->comm, status, err);
}

/* From before the first look at the store on, somebody sees whether it answers. */
static enum status watch_store(struct job *job, struct error *err)
{
    enum status status = store_watch_new(&job->watch, err);
    if (status == STATUS_OK)
        status =
            watchdog_new(&job->comm, job->watch, job->config.store_timeout_s, &job->watchdog, err);
    return comm_agree(&job->comm, status, err);
}

/* Rank 0 opens the dataset; the others rebuild it from its metadata. */
static enum status share_dataset(struct job *job, struct error *err)
{
    enum status status = STATUS_OK;
    void *bytes = NULL;
    size_t size = 0;
    if (job->comm.rank == 0) {
        struct dataset_options options = config_dataset_options(&job->config, job->watch);
        status = dataset_open(&options, &job->dataset, err);
        if (status == STATUS_OK)
            status = dataset_pack(job->dataset, &bytes, &size, err);
    }
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        comm_share(&job->comm, &bytes, &size);
        if (job->comm.rank != 0)
            status = dataset_unpack(bytes, size, job->watch, &job->dataset, err);
        status = comm_agree(&job->comm, status, err);
    }
    free(bytes);
    return status;
}

/* Trainers are spread over readers in blocks: reader r spawns ranks [r*T/R, (r+1)*T/R). */
static uint32_t first_trainer(const struct job *job, int reader)
{
    return (uint32_t)((uint64_t)reader * job->config.trainers / (uint64_t)job->comm.size);
}

static uint32_t expected_trainers(const struct job *job)
{
    return first_trainer(job, job->comm.rank + 1) - first_trainer(job, job->comm.rank);
}

/* Values are below 2^63: MPICH 4.0 compares unsigned integers as if they were signed. */
static uint64_t reduce(const struct comm *comm, uint64_t value, MPI_Op operation, MPI_Comm where)
{
    uint64_t result = value;
    MPI_Request request;
    MPI_Iallreduce(&value, &result, 1, MPI_UINT64_T, operation, where, &request);
    comm_wait(comm, &request);
    return result;
}

/* What the readers of a node tell one another for their placements. */
struct seat_note {
    struct cpuset allowed;
    uint32_t trainers;
    char visible_gpus[COMM_NODE_NAME_BYTES]; /* of the node's first reader counts for all */
    bool has_visible_gpus;
};

static void write_note(const struct job *job, const struct topology *topology,
                       struct seat_note *ret_note)
{
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    struct seat_note note = {.allowed = topology_cpus(topology),
                             .trainers = expected_trainers(job),
                             .has_visible_gpus = gpus != NULL};
    if (gpus && strlen(gpus) < sizeof note.visible_gpus)
        snprintf(note.visible_gpus, sizeof note.visible_gpus, "%s", gpus);
    *ret_note = note;
}

/* Readers that a launcher has bound to cpus of their own have placements each by itself, all others
 * together. */
static enum status placement_among(struct job *job, const struct topology *topology,
                                   const struct seat_note *notes, struct placement_group *groups,
                                   struct error *err)
{
    struct placement_request request = {.groups = groups,
                                        .thread_count = (uint32_t)job->config.threads,
                                        .bind = job->config.bind,
                                        .visible_gpus =
                                            notes->has_visible_gpus ? notes->visible_gpus : NULL};
    for (int i = 0; i < job->comm.node_size; i++) {
        const struct cpuset *own = &notes[job->comm.node_rank].allowed;
        if (i == job->comm.node_rank)
            request.reader = request.reader_count;
        if (i == job->comm.node_rank || cpuset_intersects(&notes[i].allowed, own))
            groups[request.reader_count++] = (struct placement_group){
                .first = request.node_trainers, .count = notes[i].trainers};
        request.node_trainers += notes[i].trainers;
    }
    return topology_reader_placement(topology, &request, &job->placement, err);
}

static enum status settle_placement(struct job *job, struct error *err)
{
    struct topology *topology = NULL;
    struct seat_note mine;
    struct seat_note *notes = calloc((size_t)job->comm.node_size, sizeof *notes);
    struct placement_group *groups = calloc((size_t)job->comm.node_size, sizeof *groups);
    enum status status = topology_load(NULL, NULL, &topology, err);
    if (status == STATUS_OK && (!notes || !groups))
        status = error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        assert(notes && groups); /* comm_agree() returns OK only where every rank came with it */
        write_note(job, topology, &mine);
        MPI_Request request;
        MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, notes, sizeof mine, MPI_BYTE, job->comm.node,
                       &request);
        comm_wait(&job->comm, &request);
        job->core_count = topology_core_count(topology);
        status = comm_agree(&job->comm, placement_among(job, topology, notes, groups, err), err);
    }
    topology_free(topology);
    free(groups);
    free(notes);
    return status;
}

/* Collective: the least memory of any node, and that node's name. */
static void find_least_memory(struct job *job)
{
    const struct comm *comm = &job->comm;
    uint64_t mine = memory_available_bytes();
    mine = mine < INT64_MAX ? mine : INT64_MAX; /* nothing says how much there is */
    job->shape.node_available_bytes = reduce(comm, mine, MPI_MIN, comm->world);
    bool is_least = mine == job->shape.node_available_bytes;
    uint64_t rank =
        reduce(comm, (uint64_t)(is_least ? comm->rank : comm->size), MPI_MIN, comm->world);
    memcpy(job->least_node, comm->node_name, sizeof job->least_node);
    MPI_Request request;
    MPI_Ibcast(job->least_node, sizeof job->least_node, MPI_CHAR, (int)rank, comm->world, &request);
    comm_wait(comm, &request);
    job->shape.least_node = job->least_node;
}

/* Collective; every rank comes to the same. Where readers are started again, what the ones before
 * had, or their trainers' rings, may be about to be freed. */
static enum status settle_sizes(struct job *job, const struct run_state *resume, struct error *err)
{
    enum { MOST_TRIES = 50, PAUSE_NS = 200000000 };
    for (uint32_t tries = 1;; tries++) {
        find_least_memory(job);
        job->shape.fetch_bytes = fetch_stage_bytes(
            job->dataset, run_fetch_memory(&job->config, &job->shape), &job->shape.fetch_rows);
        dataset_bound_seconds(job->dataset, run_second_memory(&job->config, &job->shape));
        enum status status =
            run_setup_settle(&job->config, job->dataset, &job->shape, resume, &job->setup, err);
        if (status != STATUS_NO_MEMORY || !job->supervised || tries == MOST_TRIES)
            return status;
        comm_heed_signals(&job->comm);
        clock_sleep_ns(PAUSE_NS);
    }
}

/* `resume`: a file, or the state itself. */
static enum status read_resume(const char *resume, struct run_state *ret_state, struct error *err)
{
    return resume[strspn(resume, " \n")] == '{'
               ? run_state_parse(resume, strlen(resume), ret_state, err)
               : run_state_read_file(resume, ret_state, err);
}

static enum status settle(struct job *job, const struct job_options *options, struct error *err)
{
    struct {
        struct run_state state;
        uint64_t stored_row_bytes, stored_row_cost;
    } first = {0}; /* what rank 0 has found out */
    enum status status = STATUS_OK;
    if (options->resume && job->comm.rank == 0)
        status = read_resume(options->resume, &first.state, err);
    if (status == STATUS_OK && job->comm.rank == 0)
        status = stored_rows_estimate(job->dataset, config_may_keep_stored(&job->config),
                                      &first.stored_row_bytes, &first.stored_row_cost, err);
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK)
        return status;
    MPI_Request request;
    MPI_Ibcast(&first, sizeof first, MPI_BYTE, 0, job->comm.world, &request);
    comm_wait(&job->comm, &request);
    job->stored_row_bytes = first.stored_row_bytes;
    const struct comm *comm = &job->comm;
    job->shape = (struct run_shape){
        .reader_count = (uint32_t)comm->size,
        .readers_on_node = (uint32_t)reduce(comm, (uint64_t)comm->node_size, MPI_MAX, comm->world),
        .trainers_served = (uint32_t)size_divide_up(job->config.trainers, (uint64_t)comm->size),
        .worker_count = (uint32_t)reduce(comm, job->placement.worker_count, MPI_MAX, comm->world),
        .stored_row_cost = first.stored_row_cost};
    status = settle_sizes(job, options->resume ? &first.state : NULL, err);
    job->old_states = job->comm.rank == 0 && options->resume && first.state.version == 1;
    return comm_agree(comm, status, err);
}

/* Rank 0 names the run directory; each node has its own directory of that name. */
static enum status name_run_dir(struct job *job, struct error *err)
{
    const char *given = getenv("PENSTOCK_RUN_DIR");
    int length;
    if (strcmp(job->config.run_dir, "auto") != 0)
        length = snprintf(job->run_dir, sizeof job->run_dir, "%s", job->config.run_dir);
    else if (given && *given)
        length = snprintf(job->run_dir, sizeof job->run_dir, "%s", given);
    else
        length = snprintf(job->run_dir, sizeof job->run_dir, "/tmp/penstock-%u-%d-%04x",
                          (unsigned)getuid(), (int)getpid(), (unsigned)(clock_now_ns() & 0xffff));
    MPI_Request request;
    MPI_Ibcast(job->run_dir, sizeof job->run_dir, MPI_CHAR, 0, job->comm.world, &request);
    comm_wait(&job->comm, &request);
    enum status status = STATUS_OK;
    if (job->comm.rank == 0 && length >= (int)sizeof job->run_dir)
        status =
            error_set(err, STATUS_INVALID,
                      "the run directory's name has %d characters ('%.40s...'); it may have %zu: "
                      "give a shorter delivery.run_dir or PENSTOCK_RUN_DIR",
                      length, job->run_dir, sizeof job->run_dir - 1);
    return comm_agree(&job->comm, status, err);
}

/* What a trainer says to go on from, see server.h. One that has all batches has nothing to go on
 * with, but may have come back to hear of the end. */
static enum status read_state(void *argument, const char *json, bool goes_on, uint64_t *ret_cursor,
                              struct error *err)
{
    struct job *job = argument;
    const struct ring_service *service = &job->setup.service;
    struct run_state state, checked;
    enum status status = run_state_parse(json, strlen(json), &state, err);
    if (status != STATUS_OK)
        return status;
    checked = state;
    if (goes_on && state.epoch == service->epochs && state.step == 0)
        checked.epoch = 0;
    status = run_state_check(&checked, service, err);
    if (status != STATUS_OK)
        return status;
    job->old_states += state.version == 1;
    *ret_cursor = job_cursor(job, state.epoch, state.step);
    return STATUS_OK;
}

/* A reader of the job before may still be dying. */
static enum status make_server(struct job *job, const struct server_options *options,
                               bool supervised, struct error *err)
{
    const uint64_t patience_ns = 10000000000u, deadline = clock_now_ns() + patience_ns;
    for (;;) {
        enum status status = server_new(options, &job->server, err);
        if (status != STATUS_REFUSED || !supervised || clock_now_ns() >= deadline)
            return status;
        comm_heed_signals(&job->comm);
        clock_sleep_ns(50000000);
    }
}

struct placement_memory job_ring_memory(const struct job *job, uint32_t rank)
{
    uint32_t first = first_trainer(job, job->comm.rank);
    return topology_memory_of(&job->placement,
                              rank - first < expected_trainers(job) ? rank - first : rank);
}

/* By workers on the NUMA node where its trainer sits. Where none is there, or comes in time, others
 * do it, so the kernel is told, too. */
static int fill_ring(void *argument, uint32_t rank, void *memory, size_t bytes)
{
    struct job *job = argument;
    struct placement_memory near = job_ring_memory(job, rank);
    struct pool_memory ring = {memory, bytes, near.numa};
    if (job->config.bind != BIND_NONE)
        (void)!memory_prefer_node(memory, bytes, near.numa_os_index);
    return pool_populate(job->pool, &ring, 1, NULL, NULL);
}

static enum status open_server(struct job *job, const struct job_options *job_options,
                               struct error *err)
{
    job->reconnect_s = job->config.reconnect_timeout_s;
    if (job->reconnect_s == 0 && job_options->command && job->config.restarts > 0)
        job->reconnect_s = job->config.connect_timeout_s;
    /* What a child leaves behind may take its grace before another is started instead. */
    if (job_options->command && job->config.restarts > 0)
        job->reconnect_s += job->config.grace_s + CHILDREN_LAST_S;
    struct server_options options = {.run_dir = job->run_dir,
                                     .reader = (uint32_t)job->comm.rank,
                                     .max_trainers = job->shape.trainers_served,
                                     .layout = &job->setup.layout,
                                     .service = &job->setup.service,
                                     .reconnect_ms = job->reconnect_s * 1000,
                                     .read_state = read_state,
                                     .state_argument = job,
                                     .fill = fill_ring,
                                     .fill_argument = job};
    enum status status = make_server(job, &options, job_options->supervised, err);
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_listen(job->server, err), err);
    job->listening = status == STATUS_OK;
    return status;
}

/* A port that is free now on all addresses of rank 0's node, of IPv6 too where there is any: for
 * the trainers' own rendezvous. */
static uint32_t free_port(void)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof six;
    uint32_t port = 29500;
    int off = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
                 bind(fd, (struct sockaddr *)&six, sizeof six) == 0;
    if (!bound) {
        if (fd >= 0)
            close(fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bound = fd >= 0 && bind(fd, (struct sockaddr *)&four, sizeof four) == 0;
    }
    if (bound && getsockname(fd, (struct sockaddr *)&six, &length) == 0)
        port = ntohs(six.sin6_port); /* at the same offset in both */
    if (fd >= 0)
        close(fd);
    return port;
}

/* Of the environment, where somebody has chosen one; 0: nobody has. */
static uint32_t given_port(void)
{
    const char *given = getenv("MASTER_PORT");
    unsigned long port = given ? strtoul(given, NULL, 10) : 0;
    return port <= UINT16_MAX ? (uint32_t)port : 0;
}

static enum status spawn_trainers(struct job *job, const struct job_options *options,
                                  struct error *err)
{
    struct {
        char address[CHILDREN_ADDRESS_BYTES];
        uint32_t port;
    } master = {.port = given_port()};
    bool one_node = job->comm.node_size == job->comm.size;
    const char *address = master.port ? getenv("MASTER_ADDR") : NULL; /* a pair, or neither */
    if (!address || !*address)
        address = one_node ? "127.0.0.1" : job->comm.node_name;
    snprintf(master.address, sizeof master.address, "%s", address);
    if (master.port == 0)
        master.port = free_port();
    MPI_Request request;
    MPI_Ibcast(&master, sizeof master, MPI_BYTE, 0, job->comm.world, &request);
    comm_wait(&job->comm, &request);
    uint64_t mine = expected_trainers(job), through_me = 0;
    MPI_Iscan(&mine, &through_me, 1, MPI_UINT64_T, MPI_SUM, job->comm.node, &request);
    comm_wait(&job->comm, &request);
    struct children_options children = {
        .command = options->command,
        .count = (uint32_t)mine,
        .first_rank = first_trainer(job, job->comm.rank),
        .world_size = (uint32_t)job->config.trainers,
        .first_local_rank = (uint32_t)(through_me - mine),
        .local_world_size = (uint32_t)reduce(&job->comm, mine, MPI_SUM, job->comm.node),
        .reader = (uint32_t)job->comm.rank,
        .run_dir = job->run_dir,
        .master_port = master.port,
        .restarts = job->config.restarts,
        .grace_ms = job->config.grace_s * 1000,
        .seats = job->placement.trainers,
        .seat_count = job->config.bind_trainers ? job->placement.seat_count : 0};
    snprintf(children.master_addr, sizeof children.master_addr, "%s", master.address);
    enum status status = mine ? children_start(&children, &job->children, err) : STATUS_OK;
    return comm_agree(&job->comm, status, err);
}

/* The memory for stored rows, if any are to be kept. */
static enum status keep_stored(struct job *job, struct error *err)
{
    const struct budget *budget = &job->setup.budget;
    if (budget->stored_bytes == 0)
        return STATUS_OK;
    enum status status = stored_rows_new(job->pool, budget->stored_bytes, job->stored_row_bytes,
                                         budget->keep_rows + budget->most_rows, &job->stored, err);
    row_store_use_stored(job->store, job->stored);
    return status;
}

static enum status take_memory(struct job *job, struct error *err)
{
    uint64_t rows = job->setup.budget.buffer_rows;
    job->waker.fd = -1;
    enum status status = waker_init(&job->waker, err);
    if (status == STATUS_OK)
        status =
            pool_new(&job->placement, job->dataset, QUEUE_CAPACITY, &job->waker, &job->pool, err);
    if (status == STATUS_OK && rows > INT32_MAX)
        status =
            error_set(err, STATUS_UNSUPPORTED,
                      "%" PRIu64 " row buffers in one reader: lower readers.memory_limit", rows);
    if (status == STATUS_OK)
        status =
            row_store_new(job->pool, job->dataset->row_bytes, (uint32_t)rows, &job->store, err);
    if (status == STATUS_OK && job->shape.fetch_bytes > 0)
        status = fetch_stage_new(job->dataset, job->shape.fetch_bytes, (uint32_t)rows, &job->waker,
                                 &job->fetches, err);
    if (status == STATUS_OK)
        row_store_use_stage(job->store, job->fetches);
    job->left_off = calloc(job->config.trainers, sizeof *job->left_off);
    job->given = calloc(job->config.trainers, sizeof *job->given);
    if (status == STATUS_OK && (!job->left_off || !job->given))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for trainers");
    if (status == STATUS_OK)
        status = keep_stored(job, err);
    if (status == STATUS_OK)
        watchdog_serve(job->watchdog, &job->waker);
    return comm_agree(&job->comm, status, err);
}

/* What decides which collective calls are made must be the same on all ranks, however they were
 * started. */
static enum status compare_options(const struct job *job, const struct job_options *options,
                                   struct error *err)
{
    const char mine[3] = {options->quiet, options->command != NULL, options->resume != NULL};
    char first[3];
    MPI_Request request;
    memcpy(first, mine, sizeof first);
    MPI_Ibcast(first, sizeof first, MPI_CHAR, 0, job->comm.world, &request);
    comm_wait(&job->comm, &request);
    enum status status = STATUS_OK;
    if (memcmp(first, mine, sizeof first) != 0)
        status = error_set(err, STATUS_INVALID,
                           "reader %d was started with other options than reader 0: --quiet, "
                           "--resume and the trainer command must be the same for all",
                           job->comm.rank);
    return comm_agree(&job->comm, status, err);
}

enum status job_start(struct job *job, const struct job_options *options, struct error *err)
{
    job->supervised = options->supervised;
    job->verbose = options->verbose;
    enum status status = compare_options(job, options, err);
    if (status == STATUS_OK)
        status = share_config(job, options, err);
    if (status == STATUS_OK)
        status = watch_store(job, err);
    if (status == STATUS_OK)
        status = share_dataset(job, err);
    if (status == STATUS_OK)
        status = masks_new(&job->comm, &job->config, job->dataset, &job->masks, err);
    if (status == STATUS_OK)
        status = settle_placement(job, err);
    if (status == STATUS_OK)
        status = settle(job, options, err);
    if (status != STATUS_OK)
        return status;
    status = name_run_dir(job, err);
    if (status != STATUS_OK)
        return status;
    status = comm_agree(&job->comm, job_collect_seats(job, options->command != NULL, err), err);
    if (status != STATUS_OK)
        return status;
    if (!options->quiet && job->comm.rank == 0)
        job_announce(job, options->verbose);
    status = open_server(job, options, err);
    if (status == STATUS_OK && options->command)
        status = spawn_trainers(job, options, err);
    if (status == STATUS_OK)
        status = take_memory(job, err);
    if (status == STATUS_OK)
        status = left_share(&job->comm, options->left_path, job->config.trainers,
                            job_cursor(job, job->setup.service.epochs, 0), job->left_off, err);
    if (status == STATUS_OK)
        status = held_share(&job->comm, job->dataset, &job->held, err);
    return status;
}

static void free_what_workers_use(struct job *job)
{
    pool_free(job->pool);
    fetch_stage_free(job->fetches);
    row_store_free(job->store);
    stored_rows_free(job->stored);
    if (job->pool)
        waker_done(&job->waker);
    if (job->dataset)
        held_free(job->held, job->dataset);
    dataset_free(job->dataset);
    masks_free(job->masks);
    store_watch_free(job->watch);
}

void job_drain_workers(struct job *job)
{
    enum { PATIENCE_MS = 5000 };
    if (!job->pool || job->stuck)
        return;
    bool idle = pool_drain(job->pool, PATIENCE_MS);
    job->stuck = !fetch_stage_stop(job->fetches, PATIENCE_MS) || !idle;
}

void job_stop_children(struct job *job, uint64_t grace_ms)
{
    const uint64_t start = clock_now_ns(), ms_ns = 1000000;
    uint32_t running = job->children != NULL;
    while (running > 0 && clock_now_ns() - start < grace_ms * ms_ns &&
           comm_take_signal(&job->comm) == 0) {
        clock_sleep_ns(2 * ms_ns);
        enum status ended = children_poll(job->children, true, &running, NULL);
        (void)ended; /* they are to end: how does not matter any more */
    }
    children_stop(job->children);
}

void job_done(struct job *job, const struct error *outcome)
{
    const uint64_t connecting_ms = 1000; /* who has had no batch yet has nothing to save */
    if (job->server && outcome->status != STATUS_OK)
        server_finish(job->server, outcome);
    job_stop_children(job, job->session_count > 0 ? job->config.grace_s * 1000 : connecting_ms);
    children_free(job->children);
    job_drain_workers(job);
    watchdog_free(job->watchdog);
    if (!job->stuck)
        free_what_workers_use(job);
    server_free(job->server);
    assigner_free(job->assigner);
    free(job->reader_of_trainer);
    free(job->trainers);
    free(job->left_off);
    free(job->given);
    free(job->seats);
    config_done(&job->config);
    /* A signal may still come: nothing is left to stop. */
    *job = (struct job){.comm = job->comm, .stuck = job->stuck};
}
