/* From configuration and dataset to a run: the parts fit one another, and every failure has its
 * cause. */
#include "run/setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t GIB = UINT64_C(1) << 30;

/* 10,000 samples in rows of 8: a row field of 160 KiB and a held one of 1 KiB. */
static struct dataset_field fields[] = {
    {.name = "latents",
     .dtype = DTYPE_FLOAT16,
     .rank = 4,
     .shape = {20, 4, 32, 32},
     .sample_bytes = 163840,
     .source = FIELD_ROW},
    {.name = "text",
     .dtype = DTYPE_FLOAT16,
     .rank = 1,
     .shape = {512},
     .sample_bytes = 1024,
     .source = FIELD_HELD},
};

static struct dataset make_dataset(void)
{
    return (struct dataset){
        .phase_count = 1,
        .sample_count = 10000,
        .row_length = 8,
        .row_count = 1250,
        .row_bytes = 8 * 163840,
        .order_row_bytes = 8 * 163840,
        .record_bytes = 163840,
        .sample_bytes = 164864,
        .held_bytes = 1000001,
        .scratch_bytes = 400000,
        .fingerprint = 0xfeed,
        .field_count = 2,
        .fields = fields,
    };
}

static const struct run_shape two_nodes = {.reader_count = 4,
                                           .readers_on_node = 2,
                                           .trainers_served = 2,
                                           .worker_count = 8,
                                           .node_available_bytes = UINT64_C(16) << 30};

static struct config make_config(const char *text)
{
    struct config config;
    struct error err;
    assert_int_equal(config_init(&config, NULL), STATUS_OK);
    if (config_read_text(&config, text, strlen(text), "test", NULL, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return config;
}

static void parts_fit(void **state)
{
    (void)state;
    struct dataset dataset = make_dataset();
    struct config config =
        make_config("order: {seed: 17, epochs: 3, placement: fixed}\ndelivery: {trainers: 8}\n");
    struct run_setup setup;
    struct error err;
    if (run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(setup.plan.steps_per_epoch, 39);
    assert_int_equal(setup.plan.window_rows, 256);
    assert_int_equal(setup.plan.batch, 32);
    assert_int_equal(setup.shape.steps_per_round, 1);
    assert_int_equal(setup.layout.batch_size, 32);
    assert_int_equal(setup.layout.slot_count, 4);
    assert_int_equal(setup.layout.field_count, 2);
    assert_string_equal(setup.layout.fields[1].name, "text");
    assert_int_equal(setup.layout.fields[0].sample_bytes, 163840);
    assert_int_equal(setup.budget.rings_bytes, 2 * setup.layout.total_bytes);
    assert_int_equal(setup.budget.held_bytes, 1000001);
    assert_int_equal(setup.budget.keep_rows, 314); /* 1.6 GiB of 4 GiB: all */
    assert_int_equal(setup.demand.limit_bytes, 4 * GIB);
    assert_null(setup.demand.plan);
    config.restarts = 1; /* trainers may come again, and hold what they hold of another ring */
    struct run_setup again;
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, NULL, &again, &err),
                     STATUS_OK);
    assert_int_equal(again.budget.rings_bytes - setup.budget.rings_bytes,
                     2 * 4 * setup.layout.slot_stride);
    assert_int_equal(setup.service.world_size, 8);
    assert_int_equal(setup.service.steps_per_epoch, 39);
    assert_int_equal(setup.service.epochs, 3);
    assert_int_equal(setup.service.order.fingerprint, 0xfeed);
    assert_int_equal(setup.service.order.id, plan_order_id(&setup.plan, 0xfeed));
    assert_int_equal(setup.service.order.window_rows, 256);
    assert_int_equal(setup.service.start_epoch, 0);
    struct text out = {0};
    run_setup_describe_memory(&setup, &out);
    assert_non_null(strstr(out.data, "4.00 GiB"));
    text_done(&out);
    config_done(&config);
}

/* Steps and positions are counted through all epochs. */
static void epochs_can_be_counted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t samples;
        const char *message; /* NULL: they can */
    } cases[] = {
        {"order: {epochs: 0}\nbatch: {global_size: 8}\n", UINT64_C(1) << 34, NULL},
        {"order: {epochs: 0}\nbatch: {global_size: 8}\n", UINT64_C(1) << 36,
         "order.epochs: 268435456 epochs (0, no end, counts as so many) of 68719476736 samples, in "
         "8589934592 steps, are more than can be counted: set order.epochs to 134217727 or less"},
        {"order: {epochs: 4000000000}\nbatch: {global_size: 8}\n", UINT64_C(1) << 34,
         "set order.epochs to 536870911 or less"},
        {"order: {epochs: 100}\nbatch: {global_size: 8}\n", UINT64_C(1) << 36, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct config config = make_config(cases[i].text);
        struct dataset dataset = make_dataset();
        struct run_setup setup;
        struct error err = {0};
        dataset.sample_count = cases[i].samples;
        dataset.row_count = cases[i].samples / dataset.row_length;
        enum status status = run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, &err);
        if (cases[i].message ? !strstr(err.message, cases[i].message)
                             : strstr(err.message, "epochs") != NULL)
            fail_msg("case %zu: '%s'", i, err.message);
        assert_int_equal(status == STATUS_INVALID, cases[i].message != NULL);
        config_done(&config);
    }
}

