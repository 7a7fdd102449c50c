/* See job.h. Every stage that can fail on one rank ends in comm_agree(), so that all ranks take the
 * same way. */
#include "job.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "held.h"

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
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

static uint64_t reduce(const struct comm *comm, uint64_t value, MPI_Op operation, MPI_Comm where)
{
    uint64_t result = value;
    MPI_Request request;
    MPI_Iallreduce(&value, &result, 1, MPI_UINT64_T, operation, where, &request);
    comm_wait(comm, &request);
    return result;
}

/* What the readers of a node tell one another to place themselves. */
struct seat_note {
    cpu_set_t allowed;
    uint32_t trainers;
    char visible_gpus[COMM_NODE_NAME_BYTES]; /* of the node's first reader counts for all */
    bool has_visible_gpus;
};

static void write_note(const struct job *job, struct seat_note *ret_note)
{
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    struct seat_note note = {.trainers = expected_trainers(job), .has_visible_gpus = gpus != NULL};
    if (sched_getaffinity(0, sizeof note.allowed, &note.allowed) != 0)
        memset(&note.allowed, 0xff, sizeof note.allowed); /* more cpus than fit: all are shared */
    if (gpus && strlen(gpus) < sizeof note.visible_gpus)
        snprintf(note.visible_gpus, sizeof note.visible_gpus, "%s", gpus);
    *ret_note = note;
}

/* Readers that a launcher has bound to cpus of their own are placed each by itself, all others
 * together. */
static enum status place_among(struct job *job, const struct topology *topology,
                               const struct seat_note *notes, struct placement_share *shares,
                               struct error *err)
{
    struct placement_request request = {.shares = shares,
                                        .thread_count = (uint32_t)job->config.threads,
                                        .bind = job->config.bind,
                                        .visible_gpus =
                                            notes->has_visible_gpus ? notes->visible_gpus : NULL};
    for (int i = 0; i < job->comm.node_size; i++) {
        cpu_set_t common;
        CPU_AND(&common, &notes[i].allowed, &notes[job->comm.node_rank].allowed);
        if (i == job->comm.node_rank)
            request.reader = request.reader_count;
        if (i == job->comm.node_rank || CPU_COUNT(&common) > 0)
            shares[request.reader_count++] = (struct placement_share){
                .first = request.node_trainers, .count = notes[i].trainers};
        request.node_trainers += notes[i].trainers;
    }
    return topology_place_reader(topology, &request, &job->placement, err);
}

static enum status place_workers(struct job *job, struct error *err)
{
    struct topology *topology = NULL;
    struct seat_note mine;
    struct seat_note *notes = calloc((size_t)job->comm.node_size, sizeof *notes);
    struct placement_share *shares = calloc((size_t)job->comm.node_size, sizeof *shares);
    enum status status = topology_load(NULL, NULL, &topology, err);
    if (status == STATUS_OK && (!notes || !shares))
        status = error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        assert(notes && shares); /* comm_agree() returns OK only where every rank came with it */
        write_note(job, &mine);
        MPI_Request request;
        MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, notes, sizeof mine, MPI_BYTE, job->comm.node,
                       &request);
        comm_wait(&job->comm, &request);
        job->core_count = topology_core_count(topology);
        status = comm_agree(&job->comm, place_among(job, topology, notes, shares, err), err);
    }
    topology_free(topology);
    free(shares);
    free(notes);
    return status;
}

static enum status settle(struct job *job, const struct job_options *options, struct error *err)
{
    struct {
        struct run_state state;
        uint64_t stored_row_bytes, stored_row_cost;
    } first = {0}; /* what rank 0 has found out */
    enum status status = STATUS_OK;
    if (options->resume_path && job->comm.rank == 0)
        status = run_state_read_file(options->resume_path, &first.state, err);
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
        .node_available_bytes = reduce(comm, memory_available_bytes(), MPI_MIN, comm->world),
        .stored_row_cost = first.stored_row_cost};
    job->shape.fetch_bytes = fetch_stage_bytes(
        job->dataset, run_fetch_memory(&job->config, &job->shape), &job->shape.fetch_rows);
    status = run_setup_settle(&job->config, job->dataset, &job->shape,
                              options->resume_path ? &first.state : NULL, &job->setup, err);
    return comm_agree(comm, status, err);
}

