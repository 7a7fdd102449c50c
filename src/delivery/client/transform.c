/* The processes' side of transforms: see penstock_transform.h and delivery/ring/board.h. */
#include "penstock_transform.h"

#include "base/clock.h"
#include "base/size.h"
#include "delivery/client/transform_internal.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/wakeup.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

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
        status = board_send(socket, &hello, NULL, 0, &error);
        if (status == STATUS_LOST)
            status = error_set(&error, STATUS_ENDED, "the reader is gone already");
    }
    if (message)
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "%s", error.message);
    if (status == STATUS_OK) {
        /* A function that never returns notices nothing of the reader's end. The reader has its
         * child killed; if this process is the child's, a shell's, it goes with the shell. */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        *ret_transform = t;
    } else {
        free(t);
    }
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
    enum status status = transform_wait(t, &t->error);
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
        transform_leave(t);
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
        answer(t, t->is_partly ? BOARD_PARTLY : BOARD_DONE);
    return (enum penstock_status)status;
}

/* A message about the task or the trial. `text` may be penstock_transform_error()'s. */
static enum status send_trouble(struct penstock_transform *t, enum board_message_type type,
                                int64_t sample, const char *text)
{
    struct board_message *message = calloc(1, sizeof *message);
    if (!message)
        return error_set(&t->error, STATUS_NO_MEMORY, "transform: no memory");
    snprintf(message->text, sizeof message->text, "%s", text);
    error_clear(&t->error);
    message->type = type;
    message->session = t->session;
    message->task = t->duty == DUTY_TASK ? (uint64_t)(t->task - t->board->tasks) : 0;
    message->sample =
        sample < 0 ? UINT32_MAX : (uint32_t)sample + (t->duty == DUTY_TASK ? t->task->begin : 0);
    enum status status = board_send(t->socket, message, NULL, 0, &t->error);
    free(message);
    return status;
}

enum penstock_status penstock_transform_mask(struct penstock_transform *t, uint32_t sample,
                                             const char *text)
{
    if (t->duty != DUTY_TASK || !t->masks || sample >= t->batch.sample_count)
        return (enum penstock_status)error_set(
            &t->error, STATUS_INVALID, "transform: sample %" PRIu32 " cannot be masked: %s", sample,
            t->duty != DUTY_TASK || sample >= t->batch.sample_count
                ? "there is no such sample"
                : "errors.bad_sample is not mask");
    enum status status = send_trouble(t, BOARD_BAD, sample, text);
    t->is_partly |= status == STATUS_OK;
    return (enum penstock_status)status;
}

enum penstock_status penstock_transform_fail(struct penstock_transform *t, int64_t sample,
                                             const char *text)
{
    if (t->duty == DUTY_NONE)
        return (enum penstock_status)error_set(&t->error, STATUS_INVALID,
                                               "transform: there is no batch to fail at");
    enum status status = send_trouble(t, BOARD_TROUBLE, sample, text);
    if (t->duty == DUTY_TASK)
        answer(t, BOARD_FAILED);
    else
        transform_leave(t);
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
    transform_leave(t);
    fd_close(&t->socket);
    free(t);
}
