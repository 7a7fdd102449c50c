/* Shares: which rank has which field and which part, what readers need of a sample, and how a ring
 * lays that out; and rules that do not fit the dataset. */
#include "run/shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ACTION, ACTION_VALID, E_I, E_OFFSETS, E_V, IMAGE, IMAGE_CROP, TOKENS, FIELDS };

static struct ragged events = {.name = "e"};
static const int32_t steps[] = {-1, 0, 1, 2};
static struct dataset_field fields[FIELDS] = {
    [ACTION] = {.name = "action", .rank = 2, .shape = {4, 12}, .step_count = 4, .steps = steps},
    [ACTION_VALID] = {.name = "action.valid",
                      .dtype = DTYPE_BOOL,
                      .rank = 1,
                      .shape = {4},
                      .source = FIELD_MADE,
                      .made = MADE_VALID,
                      .made_for = ACTION},
    [E_I] = {.name = "e.i", .dtype = DTYPE_INT64, .source = FIELD_RAGGED, .ragged = &events},
    [E_V] = {.name = "e.v", .dtype = DTYPE_INT64, .source = FIELD_RAGGED, .ragged = &events},
    [E_OFFSETS] = {.name = "e.offsets",
                   .dtype = DTYPE_INT64,
                   .source = FIELD_MADE,
                   .made = MADE_OFFSETS,
                   .made_for = E_I,
                   .ragged = &events},
    [IMAGE] = {.name = "image", .dtype = DTYPE_UINT8, .rank = 2, .shape = {8, 5}},
    [IMAGE_CROP] = {.name = "image.crop",
                    .dtype = DTYPE_INT32,
                    .rank = 1,
                    .shape = {1},
                    .source = FIELD_MADE,
                    .made = MADE_CROP,
                    .made_for = IMAGE},
    [TOKENS] = {.name = "tokens", .dtype = DTYPE_INT32, .rank = 1, .shape = {12}},
};
static struct dataset dataset = {.field_count = FIELDS, .fields = fields};

#define MESH "delivery: {trainers: 8, mesh: [pp: 2, dp: 2, cp: 2], data: [dp]}\n"

