/* See locality.h: destinations for the positions of one step.
 *
 * Trainers of one reader are a group, and groups of one node have consecutive numbers. Three passes
 * give each position a group that still gets samples: the group it is near, a group of that node,
 * any group. The passes begin at a random position and a random group, so that chance decides what
 * goes elsewhere, and where to. A last pass numbers each group's positions in order.
 */
#include "plan/rounds/locality.h"

#include "base/random.h"
#include "plan/order/keys.h"

#include <assert.h>
#include <stdlib.h>

struct group {
    uint32_t first_member; /* in `members`; the next group's is the end */
    uint32_t open;         /* samples that it still gets */
    uint32_t member;       /* in `members`: who gets the next one */
    uint32_t left;         /* samples that this member still gets */
    uint32_t destination;  /* of the next one */
};

struct matcher {
    struct plan plan;
    struct locality locality;
    uint32_t group_count;
    struct group *groups;       /* [group_count + 1] */
    uint32_t *members;          /* [trainers] by group, then by rank */
    uint32_t *group_of_trainer; /* [trainers] */
};

/* In a destination to come: the group is not settled, and this is the one that the position is
 * near. */
static const uint32_t UNMATCHED = UINT32_C(1) << 31;

static uint32_t node_of(const struct matcher *matcher, uint32_t trainer)
{
    return matcher->locality.in_turn ? trainer % matcher->locality.nodes
                                     : (uint32_t)((uint64_t)trainer * matcher->locality.nodes /
                                                  matcher->plan.trainer_count);
}

/* How many trainers a node has, and the index of one among them. */
static uint32_t node_size(const struct matcher *matcher, uint32_t node, uint32_t trainer,
                          uint32_t *ret_index)
{
    uint64_t trainers = matcher->plan.trainer_count, nodes = matcher->locality.nodes;
    if (matcher->locality.in_turn) {
        *ret_index = (uint32_t)(trainer / nodes);
        return (uint32_t)((trainers - node + nodes - 1) / nodes);
    }
    uint64_t first = (node * trainers + nodes - 1) / nodes;
    uint64_t end = ((node + UINT64_C(1)) * trainers + nodes - 1) / nodes;
    *ret_index = (uint32_t)(trainer - first);
    return (uint32_t)(end - first);
}

static uint32_t group_of(const struct matcher *matcher, uint32_t trainer)
{
    uint32_t node = node_of(matcher, trainer), index;
    uint32_t size = node_size(matcher, node, trainer, &index);
    uint32_t readers = matcher->locality.readers;
    return node * readers + (uint32_t)((uint64_t)index * readers / size);
}

static void sort_members(struct matcher *matcher)
{
    uint32_t trainers = matcher->plan.trainer_count;
    for (uint32_t t = 0; t < trainers; t++) {
        matcher->group_of_trainer[t] = group_of(matcher, t);
        matcher->groups[matcher->group_of_trainer[t] + 1].first_member++;
    }
    for (uint32_t g = 0; g < matcher->group_count; g++)
        matcher->groups[g + 1].first_member += matcher->groups[g].first_member;
    for (uint32_t g = 0; g < matcher->group_count; g++)
        matcher->groups[g].member = matcher->groups[g].first_member;
    for (uint32_t t = 0; t < trainers; t++)
        matcher->members[matcher->groups[matcher->group_of_trainer[t]].member++] = t;
}

/* A node has no more groups than trainers. */
static struct locality settled(const struct plan *plan)
{
    struct locality locality;
    bool sound = locality_of_number(plan->locality, plan->trainer_count, &locality);
    assert(sound);
    (void)sound;
    uint32_t most = (plan->trainer_count + locality.nodes - 1) / locality.nodes;
    if (locality.readers > most)
        locality.readers = most;
    return locality;
}

uint64_t matcher_bytes(const struct plan *plan)
{
    uint64_t trainers =
        plan->trainer_count; /* nodes * ceil(trainers / nodes) groups are fewer than 2 * trainers */
    return sizeof(struct matcher) + 2 * trainers * (sizeof(struct group) + sizeof(uint32_t));
}

struct matcher *matcher_new(const struct plan *plan)
{
    struct matcher *matcher = calloc(1, sizeof *matcher);
    if (!matcher)
        return NULL;
    matcher->plan = *plan;
    matcher->locality = settled(plan);
    matcher->group_count = matcher->locality.nodes * matcher->locality.readers;
    matcher->groups = calloc(matcher->group_count + 1, sizeof *matcher->groups);
    matcher->members = calloc(plan->trainer_count, sizeof *matcher->members);
    matcher->group_of_trainer = calloc(plan->trainer_count, sizeof *matcher->group_of_trainer);
    if (!matcher->groups || !matcher->members || !matcher->group_of_trainer) {
        matcher_free(matcher);
        return NULL;
    }
    sort_members(matcher);
    return matcher;
}

