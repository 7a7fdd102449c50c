/* See trial.h. */
#include "transform/trial.h"

#include "base/clock.h"
#include "base/text.h"
#include "delivery/ring/fdpass.h"
#include "run/trial_slot.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { STOP_MS = 1000, MOST_TRIES = 3 };

/* The inputs
 * ------------------------------------------------------------------------------------------- */

/* Whether a field is `name`, or comes beside the field `name`: "F.offsets". */
static bool belongs_to(const char *field, const char *name, size_t length)
{
    return strncmp(field, name, length) == 0 && (field[length] == '\0' || field[length] == '.');
}

static enum status find_inputs(const char *fields, const struct dataset *dataset,
                               struct board_shape *shape, struct error *err)
{
    uint64_t chosen = *fields ? 0 : UINT64_MAX;
    struct text name = {0};
    enum status status = STATUS_OK;
    for (const char *at = fields; status == STATUS_OK && text_list_take(&at, &name);) {
        uint64_t found = 0;
        for (size_t f = 0; f < dataset->field_count; f++)
            if (belongs_to(dataset->fields[f].name, name.data, name.length))
                found |= UINT64_C(1) << f;
        if (found == 0)
            status =
                error_set(err, STATUS_INVALID, "delivery.transform.fields: there is no field '%s'",
                          text_shown(name.data).text);
        else if (*fields && (found & chosen) != 0)
            status = error_set(err, STATUS_INVALID,
                               "delivery.transform.fields: field '%s' is named twice: what comes "
                               "beside a field is with it",
                               dataset->fields[__builtin_ctzll(found & chosen)].name);
        chosen |= found;
    }
    text_done(&name);
    for (size_t f = 0; f < dataset->field_count; f++) /* columns of a ragged field come together */
        for (size_t g = 0; g < dataset->field_count && (chosen >> f & 1); g++)
            if (dataset->fields[f].ragged && dataset->fields[g].ragged == dataset->fields[f].ragged)
                chosen |= UINT64_C(1) << g;
    for (uint32_t f = 0; f < dataset->field_count; f++) {
        struct board_input *input = &shape->inputs[shape->input_count];
        if (!(chosen >> f & 1))
            continue;
        input->field = f;
        snprintf(input->name, sizeof input->name, "%s", dataset->fields[f].name);
        shape->input_count++;
    }
    return status;
}

/* The outputs
 * ------------------------------------------------------------------------------------------- */

static bool is_input(const struct board_shape *shape, uint32_t field)
{
    for (uint32_t i = 0; i < shape->input_count; i++)
        if (shape->inputs[i].field == field)
            return true;
    return false;
}

/* Whether an output has a name: its own, or that of its offsets. */
static bool has_name(const struct board_output *output, const char *name)
{
    size_t length = strlen(output->name);
    return strcmp(output->name, name) == 0 ||
           (output->most_items > 0 && strncmp(output->name, name, length) == 0 &&
            strcmp(name + length, ".offsets") == 0);
}

/* A name of output `number` that trainers have already: of a field that is no input, or is handed
 * on, or of an output before; NULL: none. */
static const char *taken_name(const struct board_shape *shape, const struct dataset *dataset,
                              uint32_t number)
{
    const struct board_output *output = &shape->outputs[number];
    for (uint32_t f = 0; f < dataset->field_count; f++)
        if (!is_input(shape, f) && has_name(output, dataset->fields[f].name))
            return dataset->fields[f].name;
    for (uint32_t i = 0; i < shape->input_count; i++) /* beside one that is handed on, say */
        if (shape->inputs[i].is_delivered && output->same_as == 0 &&
            has_name(output, shape->inputs[i].name))
            return shape->inputs[i].name;
    for (uint32_t o = 0; o < number; o++) {
        if (has_name(output, shape->outputs[o].name))
            return shape->outputs[o].name;
        if (has_name(&shape->outputs[o], output->name))
            return output->name;
    }
    return NULL;
}

