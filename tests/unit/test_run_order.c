/* The order of samples depends on what is written down for it, and on nothing else: each option of
 * the table is given two values, and the order id and the order change where the table says so. */
#include "config/options.h"
#include "dataset/dataset.h"
#include "plan/order/mix.h"
#include "plan/order/tables.h"
#include "plan/rounds/locality.h"
#include "run/setup.h"
#include "zarr_fixture.h"

#include <xxhash.h>

/* Samples of 8 MiB, so that windows end where memory does, and a small array that is held or not.
 * Nothing is written but metadata. */
#define GROUP "{\"zarr_format\": 2}"
#define DOCUMENT(shape, chunks, type)                                                       \
    "{\"zarr_format\": 2, \"shape\": " shape ", \"chunks\": " chunks ", \"dtype\": \"" type \
    "\", \"compressor\": null, \"fill_value\": 0, \"order\": \"C\", \"filters\": null}"

static const struct {
    const char *key, *document;
} documents[] = {
    {".zgroup", GROUP},
    {"main/.zgroup", GROUP},
    {"fewer/.zgroup", GROUP},
    {"axes/.zgroup", GROUP},
    {"second/.zgroup", GROUP},
    {"second/main/.zgroup", GROUP},
    {"main/x/.zarray", DOCUMENT("[6000, 2, 1024, 1024]", "[1, 2, 1024, 1024]", "<f4")},
    {"main/label/.zarray", DOCUMENT("[6000]", "[1000]", "<i8")},
    {"main/ends/.zarray", DOCUMENT("[60]", "[60]", "<i8")},
    {"main/others/.zarray", DOCUMENT("[60]", "[60]", "<i8")},
    {"main/id/.zarray", DOCUMENT("[6000]", "[6000]", "<i8")},
    {"main/missing/.zarray", DOCUMENT("[6000]", "[6000]", "|b1")},
    {"main/where/.zarray", DOCUMENT("[6000]", "[6000]", "|b1")},
    {"budget/.zgroup", GROUP},
    {"budget/x/.zarray", DOCUMENT("[6000, 2, 1024, 1024]", "[1, 2, 1024, 1024]", "<f4")},
    {"budget/even/.zarray", DOCUMENT("[6001]", "[6001]", "<i8")},
    {"budget/uneven/.zarray", DOCUMENT("[6001]", "[6001]", "<i8")},
    {"budget/items/.zarray", DOCUMENT("[12000]", "[1000]", "|u1")},
    {"fewer/x/.zarray", DOCUMENT("[5000, 2, 1024, 1024]", "[1, 2, 1024, 1024]", "<f4")},
    {"axes/x/.zarray", DOCUMENT("[6000, 5000]", "[10, 20]", "|u1")},
    {"image/.zgroup", GROUP},
    {"image/.zattrs", "{\"multiscales\": [{\"axes\": [\"t\", \"c\", \"y\", \"x\"], "
                      "\"datasets\": [{\"path\": \"0\"}, {\"path\": \"1\"}]}]}"},
    {"image/0/.zarray", DOCUMENT("[6000, 2, 1024, 1024]", "[1, 2, 1024, 1024]", "<f4")},
    {"image/1/.zarray", DOCUMENT("[6000, 2, 512, 512]", "[20, 2, 512, 512]", "<f4")},
    {"second/main/x/.zarray", DOCUMENT("[6000, 2, 1024, 1024]", "[2, 2, 1024, 1024]", "<f4")},
};

/* Samples of four frames. */
#define WINDOW "dataset.fields.x.array=x dataset.fields.x.steps=-1:3"

/* Half of sixty episodes. */
#define SPLIT "samples.episodes_ends=ends samples.split_part=a"

/* Ragged fields of the same items. */
#define RAGGED                                                                            \
    "dataset.group=budget dataset.fields.x.array=x dataset.fields.p.ragged.offsets=even " \
    "dataset.fields.p.ragged.columns=[items] dataset.fields.q.ragged.offsets=uneven "     \
    "dataset.fields.q.ragged.columns=[items]"

