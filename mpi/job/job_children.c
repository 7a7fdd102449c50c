/* Trainers that are this reader's children: started, started again, stopped. See job_internal.h. */
#include "job/session_internal.h"

#include "base/clock.h"
#include "base/number.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

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
    uint64_t port;
    return given && number_parse(given, 0, UINT16_MAX, &port) ? (uint32_t)port : 0;
}

/* Where the trainers meet. */
struct master {
    char address[CHILDREN_ADDRESS_BYTES];
    uint32_t port;
};

/* Collective: rank 0's choice. */
static struct master share_master(const struct job *job)
{
    struct master master = {.port = given_port()};
    bool one_node = job->comm.node_size == job->comm.size;
    const char *address = master.port ? getenv("MASTER_ADDR") : NULL; /* a pair, or neither */
    if (!address || !*address)
        address = one_node ? "127.0.0.1" : job->comm.node_name;
    snprintf(master.address, sizeof master.address, "%s", address);
    if (master.port == 0)
        master.port = free_port();
    comm_broadcast(&job->comm, &master, sizeof master, 0, job->comm.world);
    return master;
}

enum status job_spawn_trainers(struct job *job, const struct job_options *options,
                               struct error *err)
{
    struct master master = share_master(job);
    uint64_t mine = job_expected_trainers(job), through_me = 0;
    MPI_Request request;
    MPI_Iscan(&mine, &through_me, 1, MPI_UINT64_T, MPI_SUM, job->comm.node, &request);
    comm_wait(&job->comm, &request);
    struct children_options children = {
        .command = options->command,
        .count = (uint32_t)mine,
        .first_rank = job_first_trainer(job, job->comm.rank),
        .world_size = (uint32_t)job->config.trainers,
        .first_local_rank = (uint32_t)(through_me - mine),
        .local_world_size = (uint32_t)job_reduce(&job->comm, mine, MPI_SUM, job->comm.node),
        .reader = (uint32_t)job->comm.rank,
        .run_dir = job->run_dir,
        .master_port = master.port,
        .restarts = job->config.restarts,
        .grace_ms = job->config.grace_s * 1000,
        .owns = job_owns_child,
        .owner = job,
        .seats = job->placement.trainers,
        .seat_count = job->config.bind_trainers ? job->placement.seat_count : 0};
    snprintf(children.master_addr, sizeof children.master_addr, "%s", master.address);
    enum status status = mine ? children_start(&children, &job->children, err) : STATUS_OK;
    return comm_agree(&job->comm, status, err);
}

enum status job_restart_children(const struct job *job, uint32_t *ret_count, struct error *err)
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

enum status session_look_after_children(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    struct error end;
    uint32_t running = 0, restarted = 0;
    if (!job->children)
        return STATUS_OK;
    enum status ended = children_poll(job->children, session->session_count > 0, &running, &end);
    if (job->config.restarts > 0 && children_failed(job->children)) {
        enum status status = job_restart_children(job, &restarted, err);
        if (status != STATUS_OK || restarted > 0 || children_failed(job->children))
            return status;
    }
    if (ended != STATUS_OK)
        *err = end;
    return ended;
}

bool job_may_restart(const struct job *job)
{
    return job->reconnect_s > 0 && (!job->children || children_may_restart(job->children));
}

void job_stop_children(const struct job *job, uint64_t grace_ms)
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
