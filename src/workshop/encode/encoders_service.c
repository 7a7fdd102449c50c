/* The thread that starts encoders, serves them as a reader serves trainers, and ends them. See
 * encoders_internal.h. */
#include "workshop/encode/encoders_internal.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "delivery/ring/order.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t second_ns = UINT64_C(1000000000);
static const uint64_t warning_ns = UINT64_C(30000000000), end_patience_ns = UINT64_C(20000000000);

enum { POLL_MS = 50 };

/* Failures
 * ------------------------------------------------------------------------------------------- */

/* "encoder 0 (process 17), which had samples 4 to 7, ", or without samples. */
static void append_who(const struct encoders *encoders, uint32_t i, struct text *out)
{
    const struct encoder *encoder = &encoders->all[i];
    const struct submission *oldest = &encoder->submissions[encoder->given % ENCODERS_SLOTS];
    text_append(out, "encoder %" PRIu32 " (process %ld)", i, (long)encoder->process.pid);
    if (encoder->given < encoder->published)
        text_append(out, ", which had samples %" PRIu64 " to %" PRIu64 ",", oldest->begin,
                    oldest->begin + oldest->count - 1);
}

static void fail_encoder(struct encoders *encoders, uint32_t i, enum status status,
                         const char *format, ...) PRINTF_LIKE(4, 5);
static void fail_encoder(struct encoders *encoders, uint32_t i, enum status status,
                         const char *format, ...)
{
    char what[ERROR_MESSAGE_BYTES];
    struct text who = {0};
    struct error error;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    append_who(encoders, i, &who);
    (void)!error_set(&error, status, "%s %s", who.data ? who.data : "", what);
    text_done(&who);
    encoders_fail(encoders, &error);
}

/* Its socket is closed. A process takes a moment to end. */
static void lose(struct encoders *encoders, uint32_t i, enum server_peer state,
                 const struct error *reason)
{
    struct encoder *encoder = &encoders->all[i];
    for (int k = 0; k < 400 && !process_has_ended(&encoder->process); k++)
        clock_sleep_ns(second_ns / 200);
    bool failed = server_trainer_failed(encoders->server, encoder->trainer);
    if (state == SERVER_PEER_CLOSED)
        fail_encoder(encoders, i, STATUS_LOST, "stopped before it had all batches: command '%s'",
                     text_shown(encoders->options.command).text);
    else if (failed || reason->status != STATUS_LOST)
        fail_encoder(encoders, i, STATUS_LOST, "failed: %s", reason->message);
    else if (encoder->process.ended)
        fail_encoder(encoders, i, STATUS_LOST, "%s: command '%s'",
                     process_ending(&encoder->process), text_shown(encoders->options.command).text);
    else
        fail_encoder(encoders, i, STATUS_LOST, "was lost: %s", reason->message);
}

/* The start
 * ------------------------------------------------------------------------------------------- */

/* One epoch without an end: each encoder counts its own batches. */
static enum status open_server(struct encoders *encoders, struct error *err)
{
    const char *folder = getenv("TMPDIR");
    const struct encoders_options *options = &encoders->options;
    snprintf(encoders->run_dir, sizeof encoders->run_dir, "%s/penstock-encode-XXXXXX",
             folder && *folder ? folder : "/tmp");
    if (!mkdtemp(encoders->run_dir))
        return error_set_errno(err, STATUS_IO, "make '%s'", encoders->run_dir);
    const struct ring_service service = {
        .world_size = options->count,
        .mesh = {.rank_count = options->count},
        .dataset_samples = options->sample_count,
        .steps_per_epoch = UINT64_C(1) << 40,
        .epochs = 1,
        .order = {.global_batch = options->batch * options->count,
                  .row_length = 1,
                  .window_rows = 1,
                  .last = (uint32_t)order_find_last("partial")},
    };
    const struct server_options server = {
        .run_dir = encoders->run_dir,
        .max_trainers = options->count,
        .layout = &encoders->layout,
        .service = &service,
        .takes_results = true,
    };
    enum status status = server_new(&server, &encoders->server, err);
    if (status != STATUS_OK) {
        rmdir(encoders->run_dir);
        return status;
    }
    return server_listen(encoders->server, err);
}

