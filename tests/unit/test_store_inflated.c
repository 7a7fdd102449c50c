/* Memory for inflated values: never more than reserved, each value made once, and no thread waits
 * for ever. */
#include "store/kind/inflated.h"

#include "base/memory.h"
#include "store/zip/zip_directory.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = MEMORY_PAGE_BYTES, ENTRIES = 8, THREADS = 8 };

static struct zip_entry entries[ENTRIES];
static _Atomic int made[ENTRIES], making, most_making;

static enum status make(void *context, void *memory, struct error *err)
{
    ptrdiff_t i = (struct zip_entry *)context - entries;
    int now = ++making, most = most_making;
    (void)err;
    while (now > most && !atomic_compare_exchange_weak(&most_making, &most, now))
        ;
    usleep(100);
    memset(memory, (int)i + 1, PAGE);
    made[i]++;
    making--;
    return STATUS_OK;
}

static enum status make_fails(void *context, void *memory, struct error *err)
{
    (void)context;
    (void)memory;
    return error_set(err, STATUS_CORRUPT, "damaged");
}

static const unsigned char *pin(struct inflated *inflated, int i)
{
    const unsigned char *value = NULL;
    assert_int_equal(
        inflated_pin(inflated, &entries[i], PAGE, PAGE, make, &entries[i], &value, NULL),
        STATUS_OK);
    assert_int_equal(value[PAGE - 1], i + 1);
    return value;
}

static void use(struct inflated *inflated, int i)
{
    pin(inflated, i);
    inflated_unpin(inflated, &entries[i]);
}

/* False: `bytes` are taken instead. */
static bool find_or_take(struct inflated *inflated, int i, uint64_t bytes)
{
    const unsigned char *value = inflated_find_or_take(inflated, &entries[i], bytes);
    if (!value)
        return false;
    assert_int_equal(value[PAGE - 1], i + 1);
    inflated_unpin(inflated, &entries[i]);
    return true;
}

static bool is_there(struct inflated *inflated, int i)
{
    return find_or_take(inflated, i, 0);
}

static void begin(void)
{
    memset(made, 0, sizeof made);
    most_making = 0;
}

static void values_stay_as_far_as_memory_goes(void **state)
{
    struct inflated *inflated = inflated_new();
    (void)state;
    begin();
    use(inflated, 0); /* nothing is reserved: one value, while it is in use */
    assert_false(is_there(inflated, 0));
    inflated_reserve(inflated, 4 * PAGE); /* three, and the stored bytes of one */
    for (int i = 0; i < 3; i++)
        use(inflated, i);
    use(inflated, 0);
    assert_int_equal(made[0], 2);
    use(inflated, 3); /* instead of the one that was unused for longest */
    assert_false(is_there(inflated, 1));
    assert_true(is_there(inflated, 0) && is_there(inflated, 2) && is_there(inflated, 3));
    assert_false(find_or_take(inflated, 5, 3 * PAGE));
    inflated_give_back(inflated, 3 * PAGE);
    assert_true(is_there(inflated, 3));
    assert_false(is_there(inflated, 0));
    inflated_reserve(inflated, -4 * PAGE);
    assert_false(is_there(inflated, 3));
    inflated_free(inflated);
}

static void what_fails_is_made_again(void **state)
{
    struct inflated *inflated = inflated_new();
    const unsigned char *value = NULL;
    struct error err;
    (void)state;
    begin();
    inflated_reserve(inflated, 2 * PAGE);
    assert_int_equal(
        inflated_pin(inflated, &entries[0], PAGE, PAGE, make_fails, NULL, &value, &err),
        STATUS_CORRUPT);
    assert_null(value);
    use(inflated, 0);
    assert_int_equal(made[0], 1);
    inflated_free(inflated);
}

/* Two stores that are joined have one memory, in which neither has lost what it had reserved. */
static void what_is_joined_keeps_its_memory(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct inflated *first = inflated_new(), *second = inflated_new(), *own = second;
        begin();
        inflated_reserve(which ? first : second, 3 * PAGE);
        inflated_join(&own, first);
        inflated_join(&own, first); /* already is */
        assert_ptr_equal(own, first);
        use(own, 0);
        use(own, 1);
        use(own, 2); /* of three pages one was for stored bytes meanwhile */
        assert_false(is_there(first, 0));
        assert_true(is_there(first, 1) && is_there(first, 2));
        inflated_free(own);
        assert_true(is_there(first, 1));
        inflated_free(first);
    }
}

struct user {
    struct inflated *inflated;
    int first, count; /* the entries that it uses in turn */
};

static void *use_many(void *argument)
{
    const struct user *user = argument;
    for (int i = 0; i < 200; i++) {
        int which = user->first + i % user->count;
        if (i % 5 < 4)
            use(user->inflated, which);
        else if (!find_or_take(user->inflated, which, PAGE))
            inflated_give_back(user->inflated, PAGE);
    }
    return NULL;
}

static void run_threads(struct user *users)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_many, &users[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_share_what_is_made(void **state)
{
    struct inflated *inflated = inflated_new();
    struct user users[THREADS];
    (void)state;
    begin();
    inflated_reserve(inflated, (ENTRIES + THREADS) * PAGE);
    for (int i = 0; i < THREADS; i++)
        users[i] = (struct user){inflated, 0, ENTRIES};
    run_threads(users);
    for (int i = 0; i < ENTRIES; i++)
        assert_int_equal(made[i], 1);
    inflated_free(inflated);
}

static void threads_wait_for_memory(void **state)
{
    struct inflated *inflated = inflated_new();
    struct user users[THREADS];
    (void)state;
    begin();
    inflated_reserve(inflated, 4 * PAGE); /* two at a time */
    for (int i = 0; i < THREADS; i++)
        users[i] = (struct user){inflated, i % 7, 2};
    run_threads(users);
    assert_in_range(most_making, 1, 2);
    inflated_free(inflated);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stay_as_far_as_memory_goes),
        cmocka_unit_test(what_fails_is_made_again),
        cmocka_unit_test(what_is_joined_keeps_its_memory),
        cmocka_unit_test(threads_share_what_is_made),
        cmocka_unit_test(threads_wait_for_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
