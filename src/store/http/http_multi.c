/* See http_multi.h. */
#include "store/http/http_multi.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS = 64 };
static const uint64_t ms_ns = 1000000;

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *argument, void *registered)
{
    struct http_multi *multi = argument;
    struct epoll_event event = {.data.fd = fd};
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(multi->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* may be closed already */
        return 0;
    }
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    int failed = epoll_ctl(multi->epoll_fd, registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (failed && errno == EEXIST)
        failed = epoll_ctl(multi->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    else if (failed && errno == ENOENT)
        failed = epoll_ctl(multi->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    curl_multi_assign(multi->curl, fd, multi); /* not NULL: registered */
    return failed ? -1 : 0;
}

static int on_timer(CURLM *curl, long timeout_ms, void *argument)
{
    struct http_multi *multi = argument;
    (void)curl;
    multi->timer_ns = timeout_ms < 0 ? 0 : clock_now_ns() + (uint64_t)timeout_ms * ms_ns + 1;
    return 0;
}

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_started;

static void start_curl(void)
{
    curl_started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool set_up_curl(struct http_multi *multi, uint32_t connections)
{
    pthread_once(&curl_once, start_curl);
    if (curl_started != CURLE_OK)
        return false;
    CURLM *curl = multi->curl = curl_multi_init();
    return curl && curl_multi_setopt(curl, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
           curl_multi_setopt(curl, CURLMOPT_SOCKETDATA, multi) == CURLM_OK &&
           curl_multi_setopt(curl, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
           curl_multi_setopt(curl, CURLMOPT_TIMERDATA, multi) == CURLM_OK &&
           curl_multi_setopt(curl, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) == CURLM_OK &&
           curl_multi_setopt(curl, CURLMOPT_MAXCONNECTS, (long)connections) == CURLM_OK;
}

static enum status set_up(struct http_multi *multi, uint32_t connections, const char *uri,
                          struct error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (!set_up_curl(multi, connections))
        return error_set(err, STATUS_NO_MEMORY, "no memory for a client of '%s'", uri);
    enum status status = waker_init(&multi->waker, err);
    if (status != STATUS_OK)
        return status;
    event.data.fd = waker_fd(&multi->waker);
    multi->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (multi->epoll_fd < 0 || epoll_ctl(multi->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) < 0)
        return error_set_errno(err, STATUS_IO, "open a descriptor for '%s'", uri);
    return STATUS_OK;
}

enum status http_multi_init(struct http_multi *multi, uint32_t connections, const char *uri,
                            struct error *err)
{
    *multi = (struct http_multi){.epoll_fd = -1, .waker.fd = -1};
    enum status status = set_up(multi, connections, uri, err);
    if (status != STATUS_OK)
        http_multi_done(multi);
    return status;
}

void http_multi_done(struct http_multi *multi)
{
    if (multi->curl)
        curl_multi_cleanup(multi->curl);
    if (multi->epoll_fd >= 0)
        close(multi->epoll_fd);
    if (multi->waker.fd >= 0)
        waker_done(&multi->waker);
    multi->curl = NULL;
}

bool http_multi_add(struct http_multi *multi, CURL *easy)
{
    return curl_multi_add_handle(multi->curl, easy) == CURLM_OK;
}

void http_multi_remove(struct http_multi *multi, CURL *easy)
{
    curl_multi_remove_handle(multi->curl, easy);
}

static int wait_ms(const struct http_multi *multi, uint64_t now_ns, uint64_t until_ns)
{
    if (multi->timer_ns && multi->timer_ns < until_ns)
        until_ns = multi->timer_ns;
    if (until_ns == UINT64_MAX)
        return -1;
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns + ms_ns - 1) / ms_ns);
}

void http_multi_run(struct http_multi *multi, uint64_t until_ns, bool (*has_work)(void *argument),
                    void *argument)
{
    struct epoll_event events[EVENTS];
    int running;
    waker_arm(&multi->waker);
    int timeout_ms = has_work(argument) ? 0 : wait_ms(multi, clock_now_ns(), until_ns);
    int count = epoll_wait(multi->epoll_fd, events, EVENTS, timeout_ms);
    waker_disarm(&multi->waker);
    for (int i = 0; i < count; i++) {
        uint32_t got = events[i].events;
        int mask = (got & EPOLLIN ? CURL_CSELECT_IN : 0) | (got & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (got & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR | CURL_CSELECT_IN : 0);
        if (events[i].data.fd != waker_fd(&multi->waker))
            curl_multi_socket_action(multi->curl, events[i].data.fd, mask, &running);
    }
    if (multi->timer_ns && multi->timer_ns <= clock_now_ns()) {
        multi->timer_ns = 0;
        curl_multi_socket_action(multi->curl, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}

bool http_multi_next_ended(struct http_multi *multi, void **ret_private, CURLcode *ret_code)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi->curl, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        *ret_code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)ret_private);
        return true;
    }
    return false;
}

void http_multi_wake(struct http_multi *multi)
{
    waker_wake(&multi->waker);
}