enum { SEAT_BYTES = 4096, WARNING_BYTES = 256 };

/* What each rank tells rank 0 about itself, to be printed. */
struct seat_report {
    char node[COMM_NODE_NAME_BYTES];
    char seats[SEAT_BYTES];
    char warning[WARNING_BYTES]; /* of the first of the readers that share cores; "": none */
};

static void write_report(const struct job *job, bool spawns, struct seat_report *report)
{
    struct text seats = {0}, warning = {0};
    topology_describe(&job->placement, &seats);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (job->core_count < cpus)
        text_append(&seats,
                    "   note: it may use %u of %ld cpus; mpirun --bind-to none lifts what a "
                    "launcher binds\n",
                    job->core_count, cpus);
    if (job->placement.seat_count && !(spawns && job->config.bind_trainers))
        text_append(&seats, "   note: trainers are not bound to these cpus; taskset -c does it\n");
    if (job->placement.reader == 0)
        topology_describe_crowd(&job->placement, &warning);
    *report = (struct seat_report){0};
    snprintf(report->node, sizeof report->node, "%s", job->comm.node_name);
    snprintf(report->seats, sizeof report->seats, "%s", seats.data ? seats.data : "");
    snprintf(report->warning, sizeof report->warning, "%s", warning.data ? warning.data : "");
    text_done(&seats);
    text_done(&warning);
}

/* How many of the reports [0, count) have the same text at `offset` as report `index`; 0 if an
 * earlier one than `index` has, for then it was counted there. */
static int count_alike(const struct seat_report *all, int count, int index, size_t offset)
{
    const char *text = (const char *)&all[index] + offset;
    int alike = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp((const char *)&all[i] + offset, text) != 0)
            continue;
        if (i < index)
            return 0;
        alike++;
    }
    return alike;
}

/* "reader 0 on node1, 1 on node2, ..., and 12 more alike": those that sit as reader `first` does.
 */
static void name_readers(const struct seat_report *all, int count, int first, int alike,
                         struct text *out)
{
    enum { MOST_NAMES = 8 };
    int named = 0;
    for (int i = first; i < count && named < MOST_NAMES; i++)
        if (strcmp(all[i].seats, all[first].seats) == 0)
            text_append(out, "%s%d on %s", named++ ? ", " : "reader ", i, all[i].node);
    if (alike > named)
        text_append(out, ", and %d more alike", alike - named);
    text_append(out, "\n");
}

/* One table for all readers that sit alike, one line for all nodes that are crowded alike. */
static void describe_reports(const struct seat_report *all, int count, struct text *out)
{
    for (int i = 0; i < count; i++) {
        int alike = count_alike(all, count, i, offsetof(struct seat_report, seats));
        if (alike == 0)
            continue;
        name_readers(all, count, i, alike, out);
        text_append(out, "%s", all[i].seats);
    }
    for (int i = 0; i < count; i++) {
        int alike = count_alike(all, count, i, offsetof(struct seat_report, warning));
        if (alike == 0 || !all[i].warning[0])
            continue;
        text_append(out, "warning: node %s", all[i].node);
        if (alike > 1)
            text_append(out, ", and %d more alike", alike - 1);
        text_append(out, ": %s\n", all[i].warning);
    }
}

/* Collects every rank's seats on rank 0 and prints what the run will do. */
static void announce(struct job *job, bool spawns)
{
    struct seat_report mine;
    write_report(job, spawns, &mine);
    struct seat_report *all =
        job->comm.rank == 0 ? malloc((size_t)job->comm.size * sizeof *all) : NULL;
    MPI_Request request;
    MPI_Igather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, job->comm.world,
                &request);
    comm_wait(&job->comm, &request);
    if (!all)
        return;
    const struct run_setup *setup = &job->setup;
    struct text out = {0};
    text_append(&out, "dataset    %s: %s samples of %s, rows of %s\n", job->config.uri,
                count_format(job->dataset->sample_count).text,
                size_format(job->dataset->sample_bytes).text,
                count_format(job->dataset->row_length).text);
    text_append(
        &out, "plan       %s epochs of %s steps of %s samples, windows of %s rows\n",
        count_format(setup->service.epochs).text, count_format(setup->plan.steps_per_epoch).text,
        count_format(setup->plan.global_batch).text, count_format(setup->plan.window_rows).text);
    if (setup->service.start_epoch || setup->service.start_step)
        text_append(&out, "resume     at epoch %" PRIu64 " step %" PRIu64 "\n",
                    setup->service.start_epoch, setup->service.start_step);
    text_append(&out, "memory of each reader\n");
    run_setup_describe_memory(setup, &out);
    describe_reports(all, job->comm.size, &out);
    text_append(&out, "run_dir    %s\n", job->run_dir);
    fputs(out.data, stderr);
    text_done(&out);
    free(all);
}

