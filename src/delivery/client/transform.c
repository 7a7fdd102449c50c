/* The processes' side of transforms: see penstock_transform.h and delivery/ring/board.h. */
#include "penstock_transform.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "delivery/client/describe.h"
#include "delivery/ring/board.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/ring.h"
#include "delivery/ring/sealed.h"
#include "delivery/ring/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What is being worked on. */
enum duty { DUTY_NONE, DUTY_TRIAL, DUTY_TASK };

struct penstock_transform {
    int socket, token_fd, done_fd; /* owned; -1: none */
    uint32_t process, session;
    struct ring *rings; /* [ring_count], owned */
    uint32_t ring_count, ring_room;
    struct ring_layout layout; /* of all rings */
    struct board_shape shape;
    struct board *board; /* mapped; NULL: no session has begun */
    uint64_t board_bytes;
    uint32_t task_count; /* as checked */
    enum duty duty;
    struct board_task *task;
    uint64_t start_ns;
    struct penstock_transform_batch batch;
    struct penstock_field fields[RING_MAX_FIELDS];
    struct penstock_output outputs[RING_MAX_FIELDS];
    struct error error;
};

_Static_assert(sizeof((struct penstock_transform_batch){0}.data) / sizeof(void *) ==
                   RING_MAX_FIELDS,
               "any field fits");

/* Sessions
 * ------------------------------------------------------------------------------------------- */

static void leave_session(struct penstock_transform *t)
{
    for (uint32_t r = 0; r < t->ring_count; r++)
        ring_done(&t->rings[r]);
    free(t->rings);
    if (t->board)
        munmap(t->board, t->board_bytes);
    fd_close(&t->token_fd);
    fd_close(&t->done_fd);
    t->rings = NULL;
    t->board = NULL;
    t->ring_count = t->ring_room = 0;
    t->duty = DUTY_NONE;
}

static enum status map_board(struct penstock_transform *t, int memfd, struct error *err)
{
    uint64_t bytes = 0;
    bool sound = sealed_check(memfd, &bytes) && bytes >= sizeof(struct board);
    void *memory = sound ? memory_map_file(memfd, bytes, PROT_READ | PROT_WRITE) : MAP_FAILED;
    if (memory == MAP_FAILED)
        return error_set(err, STATUS_PROTOCOL, "transform: the board cannot be mapped");
    t->board = memory;
    t->board_bytes = bytes;
    if (t->board->magic != BOARD_MAGIC || t->board->version != BOARD_VERSION ||
        board_bytes(t->task_count = t->board->task_count) != bytes || t->task_count == 0)
        return error_set(err, STATUS_PROTOCOL, "transform: the memory that came is no board");
    return STATUS_OK;
}

/* Takes `fds`. */
static enum status begin(struct penstock_transform *t, const struct board_message *message,
                         int *fds, struct error *err)
{
    leave_session(t);
    t->process = message->process;
    t->session = message->session;
    t->shape = message->shape;
    t->token_fd = fds[1];
    t->done_fd = fds[2];
    fds[1] = fds[2] = -1;
    t->ring_room = message->count;
    t->rings = calloc(message->count ? message->count : 1, sizeof *t->rings);
    if (!t->rings)
        return error_set(err, STATUS_NO_MEMORY, "transform: no memory for rings");
    return map_board(t, fds[0], err);
}

/* Takes fds[0]. */
static enum status add_ring(struct penstock_transform *t, int *fds, struct error *err)
{
    struct ring_header *header = malloc(sizeof *header);
    if (!header || t->ring_count == t->ring_room) {
        free(header);
        return error_set(err, STATUS_PROTOCOL, "transform: a ring that nobody waits for");
    }
    enum status status = ring_open_whole(fds[0], &t->rings[t->ring_count], header, err);
    fds[0] = -1;
    if (status == STATUS_OK) {
        t->ring_count++;
        t->layout = header->layout;
    }
    free(header);
    return status;
}

/* Whether the numbers of fields are those of the layout. */
static bool shape_fits(const struct board_shape *shape, const struct ring_layout *layout)
{
    bool fits = shape->input_count <= RING_MAX_FIELDS && shape->output_count <= RING_MAX_FIELDS;
    for (uint32_t i = 0; fits && i < shape->input_count; i++)
        fits = shape->inputs[i].field < layout->field_count;
    for (uint32_t o = 0; fits && o < shape->output_count; o++)
        fits = shape->outputs[o].same_as > 0
                   ? shape->outputs[o].same_as <= shape->input_count
                   : shape->outputs[o].field + (shape->outputs[o].most_items > 0) <
                         layout->field_count;
    return fits;
}

