/* Piles of copies: each piece is taken once, in its order, and a helper that leaves misses none. */
#include "rounds/pile.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_pieces_come_in_order(void **state)
{
    (void)state;
    static struct pile pile;
    uint64_t begin, end, most = UINT64_C(1) << 40;
    assert_false(pile_take(&pile, &begin, &end));
    for (uint64_t turn = 0; turn < 3; turn++) { /* the numbers go on beyond the room */
        for (uint64_t i = 0; i < PILE_PIECES; i++)
            assert_true(pile_put(&pile, most + i, most + i + 1 + i % PILE_MOST_COPIES));
        assert_false(pile_put(&pile, 7, 8));
        assert_int_equal(pile_left(&pile), PILE_PIECES);
        for (uint64_t i = 0; i < PILE_PIECES; i++) {
            assert_true(pile_take(&pile, &begin, &end));
            assert_int_equal(begin, most + i);
            assert_int_equal(end, most + i + 1 + i % PILE_MOST_COPIES);
        }
        assert_false(pile_take(&pile, &begin, &end));
    }
    assert_true(pile_put(&pile, 0, PILE_MOST_COPIES));
    assert_true(pile_take(&pile, &begin, &end));
    assert_int_equal(end - begin, PILE_MOST_COPIES);
}

static void test_helpers_are_no_more_than_pieces(void **state)
{
    (void)state;
    static struct pile pile;
    assert_false(pile_wants_helper(&pile, 4));
    for (uint64_t i = 0; i < 3; i++)
        assert_true(pile_put(&pile, i, i + 1));
    assert_false(pile_wants_helper(&pile, 0));
    for (uint64_t i = 0; i < 3; i++)
        assert_true(pile_wants_helper(&pile, 4));
    assert_false(pile_wants_helper(&pile, 4));
    pile_leave(&pile);
    assert_true(pile_wants_helper(&pile, 3));
    assert_false(pile_wants_helper(&pile, 3));
}

enum { TAKERS = 4, PIECES = 200000 };
struct crowd {
    struct pile pile;
    _Atomic uint8_t taken[PIECES];
    _Atomic uint64_t count;
    _Atomic bool unordered;
};

static void *take_all(void *argument)
{
    struct crowd *crowd = argument;
    uint64_t begin, end, least = 0;
    while (crowd->count < PIECES) {
        if (!pile_take(&crowd->pile, &begin, &end)) {
            sched_yield();
            continue;
        }
        if (begin < least || end != begin + 1)
            crowd->unordered = true;
        least = begin;
        crowd->taken[begin]++;
        crowd->count++;
    }
    return NULL;
}

static void test_each_piece_is_taken_once(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t takers[TAKERS];
    for (int t = 0; t < TAKERS; t++)
        assert_int_equal(pthread_create(&takers[t], NULL, take_all, &crowd), 0);
    for (uint64_t i = 0; i < PIECES;)
        if (pile_put(&crowd.pile, i, i + 1))
            i++;
        else
            sched_yield();
    for (int t = 0; t < TAKERS; t++)
        pthread_join(takers[t], NULL);
    assert_false(crowd.unordered);
    for (uint64_t i = 0; i < PIECES; i++)
        assert_int_equal(crowd.taken[i], 1);
}

/* A piece that is put just before a helper leaves, so that no other one was called, is the
 * helper's.
 */
static void test_who_leaves_misses_no_piece(void **state)
{
    (void)state;
    static struct pile pile;
    uint64_t begin, end;
    assert_true(pile_put(&pile, 0, 1));
    assert_true(pile_wants_helper(&pile, 1));
    assert_true(pile_take(&pile, &begin, &end));
    assert_false(pile_take(&pile, &begin, &end));
    assert_true(pile_put(&pile, 1, 2));
    assert_false(pile_wants_helper(&pile, 1));
    pile_leave(&pile);
    assert_true(pile_return(&pile));
    assert_false(pile_wants_helper(&pile, 1));
    assert_true(pile_take(&pile, &begin, &end));
    pile_leave(&pile);
    assert_false(pile_return(&pile));
    assert_true(pile_put(&pile, 2, 3));
    assert_true(pile_wants_helper(&pile, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_come_in_order),
        cmocka_unit_test(test_helpers_are_no_more_than_pieces),
        cmocka_unit_test(test_each_piece_is_taken_once),
        cmocka_unit_test(test_who_leaves_misses_no_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