/* Rank 0 names the run directory; each node has its own directory of that name. */
static void name_run_dir(struct job *job)
{
    const char *given = getenv("PENSTOCK_RUN_DIR");
    if (strcmp(job->config.run_dir, "auto") != 0)
        snprintf(job->run_dir, sizeof job->run_dir, "%s", job->config.run_dir);
    else if (given && *given)
        snprintf(job->run_dir, sizeof job->run_dir, "%s", given);
    else
        snprintf(job->run_dir, sizeof job->run_dir, "/tmp/penstock-%u-%d-%04x", (unsigned)getuid(),
                 (int)getpid(), (unsigned)(clock_now_ns() & 0xffff));
    MPI_Request request;
    MPI_Ibcast(job->run_dir, sizeof job->run_dir, MPI_CHAR, 0, job->comm.world, &request);
    comm_wait(&job->comm, &request);
}

static uint64_t place_of(const struct job *job, uint64_t epoch, uint64_t step)
{
    return epoch * job->setup.service.steps_per_epoch + step;
}

/* What a trainer says to go on from, see server.h. One that has all batches has nothing to go on
 * with, but may have come back to hear of the end. */
static enum status read_state(const void *argument, const char *json, bool goes_on,
                              uint64_t *ret_place, struct error *err)
{
    const struct job *job = argument;
    const struct ring_service *service = &job->setup.service;
    struct run_state state, checked;
    enum status status = run_state_parse(json, strlen(json), &state, err);
    if (status != STATUS_OK)
        return status;
    checked = state;
    if (goes_on && state.epoch == service->epochs && state.step == 0)
        checked.epoch = 0;
    status =
        run_state_check(&checked, &job->setup.plan, service->fingerprint, service->epochs, err);
    if (status == STATUS_OK)
        *ret_place = place_of(job, state.epoch, state.step);
    return status;
}

/* A reader of the job before may still be dying. */
static enum status take_place(struct job *job, const struct server_options *options,
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

static enum status open_server(struct job *job, const struct job_options *job_options,
                               struct error *err)
{
    job->reconnect_s = job->config.reconnect_timeout_s;
    if (job->reconnect_s == 0 && job_options->command && job->config.restarts > 0)
        job->reconnect_s = job->config.connect_timeout_s;
    struct server_options options = {.run_dir = job->run_dir,
                                     .reader = (uint32_t)job->comm.rank,
                                     .max_trainers = job->shape.trainers_served,
                                     .layout = &job->setup.layout,
                                     .service = &job->setup.service,
                                     .reconnect_ms = job->reconnect_s * 1000,
                                     .read_state = read_state,
                                     .state_argument = job};
    enum status status = take_place(job, &options, job_options->supervised, err);
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_listen(job->server, err), err);
    job->listening = status == STATUS_OK;
    return status;
}

/* A port that is free on rank 0's node now: for the trainers' own rendezvous. */
static uint32_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    uint32_t port = 29500;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return port;
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

static enum status spawn_trainers(struct job *job, const struct job_options *options,
                                  struct error *err)
{
    struct {
        char address[CHILDREN_ADDRESS_BYTES];
        uint32_t port;
    } master = {.port = free_port()};
    bool one_node = job->comm.node_size == job->comm.size;
    snprintf(master.address, sizeof master.address, "%s",
             one_node ? "127.0.0.1" : job->comm.node_name);
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
        .seats = job->placement.trainers,
        .seat_count = job->config.bind_trainers ? job->placement.seat_count : 0};
    snprintf(children.master_addr, sizeof children.master_addr, "%s", master.address);
    enum status status = mine ? children_start(&children, &job->children, err) : STATUS_OK;
    return comm_agree(&job->comm, status, err);
}