/* The input with that number in the layout. */
static uint32_t input_of(const struct board_shape *shape, uint32_t field)
{
    uint32_t i = 0;
    while (i + 1 < shape->input_count && shape->inputs[i].field != field)
        i++;
    return i;
}

static void describe_fields(struct penstock_transform *t)
{
    for (uint32_t i = 0; i < t->shape.input_count; i++) {
        const struct ring_field *field = &t->layout.fields[t->shape.inputs[i].field];
        t->fields[i] = describe_field(&t->layout, field);
        t->fields[i].name = t->shape.inputs[i].name;
        t->fields[i].attributes = "{}";
        t->fields[i].offsets_field = input_of(&t->shape, t->fields[i].offsets_field);
    }
    for (uint32_t o = 0; o < t->shape.output_count; o++) {
        const struct board_output *output = &t->shape.outputs[o];
        t->outputs[o] = (struct penstock_output){.name = output->name,
                                                 .dtype = (enum penstock_dtype)output->dtype,
                                                 .rank = (int32_t)output->rank,
                                                 .most_items = output->most_items,
                                                 .same_as = (int32_t)output->same_as - 1};
        memcpy(t->outputs[o].shape, output->shape, sizeof output->shape);
    }
}

/* Batches
 * ------------------------------------------------------------------------------------------- */

/* A field's samples of the part; the items of a ragged field are the whole batch's. */
static unsigned char *part_of(const struct ring_field *field, unsigned char *slot, uint64_t bound,
                              uint32_t begin)
{
    uint64_t stride = field->kind == RING_ITEMS    ? 0
                      : field->kind == RING_PADDED ? field->sample_bytes * bound
                                                   : field->sample_bytes;
    return slot + field->slot_offset + begin * stride;
}

static enum status fill_batch(struct penstock_transform *t, unsigned char *slot, uint32_t first,
                              uint32_t count, struct error *err)
{
    const struct ring_layout *layout = &t->layout;
    struct slot_header header;
    memcpy(&header, slot, sizeof header);
    if (!shape_fits(&t->shape, layout) || first > layout->batch_size ||
        count > layout->batch_size - first)
        return error_set(err, STATUS_PROTOCOL, "transform: a task that makes no sense");
    describe_fields(t);
    t->batch = (struct penstock_transform_batch){
        .epoch = header.epoch,
        .step = header.step,
        .sample_count = count,
        .is_trial = t->duty == DUTY_TRIAL,
        .bound = header.bound,
        .indices = (const uint64_t *)(const void *)(slot + layout->indices_offset) + first,
        .keys = (const uint64_t *)(const void *)(slot + layout->keys_offset) + first,
        .valid = slot + layout->valid_offset + first,
        .input_count = t->shape.input_count,
        .output_count = t->duty == DUTY_TRIAL ? 0 : t->shape.output_count,
        .fields = t->fields,
        .outputs = t->outputs};
    for (uint32_t i = 0; i < t->shape.input_count; i++)
        t->batch.data[i] =
            part_of(&layout->fields[t->shape.inputs[i].field], slot, header.bound, first);
    for (uint32_t o = 0; o < t->batch.output_count; o++) {
        const struct board_output *output = &t->shape.outputs[o];
        if (output->same_as > 0)
            continue;
        t->batch.results[o] = part_of(&layout->fields[output->field], slot, 0, first);
        if (output->most_items > 0)
            t->batch.result_offsets[o] =
                (int64_t *)(void *)part_of(&layout->fields[output->field + 1], slot, 0, first);
    }
    return STATUS_OK;
}

/* The oldest task that nobody has; NULL: there is none. */
static struct board_task *find_task(const struct penstock_transform *t)
{
    struct board_task *oldest = NULL;
    for (uint32_t i = 0; i < t->task_count; i++) {
        struct board_task *task = &t->board->tasks[i];
        if (board_state_of(atomic_load(&task->word)) == BOARD_READY &&
            (!oldest || task->serial < oldest->serial))
            oldest = task;
    }
    return oldest;
}

