/* Buffers for tapes of other readers: how many there are on how many NUMA nodes. */
#include "read/received_tapes.h"

#include "made_up_pool.h"

#include <string.h>

enum { BUFFER_BYTES = 4096, MOST = 16 };

/* Takes all buffers, writes to them, and gives them back. */
static void use_all(struct received_tapes *tapes, uint32_t count, uint32_t numa_count)
{
    bool seen[MOST] = {false};
    int32_t buffers[MOST];
    for (uint32_t i = 0; i < count; i++) {
        assert_true(received_tapes_has_free(tapes));
        buffers[i] = received_tapes_take(tapes, i % numa_count);
        assert_in_range(buffers[i], 0, (int32_t)count - 1);
        assert_false(seen[buffers[i]]);
        seen[buffers[i]] = true;
        memset(received_tapes_memory(tapes, buffers[i]), 1, BUFFER_BYTES);
    }
    assert_false(received_tapes_has_free(tapes));
    assert_int_equal(received_tapes_take(tapes, numa_count - 1), RECEIVED_NONE);
    for (uint32_t i = 0; i < count; i++)
        received_tapes_give_back(tapes, buffers[i]);
}

/* Never more buffers than the budget has. */
static void no_more_than_asked_for(void **state)
{
    (void)state;
    for (uint32_t numa_count = 1; numa_count <= 4; numa_count++) {
        struct pool *pool = made_up_pool(numa_count, 4, 4, NULL);
        for (uint32_t count = 1; count <= MOST; count++) {
            struct received_tapes *tapes = NULL;
            struct error err;
            assert_int_equal(received_tapes_new(pool, count, BUFFER_BYTES, &tapes, &err),
                             STATUS_OK);
            uint32_t made = received_tapes_count(tapes);
            assert_in_range(made, count < numa_count ? count : count - numa_count + 1, count);
            use_all(tapes, made, numa_count);
            use_all(tapes, made, numa_count);
            received_tapes_free(tapes);
        }
        assert_true(pool_drain(pool, 10000));
        pool_free(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_more_than_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
