/* Meshes: coordinates and groups of all meshes of a few sizes against loops over the axes, how
 * groups spread over readers against a search, and what is no mesh. */
#include "mesh/mesh.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_RANKS = 3 * 3 * 3 * 3 };

static struct mesh parse(const char *axes, const char *data, uint32_t ranks)
{
    struct mesh mesh;
    struct error err;
    if (mesh_parse(axes, data, ranks, &mesh, &err) != STATUS_OK)
        fail_msg("%s, %s: %s", axes, data, err.message);
    return mesh;
}

/* Axes a, b, c, d of 1 to 3 coordinates each, of which those in `divides` divide the batch. */
static struct mesh make(const uint32_t sizes[4], unsigned divides)
{
    struct mesh mesh = {.rank_count = 1, .axis_count = 4};
    for (uint32_t a = 0; a < 4; a++) {
        mesh.axes[a] = (struct mesh_axis){
            .name = {(char)('a' + a)}, .size = sizes[a], .divides = divides >> a & 1};
        mesh.rank_count *= sizes[a];
    }
    return mesh;
}

/* Where a rank is: coordinates, group, and whether it is the first there. */
struct place {
    uint32_t at[4], group;
    bool leads;
};

/* By four loops: the last axis is fastest, and groups are numbered as they come. */
static void find_places(const struct mesh *mesh, struct place places[MOST_RANKS])
{
    uint32_t rank = 0, at[4], sizes[4], groups = 0, known[MOST_RANKS];
    for (uint32_t a = 0; a < 4; a++)
        sizes[a] = mesh->axes[a].size;
    for (at[0] = 0; at[0] < sizes[0]; at[0]++)
        for (at[1] = 0; at[1] < sizes[1]; at[1]++)
            for (at[2] = 0; at[2] < sizes[2]; at[2]++)
                for (at[3] = 0; at[3] < sizes[3]; at[3]++) {
                    uint32_t key = 0, group = 0;
                    for (uint32_t a = 0; a < 4; a++)
                        key = 4 * key + (mesh->axes[a].divides ? at[a] : 0);
                    while (group < groups && known[group] != key)
                        group++;
                    places[rank] = (struct place){.group = group, .leads = group == groups};
                    memcpy(places[rank].at, at, sizeof at);
                    if (group == groups)
                        known[groups++] = key;
                    rank++;
                }
    assert_int_equal(rank, mesh->rank_count);
}

/* By search: the ranks of each block, and each pair of a group and a block. */
static void find_spread(const struct place *places, uint32_t ranks, uint32_t blocks,
                        uint32_t *ret_groups, uint32_t *ret_readers)
{
    static bool meets[MOST_RANKS][MOST_RANKS]; /* group, block */
    memset(meets, 0, sizeof meets);
    for (uint32_t rank = 0; rank < ranks; rank++)
        meets[places[rank].group][rank * blocks / ranks] = true;
    *ret_groups = *ret_readers = 1;
    for (uint32_t i = 0; i < MOST_RANKS; i++) {
        uint32_t groups = 0, readers = 0;
        for (uint32_t k = 0; k < MOST_RANKS; k++) {
            groups += meets[k][i];
            readers += meets[i][k];
        }
        *ret_groups = groups > *ret_groups ? groups : *ret_groups;
        *ret_readers = readers > *ret_readers ? readers : *ret_readers;
    }
}