/* "@" stands for the folder. */
static const struct walk {
    const char *key, *values[2];
    const char *more; /* other settings that both need, with blanks between them */
} walks[] = {
    {"dataset.uri", {"@", "@/second"}, NULL},
    {"dataset.group", {"main", "fewer"}, NULL},
    {"dataset.exclude", {"", "x"}, NULL},
    {"dataset.constants", {"", "ends"}, NULL},
    {"dataset.sample_axis", {"0", "1"}, "dataset.group=axes"},
    {"dataset.multiscale", {"0", "1"}, "dataset.group=image"},
    {"dataset.hold_limit", {"0", "2GiB"}, NULL},
    {"samples.episodes_ends", {"", "ends"}, WINDOW},
    {"samples.episodes_id", {"", "id"}, WINDOW},
    {"samples.episodes_jumps", {"", "id"}, WINDOW},
    {"samples.continuous", {"false", "true"}, "dataset.uri=@,@ samples.stride=7"},
    {"samples.stride", {"1", "2"}, NULL},
    {"samples.pad_before", {"0", "1"}, WINDOW},
    {"samples.pad_after", {"0", "1"}, WINDOW},
    {"samples.fill", {"edge", "zero"}, WINDOW " samples.pad_after=1"},
    {"samples.missing", {"", "missing"}, NULL},
    {"samples.where", {"", "where"}, NULL},
    {"samples.weight", {"", "id"}, NULL},
    {"samples.draws", {"0", "7000"}, "samples.weight=id"},
    {"samples.split_part", {"a", "b"}, SPLIT " samples.split_parts=a:.5,b:.5"},
    {"samples.split_by", {"episode", "sample"}, SPLIT " samples.split_parts=a:.5,b:.5"},
    {"samples.split_parts", {"a:.5", "a:.25"}, SPLIT},
    {"samples.split_seed", {"0", "1"}, SPLIT " samples.split_parts=a:.5,b:.5"},
    {"samples.split_range", {"", "10:"}, NULL},
    {"samples.split_gap", {"0", "1"}, "samples.split_range=10:"},
    {"samples.segments", {"ends", "others"}, WINDOW " dataset.fields.x.segments=true"},
    {"samples.row_chunks", {"auto", "2"}, NULL},
    {"batch.global_size", {"512", "256"}, NULL},
    {"batch.last", {"drop", "pad"}, NULL},
    {"batch.budget_field", {"p", "q"}, RAGGED " batch.budget_items=100"},
    {"batch.budget_items", {"100", "200"}, RAGGED " batch.budget_field=p"},
    {"batch.budget_buckets",
     {"50,100", "60,100"},
     RAGGED " batch.budget_field=p batch.budget_items=100"},
    {"order.seed", {"1", "2"}, NULL},
    {"order.shuffle", {"true", "false"}, NULL},
    {"order.window_rows", {"auto", "2047"}, NULL},
    {"order.placement", {"fixed", "local"}, "delivery.trainers=8"},
    {"order.epochs", {"2", "3"}, NULL},
    {"readers.threads", {"1", "2"}, NULL},
    {"readers.bind", {"none", "core"}, NULL},
    {"readers.memory_limit", {"auto", "1TiB"}, NULL},
    {"readers.cache", {"off", "stored"}, NULL},
    {"readers.cache_dir", {"", "@/cache"}, NULL},
    {"readers.cache_dir_bytes", {"1GiB", "2GiB"}, NULL},
    {"delivery.trainers", {"1", "8"}, NULL},
    {"delivery.trainers_least", {"4", "8"}, "delivery.trainers=8"},
    {"delivery.trainers_per_reader", {"auto", "8"}, "delivery.trainers=8"},
    {"delivery.mesh", {"a:8", "a:2,b:4"}, "delivery.trainers=8 delivery.data=a"},
    {"delivery.data", {"a", "b"}, "delivery.trainers=8 delivery.mesh=a:2,b:4"},
    {"delivery.transform_run", {"", "python3 augment.py"}, NULL},
    {"delivery.transform_processes", {"1", "4"}, "delivery.transform_run=x"},
    {"delivery.transform_fields", {"", "data"}, "delivery.transform_run=x"},
    {"delivery.transform_timeout", {"10", "20"}, NULL},
    {"delivery.slots", {"2", "5"}, NULL},
    {"delivery.run_dir", {"auto", "@/run"}, NULL},
    {"delivery.connect_timeout", {"1", "2"}, NULL},
    {"delivery.reconnect_timeout", {"0", "2"}, NULL},
    {"delivery.drain_timeout", {"0", "2"}, NULL},
    {"delivery.grace", {"0", "2"}, NULL},
    {"delivery.early_leave", {"fail", "warn"}, NULL},
    {"delivery.restarts", {"0", "2"}, NULL},
    {"delivery.stall_warning", {"0", "2"}, NULL},
    {"delivery.bind_trainers", {"true", "false"}, NULL},
    {"exchange.steps_per_round", {"auto", "1"}, NULL},
    {"exchange.buffer_limit", {"128MiB", "16GiB"}, NULL},
    {"store.timeout", {"1", "2"}, NULL},
    {"store.retries", {"0", "2"}, NULL},
    {"store.index_cache", {"0", "1GiB"}, NULL},
    {"store.coalesce_gap", {"auto", "1MiB"}, NULL},
    {"store.coalesce_size", {"auto", "1MiB"}, NULL},
    {"store.direct", {"true", "false"}, NULL},
    {"store.requests", {"auto", "2"}, NULL},
    {"store.fetch_memory", {"1MiB", "1GiB"}, NULL},
    {"store.hedge", {"true", "false"}, NULL},
    {"store.missing_status", {"404", "403,404"}, NULL},
    {"store.ca_file", {"", "/tmp/ca"}, NULL},
    {"store.headers", {"", "env:NAME"}, NULL},
    {"store.proxy", {"", "http://localhost:1"}, NULL},
    {"store.endpoint", {"", "http://localhost:1"}, NULL},
    {"store.s3_region", {"", "here"}, NULL},
    {"store.s3_addressing", {"auto", "path"}, NULL},
    {"store.anonymous", {"true", "false"}, NULL},
    {"store.metadata", {"true", "false"}, NULL},
    {"store.requester_pays", {"", "true"}, NULL},
    {"store.virtual", {"", "s3://a/b/,/tmp/c"}, NULL},
    {"metrics.listen", {"", "127.0.0.1:0"}, NULL},
    {"metrics.file", {"", "@/metrics.prom"}, NULL},
    {"errors.bad_sample", {"fail", "mask"}, NULL},
    {"errors.max_bad", {"1", "2"}, NULL},
    {"errors.missing_chunk", {"fill", "fail"}, NULL},
    {"errors.report", {"", "@/bad"}, NULL},
};
enum { WALK_COUNT = sizeof walks / sizeof walks[0] };

