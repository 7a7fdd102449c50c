/* For tests of stores behind a network: a server of the test's own, and stores that it is. */
#ifndef PENSTOCK_TESTS_UNIT_REMOTE_SERVER_H
#define PENSTOCK_TESTS_UNIT_REMOTE_SERVER_H

#include "base/clock.h"
#include "store/kind/fetch.h"
#include "store/store.h"

#include <arpa/inet.h>
#include <libdeflate.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

/* The server answers on one connection each, by path; the first "GET /late" waits. "GET
 * /missing-whole/N" is answered with an error's page of N bytes, "GET /missing-pieces/N" with one
 * that does not say its length; these, and the short answer to "GET /crowd", keep the connection.
 */
static struct {
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_uint late;                  /* requests for it */
    atomic_uint connections;           /* that are kept */
    atomic_uint at_once, most_at_once; /* of "GET /crowd" */
    atomic_uint wanted_at_once;        /* these are not answered before so many have come */
    _Atomic uint64_t sent;             /* bytes of bodies */
    unsigned char *encoded;            /* 64 MiB of nothing, as gzip */
    size_t encoded_bytes;
} server;

static inline bool put(int fd, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t count = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
        if (count <= 0)
            return false;
        done += (size_t)count;
    }
    atomic_fetch_add(&server.sent, size);
    return true;
}

static inline void answer(int fd, const char *headers, const void *body, size_t size,
                          uint64_t times)
{
    char head[512];
    int length =
        snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nConnection: close\r\n%s\r\n", headers);
    if (!put(fd, head, (size_t)length))
        return;
    while (times-- > 0 && put(fd, body, size))
        ;
}

/* False: the client has gone. */
static inline bool say_crowded(int fd)
{
    unsigned now = atomic_fetch_add(&server.at_once, 1) + 1;
    for (unsigned most = server.most_at_once;
         most < now && !atomic_compare_exchange_weak(&server.most_at_once, &most, now);)
        ;
    for (int ms = 0; ms < 10000 && server.most_at_once < server.wanted_at_once; ms++)
        clock_sleep_ns(1000000);
    clock_sleep_ns(1000000);
    atomic_fetch_sub(&server.at_once, 1);
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour";
    return put(fd, text, sizeof text - 1);
}

/* False: the client has gone. */
static inline bool say_missing(int fd, size_t size, bool in_pieces)
{
    char *page = malloc(size + 256), length[64];
    int used =
        snprintf(length, sizeof length,
                 in_pieces ? "Transfer-Encoding: chunked\r\n" : "Content-Length: %zu\r\n", size);
    assert_true(page && used > 0);
    used = in_pieces ? sprintf(page, "HTTP/1.1 404 No\r\n%s\r\n%zx\r\n", length, size)
                     : sprintf(page, "HTTP/1.1 404 No\r\n%s\r\n", length);
    memset(page + used, 'x', size);
    strcpy(page + used + size, "\r\n0\r\n\r\n");
    bool sent = put(fd, page, (size_t)used + size + (in_pieces ? 7 : 0));
    free(page);
    return sent;
}

/* Reads one request. False: there is none. */
static inline bool take_request(int fd, char *request, size_t capacity)
{
    size_t used = 0;
    memset(request, 0, capacity);
    while (!strstr(request, "\r\n\r\n") && used < capacity - 1) {
        ssize_t count = recv(fd, request + used, capacity - 1 - used, 0);
        if (count <= 0)
            break;
        used += (size_t)count;
    }
    return used > 0;
}

