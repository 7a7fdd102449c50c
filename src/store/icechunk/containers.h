/* Containers of virtual chunks, as a repository's configuration names them: "vcc://NAME/PATH"
 * stands for a container's prefix and PATH. Foreign bytes (FlexBuffers), each offset checked. Pure.
 *
 * Source: FlexBuffers' "Internals".
 */
#ifndef PENSTOCK_STORE_ICECHUNK_CONTAINERS_H
#define PENSTOCK_STORE_ICECHUNK_CONTAINERS_H

#include <stdbool.h>
#include <stddef.h>

/* A text in the configuration's bytes. */
struct container_text {
    const char *text; /* not NUL-terminated; borrowed from the bytes */
    size_t bytes;
};

/* The prefix of the container `name`. False: there is no such container, or the bytes are damaged.
 */
bool containers_find(const unsigned char *config, size_t size, const char *name, size_t name_bytes,
                     struct container_text *ret_prefix);

#endif