static bool take_task(struct penstock_transform *t)
{
    for (;;) {
        uint64_t shown = atomic_load(&t->board->shown), ready = BOARD_READY;
        struct board_task *task = find_task(t);
        t->task = task;
        if (task && atomic_compare_exchange_strong(&task->word, &ready,
                                                   board_word(BOARD_TAKEN, t->process)))
            break;
        if (!task && atomic_load(&t->board->shown) == shown)
            return false;
    }
    t->start_ns = clock_now_ns();
    t->duty = DUTY_TASK;
    return true;
}

static enum status start_task(struct penstock_transform *t, struct error *err)
{
    const struct board_task *task = t->task;
    if (task->ring >= t->ring_count || task->slot >= t->rings[task->ring].slot_count)
        return error_set(err, STATUS_PROTOCOL, "transform: a task that makes no sense");
    return fill_batch(t, ring_slot(&t->rings[task->ring], task->slot), task->begin, task->count,
                      err);
}

static enum status start_trial(struct penstock_transform *t, const struct board_message *message,
                               int *fds, struct error *err)
{
    leave_session(t);
    t->shape = message->shape;
    t->ring_room = 1;
    t->rings = calloc(1, sizeof *t->rings);
    if (!t->rings)
        return error_set(err, STATUS_NO_MEMORY, "transform: no memory for a ring");
    enum status status = add_ring(t, fds, err);
    if (status != STATUS_OK)
        return status;
    t->duty = DUTY_TRIAL;
    const unsigned char *slot = ring_slot(&t->rings[0], 0);
    struct slot_header header;
    memcpy(&header, slot, sizeof header);
    return fill_batch(t, ring_slot(&t->rings[0], 0), 0, header.sample_count, err);
}

/* Waiting
 * ------------------------------------------------------------------------------------------- */

static enum status hear(struct penstock_transform *t, struct error *err)
{
    struct board_message *message = malloc(sizeof *message);
    int fds[BOARD_MOST_FDS] = {-1, -1, -1};
    if (!message)
        return error_set(err, STATUS_NO_MEMORY, "transform: no memory for a message");
    enum status status = board_receive(t->socket, message, fds, MSG_DONTWAIT, err);
    const struct board_message here = {.type = BOARD_HELLO};
    if (status == STATUS_OK && message->type == BOARD_TRIAL) {
        status = start_trial(t, message, fds, err);
    } else if (status == STATUS_OK && message->type == BOARD_BEGIN) {
        status = begin(t, message, fds, err);
        if (status == STATUS_OK)
            status = board_send(t->socket, &here, NULL, 0, err);
    } else if (status == STATUS_OK && message->type == BOARD_RING) {
        status = add_ring(t, fds, err);
    } else if (status == STATUS_OK) {
        status =
            error_set(err, STATUS_PROTOCOL, "transform: a message of type %" PRIu32, message->type);
    }
    for (int i = 0; i < BOARD_MOST_FDS; i++)
        fd_close(&fds[i]);
    free(message);
    if (status == STATUS_LOST)
        return error_set(err, STATUS_ENDED, "the reader has ended this transform, or is gone");
    return status == STATUS_TIMEOUT ? STATUS_OK : status;
}

/* A token stands for a task that was submitted. Without one, or with one of a task that somebody
 * else has taken meanwhile, there is nothing. */
static bool take_token(const struct penstock_transform *t)
{
    uint64_t one;
    return read(t->token_fd, &one, sizeof one) == sizeof one;
}

