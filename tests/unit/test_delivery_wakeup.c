/* Wake-ups: who sleeps is woken once, however much comes before it wakes; nobody is woken who did
 * not ask. */
#include "delivery/ring/wakeup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t signals(int fd)
{
    uint64_t count = 0;
    return read(fd, &count, sizeof count) == sizeof count ? count : 0;
}

static void a_sleeper_is_woken_once(void **state)
{
    (void)state;
    int fd;
    _Atomic uint32_t waits = 0;
    struct error error;
    assert_int_equal(wakeup_new(&fd, &error), STATUS_OK);
    wakeup_waiting(&waits, fd);
    assert_int_equal(signals(fd), 0);
    atomic_store(&waits, 1);
    wakeup_waiting(&waits, fd);
    wakeup_waiting(&waits, fd);
    assert_int_equal(atomic_load(&waits), 0);
    assert_int_equal(signals(fd), 1);
    atomic_store(&waits, 1);
    wakeup_waiting(&waits, fd);
    assert_int_equal(signals(fd), 1);
    close(fd);
}

static void a_sleeper_waits_for_a_count(void **state)
{
    (void)state;
    static const uint64_t awaited[] = {7, UINT32_MAX, UINT64_C(1) << 32 | 2, UINT64_C(3) << 31};
    int fd;
    _Atomic uint32_t waits = 0;
    struct error error;
    assert_int_equal(wakeup_new(&fd, &error), STATUS_OK);
    wakeup_waiting_for(&waits, 7, fd);
    assert_int_equal(signals(fd), 0);
    for (size_t i = 0; i < sizeof awaited / sizeof awaited[0]; i++) {
        atomic_store(&waits, (uint32_t)awaited[i]);
        wakeup_waiting_for(&waits, awaited[i] - 5, fd);
        wakeup_waiting_for(&waits, awaited[i] - 1, fd);
        assert_int_equal(signals(fd), 0);
        wakeup_waiting_for(&waits, awaited[i] + i, fd);
        wakeup_waiting_for(&waits, awaited[i] + 9, fd);
        assert_int_equal(signals(fd), 1);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sleeper_is_woken_once),
                                       cmocka_unit_test(a_sleeper_waits_for_a_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
