/* Encoders that break the protocol: each is one clear error, no descriptor stays open, and nothing
 * that they name is taken for memory. This program is the encoder, too: test_encode_hostile MODE.
 */
#include "workshop/encode/encoders.h"

#include "delivery/ring/cursor_page.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"
#include "delivery/ring/rundir.h"
#include "delivery/ring/sealed.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { BATCH = 4, WIDTH = 3, SAMPLES = 8 };

/* The encoder
 * ------------------------------------------------------------------------------------------- */

/* How a GIVE differs from a right one. */
struct lie {
    const char *mode;
    struct protocol_give give; /* added to the right one's, but for the shape, which replaces it */
    int64_t bytes;             /* of the memory; 0: as the shape says */
    enum { SEALED, UNSEALED, WRITE_ONLY, PIPE, FILE_OF_DISK, NO_MEMORY, TWO } memory;
    const char *message;
};

#define SHAPE(...)                                                              \
    {                                                                           \
        .rank = sizeof((uint64_t[]){__VA_ARGS__}) / 8, .shape = { __VA_ARGS__ } \
    }
#define HUGE_LENGTH  UINT64_C(0x8000000000000000)
#define NOT_ITS_SIZE "gave memory that is not of its array's size"

/* All lies are about the first batch. */
static const struct lie lies[] = {
    {"dtype none", {.dtype = (uint32_t)-DTYPE_UINT8}, 0, SEALED, "an unknown dtype (0)"},
    {"dtype unknown", {.dtype = 1000}, 0, SEALED, "an unknown dtype (10"},
    {"dtype negative", {.dtype = UINT32_C(0x80000000)}, 0, SEALED, "an unknown dtype (21"},
    {"no axes", {.rank = (uint32_t)-2}, 0, SEALED, "a GIVE of 0 axes"},
    {"many axes", {.rank = 7}, 0, SEALED, "a GIVE of 9 axes"},
    {"all axes", {.rank = UINT32_MAX - 2}, 0, SEALED, "a GIVE of 4294967295 axes"},
    {"few samples", SHAPE(BATCH - 1, WIDTH), 0, SEALED, "for 3 samples, and had got 4"},
    {"many samples", SHAPE(SAMPLES, WIDTH), 0, SEALED, "for 8 samples, and had got 4"},
    {"no samples", SHAPE(0, WIDTH), 8, SEALED, "for 0 samples, and had got 4"},
    {"empty", SHAPE(BATCH, 0), 8, SEALED, NOT_ITS_SIZE},
    {"overflow", SHAPE(BATCH, HUGE_LENGTH), 8, SEALED, NOT_ITS_SIZE},
    {"overflow to 8", SHAPE(BATCH, HUGE_LENGTH, 1, 2), 8, SEALED, NOT_ITS_SIZE},
    {"overflow to 0", SHAPE(BATCH, HUGE_LENGTH, 0), 8, SEALED, NOT_ITS_SIZE},
    {"negative", SHAPE(BATCH, UINT64_MAX / 4), 8, SEALED, NOT_ITS_SIZE},
    {"small", {0}, BATCH *WIDTH - 1, SEALED, NOT_ITS_SIZE},
    {"large", {0}, BATCH *WIDTH + 1, SEALED, NOT_ITS_SIZE},
    {"unsealed", {0}, 0, UNSEALED, NOT_ITS_SIZE},
    {"write-only", {0}, 0, WRITE_ONLY, "map 12 B that it gave"},
    {"pipe", {0}, 0, PIPE, NOT_ITS_SIZE},
    {"file", {0}, 0, FILE_OF_DISK, NOT_ITS_SIZE},
    {"no memory", {0}, 0, NO_MEMORY, "a GIVE with 0 descriptors: it must have 1"},
    {"two", {0}, 0, TWO, "a GIVE with 2 descriptors: it must have 1"},
    {"later batch",
     {.step = 2},
     0,
     SEALED,
     "gave a result for batch 2, which has one or was never"},
    {"last batch", {.step = UINT64_MAX}, 0, SEALED, "gave a result for batch 1844"},
    {"other epoch", {.epoch = 1}, 0, SEALED, "gave a result for batch 0, which has one or was"},
};
enum { LIES = sizeof lies / sizeof lies[0] };

