/* The hierarchy: consolidated or walked, arrays that cannot be read, attributes, packing. */
#include "zarr/hierarchy/hierarchy.h"

#include "zarr/hierarchy/attributes.h"
#include "zarr_documents.h"
#include "zarr_fixture.h"

static struct zarr_hierarchy *open_fixture(struct fixture *fixture)
{
    struct zarr_hierarchy *hierarchy;
    struct error err;
    assert_ok(zarr_hierarchy_open(fixture->store, &hierarchy, &err), &err);
    return hierarchy;
}

/* One document, an array for each member, also after packing. */
static void test_members_in_a_hierarchy(void **state)
{
    struct fixture *fixture = *state;
    struct zarr_hierarchy *hierarchy, *unpacked;
    struct text text = {0}, packed = {0};
    struct error err;
    text_append(&text,
                "{\"zarr_format\": 2, \"shape\": [4], \"chunks\": [2], \"dtype\": %s, \"order\": "
                "\"C\", \"compressor\": null, \"fill_value\": %s, \"filters\": null}",
                record_type, record_fill);
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    fixture_put(fixture, "a/.zarray", text.data);
    hierarchy = open_fixture(fixture);
    assert_int_equal(hierarchy->node_count, 3);
    assert_string_equal(hierarchy->nodes[0].array.path, "a.p");
    assert_string_equal(hierarchy->nodes[1].array.path, "a.tag");
    assert_string_equal(hierarchy->nodes[2].array.path, "a.x");
    zarr_hierarchy_pack(hierarchy, &packed);
    assert_ok(zarr_hierarchy_unpack(packed.data, packed.length, &unpacked, &err), &err);
    assert_int_equal(unpacked->node_count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(&unpacked->nodes[i].array, &hierarchy->nodes[i].array,
                            sizeof unpacked->nodes[i].array);
    zarr_hierarchy_free(unpacked);
    zarr_hierarchy_free(hierarchy);
    text_done(&packed);
    text_done(&text);
}

static void check_two_arrays(const struct zarr_hierarchy *hierarchy)
{
    assert_int_equal(hierarchy->node_count, 2);
    assert_string_equal(hierarchy->nodes[0].array.path, "g/bad");
    assert_int_equal(hierarchy->nodes[0].status, STATUS_CORRUPT);
    assert_non_null(strstr(hierarchy->nodes[0].reason, "'shape' is missing"));
    assert_string_equal(hierarchy->nodes[1].array.path, "x");
    assert_int_equal(hierarchy->nodes[1].status, STATUS_OK);
    assert_null(hierarchy->nodes[1].reason);
    assert_ptr_equal(zarr_hierarchy_find(hierarchy, "x"), &hierarchy->nodes[1]);
    assert_ptr_equal(zarr_hierarchy_find(hierarchy, "/x"), &hierarchy->nodes[1]);
    assert_null(zarr_hierarchy_find(hierarchy, "y"));
}

/* "x", and "g/bad", which has no shape. */
struct documents {
    char *good, *bad;
};

static struct documents documents_of(enum zarr_format format)
{
    return (struct documents){document_of(format, NULL, NULL), document_of(format, "shape", NULL)};
}

static void check_fixture(struct fixture *fixture, struct documents documents, bool consolidated)
{
    struct zarr_hierarchy *hierarchy = open_fixture(fixture);
    check_two_arrays(hierarchy);
    assert_int_equal(hierarchy->consolidated, consolidated);
    zarr_hierarchy_free(hierarchy);
    free(documents.good);
    free(documents.bad);
}

static void test_walk_v2(void **state)
{
    struct documents documents = documents_of(ZARR_V2);
    fixture_put(*state, ".zgroup", "{\"zarr_format\": 2}");
    fixture_put(*state, "x/.zarray", documents.good);
    fixture_put(*state, "x/0.0", "a chunk");
    fixture_put(*state, "g/.zgroup", "{\"zarr_format\": 2}");
    fixture_put(*state, "g/bad/.zarray", documents.bad);
    fixture_put(*state, "no_group/y/.zarray", documents.good);
    check_fixture(*state, documents, false);
}

static void test_consolidated_v2(void **state)
{
    struct documents documents = documents_of(ZARR_V2);
    struct text all = {0};
    text_append(
        &all,
        "{\"zarr_consolidated_format\": 1, \"metadata\": {\".zgroup\": {}, \"x/.zarray\": %s, "
        "\"x/.zattrs\": {\"a\": NaN}, \"g/.zgroup\": {}, \"g/bad/.zarray\": %s}}",
        documents.good, documents.bad);
    fixture_put(*state, ".zmetadata", all.data);
    check_fixture(*state, documents, true);
    text_done(&all);
}

static void test_walk_v3(void **state)
{
    static const char group[] = "{\"zarr_format\": 3, \"node_type\": \"group\", "
                                "\"consolidated_metadata\": null}";
    struct documents documents = documents_of(ZARR_V3);
    fixture_put(*state, "zarr.json", group);
    fixture_put(*state, "x/zarr.json", documents.good);
    fixture_put(*state, "x/c/0/0", "a chunk");
    fixture_put(*state, "g/zarr.json", group);
    fixture_put(*state, "g/bad/zarr.json", documents.bad);
    check_fixture(*state, documents, false);
}

static void test_consolidated_v3(void **state)
{
    struct documents documents = documents_of(ZARR_V3);
    struct text all = {0};
    text_append(
        &all,
        "{\"zarr_format\": 3, \"node_type\": \"group\", \"consolidated_metadata\": {\"kind\": "
        "\"inline\", \"must_understand\": false, \"metadata\": {\"g\": {\"zarr_format\": 3, "
        "\"node_type\": \"group\"}, \"g/bad\": %s, \"x\": %s}}}",
        documents.bad, documents.good);
    fixture_put(*state, "zarr.json", all.data);
    check_fixture(*state, documents, true);
    text_done(&all);
}

static void test_root_array(void **state)
{
    char *good = document_of(ZARR_V3, NULL, NULL);
    fixture_put(*state, "zarr.json", good);
    struct zarr_hierarchy *hierarchy = open_fixture(*state);
    assert_int_equal(hierarchy->node_count, 1);
    assert_ptr_equal(zarr_hierarchy_find(hierarchy, ""), &hierarchy->nodes[0]);
    assert_int_equal(hierarchy->nodes[0].status, STATUS_OK);
    zarr_hierarchy_free(hierarchy);
    free(good);
}

/* What a store without metadata looks like is named, with what to do. */
static void test_stores_of_other_formats(void **state)
{
    static const struct {
        const char *keys[3], *message; /* each in a folder of its own */
    } cases[] = {{{"refs/branch.main/ref.json", "snapshots/A"}, "an Icechunk repository"},
                 {{"repo", "snapshots/A"}, "an Icechunk repository"},
                 {{"attributes.json", "x/0/0"}, "an N5 container"},
                 {{"meta", "attrs", "0.0"}, "an array of Zarr version 1"},
                 {{"x.parquet"}, "'penstock import parquet'"},
                 {{"0.0", "0.1"}, "chunks without their metadata document"},
                 {{"c/0/0"}, "chunks without their metadata document"},
                 {{"a.zarr/zarr.json", "b/.zgroup", "c.zarr.zip"}, "/a.zarr', '"}};
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_hierarchy *hierarchy;
        struct store *store;
        struct error err;
        char path[256], key[128];
        for (size_t k = 0; k < 3 && cases[i].keys[k]; k++) {
            snprintf(key, sizeof key, "case%zu/%s", i, cases[i].keys[k]);
            assert_int_equal(store_put(fixture->store, key, "", 0, &err), STATUS_OK);
        }
        snprintf(path, sizeof path, "%s/case%zu", store_uri(fixture->store), i);
        assert_int_equal(store_open(path, &store, &err), STATUS_OK);
        assert_int_equal(zarr_hierarchy_open(store, &hierarchy, &err), STATUS_NOT_FOUND);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].message, err.message);
        store_free(store);
    }
}

