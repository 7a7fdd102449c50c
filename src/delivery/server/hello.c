/* Judges a HELLO: whether the trainer can have what it asks for now, in the next session, or not at
 * all. */
#include "delivery/server/server_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Whether there is such a rank. Before anything is looked up by it. */
static enum status check_range(const struct server *server, const struct protocol_hello *hello,
                               struct error *err)
{
    uint32_t least = server->least_world_size, most = server->most_world_size;
    struct mesh mesh;
    char from[32] = "";
    if (least < most)
        snprintf(from, sizeof from, "%" PRIu32 " to ", least);
    if (hello->world_size < least || hello->world_size > most)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " says that its world size is %" PRIu32
                         ", the service was started for %s%" PRIu32
                         "; set delivery.trainers, or RANK and WORLD_SIZE of each trainer",
                         hello->rank, hello->world_size, from, most);
    if (hello->world_size != server->service.world_size &&
        !mesh_resize(&server->service.mesh, hello->world_size, &mesh))
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " says that its world size is %" PRIu32
                         ", which is no multiple of the %" PRIu32 " ranks of a group",
                         hello->rank, hello->world_size,
                         server->service.world_size / mesh_group_count(&server->service.mesh));
    if (hello->rank >= hello->world_size)
        return error_set(err, STATUS_REFUSED,
                         "trainer rank %" PRIu32 " is not below the %" PRIu32
                         " trainers of this service",
                         hello->rank, hello->world_size);
    return STATUS_OK;
}

static enum status check_rank(const struct server *server, const struct protocol_hello *hello,
                              pid_t pid, struct error *err)
{
    enum status status = check_range(server, hello, err);
    if (status != STATUS_OK)
        return status;
    const struct trainer *other = trainer_of_rank(server, hello->rank);
    if (other && other->state == SERVER_PEER_CONNECTED && other->world_size == hello->world_size)
        return error_set(err, STATUS_REFUSED, "trainer rank %" PRIu32 " is taken by process %ld%s",
                         hello->rank, (long)other->pid,
                         other->pid == pid
                             ? ", which is this one: its earlier connection is there until it is "
                               "closed, and until no array of its batches is in use any more"
                             : "; give every trainer a RANK of its own");
    return STATUS_OK;
}

/* *ret_cursor is left alone if the trainer is fresh. */
static enum status check_state(const struct server *server, const struct protocol_hello *hello,
                               uint64_t *ret_cursor, struct error *err)
{
    if (hello->wish == WISH_FRESH)
        return STATUS_OK;
    struct error reason;
    enum status status =
        server->read_state
            ? server->read_state(server->state_argument, hello->rank, hello->state,
                                 hello->wish == WISH_CONTINUE, ret_cursor, &reason)
            : error_set(&reason, STATUS_UNSUPPORTED, "this service does not take states");
    if (status != STATUS_OK)
        return error_set(err, STATUS_REFUSED, "trainer %" PRIu32 ": %s", hello->rank,
                         reason.message);
    return STATUS_OK;
}

/* Judges a trainer that comes after the end. It has missed nothing, unless it asks for an earlier
 * step. */
static enum status judge_late(const struct server *server, const struct protocol_hello *hello,
                              struct error *err)
{
    uint64_t end = server->service.epochs * server->service.steps_per_epoch, cursor = end;
    enum status status = STATUS_OK;
    if (server->outcome.status == STATUS_ENDED)
        status = check_range(server, hello, err);
    if (status == STATUS_OK && server->outcome.status == STATUS_ENDED)
        status = check_state(server, hello, &cursor, err);
    if (status != STATUS_OK)
        return status;
    if (cursor < end && hello->wish == WISH_STATE)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " has the state of an earlier step, and all trainers "
                         "had their last batch: start the service again, too",
                         hello->rank);
    return error_set(err, (enum status)server->outcome.status, "%s", server->outcome.message);
}

enum status hello_settle_rank(const struct server *server, struct protocol_hello *hello,
                              struct error *err)
{
    struct mesh mesh = server->service.mesh;
    enum status status = hello->coordinates[0] ? check_range(server, hello, err) : STATUS_OK;
    if (status != STATUS_OK || !hello->coordinates[0])
        return status;
    struct error reason;
    bool fits = hello->world_size == server->service.world_size ||
                mesh_resize(&mesh, hello->world_size, &mesh);
    assert(fits); /* check_range() has looked */
    (void)fits;
    if (mesh_read_coordinates(&mesh, hello->coordinates, hello->rank, &hello->rank, &reason) ==
        STATUS_OK)
        return STATUS_OK;
    return error_set(err, STATUS_REFUSED, "trainer %" PRIu32 ": %s", hello->rank, reason.message);
}

enum status hello_judge(const struct server *server, const struct protocol_hello *hello, pid_t pid,
                        uint64_t *ret_cursor, bool *ret_waits, struct error *err)
{
    if (server->finished)
        return judge_late(server, hello, err);
    enum status status = check_rank(server, hello, pid, err);
    if (status == STATUS_OK)
        status = check_state(server, hello, ret_cursor, err);
    if (status != STATUS_OK)
        return status;
    *ret_waits = server->started && server->sessions_follow;
    if (*ret_waits)
        return STATUS_OK;
    if (server->started)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " comes too late: delivery has started; restart the "
                         "service with --resume",
                         hello->rank);
    bool others = server->trainer_count > 0 && server->trainers[0].world_size != hello->world_size;
    if (server->trainer_count == server->max_trainers && !others &&
        !trainer_of_rank(server, hello->rank))
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " is one too many: reader %" PRIu32 " serves %" PRIu32
                         " trainers; set delivery.trainers_per_reader to the most that one reader "
                         "is to serve",
                         hello->rank, server->reader, server->max_trainers);
    return STATUS_OK;
}
