/* The rings of a session: one for each group that has trainers here. */
#include "delivery/ring/wakeup.h"
#include "delivery/server/server_internal.h"
#include "mesh/mesh.h"

#include <inttypes.h>
#include <stdlib.h>

/* The ring of the trainer's group, which may have no memory yet. */
static struct group_ring *ring_of(struct server *server, uint32_t rank)
{
    uint32_t group = mesh_group_of(&server->service.mesh, rank), r = 0;
    while (r < server->ring_count && server->rings[r].group != group)
        r++;
    if (r == server->ring_count)
        server->rings[server->ring_count++] =
            (struct group_ring){.group = group, .ring = {.memfd = -1}};
    return &server->rings[r];
}

static void list_members(struct server *server)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        trainer->shared = ring_of(server, trainer->rank);
        trainer->shared->member_count++;
    }
    for (uint32_t r = 0; r < server->ring_count; r++) {
        server->rings[r].first_member = first;
        first += server->rings[r].member_count;
        server->rings[r].member_count = 0;
    }
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct group_ring *shared = server->trainers[i].shared;
        server->members[shared->first_member + shared->member_count++] = i;
    }
}

static void describe(const struct server *server, uint32_t rank, struct ring_member *ret_member)
{
    *ret_member = (struct ring_member){.rank = rank, .is_there = 1, .fields = UINT64_MAX};
    if (server->describe)
        server->describe(server->describe_argument, rank, ret_member);
}

static enum status make_ring(const struct server *server, struct group_ring *shared,
                             struct error *err)
{
    const uint32_t *indices = server->members + shared->first_member;
    struct ring_service service = server->service;
    service.group = shared->group;
    if (shared->member_count > server->layout.member_count)
        return error_set(err, STATUS_INVALID,
                         "group %" PRIu32 " has %" PRIu32
                         " trainers here, and the ring is made for "
                         "%" PRIu32,
                         shared->group, shared->member_count, server->layout.member_count);
    struct ring_member *members = calloc(shared->member_count, sizeof *members);
    if (!members)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the members of a ring");
    for (uint32_t i = 0; i < shared->member_count; i++)
        describe(server, server->trainers[indices[i]].rank, &members[i]);
    enum status status =
        ring_memory_create(&server->layout, &service, members, shared->member_count, server->fill,
                           server->fill_argument, &shared->ring, err);
    for (uint32_t i = 0; status == STATUS_OK && i < shared->member_count; i++)
        server->trainers[indices[i]].control = ring_control_of(&shared->ring, &server->layout, i);
    free(members);
    return status;
}

enum status server_make_rings(struct server *server, struct error *err)
{
    enum status status = STATUS_OK;
    list_members(server);
    for (uint32_t r = 0; status == STATUS_OK && r < server->ring_count; r++) {
        status = make_ring(server, &server->rings[r], err);
        if (status != STATUS_OK)
            return error_prefix(
                err, status, "ring of trainer %" PRIu32 ": ",
                server->trainers[server->members[server->rings[r].first_member]].rank);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        status = wakeup_new(&trainer->publish_fd, err);
        if (status == STATUS_OK)
            status = wakeup_new(&trainer->release_fd, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "ring of trainer %" PRIu32 ": ", trainer->rank);
    }
    return status;
}

void server_free_rings(struct server *server)
{
    for (uint32_t r = 0; r < server->ring_count; r++)
        ring_done(&server->rings[r].ring);
    server->ring_count = 0;
}

uint32_t server_ring_count(const struct server *server)
{
    return server->ring_count;
}

uint32_t server_ring_group(const struct server *server, uint32_t ring)
{
    return server->rings[ring].group;
}

uint32_t server_ring_first_trainer(const struct server *server, uint32_t ring)
{
    return server->members[server->rings[ring].first_member];
}