static enum status start_all(struct encoders *encoders, struct error *err)
{
    enum status status = open_server(encoders, err);
    if (status == STATUS_OK)
        status = keeper_start(encoders->run_dir, &encoders->keeper, err);
    encoders->start_ns = clock_now_ns();
    for (uint32_t i = 0; i < encoders->options.count && status == STATUS_OK; i++)
        status = process_start(&encoders->keeper, encoders->options.command, encoders->run_dir, i,
                               encoders->options.count, &encoders->all[i].process, err);
    return status;
}

/* All encoders have connected: they get their rings. */
static void begin(struct encoders *encoders)
{
    struct error error;
    for (uint32_t t = 0; t < encoders->options.count; t++)
        encoders->all[server_trainer_rank(encoders->server, t)].trainer = t;
    if (server_start(encoders->server, &error) != STATUS_OK) {
        encoders_fail(encoders, &error);
        return;
    }
    encoders->serving = true;
    pthread_cond_broadcast(&encoders->changed);
}

static void wait_for_all(struct encoders *encoders)
{
    uint32_t count = encoders->options.count, there = server_trainer_count(encoders->server);
    server_announce(encoders->server, there, count);
    for (uint32_t i = 0; i < count && encoders->error.status == STATUS_OK; i++)
        if (process_has_ended(&encoders->all[i].process))
            fail_encoder(encoders, i, STATUS_LOST, "%s before it asked for a batch: command '%s'",
                         process_ending(&encoders->all[i].process),
                         text_shown(encoders->options.command).text);
    if (encoders->error.status != STATUS_OK)
        return;
    if (there == count)
        begin(encoders);
    else if (clock_now_ns() - encoders->start_ns > encoders->options.timeout_ns)
        for (uint32_t i = 0; i < count; i++) {
            bool found = false;
            for (uint32_t t = 0; t < there; t++)
                found |= server_trainer_rank(encoders->server, t) == i;
            if (!found)
                fail_encoder(
                    encoders, i, STATUS_TIMEOUT,
                    "has asked for no batch within %.0f s (--encoder-timeout): command '%s'",
                    (double)encoders->options.timeout_ns / 1e9,
                    text_shown(encoders->options.command).text);
        }
}

/* Batches and results
 * ------------------------------------------------------------------------------------------- */

static void publish(struct encoders *encoders, struct encoder *encoder)
{
    while (encoder->published < encoder->reserved &&
           encoder->submissions[encoder->published % ENCODERS_SLOTS].state ==
               SUBMISSION_SUBMITTED) {
        if (encoder->given == encoder->published)
            encoder->since_ns = clock_now_ns();
        encoder->submissions[encoder->published++ % ENCODERS_SLOTS].state = SUBMISSION_PUBLISHED;
        server_publish(encoders->server, encoder->trainer);
    }
}

/* Results may come in any order: `given` counts those that all before have, too. */
static void advance_given(struct encoder *encoder)
{
    while (encoder->given < encoder->published) {
        enum submission_state state = encoder->submissions[encoder->given % ENCODERS_SLOTS].state;
        if (state == SUBMISSION_PUBLISHED)
            break;
        encoder->given++;
        encoder->since_ns = clock_now_ns();
        encoder->warned = false;
    }
}

static bool take_given(struct encoders *encoders, uint32_t i)
{
    struct encoder *encoder = &encoders->all[i];
    struct protocol_give give;
    int memfd;
    if (!server_take_given(encoders->server, encoder->trainer, &give, &memfd))
        return false;
    struct submission *submission = &encoder->submissions[give.step % ENCODERS_SLOTS];
    bool known = give.epoch == 0 && give.step >= encoder->given && give.step < encoder->published;
    if (!known || submission->state != SUBMISSION_PUBLISHED) {
        close(memfd);
        fail_encoder(encoders, i, STATUS_PROTOCOL,
                     "gave a result for batch %" PRIu64 ", which has one or was never published",
                     give.step);
        return true;
    }
    submission->state = SUBMISSION_GIVEN;
    submission->give = give;
    submission->memfd = memfd;
    advance_given(encoder);
    pthread_cond_broadcast(&encoders->changed);
    return true;
}

