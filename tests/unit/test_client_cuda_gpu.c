/* Rings registered with a GPU's driver, by penstock_cuda.h: batches are copied from them, later
 * than the program asks. */
#include "delivery_support.h"

#include <penstock_cuda.h>

enum { BATCHES = 50, OVERWRITTEN = 0xa5, IMAGE_BYTES = 12 * SUPPORT_BATCH };

/* What a program calls besides penstock_cuda.h, of libcuda.so.1. */
static struct {
    int (*init)(unsigned flags);
    int (*device)(int *ret_device, int number);
    int (*retain)(void **ret_context, int device);
    int (*set_context)(void *context);
    int (*stream)(void **ret_stream, unsigned flags);
    int (*allocate)(uint64_t *ret_address, size_t bytes);
    int (*release)(uint64_t address);
    int (*fill)(uint64_t address, unsigned char value, size_t bytes, void *stream);
    int (*copy_in)(uint64_t address, const void *memory, size_t bytes, void *stream);
    int (*copy_out)(void *memory, uint64_t address, size_t bytes);
    int (*wait)(void *stream);
    int (*pinned_flags)(unsigned *ret_flags, void *memory);
} driver;
static void *context, *stream;
static uint64_t large; /* LARGE_BYTES on the GPU: copies wait until they are filled */

enum { LARGE_BYTES = 1 << 30 };

/* Whether there is a GPU: its context is current then. */
static bool open_gpu(void)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"cuInit", &driver.init},
                  {"cuDeviceGet", &driver.device},
                  {"cuDevicePrimaryCtxRetain", &driver.retain},
                  {"cuCtxSetCurrent", &driver.set_context},
                  {"cuStreamCreate", &driver.stream},
                  {"cuMemAlloc_v2", &driver.allocate},
                  {"cuMemFree_v2", &driver.release},
                  {"cuMemsetD8Async", &driver.fill},
                  {"cuMemcpyHtoDAsync_v2", &driver.copy_in},
                  {"cuMemcpyDtoH_v2", &driver.copy_out},
                  {"cuStreamSynchronize", &driver.wait},
                  {"cuMemHostGetFlags", &driver.pinned_flags}};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof wanted / sizeof wanted[0]; i++) {
        void *found = dlsym(library, wanted[i].name);
        assert_non_null(found);
        memcpy(wanted[i].function, &found, sizeof found);
    }
    int device;
    return library && !driver.init(0) && !driver.device(&device, 0) &&
           !driver.retain(&context, device) && !driver.set_context(context) &&
           !driver.stream(&stream, 1) && !driver.allocate(&large, LARGE_BYTES);
}

static bool is_pinned(void *memory)
{
    unsigned flags;
    return driver.pinned_flags(&flags, memory) == 0;
}

/* Copies the image of one batch, after a millisecond of other work of the GPU: the value that its
 * bytes have there. `overwrites`: the batch is overwritten as soon as the copy's call returns. */
static int copied(struct pair *pair, int number, bool is_pinned_memory, bool overwrites)
{
    unsigned char found[IMAGE_BYTES];
    uint64_t address;
    publish(pair);
    struct penstock_batch batch = take(pair);
    assert_int_equal(is_pinned(batch.data[0]), is_pinned_memory);
    assert_int_equal(driver.allocate(&address, IMAGE_BYTES), 0);
    assert_int_equal(driver.fill(large, (unsigned char)number, LARGE_BYTES, stream), 0);
    assert_int_equal(driver.copy_in(address, batch.data[0], IMAGE_BYTES, stream), 0);
    if (overwrites)
        memset(batch.data[0], OVERWRITTEN, IMAGE_BYTES);
    assert_int_equal(driver.wait(stream), 0);
    give(pair, &batch);
    assert_int_equal(driver.copy_out(found, address, IMAGE_BYTES), 0);
    assert_int_equal(driver.release(address), 0);
    for (size_t at = 1; at < IMAGE_BYTES; at++)
        assert_int_equal(found[at], found[0]);
    return found[0];
}

static void copies_of_a_pinned_ring_are_right_once_complete(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_cuda cuda;
    char message[PENSTOCK_MESSAGE_BYTES] = "";
    if (penstock_cuda_pin(&cuda, pair.client, message))
        fail_msg("%s", message);
    for (int i = 0; i < BATCHES; i++)
        assert_int_equal(copied(&pair, i, true, false), i);
    assert_int_equal(copied(&pair, BATCHES, true, true), OVERWRITTEN); /* before, they are not */
    assert_int_not_equal(cuda.pinned, 0);
    pair_done(&pair);
    assert_int_equal(cuda.pinned, 0);
    assert_int_equal(cuda.error, 0);
    penstock_cuda_done(&cuda);
}

static void copies_of_other_rings_have_read_the_batch(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    for (int i = 0; i < BATCHES; i++)
        assert_int_equal(copied(&pair, i, false, true), i);
    pair_done(&pair);
}

int main(void)
{
    if (!open_gpu()) {
        printf("skipped: no CUDA driver, or no GPU\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_a_pinned_ring_are_right_once_complete),
        cmocka_unit_test(copies_of_other_rings_have_read_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
