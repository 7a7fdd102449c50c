/* Requests that are asked about are looked at by one call of MPI. The calls are this file's own. */
#include "ranks/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int tests, looks, looked_at, last_complete;

static MPI_Request request_of(int number)
{
    return (MPI_Request)(intptr_t)(number * 16);
}

int MPI_Test(MPI_Request *request, int *ret_complete, MPI_Status *ret_status)
{
    (void)ret_status;
    tests++;
    *ret_complete = 1;
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* Requests up to number `last_complete` are complete. */
int MPI_Testsome(int count, MPI_Request requests[], int *ret_count, int indices[],
                 MPI_Status statuses[])
{
    (void)statuses;
    looks++;
    looked_at = *ret_count = 0;
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        looked_at++;
        for (int number = 1; number <= last_complete; number++)
            if (requests[i] == request_of(number)) {
                requests[i] = MPI_REQUEST_NULL;
                indices[(*ret_count)++] = i;
                break;
            }
    }
    if (looked_at == 0)
        *ret_count = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    tests = looks = looked_at = last_complete = 0;
    return 0;
}

static void one_look_for_all(void **state)
{
    (void)state;
    struct requests requests = {0};
    MPI_Request mine[3] = {request_of(1), request_of(2), request_of(3)};
    for (int turn = 0; turn < 2; turn++) /* asked about twice is looked at once */
        for (int i = 0; i < 3; i++)
            assert_false(requests_ask(&requests, &mine[i]));
    assert_int_equal(tests + looks, 0);
    assert_false(requests_look(&requests));
    assert_int_equal(looks, 1);
    assert_int_equal(looked_at, 3);

    last_complete = 2;
    for (int i = 0; i < 3; i++)
        assert_false(requests_ask(&requests, &mine[i]));
    assert_true(requests_look(&requests));
    assert_true(mine[0] == MPI_REQUEST_NULL && mine[1] == MPI_REQUEST_NULL);
    assert_true(mine[2] == request_of(3));
    assert_true(requests_ask(&requests, &mine[0]) && requests_ask(&requests, &mine[1]));
    assert_false(requests_ask(&requests, &mine[2]));
    assert_int_equal(tests, 0);
}

static void nobody_asks(void **state)
{
    (void)state;
    struct requests requests = {0};
    MPI_Request null = MPI_REQUEST_NULL, mine = request_of(1);
    assert_true(requests_ask(&requests, &null));
    assert_false(requests_look(&requests));
    assert_int_equal(looks, 0);

    assert_false(requests_ask(&requests, &mine));
    mine = MPI_REQUEST_NULL; /* its owner has waited for it */
    assert_false(requests_look(&requests));
    assert_false(requests_look(&requests));
    assert_int_equal(looks, 1);
    assert_int_equal(looked_at, 0);
}

static void more_than_there_is_room_for(void **state)
{
    (void)state;
    struct requests requests = {0};
    MPI_Request mine[REQUESTS_MOST + 1];
    for (int i = 0; i <= REQUESTS_MOST; i++) {
        mine[i] = request_of(i + 1);
        assert_true(requests_ask(&requests, &mine[i]) == (i == REQUESTS_MOST));
    }
    assert_int_equal(tests, 1);
    last_complete = REQUESTS_MOST;
    assert_true(requests_look(&requests));
    assert_int_equal(looked_at, REQUESTS_MOST);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test_setup(one_look_for_all, setup),
        cmocka_unit_test_setup(nobody_asks, setup),
        cmocka_unit_test_setup(more_than_there_is_room_for, setup),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