static void check_time(struct encoders *encoders, uint32_t i)
{
    struct encoder *encoder = &encoders->all[i];
    const uint64_t limit_ns = encoders->options.timeout_ns;
    uint64_t waited_ns = clock_now_ns() - encoder->since_ns;
    if (encoder->given == encoder->published)
        return;
    if (waited_ns > limit_ns)
        fail_encoder(encoders, i, STATUS_TIMEOUT,
                     "has given nothing for %.0f s (--encoder-timeout): command '%s'",
                     (double)limit_ns / 1e9, text_shown(encoders->options.command).text);
    else if (waited_ns > warning_ns && !encoder->warned) {
        struct text who = {0};
        append_who(encoders, i, &who);
        fprintf(stderr,
                "waiting: %s has given nothing for %.0f s; after %.0f s it is ended "
                "(--encoder-timeout)\n",
                who.data ? who.data : "", (double)warning_ns / 1e9, (double)limit_ns / 1e9);
        text_done(&who);
        encoder->warned = true;
    }
}

/* For a batch that was taken and has no result, an encoder that asks for more has given nothing:
 * one thread gives and asks. Its ring is looked at before its messages. */
static void look_who_asks(struct encoders *encoders)
{
    for (uint32_t i = 0; encoders->serving && i < encoders->options.count; i++) {
        struct server_ring_view view =
            server_trainer_ring(encoders->server, encoders->all[i].trainer);
        encoders->all[i].asks = view.waiting && view.ready_slots == 0;
    }
}

static bool serve_one(struct encoders *encoders, uint32_t i)
{
    struct encoder *encoder = &encoders->all[i];
    struct error reason;
    bool active = take_given(encoders, i);
    enum server_peer state = server_trainer_state(encoders->server, encoder->trainer, &reason);
    if (active || encoders->error.status != STATUS_OK)
        return active;
    if (state != SERVER_PEER_CONNECTED) {
        lose(encoders, i, state, &reason);
        return true;
    }
    uint64_t from, to;
    if (server_take_skip(encoders->server, encoder->trainer, &from, &to)) {
        fail_encoder(encoders, i, STATUS_INVALID,
                     "skipped batches: give a result for each batch, and skip none");
        return true;
    }
    if (encoder->given < server_trainer_seen(encoders->server, encoder->trainer) ||
        (encoder->asks && encoder->given < encoder->published)) {
        fail_encoder(
            encoders, i, STATUS_INVALID,
            "gave nothing for them and asked for more: give a result for each batch, before "
            "the next one");
        return true;
    }
    publish(encoders, encoder);
    check_time(encoders, i);
    return false;
}

/* The thread
 * ------------------------------------------------------------------------------------------- */

static bool turn(struct encoders *encoders)
{
    struct error error;
    bool active = false;
    look_who_asks(encoders);
    if (server_progress(encoders->server, &active, &error) != STATUS_OK) {
        encoders_fail(encoders, &error);
        return true;
    }
    if (!encoders->serving)
        wait_for_all(encoders);
    for (uint32_t i = 0; encoders->serving && i < encoders->options.count; i++)
        if (encoders->error.status == STATUS_OK)
            active |= serve_one(encoders, i);
    if (active)
        pthread_cond_broadcast(&encoders->changed);
    return active;
}

static void sleep_until_woken(struct encoders *encoders)
{
    struct pollfd fds[2 * ENCODERS_MOST + 128];
    size_t sockets;
    size_t count = server_pollfds(encoders->server, fds, sizeof fds / sizeof fds[0] - 1, &sockets);
    fds[count++] = (struct pollfd){.fd = encoders->wake_fd, .events = POLLIN};
    pthread_mutex_unlock(&encoders->mutex);
    poll(fds, count, POLL_MS);
    pthread_mutex_lock(&encoders->mutex);
    wakeup_drain(encoders->wake_fd);
}

