/* See error.h. */
#include "base/error.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last path component: messages name our files, not the build machine's folders. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void error_record(struct error *err, enum status status, int system_errno, const char *file,
                  int line, const char *format, ...)
{
    if (!err)
        return;
    char message[ERROR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (system_errno && length >= 0 && (size_t)length < sizeof message)
        snprintf(message + length, sizeof message - (size_t)length, ": %s", strerror(system_errno));
    *err = (struct error){.status = status, .system_errno = system_errno, .rank = -1, .line = line};
    snprintf(err->file, sizeof err->file, "%s", base_name(file));
    text_show(err->message, sizeof err->message, message);
}

void error_prepend(struct error *err, enum status status, const char *format, ...)
{
    if (!err)
        return;
    char message[ERROR_MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof message)
        snprintf(message + length, sizeof message - (size_t)length, "%s", err->message);
    text_show(err->message, sizeof err->message, message);
    err->status = status;
}

void error_clear(struct error *err)
{
    *err = (struct error){.status = STATUS_OK, .rank = -1};
}

const char *status_text(enum status status)
{
    switch (status) {
#define STATUS_CASE(name, value, text) \
    case STATUS_##name:                \
        return text;
        STATUS_TABLE(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

int status_exit_code(enum status status)
{
    switch (status) {
    case STATUS_OK:
        return EXIT_SUCCESS;
    case STATUS_INVALID:
    case STATUS_CORRUPT:
    case STATUS_UNSUPPORTED:
        return EXIT_FINAL;
    default:
        return EXIT_FAILURE;
    }
}
