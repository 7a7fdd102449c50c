/* Addresses of the network, as people write them: "127.0.0.1:9400", "[::1]:9400", "localhost:0".
 * Nobody is asked for a name: "localhost" is 127.0.0.1, and other names are refused. Pure.
 */
#ifndef PENSTOCK_BASE_ADDRESS_H
#define PENSTOCK_BASE_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    struct sockaddr_storage socket;
    socklen_t length;
};

/* INVALID: `text` is not HOST:PORT, with a numeric host and a port of 0 to 65535. */
MUST_USE enum status address_parse(const char *text, struct address *ret_address,
                                   struct error *err);

uint16_t address_port(const struct address *address);
void address_set_port(struct address *address, uint16_t port);

/* Whether both have the same host, or one has all hosts: "0.0.0.0" those of IPv4, "[::]" all. Of
 * two that listen at one port the second is refused. */
bool address_same_host(const struct address *a, const struct address *b);

/* "127.0.0.1:9400", "[::1]:9400" */
struct address_text {
    char text[64];
};
struct address_text address_print(const struct address *address);

#endif
