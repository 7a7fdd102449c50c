/* Fields as penstock.h describes them. Inside the client. */
#ifndef PENSTOCK_DELIVERY_CLIENT_DESCRIBE_H
#define PENSTOCK_DELIVERY_CLIENT_DESCRIBE_H

#include "delivery/ring/layout.h"
#include "penstock.h"

/* A field of a layout, which is borrowed. The attributes are NULL. */
struct penstock_field describe_field(const struct ring_layout *layout,
                                     const struct ring_field *field);

#endif
