/* What demo-server does for groups of trainers: a mesh, fields that are cut, and fields for some
 * trainers alone. Without a mesh each trainer is a group. */
#ifndef PENSTOCK_TESTS_DEMO_GROUPS_H
#define PENSTOCK_TESTS_DEMO_GROUPS_H

#include "delivery/ring/layout.h"
#include "mesh/cut.h"

enum { DEMO_MOST_RULES = 8 };

struct demo_rule {
    bool is_cut; /* else only */
    uint32_t field, axis;
    uint32_t coordinate; /* only: on that axis of the mesh */
    struct cut cut;      /* along that axis of the field */
};

struct demo_groups {
    const char *axes, *data, *texts[DEMO_MOST_RULES]; /* as given; borrowed */
    uint32_t rule_count;
    struct demo_rule rules[DEMO_MOST_RULES];
    struct mesh mesh;
};

/* Takes mesh=, data=, cut= or only=. False: the argument is none of these. */
bool demo_groups_take(struct demo_groups *groups, const char *argument);

/* Settles the mesh, and puts the parts of fields into a layout that is not settled yet. */
MUST_USE enum status demo_groups_settle(struct demo_groups *groups, uint32_t trainers,
                                        struct ring_layout *layout, struct error *err);

/* What a trainer has: a server_describe. */
void demo_groups_describe(void *groups, uint32_t rank, struct ring_member *ret_member);

/* Puts sample number `at` of field `f` into a slot: all of it, or each of its parts. */
void demo_groups_put(const struct ring_layout *layout, uint32_t f, uint32_t at,
                     const unsigned char *sample, unsigned char *slot);

#endif
