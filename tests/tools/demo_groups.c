/* See demo_groups.h. */
#include "demo_groups.h"

#include "base/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool demo_groups_take(struct demo_groups *groups, const char *argument)
{
    bool is_rule = strncmp(argument, "cut=", 4) == 0 || strncmp(argument, "only=", 5) == 0;
    if (strncmp(argument, "mesh=", 5) == 0)
        groups->axes = argument + 5;
    else if (strncmp(argument, "data=", 5) == 0)
        groups->data = argument + 5;
    else if (is_rule && groups->rule_count < DEMO_MOST_RULES)
        groups->texts[groups->rule_count++] = argument;
    else
        return false;
    return true;
}

static uint32_t find_field(const struct ring_layout *layout, const char *name)
{
    uint32_t f = 0;
    while (f + 1 < layout->field_count && strcmp(layout->fields[f].name, name) != 0)
        f++;
    return f;
}

/* "cut=FIELD:AXIS:OVER:ORDER:SPLIT", the last two of which may be empty; "only=FIELD:AXIS:AT". */
static enum status read_rule(const struct demo_groups *groups, const struct ring_layout *layout,
                             const char *text, struct demo_rule *ret_rule, struct error *err)
{
    char copy[256];
    char *words[5] = {"", "", "", "", ""}, *at = copy;
    snprintf(copy, sizeof copy, "%s", strchr(text, '=') + 1);
    for (int i = 0; i < 5 && at; i++)
        words[i] = strsep(&at, ":");
    *ret_rule = (struct demo_rule){.is_cut = text[0] == 'c', .field = find_field(layout, words[0])};
    if (!ret_rule->is_cut) {
        int axis = mesh_find_axis(&groups->mesh, words[1]);
        ret_rule->axis = (uint32_t)axis;
        ret_rule->coordinate = (uint32_t)strtoul(words[2], NULL, 10);
        return axis < 0 ? error_set(err, STATUS_INVALID, "%s: no such axis", text) : STATUS_OK;
    }
    ret_rule->axis = (uint32_t)strtoul(words[1], NULL, 10);
    enum status status =
        cut_parse(&groups->mesh, words[2], words[3], words[4], &ret_rule->cut, err);
    return status == STATUS_OK
               ? cut_check(&ret_rule->cut, layout->fields[ret_rule->field].shape[ret_rule->axis],
                           err)
               : status;
}

/* The rules of a field's cuts, in order of axes. Returns how many. */
static uint32_t cuts_of(const struct demo_groups *groups, uint32_t f,
                        const struct demo_rule *cuts[RING_MAX_CUT_AXES])
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < groups->rule_count; r++)
        if (groups->rules[r].is_cut && groups->rules[r].field == f)
            cuts[count++] = &groups->rules[r];
    if (count == 2 && cuts[0]->axis > cuts[1]->axis) {
        const struct demo_rule *first = cuts[0];
        cuts[0] = cuts[1];
        cuts[1] = first;
    }
    return count;
}

static void lay_out_field(const struct demo_groups *groups, uint32_t f, struct ring_layout *layout)
{
    const struct demo_rule *cuts[RING_MAX_CUT_AXES];
    struct ring_field *field = &layout->fields[f];
    uint32_t count = cuts_of(groups, f, cuts);
    field->part_count = count > 0;
    field->first_part = count > 0 ? layout->part_count : 0;
    for (uint32_t k = 0; k < count; k++) {
        field->part_count *= cuts[k]->cut.part_count;
        field->cut_axes[k] = cuts[k]->axis + 1;
        field->is_torch_chunk[k] = cut_is_torch_chunk(&cuts[k]->cut, field->shape[cuts[k]->axis]);
        for (uint32_t i = 0; i < cuts[k]->cut.axis_count; i++)
            field->cut_over[k][i] = (uint8_t)(cuts[k]->cut.axes[i] + 1);
    }
    for (uint32_t p = 0; p < field->part_count; p++) {
        struct ring_part *part = &layout->parts[layout->part_count++];
        *part = (struct ring_part){.seconds = {RING_NO_SECOND, RING_NO_SECOND}};
        for (uint32_t k = count, rest = p; k-- > 0; rest /= cuts[k]->cut.part_count) {
            struct cut_run run = cut_run_of(&cuts[k]->cut, field->shape[cuts[k]->axis],
                                            rest % cuts[k]->cut.part_count);
            part->begins[k] = run.begin;
            part->lengths[k] = cut_run_indices(run);
            part->seconds[k] = run.has_second ? run.second : RING_NO_SECOND;
        }
    }
}