static enum status wait_for_duty(struct penstock_transform *t, struct error *err)
{
    while (t->duty == DUTY_NONE) {
        bool serves = t->board && t->ring_count == t->ring_room;
        struct pollfd fds[2] = {{.fd = t->socket, .events = POLLIN},
                                {.fd = serves ? t->token_fd : -1, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return error_set_errno(err, STATUS_IO, "transform: wait for a batch");
        enum status status = fds[0].revents ? hear(t, err) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        if (!fds[0].revents && fds[1].revents && take_token(t) && take_task(t))
            status = start_task(t, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* The public interface
 * ------------------------------------------------------------------------------------------- */

/* The reader's descriptor, as the environment names it. */
static enum status find_socket(int *ret_socket, struct error *err)
{
    const char *text = getenv(BOARD_SOCKET_VARIABLE);
    char *end = NULL;
    long number = text ? strtol(text, &end, 10) : -1;
    int type = 0;
    socklen_t size = sizeof type;
    if (!text)
        return error_set(err, STATUS_INVALID,
                         "this process was not started by a reader: give its command as "
                         "delivery.transform: {run: COMMAND}");
    if (*end || number < 0 || number > INT32_MAX ||
        getsockopt((int)number, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
        return error_set(err, STATUS_INVALID,
                         BOARD_SOCKET_VARIABLE
                         " is '%s', and descriptor %s is not the reader's socket: the command "
                         "has to leave it open to the program",
                         text, text);
    *ret_socket = (int)number;
    return STATUS_OK;
}

enum penstock_status penstock_transform_open(struct penstock_transform **ret_transform,
                                             char *message)
{
    struct error error = {0};
    int socket = -1;
    struct penstock_transform *t = calloc(1, sizeof *t);
    enum status status = t ? find_socket(&socket, &error)
                           : error_set(&error, STATUS_NO_MEMORY, "no memory for a transform");
    const struct board_message hello = {.type = BOARD_HELLO};
    if (status == STATUS_OK) {
        *t = (struct penstock_transform){.socket = socket, .token_fd = -1, .done_fd = -1};
        (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
        prctl(PR_SET_PDEATHSIG,
              SIGTERM); /* of the reader, where its shell has become this process */
        status = board_send(socket, &hello, NULL, 0, &error);
    }
    if (message)
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "%s", error.message);
    if (status == STATUS_OK)
        *ret_transform = t;
    else
        free(t);
    return (enum penstock_status)status;
}

enum penstock_status penstock_transform_next(struct penstock_transform *t,
                                             struct penstock_transform_batch *ret_batch)
{
    error_clear(&t->error);
    if (t->duty != DUTY_NONE)
        return (enum penstock_status)error_set(
            &t->error, STATUS_INVALID,
            "transform: the last batch was not answered: tell, done or fail");
    enum status status = wait_for_duty(t, &t->error);
    if (status == STATUS_OK)
        *ret_batch = t->batch;
    return (enum penstock_status)status;
}

static enum status check_output(const struct penstock_transform *t,
                                const struct penstock_output *output, struct error *err)
{
    uint64_t bytes = dtype_bytes((enum dtype)output->dtype);
    const char *name = output->name;
    if (!name || !*name || strlen(name) >= RING_NAME_BYTES || *name == '<')
        return error_set(err, STATUS_INVALID,
                         "output '%s': a name has 1 to %d bytes, of which the first is no '<'",
                         name ? name : "", RING_NAME_BYTES - 1);
    if (output->most_items > 0 && strlen(name) + sizeof ".offsets" > RING_NAME_BYTES)
        return error_set(err, STATUS_INVALID,
                         "output '%s': the name of a ragged field has %zu bytes at most", name,
                         RING_NAME_BYTES - sizeof ".offsets");
    if (output->same_as >= (int32_t)t->shape.input_count)
        return error_set(err, STATUS_INVALID, "output '%s': there is no input %" PRId32, name,
                         output->same_as);
    if (output->same_as >= 0)
        return STATUS_OK;
    if (bytes == 0)
        return error_set(err, STATUS_INVALID, "output '%s': %d is no dtype", name,
                         (int)output->dtype);
    if (output->rank < 0 || output->rank > RING_MAX_RANK)
        return error_set(err, STATUS_INVALID, "output '%s': %" PRId32 " axes; at most %d", name,
                         output->rank, RING_MAX_RANK);
    for (int32_t d = 0; d < output->rank; d++)
        if (output->shape[d] == 0 || !size_multiply(bytes, output->shape[d], &bytes))
            return error_set(err, STATUS_INVALID,
                             "output '%s': axis %" PRId32 " has length %" PRIu64, name, d,
                             output->shape[d]);
    return STATUS_OK;
}

enum penstock_status penstock_transform_tell(struct penstock_transform *t,
                                             const struct penstock_output *outputs,
                                             uint32_t output_count)
{
    error_clear(&t->error);
    if (t->duty != DUTY_TRIAL || output_count > RING_MAX_FIELDS)
        return (enum penstock_status)error_set(
            &t->error, STATUS_INVALID, "transform: %" PRIu32 " outputs, at most %d, for a trial",
            output_count, RING_MAX_FIELDS);
    struct board_message *message = calloc(1, sizeof *message);
    if (!message)
        return (enum penstock_status)error_set(&t->error, STATUS_NO_MEMORY, "transform: no memory");
    message->type = BOARD_OUTPUTS;
    message->shape.output_count = output_count;
    enum status status = STATUS_OK;
    for (uint32_t o = 0; status == STATUS_OK && o < output_count; o++) {
        struct board_output *output = &message->shape.outputs[o];
        status = check_output(t, &outputs[o], &t->error);
        if (status != STATUS_OK)
            break;
        snprintf(output->name, sizeof output->name, "%s", outputs[o].name);
        output->same_as = (uint32_t)(outputs[o].same_as + 1);
        if (outputs[o].same_as >= 0)
            continue;
        output->dtype = outputs[o].dtype;
        output->rank = (uint32_t)outputs[o].rank;
        memcpy(output->shape, outputs[o].shape, output->rank * sizeof output->shape[0]);
        output->most_items = outputs[o].most_items;
    }
    if (status == STATUS_OK)
        status = board_send(t->socket, message, NULL, 0, &t->error);
    free(message);
    if (status == STATUS_OK)
        leave_session(t);
    return (enum penstock_status)status;
}

static enum status check_offsets(const struct penstock_transform *t, struct error *err)
{
    for (uint32_t o = 0; o < t->batch.output_count; o++) {
        const int64_t *offsets = t->batch.result_offsets[o];
        uint64_t most = t->outputs[o].most_items;
        if (!offsets)
            continue;
        bool sound = offsets[0] == 0;
        for (uint32_t i = 0; sound && i < t->batch.sample_count; i++)
            sound = offsets[i + 1] >= offsets[i] && (uint64_t)(offsets[i + 1] - offsets[i]) <= most;
        if (!sound)
            return error_set(err, STATUS_INVALID,
                             "output '%s': its offsets do not begin with 0, fall, or give a sample "
                             "more than %" PRIu64 " items",
                             t->outputs[o].name, most);
    }
    return STATUS_OK;
}

static void answer(struct penstock_transform *t, enum board_state state)
{
    atomic_store(&t->task->spent_ns, clock_now_ns() - t->start_ns);
    uint64_t taken = board_word(BOARD_TAKEN, t->process); /* unless it was given to another one */
    atomic_compare_exchange_strong(&t->task->word, &taken, board_word(state, t->process));
    wakeup_signal(t->done_fd);
    t->duty = DUTY_NONE;
}

enum penstock_status penstock_transform_done(struct penstock_transform *t)
{
    error_clear(&t->error);
    if (t->duty != DUTY_TASK)
        return (enum penstock_status)error_set(&t->error, STATUS_INVALID,
                                               "transform: there is no batch to be done with");
    enum status status = check_offsets(t, &t->error);
    if (status == STATUS_OK)
        answer(t, BOARD_DONE);
    return (enum penstock_status)status;
}

enum penstock_status penstock_transform_fail(struct penstock_transform *t, int64_t sample,
                                             const char *text)
{
    struct board_message *message = calloc(1, sizeof *message);
    if (message) /* before the error is cleared: `text` may be penstock_transform_error()'s */
        snprintf(message->text, sizeof message->text, "%s", text);
    error_clear(&t->error);
    if (t->duty == DUTY_NONE || !message) {
        free(message);
        return (enum penstock_status)error_set(&t->error, STATUS_INVALID,
                                               "transform: there is no batch to fail at");
    }
    message->type = BOARD_TROUBLE;
    message->session = t->session;
    message->task = t->duty == DUTY_TASK ? (uint64_t)(t->task - t->board->tasks) : 0;
    message->sample =
        sample < 0 ? UINT32_MAX : (uint32_t)sample + (t->duty == DUTY_TASK ? t->task->begin : 0);
    enum status status = board_send(t->socket, message, NULL, 0, &t->error);
    free(message);
    if (t->duty == DUTY_TASK)
        answer(t, BOARD_FAILED);
    else
        leave_session(t);
    return (enum penstock_status)status;
}

const char *penstock_transform_error(const struct penstock_transform *t)
{
    return t->error.message;
}

void penstock_transform_close(struct penstock_transform *t)
{
    if (!t)
        return;
    leave_session(t);
    fd_close(&t->socket);
    free(t);
}