void matcher_free(struct matcher *matcher)
{
    if (!matcher)
        return;
    free(matcher->group_of_trainer);
    free(matcher->members);
    free(matcher->groups);
    free(matcher);
}

/* What each group gets of the step. */
static void open_groups(struct matcher *matcher, uint64_t step)
{
    for (uint32_t g = 0; g < matcher->group_count; g++) {
        struct group *group = &matcher->groups[g];
        group->open = group->left = 0;
        group->member = group->first_member;
        for (uint32_t m = group->first_member; m < group[1].first_member; m++)
            group->open += plan_local_batch_at(&matcher->plan, step, matcher->members[m]).count;
    }
}

/* Takes one of the samples that a group gets, if any is left. */
static bool take(struct group *group)
{
    bool taken = group->open > 0;
    group->open -= taken;
    return taken;
}

/* The first pass: positions [begin, end) of `destinations`, trainers in and groups out. */
static uint32_t match_near(struct matcher *matcher, uint32_t *destinations, uint32_t begin,
                           uint32_t end)
{
    uint32_t unmatched = 0;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t group = matcher->group_of_trainer[destinations[i]];
        bool taken = take(&matcher->groups[group]);
        destinations[i] = taken ? group : group | UNMATCHED;
        unmatched += !taken;
    }
    return unmatched;
}

/* The second pass: a group of the node. Returns how many positions it matched. */
static uint32_t match_on_node(struct matcher *matcher, uint32_t *destinations, uint32_t begin,
                              uint32_t end, uint32_t turn)
{
    uint32_t readers = matcher->locality.readers, matched = 0;
    for (uint32_t i = begin; i < end; i++) {
        if (!(destinations[i] & UNMATCHED))
            continue;
        uint32_t first = (destinations[i] ^ UNMATCHED) / readers * readers;
        for (uint32_t k = 0; k < readers; k++) {
            uint32_t group = first + (turn % readers + k) % readers;
            if (!take(&matcher->groups[group]))
                continue;
            destinations[i] = group;
            matched++;
            break;
        }
    }
    return matched;
}

/* The third pass: any group, from *group on. */
static void match_anywhere(struct matcher *matcher, uint32_t *destinations, uint32_t begin,
                           uint32_t end, uint32_t *group)
{
    for (uint32_t i = begin; i < end; i++) {
        if (!(destinations[i] & UNMATCHED))
            continue;
        while (!take(&matcher->groups[*group]))
            *group = *group + 1 < matcher->group_count ? *group + 1 : 0;
        destinations[i] = *group;
    }
}

/* The last pass: groups in, destinations out. */
static void number_destinations(struct matcher *matcher, uint64_t step, uint32_t *destinations,
                                uint32_t count)
{
    const struct plan *plan = &matcher->plan;
    for (uint32_t i = 0; i < count; i++) {
        struct group *group = &matcher->groups[destinations[i]];
        while (group->left == 0) {
            uint32_t trainer = matcher->members[group->member++];
            struct plan_local_batch local = plan_local_batch_at(plan, step, trainer);
            group->left = local.count;
            group->destination = (uint32_t)(local.first - plan_step_first(plan, step));
        }
        group->left--;
        destinations[i] = group->destination++;
    }
}

void matcher_set_epoch(struct matcher *matcher, const struct plan *plan)
{
    matcher->plan.step_begins = plan->step_begins;
    matcher->plan.first_step = plan->first_step;
}

void matcher_match(struct matcher *matcher, uint64_t epoch, uint64_t step, uint32_t *destinations)
{
    uint32_t count = (uint32_t)plan_step_samples(&matcher->plan, step);
    uint64_t key = random_u64(random_u64(matcher->plan.seed, KEY_MATCHES, epoch), 0, step);
    uint32_t begin = (uint32_t)(key % count), turn = (uint32_t)(key >> 32);
    uint32_t group = turn % matcher->group_count;
    open_groups(matcher, step);
    uint32_t unmatched = match_near(matcher, destinations, begin, count);
    unmatched += match_near(matcher, destinations, 0, begin);
    if (unmatched > 0 && matcher->locality.readers > 1) {
        unmatched -= match_on_node(matcher, destinations, begin, count, turn);
        unmatched -= match_on_node(matcher, destinations, 0, begin, turn);
    }
    if (unmatched > 0) {
        match_anywhere(matcher, destinations, begin, count, &group);
        match_anywhere(matcher, destinations, 0, begin, &group);
    }
    number_destinations(matcher, step, destinations, count);
}