static void serve(struct encoders *encoders)
{
    while (!encoders->stopping && encoders->error.status == STATUS_OK) {
        if (turn(encoders))
            continue;
        server_arm(encoders->server, 0);
        if (!turn(encoders) && !encoders->stopping && encoders->error.status == STATUS_OK)
            sleep_until_woken(encoders);
        server_disarm(encoders->server);
    }
}

static bool all_have_ended(struct encoders *encoders)
{
    bool ended = true;
    for (uint32_t i = 0; i < encoders->options.count; i++)
        ended &= encoders->all[i].process.pid <= 0 || process_has_ended(&encoders->all[i].process);
    return ended;
}

/* Encoders hear that there is no more, or why all ended. */
static void finish(struct encoders *encoders)
{
    struct error outcome = encoders->error;
    bool failed = outcome.status != STATUS_OK, active;
    uint64_t end_ns = clock_now_ns() + (failed ? second_ns : end_patience_ns);
    if (!failed)
        (void)!error_set(&outcome, STATUS_ENDED, "all samples are encoded");
    server_finish(encoders->server, &outcome);
    while (!all_have_ended(encoders) && clock_now_ns() < end_ns) {
        (void)!server_progress(encoders->server, &active, NULL);
        clock_sleep_ns(second_ns / 200);
    }
}

/* Ends all at once, and what they have left: SIGTERM, and after a second SIGKILL. */
static void end_processes(struct encoders *encoders)
{
    uint64_t end_ns = clock_now_ns() + second_ns;
    for (uint32_t i = 0; i < encoders->options.count; i++)
        process_signal(&encoders->all[i].process, SIGTERM);
    while (!all_have_ended(encoders) && clock_now_ns() < end_ns)
        clock_sleep_ns(second_ns / 200);
    keeper_dismiss(&encoders->keeper);
    for (uint32_t i = 0; i < encoders->options.count; i++)
        process_signal(&encoders->all[i].process, SIGKILL);
    for (uint32_t i = 0; i < encoders->options.count; i++)
        process_reap(&encoders->all[i].process);
}

static void *service(void *argument)
{
    struct encoders *encoders = argument;
    struct error error;
    pthread_mutex_lock(&encoders->mutex);
    if (start_all(encoders, &error) != STATUS_OK)
        encoders_fail(encoders, &error);
    else
        serve(encoders);
    pthread_cond_broadcast(&encoders->changed);
    pthread_mutex_unlock(&encoders->mutex);
    if (encoders->server)
        finish(encoders);
    end_processes(encoders);
    return NULL;
}

void encoders_start(struct encoders *encoders)
{
    struct error error;
    if (encoders->started || encoders->error.status != STATUS_OK)
        return;
    if (wakeup_new(&encoders->wake_fd, &error) != STATUS_OK) {
        encoders_fail(encoders, &error);
        return;
    }
    if (!thread_start("encoders", service, encoders, &encoders->thread)) {
        (void)!error_set(&error, STATUS_IO, "cannot start a thread for encoders");
        encoders_fail(encoders, &error);
        return;
    }
    encoders->started = true;
}

void encoders_free(struct encoders *encoders)
{
    if (!encoders)
        return;
    pthread_mutex_lock(&encoders->mutex);
    encoders->stopping = true;
    pthread_mutex_unlock(&encoders->mutex);
    if (encoders->started) {
        wakeup_signal(encoders->wake_fd);
        pthread_join(encoders->thread, NULL);
    }
    for (uint32_t i = 0; i < encoders->options.count; i++)
        for (int k = 0; k < ENCODERS_SLOTS; k++)
            if (encoders->all[i].submissions[k].state == SUBMISSION_GIVEN)
                close(encoders->all[i].submissions[k].memfd);
    server_free(encoders->server);
    if (encoders->wake_fd >= 0)
        close(encoders->wake_fd);
    pthread_cond_destroy(&encoders->changed);
    pthread_mutex_destroy(&encoders->mutex);
    free(encoders);
}
