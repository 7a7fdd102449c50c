/* Errors: a status and one message that says what failed, where and why.
 *
 * A `struct error` is owned by the caller and may be NULL where the message is not wanted. The one
 * who detects a failure writes the exact cause with error_set(); each layer above adds in front,
 * with error_prefix(), only what it alone knows:
 *
 *     array 'images' chunk 0.3: open 'images/0.3': Permission denied
 *
 * Messages quote text from outside as text_show() shows it.
 *
 * A `struct error` has a fixed size and no pointers, so it travels between threads, processes and
 * ranks as plain bytes. Nothing here logs, exits or allocates. Not synchronised: one thread, one
 * error.
 */
#ifndef PENSTOCK_BASE_ERROR_H
#define PENSTOCK_BASE_ERROR_H

#include <stdint.h>

/* name, value, text. The values are part of the wire protocol and of penstock.h: never renumber. */
#define STATUS_TABLE(X)                                \
    X(OK, 0, "ok")                                     \
    X(INVALID, 1, "invalid argument or configuration") \
    X(NOT_FOUND, 2, "not found")                       \
    X(IO, 3, "input or output failed")                 \
    X(CORRUPT, 4, "data is corrupt")                   \
    X(UNSUPPORTED, 5, "not supported")                 \
    X(NO_MEMORY, 6, "not enough memory")               \
    X(PROTOCOL, 7, "peer broke the protocol")          \
    X(REFUSED, 8, "refused by the service")            \
    X(TIMEOUT, 9, "timed out")                         \
    X(ENDED, 10, "no more batches")                    \
    X(LOST, 11, "the other side went away")            \
    X(INTERRUPTED, 12, "stopped by a signal")          \
    X(MPI, 13, "MPI failed")

enum status {
#define STATUS_ENUM(name, value, text) STATUS_##name = value,
    STATUS_TABLE(STATUS_ENUM)
#undef STATUS_ENUM
};

enum { ERROR_MESSAGE_BYTES = 960, ERROR_FILE_BYTES = 32 };

struct error {
    int32_t status;       /* enum status */
    int32_t system_errno; /* errno of the failed call, 0 if none */
    int32_t rank;         /* MPI rank it happened on, -1 if unknown */
    int32_t line;         /* where it was detected, in our source */
    char file[ERROR_FILE_BYTES];
    char message[ERROR_MESSAGE_BYTES]; /* NUL-terminated, one line, UTF-8 */
};

#define MUST_USE              __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, arg) __attribute__((format(printf, fmt, arg)))

/* Fills *err (may be NULL); the value of the expression is the status. A message that is too long
 * is cut. This is a macro so that compilers and analysers see the status that goes back to the
 * caller. */
#define error_set(err, value, ...) error_set_at(err, value, 0, __VA_ARGS__)

/* The same for a failed system call: records errno and appends ": <strerror>". */
#define error_set_errno(err, value, ...) error_set_at(err, value, errno, __VA_ARGS__)

/* Puts text in front of the message of *err (may be NULL): "array 'x' " + message. `value` becomes
 * the status of *err and is the value of the expression. */
#define error_prefix(err, value, ...)                     \
    ({                                                    \
        const enum status error_status_ = (value);        \
        error_prepend((err), error_status_, __VA_ARGS__); \
        error_status_;                                    \
    })

/* The functions behind the macros. */
#define error_set_at(err, value, system_errno, ...)                                        \
    ({                                                                                     \
        const enum status error_status_ = (value);                                         \
        error_record((err), error_status_, system_errno, __FILE__, __LINE__, __VA_ARGS__); \
        error_status_;                                                                     \
    })
void error_record(struct error *err, enum status status, int system_errno, const char *file,
                  int line, const char *format, ...) PRINTF_LIKE(6, 7);
void error_prepend(struct error *err, enum status status, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Empties *err: status OK, rank -1, no message. */
void error_clear(struct error *err);

/* The text of a status, e.g. "data is corrupt"; "unknown status" for a value out of the table. */
const char *status_text(enum status status);

/* The exit code of a program that fails with `status`: EXIT_FINAL where the next try would fail too
 * (usage, configuration, data that is damaged or not supported), else EXIT_FAILURE. */
enum { EXIT_FINAL = 4 };
int status_exit_code(enum status status);

#endif