static enum status check_names(const struct board_shape *shape, const struct dataset *dataset,
                               struct error *err)
{
    for (uint32_t o = 0; o < shape->output_count; o++) {
        const char *name = taken_name(shape, dataset, o);
        if (name)
            return error_set(err, STATUS_INVALID,
                             "delivery.transform: there is a field '%s' already (output '%s'): "
                             "give the output another name, or list the field in "
                             "delivery.transform.fields",
                             name, shape->outputs[o].name);
    }
    return STATUS_OK;
}

/* An input that is handed on takes along what comes beside it. */
static enum status hand_on(struct board_shape *shape, const struct dataset *dataset,
                           const struct board_output *output, struct error *err)
{
    struct board_input *input = &shape->inputs[output->same_as - 1];
    if (strcmp(input->name, output->name) != 0)
        return error_set(err, STATUS_INVALID,
                         "delivery.transform: it returned its input '%s' as '%s': an input that is "
                         "handed on keeps its name; return a copy",
                         input->name, output->name);
    const struct ragged *ragged = dataset->fields[input->field].ragged;
    for (uint32_t i = 0; i < shape->input_count; i++)
        if (belongs_to(shape->inputs[i].name, output->name, strlen(output->name)) ||
            (ragged && shape->inputs[i].field == ragged->lengths_field))
            shape->inputs[i].is_delivered = 1;
    return STATUS_OK;
}

static enum status take_outputs(const struct board_shape *told, const struct dataset *dataset,
                                struct board_shape *shape, struct error *err)
{
    uint32_t next = (uint32_t)dataset->field_count;
    if (told->output_count > RING_MAX_FIELDS)
        return error_set(err, STATUS_PROTOCOL, "delivery.transform: %" PRIu32 " outputs",
                         told->output_count);
    shape->output_count = told->output_count;
    for (uint32_t o = 0; o < told->output_count; o++) {
        struct board_output *output = &shape->outputs[o];
        *output = told->outputs[o];
        output->name[sizeof output->name - 1] = '\0';
        if (output->same_as > shape->input_count)
            return error_set(err, STATUS_PROTOCOL, "delivery.transform: there is no input %" PRIu32,
                             output->same_as);
        if (output->same_as > 0) {
            enum status status = hand_on(shape, dataset, output, err);
            if (status != STATUS_OK)
                return status;
            continue;
        }
        output->field = next;
        next += output->most_items > 0 ? 2 : 1;
        if (next > RING_MAX_FIELDS)
            return error_set(err, STATUS_INVALID,
                             "delivery.transform: %" PRIu32 " fields with its outputs; a batch has "
                             "%d at most",
                             next, RING_MAX_FIELDS);
    }
    return check_names(shape, dataset, err);
}

/* The call
 * ------------------------------------------------------------------------------------------- */

/* Waits for a message of a type. */
static enum status await(const struct trial_options *options, struct transform_process *process,
                         enum board_message_type type, struct board_message *ret_message,
                         struct error *err)
{
    const uint64_t ms_ns = 1000000, deadline_ns = clock_now_ns() + options->timeout_ns;
    for (;;) {
        struct pollfd fd = {.fd = process->socket, .events = POLLIN};
        (void)poll(&fd, 1, 100);
        if (options->is_interrupted && options->is_interrupted(options->argument))
            return error_set(err, STATUS_INTERRUPTED,
                             "delivery.transform: a signal came before '%s' had said what it makes",
                             text_shown(options->command.text).text);
        enum status status = board_receive(process->socket, ret_message, NULL, MSG_DONTWAIT, err);
        if (status == STATUS_OK && ret_message->type == (uint32_t)type)
            return STATUS_OK;
        if (status == STATUS_OK && ret_message->type == BOARD_TROUBLE)
            return error_set(err, STATUS_INVALID,
                             "delivery.transform failed in its trial, with "
                             "the first samples: %s",
                             ret_message->text);
        if (status == STATUS_LOST) {
            for (int i = 0; i < 1000 && !transform_process_has_ended(process); i++)
                clock_sleep_ns(ms_ns);
            return error_set(
                err, STATUS_LOST, "delivery.transform: '%s' %s before it had said what it makes%s",
                text_shown(options->command.text).text,
                transform_ending(process->ended ? process->status : ENDING_CLOSED).text,
                process->ended && process->status == 0 ? ": has it a @penstock.transform?" : "");
        }
        if (status != STATUS_OK && status != STATUS_TIMEOUT)
            return status;
        if (clock_now_ns() > deadline_ns)
            return error_set(err, STATUS_TIMEOUT,
                             "delivery.transform: '%s' has said nothing for %.0f s "
                             "(delivery.transform.timeout): does it call penstock.transform?",
                             text_shown(options->command.text).text,
                             (double)options->timeout_ns / 1e9);
    }
}

