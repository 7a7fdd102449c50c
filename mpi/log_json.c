/* See log_json.h. The stream's lock guards all that is here. */
#include "log_json.h"

#include "base/text.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 8192 };

static struct {
    char line[LINE_BYTES]; /* begun, and not ended */
    size_t length;
    char host[65];
    _Atomic int rank; /* -1: not known */
} state = {.rank = -1};

/* Takes "penstock-reader: " and the level off the front of a line. */
static const char *take_level(const char **message)
{
    static const char program[] = "penstock-reader: ";
    static const char *const levels[] = {"error", "warning"};
    if (strncmp(*message, program, sizeof program - 1) == 0)
        *message += sizeof program - 1;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        size_t length = strlen(levels[i]);
        if (strncmp(*message, levels[i], length) != 0 || strncmp(*message + length, ": ", 2) != 0)
            continue;
        *message += length + 2;
        return levels[i];
    }
    return "info";
}

static void append_time(struct text *out)
{
    struct timespec now;
    struct tm utc;
    char date[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    text_append(out, "{\"program\":\"penstock-reader\",\"time\":\"%s.%03ldZ\"", date,
                now.tv_nsec / 1000000);
}

static void append_object(struct text *out, const char *level, const char *message)
{
    append_time(out);
    text_append(out, ",\"level\":\"%s\"", level);
    int rank = atomic_load(&state.rank);
    if (rank >= 0)
        text_append(out, ",\"rank\":%d", rank);
    text_append(out, ",\"host\":");
    text_append_json(out, state.host);
    text_append(out, ",\"message\":");
    text_append_json(out, message);
    text_append(out, "}\n");
}

/* Makes the line, whose object is `excess` bytes too long, shorter, and says so at its end. No more
 * than half goes, since a byte may be many in the object. Not within a character of UTF-8. */
static void cut_line(size_t excess)
{
    static const char mark[] = "...";
    size_t half = state.length / 2;
    size_t end = state.length - (excess < half ? excess : half) - (sizeof mark - 1);
    while (end > 0 && (state.line[end] & 0xc0) == 0x80)
        end--;
    memcpy(state.line + end, mark, sizeof mark);
    state.length = end + sizeof mark - 1;
}

/* A pipe takes PIPE_BUF bytes at once or not at all. */
static void write_line(void)
{
    struct text out = {0};
    state.line[state.length] = '\0';
    const char *message = state.line, *level = take_level(&message);
    if (*message) { /* else empty, or ended a line that was drawn anew */
        append_object(&out, level, message);
        while (out.length > PIPE_BUF) {
            cut_line(out.length - PIPE_BUF);
            text_done(&out);
            append_object(&out, level, message);
        }
        while (write(STDERR_FILENO, out.data, out.length) < 0 && errno == EINTR) {
        }
        text_done(&out);
    }
    state.length = 0;
}

static ssize_t put(void *unused, const char *data, size_t size)
{
    (void)unused;
    for (size_t i = 0; i < size; i++)
        if (data[i] == '\n')
            write_line();
        else if (state.length < LINE_BYTES - 1)
            state.line[state.length++] = data[i];
    return (ssize_t)size;
}

enum status log_json_begin(struct error *err)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put});
    if (!stream)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a log as JSON");
    setvbuf(stream, NULL, _IOLBF, LINE_BYTES);
    gethostname(state.host, sizeof state.host - 1);
    stderr = stream;
    return STATUS_OK;
}

void log_json_set_rank(int rank)
{
    atomic_store(&state.rank, rank);
}