enum status demo_groups_settle(struct demo_groups *groups, uint32_t trainers,
                               struct ring_layout *layout, struct error *err)
{
    enum status status = mesh_parse(groups->axes ? groups->axes : "",
                                    groups->data ? groups->data : "", trainers, &groups->mesh, err);
    for (uint32_t r = 0; status == STATUS_OK && r < groups->rule_count; r++)
        status = read_rule(groups, layout, groups->texts[r], &groups->rules[r], err);
    for (uint32_t f = 0; status == STATUS_OK && f < layout->field_count; f++)
        lay_out_field(groups, f, layout);
    if (status == STATUS_OK)
        layout->member_count = trainers / mesh_group_count(&groups->mesh);
    return status;
}

void demo_groups_describe(void *argument, uint32_t rank, struct ring_member *ret_member)
{
    const struct demo_groups *groups = argument;
    uint32_t at[MESH_MAX_AXES];
    mesh_coordinates(&groups->mesh, rank, at);
    for (uint32_t f = 0; f < RING_MAX_FIELDS; f++) {
        const struct demo_rule *cuts[RING_MAX_CUT_AXES];
        uint32_t count = cuts_of(groups, f, cuts), part = 0;
        for (uint32_t k = 0; k < count; k++)
            part = part * cuts[k]->cut.part_count + cut_part_of(&cuts[k]->cut, &groups->mesh, rank);
        ret_member->parts[f] = (uint16_t)part;
    }
    for (uint32_t r = 0; r < groups->rule_count; r++) {
        const struct demo_rule *rule = &groups->rules[r];
        if (!rule->is_cut && at[rule->axis] != rule->coordinate)
            ret_member->fields &= ~(UINT64_C(1) << rule->field);
    }
}

/* Index number i of a part along its cut axis k, in the whole. */
static uint64_t index_in_whole(const struct ring_part *part, uint32_t k, uint64_t i)
{
    uint64_t half = part->lengths[k] / 2;
    if (part->seconds[k] == RING_NO_SECOND || i < half)
        return part->begins[k] + i;
    return part->seconds[k] + i - half;
}

/* Copies item by item: number `item` of the part is number *from of the whole. */
static void put_part(const struct ring_field *field, const struct ring_part *part,
                     const unsigned char *sample, unsigned char *data)
{
    size_t bytes = dtype_bytes((enum dtype)field->dtype);
    for (uint64_t item = 0; item < part->sample_bytes / bytes; item++) {
        uint64_t rest = item, from = 0, stride = 1;
        for (uint32_t axis = field->rank; axis-- > 0;) {
            uint64_t length = field->shape[axis], index;
            uint32_t k = field->cut_axes[0] == axis + 1 ? 0 : 1;
            bool is_cut = field->cut_axes[k] == axis + 1;
            length = is_cut ? part->lengths[k] : length;
            index = is_cut ? index_in_whole(part, k, rest % length) : rest % length;
            from += stride * index;
            stride *= field->shape[axis];
            rest /= length;
        }
        memcpy(data + item * bytes, sample + from * bytes, bytes);
    }
}

void demo_groups_put(const struct ring_layout *layout, uint32_t f, uint32_t at,
                     const unsigned char *sample, unsigned char *slot)
{
    const struct ring_field *field = &layout->fields[f];
    if (field->part_count == 0)
        memcpy(slot + field->slot_offset + at * field->sample_bytes, sample, field->sample_bytes);
    for (uint32_t p = 0; p < field->part_count; p++) {
        const struct ring_part *part = &layout->parts[field->first_part + p];
        put_part(field, part, sample, slot + part->slot_offset + at * part->sample_bytes);
    }
}