static void check(const struct mesh *mesh)
{
    struct place places[MOST_RANKS];
    uint32_t groups = 0;
    find_places(mesh, places);
    assert_true(mesh_makes_sense(mesh));
    assert_int_equal(mesh_product(mesh), mesh->rank_count);
    for (uint32_t rank = 0; rank < mesh->rank_count; rank++) {
        uint32_t at[MESH_MAX_AXES];
        mesh_coordinates(mesh, rank, at);
        assert_memory_equal(at, places[rank].at, sizeof places[rank].at);
        assert_int_equal(mesh_rank_at(mesh, at), rank);
        assert_int_equal(mesh_group_of(mesh, rank), places[rank].group);
        assert_int_equal(mesh_leads(mesh, rank), places[rank].leads);
        groups += places[rank].leads;
    }
    assert_int_equal(mesh_group_count(mesh), groups);
    for (uint32_t blocks = 1; blocks <= 7; blocks++) {
        uint32_t most_groups, most_readers, found_groups, found_readers;
        find_spread(places, mesh->rank_count, blocks, &found_groups, &found_readers);
        assert_true(mesh_spread(mesh, blocks, &most_groups, &most_readers));
        assert_int_equal(most_groups, found_groups);
        assert_int_equal(most_readers, found_readers);
    }
}

static void all_small_meshes(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MOST_RANKS; i++) {
        uint32_t sizes[4] = {1 + i / 27, 1 + i / 9 % 3, 1 + i / 3 % 3, 1 + i % 3};
        for (unsigned divides = 0; divides < 16; divides++) {
            struct mesh mesh = make(sizes, divides);
            check(&mesh);
        }
    }
}

static void without_a_mesh_each_rank_is_a_group(void **state)
{
    (void)state;
    struct mesh mesh = parse("", "", 5);
    uint32_t groups, readers;
    assert_int_equal(mesh_group_count(&mesh), 5);
    for (uint32_t rank = 0; rank < 5; rank++) {
        assert_int_equal(mesh_group_of(&mesh, rank), rank);
        assert_true(mesh_leads(&mesh, rank));
    }
    assert_true(mesh_spread(&mesh, 2, &groups, &readers));
    assert_int_equal(groups, 3);
    assert_int_equal(readers, 1);
    assert_string_equal(mesh_name(&mesh, 3).text, "rank 3");
}

/* torchtitan's order, Megatron's default read backwards, and a data axis within a node. */
static void meshes_of_frameworks(void **state)
{
    (void)state;
    struct mesh mesh = parse("pp:2,dp:4,cp:2,tp:2", "dp", 32);
    assert_string_equal(mesh_name(&mesh, 21).text, "rank 21 (pp 1, dp 1, cp 0, tp 1)");
    assert_int_equal(mesh_group_count(&mesh), 4);
    assert_int_equal(mesh_group_of(&mesh, 21), 1);
    uint32_t groups, readers;
    assert_true(mesh_spread(&mesh, 4, &groups, &readers)); /* nodes of 8: half a stage each */
    assert_int_equal(groups, 2);
    assert_int_equal(readers, 2);
    mesh = parse("dp_replicate:2,dp_shard:3,tp:2", "dp_shard,dp_replicate", 12);
    assert_int_equal(mesh_group_count(&mesh), 6);
    assert_int_equal(mesh_group_of(&mesh, 11), 5);
    mesh = parse("all:1,tp:6", "all", 6);
    assert_int_equal(mesh_group_count(&mesh), 1);
    mesh = parse("tp:2,dp:2", "dp", 4);
    assert_int_equal(mesh_group_of(&mesh, 1), 1);
    assert_int_equal(mesh_group_of(&mesh, 2), 0);
}

static void largest_names(void **state)
{
    (void)state;
    struct mesh mesh = {.rank_count = UINT32_MAX, .axis_count = MESH_MAX_AXES};
    for (uint32_t a = 0; a < MESH_MAX_AXES; a++) {
        memset(mesh.axes[a].name, 'x', MESH_NAME_BYTES - 1);
        mesh.axes[a].size = a == 0 ? UINT32_MAX : 1;
    }
    struct mesh_rank_name name = mesh_name(&mesh, UINT32_MAX - 1);
    assert_non_null(strstr(name.text, " 4294967294, "));
    assert_int_equal(name.text[strlen(name.text) - 1], ')');
}