static const char *const base[] = {
    "dataset.uri=@",     "dataset.group=main",    "batch.global_size=512",
    "order.epochs=2",    "order.placement=fixed", /* else trainers change who gets what, and no
                                                     step's samples */
    "readers.threads=2",
};

static const struct run_shape shape = {.reader_count = 2,
                                       .readers_on_node = 2,
                                       .trainers_served = 8,
                                       .worker_count = 2,
                                       .node_available_bytes = UINT64_MAX};

static void put(struct config *config, const struct fixture *fixture, const char *setting)
{
    struct text text = {0};
    struct error err;
    for (const char *at = setting; *at; at++)
        text_append(&text, "%.*s", *at == '@' ? (int)strlen(fixture->path) : 1,
                    *at == '@' ? fixture->path : at);
    assert_ok(config_set(config, text.data, &err), &err);
    text_done(&text);
}

static void put_more(struct config *config, const struct fixture *fixture, const struct walk *walk)
{
    char settings[512], *rest = settings;
    snprintf(settings, sizeof settings, "%s", walk->more ? walk->more : "");
    for (char *setting; (setting = strsep(&rest, " "));)
        if (*setting)
            put(config, fixture, setting);
}

enum { POSITIONS = 1000, MOST_BATCH = 4096 };

/* Where the samples of a step are delivered. */
static void find_destinations(const struct plan_epoch *epoch, uint64_t step, uint32_t *destinations)
{
    const struct plan *plan = &epoch->plan;
    uint64_t first = plan_step_first(plan, step), count = plan_step_samples(plan, step);
    assert_true(count <= MOST_BATCH);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = plan_sample_at(epoch, first + i) / plan->row_length;
        destinations[i] = plan->locality ? locality_trainer(locality_near(plan), row) : (uint32_t)i;
    }
    if (!plan->locality)
        return;
    struct matcher *matcher = matcher_new(plan);
    assert_non_null(matcher);
    matcher_match(matcher, epoch->epoch, step, destinations);
    matcher_free(matcher);
}