static void memory_limits(void **state)
{
    (void)state;
    struct config config = make_config("");
    assert_int_equal(run_memory_limit(&config, &two_nodes), 4 * GIB);
    config.memory_limit_bytes = 7;
    assert_int_equal(run_memory_limit(&config, &two_nodes), 7);
    struct dataset dataset = make_dataset();
    struct run_setup setup = {.plan = {.batch = 42}};
    struct error err;
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, &err),
                     STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "readers.memory_limit 7 B is too low"));
    assert_int_equal(setup.plan.batch, 42);
    config_done(&config);
}

/* Everything that may be on its way from a remote store, also what is asked for twice. */
static void what_is_on_its_way(void **state)
{
    (void)state;
    const char *const texts[] = {"store: {fetch_memory: 64MiB}",
                                 "store: {fetch_memory: 64MiB, hedge: false}"};
    for (int hedge = 1; hedge >= 0; hedge--) {
        struct config config = make_config(texts[!hedge]);
        struct dataset dataset = make_dataset();
        struct run_shape shape = two_nodes;
        struct run_setup setup;
        struct error err;
        dataset.remote = true;
        shape.fetch_bytes = run_fetch_memory(&config, &shape);
        assert_int_equal(shape.fetch_bytes, (64 - hedge * 8) << 20);
        assert_int_equal(run_setup_settle(&config, &dataset, &shape, NULL, &setup, &err),
                         STATUS_OK);
        assert_int_equal(setup.fetch_bytes, shape.fetch_bytes);
        assert_int_equal(setup.second_bytes, hedge * 8 << 20);
        assert_int_equal(setup.budget.fetch_bytes, 64 << 20);
        config_done(&config);
    }
}

/* A remote dataset of 1.6 GiB for four readers, with a fetch stage of 56 MiB: 40 rows of 8
 * requests.
 */