static void what_makes_no_sense(void **state)
{
    (void)state;
    struct mesh good = parse("dp:2,tp:3", "dp", 6), bad;
    bad = good;
    bad.axes[1].size = 2;
    assert_false(mesh_makes_sense(&bad));
    bad = good;
    bad.axes[0].size = 0;
    assert_false(mesh_makes_sense(&bad));
    bad = good;
    bad.axes[0].divides = 2;
    assert_false(mesh_makes_sense(&bad));
    bad = good;
    bad.axis_count = MESH_MAX_AXES + 1;
    assert_false(mesh_makes_sense(&bad));
    bad = good;
    memset(bad.axes[0].name, 'x', MESH_NAME_BYTES);
    assert_false(mesh_makes_sense(&bad));
    bad = (struct mesh){.rank_count = 0, .axis_count = 2};
    for (uint32_t a = 0; a < 2; a++)
        bad.axes[a] = (struct mesh_axis){.name = "a", .size = UINT32_C(1) << 31};
    assert_false(mesh_makes_sense(&bad)); /* 2^62: no rank_count */
}

/* Each names what is wrong, and leaves the mesh alone. */
static void what_is_no_mesh(void **state)
{
    (void)state;
    static const struct {
        const char *axes, *data;
        uint32_t ranks;
        const char *said;
    } wrong[] = {
        {"pp:2,tp:3", "pp", 8,
         "delivery.mesh has 6 ranks, the product of its sizes, and delivery.trainers is 8"},
        {"tp", "tp", 2, "delivery.mesh: 'tp' is no axis; write NAME: SIZE, such as tp: 2"},
        {"tp:0", "tp", 2, "'tp:0' is no axis"},
        {"tp:-2", "tp", 2, "'tp:-2' is no axis"},
        {"tp:2x", "tp", 2, "'tp:2x' is no axis"},
        {"tp:4294967296", "tp", 2, "is no axis"},
        {":2", "tp", 2, "the name of an axis has 1 to 31 bytes"},
        {"a2345678901234567890123456789012:2", "tp", 2, "the name of an axis has 1 to 31 bytes"},
        {"tp:2,tp:1", "tp", 2, "axis 'tp' is there twice"},
        {"a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:2", "i", 2, "delivery.mesh: more than 8 axes"},
        {"tp:2", "", 2, "delivery.mesh: write delivery.data, too"},
        {"", "dp", 2, "delivery.data names axes of delivery.mesh, which is not given"},
        {"tp:2", "dp", 2, "delivery.data: delivery.mesh has no axis 'dp'"},
        {"dp:2", "dp,dp", 2, "delivery.data: axis 'dp' is there twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mesh mesh = {.rank_count = 77};
        struct error err = {0};
        assert_int_equal(mesh_parse(wrong[i].axes, wrong[i].data, wrong[i].ranks, &mesh, &err),
                         STATUS_INVALID);
        if (!strstr(err.message, wrong[i].said))
            fail_msg("%s, %s: '%s' does not say '%s'", wrong[i].axes, wrong[i].data, err.message,
                     wrong[i].said);
        assert_int_equal(mesh.rank_count, 77);
        assert_int_equal(mesh_parse(wrong[i].axes, wrong[i].data, wrong[i].ranks, &mesh, NULL),
                         STATUS_INVALID);
    }
}

/* The one axis that divides the batch takes the change. */
static void other_numbers_of_ranks(void **state)
{
    (void)state;
    const struct {
        const char *axes, *data;
        uint32_t ranks, to;
        uint32_t size; /* of axis 1 then; 0: not possible */
    } cases[] = {
        {"pp:2,dp:4,tp:2", "dp", 16, 12, 3}, {"pp:2,dp:4,tp:2", "dp", 16, 4, 1},
        {"pp:2,dp:4,tp:2", "dp", 16, 20, 5}, {"pp:2,dp:4,tp:2", "dp", 16, 14, 0},
        {"pp:2,dp:4,tp:2", "dp", 16, 0, 0},  {"pp:2,dp:4,tp:2", "pp,dp", 16, 8, 0},
        {"pp:2,dp:4", "pp,dp", 8, 8, 4},
    };
    struct mesh to;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mesh mesh = parse(cases[i].axes, cases[i].data, cases[i].ranks);
        bool fits = mesh_resize(&mesh, cases[i].to, &to);
        assert_int_equal(fits, cases[i].size > 0);
        if (!fits)
            continue;
        assert_int_equal(to.axes[1].size, cases[i].size);
        assert_int_equal(mesh_product(&to), cases[i].to);
        assert_true(mesh_makes_sense(&to));
    }
    struct mesh plain = parse("", "", 8);
    assert_true(mesh_resize(&plain, 5, &to));
    assert_int_equal(mesh_group_count(&to), 5);
}