/* An empty place for stored rows, if any are to be kept. */
static enum status keep_stored(struct job *job, struct error *err)
{
    const struct budget *budget = &job->setup.budget;
    stored_rows_free(job->stored);
    job->stored = NULL;
    if (budget->stored_bytes == 0)
        return STATUS_OK;
    enum status status = stored_rows_new(job->pool, budget->stored_bytes, job->stored_row_bytes,
                                         budget->keep_rows + budget->most_rows, &job->stored, err);
    row_store_use_stored(job->store, job->stored);
    return status;
}

/* Reads job_options.left into left_off. INVALID: not of that form, or no place of this run. */
static enum status take_left(struct job *job, const char *left, struct error *err)
{
    uint64_t end = place_of(job, job->setup.service.epochs, 0);
    for (const char *at = left; *at;) {
        unsigned long long rank, place;
        int length = 0;
        if (sscanf(at, "%llu:%llu%n", &rank, &place, &length) != 2 ||
            rank >= job->config.trainers || place > end ||
            (at[length] != ',' && at[length] != '\0'))
            return error_set(err, STATUS_INVALID, "--left: '%s' is not RANK:PLACE,... of this run",
                             at);
        job->left_off[rank] = place + 1;
        at += length + (at[length] == ',');
    }
    return STATUS_OK;
}

static enum status take_memory(struct job *job, const char *left, struct error *err)
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
    if (status == STATUS_OK && !job->left_off)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for trainers' places");
    if (status == STATUS_OK && left)
        status = take_left(job, left, err);
    if (status == STATUS_OK)
        status = keep_stored(job, err);
    if (status == STATUS_OK)
        watchdog_serve(job->watchdog, &job->waker);
    return comm_agree(&job->comm, status, err);
}

/* Starts trainers of ours that have failed again, and says so. */
static enum status restart_children(struct job *job, uint32_t *ret_count, struct error *err)
{
    bool restarted = job->children != NULL;
    uint32_t rank = 0, count = 0;
    while (restarted) {
        enum status status = children_restart(job->children, &restarted, &rank, err);
        if (status != STATUS_OK)
            return status;
        if (!restarted)
            break;
        count++;
        server_expect(job->server, rank);
        fprintf(stderr, "penstock-reader: reader %d on %s: starts trainer %u again\n",
                job->comm.rank, job->comm.node_name, rank);
    }
    *ret_count = count;
    return STATUS_OK;
}

/* Whether trainers of ours have failed that cannot be started again. */
static enum status look_after_children(struct job *job, struct error *err)
{
    struct error end;
    uint32_t running = 0, restarted = 0;
    if (!job->children ||
        children_poll(job->children, job->session_count > 0, &running, &end) == STATUS_OK)
        return STATUS_OK;
    if (job->config.restarts > 0) {
        enum status status = restart_children(job, &restarted, err);
        if (status != STATUS_OK || restarted > 0)
            return status;
    }
    *err = end;
    return (enum status)end.status;
}

/* One look at sockets and children while trainers connect. */
static enum status look_around(struct job *job, struct error *err)
{
    bool active;
    comm_heed_signals(&job->comm);
    enum status status = server_progress(job->server, &active, err);
    if (status == STATUS_REFUSED && job->session_count > 0)
        status = STATUS_OK; /* a stranger was told; those who were there before need not know */
    if (status == STATUS_OK)
        status = look_after_children(job, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "reader %d on %s: ", job->comm.rank, job->comm.node_name);
    return STATUS_OK;
}

static void wait_a_little(struct job *job, uint64_t duration_ns, enum status *status,
                          struct error *err)
{
    uint64_t end = clock_now_ns() + duration_ns;
    do {
        if (*status == STATUS_OK)
            *status = look_around(job, err);
        clock_sleep_ns(2000000);
    } while (clock_now_ns() < end);
}