static void settle_remote(const char *text, uint64_t limit_bytes, struct run_shape *ret_shape,
                          struct run_setup *ret_setup)
{
    struct config config = make_config(text);
    struct dataset dataset = make_dataset();
    struct error err;
    dataset.remote = true;
    config.memory_limit_bytes = limit_bytes;
    *ret_shape = two_nodes;
    ret_shape->fetch_rows = 40;
    ret_shape->fetch_row_bytes = run_fetch_memory(&config, ret_shape) / 40;
    ret_shape->fetch_bytes = 40 * ret_shape->fetch_row_bytes + 12345; /* tables of its own */
    ret_shape->fetch_row_requests = 8;
    if (run_setup_settle(&config, &dataset, ret_shape, NULL, ret_setup, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    config_done(&config);
}

/* Rows before fetches: a row that is read again in each epoch costs more than a request that waits
 * once. */
static void fetches_make_room_for_rows(void **state)
{
    (void)state;
    const char *text = "{store: {fetch_memory: 64MiB}, order: {epochs: 2}}";
    struct run_shape shape;
    struct run_setup setup, less;
    settle_remote(text, 4 * GIB, &shape, &setup);
    const uint64_t enough = setup.budget.total_bytes;
    assert_int_equal(setup.budget.keep_rows, 314);
    assert_int_equal(setup.demand.fetch_rows, 40);
    assert_int_equal(setup.fetch_bytes, shape.fetch_bytes);

    uint64_t fewer = 10 * shape.fetch_row_bytes;
    settle_remote(text, enough - fewer, &shape, &less);
    assert_int_equal(less.budget.keep_rows, 314);
    assert_int_equal(less.demand.fetch_rows, 31); /* seconds give up as many parts as the stage */
    assert_int_equal(less.fetch_bytes, shape.fetch_bytes - 9 * shape.fetch_row_bytes);
    assert_int_equal(less.second_bytes, setup.second_bytes * 31 / 40);
    assert_true(less.budget.total_bytes <= enough - fewer);
    assert_true(less.budget.total_bytes + shape.fetch_row_bytes * 8 / 7 > enough - fewer);

    /* 8 workers and 32 requests take 12 rows. */
    uint64_t most = setup.budget.fetch_bytes;
    settle_remote(text, enough - most * 28 / 40 + 1048576, &shape, &less);
    assert_int_equal(less.budget.keep_rows, 314);
    assert_in_range(less.demand.fetch_rows, 12, 13);
    settle_remote(text, enough - most * 29 / 40, &shape, &less);
    assert_true(less.budget.keep_rows < 314); /* fewer requests would not do: fetches stay */
    assert_int_equal(less.demand.fetch_rows, 40);
    assert_int_equal(less.budget.fetch_bytes, most);
    settle_remote("{store: {fetch_memory: 64MiB, requests: 256}, order: {epochs: 2}}",
                  enough - fewer, &shape, &less);
    assert_true(less.budget.keep_rows < 314); /* these may all be under way */
    assert_int_equal(less.demand.fetch_rows, 40);
    settle_remote("{store: {fetch_memory: 64MiB}, order: {epochs: 1}}", enough - fewer, &shape,
                  &less);
    assert_int_equal(less.demand.fetch_rows, 40); /* nothing stays anyway */
}

/* A limit that was asked for is held against what there is for all readers of a node. */
static void more_than_there_is(void **state)
{
    (void)state;
    struct config config = make_config("readers: {memory_limit: 1GiB}\ndelivery: {slots: 4}");
    struct dataset dataset = make_dataset();
    struct run_shape shape = two_nodes;
    struct run_setup setup;
    struct error err;
    assert_int_equal(run_setup_settle(&config, &dataset, &shape, NULL, &setup, &err), STATUS_OK);
    uint64_t total = 2 * setup.budget.total_bytes - setup.budget.held_bytes;
    shape.node_available_bytes = total; /* nothing is left for the programs */
    assert_int_equal(run_setup_settle(&config, &dataset, &shape, NULL, &setup, &err),
                     STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "the readers of a node take "));
    assert_non_null(strstr(err.message, ": 2 x (row buffers "));
    shape.node_available_bytes = total + (UINT64_C(128) << 20);
    assert_int_equal(run_setup_settle(&config, &dataset, &shape, NULL, &setup, &err), STATUS_OK);
    struct text warning = {0};
    run_setup_warn_limit(&config, &shape, &setup, &warning);
    assert_non_null(strstr(warning.data, " is 1.00 GiB for each of the 2 readers of a node, and "));
    warning.length = 0;
    shape.readers_on_node = 1;
    shape.node_available_bytes = UINT64_C(512) << 20;
    run_setup_warn_limit(&config, &shape, &setup, &warning);
    assert_non_null(strstr(warning.data, " is 1.00 GiB for the reader of a node, and "));
    text_done(&warning);
    config_done(&config);
}

static void one_epoch_keeps_nothing(void **state)
{
    (void)state;
    struct dataset dataset = make_dataset();
    struct config config = make_config("order: {epochs: 1}");
    struct run_setup setup;
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, NULL),
                     STATUS_OK);
    assert_int_equal(setup.budget.keep_rows, 0);
    config.epochs = 2;
    config.cache = CACHE_OFF;
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, NULL),
                     STATUS_OK);
    assert_int_equal(setup.budget.keep_rows, 0);
    config_done(&config);
}