static enum status call(const struct trial_options *options, struct transform_process *process,
                        int memfd, const struct board_shape *inputs, struct board_message *message,
                        struct error *err)
{
    const int fds[BOARD_MOST_FDS] = {memfd, -1, -1};
    enum status status = await(options, process, BOARD_HELLO, message, err);
    if (status != STATUS_OK)
        return status;
    memset(message, 0, sizeof *message);
    message->type = BOARD_TRIAL;
    message->shape = *inputs;
    status = board_send(process->socket, message, fds, 0, err);
    return status == STATUS_OK ? await(options, process, BOARD_OUTPUTS, message, err) : status;
}

enum status trial_run(const struct trial_options *options, const struct dataset *dataset,
                      struct board_shape *ret_shape, struct error *err)
{
    struct transform_process process = {.socket = -1};
    struct board_message *message = calloc(1, sizeof *message);
    struct board_shape *shape = calloc(1, sizeof *shape);
    int memfd = -1;
    enum status status = message && shape
                             ? find_inputs(options->fields, dataset, shape, err)
                             : error_set(err, STATUS_NO_MEMORY, "no memory for a trial");
    if (status == STATUS_OK)
        status = trial_slot_make(dataset, options->seed, &memfd, err);
    for (int tries = 1; status == STATUS_OK; tries++) {
        status = transform_process_start(&options->command, &process, err);
        if (status == STATUS_OK)
            status = call(options, &process, memfd, shape, message, err);
        bool again = status == STATUS_LOST && transform_process_was_killed(&process);
        transform_process_stop(&process, status == STATUS_INTERRUPTED ? 0 : STOP_MS);
        if (status == STATUS_OK || !again || tries == MOST_TRIES)
            break;
        status = STATUS_OK;
    }
    if (status == STATUS_OK)
        status = take_outputs(&message->shape, dataset, shape, err);
    if (status == STATUS_OK)
        *ret_shape = *shape;
    fd_close(&memfd);
    free(message);
    free(shape);
    return status;
}

static void append_output(const struct board_shape *shape, const struct board_output *output,
                          struct text *out)
{
    if (output->same_as > 0) {
        text_append(out, "%s as it is", shape->inputs[output->same_as - 1].name);
        return;
    }
    text_append(out, "%s %s", output->name, dtype_name((enum dtype)output->dtype));
    uint32_t count = output->rank + (output->most_items > 0);
    if (output->most_items > 0)
        text_append(out, " [up to %" PRIu64, output->most_items);
    for (uint32_t d = 0; d < output->rank; d++)
        text_append(out, "%s%" PRIu64, d + count - output->rank > 0 ? ", " : " [",
                    output->shape[d]);
    text_append(out, "%s", count > 0 ? "]" : "");
}

void trial_describe(const struct board_shape *shape, struct text *out)
{
    text_append(out, "gets ");
    for (uint32_t i = 0; i < shape->input_count; i++)
        text_append(out, "%s%s", i > 0 ? ", " : "", shape->inputs[i].name);
    text_append(out, "; makes %s", shape->output_count > 0 ? "" : "nothing");
    for (uint32_t o = 0; o < shape->output_count; o++) {
        text_append(out, "%s", o > 0 ? ", " : "");
        append_output(shape, &shape->outputs[o], out);
    }
}
