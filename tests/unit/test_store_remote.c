/* Stores behind a network, against a server of this test's own: bounds that no whole job shows. */
#include "base/clock.h"
#include "store/fetch.h"
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

/* The server
 *
 * answers on one connection each, by path; the first "GET /late" waits. "GET /missing-whole/N" is
 * answered with an error's page of N bytes, "GET /missing-pieces/N" with one that does not say its
 * length; these, and the short answer to "GET /crowd", keep the connection.
 * ---------------------------------------------------------------------------------------------- */

static struct {
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_uint late; /* requests for it */
    atomic_uint connections;
    atomic_uint at_once, most_at_once; /* of "GET /crowd" */
    atomic_uint wanted_at_once;        /* these are not answered before so many have come */
    _Atomic uint64_t sent;             /* bytes of bodies */
    unsigned char *encoded;            /* 64 MiB of nothing, as gzip */
    size_t encoded_bytes;
} server;

static bool put(int fd, const void *bytes, size_t size)
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

static void answer(int fd, const char *headers, const void *body, size_t size, uint64_t times)
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
static bool say_crowded(int fd)
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
static bool say_missing(int fd, size_t size, bool in_pieces)
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
static bool take_request(int fd, char *request, size_t capacity)
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

static void *serve_one(void *argument)
{
    static const unsigned char zeros[MIB];
    static const char refusal[] = "HTTP/1.1 405 No\r\nConnection: close\r\n\r\n";
    static const char no_end[] = "HTTP/1.1 206 x\r\nConnection: close\r\n"
                                 "Content-Length: 1\r\nContent-Range: bytes 0-0/9\r\n\r\n0";
    int fd = (int)(intptr_t)argument;
    char request[4096], kind[32];
    size_t size;
    atomic_fetch_add(&server.connections, 1);
    for (bool more = true; more && take_request(fd, request, sizeof request);) {
        if (sscanf(request, "GET /missing-%30[a-z]/%zu", kind, &size) == 2)
            more = say_missing(fd, size, strcmp(kind, "pieces") == 0);
        else if (strncmp(request, "GET /crowd", 10) == 0)
            more = say_crowded(fd);
        else
            break;
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

static void *serve(void *argument)
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

static int start_server(void **state)
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

static int stop_server(void **state)
{
    (void)state;
    shutdown(server.fd, SHUT_RD);
    pthread_join(server.thread, NULL);
    close(server.fd);
    free(server.encoded);
    return 0;
}

static struct store *open_options(const struct store_options *options)
{
    char uri[64];
    struct store *store;
    struct error err;
    snprintf(uri, sizeof uri, "http://127.0.0.1:%u", server.port);
    if (store_open_with(uri, options, &store, &err))
        fail_msg("%s", err.message);
    return store;
}

static struct store *open_store(_Atomic int64_t *second_room)
{
    return open_options(&(struct store_options){.second_room = second_room});
}

static struct store *open_with(uint32_t requests, uint32_t threads)
{
    struct store_settings settings = store_settings_default();
    settings.requests = requests;
    settings.hedge = false;
    settings.threads = threads;
    return open_options(&(struct store_options){.settings = &settings});
}

/* The tests
 * ---------------------------------------------------------------------------------------------- */

static void test_what_is_encoded_stays_within_its_room(void **state)
{
    unsigned char buffer[1001] = {[1000] = 7};
    struct store *store = open_store(NULL);
    struct store_range range = {5 * MIB, 1000, buffer};
    struct error err;
    size_t size;
    (void)state;
    assert_int_equal(store_get(store, "bomb", buffer, 1000, &size, &err), STATUS_CORRUPT);
    assert_int_equal(store_get_ranges(store, "bomb", &range, 1, NULL, &err), STATUS_OK);
    range.offset = (uint64_t)64 * MIB - 999; /* one byte beyond it */
    assert_int_equal(store_get_ranges(store, "bomb", &range, 1, NULL, &err), STATUS_CORRUPT);
    assert_int_equal(store_get(store, "broken", buffer, 1000, &size, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "Content-Encoding 'gzip'"));
    assert_int_equal(buffer[1000], 7);
    store_free(store);
}

/* A range far within a value is not worth all that lies before it. */
static void test_no_more_is_passed_over_than_is_said(void **state)
{
    unsigned char buffer[1000];
    struct store *store = open_store(NULL);
    struct store_range near = {3 * MIB, 1000, buffer}, far = {900ull * MIB, 1000, buffer};
    struct error err;
    uint64_t total;
    (void)state;
    assert_int_equal(store_get_ranges(store, "large", &near, 1, NULL, &err), STATUS_OK);
    uint64_t before = server.sent;
    assert_int_equal(store_get_ranges(store, "large", &far, 1, NULL, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "the server has no ranges"));
    assert_int_equal(store_get_tail(store, "large", buffer, 1000, &total, &err),
                     STATUS_UNSUPPORTED);
    assert_in_range(server.sent - before, 0, 100 * MIB); /* of three gigabytes */
    store_free(store);
}

static void test_the_end_of_what_comes_whole(void **state)
{
    static const char digits[] = "0123456789abcdefghijk";
    struct store *store = open_store(NULL);
    struct error err;
    struct store_info info;
    (void)state;
    for (size_t size = 1; size <= 21; size++) {
        char buffer[32] = "";
        uint64_t total;
        assert_int_equal(store_get_tail(store, "digits", buffer, size, &total, &err), STATUS_OK);
        assert_string_equal(buffer, digits + 21 - size);
        assert_int_equal(total, 21);
    }
    char buffer[32];
    uint64_t total;
    assert_int_equal(store_get_tail(store, "digits", buffer, 22, &total, &err), STATUS_CORRUPT);
    assert_int_equal(store_stat(store, "digits", &info, &err), STATUS_OK);
    assert_int_equal(info.bytes, 21);
    store_free(store);
}

static bool begins_with_0(const void *bytes, size_t size)
{
    return size > 0 && *(const unsigned char *)bytes == 0;
}

static bool begins_like_gzip(const void *bytes, size_t size)
{
    return size > 1 && memcmp(bytes, "\x1f\x8b", 2) == 0;
}

/* A value that is packed once is taken as it is stored, one that is packed twice is decoded. */
static void test_an_encoding_may_name_how_a_value_is_packed(void **state)
{
    struct store *store = open_store(NULL);
    size_t capacity = (size_t)64 * MIB, size;
    unsigned char *buffer = malloc(capacity);
    struct error err;
    (void)state;
    for (int fits = 0; fits < 2; fits++) { /* what is decoded, or only what is stored */
        assert_int_equal(store_get_packed(store, "bomb", begins_like_gzip, NULL, buffer,
                                          fits ? capacity : MIB, &size, &err),
                         STATUS_OK);
        assert_int_equal(size, server.encoded_bytes);
        assert_memory_equal(buffer, server.encoded, size);
    }
    assert_int_equal(
        store_get_packed(store, "bomb", begins_with_0, NULL, buffer, capacity, &size, &err),
        STATUS_OK);
    assert_int_equal(size, capacity);
    assert_int_equal(
        store_get_packed(store, "broken", begins_with_0, NULL, buffer, 1000, &size, &err),
        STATUS_OK);
    assert_int_equal(size, 1000);
    free(buffer);
    store_free(store);
}

/* What is labelled so is taken as it is. */
static void test_what_is_no_encoding_is_passed_over(void **state)
{
    struct store *store = open_store(NULL);
    struct error err;
    char buffer[16] = "";
    struct store_range range = {3, 2, buffer};
    size_t size;
    (void)state;
    if (store_get(store, "labelled", buffer, 10, &size, &err))
        fail_msg("%s", err.message);
    assert_string_equal(buffer, "0123456789");
    assert_int_equal(store_get_ranges(store, "labelled", &range, 1, NULL, &err), STATUS_OK);
    assert_memory_equal(buffer, "34", 2);
    store_free(store);
}

/* The length that the server says is not that of what would be decoded. */
static void test_no_end_is_counted_in_encoded_bytes(void **state)
{
    struct store *store = open_store(NULL);
    struct store_info info;
    struct error err;
    char buffer[16];
    uint64_t total;
    (void)state;
    assert_int_equal(store_get_tail(store, "no-end", buffer, 10, &total, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Content-Encoding"));
    assert_int_equal(store_stat(store, "no-end", &info, &err), STATUS_OK);
    assert_int_equal(info.bytes, server.encoded_bytes);
    store_free(store);
}

static void test_second_requests_stay_within_their_room(void **state)
{
    static const struct {
        int64_t room;
        unsigned requests;
    } cases[] = {{999, 1}, {1000, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        _Atomic int64_t room = cases[i].room;
        struct store *store = open_store(&room);
        unsigned char buffer[1000];
        size_t size;
        struct error err;
        for (unsigned j = 0; j < 300; j++)
            assert_int_equal(store_get(store, "value", buffer, 1000, &size, &err), STATUS_OK);
        server.late = 0;
        assert_int_equal(store_get(store, "late", buffer, 1000, &size, &err), STATUS_OK);
        assert_int_equal(server.late, cases[i].requests);
        store_free(store);
        assert_int_equal(room, cases[i].room);
    }
}

/* A chunk that is missing is no reason to connect anew, with whatever page a server says so. */
static void test_what_is_missing_keeps_the_connection(void **state)
{
    static const struct {
        const char *key;
        bool keeps;
    } cases[] = {{"missing-whole/0", true},        {"missing-whole/100", true},
                 {"missing-whole/1023", true},     {"missing-whole/1024", true},
                 {"missing-whole/60000", true},    {"missing-whole/1000000", false},
                 {"missing-pieces/100", true},     {"missing-pieces/60000", true},
                 {"missing-pieces/1000000", false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = open_with(0, 0);
        struct error err;
        char buffer[1000];
        size_t size;
        unsigned before = server.connections;
        for (int j = 0; j < 10; j++)
            assert_int_equal(store_get(store, cases[i].key, buffer, sizeof buffer, &size, &err),
                             STATUS_NOT_FOUND);
        assert_int_equal(server.connections - before, cases[i].keeps ? 1 : 10);
        store_free(store);
    }
}

/* A crowd of fetches, each started anew as often as is left to do; who calls done() is noted. */
struct crowd {
    const struct store *store;
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    unsigned to_start, left, failed; /* under `mutex` */
    pthread_t callers[8];            /* under `mutex` */
    unsigned caller_count, calls[8]; /* under `mutex` */
};

static void crowd_done(struct fetch *fetch)
{
    struct crowd *crowd = fetch->argument;
    unsigned i = 0;
    pthread_mutex_lock(&crowd->mutex);
    while (i < crowd->caller_count && !pthread_equal(crowd->callers[i], pthread_self()))
        i++;
    if (i == crowd->caller_count && i < 8)
        crowd->callers[crowd->caller_count++] = pthread_self();
    crowd->calls[i]++;
    crowd->failed += fetch->status != STATUS_OK || fetch->got != 4;
    bool again = crowd->to_start > 0 && fetch->status == STATUS_OK;
    crowd->to_start -= again;
    crowd->left -= !again;
    if (crowd->left == 0)
        pthread_cond_signal(&crowd->all_done);
    pthread_mutex_unlock(&crowd->mutex);
    fetch->key = "crowd";
    if (again)
        fetch_start(crowd->store, fetch);
}

enum { CROWD = 40 };

static void start_crowd(struct crowd *crowd, struct fetch *fetches, char (*buffers)[8],
                        unsigned at_first, unsigned total)
{
    crowd->to_start = total - at_first;
    crowd->left = at_first;
    for (unsigned i = 0; i < at_first; i++) {
        fetches[i] = (struct fetch){.kind = FETCH_WHOLE,
                                    .key = "crowd",
                                    .buffer = buffers[i],
                                    .capacity = 8,
                                    .done = crowd_done,
                                    .argument = crowd};
        fetch_start(crowd->store, &fetches[i]);
    }
}

static void wait_for_crowd(struct crowd *crowd)
{
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->left > 0)
        pthread_cond_wait(&crowd->all_done, &crowd->mutex);
    pthread_mutex_unlock(&crowd->mutex);
    assert_int_equal(crowd->failed, 0);
    assert_int_equal(crowd->to_start, 0);
}

/* The limit is of all threads together, all of it is used, and threads have equal shares. */
static void test_threads_share_the_limit(void **state)
{
    static const struct {
        uint32_t requests, threads;
    } cases[] = {{12, 1}, {12, 2}, {12, 4}, {5, 4}, {1, 3}, {7, 3}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t requests = cases[c].requests, threads = cases[c].threads;
        struct store *store = open_with(requests, threads);
        struct crowd crowd = {.store = store,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .all_done = PTHREAD_COND_INITIALIZER};
        struct fetch fetches[CROWD];
        char buffers[CROWD][8];
        unsigned before = server.connections, total = 50 * requests;
        server.most_at_once = 0;
        server.wanted_at_once = requests;
        start_crowd(&crowd, fetches, buffers, CROWD, total < 2 * CROWD ? 2 * CROWD : total);
        wait_for_crowd(&crowd);
        assert_int_equal(server.most_at_once, requests);
        assert_in_range(server.connections - before, requests, 2 * requests);
        unsigned share = (requests + threads - 1) / threads;
        assert_in_range(crowd.caller_count, (requests + share - 1) / share, threads);
        store_free(store);
    }
}

/* No fetch waits for another below the limit, whichever thread was woken for it. */
static void test_a_few_fetches_go_at_once(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 30; turn++) {
        uint32_t threads = 2 + turn % 3;
        struct store *store = open_with(0, threads);
        struct crowd crowd = {.store = store,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .all_done = PTHREAD_COND_INITIALIZER};
        struct fetch fetches[CROWD];
        char buffers[CROWD][8];
        server.most_at_once = 0;
        server.wanted_at_once = threads;
        start_crowd(&crowd, fetches, buffers, threads, threads);
        wait_for_crowd(&crowd);
        assert_int_equal(server.most_at_once, threads);
        store_free(store);
    }
}

/* Whatever is under way, and on which thread: all of it ends with the store. */
static void test_the_end_of_many_threads(void **state)
{
    (void)state;
    server.wanted_at_once = 0;
    for (uint32_t turn = 0; turn < 20; turn++) {
        struct store *store = open_with(turn % 2 ? 3 : 0, 1 + turn % 4);
        struct crowd crowd = {.store = store,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .all_done = PTHREAD_COND_INITIALIZER};
        struct fetch fetches[CROWD];
        char buffers[CROWD][8];
        start_crowd(&crowd, fetches, buffers, CROWD, 1000000);
        clock_sleep_ns(turn * UINT64_C(1000000));
        fetch_stop(store);
        assert_int_equal(crowd.left, 0);
        assert_int_equal(crowd.failed, CROWD);
        store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_encoded_stays_within_its_room),
        cmocka_unit_test(test_no_more_is_passed_over_than_is_said),
        cmocka_unit_test(test_the_end_of_what_comes_whole),
        cmocka_unit_test(test_an_encoding_may_name_how_a_value_is_packed),
        cmocka_unit_test(test_what_is_no_encoding_is_passed_over),
        cmocka_unit_test(test_no_end_is_counted_in_encoded_bytes),
        cmocka_unit_test(test_second_requests_stay_within_their_room),
        cmocka_unit_test(test_what_is_missing_keeps_the_connection),
        cmocka_unit_test(test_threads_share_the_limit),
        cmocka_unit_test(test_a_few_fetches_go_at_once),
        cmocka_unit_test(test_the_end_of_many_threads),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