/* Of the run's positions [first, first + POSITIONS), all epochs one after another: in which step,
 * which sample, where it is delivered, and whether it only pads. */
static void hash_positions(const struct plan *plan, uint64_t first, XXH3_state_t *hash)
{
    struct plan_epoch epoch = {.epoch = UINT64_MAX};
    uint64_t matched = UINT64_MAX;
    uint32_t destinations[MOST_BATCH];
    for (uint64_t i = first; i < first + POSITIONS; i++) {
        uint64_t number = i / plan->position_count, position = i % plan->position_count;
        if (epoch.epoch != number) {
            plan_epoch_init(&epoch, plan, number);
            matched = UINT64_MAX;
        }
        uint64_t step = plan_step_of(&epoch.plan, position);
        if (matched != step) {
            find_destinations(&epoch, step, destinations);
            matched = step;
        }
        uint64_t row[] = {number, step, plan_sample_at(&epoch, position),
                          destinations[position - plan_step_first(&epoch.plan, step)],
                          position >= plan->sample_count};
        XXH3_64bits_update(hash, row, sizeof row);
    }
}

/* The first positions, and those in the middle of two epochs, where one goes over into the next. */
static uint64_t order_of(const struct plan *plan)
{
    XXH3_state_t *hash = XXH3_createState();
    assert_non_null(hash);
    XXH3_64bits_reset(hash);
    hash_positions(plan, 0, hash);
    hash_positions(plan, 5500, hash);
    uint64_t order = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return order;
}

struct seen {
    uint64_t id, order;
};

static struct seen look(const struct fixture *fixture, const struct walk *walk, int value)
{
    struct config config;
    struct dataset *dataset;
    struct run_setup setup;
    struct error err;
    char setting[128];
    assert_ok(config_init(&config, &err), &err);
    for (size_t i = 0; i < sizeof base / sizeof base[0]; i++)
        put(&config, fixture, base[i]);
    put_more(&config, fixture, walk);
    snprintf(setting, sizeof setting, "%s=%s", walk->key, walk->values[value]);
    put(&config, fixture, setting);
    assert_ok(config_check(&config, &err), &err);
    const struct dataset_options wanted = config_dataset_options(&config, NULL);
    assert_ok(dataset_open(&wanted, &dataset, &err), &err);
    if (run_setup_settle(&config, dataset, &shape, NULL, &setup, &err) != STATUS_OK)
        fail_msg("%s: %s", setting, err.message);
    assert_ok(plan_tables_new(&setup.plan, 1, 1, &err), &err);
    void *held = NULL;
    if (setup.plan.cuts.items > 0) {
        held = aligned_alloc(64, (dataset->held_bytes + 63) / 64 * 64);
        assert_ok(dataset_hold(dataset, held, &err), &err);
    }
    struct seen seen = {plan_order_id(&setup.plan, dataset->fingerprint), order_of(&setup.plan)};
    plan_tables_free(setup.plan.tables);
    dataset_free(dataset);
    free(held);
    config_done(&config);
    return seen;
}

