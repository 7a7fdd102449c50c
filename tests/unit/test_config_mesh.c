/* Meshes, cuts, and who has which field, in the configuration: all forms, from YAML and from --set,
 * and back; and what is refused, with what the message says. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status read_text(const char *text, struct config *ret_config, struct error *err)
{
    assert_int_equal(config_init(ret_config, NULL), STATUS_OK);
    enum status status = config_read_text(ret_config, text, strlen(text), "run.yaml", NULL, err);
    return status == STATUS_OK ? config_check(ret_config, err) : status;
}

static struct config read_yaml(const char *text)
{
    struct config config;
    struct error err = {0};
    if (read_text(text, &config, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return config;
}

#define DATASET "dataset: {uri: /a.zarr}\n"

static void check_mesh(const struct config *config)
{
    struct mesh mesh;
    assert_int_equal(config_mesh(config, &mesh, NULL), STATUS_OK);
    assert_int_equal(mesh.axis_count, 3);
    assert_string_equal(mesh.axes[0].name, "pp");
    assert_int_equal(mesh.axes[0].size, 2);
    assert_int_equal(mesh.axes[0].divides, 0);
    assert_int_equal(mesh.axes[1].divides, 1);
    assert_int_equal(mesh.axes[2].size, 2);
    assert_int_equal(config_group_count(config), 4);
}

static void forms_of_a_mesh(void **state)
{
    (void)state;
    static const char *const forms[] = {
        DATASET "delivery: {trainers: 16, mesh: [pp: 2, dp: 4, tp: 2], data: [dp]}\n",
        DATASET "delivery: {trainers: 16, mesh: [{pp: 2}, {dp: 4}, {tp: 2}], data: dp}\n",
        DATASET "delivery: {trainers: 16, mesh: {pp: 2, dp: 4, tp: 2}, data: dp}\n",
        DATASET "delivery: {trainers: 16, mesh: ['pp:2', 'dp:4', 'tp:2'], data: [dp]}\n",
        DATASET "delivery: {trainers: 16, mesh: 'pp:2,dp:4,tp:2', data: 'dp'}\n",
        DATASET "delivery:\n  trainers: 16\n  mesh:\n  - pp: 2\n  - dp: 4\n  - tp: 2\n"
                "  data:\n  - dp\n",
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct config config = read_yaml(forms[i]);
        check_mesh(&config);
        config_done(&config);
    }
}

static void without_a_mesh(void **state)
{
    (void)state;
    struct config config = read_yaml(DATASET "delivery: {trainers: 4}\n");
    struct mesh mesh;
    assert_int_equal(config_mesh(&config, &mesh, NULL), STATUS_OK);
    assert_int_equal(mesh.axis_count, 0);
    assert_int_equal(config_group_count(&config), 4);
    config_done(&config);
}

static const char all_forms[] =
    "dataset:\n"
    "  uri: /a.zarr\n"
    "  cuts:\n"
    "    seq: {over: cp, order: zigzag}\n"
    "    'lat, of 5': {over: [cp, tp], split: [1, 2, 0, 2]}\n"
    "    rest: {over: [tp], split: even}\n"
    "  fields:\n"
    "    labels: {array: labels, cut: {0: seq}, only: {pp: last}}\n"
    "    tokens: {array: tokens, cut: {0: seq}, only: {pp: [0, 1], tp: [first, 1]}}\n"
    "    x: {array: x, cut: {latitude: 'lat, of 5', 1: rest}}\n"
    "    y: {array: x}\n"
    "delivery: {trainers: 16, mesh: [pp: 2, dp: 2, cp: 2, tp: 2], data: [dp]}\n"
    "batch: {global_size: 4}\n";

static const struct config_share *find_share(const struct config *config, const char *field,
                                             const char *key)
{
    size_t count;
    const struct config_share *shares = config_shares(config, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(shares[i].field, field) == 0 && strcmp(shares[i].key, key) == 0)
            return &shares[i];
    fail_msg("%s has nothing for %s", field, key);
    return NULL;
}

static void check_all(const struct config *config)
{
    struct mesh mesh;
    struct cut cut;
    size_t count;
    assert_int_equal(config_mesh(config, &mesh, NULL), STATUS_OK);
    assert_int_equal(config->cut_count, 3);
    assert_int_equal(config_parse_cut(&config->cuts[0], &mesh, &cut, NULL), STATUS_OK);
    assert_int_equal(cut.order, CUT_ZIGZAG);
    assert_int_equal(cut.part_count, 2);
    assert_string_equal(config->cuts[1].name, "lat, of 5");
    assert_int_equal(config_parse_cut(&config->cuts[1], &mesh, &cut, NULL), STATUS_OK);
    assert_int_equal(cut.part_count, 4);
    assert_int_equal(cut.split, CUT_SIZES);
    assert_int_equal(cut.sizes[3], 2);
    assert_int_equal(config_parse_cut(&config->cuts[2], &mesh, &cut, NULL), STATUS_OK);
    assert_int_equal(cut.split, CUT_EVEN);
    config_shares(config, &count);
    assert_int_equal(count, 7);
    assert_string_equal(find_share(config, "labels", "0")->value, "seq");
    assert_true(find_share(config, "labels", "0")->is_cut);
    assert_false(find_share(config, "labels", "pp")->is_cut);
    assert_string_equal(find_share(config, "labels", "pp")->value, "last");
    assert_string_equal(find_share(config, "x", "latitude")->value, "lat, of 5");
    assert_true(config_has_coordinate(find_share(config, "tokens", "tp")->value, 2, 0));
    assert_true(config_has_coordinate(find_share(config, "tokens", "tp")->value, 2, 1));
    assert_false(config_has_coordinate(find_share(config, "labels", "pp")->value, 2, 0));
    assert_true(config_has_coordinate(find_share(config, "labels", "pp")->value, 2, 1));
}

static void printed_and_read_again(void **state)
{
    (void)state;
    struct config config = read_yaml(all_forms);
    check_all(&config);
    struct text first = {0}, second = {0};
    config_print(&config, &first);
    struct config again = read_yaml(first.data);
    check_all(&again);
    config_print(&again, &second);
    assert_string_equal(first.data, second.data);
    text_done(&first);
    text_done(&second);
    config_done(&config);
    config_done(&again);
}

static void set_one_by_one(void **state)
{
    (void)state;
    static const char *const assignments[] = {
        "dataset.uri=/a.zarr",
        "dataset.cuts.seq.over=cp",
        "dataset.cuts.seq.order=zigzag",
        "dataset.cuts.lat, of 5.over=[cp,tp]",
        "dataset.cuts.lat, of 5.split=9,9",
        "dataset.cuts.lat, of 5.split=[1,2,0,2]", /* the last one counts */
        "dataset.cuts.rest.over=tp",
        "dataset.cuts.rest.split=even",
        "dataset.fields.labels.cut.0=seq",
        "dataset.fields.labels.only.pp=last",
        "dataset.fields.tokens.cut.0=seq",
        "dataset.fields.tokens.only.pp=[0,1]",
        "dataset.fields.tokens.only.tp=first,1",
        "dataset.fields.x.cut.latitude=lat, of 5",
        "dataset.fields.x.cut.1=seq",
        "dataset.fields.x.cut.1=rest",
        "dataset.fields.y=x",
        "delivery.trainers=16",
        "delivery.mesh=pp:2,dp:2,cp:2,tp:2",
        "delivery.data=dp",
        "batch.global_size=4",
    };
    struct config config;
    struct error err = {0};
    assert_int_equal(config_init(&config, &err), STATUS_OK);
    for (size_t i = 0; i < sizeof assignments / sizeof assignments[0]; i++)
        if (config_set(&config, assignments[i], &err) != STATUS_OK)
            fail_msg("%s", err.message);
    if (config_check(&config, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    check_all(&config);
    config_done(&config);
}

/* A field that is given anew has what is said of it now alone. */
static void a_field_is_given_anew(void **state)
{
    (void)state;
    struct config config = read_yaml(all_forms);
    struct error err;
    size_t count;
    assert_int_equal(config_set(&config, "dataset.fields.tokens=other", &err), STATUS_OK);
    config_shares(&config, &count);
    assert_int_equal(count, 4);
    config_done(&config);
}

static void coordinates(void **state)
{
    (void)state;
    assert_true(config_has_coordinate("first", 5, 0));
    assert_false(config_has_coordinate("first", 5, 4));
    assert_true(config_has_coordinate("last", 5, 4));
    assert_true(config_has_coordinate("last", 1, 0));
    assert_true(config_has_coordinate("1,3", 5, 3));
    assert_false(config_has_coordinate("1,3", 5, 2));
    assert_false(config_has_coordinate("", 5, 0));
}

#define MESH \
    "delivery: {trainers: 8, mesh: [pp: 2, dp: 2, tp: 2], data: [dp]}\nbatch: {global_size: 4}\n"
#define CUT(of) "dataset: {uri: /a.zarr, cuts: {c: " of "}}\n" MESH
#define FIELD(of) \
    "dataset: {uri: /a.zarr, cuts: {c: {over: tp}}, fields: {x: {array: x, " of "}}}\n" MESH

static void what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {DATASET "delivery: {trainers: 6, mesh: [dp: 2, tp: 2], data: [dp]}\n",
         "delivery.mesh has 4 ranks, the product of its sizes, and delivery.trainers is 6"},
        {DATASET "delivery: {trainers: 4, mesh: [dp: 2, tp: 2], data: [sp]}\n",
         "delivery.data: delivery.mesh has no axis 'sp'"},
        {DATASET "delivery: {trainers: 4, mesh: [dp: 2, tp: 2], data: [dp, dp]}\n",
         "delivery.data: axis 'dp' is there twice"},
        {DATASET "delivery: {trainers: 4, mesh: [dp: 2, tp: 2]}\n",
         "delivery.mesh: write delivery.data, too"},
        {DATASET "delivery: {trainers: 4, mesh: [dp: 2, tp: 2], data: []}\n",
         "delivery.mesh: write delivery.data, too"},
        {DATASET "delivery: {trainers: 4, data: [dp]}\n",
         "delivery.data names axes of delivery.mesh, which is not given"},
        {DATASET "delivery: {trainers: 4, mesh: [dp: two, tp: 2], data: [dp]}\n",
         "'dp:two' is no axis; write NAME: SIZE, such as tp: 2"},
        {DATASET "delivery: {trainers: 4, mesh: [dp, tp], data: [dp]}\n", "'dp' is no axis"},
        {DATASET "delivery: {trainers: 4, mesh: [{dp: 2, tp: 2}], data: [dp]}\n",
         "delivery.mesh: an item of the list is no text"},
        {DATASET "delivery: {trainers: 8, mesh: [dp: 4, tp: 2], data: [dp]}\n"
                 "batch: {global_size: 3}\n",
         "batch.global_size 3 is less than delivery.mesh's groups, 4: a step has a sample for "
         "each; "
         "raise it to at least 4"},
        {CUT("{over: sp}"), "dataset.cuts.c: delivery.mesh has no axis 'sp'"},
        {CUT("{order: zigzag}"), "dataset.cuts.c: write over: the axis of delivery.mesh"},
        {CUT("{over: dp}"), "dataset.cuts.c: axis 'dp' divides the batch (delivery.data)"},
        {CUT("{over: [tp, tp]}"), "dataset.cuts.c: axis 'tp' is there twice"},
        {CUT("{over: tp, order: snake}"), "dataset.cuts.c: order: 'snake' is no choice"},
        {CUT("{over: tp, split: [1, 2, 3]}"), "dataset.cuts.c: split: 3 sizes, and there are 2"},
        {CUT("{over: tp, order: zigzag, split: even}"), "zigzag takes pieces of one length"},
        {CUT("{across: tp}"), "unknown key 'dataset.cuts.c.across': a cut has over, order, split"},
        {CUT("tp"), "dataset.cuts.c must be a map such as {over: cp}"},
        {DATASET "  cuts: [c]\n", ""},
        {FIELD("cut: {0: d}"), "dataset.fields.x.cut.0: dataset.cuts has no cut 'd'"},
        {FIELD("cut: c"), "dataset.fields.x.cut"},
        {FIELD("only: {sp: 0}"), "dataset.fields.x.only.sp: delivery.mesh has no axis 'sp'"},
        {FIELD("only: {pp: 2}"),
         "dataset.fields.x.only.pp: '2' is no coordinate along axis 'pp': 0 to 1, first, or last"},
        {FIELD("only: {pp: [0, middle]}"), "'middle' is no coordinate along axis 'pp'"},
        {FIELD("only: {pp: []}"), "dataset.fields.x.only.pp: no trainer would have the field"},
        {"dataset: {uri: /a.zarr, fields: {x: {array: x, only: {pp: 0}}}}\n",
         "dataset.fields.x.only.pp: delivery.mesh has no axis 'pp'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct config config;
        struct error err = {0};
        assert_int_not_equal(read_text(wrong[i].text, &config, &err), STATUS_OK);
        if (!strstr(err.message, wrong[i].said))
            fail_msg("%s: '%s' does not say '%s'", wrong[i].text, err.message, wrong[i].said);
        config_done(&config);
    }
}

