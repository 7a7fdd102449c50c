/* A reader's transform and its processes, which are this program again: what they make, in order,
 * however many there are; what they leave when they die, and when they write nonsense to the board.
 */
#include "transform/transform.h"

#include "base/clock.h"
#include "delivery/ring/fdpass.h"
#include "delivery/server/ring_memory.h"
#include "penstock_transform.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { BATCH = 6, SLOTS = 4, RINGS = 2, STEPS = 40 };
enum { FIELD_X, FIELD_Y, FIELD_ROWS, FIELD_OFFSETS, FIELDS };

/* The processes
 * ------------------------------------------------------------------------------------------- */

/* Sample i with x has y = 2 x, and x items of x. */
static void make(const struct penstock_transform_batch *batch)
{
    const int32_t *x = batch->data[0];
    int32_t *y = batch->results[0], *rows = batch->results[1];
    int64_t *offsets = batch->result_offsets[1];
    if (offsets)
        offsets[0] = 0;
    for (uint32_t i = 0; i < batch->sample_count; i++) {
        y[i] = 2 * x[i];
        for (int32_t k = 0; offsets && k < x[i] % 5; k++)
            rows[offsets[i] + k] = x[i];
        if (offsets)
            offsets[i + 1] = offsets[i] + x[i] % 5;
    }
}

static bool is_odd(int32_t x)
{
    return x % 3 == 1;
}

/* Fills the board with nonsense, as no library would, and dies. */
static void scribble(void)
{
    int fds[BOARD_MOST_FDS] = {-1, -1, -1};
    struct board_message *message = calloc(1, sizeof *message);
    message->type = BOARD_HELLO;
    (void)!board_send(3, message, NULL, 0, NULL);
    while (board_receive(3, message, fds, 0, NULL) == STATUS_OK && message->type != BOARD_BEGIN)
        continue;
    uint64_t token;
    while (read(fds[1], &token, sizeof token) != sizeof token)
        clock_sleep_ns(1000000);
    off_t bytes = lseek(fds[0], 0, SEEK_END);
    void *board = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    memset((char *)board + sizeof(struct board), 0xee, (size_t)bytes - sizeof(struct board));
    raise(SIGKILL);
}

/* Once among all processes, as long as the file is there. */
static bool is_first(const char *file)
{
    return unlink(file) == 0;
}