static void resuming(void **state)
{
    (void)state;
    struct dataset dataset = make_dataset();
    struct config config = make_config("order: {seed: 17, epochs: 3}");
    struct run_setup setup;
    struct error err;
    struct run_state saved = {.version = 1,
                              .order = {.fingerprint = 0xfeed, .seed = 17, .global_batch = 256},
                              .epoch = 1,
                              .step = 20};
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, &saved, &setup, NULL),
                     STATUS_OK);
    assert_int_equal(setup.service.start_epoch, 1);
    assert_int_equal(setup.service.start_step, 20);
    saved.step = 39;
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, &saved, &setup, NULL),
                     STATUS_OK);
    assert_int_equal(setup.service.start_epoch, 2);
    assert_int_equal(setup.service.start_step, 0);
    saved.order.seed = 18;
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, &saved, &setup, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, "order.seed was 18"));
    config_done(&config);
}

/* Of steps of 40 MiB 4.3% travels with local placement: ten of them would make messages of 1 MiB,
 * and 512 MiB are room for rings of four such rounds, with the nine slots that they need besides.
 */
static void slots_follow_rounds(void **state)
{
    (void)state;
    static const struct run_shape four_nodes = {.reader_count = 4,
                                                .readers_on_node = 1,
                                                .trainers_served = 1,
                                                .worker_count = 8,
                                                .node_available_bytes = UINT64_C(16) << 30};
    static const struct {
        const char *text;
        uint32_t steps, slots;
    } cases[] = {
        {"order: {placement: local}\n", 10, 40 + 9},
        {"order: {placement: fixed}\n", 1, 4},
        {"order: {placement: local}\nexchange: {steps_per_round: 6}\n", 6, 24 + 5},
        {"order: {placement: local, epochs: 0}\n", 5, 20 + 4 + 25},
        {"order: {placement: local}\nreaders: {memory_limit: 1GiB}\n", 2, 8 + 1},
    };
    struct dataset dataset = make_dataset();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        struct run_setup setup;
        struct error err;
        snprintf(text, sizeof text, "%sdelivery: {trainers: 4}\nbatch: {global_size: 256}\n",
                 cases[i].text);
        struct config config = make_config(text);
        if (run_setup_settle(&config, &dataset, &four_nodes, NULL, &setup, &err) != STATUS_OK)
            fail_msg("%s: %s", text, err.message);
        assert_int_equal(setup.shape.steps_per_round, cases[i].steps);
        assert_int_equal(setup.layout.slot_count, cases[i].slots);
        config_done(&config);
    }
}

/* On one node rings have 32 MiB: room for four rounds of five steps of 1.3 MiB a trainer, and the
 * four slots besides. Four slots are the least. */