static const struct walk *walk_of(const char *key)
{
    for (size_t i = 0; i < WALK_COUNT; i++)
        if (strcmp(walks[i].key, key) == 0)
            return &walks[i];
    fail_msg("%s: a new option needs two values in this test", key);
    return NULL;
}

static void the_table_says_what_changes_the_order(void **state)
{
    int wrong = 0;
    size_t of_mixes = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strncmp(options[i].key, "mix.", 4) == 0) {
            of_mixes++; /* they say nothing of one dataset: see below */
            continue;
        }
        const struct walk *walk = walk_of(options[i].key);
        assert_string_not_equal(walk->values[0], walk->values[1]);
        struct seen a = look(*state, walk, 0), b = look(*state, walk, 1);
        bool changes = options[i].order == CHANGES_ORDER;
        /* What stands at missing steps, and in made fields, is in the id, and moves no sample. */
        bool moves = changes && strcmp(walk->key, "samples.fill") != 0 &&
                     strcmp(walk->key, "samples.segments") != 0;
        if ((a.id != b.id) == changes && (a.order != b.order) == moves)
            continue;
        print_error("%s is to %s the order: id %s, order %s\n", walk->key,
                    changes ? "change" : "keep", a.id == b.id ? "same" : "other",
                    a.order == b.order ? "same" : "other");
        wrong++;
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(WALK_COUNT + of_mixes, OPTION_COUNT); /* none of an option that is gone */
}

/* They are no row of the table. */
static void fields_change_the_order(void **state)
{
    const struct walk arrays = {"dataset.fields.x", {"x", "label"}, NULL},
                      casts = {"dataset.fields.x.cast", {"float32", "float16"}, NULL},
                      slices = {"dataset.fields.x.slice.1", {"0:2", "0:1"}, NULL},
                      others = {"dataset.fields.x.slice.1", {"1", "0"}, NULL};
    struct seen a = look(*state, &arrays, 0), b = look(*state, &arrays, 1);
    assert_true(a.id != b.id && a.order != b.order);
    a = look(*state, &casts, 0), b = look(*state, &casts, 1);
    assert_true(a.id != b.id && a.order != b.order); /* twice as many rows in 16 GiB */
    a = look(*state, &slices, 0), b = look(*state, &slices, 1);
    assert_true(a.id != b.id && a.order != b.order);
    a = look(*state, &others, 0), b = look(*state, &others, 1);
    assert_true(a.id != b.id && a.order == b.order);
}

/* By a budget positions behind a step's samples are not in use. */
static bool is_used(const struct plan *plan, uint64_t epoch, uint64_t position)
{
    struct plan_epoch of;
    plan_epoch_init(&of, plan, epoch);
    uint64_t step = plan_step_of(&of.plan, position);
    if (plan->cuts.items > 0)
        plan_mix_cut_fill(plan, of.plan.first_step + step);
    return position - plan_step_first(&of.plan, step) < plan_step_samples(&of.plan, step);
}

/* Which sample of which source is at the first positions of both epochs. */
static uint64_t order_of_mix(const struct plan *plan)
{
    XXH3_state_t *hash = XXH3_createState();
    assert_non_null(hash);
    XXH3_64bits_reset(hash);
    for (uint64_t i = 0; i < POSITIONS; i++) {
        struct plan_found found = {0};
        if (is_used(plan, i % 2, i / 2))
            plan_find(plan, i % 2, i / 2, &found);
        uint64_t row[] = {found.source, found.frame, found.key};
        XXH3_64bits_update(hash, row, sizeof row);
    }
    uint64_t order = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return order;
}

