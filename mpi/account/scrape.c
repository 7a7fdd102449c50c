/* See scrape.h. The thread is libmicrohttpd's. */
#include "account/scrape.h"

#include "base/text.h"
#include "metrics/metrics_file.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 16, SILENCE_S = 10, CONNECTION_BYTES = 16384 };

struct scrape {
    int dir;
    uint32_t reader;
    struct address address;
    struct MHD_Daemon *daemon;
};

/* `text` is taken; NULL data is fine. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type,
                              struct text *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text->length, text->data, MHD_RESPMEM_MUST_COPY);
    text_done(text);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result queued = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result answer_metrics(const struct scrape *scrape,
                                      struct MHD_Connection *connection)
{
    struct metrics_snapshot *snapshot;
    struct text text = {0};
    struct error error;
    if (metrics_file_read(scrape->dir, scrape->reader, &snapshot, &error) != STATUS_OK) {
        text_append(&text, "%s\n", error.message);
        return answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", &text);
    }
    metrics_text(snapshot, &text);
    free(snapshot);
    return answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &text);
}

static enum MHD_Result handle(void *argument, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **request)
{
    static char seen;
    struct text text = {0};
    (void)version, (void)upload;
    if (*request != &seen) { /* called first when only the head has come */
        *request = &seen;
        return MHD_YES;
    }
    if (*upload_size > 0) { /* is thrown away, and refused in the end */
        *upload_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        text_append(&text, "only GET and HEAD are answered\n");
        return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", &text);
    }
    if (strcmp(url, "/metrics") == 0)
        return answer_metrics(argument, connection);
    text_append(&text, "the metrics of this penstock-reader are at /metrics\n");
    bool root = strcmp(url, "/") == 0;
    return answer(connection, root ? MHD_HTTP_OK : MHD_HTTP_NOT_FOUND, "text/plain; charset=utf-8",
                  &text);
}

/* A port that was in use a moment ago may be bound. */
static enum status listen_at(struct address *address, int *ret_socket, struct error *err)
{
    const int on = 1;
    int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "metrics.listen: create a socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address->socket, address->length) < 0 || listen(fd, 16) < 0) {
        int number = errno;
        close(fd);
        struct address_text shown = address_print(address);
        const char *advice = number == EADDRINUSE
                                 ? "another program, or another run, listens there; choose another "
                                   "port, or 0 for any"
                             : number == EADDRNOTAVAIL ? "this node has no such address"
                             : number == EACCES ? "ports below 1024 are the system's; choose a "
                                                  "higher one"
                                                : "see the error";
        return error_set(err, STATUS_IO, "metrics.listen: cannot listen at %s: %s: %s", shown.text,
                         strerror(number), advice);
    }
    address->length = sizeof address->socket;
    getsockname(fd, (struct sockaddr *)&address->socket, &address->length);
    *ret_socket = fd;
    return STATUS_OK;
}

enum status scrape_new(int dir, uint32_t reader, const struct address *address,
                       struct scrape **ret_scrape, struct error *err)
{
    struct scrape *scrape = calloc(1, sizeof *scrape);
    if (!scrape)
        return error_set(err, STATUS_NO_MEMORY, "no memory for metrics");
    *scrape = (struct scrape){.dir = dir, .reader = reader, .address = *address};
    int fd = -1;
    enum status status = listen_at(&scrape->address, &fd, err);
    if (status == STATUS_OK) {
        scrape->daemon = MHD_start_daemon(
            MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL, handle, scrape,
            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENCE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)CONNECTION_BYTES, MHD_OPTION_END);
        if (!scrape->daemon) {
            status = error_set_errno(err, STATUS_IO, "metrics.listen: start a thread that answers");
            close(fd);
        }
    }
    if (status != STATUS_OK) {
        free(scrape);
        return status;
    }
    *ret_scrape = scrape;
    return STATUS_OK;
}

struct address scrape_address(const struct scrape *scrape)
{
    return scrape->address;
}

void scrape_free(struct scrape *scrape)
{
    if (!scrape)
        return;
    MHD_stop_daemon(scrape->daemon); /* closes the socket, too */
    free(scrape);
}
