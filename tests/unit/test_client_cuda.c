/* Rings registered with a CUDA driver, by penstock_cuda.h and a driver that checks. */
#include "delivery_support.h"
#include "fake_cuda.h"

#include <penstock_cuda.h>

static int context;

static int clean(void **state)
{
    (void)state;
    memset(&fake_cuda, 0, sizeof fake_cuda);
    fake_cuda.context = &context;
    return 0;
}

static void a_ring_is_registered_while_it_is_mapped(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_cuda cuda;
    char message[PENSTOCK_MESSAGE_BYTES];
    assert_int_equal(penstock_cuda_pin(&cuda, pair.client, message), PENSTOCK_OK);
    assert_int_equal(fake_cuda.registered, 1);
    assert_int_equal(fake_cuda.last_flags, 1);
    assert_true(cuda.pinned != 0);
    publish(&pair);
    struct penstock_batch batch = take(&pair);
    const unsigned char *data = batch.data[0], *base = fake_cuda.memory[0];
    assert_true(data >= base && data < base + fake_cuda.bytes[0]);
    give(&pair, &batch);
    fake_cuda.context = NULL; /* the thread that closes need not be the one that copies */
    pair_done(&pair);
    assert_int_equal(fake_cuda.unregistered, 1);
    assert_int_equal(fake_cuda.synchronized, 1);
    assert_null(fake_cuda.context);
    assert_int_equal(cuda.pinned, 0);
    penstock_cuda_done(&cuda);
}

/* What ranks of a group share is mapped read-only: CUDA takes it with a flag that says so. */
static void a_groups_ring_is_registered_as_read_only(void **state)
{
    (void)state;
    struct pair pair = {.folder = run_folder_new()};
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_service service = support_service(1);
    struct penstock_cuda cuda;
    layout.member_count = 2; /* the other one is elsewhere */
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    struct server_options options = {
        .run_dir = pair.folder.path, .max_trainers = 1, .layout = &layout, .service = &service};
    assert_int_equal(server_new(&options, &pair.server, NULL), STATUS_OK);
    assert_int_equal(server_listen(pair.server, NULL), STATUS_OK);
    pair_connect(&pair, 0);
    assert_int_equal(penstock_cuda_pin(&cuda, pair.client, NULL), PENSTOCK_OK);
    assert_int_equal(fake_cuda.registered, 1);
    assert_int_equal(fake_cuda.last_flags, 1 | 8);
    pair_done(&pair);
    penstock_cuda_done(&cuda);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_cuda cuda;
    char message[PENSTOCK_MESSAGE_BYTES];
    fake_cuda.context = NULL;
    assert_int_equal(penstock_cuda_pin(&cuda, pair.client, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "no CUDA context"));
    fake_cuda.context = &context;
    fake_cuda.refuse = 2;
    assert_int_equal(penstock_cuda_pin(&cuda, pair.client, message), PENSTOCK_NO_MEMORY);
    assert_non_null(strstr(message, "(2: out of memory)"));
    assert_int_equal(cuda.pinned, 0);
    struct penstock_cuda second;
    assert_int_equal(penstock_cuda_pin(&second, pair.client, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "watched once"));
    publish(&pair);
    struct penstock_batch batch = take(&pair);
    give(&pair, &batch);
    pair_done(&pair);
    assert_int_equal(fake_cuda.unregistered, 0);
    penstock_cuda_done(&cuda);
}

/* Rings as the library tells of them: one comes while another is there, and is refused. */
static void a_ring_that_was_refused_does_not_hide_another(void **state)
{
    (void)state;
    static char memory[2][4096];
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_cuda cuda;
    assert_int_equal(penstock_cuda_pin(&cuda, pair.client, NULL), PENSTOCK_OK);
    struct penstock_ring first = {.base = memory[0], .bytes = 4096, .generation = 2};
    struct penstock_ring second = {.base = memory[1], .bytes = 4096, .generation = 3};
    penstock_cuda_attached_(&cuda, &first);
    fake_cuda.refuse = 2;
    penstock_cuda_attached_(&cuda, &second);
    assert_int_equal(cuda.error, 2);
    penstock_cuda_detaching_(&cuda, &second);
    assert_int_equal(fake_cuda.unregistered, 0);
    penstock_cuda_detaching_(&cuda, &first);
    assert_int_equal(fake_cuda.unregistered, 1);
    pair_done(&pair);
    assert_int_equal(fake_cuda.unregistered, 2);
    penstock_cuda_done(&cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_ring_is_registered_while_it_is_mapped, clean),
        cmocka_unit_test_setup(a_groups_ring_is_registered_as_read_only, clean),
        cmocka_unit_test_setup(what_cannot_be_is_said, clean),
        cmocka_unit_test_setup(a_ring_that_was_refused_does_not_hide_another, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
