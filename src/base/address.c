/* See address.h. */
#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status invalid(const char *text, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "'%.100s' is no address to listen at: write HOST:PORT, such as "
                     "127.0.0.1:9400 or [::1]:9400, with a port of 0 to 65535 (0: any)",
                     text);
}

/* The port behind the last ':', which *ret_host_length characters are before. -1: there is none. */
static long parse_port(const char *text, size_t *ret_host_length)
{
    const char *colon = strrchr(text, ':');
    if (!colon || strspn(colon + 1, "0123456789") != strlen(colon + 1) || !colon[1] ||
        strlen(colon + 1) > 5)
        return -1;
    long port = strtol(colon + 1, NULL, 10);
    *ret_host_length = (size_t)(colon - text);
    return port <= UINT16_MAX ? port : -1;
}

enum status address_parse(const char *text, struct address *ret_address, struct error *err)
{
    char host[INET6_ADDRSTRLEN + 2] = "";
    size_t length = 0;
    long port = parse_port(text, &length);
    if (port < 0 || length == 0 || length >= sizeof host)
        return invalid(text, err);
    memcpy(host, text, length);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct address address = {0};
    if (strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", sizeof "127.0.0.1");
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        if (inet_pton(AF_INET6, host + 1, &v6.sin6_addr) != 1)
            return invalid(text, err);
        memcpy(&address.socket, &v6, sizeof v6);
        address.length = sizeof v6;
    } else {
        if (inet_pton(AF_INET, host, &v4.sin_addr) != 1)
            return invalid(text, err);
        memcpy(&address.socket, &v4, sizeof v4);
        address.length = sizeof v4;
    }
    *ret_address = address;
    return STATUS_OK;
}

uint16_t address_port(const struct address *address)
{
    if (address->socket.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address->socket)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address->socket)->sin_port);
}

void address_set_port(struct address *address, uint16_t port)
{
    if (address->socket.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->socket)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address->socket)->sin_port = htons(port);
}

static bool has_all_hosts(const struct address *address)
{
    return address->socket.ss_family == AF_INET6
               ? IN6_IS_ADDR_UNSPECIFIED(
                     &((const struct sockaddr_in6 *)&address->socket)->sin6_addr)
               : ((const struct sockaddr_in *)&address->socket)->sin_addr.s_addr == INADDR_ANY;
}

bool address_same_host(const struct address *a, const struct address *b)
{
    bool all = has_all_hosts(a), other_all = has_all_hosts(b);
    if (a->socket.ss_family != b->socket.ss_family)
        return (all && a->socket.ss_family == AF_INET6) ||
               (other_all && b->socket.ss_family == AF_INET6);
    struct address first = *a, second = *b;
    address_set_port(&first, 0);
    address_set_port(&second, 0);
    return all || other_all || memcmp(&first.socket, &second.socket, first.length) == 0;
}

struct address_text address_print(const struct address *address)
{
    struct address_text shown;
    char host[INET6_ADDRSTRLEN] = "";
    bool v6 = address->socket.ss_family == AF_INET6;
    const void *bytes =
        v6 ? (const void *)&((const struct sockaddr_in6 *)&address->socket)->sin6_addr
           : &((const struct sockaddr_in *)&address->socket)->sin_addr;
    inet_ntop(address->socket.ss_family, bytes, host, sizeof host);
    snprintf(shown.text, sizeof shown.text, v6 ? "[%s]:%u" : "%s:%u", host, address_port(address));
    return shown;
}
