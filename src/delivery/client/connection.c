/* See connection.h. */
#include "delivery/client/connection.h"

#include "delivery/ring/fdpass.h"
#include "delivery/ring/wakeup.h"

#include <inttypes.h>

static enum status check_service(const struct ring_service *service,
                                 const struct ring_member *member, uint32_t rank,
                                 uint32_t world_size, struct error *err)
{
    const struct mesh *mesh = &service->mesh;
    if (member->rank == rank && rank < world_size && service->world_size == world_size &&
        mesh_makes_sense(mesh) && mesh->rank_count == world_size &&
        mesh_group_of(mesh, rank) == service->group && service->steps_per_epoch > 0 &&
        order_makes_sense(&service->order))
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL,
                     "ring: made for trainer %" PRIu32 " of %" PRIu32 " with %" PRIu64
                     " steps an epoch, this is trainer %" PRIu32 " of %" PRIu32,
                     member->rank, service->world_size, service->steps_per_epoch, rank, world_size);
}

enum status connection_open(int socket, const int fds[WELCOME_FDS], uint32_t index,
                            uint32_t world_size, bool is_sure, uint32_t *rank,
                            struct connection *ret_connection, struct ring_header *ret_header,
                            struct error *err)
{
    struct connection connection = {
        .socket = socket, .ring = {.memfd = -1}, .publish_fd = fds[1], .release_fd = fds[2]};
    struct ring_header header;
    struct ring_member member;
    enum status status = ring_open(fds[0], index, &connection.ring, &header, &member, err);
    if (status == STATUS_OK && !is_sure)
        *rank = member.rank;
    if (status == STATUS_OK)
        status = check_service(&header.service, &member, *rank, world_size, err);
    for (int i = 1; status == STATUS_OK && i < WELCOME_FDS; i++)
        if (!wakeup_check(fds[i]))
            status = error_set(err, STATUS_PROTOCOL,
                               "ring: a wake-up descriptor is no eventfd, or would block");
    if (status != STATUS_OK) {
        connection_done(&connection);
        return status;
    }
    *ret_connection = connection;
    ret_header->service = header.service;
    ring_layout_of_member(&header.layout, &member, &ret_header->layout);
    return STATUS_OK;
}

void connection_hang_up(struct connection *connection)
{
    fd_close(&connection->publish_fd);
    fd_close(&connection->release_fd);
    fd_close(&connection->socket);
}

void connection_done(struct connection *connection)
{
    ring_done(&connection->ring);
    connection_hang_up(connection);
}