static void small_rings_on_one_node(void **state)
{
    (void)state;
    static const struct run_shape one_node = {.reader_count = 4,
                                              .readers_on_node = 4,
                                              .trainers_served = 1,
                                              .worker_count = 2,
                                              .node_available_bytes = UINT64_C(16) << 30};
    static const struct {
        uint32_t batch, steps, slots;
    } cases[] = {{32, 5, 20 + 4}, {256, 1, 4}};
    struct dataset dataset = make_dataset();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_setup setup;
        struct error err;
        struct config config = make_config("delivery: {trainers: 4}\n");
        config.global_batch = cases[i].batch;
        if (run_setup_settle(&config, &dataset, &one_node, NULL, &setup, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        assert_int_equal(setup.shape.steps_per_round, cases[i].steps);
        assert_int_equal(setup.layout.slot_count, cases[i].slots);
        config_done(&config);
    }
}

/* Rounds of 512 steps, four of which no ring has room for. */
static void rings_have_an_end(void **state)
{
    (void)state;
    static const struct run_shape two_readers = {.reader_count = 2,
                                                 .readers_on_node = 1,
                                                 .trainers_served = 1,
                                                 .worker_count = 2,
                                                 .node_available_bytes = UINT64_C(64) << 30};
    struct dataset dataset = make_dataset();
    struct config config =
        make_config("order: {placement: local}\nexchange: {steps_per_round: 512}\n"
                    "delivery: {trainers: 2}\nbatch: {global_size: 2}\n");
    struct run_setup setup;
    struct error err;
    if (run_setup_settle(&config, &dataset, &two_readers, NULL, &setup, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(setup.shape.steps_per_round, 512);
    assert_int_equal(setup.layout.slot_count, RING_MAX_SLOTS);
    config_done(&config);
}

/* One reader alone: steps of 164,096 bytes come to 2 MiB by twelves, and their 35 slots fit in 16
 * MiB. With more workers rounds and rings are larger. */
static void slots_of_one_reader(void **state)
{
    (void)state;
    struct run_shape alone = {.reader_count = 1,
                              .readers_on_node = 1,
                              .trainers_served = 1,
                              .worker_count = 2,
                              .node_available_bytes = UINT64_C(16) << 30};
    static const struct {
        const char *text;
        uint32_t batch, steps, slots, workers;
    } cases[] = {
        {"", 1, 12, 24 + 11, 2},
        {"", 1, 12, 24 + 11, 4},
        {"", 4, 6, 12 + 5, 8},
        {"", 4, 12, 24 + 11, 16},
        {"", 1, 16, 32 + 15, 16},
        {"", 64, 1, 4, 2},
        {"delivery: {slots: 4}\n", 1, 2, 4 + 1, 2},
        {"exchange: {steps_per_round: 1}\n", 1, 1, 4, 2},
        {"", 4, 3, 6 + 2, 2},
        {"order: {window_rows: 8}\nreaders: {memory_limit: 24MiB}\n", 4, 1, 4, 2},
        {"order: {window_rows: 8}\nreaders: {memory_limit: 24MiB}\ndelivery: {slots: 16}\n", 4, 1,
         16, 2},
    };
    struct dataset dataset = make_dataset();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        struct run_setup setup;
        struct error err;
        snprintf(text, sizeof text, "%sbatch: {global_size: %u}\n", cases[i].text, cases[i].batch);
        struct config config = make_config(text);
        config.trainers = 1;
        alone.worker_count = cases[i].workers;
        if (run_setup_settle(&config, &dataset, &alone, NULL, &setup, &err) != STATUS_OK)
            fail_msg("%s: %s", text, err.message);
        assert_int_equal(setup.shape.steps_per_round, cases[i].steps);
        assert_int_equal(setup.layout.slot_count, cases[i].slots);
        config_done(&config);
    }
}

static void impossible_configurations(void **state)
{
    (void)state;
    struct dataset dataset = make_dataset();
    struct run_setup setup;
    struct error err;
    struct config config = make_config("batch: {global_size: 10001}");
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, "exceeds the dataset's 10000 samples"));
    config_done(&config);
    config = make_config("delivery: {slots: 4}\nexchange: {steps_per_round: 3}");
    assert_int_equal(run_setup_settle(&config, &dataset, &two_nodes, NULL, &setup, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, "delivery.slots"));
    config_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_fit),
        cmocka_unit_test(epochs_can_be_counted),
        cmocka_unit_test(memory_limits),
        cmocka_unit_test(what_is_on_its_way),
        cmocka_unit_test(fetches_make_room_for_rows),
        cmocka_unit_test(more_than_there_is),
        cmocka_unit_test(one_epoch_keeps_nothing),
        cmocka_unit_test(resuming),
        cmocka_unit_test(impossible_configurations),
        cmocka_unit_test(slots_follow_rounds),
        cmocka_unit_test(rings_have_an_end),
        cmocka_unit_test(small_rings_on_one_node),
        cmocka_unit_test(slots_of_one_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