/* `settings`: with blanks between them. */
static struct seen look_at_mix(const struct fixture *fixture, const char *settings)
{
    static const char *const mix[] = {"mix.sources=@/a.yaml:2,@/b.yaml:1", "batch.global_size=64",
                                      "order.epochs=2", "readers.threads=2"};
    struct config config;
    struct dataset *dataset;
    struct run_setup setup;
    struct error err;
    assert_ok(config_init(&config, &err), &err);
    const struct walk more = {"", {"", ""}, settings};
    for (size_t i = 0; i < sizeof mix / sizeof mix[0]; i++)
        put(&config, fixture, mix[i]);
    put_more(&config, fixture, &more);
    assert_ok(config_check(&config, &err), &err);
    assert_ok(config_open_dataset(&config, false, NULL, &dataset, &err), &err);
    if (run_setup_settle(&config, dataset, &shape, NULL, &setup, &err) != STATUS_OK)
        fail_msg("%s: %s", settings, err.message);
    assert_ok(plan_sources_tables_new(&setup.plan, setup.budget.source_windows, &err), &err);
    void *held = aligned_alloc(64, dataset->held_bytes / 64 * 64 + 64);
    assert_ok(dataset_hold(dataset, held, &err), &err);
    struct seen seen = {plan_order_id(&setup.plan, dataset->fingerprint),
                        order_of_mix(&setup.plan)};
    plan_sources_tables_free(&setup.plan);
    plan_mix_free(setup.plan.mix);
    dataset_free(dataset);
    free(held);
    config_done(&config);
    return seen;
}

static void a_mix_has_an_order_of_its_own(void **state)
{
    const struct fixture *fixture = *state;
    static const char *const changes[] = {
        "mix.samples=5000",
        "order.seed=2",
        "mix.sources=@/a.yaml:3,@/b.yaml:1",
        "mix.sources=@/b.yaml:1,@/a.yaml:2",
        "mix.sources=@/windows.yaml:2,@/b.yaml:1",
        "mix.sources=@/straight.yaml:2,@/b.yaml:1",
        "mix.sources=@/part.yaml:2,@/b.yaml:1",
        "mix.schedule=[{\"step\":5,\"weights\":{\"@/a.yaml\":1}}]",
    };
    static const char *const keeps[] = {"dataset.hold_limit=5", "readers.threads=1",
                                        "mix.schedule=[{\"step\":0,\"weights\":{\"@/a.yaml\":4,"
                                        "\"@/b.yaml\":2}}]",
                                        "mix.sources=@/a.yaml:4,@/b.yaml:2",
                                        "mix.sources=@/other.yaml:2,@/b.yaml:1"};
    fixture_put(fixture, "a.yaml", "dataset: {uri: ., group: main, fields: {x: label}}\n");
    fixture_put(fixture, "b.yaml", "dataset: {uri: ., group: main, fields: {x: id}}\n");
    fixture_put(fixture, "windows.yaml",
                "dataset: {uri: ., group: main, fields: {x: label}}\n"
                "order: {window_rows: 2}\n");
    fixture_put(fixture, "straight.yaml",
                "dataset: {uri: ., group: main, fields: {x: label}}\n"
                "order: {shuffle: false}\n");
    fixture_put(fixture, "part.yaml",
                "dataset: {uri: ., group: main, fields: {x: label}}\n"
                "samples: {split: {range: '10:'}}\n");
    fixture_put(fixture, "other.yaml",
                "dataset: {uri: ., group: main, fields: {x: label}}\n"
                "order: {seed: 99, epochs: 7}\nbatch: {global_size: 5}\n");
    struct seen first = look_at_mix(fixture, "order.epochs=2");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct seen other = look_at_mix(fixture, changes[i]);
        if (other.id == first.id || other.order == first.order)
            fail_msg("%s keeps the order", changes[i]);
    }
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0]; i++) {
        struct seen other = look_at_mix(fixture, keeps[i]);
        if (other.id != first.id || other.order != first.order)
            fail_msg("%s changes the order", keeps[i]);
    }
}