static void told_coordinates(void **state)
{
    (void)state;
    struct mesh mesh = parse("pp:2,dp:3,tp:2", "dp", 12);
    static const struct {
        const char *told;
        uint32_t rank, expected;
    } right[] = {
        {"pp=1,dp=2,tp=0", 0, 10}, {"tp=0,pp=1,dp=2", 0, 10}, {"dp=1", 2, 2},
        {"dp=1,tp=1", 9, 9},       {"pp=0,dp=0,tp=0", 11, 0}, {"", 7, 7},
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        uint32_t rank = 99;
        struct error err;
        if (mesh_read_coordinates(&mesh, right[i].told, right[i].rank, &rank, &err) != STATUS_OK)
            fail_msg("%s: %s", right[i].told, err.message);
        assert_int_equal(rank, right[i].expected);
    }
}

static void told_coordinates_that_do_not_fit(void **state)
{
    (void)state;
    struct mesh mesh = parse("pp:2,dp:3,tp:2", "dp", 12), none = parse("", "", 12);
    static const struct {
        const char *told, *said;
    } wrong[] = {
        {"dp=2",
         "it tells that it is at dp=2, and by delivery.mesh it is rank 0 (pp 0, dp 0, tp 0): "
         "tell all axes, or none"},
        {"ep=0", "it tells 'ep=0', and delivery.mesh has no such axis"},
        {"dp", "it tells 'dp', and delivery.mesh has no such axis"},
        {"=1", "has no such axis"},
        {"pp=2,dp=0,tp=0", "axis 'pp' of delivery.mesh has coordinates 0 to 1"},
        {"pp=-1,dp=0,tp=0", "axis 'pp' of delivery.mesh has coordinates 0 to 1"},
        {"pp=,dp=0,tp=0", "axis 'pp' of delivery.mesh has coordinates 0 to 1"},
        {"pp=0,dp=0,dp=0", "axis 'dp' of delivery.mesh has coordinates 0 to 2, one for each"},
        {"an_axis_with_a_name_that_no_mesh_could_have_at_all=1", "has no such axis"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint32_t rank = 99;
        struct error err = {0};
        assert_int_equal(mesh_read_coordinates(&mesh, wrong[i].told, 0, &rank, &err),
                         STATUS_INVALID);
        if (!strstr(err.message, wrong[i].said))
            fail_msg("%s: '%s' does not say '%s'", wrong[i].told, err.message, wrong[i].said);
        assert_int_equal(rank, 99);
        assert_int_equal(mesh_read_coordinates(&none, wrong[i].told, 0, &rank, &err),
                         STATUS_INVALID);
        assert_non_null(strstr(err.message, "delivery.mesh is not set"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_small_meshes),
        cmocka_unit_test(without_a_mesh_each_rank_is_a_group),
        cmocka_unit_test(meshes_of_frameworks),
        cmocka_unit_test(largest_names),
        cmocka_unit_test(what_makes_no_sense),
        cmocka_unit_test(what_is_no_mesh),
        cmocka_unit_test(other_numbers_of_ranks),
        cmocka_unit_test(told_coordinates),
        cmocka_unit_test(told_coordinates_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