static int make_memory(const struct lie *lie, uint64_t bytes)
{
    int ends[2], fd = memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char path[64];
    if (lie->memory == PIPE)
        return pipe(ends) == 0 ? ends[0] : -1;
    if (lie->memory == FILE_OF_DISK)
        return open("/proc/self/exe", O_RDONLY);
    if (ftruncate(fd, lie->bytes ? lie->bytes : (off_t)bytes) < 0)
        return -1;
    if (lie->memory != UNSEALED && sealed_make(fd, NULL) != STATUS_OK)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return lie->memory == WRITE_ONLY ? open(path, O_WRONLY) : fd;
}

static void send_give(int socket, const struct lie *lie, uint64_t step)
{
    struct protocol_message message = {
        .magic = PROTOCOL_MAGIC,
        .version = PROTOCOL_VERSION,
        .type = PROTOCOL_GIVE,
        .give = {.epoch = lie->give.epoch,
                 .step = step + lie->give.step,
                 .dtype = DTYPE_UINT8 + lie->give.dtype,
                 .rank =
                     lie->give.shape[0] || lie->give.shape[1] ? lie->give.rank : 2 + lie->give.rank,
                 .shape = {BATCH, WIDTH}},
    };
    if (lie->give.shape[0] || lie->give.shape[1])
        memcpy(message.give.shape, lie->give.shape, sizeof message.give.shape);
    int fd = make_memory(lie, (uint64_t)BATCH * WIDTH), fds[] = {fd, fd};
    size_t count = lie->memory == NO_MEMORY ? 0 : lie->memory == TWO ? 2 : 1;
    size_t size = offsetof(struct protocol_message, give) + sizeof message.give;
    (void)!packet_send(socket, &message, size, fds, count, 0, NULL);
    close(fd);
}

static int connect_raw(bool is_early)
{
    struct protocol_message hello = {.type = PROTOCOL_HELLO, .hello = {.world_size = 1}};
    struct cursor_page page;
    int dir, fd;
    if (rundir_open(getenv("PENSTOCK_RUN_DIR"), false, &dir, NULL) != STATUS_OK ||
        rundir_connect(dir, 0, &fd, NULL) != STATUS_OK || cursor_page_new(&page, NULL) != STATUS_OK)
        _exit(99);
    if (is_early)
        send_give(fd, &(struct lie){0}, 0);
    (void)!protocol_send(fd, &hello, &page.memfd, NULL);
    return fd;
}

/* Until a message of this type comes, or the end; `fds` are a WELCOME's. */
static void await(int socket, enum protocol_type type, int fds[WELCOME_FDS])
{
    struct protocol_message message = {0};
    while (message.type != type && message.type != PROTOCOL_END) {
        struct pollfd readable = {.fd = socket, .events = POLLIN};
        poll(&readable, 1, -1);
        enum status status = protocol_receive(socket, &message, fds, NULL);
        if (status != STATUS_OK && status != STATUS_TIMEOUT)
            _exit(98);
    }
}

/* Other things that an encoder may do, each by its name. */
static void misbehave(int socket, const char *mode, const struct ring *ring)
{
    static const struct lie truth = {0};
    struct protocol_message message = {.type = PROTOCOL_SKIP, .skip = {.step = 1}};
    if (strcmp(mode, "twice") == 0) {
        send_give(socket, &truth, 0);
        send_give(socket, &truth, 0);
    } else if (strcmp(mode, "order") == 0) {
        send_give(socket, &truth, 1);
        send_give(socket, &truth, 0);
    } else if (strcmp(mode, "skip") == 0) {
        (void)!protocol_send(socket, &message, NULL, NULL);
    } else if (strcmp(mode, "hello") == 0) {
        (void)!packet_send(socket, "PNSM", 4, NULL, 0, 0, NULL);
    } else if (strcmp(mode, "tail") == 0) {
        atomic_store(&ring->control->tail, 1000);
    } else if (strcmp(mode, "flood") == 0) {
        for (int i = 0; i < 300; i++)
            send_give(socket, &truth, 0);
    }
}