static void test_bad_roots(void **state)
{
    static const struct {
        const char *key, *text;
        enum status status;
        const char *message;
    } cases[] = {
        {"else", "", STATUS_NOT_FOUND, "no Zarr array or group there"},
        {".zmetadata", "{", STATUS_CORRUPT, "'.zmetadata': not valid JSON"},
        {".zmetadata", "{\"zarr_consolidated_format\": 2}", STATUS_UNSUPPORTED, "is 2, expected 1"},
        {".zmetadata", "{\"zarr_consolidated_format\": 1, \"metadata\": {\"../x/.zarray\": {}}}",
         STATUS_CORRUPT, "'../x' is not a path"},
        {".zmetadata", "{\"zarr_consolidated_format\": 1, \"metadata\": {\"/x/.zarray\": {}}}",
         STATUS_CORRUPT, "'/x' is not a path"},
        {".zmetadata", "{\"zarr_consolidated_format\": 1, \"metadata\": {\"x//y/.zarray\": {}}}",
         STATUS_CORRUPT, "'x//y' is not a path"},
        {".zmetadata", "{\"metadata\": {}, \"record_size\": 100}", STATUS_UNSUPPORTED,
         "kerchunk's references"},
        {"zarr.json", "\n<html>", STATUS_CORRUPT, "'zarr.json': an HTML or XML page"},
        {"zarr.json", "nonsense", STATUS_CORRUPT, "'zarr.json': not valid JSON"},
        {"zarr.json",
         "{\"node_type\": \"group\", \"consolidated_metadata\": {\"metadata\": {\"x\": 1}}}",
         STATUS_CORRUPT, "metadata of 'x' is not an object"},
    };
    struct fixture *fixture = *state;
    struct zarr_hierarchy *hierarchy;
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_put(fixture, cases[i].key, cases[i].text);
        enum status status = zarr_hierarchy_open(fixture->store, &hierarchy, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].message))
            fail_msg("%s: %s (%s)", cases[i].text, err.message, status_text(status));
    }
}