static void a_budget_changes_the_order_of_a_mix(void **state)
{
    const struct fixture *fixture = *state;
    static const char *const settings[] = {
        "batch.last=drop",
        "batch.budget_field=p batch.budget_items=100",
        "batch.budget_field=q batch.budget_items=100",
        "batch.budget_field=p batch.budget_items=200",
        "batch.budget_field=p batch.budget_items=100 batch.budget_buckets=50,100",
        "batch.budget_field=p batch.budget_items=100 batch.budget_buckets=60,100",
    };
    enum { COUNT = sizeof settings / sizeof settings[0] };
    static const char source[] = "dataset: {uri: ., group: budget, fields: {x: x, "
                                 "p: {ragged: {offsets: even, columns: [items]}}, "
                                 "q: {ragged: {offsets: uneven, columns: [items]}}}}\n";
    struct seen seen[COUNT];
    fixture_put(fixture, "a.yaml", source);
    fixture_put(fixture, "b.yaml", source);
    for (size_t i = 0; i < COUNT; i++) {
        seen[i] = look_at_mix(fixture, settings[i]);
        for (size_t k = 0; k < i; k++)
            if (seen[k].id == seen[i].id || seen[k].order == seen[i].order)
                fail_msg("%s has the order of %s", settings[i], settings[k]);
    }
    struct seen again = look_at_mix(fixture, "batch.budget_field=p batch.budget_items=100 "
                                             "batch.last=partial");
    assert_true(again.id == seen[1].id && again.order == seen[1].order); /* batch.last: not used */
}

static void an_id_is_of_this_text(void **state)
{
    (void)state;
    const uint64_t samples[] = {0, 60, 100}, rows[] = {0, 8, 13};
    static const char text[] =
        "penstock order 1\ndataset 000000000000feed\nsamples 100 rows 8 window 4\nstores 60 40\n"
        "seed 17 shuffle 1 batch 10 last 2\n";
    const struct plan_options wanted = {.sample_count = 100,
                                        .row_length = 8,
                                        .store_frames = samples,
                                        .store_rows = rows,
                                        .store_count = 2,
                                        .window_rows = 4,
                                        .seed = 17,
                                        .shuffle = true,
                                        .global_batch = 10,
                                        .last = PLAN_PARTIAL,
                                        .trainer_count = 5};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &wanted, NULL), STATUS_OK);
    assert_int_equal(plan_order_id(&plan, 0xfeed), XXH3_64bits(text, sizeof text - 1));
}

/* The arrays that say what samples are: sixty episodes of a hundred frames, one of another length;
 * every 50th frame missing, every other one wanted. And offsets of two ragged fields. */
static void put_frames(const struct fixture *fixture)
{
    static int64_t ends[60], others[60], id[6000];
    static unsigned char missing[6000], where[6000];
    static int64_t even[6001], uneven[6001];
    struct error err;
    for (int i = 0; i < 6000; i++) {
        even[i + 1] = 2 * i + 2;
        uneven[i + 1] = uneven[i] + (i % 2 ? 1 : 3);
        ends[i / 100] = others[i / 100] = i / 100 * 100 + 100;
        id[i] = i / 100;
        missing[i] = i % 50 == 0;
        where[i] = i % 2;
    }
    others[30] += 7;
    assert_ok(store_put(fixture->store, "main/ends/0", ends, sizeof ends, &err), &err);
    assert_ok(store_put(fixture->store, "main/others/0", others, sizeof others, &err), &err);
    assert_ok(store_put(fixture->store, "budget/even/0", even, sizeof even, &err), &err);
    assert_ok(store_put(fixture->store, "budget/uneven/0", uneven, sizeof uneven, &err), &err);
    assert_ok(store_put(fixture->store, "main/id/0", id, sizeof id, &err), &err);
    assert_ok(store_put(fixture->store, "main/missing/0", missing, sizeof missing, &err), &err);
    assert_ok(store_put(fixture->store, "main/where/0", where, sizeof where, &err), &err);
}

static int setup_documents(void **state)
{
    fixture_setup(state);
    put_frames(*state);
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++)
        fixture_put(*state, documents[i].key, documents[i].document);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_table_says_what_changes_the_order, setup_documents,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(fields_change_the_order, setup_documents, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_mix_has_an_order_of_its_own, setup_documents,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_budget_changes_the_order_of_a_mix, setup_documents,
                                        fixture_teardown),
        cmocka_unit_test(an_id_is_of_this_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