/* Its batches are published before it lies about them. */
static struct ring await_batches(const int fds[WELCOME_FDS])
{
    struct ring_header header;
    struct ring_member member;
    struct ring ring;
    if (ring_open(fds[0], 0, &ring, &header, &member, NULL) != STATUS_OK)
        _exit(97);
    while (atomic_load(&ring.control->head) < 2)
        usleep(1000);
    return ring;
}

static int be_encoder(const char *mode)
{
    int fds[WELCOME_FDS], socket = connect_raw(strcmp(mode, "early") == 0);
    await(socket, PROTOCOL_WELCOME, fds);
    struct ring ring = await_batches(fds);
    for (const struct lie *lie = lies; lie < lies + LIES; lie++)
        if (strcmp(lie->mode, mode) == 0)
            send_give(socket, lie, 0);
    misbehave(socket, mode, &ring);
    await(socket, PROTOCOL_FAIL, fds);
    return 0;
}

/* The test
 * ------------------------------------------------------------------------------------------- */

static int lowest_free_fd(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static struct encoders *start(const char *mode)
{
    static char command[4200];
    char self[4096] = {0};
    const struct ring_field field = {
        .name = "frames", .dtype = DTYPE_UINT8, .rank = 1, .shape = {WIDTH}};
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "exec '%s' '%s'", self, mode);
    const struct encoders_options options = {.command = command,
                                             .count = 1,
                                             .batch = BATCH,
                                             .timeout_ns = UINT64_C(20000000000),
                                             .sample_count = SAMPLES,
                                             .field_count = 1,
                                             .fields = &field};
    struct encoders *encoders;
    assert_int_equal(encoders_new(&options, &encoders, NULL), STATUS_OK);
    return encoders;
}

/* Has two batches encoded; the first failure's message, or NULL, is in `err`. */
static enum status encode(struct encoders *encoders, struct error *err)
{
    struct encoders_submission submissions[2];
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < 2 && status == STATUS_OK; i++) {
        status = encoders_reserve(encoders, &submissions[i], err);
        if (status != STATUS_OK)
            return status;
        memset(encoders_field(encoders, &submissions[i], 0), (int)i, (size_t)BATCH * WIDTH);
        encoders_submit(encoders, &submissions[i], i * BATCH, BATCH);
    }
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        struct encoded encoded = {0};
        status = encoders_collect(encoders, &submissions[i], &encoded, err);
        if (status == STATUS_OK)
            assert_int_equal(encoded.bytes, BATCH * WIDTH);
        encoded_done(&encoded);
    }
    return status;
}

static void check(const char *mode, const char *message)
{
    int before = lowest_free_fd();
    struct encoders *encoders = start(mode);
    struct error error = {0};
    enum status status = encode(encoders, &error);
    encoders_free(encoders);
    assert_int_equal(lowest_free_fd(), before);
    if (!message) {
        if (status != STATUS_OK)
            fail_msg("%s: %s", mode, error.message);
        return;
    }
    if (status == STATUS_OK || !strstr(error.message, message))
        fail_msg("%s: '%s' instead of '%s'", mode, error.message, message);
    assert_non_null(strstr(error.message, "encoder 0"));
}

static void test_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIES; i++)
        check(lies[i].mode, lies[i].message);
}

static void test_other_wrongs(void **state)
{
    static const char *const cases[][2] = {
        {"twice", "gave a result for batch 0, which has one or was never published"},
        {"flood", "gave a result for batch 0, which has one or was never published"},
        {"early", "ended with exit code 98 before it asked for a batch"},
        {"skip", "skipped batches"},
        {"hello", "4 bytes that are not a Penstock message"},
        {"tail", "wrote an impossible tail"},
        {"order", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(cases[i][0], cases[i][1]);
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return be_encoder(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_other_wrongs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