/* A configuration with these sections `cuts` and `fields`. */
static struct config make_config(const char *cuts, const char *rules)
{
    struct config config;
    struct error err;
    struct text text = {0};
    text_append(&text, "dataset: {uri: /a.zarr, cuts: {%s}, fields: {%s}}\n" MESH, cuts, rules);
    assert_int_equal(config_init(&config, NULL), STATUS_OK);
    if (config_read_text(&config, text.data, text.length, "test", NULL, &err) != STATUS_OK ||
        config_check(&config, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    text_done(&text);
    return config;
}

static struct shares settle(const struct config *config)
{
    struct shares shares;
    struct error err;
    fields[ACTION].dtype = DTYPE_FLOAT32;
    if (shares_settle(config, &dataset, &shares, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return shares;
}

static struct ring_member describe(struct shares *shares, uint32_t rank)
{
    struct ring_member member = {0};
    shares_describe(shares, rank, &member);
    return member;
}

static bool has(const struct ring_member *member, size_t field)
{
    return member->fields >> field & 1;
}

/* What is said of a field goes for what comes beside it. */
static void who_has_what(void **state)
{
    (void)state;
    struct config config = make_config(
        "", "action: {array: a, only: {pp: first}}, e: {array: e, only: {cp: 1, pp: [0, 1]}}, "
            "image: {array: i, only: {pp: last, cp: [0]}}, tokens: {array: t}");
    struct shares shares = settle(&config);
    for (uint32_t rank = 0; rank < 8; rank++) {
        struct ring_member member = describe(&shares, rank);
        uint32_t pp = rank / 4, cp = rank % 2;
        assert_int_equal(has(&member, ACTION), pp == 0);
        assert_int_equal(has(&member, ACTION_VALID), pp == 0);
        assert_int_equal(has(&member, E_I), cp == 1);
        assert_int_equal(has(&member, E_V), cp == 1);
        assert_int_equal(has(&member, E_OFFSETS), cp == 1);
        assert_int_equal(has(&member, IMAGE), pp == 1 && cp == 0);
        assert_int_equal(has(&member, IMAGE_CROP), pp == 1 && cp == 0);
        assert_true(has(&member, TOKENS));
    }
    config_done(&config);
}

/* Two axes of a field: the first one is slower, in whatever order they are written. */
static void parts(void **state)
{
    (void)state;
    struct config config = make_config(
        "seq: {over: cp, order: zigzag}, time: {over: pp}",
        "action: {array: a, cut: {1: seq, 0: time}}, tokens: {array: t, cut: {0: seq}}");
    struct shares shares = settle(&config);
    assert_int_equal(shares_part_count(&shares, ACTION), 4);
    assert_int_equal(shares_part_count(&shares, ACTION_VALID), 2); /* cut as the steps are */
    assert_int_equal(shares_part_count(&shares, TOKENS), 2);
    assert_int_equal(shares_part_count(&shares, IMAGE), 0);
    for (uint32_t rank = 0; rank < 8; rank++) {
        struct ring_member member = describe(&shares, rank);
        uint32_t pp = rank / 4, cp = rank % 2;
        assert_int_equal(member.parts[ACTION], 2 * pp + cp);
        assert_int_equal(member.parts[ACTION_VALID], pp);
        assert_int_equal(member.parts[TOKENS], cp);
    }
    struct cut_run run = shares_run_of(&shares, ACTION, 0, 3);
    assert_int_equal(run.begin, 2);
    assert_int_equal(run.length, 2);
    run = shares_run_of(&shares, ACTION, 1, 3);
    assert_int_equal(run.begin, 3);
    assert_int_equal(run.second, 6);
    assert_int_equal(run.length, 3);
    config_done(&config);
}

static struct ring_layout lay_out(const struct shares *shares)
{
    struct ring_layout layout = {.field_count = FIELDS, .slot_count = 2, .batch_size = 3};
    for (size_t f = 0; f < FIELDS; f++) {
        struct ring_field *field = &layout.fields[f];
        strcpy(field->name, fields[f].name);
        field->dtype = fields[f].dtype;
        field->rank = (uint32_t)fields[f].rank;
        memcpy(field->shape, fields[f].shape, sizeof field->shape);
        field->kind = fields[f].source == FIELD_RAGGED ? RING_ITEMS
                      : f == E_OFFSETS                 ? RING_OFFSETS
                                                       : RING_SAMPLES;
        field->capacity = fields[f].source == FIELD_RAGGED ? 10 : 0;
        field->offsets_field = fields[f].source == FIELD_RAGGED ? E_OFFSETS : 0;
    }
    shares_lay_out(shares, &layout);
    return layout;
}

static void layouts(void **state)
{
    (void)state;
    struct config config = make_config(
        "seq: {over: cp}, time: {over: pp}",
        "action: {array: a, cut: {0: time, 1: seq}}, image: {array: i, only: {pp: last}}");
    struct shares shares = settle(&config);
    struct ring_layout whole = lay_out(&shares), some = whole;
    struct error err;
    assert_int_equal(whole.part_count, 6);
    assert_int_equal(whole.fields[ACTION_VALID].first_part, 4);
    if (ring_layout_settle(&whole, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(whole.parts[3].sample_bytes, 2 * 6 * 4);
    assert_int_equal(whole.parts[5].begins[0], 2);

    struct needs needs = {0};
    needs_add(&shares, 1, &needs); /* pp 0, dp 0, cp 1: part 1 of 4, and no image */
    needs_lay_out(&needs, &some);
    assert_int_equal(ring_layout_settle(&some, &err), STATUS_OK);
    assert_true(some.fields[IMAGE].is_absent);
    assert_true(some.fields[IMAGE_CROP].is_absent);
    for (uint32_t p = 0; p < 4; p++)
        assert_int_equal(some.parts[p].is_absent, p != 1);
    assert_false(some.parts[4].is_absent);
    assert_true(some.parts[5].is_absent);
    struct ring_member member = {.rank = 1, .is_there = 1};
    shares_describe(&shares, 1, &member);
    assert_true(ring_member_makes_sense(&some, &member));
    struct ring_layout own;
    ring_layout_of_member(&some, &member, &own);
    assert_int_equal(own.field_count, FIELDS - 2);
    assert_int_equal(own.fields[0].shape[0], 2);
    assert_int_equal(own.fields[0].shape[1], 6);
    assert_int_equal(own.fields[0].slot_offset, some.parts[1].slot_offset);
    assert_int_equal(own.fields[2].offsets_field, E_OFFSETS);
    shares_describe(&shares, 4, &member); /* another part, and the image: they are not there */
    assert_false(ring_member_makes_sense(&some, &member));
    config_done(&config);
}

static void classes_of_readers(void **state)
{
    (void)state;
    struct config config =
        make_config("seq: {over: cp}", "tokens: {array: t, cut: {0: seq}, only: {pp: first}}");
    struct shares shares = settle(&config);
    struct need_classes classes;
    assert_int_equal(need_classes_init(&classes, &shares, 2, NULL, NULL), STATUS_OK);
    assert_int_equal(classes.count, 2); /* a stage each */
    assert_true(needs_field(&classes.needs[classes.of[0]], TOKENS));
    assert_false(needs_field(&classes.needs[classes.of[1]], TOKENS));
    assert_true(
        needs_field(&classes.needs[classes.of[1]], E_V)); /* ragged fields travel together */
    assert_true(needs_part(&classes.needs[classes.of[0]], shares.first_parts[TOKENS] + 1));
    need_classes_done(&classes);

    static const uint32_t in_turn[8] = {0, 1, 0, 1, 0, 1, 0, 1}; /* cp 0, and cp 1 */
    assert_int_equal(need_classes_init(&classes, &shares, 2, in_turn, NULL), STATUS_OK);
    assert_int_equal(classes.count, 2);
    for (uint32_t reader = 0; reader < 2; reader++)
        for (uint32_t part = 0; part < 2; part++)
            assert_int_equal(
                needs_part(&classes.needs[classes.of[reader]], shares.first_parts[TOKENS] + part),
                part == reader);
    need_classes_done(&classes);
    assert_int_equal(need_classes_init(&classes, &shares, 4, NULL, NULL), STATUS_OK);
    assert_int_equal(classes.count, 2); /* two readers a stage, with one group each */
    assert_int_equal(classes.of[0], classes.of[1]);
    assert_int_equal(classes.of[2], classes.of[3]);
    need_classes_done(&classes);
    config_done(&config);
}

/* The message says which field, which axis and cut, and what is wrong. */
static void what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *cuts, *rules, *said;
    } wrong[] = {
        {"c: {over: cp}", "image: {array: i, cut: {1: c}}",
         "dataset.fields.image.cut.1 (c): 5 indices are not a multiple of 2 parts; write split: "
         "chunk (as torch.chunk), split: even, or sizes"},
        {"c: {over: [cp, pp], order: zigzag}", "tokens: {array: t, cut: {0: c}}",
         "dataset.fields.tokens.cut.0 (c): 12 indices are not a multiple of 8, two for each part"},
        {"c: {over: cp, split: [7, 6]}", "tokens: {array: t, cut: {0: c}}",
         "(c): the sizes of split add up to 13, and there are 12 indices"},
        {"c: {over: cp}", "image: {array: i, cut: {0: c}}, tokens: {array: t, cut: {0: c}}",
         "dataset.fields.tokens.cut.0 (c): 'tokens' has 12 indices there, and 'image' has 8 along "
         "its axis 0, with the same cut: write a cut for each length"},
        {"c: {over: cp}", "tokens: {array: t, cut: {1: c}}",
         "dataset.fields.tokens.cut.1 (c): samples of 'tokens' have no such axis: they have 1"},
        {"c: {over: cp}", "e: {array: e, cut: {0: c}}", "dataset.fields.e.cut.0 (c): "},
        {"c: {over: cp}", "labels: {array: l, cut: {0: c}}",
         "dataset.fields.labels.cut.0 (c): there is no such field"},
        {"", "labels: {array: l, only: {pp: 0}}",
         "dataset.fields.labels.only.pp: there is no such field"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct config config = make_config(wrong[i].cuts, wrong[i].rules);
        struct shares shares;
        struct error err = {0};
        assert_int_equal(shares_settle(&config, &dataset, &shares, &err), STATUS_INVALID);
        if (!strstr(err.message, wrong[i].said))
            fail_msg("%s; %s: '%s' does not say '%s'", wrong[i].cuts, wrong[i].rules, err.message,
                     wrong[i].said);
        config_done(&config);
    }
}

static void more_parts_than_a_ring_holds(void **state)
{
    (void)state;
    struct config config;
    struct shares shares;
    struct error err = {0};
    static const char text[] =
        "dataset: {uri: /a.zarr, cuts: {c: {over: tp, split: chunk}, d: {over: tp, split: chunk}},"
        " fields: {image: {array: i, cut: {0: c, 1: d}}}}\n"
        "delivery: {trainers: 17, mesh: [tp: 17, dp: 1], data: [dp]}\n";
    assert_int_equal(config_init(&config, NULL), STATUS_OK);
    assert_int_equal(config_read_text(&config, text, strlen(text), "test", NULL, NULL), STATUS_OK);
    assert_int_equal(shares_settle(&config, &dataset, &shares, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "all fields together have 289 parts; a ring holds 256"));
    config_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_what),      cmocka_unit_test(parts),
        cmocka_unit_test(layouts),           cmocka_unit_test(classes_of_readers),
        cmocka_unit_test(what_does_not_fit), cmocka_unit_test(more_parts_than_a_ring_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
