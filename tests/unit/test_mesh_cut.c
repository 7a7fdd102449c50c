/* Cuts: every rule against a loop over the indices, that all parts together have each index once,
 * and what is no cut. */
#include "mesh/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_LENGTH = 40, MOST_PARTS = 9 };

static struct mesh parse_mesh(const char *axes, const char *data, uint32_t ranks)
{
    struct mesh mesh;
    struct error err;
    if (mesh_parse(axes, data, ranks, &mesh, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return mesh;
}

static struct cut parse(const struct mesh *mesh, const char *over, const char *order,
                        const char *split)
{
    struct cut cut;
    struct error err;
    if (cut_parse(mesh, over, order, split, &cut, &err) != STATUS_OK)
        fail_msg("%s, %s, %s: %s", over, order, split, err.message);
    return cut;
}

/* Which part has an index, by the rule's words. */
static uint64_t part_of_index(const struct cut *cut, uint64_t length, uint64_t index)
{
    uint64_t n = cut->part_count, part = 0, end = 0;
    if (cut->order == CUT_ZIGZAG) {
        uint64_t piece = index / (length / (2 * n));
        return piece < n ? piece : 2 * n - 1 - piece;
    }
    for (;; part++) {
        if (cut->split == CUT_SIZES)
            end += cut->sizes[part];
        else if (cut->split == CUT_EVEN)
            end += length / n + (part < length % n);
        else
            end += (length + n - 1) / n; /* the last ones may be short, or have nothing */
        if (index < end)
            return part;
    }
}

/* The indices of all parts: each one's rise, and are those that the rule gives it. */
static void check_parts(const struct cut *cut, uint64_t length)
{
    uint64_t total = 0;
    for (uint32_t part = 0; part < cut->part_count; part++) {
        struct cut_run run = cut_run_of(cut, length, part);
        uint64_t expected[MOST_LENGTH], count = 0;
        for (uint64_t i = 0; i < length; i++)
            if (part_of_index(cut, length, i) == part)
                expected[count++] = i;
        assert_int_equal(cut_run_indices(run), count);
        assert_int_equal(run.has_second, cut->order == CUT_ZIGZAG);
        for (uint64_t i = 0; i < count; i++)
            assert_int_equal(i < run.length ? run.begin + i : run.second + i - run.length,
                             expected[i]);
        assert_true(run.begin + run.length <= length);
        total += count;
    }
    assert_int_equal(total, length);
}

static void all_rules(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= MOST_PARTS; parts++)
        for (uint64_t length = 0; length <= MOST_LENGTH; length++) {
            struct cut cut = {.part_count = parts};
            assert_int_equal(cut_check(&cut, length, NULL),
                             length % parts ? STATUS_INVALID : STATUS_OK);
            if (length % parts == 0)
                check_parts(&cut, length);
            cut.order = CUT_ZIGZAG;
            assert_int_equal(cut_check(&cut, length, NULL),
                             length % (2 * parts) ? STATUS_INVALID : STATUS_OK);
            if (length > 0 && length % (2 * parts) == 0)
                check_parts(&cut, length);
            cut = (struct cut){.part_count = parts, .split = CUT_CHUNK};
            assert_int_equal(cut_check(&cut, length, NULL), STATUS_OK);
            check_parts(&cut, length);
            cut.split = CUT_EVEN;
            assert_int_equal(cut_check(&cut, length, NULL), STATUS_OK);
            check_parts(&cut, length);
        }
}

/* The numbers that the rules are known by. */
static void five_over_four(void **state)
{
    (void)state;
    static const uint64_t chunk[] = {2, 2, 1, 0}, even[] = {2, 1, 1, 1};
    struct mesh mesh = parse_mesh("all:1,sp:4", "all", 4);
    struct cut chunks = parse(&mesh, "sp", "", "chunk"), evens = parse(&mesh, "sp", "", "even");
    struct cut sizes = parse(&mesh, "sp", "contiguous", "0,3,2,0");
    for (uint32_t part = 0; part < 4; part++) {
        assert_int_equal(cut_run_of(&chunks, 5, part).length, chunk[part]);
        assert_int_equal(cut_run_of(&evens, 5, part).length, even[part]);
    }
    assert_int_equal(cut_check(&sizes, 5, NULL), STATUS_OK);
    check_parts(&sizes, 5);
    assert_int_equal(cut_check(&sizes, 6, NULL), STATUS_INVALID);
}

/* With zigzag over two ranks 0 has pieces 0 and 3, and 1 has 1 and 2. */
static void zigzag_pairs(void **state)
{
    (void)state;
    struct mesh mesh = parse_mesh("dp:2,cp:2", "dp", 4);
    struct cut cut = parse(&mesh, "cp", "zigzag", "");
    struct cut_run first = cut_run_of(&cut, 16, 0), second = cut_run_of(&cut, 16, 1);
    assert_int_equal(first.begin, 0);
    assert_int_equal(first.second, 12);
    assert_int_equal(second.begin, 4);
    assert_int_equal(second.second, 8);
    assert_int_equal(second.length, 4);
}

/* Along two axes: the last one named is fastest, whatever their order in the mesh. */
static void parts_of_ranks(void **state)
{
    (void)state;
    struct mesh mesh = parse_mesh("tp:2,dp:3,cp:4", "dp", 24);
    struct cut one = parse(&mesh, "cp", "", ""), two = parse(&mesh, "cp,tp", "", ""),
               other = parse(&mesh, "tp,cp", "", "");
    assert_int_equal(two.part_count, 8);
    for (uint32_t tp = 0, rank = 0; tp < 2; tp++)
        for (uint32_t dp = 0; dp < 3; dp++)
            for (uint32_t cp = 0; cp < 4; cp++, rank++) {
                assert_int_equal(cut_part_of(&one, &mesh, rank), cp);
                assert_int_equal(cut_part_of(&two, &mesh, rank), 2 * cp + tp);
                assert_int_equal(cut_part_of(&other, &mesh, rank), 4 * tp + cp);
            }
}

static void large_lengths(void **state)
{
    (void)state;
    uint64_t length = UINT64_C(1) << 62;
    struct cut cut = {.part_count = CUT_MOST_PARTS, .order = CUT_ZIGZAG};
    assert_int_equal(cut_check(&cut, length, NULL), STATUS_OK);
    assert_int_equal(cut_run_of(&cut, length, 0).second + (length >> 9), length);
    cut = (struct cut){.part_count = 2, .split = CUT_SIZES, .sizes = {INT64_MAX, INT64_MAX}};
    assert_int_equal(cut_check(&cut, 5, NULL), STATUS_INVALID);
}

static void what_does_not_divide(void **state)
{
    (void)state;
    struct mesh mesh = parse_mesh("all:1,cp:4", "all", 4);
    struct cut exact = parse(&mesh, "cp", "", ""), zigzag = parse(&mesh, "cp", "zigzag", ""),
               sizes = parse(&mesh, "cp", "", "1,2,3,4");
    struct error err;
    assert_int_equal(cut_check(&exact, 6, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "6 indices are not a multiple of 4 parts; write "
                                        "split: chunk (as torch.chunk), split: even, or sizes"));
    assert_int_equal(cut_check(&zigzag, 12, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "12 indices are not a multiple of 8, two for each part"));
    assert_int_equal(cut_check(&sizes, 11, &err), STATUS_INVALID);
    assert_non_null(
        strstr(err.message, "the sizes of split add up to 10, and there are 11 indices"));
}

static void what_is_no_cut(void **state)
{
    (void)state;
    static const struct {
        const char *over, *order, *split, *said;
    } wrong[] = {
        {"", "", "", "write over: the axis of delivery.mesh whose ranks get a part each"},
        {"sp", "", "", "delivery.mesh has no axis 'sp'"},
        {"dp", "", "", "axis 'dp' divides the batch (delivery.data)"},
        {"cp,cp", "", "", "axis 'cp' is there twice"},
        {"cp,tp", "", "", "258 parts; at most 256 are possible"},
        {"cp", "zig-zag", "", "order: 'zig-zag' is no choice; it takes contiguous or zigzag"},
        {"cp", "", "odd", "split: 'odd' is no choice; it takes chunk, even, or a list of sizes"},
        {"cp", "", "1,2,3", "split: 3 sizes, and there are 2 parts"},
        {"cp", "", "1", "split: 1 sizes, and there are 2 parts"},
        {"cp", "", "1,-2", "split: '-2' is no choice"},
        {"cp", "zigzag", "chunk", "order: zigzag takes pieces of one length, and no split"},
        {"cp", "zigzag", "1,2", "order: zigzag takes pieces of one length, and no split"},
    };
    struct mesh mesh = parse_mesh("dp:2,cp:2,tp:129", "dp", 2 * 2 * 129);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cut cut = {.part_count = 77};
        struct error err = {0};
        assert_int_equal(
            cut_parse(&mesh, wrong[i].over, wrong[i].order, wrong[i].split, &cut, &err),
            STATUS_INVALID);
        if (!strstr(err.message, wrong[i].said))
            fail_msg("over %s: '%s' does not say '%s'", wrong[i].over, err.message, wrong[i].said);
        assert_int_equal(cut.part_count, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rules),      cmocka_unit_test(five_over_four),
        cmocka_unit_test(zigzag_pairs),   cmocka_unit_test(parts_of_ranks),
        cmocka_unit_test(large_lengths),  cmocka_unit_test(what_does_not_divide),
        cmocka_unit_test(what_is_no_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