static void test_long_path(void **state)
{
    char name[600];
    struct text all = {0};
    struct zarr_hierarchy *hierarchy;
    struct error err;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    text_append(&all, "{\"zarr_consolidated_format\": 1, \"metadata\": {\"%s/.zarray\": {}}}",
                name);
    fixture_put(*state, ".zmetadata", all.data);
    assert_int_equal(zarr_hierarchy_open(((struct fixture *)*state)->store, &hierarchy, &err),
                     STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "more than 511 bytes"));
    text_done(&all);
}

/* Groups that cannot be listed keep nobody from the arrays. */
static void test_incomplete_groups(void **state)
{
    char *arrays[] = {document_of(ZARR_V2, NULL, NULL), document_of(ZARR_V3, NULL, NULL)};
    struct fixture *fixture = *state;
    char name[600];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int kind = 0; kind < 6; kind++) {
        const char *odd = kind % 3 == 0 ? name : "odd//path", *tail = kind < 3 ? "/.zgroup" : "";
        struct text all = {0};
        text_append(&all, kind < 3 ? "{\"zarr_consolidated_format\": 1, \"metadata\": {"
                                   : "{\"zarr_format\": 3, \"node_type\": \"group\", "
                                     "\"consolidated_metadata\": {\"metadata\": {");
        for (int i = 0; kind % 3 == 2 && i < ZARR_MAX_GROUPS + 1; i++)
            text_append(&all, "\"g%d%s\": {}, ", i, tail);
        if (kind % 3 != 2)
            text_append(&all, "\"%s%s\": {}, ", odd, tail);
        text_append(&all, "\"x%s\": %s}}%s", kind < 3 ? "/.zarray" : "", arrays[kind / 3],
                    kind < 3 ? "" : "}");
        fixture_put(fixture, kind < 3 ? ".zmetadata" : "zarr.json", all.data);
        struct zarr_hierarchy *hierarchy = open_fixture(fixture);
        assert_int_equal(hierarchy->node_count, 1);
        assert_int_equal(hierarchy->nodes[0].status, STATUS_OK);
        assert_true(hierarchy->groups_incomplete);
        zarr_hierarchy_free(hierarchy);
        text_done(&all);
    }
    free(arrays[0]);
    free(arrays[1]);
}