/* Collective: which trainers are missing, as "3, 5 and 2 more". */
static void name_missing(struct job *job, struct text *out)
{
    enum { MOST_NAMES = 16 };
    uint32_t *there = calloc(job->config.trainers, sizeof *there);
    if (!there)
        MPI_Abort(MPI_COMM_WORLD, 1); /* some KiB, at the end of a run that has failed anyway */
    assert(there);                    /* the analyser does not know that MPI_Abort() stays away */
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++)
        there[server_trainer_rank(job->server, peer)] = 1;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, there, (int)job->config.trainers, MPI_UINT32_T, MPI_SUM,
                   job->comm.world, &request);
    comm_wait(&job->comm, &request);
    uint64_t missing = 0;
    for (uint64_t rank = 0; rank < job->config.trainers; rank++)
        if (there[rank] == 0 && missing++ < MOST_NAMES)
            text_append(out, "%s%" PRIu64, missing > 1 ? ", " : "", rank);
    if (missing > MOST_NAMES)
        text_append(out, " and %" PRIu64 " more", missing - MOST_NAMES);
    free(there);
}

/* Collective. */
static enum status too_late(struct job *job, uint64_t connected, uint64_t timeout_s,
                            struct error *err)
{
    struct text missing = {0};
    name_missing(job, &missing);
    bool first_session = job->session_count == 0;
    enum status status =
        error_set(err, STATUS_TIMEOUT,
                  "%" PRIu64 " of %" PRIu64 " trainers connected within %" PRIu64
                  " s (%s), without rank %s: are all of them started%s, with PENSTOCK_RUN_DIR=%s?",
                  connected, job->config.trainers, timeout_s,
                  first_session ? "delivery.connect_timeout" : "delivery.reconnect_timeout",
                  missing.data ? missing.data : "", first_session ? "" : " again", job->run_dir);
    text_done(&missing);
    return status;
}

/* A supervisor is told, too, in case the readers die before the one that comes fresh is there. */
static void note_place(struct job *job, uint32_t rank, uint64_t place)
{
    if (job->left_off[rank] >= place + 1)
        return;
    job->left_off[rank] = place + 1;
    if (job->supervised)
        printf("left %u %llu\n", rank, (unsigned long long)place);
}

/* Trainers that have gone on since the session's end, for those who come fresh should these die. */
static void note_progress(struct job *job)
{
    uint32_t rank;
    uint64_t place;
    while (server_take_parted(job->server, &rank, &place))
        note_place(job, rank, place);
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++)
        if (server_trainer_wish(job->server, peer, &place) == WISH_CONTINUE)
            note_place(job, server_trainer_rank(job->server, peer), place);
    fflush(stdout);
}

static uint64_t end_place(const struct job *job)
{
    return place_of(job, job->setup.service.epochs, 0);
}

void job_note_end(struct job *job)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++)
        note_place(job, server_trainer_rank(job->server, peer), end_place(job));
    fflush(stdout);
}

/* Trainers here that have their last batch, and lost their reader before they heard of the end; or
 * that died after it. */
static uint64_t count_at_end(const struct job *job)
{
    uint64_t count = 0, place;
    for (uint32_t peer = 0; peer < server_trainer_count(job->server); peer++) {
        enum message_wish wish = server_trainer_wish(job->server, peer, &place);
        uint64_t left = job->left_off[server_trainer_rank(job->server, peer)];
        count += (wish == WISH_CONTINUE && place == end_place(job)) ||
                 (wish == WISH_FRESH && left == end_place(job) + 1);
    }
    return count;
}

/* Whether, as the readers before these told, all trainers had their last batch. */
static bool all_had_all(const struct job *job)
{
    for (uint64_t rank = 0; rank < job->config.trainers; rank++)
        if (job->left_off[rank] != end_place(job) + 1)
            return false;
    return true;
}

/* Waits until all trainers of the run have said hello to some reader. Ranks compare notes every few
 * milliseconds. */
