/* For tests of groups: a server of four trainers in a mesh [dp: 2, tp: 2], of which the two of a
 * group share a ring, and all of them connected from one process.
 *
 *     grid   float32 [4], cut over tp: 2 each
 *     label  int64
 *     last   int64, for tp 1 alone
 */
#ifndef PENSTOCK_TESTS_DELIVERY_GROUP_H
#define PENSTOCK_TESTS_DELIVERY_GROUP_H

#include "delivery_scene.h"

enum { GROUP_RANKS = 4, GROUP_RINGS = 2 };

static inline struct mesh group_mesh(void)
{
    struct mesh mesh;
    assert_int_equal(mesh_parse("dp:2,tp:2", "dp", GROUP_RANKS, &mesh, NULL), STATUS_OK);
    return mesh;
}

static inline struct ring_layout group_layout(uint32_t slots)
{
    struct ring_layout layout = {.field_count = 3,
                                 .slot_count = slots,
                                 .batch_size = SUPPORT_BATCH,
                                 .member_count = 2,
                                 .part_count = 2};
    layout.fields[0] = (struct ring_field){.name = "grid",
                                           .dtype = DTYPE_FLOAT32,
                                           .rank = 1,
                                           .shape = {4},
                                           .part_count = 2,
                                           .cut_axes = {1},
                                           .cut_over = {{1}}};
    layout.fields[1] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    layout.fields[2] = (struct ring_field){.name = "last", .dtype = DTYPE_INT64};
    for (uint32_t p = 0; p < 2; p++)
        layout.parts[p] = (struct ring_part){.begins = {UINT64_C(2) * p},
                                             .lengths = {2},
                                             .seconds = {RING_NO_SECOND, RING_NO_SECOND}};
    struct error err;
    if (ring_layout_settle(&layout, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return layout;
}

static inline void group_describe(void *argument, uint32_t rank, struct ring_member *ret_member)
{
    (void)argument;
    ret_member->fields = rank % 2 == 1 ? 7 : 3;
    ret_member->parts[0] = (uint16_t)(rank % 2);
}

static inline struct server *group_server(const char *run_dir, uint32_t slots,
                                          uint64_t reconnect_ms)
{
    struct ring_layout layout = group_layout(slots);
    struct ring_service service = support_service(GROUP_RANKS);
    service.mesh = group_mesh();
    service.order.global_batch = GROUP_RINGS * SUPPORT_BATCH;
    struct server_options options = {.run_dir = run_dir,
                                     .max_trainers = GROUP_RANKS,
                                     .layout = &layout,
                                     .service = &service,
                                     .reconnect_ms = reconnect_ms,
                                     .read_state = read_cursor,
                                     .describe = group_describe};
    struct server *server;
    struct error err;
    if (server_new(&options, &server, &err) != STATUS_OK ||
        server_listen(server, &err) != STATUS_OK)
        fail_msg("server: %s", err.message);
    return server;
}

struct group_scene {
    struct run_folder folder;
    struct server *server;
    struct penstock *clients[GROUP_RANKS]; /* by rank; NULL: it is no client of this process */
    uint64_t filled[GROUP_RINGS];          /* by group */
    uint64_t start;                        /* cursor of the session's first slot */
};

/* `count` trainers, of ranks from 0 on, connect from this process; others may be there already. */
static inline void group_connect(struct group_scene *scene, int count)
{
    struct dialing dialing[GROUP_RANKS];
    for (int rank = 0; rank < count; rank++)
        dial(&dialing[rank], scene->folder.path, rank, GROUP_RANKS);
    pump_until(scene->server, GROUP_RANKS);
    assert_int_equal(server_start(scene->server, NULL), STATUS_OK);
    for (int rank = 0; rank < count; rank++) {
        pthread_join(dialing[rank].thread, NULL);
        if (dialing[rank].status != PENSTOCK_OK)
            fail_msg("penstock_connect: %s", dialing[rank].message);
        scene->clients[rank] = dialing[rank].client;
    }
}

static inline struct group_scene group_scene_new(uint32_t slots)
{
    struct group_scene scene = {.folder = run_folder_new()};
    scene.server = group_server(scene.folder.path, slots, 0);
    group_connect(&scene, GROUP_RANKS);
    return scene;
}

static inline void group_scene_done(struct group_scene *scene)
{
    for (int rank = 0; rank < GROUP_RANKS; rank++)
        penstock_close(scene->clients[rank]);
    server_free(scene->server);
    run_folder_done(&scene->folder);
}

/* The index of a group's ring. */
static inline uint32_t group_ring_of(const struct group_scene *scene, uint32_t group)
{
    uint32_t ring = 0;
    assert_int_equal(server_ring_count(scene->server), GROUP_RINGS);
    while (server_ring_group(scene->server, ring) != group)
        ring++;
    return ring;
}

/* The index of a rank's trainer in the server's list. */
static inline uint32_t group_trainer_of(const struct group_scene *scene, uint32_t rank)
{
    uint32_t trainer = 0;
    while (server_trainer_rank(scene->server, trainer) != rank)
        trainer++;
    return trainer;
}

/* What the sample `i` of a step has at an index of its grid. */
static inline float group_grid(uint64_t cursor, uint32_t group, uint32_t i, uint32_t index)
{
    return (float)(cursor * 100 + (uint64_t)group * 50 + UINT64_C(10) * i + index);
}

/* Whether the group's next slot is free. */
static inline bool group_free(const struct group_scene *scene, uint32_t group)
{
    return server_slot_free(scene->server, group_ring_of(scene, group), scene->filled[group]);
}

/* Fills and publishes the group's next slot. */
static inline void group_publish(struct group_scene *scene, uint32_t group)
{
    struct ring_layout layout = group_layout(1);
    uint32_t ring = group_ring_of(scene, group);
    uint64_t cursor = scene->start + scene->filled[group];
    assert_true(group_free(scene, group));
    unsigned char *slot = server_slot(scene->server, ring, scene->filled[group]++);
    *(struct slot_header *)slot = (struct slot_header){.epoch = cursor / SUPPORT_STEPS,
                                                       .step = cursor % SUPPORT_STEPS,
                                                       .sample_count = SUPPORT_BATCH,
                                                       .first_position = group * SUPPORT_BATCH};
    for (uint32_t i = 0; i < SUPPORT_BATCH; i++) {
        for (uint32_t index = 0; index < 4; index++)
            ((float *)(slot + layout.parts[index / 2].slot_offset))[2 * i + index % 2] =
                group_grid(cursor, group, i, index);
        ((int64_t *)(slot + layout.fields[1].slot_offset))[i] = (int64_t)cursor;
        ((int64_t *)(slot + layout.fields[2].slot_offset))[i] = -(int64_t)cursor;
    }
    server_publish(scene->server, ring);
}

/* The next batch of a rank, which is that of the cursor, with the rank's part of all fields. */
static inline struct penstock_batch group_take(struct group_scene *scene, uint32_t rank,
                                               uint64_t cursor)
{
    struct penstock_batch batch;
    if (penstock_next(scene->clients[rank], &batch, 2000) != PENSTOCK_OK)
        fail_msg("rank %u: %s", rank, penstock_last_error(scene->clients[rank]));
    assert_int_equal(batch.epoch * SUPPORT_STEPS + batch.step, cursor);
    assert_int_equal(batch.first_position, rank / 2 * SUPPORT_BATCH);
    for (uint32_t i = 0; i < SUPPORT_BATCH; i++) {
        for (uint32_t k = 0; k < 2; k++)
            assert_true(((const float *)batch.data[0])[2 * i + k] ==
                        group_grid(cursor, rank / 2, i, 2 * (rank % 2) + k));
        assert_int_equal(((const int64_t *)batch.data[1])[i], cursor);
        if (rank % 2 == 1)
            assert_int_equal(((const int64_t *)batch.data[2])[i], -(int64_t)cursor);
    }
    return batch;
}

static inline void group_give(struct group_scene *scene, uint32_t rank,
                              const struct penstock_batch *batch)
{
    assert_int_equal(penstock_release(scene->clients[rank], batch), PENSTOCK_OK);
}

static inline void group_use(struct group_scene *scene, uint32_t rank, uint64_t cursor)
{
    struct penstock_batch batch = group_take(scene, rank, cursor);
    group_give(scene, rank, &batch);
}

#endif