/* CF has two names for some calendars. */
static void test_calendars_of_two_names(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {{"standard", "gregorian", true}, {"365_day", "noleap", true},
                 {"all_leap", "366_day", true},   {"standard", "proleptic_gregorian", false},
                 {"365_day", "366_day", false},   {"standard", "Gregorian", true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_encoding a = {0}, b = {0};
        const char *of_a, *of_b;
        strcpy(a.calendar, cases[i].a);
        strcpy(b.calendar, cases[i].b);
        assert_int_equal(!zarr_encoding_conflict(&a, &b, &of_a, &of_b), cases[i].same);
        assert_int_equal(!zarr_encoding_conflict(&b, &a, &of_b, &of_a), cases[i].same);
    }
}

/* Of 62 letters and a sign of two bytes there is room for 63 bytes. */
static void test_long_units_are_cut_between_characters(void **state)
{
    char letters[63] = "", document[256];
    struct zarr_encoding encoding;
    (void)state;
    memset(letters, 'm', sizeof letters - 1);
    int length = snprintf(document, sizeof document, "{\"attributes\": {\"units\": \"%s\u00b0C\"}}",
                          letters);
    const struct zarr_node node = {.document = document, .document_bytes = (size_t)length};
    zarr_node_encoding(&node, &encoding);
    assert_string_equal(encoding.units, letters);
}

/* Attributes that cannot be read, here a folder, say nothing. */
static void test_unreadable_attributes(void **state)
{
    char *good = document_of(ZARR_V2, NULL, NULL);
    fixture_put(*state, ".zgroup", "{}");
    fixture_put(*state, "x/.zarray", good);
    fixture_put(*state, "x/.zattrs/folder", "");
    struct zarr_hierarchy *hierarchy = open_fixture(*state);
    assert_int_equal(hierarchy->node_count, 1);
    assert_int_equal(hierarchy->nodes[0].status, STATUS_OK);
    assert_false(hierarchy->groups_incomplete);
    zarr_hierarchy_free(hierarchy);
    free(good);
}

/* Every cut of a packed hierarchy is refused; the whole gives the same one again. */
static void test_pack(void **state)
{
    char *good = document_of(ZARR_V2, NULL, NULL);
    struct zarr_hierarchy *hierarchy, *copy;
    struct text packed = {0};
    struct error err;
    fixture_put(*state, ".zgroup", "{}");
    fixture_put(*state, "x/.zarray", good);
    hierarchy = open_fixture(*state);
    zarr_hierarchy_pack(hierarchy, &packed);
    for (size_t size = 0; size < packed.length; size++)
        assert_int_equal(zarr_hierarchy_unpack(packed.data, size, &copy, &err), STATUS_CORRUPT);
    assert_ok(zarr_hierarchy_unpack(packed.data, packed.length, &copy, &err), &err);
    assert_int_equal(copy->node_count, 1);
    assert_memory_equal(copy->nodes[0].array.shape, hierarchy->nodes[0].array.shape,
                        sizeof copy->nodes[0].array.shape);
    assert_string_equal(copy->nodes[0].document, good);
    zarr_hierarchy_free(copy);
    zarr_hierarchy_free(hierarchy);
    text_done(&packed);
    free(good);
}

#define in_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_store(test_members_in_a_hierarchy),
        in_store(test_walk_v2),
        in_store(test_consolidated_v2),
        in_store(test_walk_v3),
        in_store(test_consolidated_v3),
        in_store(test_root_array),
        in_store(test_stores_of_other_formats),
        in_store(test_bad_roots),
        in_store(test_long_path),
        in_store(test_incomplete_groups),
        cmocka_unit_test(test_calendars_of_two_names),
        cmocka_unit_test(test_long_units_are_cut_between_characters),
        in_store(test_unreadable_attributes),
        in_store(test_pack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