static enum status await_trainers(struct job *job, bool quiet, struct error *err)
{
    enum { CONNECTED, AT_END, FAILED, LATE, NOTES };
    const uint64_t second_ns = 1000000000u, linger_s = 5;
    uint64_t timeout_s = job->session_count ? job->reconnect_s : job->config.connect_timeout_s;
    if (all_had_all(job) && timeout_s > linger_s)
        timeout_s = linger_s; /* for those that still want to hear of the end */
    uint64_t start = clock_now_ns(), told = start;
    enum status status = STATUS_OK;
    for (;;) {
        wait_a_little(job, 10000000, &status, err);
        note_progress(job);
        uint64_t waited = clock_now_ns() - start;
        uint64_t notes[NOTES] = {
            [CONNECTED] = server_trainer_count(job->server),
            [AT_END] = count_at_end(job),
            [FAILED] = status != STATUS_OK,
            [LATE] = waited > timeout_s * second_ns,
        };
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, notes, NOTES, MPI_UINT64_T, MPI_SUM, job->comm.world,
                       &request);
        comm_wait(&job->comm, &request);
        if (notes[FAILED])
            return comm_agree(&job->comm, status, err);
        if (notes[CONNECTED] >= job->config.trainers)
            return STATUS_OK;
        job->over = notes[LATE] && notes[CONNECTED] == notes[AT_END] &&
                    (notes[CONNECTED] > 0 || all_had_all(job));
        if (job->over)
            return STATUS_OK;
        if (notes[LATE])
            return too_late(job, notes[CONNECTED], timeout_s, err);
        server_announce(job->server, (uint32_t)notes[CONNECTED], (uint32_t)job->config.trainers);
        if (job->comm.rank == 0 && !quiet && clock_now_ns() - told > 5 * second_ns) {
            told = clock_now_ns();
            fprintf(stderr, "waiting for trainers: %" PRIu64 " of %" PRIu64 " connected\n",
                    notes[CONNECTED], job->config.trainers);
        }
    }
}

static int by_rank(const void *left, const void *right)
{
    uint32_t a = ((const struct job_trainer *)left)->rank;
    uint32_t b = ((const struct job_trainer *)right)->rank;
    return (a > b) - (a < b);
}

/* Settles on every rank who serves which trainer. */
static enum status map_trainers(struct job *job, struct error *err)
{
    size_t total = job->config.trainers;
    uint32_t count = server_trainer_count(job->server);
    free(job->reader_of_trainer);
    free(job->trainers);
    job->reader_of_trainer = calloc(total, sizeof *job->reader_of_trainer);
    job->trainers = calloc(count ? count : 1, sizeof *job->trainers);
    uint32_t *claims = calloc(total, sizeof *claims);
    enum status status = STATUS_OK;
    if (!job->reader_of_trainer || !job->trainers || !claims)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %zu trainers", total);
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK) {
        free(claims);
        return status;
    }
    assert(claims); /* comm_agree() returns OK only where every rank came with it */
    job->trainer_count = count;
    for (uint32_t peer = 0; peer < count; peer++) {
        uint32_t rank = server_trainer_rank(job->server, peer);
        job->trainers[peer] = (struct job_trainer){.rank = rank, .peer = peer};
        job->reader_of_trainer[rank] = (uint32_t)job->comm.rank;
        claims[rank] = 1;
    }
    qsort(job->trainers, count, sizeof *job->trainers, by_rank);
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, job->reader_of_trainer, (int)total, MPI_UINT32_T, MPI_MAX,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, claims, (int)total, MPI_UINT32_T, MPI_SUM, job->comm.world,
                   &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
    for (uint32_t rank = 0; rank < total && status == STATUS_OK; rank++)
        if (claims[rank] != 1)
            status = error_set(err, STATUS_INVALID,
                               "trainer rank %u connected %u times: each of the %zu ranks must "
                               "connect once",
                               rank, claims[rank], total);
    free(claims);
    return status;
}

/* What trainers ask for. */
struct wishes {
    uint64_t count;
    uint64_t *wish; /* [count] 0: fresh, else 2 * (place + 1), and 1 more for a state */
};

static bool is_state(uint64_t wish)
{
    return wish & 1;
}

static uint64_t place_in(uint64_t wish)
{
    return wish / 2 - 1;
}