static int work(const char *mode, const char *file)
{
    struct penstock_transform *transform;
    struct penstock_transform_batch batch;
    char message[PENSTOCK_MESSAGE_BYTES];
    if (strcmp(mode, "scribble") == 0 && is_first(file))
        scribble();
    if (strcmp(mode, "quit") == 0)
        return 3;
    if (penstock_transform_open(&transform, message) != PENSTOCK_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    while (penstock_transform_next(transform, &batch) == PENSTOCK_OK) {
        if (strcmp(mode, "die") == 0 && batch.step == 3 && is_first(file))
            raise(SIGKILL);
        if (strcmp(mode, "always") == 0 && batch.step == 3)
            raise(SIGKILL);
        if (strcmp(mode, "fail") == 0 && batch.step == 3) {
            (void)!penstock_transform_fail(transform, batch.sample_count - 1, "odd");
            continue;
        }
        make(&batch);
        for (uint32_t i = 0; strcmp(mode, "bad") == 0 && i < batch.sample_count; i++)
            if (is_odd(((const int32_t *)batch.data[0])[i]) &&
                penstock_transform_mask(transform, i, "odd") != PENSTOCK_OK)
                return 1;
        if (strcmp(mode, "bad") == 0 && batch.step == 5 && is_first(file))
            raise(SIGKILL); /* after it has said what is bad */
        if (penstock_transform_mask(transform, batch.sample_count, "none") != PENSTOCK_INVALID)
            return 1;
        if (strcmp(mode, "fall") == 0 && batch.step == 3) {
            batch.result_offsets[1][2] = -1;
            if (penstock_transform_done(transform) != PENSTOCK_INVALID)
                return 1;
            (void)!penstock_transform_fail(transform, -1, penstock_transform_error(transform));
            continue;
        }
        if (penstock_transform_done(transform) != PENSTOCK_OK)
            return 1;
    }
    penstock_transform_close(transform);
    return 0;
}

/* The reader
 * ------------------------------------------------------------------------------------------- */

struct scene {
    struct ring_layout layout;
    struct ring rings[RINGS];
    struct board_shape shape;
    struct transform *transform;
    struct bad_log *log; /* NULL: nothing is masked */
    char command[512], file[64];
};

static void lay_out(struct scene *scene, bool has_rows)
{
    struct ring_layout *layout = &scene->layout;
    *layout = (struct ring_layout){.field_count = has_rows ? FIELDS : FIELD_ROWS,
                                   .slot_count = SLOTS,
                                   .batch_size = BATCH,
                                   .member_count = 1};
    layout->fields[FIELD_X] = (struct ring_field){.name = "<0", .dtype = DTYPE_INT32};
    layout->fields[FIELD_Y] = (struct ring_field){.name = "y", .dtype = DTYPE_INT32};
    layout->fields[FIELD_ROWS] = (struct ring_field){.name = "rows",
                                                     .dtype = DTYPE_INT32,
                                                     .kind = RING_ITEMS,
                                                     .capacity = 5 * BATCH,
                                                     .offsets_field = FIELD_OFFSETS};
    layout->fields[FIELD_OFFSETS] =
        (struct ring_field){.name = "rows.offsets", .dtype = DTYPE_INT64, .kind = RING_OFFSETS};
    assert_int_equal(ring_layout_settle(layout, NULL), STATUS_OK);
    scene->shape = (struct board_shape){.input_count = 1, .output_count = has_rows ? 2 : 1};
    scene->shape.inputs[0] = (struct board_input){.name = "x", .field = FIELD_X};
    scene->shape.outputs[0] =
        (struct board_output){.name = "y", .dtype = DTYPE_INT32, .field = FIELD_Y};
    scene->shape.outputs[1] = (struct board_output){
        .name = "rows", .dtype = DTYPE_INT32, .most_items = 5, .field = FIELD_ROWS};
}

static void open_scene(struct scene *scene, const char *mode, bool has_rows, uint32_t processes)
{
    const struct ring *rings[RINGS];
    const struct ring_service service = {.world_size = 1};
    const struct ring_member member = {.is_there = 1};
    struct error err = {0};
    *scene = (struct scene){0};
    lay_out(scene, has_rows);
    if (strcmp(mode, "bad") == 0)
        assert_int_equal(bad_log_new(&scene->log, NULL), STATUS_OK);
    snprintf(scene->file, sizeof scene->file, "/tmp/penstock-test-%d", (int)getpid());
    FILE *file = fopen(scene->file, "w");
    assert_non_null(file);
    fclose(file);
    char self[256] = {0};
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(scene->command, sizeof scene->command, "exec '%s' %s %s", self, mode, scene->file);
    for (int r = 0; r < RINGS; r++) {
        rings[r] = &scene->rings[r];
        if (ring_memory_create(&scene->layout, &service, &member, 1, NULL, NULL, &scene->rings[r],
                               &err) != STATUS_OK)
            fail_msg("%s", err.message);
    }
    const struct transform_options options = {.command = {.text = scene->command},
                                              .count = processes,
                                              .timeout_ns = UINT64_C(60000000000),
                                              .who = "reader 0",
                                              .rule = {.log = scene->log, .fields = 0xf}};
    if (transform_new(&options, &scene->shape, &scene->transform, &err) != STATUS_OK ||
        transform_begin(scene->transform, rings, RINGS, &scene->layout, &err) != STATUS_OK)
        fail_msg("%s", err.message);
}

static void close_scene(struct scene *scene)
{
    transform_free(scene->transform);
    bad_log_free(scene->log);
    for (int r = 0; r < RINGS; r++)
        ring_done(&scene->rings[r]);
    unlink(scene->file);
}

/* Fills the slot of a step: samples of values that say where they are. */
static void fill(struct scene *scene, uint32_t ring, uint64_t step)
{
    unsigned char *slot = ring_slot(&scene->rings[ring], step);
    uint32_t count = (uint32_t)(step % (BATCH + 1)); /* none, too */
    *(struct slot_header *)(void *)slot = (struct slot_header){.step = step, .sample_count = count};
    for (uint32_t i = 0; i < count; i++) {
        ((int32_t *)(void *)(slot + scene->layout.fields[FIELD_X].slot_offset))[i] =
            (int32_t)(100 * step + 10 * ring + i);
        ((uint64_t *)(void *)(slot + scene->layout.indices_offset))[i] = 1000 * step + i;
        slot[scene->layout.valid_offset + i] = 1;
    }
    transform_submit(scene->transform, ring, count);
}

static void check(const struct scene *scene, uint32_t ring, uint64_t step, bool has_rows)
{
    const unsigned char *slot = ring_slot(&scene->rings[ring], step);
    const int32_t *of_x = (const void *)(slot + scene->layout.fields[FIELD_X].slot_offset);
    const int32_t *y = (const void *)(slot + scene->layout.fields[FIELD_Y].slot_offset);
    const int32_t *rows = (const void *)(slot + scene->layout.fields[FIELD_ROWS].slot_offset);
    const int64_t *offsets = (const void *)(slot + scene->layout.fields[FIELD_OFFSETS].slot_offset);
    int64_t at = 0;
    for (uint32_t i = 0; i < step % (BATCH + 1); i++) {
        int32_t x = (int32_t)(100 * step + 10 * ring + i);
        bool is_bad = scene->log && is_odd(x);
        assert_int_equal(slot[scene->layout.valid_offset + i], !is_bad);
        assert_int_equal(of_x[i], is_bad ? 0 : x);
        assert_int_equal(y[i], is_bad ? 0 : 2 * x);
        if (has_rows)
            assert_int_equal(offsets[i], at);
        for (int32_t k = 0; has_rows && k < x % 5; k++)
            assert_int_equal(rows[at++], is_bad ? 0 : x);
    }
    if (has_rows)
        assert_int_equal(offsets[step % (BATCH + 1)], at);
}

/* Runs STEPS steps through both rings. */
static enum status run_steps(struct scene *scene, bool has_rows, struct error *err)
{
    uint64_t filled[RINGS] = {0}, taken[RINGS] = {0};
    while (taken[0] < STEPS || taken[1] < STEPS) {
        bool active = false;
        for (uint32_t r = 0; r < RINGS; r++)
            while (filled[r] < STEPS && transform_slot_free(scene->transform, r, filled[r]))
                fill(scene, r, filled[r]++);
        enum status status = transform_progress(scene->transform, true, &active, err);
        if (status != STATUS_OK)
            return status;
        for (uint32_t r = 0; r < RINGS; r++)
            while (transform_done(scene->transform, r) > 0) {
                check(scene, r, taken[r]++, has_rows);
                transform_take(scene->transform, r);
            }
        if (!active)
            clock_sleep_ns(200000);
    }
    return STATUS_OK;
}

static void all_is_made(const char *mode, bool has_rows, uint32_t processes)
{
    struct scene scene;
    struct error err = {0};
    open_scene(&scene, mode, has_rows, processes);
    if (run_steps(&scene, has_rows, &err) != STATUS_OK)
        fail_msg("%s, %u processes: %s", mode, processes, err.message);
    assert_true(transform_spent_ns(scene.transform) > 0);
    close_scene(&scene);
}

static void any_number_of_processes_makes_the_same(void **state)
{
    (void)state;
    all_is_made("make", false, 1);
    all_is_made("make", true, 1);
    all_is_made("make", false, 5); /* steps are divided */
    all_is_made("make", true, 3);
}

static void what_a_dead_process_had_is_done_again(void **state)
{
    (void)state;
    all_is_made("die", false, 2);
    all_is_made("die", true, 1);
}

static void nonsense_on_the_board_is_done_again(void **state)
{
    (void)state;
    all_is_made("scribble", false, 1);
    all_is_made("scribble", true, 2);
}

static void ends_with(const char *mode, bool has_rows, enum status status, const char *words)
{
    struct scene scene;
    struct error err = {0};
    open_scene(&scene, mode, has_rows, 2);
    enum status found = run_steps(&scene, has_rows, &err);
    if (found != status || !strstr(err.message, words))
        fail_msg("%s: status %d: %s", mode, (int)found, err.message);
    close_scene(&scene);
}

static void trouble_is_told(void **state)
{
    (void)state;
    ends_with("fail", true, STATUS_INVALID,
              "delivery.transform failed at the sample with index 3002 (epoch 0 step 3): odd");
    ends_with("fall", true, STATUS_INVALID,
              "at epoch 0 step 3: output 'rows': its offsets do not begin with 0, fall,");
    ends_with(
        "always", true, STATUS_LOST,
        "3 processes of delivery.transform died at the same batch, 3 samples of epoch 0 step "
        "3, the first with index 3000: the last, as the first, was killed by signal 9 (Killed)");
}

/* Listed once and more: a process that dies has said so, too. */
static void bad_samples_are_masked(void **state)
{
    struct error err = {0};
    (void)state;
    for (uint32_t processes = 1; processes <= 5; processes += 2) {
        struct scene scene;
        struct bad_chunk bad;
        uint32_t listed = 0, expected = 0;
        open_scene(&scene, "bad", processes != 5, processes);
        if (run_steps(&scene, processes != 5, &err) != STATUS_OK)
            fail_msg("%u processes: %s", processes, err.message);
        for (uint32_t n = 0; n < RINGS * STEPS; n++)
            for (uint32_t i = 0; i < n / 2 % (BATCH + 1); i++)
                expected += is_odd((int32_t)(100 * (n / 2) + 10 * (n % 2) + i));
        for (; bad_log_take(scene.log, &bad); listed++) {
            char words[128];
            snprintf(words, sizeof words,
                     "delivery.transform failed at the sample with index %llu (epoch 0 step %llu): "
                     "odd",
                     (unsigned long long)bad.first_sample,
                     (unsigned long long)bad.first_sample / 1000);
            assert_string_equal(bad.cause.message, words);
            assert_string_equal(bad.array, "delivery.transform");
        }
        assert_in_range(listed, expected, expected + BATCH);
        close_scene(&scene);
    }
}

/* However many of them are found at once. */
static void all_processes_end(void **state)
{
    struct scene scene;
    struct error err = {0};
    (void)state;
    open_scene(&scene, "quit", false, 2);
    clock_sleep_ns(UINT64_C(100000000));
    assert_int_equal(run_steps(&scene, false, &err), STATUS_LOST);
    if (!strstr(err.message, "ended with exit code 3") || !strstr(err.message, " was ready") ||
        !strstr(err.message, scene.file))
        fail_msg("%s", err.message);
    print_message("%s\n", err.message);
    close_scene(&scene);
}

static void steps_are_forgotten(void **state)
{
    struct scene scene;
    struct error err = {0};
    bool active;
    (void)state;
    open_scene(&scene, "make", false, 2);
    for (uint64_t step = 0; step < SLOTS; step++)
        fill(&scene, 0, step);
    while (!transform_cancel(scene.transform))
        assert_int_equal(transform_progress(scene.transform, true, &active, &err), STATUS_OK);
    assert_int_equal(transform_done(scene.transform, 0), 0);
    assert_true(transform_slot_free(scene.transform, 0, SLOTS - 1));
    assert_false(transform_slot_free(scene.transform, 0, SLOTS));
    assert_int_equal(run_steps(&scene, false, &err), STATUS_OK);
    close_scene(&scene);
}

static void a_process_of_nobody_is_refused(void **state)
{
    struct penstock_transform *transform = NULL;
    char message[PENSTOCK_MESSAGE_BYTES];
    (void)state;
    unsetenv(BOARD_SOCKET_VARIABLE);
    assert_int_equal(penstock_transform_open(&transform, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "was not started by a reader"));
    setenv(BOARD_SOCKET_VARIABLE, "999", 1);
    assert_int_equal(penstock_transform_open(&transform, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "is not the reader's socket"));
    unsetenv(BOARD_SOCKET_VARIABLE);
    penstock_transform_close(NULL);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return work(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_makes_the_same),
        cmocka_unit_test(what_a_dead_process_had_is_done_again),
        cmocka_unit_test(nonsense_on_the_board_is_done_again),
        cmocka_unit_test(trouble_is_told),
        cmocka_unit_test(bad_samples_are_masked),
        cmocka_unit_test(all_processes_end),
        cmocka_unit_test(steps_are_forgotten),
        cmocka_unit_test(a_process_of_nobody_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