static inline void *serve_one(void *argument)
{
    static const unsigned char zeros[MIB];
    static const char refusal[] = "HTTP/1.1 405 No\r\nConnection: close\r\n\r\n";
    static const char no_end[] = "HTTP/1.1 206 x\r\nConnection: close\r\n"
                                 "Content-Length: 1\r\nContent-Range: bytes 0-0/9\r\n\r\n0";
    int fd = (int)(intptr_t)argument;
    char request[4096], kind[32];
    size_t size;
    bool counted = false;
    for (bool more = true; more && take_request(fd, request, sizeof request);) {
        bool missing = sscanf(request, "GET /missing-%30[a-z]/%zu", kind, &size) == 2;
        if (!missing && strncmp(request, "GET /crowd", 10) != 0)
            break;
        if (!counted)
            atomic_fetch_add(&server.connections, 1);
        counted = true;
        more = missing ? say_missing(fd, size, strcmp(kind, "pieces") == 0) : say_crowded(fd);
    }
    if (strncmp(request, "HEAD ", 5) == 0) {
        put(fd, refusal, sizeof refusal - 1);
    } else if (strncmp(request, "GET /bomb ", 10) == 0) {
        answer(fd, "Content-Encoding: gzip\r\n", server.encoded, server.encoded_bytes, 1);
    } else if (strncmp(request, "GET /large ", 11) == 0) {
        answer(fd, "Content-Length: 1048576000\r\n", zeros, sizeof zeros, 1000);
    } else if (strncmp(request, "GET /digits ", 12) == 0) {
        answer(fd, "", "0123456789abcdefghijk", 21, 1);
    } else if (strncmp(request, "GET /no-end ", 12) == 0 && strstr(request, "bytes=-")) {
        put(fd, no_end, sizeof no_end - 1);
    } else if (strncmp(request, "GET /no-end ", 12) == 0) {
        char headers[64];
        snprintf(headers, sizeof headers, "Content-Encoding: gzip\r\nContent-Length: %zu\r\n",
                 server.encoded_bytes);
        answer(fd, headers, server.encoded, server.encoded_bytes, 1);
    } else if (strncmp(request, "GET /labelled ", 14) == 0) {
        answer(fd, "Content-Encoding: utf-8\r\n", "0123456789", 10, 1);
    } else if (strncmp(request, "GET /broken ", 12) == 0) {
        answer(fd, "Content-Encoding: gzip\r\n", zeros, 1000, 1);
    } else if (strncmp(request, "GET /late ", 10) == 0) {
        if (atomic_fetch_add(&server.late, 1) == 0)
            clock_sleep_ns(UINT64_C(1500000000));
        answer(fd, "Content-Length: 1000\r\n", zeros, 1000, 1);
    } else {
        answer(fd, "Content-Length: 1000\r\n", zeros, 1000, 1);
    }
    shutdown(fd, SHUT_WR);
    while (recv(fd, request, sizeof request, 0) > 0)
        ;
    close(fd);
    return NULL;
}

static inline void *serve(void *argument)
{
    pthread_attr_t detached;
    (void)argument;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int fd; (fd = accept(server.fd, NULL, NULL)) >= 0;) {
        pthread_t thread;
        if (pthread_create(&thread, &detached, serve_one, (void *)(intptr_t)fd))
            close(fd);
    }
    pthread_attr_destroy(&detached);
    return NULL;
}

static inline int start_server(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    (void)state;
    void *zeros = calloc(64, MIB);
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(1);
    server.encoded = malloc(MIB);
    server.encoded_bytes =
        libdeflate_gzip_compress(compressor, zeros, (size_t)64 * MIB, server.encoded, MIB);
    libdeflate_free_compressor(compressor);
    free(zeros);
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.encoded_bytes == 0 || bind(server.fd, (struct sockaddr *)&address, size) ||
        listen(server.fd, 64) || getsockname(server.fd, (struct sockaddr *)&address, &size))
        return -1;
    server.port = ntohs(address.sin_port);
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static inline int stop_server(void **state)
{
    (void)state;
    shutdown(server.fd, SHUT_RD);
    pthread_join(server.thread, NULL);
    close(server.fd);
    free(server.encoded);
    return 0;
}

static inline struct store *open_options(const struct store_options *options)
{
    char uri[64];
    struct store *store;
    struct error err;
    snprintf(uri, sizeof uri, "http://127.0.0.1:%u", server.port);
    if (store_open_with(uri, options, &store, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return store;
}

static inline struct store *open_store(_Atomic int64_t *second_room)
{
    return open_options(&(struct store_options){.second_room = second_room});
}

static inline struct store *open_with(uint32_t requests, uint32_t threads)
{
    struct store_settings settings = store_settings_default();
    settings.requests = requests;
    settings.hedge = false;
    settings.threads = threads;
    return open_options(&(struct store_options){.settings = &settings});
}

#endif