/* All states are of one step, or else those who have them are named. */
static enum status check_states(const struct job *job, const struct wishes *wishes,
                                struct error *err)
{
    enum { MOST_NAMES = 8 };
    uint64_t first = 0, named = 1, steps = job->setup.service.steps_per_epoch;
    struct text names = {0};
    while (first < wishes->count && !is_state(wishes->wish[first]))
        first++;
    for (uint64_t t = first; t < wishes->count; t++) {
        uint64_t place = place_in(wishes->wish[t]);
        bool differs = is_state(wishes->wish[t]) && place != place_in(wishes->wish[first]);
        if (differs && named++ < MOST_NAMES)
            text_append(&names, ", trainer %" PRIu64 " epoch %" PRIu64 " step %" PRIu64, t,
                        place / steps, place % steps);
    }
    enum status status = STATUS_OK;
    if (named > 1)
        status = error_set(
            err, STATUS_REFUSED,
            "trainers have states of different steps: trainer %" PRIu64 " epoch %" PRIu64
            " step %" PRIu64 "%s%s: give all of them the state of one checkpoint",
            first, place_in(wishes->wish[first]) / steps, place_in(wishes->wish[first]) % steps,
            names.data ? names.data : "", named > MOST_NAMES ? " and more" : "");
    text_done(&names);
    return status;
}

/* Where a trainer's first batch is, if it is known without the others': true. */
static bool own_place(const struct job *job, const struct wishes *wishes, uint64_t rank,
                      uint64_t *ret_place)
{
    uint64_t wish = wishes->wish[rank], left_off = job->left_off[rank];
    if (!wish && !left_off)
        return false;
    bool has_state = wish % 2 == 1;
    *ret_place = wish ? place_in(wish) : left_off - 1;
    /* What one that is not gone says of itself is never less than what was seen of it; what it has
     * read of one before it may be. */
    if (wish && !has_state && left_off && left_off - 1 > *ret_place)
        *ret_place = left_off - 1;
    return true;
}

static uint64_t least_place(const struct job *job, const struct wishes *wishes)
{
    const struct ring_service *service = &job->setup.service;
    uint64_t least = UINT64_MAX, place;
    for (uint64_t t = 0; t < wishes->count; t++)
        if (own_place(job, wishes, t, &place) && place < least)
            least = place;
    return least < UINT64_MAX ? least : place_of(job, service->start_epoch, service->start_step);
}

/* Collective: every rank learns what all trainers ask for. */
static void share_wishes(struct job *job, const struct wishes *wishes)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++) {
        uint64_t place;
        enum message_wish wish = server_trainer_wish(job->server, peer, &place);
        if (wish != WISH_FRESH)
            wishes->wish[server_trainer_rank(job->server, peer)] =
                2 * (place + 1) + (wish == WISH_STATE);
    }
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, wishes->wish, (int)wishes->count, MPI_UINT64_T, MPI_SUM,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, job->left_off, (int)wishes->count, MPI_UINT64_T, MPI_MAX,
                   job->comm.world, &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
}

/* Settles where the session starts, and where each trainer does. */
static enum status settle_start(struct job *job, bool quiet, struct error *err)
{
    struct ring_service *service = &job->setup.service;
    struct wishes wishes = {.count = job->config.trainers};
    wishes.wish = calloc(wishes.count, sizeof *wishes.wish);
    enum status status = STATUS_OK;
    if (!wishes.wish)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for trainers' places");
    status = comm_agree(&job->comm, status, err);
    if (status != STATUS_OK) {
        free(wishes.wish);
        return status;
    }
    assert(wishes.wish); /* comm_agree() returns OK only where every rank came with it */
    share_wishes(job, &wishes);
    status = check_states(job, &wishes, err);
    uint64_t before = place_of(job, service->start_epoch, service->start_step);
    uint64_t start = status == STATUS_OK ? least_place(job, &wishes) : before, place;
    server_set_start(job->server, start);
    service->start_epoch = start / service->steps_per_epoch;
    service->start_step = start % service->steps_per_epoch;
    for (uint32_t peer = 0; peer < job->trainer_count; peer++)
        if (own_place(job, &wishes, server_trainer_rank(job->server, peer), &place))
            server_set_first(job->server, peer, place);
    if (job->comm.rank == 0 && !quiet && (start != before || job->session_count > 0))
        fprintf(stderr, "trainers go on from epoch %" PRIu64 " step %" PRIu64 "\n",
                service->start_epoch, service->start_step);
    memset(job->left_off, 0, wishes.count * sizeof *job->left_off);
    free(wishes.wish);
    return status;
}

