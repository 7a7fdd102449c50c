/* Sessions: begins and ends one. Between two sessions the trainers of
 * the last one are `parting`: they may still say goodbye. */
#include "delivery/ring/wakeup.h"
#include "delivery/server/server_internal.h"

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

uint64_t server_start_cursor(const struct server *server)
{
    const struct ring_service *service = &server->service;
    return service->start_epoch * service->steps_per_epoch + service->start_step;
}

void server_set_start(struct server *server, uint64_t cursor)
{
    server->service.start_epoch = cursor / server->service.steps_per_epoch;
    server->service.start_step = cursor % server->service.steps_per_epoch;
}

void server_set_locality(struct server *server, uint32_t locality)
{
    server->service.order.locality = locality;
}

void server_set_layout(struct server *server, const struct ring_layout *layout)
{
    server->layout = *layout;
}

void server_set_first(struct server *server, uint32_t trainer, uint64_t cursor)
{
    server->trainers[trainer].first = cursor;
}

static void welcome(const struct server *server, struct trainer *trainer)
{
    const struct group_ring *shared = trainer->shared;
    const int fds[WELCOME_FDS] = {shared->ring.memfd, trainer->publish_fd, trainer->release_fd};
    uint64_t steps = server->service.steps_per_epoch;
    struct protocol_message message = {
        .type = PROTOCOL_WELCOME,
        .welcome = {.epoch = trainer->first / steps,
                    .step = trainer->first % steps,
                    .member = (uint32_t)(trainer->control - shared->ring.control)}};
    const struct protocol_message handout = {.type = PROTOCOL_HANDOUT};
    struct error error;
    enum status status = STATUS_OK;
    if (server->handout >= 0)
        status = protocol_send(trainer->socket, &handout, &server->handout, &error);
    if (status == STATUS_OK)
        status = protocol_send(trainer->socket, &message, fds, &error);
    if (status == STATUS_OK)
        return;
    error_prefix(&error, status, "trainer %" PRIu32 " (process %ld): ", trainer->rank,
                 (long)trainer->pid);
    trainer_lose(trainer, &error);
}

enum status server_start(struct server *server, struct error *err)
{
    memset(server->left, 0, server->most_world_size * sizeof *server->left);
    enum status status = server_make_rings(server, err);
    if (status != STATUS_OK)
        return status;
    server->started = true;
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->first == UINT64_MAX)
            trainer->first = server_start_cursor(server);
        if (trainer->first != trainer->wished) /* otherwise the trainer may still lease earlier
                                                * batches */
            trainer->released = trainer->first;
        trainer->given = trainer->first;
        if (trainer->state == SERVER_PEER_CONNECTED)
            welcome(server, trainer);
    }
    return STATUS_OK;
}

void server_note_left(struct server *server, const struct trainer *trainer)
{
    uint64_t *left = &server->left[trainer->rank], cursor = trainer_cursor(trainer);
    if (*left < cursor + 1)
        *left = cursor + 1;
}

/* A trainer that said goodbye, as the next session has it in the list. */
static struct trainer closed_trainer(const struct trainer *trainer)
{
    return (struct trainer){.socket = -1,
                            .pid = trainer->pid,
                            .rank = trainer->rank,
                            .world_size = trainer->world_size,
                            .state = SERVER_PEER_CLOSED,
                            .first = UINT64_MAX,
                            .publish_fd = -1,
                            .release_fd = -1,
                            .goodbye = trainer->goodbye};
}

void server_drop_parting(struct server *server, uint32_t index)
{
    trainer_done(&server->parting[index]);
    server->parting[index] = server->parting[--server->parting_count];
}

void server_hear_parting(struct server *server)
{
    for (uint32_t i = 0; i < server->parting_count;) {
        struct trainer *trainer = &server->parting[i];
        bool heard =
            trainer->state == SERVER_PEER_CONNECTED && trainer_hear(server, trainer, false);
        if (trainer->state == SERVER_PEER_CLOSED && !trainer_of_rank(server, trainer->rank) &&
            server->trainer_count < server->max_trainers)
            server->trainers[server->trainer_count++] = closed_trainer(trainer);
        if (trainer->state == SERVER_PEER_LOST)
            server_note_left(server, trainer);
        if (trainer->state != SERVER_PEER_CONNECTED)
            server_drop_parting(server, i);
        else if (!heard)
            i++;
    }
}

void server_restart(struct server *server)
{
    uint32_t count = 0;
    while (server->parting_count > 0)
        server_drop_parting(server, 0);
    server_hear_trainers(server);
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->state == SERVER_PEER_CONNECTED) {
            shutdown(trainer->socket, SHUT_WR);
            struct trainer *parting = &server->parting[server->parting_count++];
            *parting = *trainer;
            parting->publish_fd = parting->release_fd = -1;
            parting->shared = NULL;
            parting->control = NULL;
            trainer->page = (struct cursor_page){0};
            trainer->socket = -1;
        } else if (trainer->state == SERVER_PEER_LOST) {
            server_note_left(server, trainer);
        }
        trainer_done(trainer);
        if (trainer->state == SERVER_PEER_CLOSED)
            server->trainers[count++] = closed_trainer(trainer);
    }
    server->trainer_count = count;
    server_free_rings(server);
    server->started = server->finished = false;
}

void server_expect(struct server *server, uint32_t rank)
{
    struct trainer *trainer = trainer_of_rank(server, rank);
    if (trainer && trainer->state == SERVER_PEER_CLOSED)
        server_forget(server, trainer);
    for (uint32_t i = 0; i < server->parting_count;)
        if (server->parting[i].rank == rank) {
            server_note_left(server, &server->parting[i]);
            server_drop_parting(server, i);
        } else {
            i++;
        }
}

bool server_take_parted(struct server *server, uint32_t *ret_rank, uint64_t *ret_cursor)
{
    for (uint32_t rank = 0; rank < server->most_world_size; rank++) {
        if (server->left[rank] == 0)
            continue;
        *ret_rank = rank;
        *ret_cursor = server->left[rank] - 1;
        server->left[rank] = 0;
        return true;
    }
    return false;
}

void server_finish(struct server *server, const struct error *outcome)
{
    server->finished = true;
    server->outcome = *outcome;
    struct protocol_message end = {.type = PROTOCOL_END};
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->state != SERVER_PEER_CONNECTED)
            continue;
        if (server->started && outcome->status == STATUS_ENDED) {
            enum status status = protocol_send(trainer->socket, &end, NULL, NULL);
            (void)status;
        } else {
            peer_fail(trainer->socket, outcome);
        }
    }
    server_drop_pending(server, outcome);
}
