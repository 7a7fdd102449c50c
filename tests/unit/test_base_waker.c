/* A waker never loses a wake-up: two threads hand a counter back and forth, sleeping without a
 * timeout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/waker.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum { TURNS = 20000, LOST_MS = 20000 };

struct side {
    struct waker waker;
    _Atomic int seen;
};

struct game {
    struct side sides[2];
};

/* Waits until `side` has seen `value`; false if a wake-up was lost. */
static int await(struct side *side, int value)
{
    for (;;) {
        if (atomic_load(&side->seen) >= value)
            return 1;
        waker_arm(&side->waker);
        int ready = 1;
        if (atomic_load(&side->seen) < value) {
            struct pollfd fd = {.fd = waker_fd(&side->waker), .events = POLLIN};
            ready = poll(&fd, 1, LOST_MS);
        }
        waker_disarm(&side->waker);
        if (ready == 0)
            return 0;
    }
}

static void *play(void *argument)
{
    struct game *game = argument;
    for (int turn = 1; turn <= TURNS; turn++) {
        if (!await(&game->sides[1], turn))
            return game;
        atomic_store(&game->sides[0].seen, turn);
        waker_wake(&game->sides[0].waker);
    }
    return NULL;
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    struct game game = {0};
    struct error err;
    assert_int_equal(waker_init(&game.sides[0].waker, &err), STATUS_OK);
    assert_int_equal(waker_init(&game.sides[1].waker, &err), STATUS_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, play, &game), 0);
    for (int turn = 1; turn <= TURNS; turn++) {
        atomic_store(&game.sides[1].seen, turn);
        waker_wake(&game.sides[1].waker);
        assert_true(await(&game.sides[0], turn));
    }
    void *lost;
    pthread_join(thread, &lost);
    assert_null(lost);
    waker_done(&game.sides[0].waker);
    waker_done(&game.sides[1].waker);
}

static void a_sleeper_that_is_awake_costs_no_system_call(void **state)
{
    (void)state;
    struct waker waker;
    struct error err;
    assert_int_equal(waker_init(&waker, &err), STATUS_OK);
    waker_wake(&waker);
    struct pollfd fd = {.fd = waker_fd(&waker), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 0);
    waker_arm(&waker);
    waker_wake(&waker);
    assert_int_equal(poll(&fd, 1, 0), 1);
    waker_disarm(&waker);
    assert_int_equal(poll(&fd, 1, 0), 0);
    waker_done(&waker);
}

/* A thread that wakes is interrupted just before it writes: the write ends one sleep, not all. */
static void a_late_write_ends_one_sleep(void **state)
{
    (void)state;
    struct waker waker;
    struct error err;
    assert_int_equal(waker_init(&waker, &err), STATUS_OK);
    struct pollfd fd = {.fd = waker_fd(&waker), .events = POLLIN};
    waker_arm(&waker);
    atomic_store(&waker.armed, 0); /* the first half of waker_wake() */
    waker_disarm(&waker);
    uint64_t one = 1;
    assert_int_equal(write(waker.fd, &one, sizeof one), sizeof one); /* the second half */
    waker_arm(&waker);
    assert_int_equal(poll(&fd, 1, 0), 1);
    waker_disarm(&waker);
    assert_int_equal(poll(&fd, 1, 0), 0);
    for (int sleeps = 0; sleeps < 2; sleeps++) { /* two of them at once, the first one late */
        waker_arm(&waker);
        atomic_store(&waker.armed, 0);
        waker_disarm(&waker);
    }
    waker_arm(&waker);
    waker_wake(&waker);
    waker_disarm(&waker);
    for (int late = 0; late < 2; late++) {
        assert_int_equal(poll(&fd, 1, 0), 0);
        assert_int_equal(write(waker.fd, &one, sizeof one), sizeof one);
        waker_arm(&waker);
        assert_int_equal(poll(&fd, 1, 0), 1);
        waker_disarm(&waker);
    }
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(waker.owed, 0);
    waker_done(&waker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_sleeper_that_is_awake_costs_no_system_call),
        cmocka_unit_test(a_late_write_ends_one_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