static void what_cannot_be_set(void **state)
{
    (void)state;
    static const struct {
        const char *assignment, *said;
    } wrong[] = {
        {"dataset.cuts.c=tp",
         "dataset.cuts.c is a map: write dataset.cuts.c.over, .order or .split"},
        {"dataset.cuts.c.across=tp", "unknown key 'dataset.cuts.c.across'"},
        {"dataset.cuts..over=tp", "the name of a cut is empty"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct config config;
        struct error err = {0};
        assert_int_equal(config_init(&config, NULL), STATUS_OK);
        assert_int_equal(config_set(&config, wrong[i].assignment, &err), STATUS_INVALID);
        if (!strstr(err.message, wrong[i].said))
            fail_msg("%s: '%s' does not say '%s'", wrong[i].assignment, err.message, wrong[i].said);
        config_done(&config);
    }
}

static void more_cuts_than_possible(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(config_init(&config, NULL), STATUS_OK);
    for (char name = 'a'; name < 'a' + CONFIG_MAX_CUTS; name++) {
        char assignment[] = "dataset.cuts.?.over=tp";
        *strchr(assignment, '?') = name;
        assert_int_equal(config_set(&config, assignment, &err), STATUS_OK);
    }
    assert_int_equal(config_set(&config, "dataset.cuts.z.over=tp", &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "dataset.cuts: more than 8 cuts"));
    config_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_of_a_mesh),         cmocka_unit_test(without_a_mesh),
        cmocka_unit_test(printed_and_read_again),  cmocka_unit_test(set_one_by_one),
        cmocka_unit_test(a_field_is_given_anew),   cmocka_unit_test(coordinates),
        cmocka_unit_test(what_is_refused),         cmocka_unit_test(what_cannot_be_set),
        cmocka_unit_test(more_cuts_than_possible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