/* Rank 0 alone gives out rows. */
static enum status open_assigner(struct job *job, struct error *err)
{
    enum status status = STATUS_OK;
    if (job->comm.rank == 0) {
        struct assigner_options options;
        run_setup_assigner(&job->setup, job->reader_of_trainer, &options);
        status = assigner_new(&options, &job->assigner, err);
    }
    return comm_agree(&job->comm, status, err);
}

/* What decides which collective calls are made must be the same on all ranks, however they were
 * started. */
static enum status compare_options(const struct job *job, const struct job_options *options,
                                   struct error *err)
{
    const char mine[3] = {options->quiet, options->command != NULL, options->resume_path != NULL};
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
        status = place_workers(job, err);
    if (status == STATUS_OK)
        status = settle(job, options, err);
    if (status != STATUS_OK)
        return status;
    name_run_dir(job);
    if (!options->quiet)
        announce(job, options->command != NULL);
    status = open_server(job, options, err);
    if (status == STATUS_OK && options->command)
        status = spawn_trainers(job, options, err);
    if (status == STATUS_OK)
        status = take_memory(job, options->left, err);
    if (status == STATUS_OK)
        status = held_share(&job->comm, job->dataset, &job->held, err);
    return status;
}

enum status job_gather(struct job *job, bool quiet, struct error *err)
{
    enum status status = await_trainers(job, quiet, err);
    if (status == STATUS_OK && job->over) {
        struct error end;
        error_set(&end, STATUS_ENDED, "all epochs are consumed");
        server_finish(job->server, &end);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = map_trainers(job, err);
    if (status == STATUS_OK)
        status = settle_start(job, quiet, err);
    if (status == STATUS_OK)
        status = open_assigner(job, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_start(job->server, err), err);
    if (status == STATUS_OK && job->comm.rank == 0 && job->session_count > 0)
        fprintf(stderr, "penstock-reader: all trainers are there again after %.2f s\n",
                (double)(clock_now_ns() - job->ended_ns) / 1e9);
    job->session_count++;
    return status;
}

/* For those who come fresh in the place of another. */
static void note_places(struct job *job)
{
    for (uint32_t peer = 0; peer < job->trainer_count; peer++) {
        uint64_t epoch, step, place = server_trainer_place(job->server, peer);
        server_trainer_goodbye(job->server, peer, &epoch, &step);
        if (server_trainer_state(job->server, peer, NULL) == SERVER_PEER_CLOSED)
            place = place_of(job, epoch, step);
        note_place(job, server_trainer_rank(job->server, peer), place);
    }
    fflush(stdout);
}

enum status job_scatter(struct job *job, struct error *err)
{
    job->ended_ns = clock_now_ns();
    note_places(job);
    assigner_free(job->assigner);
    job->assigner = NULL;
    row_store_forget_fetches(job->store);
    for (uint32_t i = 0; i < row_store_buffer_count(job->store); i++)
        if (row_store_state(job->store, (int32_t)i) != ROW_FREE)
            row_store_drop(job->store, (int32_t)i);
    server_restart(job->server);
    enum status status = keep_stored(job, err);
    uint32_t restarted;
    if (status == STATUS_OK)
        status = restart_children(job, &restarted, err);
    return comm_agree(&job->comm, status, err);
}

bool job_may_restart(const struct job *job)
{
    return job->reconnect_s > 0 && (!job->children || children_may_restart(job->children));
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

void job_done(struct job *job, const struct error *outcome, uint32_t grace_ms)
{
    if (job->server && outcome->status != STATUS_OK)
        server_finish(job->server, outcome);
    children_stop(job->children, grace_ms);
    children_free(job->children);
    watchdog_free(job->watchdog);
    if (!job->stuck)
        free_what_workers_use(job);
    server_free(job->server);
    assigner_free(job->assigner);
    free(job->reader_of_trainer);
    free(job->trainers);
    free(job->left_off);
    config_done(&job->config);
    /* A signal may still come: nothing is left to stop. */
    *job = (struct job){.comm = job->comm, .stuck = job->stuck};
}
