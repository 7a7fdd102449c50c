/* See shares.h. */
#include "run/shares.h"

#include "base/number.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The field that a rule calls by name, for a field that may come beside it. */
static const char *owner_of(const struct dataset *dataset, size_t f)
{
    const struct dataset_field *field = &dataset->fields[f];
    if (field->source == FIELD_MADE && field->made != MADE_SOURCE)
        field = &dataset->fields[field->made_for];
    return field->ragged ? field->ragged->name : field->name;
}

/* The axis of a field's samples: a number, or the name of a dimension of its array. -1: none. */
static int axis_of(const struct dataset *dataset, size_t f, const char *text)
{
    const struct dataset_field *field = &dataset->fields[f];
    uint64_t number;
    if (number_parse(text, 0, UINT64_MAX, &number))
        return number < (uint64_t)field->rank ? (int)number : -1;
    if (field->source == FIELD_MADE || field->ragged || dataset->source_count > 0)
        return -1;
    int axis = dataset_field_axis(dataset, f, text);
    return axis < 1 ? -1 : axis - 1 + (field->step_count > 0);
}

static uint32_t find_cut(const struct config *config, const char *name)
{
    uint32_t i = 0;
    while (i < config->cut_count && strcmp(config->cuts[i].name, name) != 0)
        i++;
    return i;
}

/* All axes with the same cut have as many indices: what belongs together is cut alike. */
static enum status check_alike(const struct shares *shares, const struct dataset *dataset, size_t f,
                               uint32_t axis, uint32_t cut, struct error *err)
{
    uint64_t length = dataset->fields[f].shape[axis];
    for (size_t g = 0; g < shares->field_count; g++) {
        const struct share_field *other = &shares->fields[g];
        for (uint32_t k = 0; k < other->axis_count; k++)
            if (other->cuts[k] == cut && other->lengths[k] != length)
                return error_set(err, STATUS_INVALID,
                                 "'%s' has %" PRIu64 " indices there, and '%s' has %" PRIu64
                                 " along its axis %" PRIu32
                                 ", with the same cut: write a cut for each length",
                                 dataset->fields[f].name, length, dataset->fields[g].name,
                                 other->lengths[k], other->axes[k]);
    }
    return STATUS_OK;
}

/* Cuts one field along an axis. */
static enum status add_cut(struct shares *shares, const struct dataset *dataset, size_t f,
                           uint32_t axis, uint32_t cut, struct error *err)
{
    struct share_field *field = &shares->fields[f];
    uint32_t at = field->axis_count;
    if (at == RING_MAX_CUT_AXES)
        return error_set(err, STATUS_INVALID,
                         "'%s' is cut along %d axes already, and more are not possible",
                         dataset->fields[f].name, RING_MAX_CUT_AXES);
    enum status status = check_alike(shares, dataset, f, axis, cut, err);
    if (status != STATUS_OK)
        return status;
    for (; at > 0 && field->axes[at - 1] > axis; at--) {
        field->axes[at] = field->axes[at - 1];
        field->cuts[at] = field->cuts[at - 1];
        field->lengths[at] = field->lengths[at - 1];
    }
    if (at > 0 && field->axes[at - 1] == axis)
        return error_set(err, STATUS_INVALID,
                         "axis %" PRIu32 " of '%s' is cut twice: by its number and by its name",
                         axis, dataset->fields[f].name);
    field->axes[at] = axis;
    field->cuts[at] = cut;
    field->lengths[at] = dataset->fields[f].shape[axis];
    field->axis_count++;
    return cut_check(&shares->cuts[cut], dataset->fields[f].shape[axis], err);
}

/* Cuts the items of each step of a ragged field, in pieces of equal length. */
static enum status cut_items(struct shares *shares, const struct dataset_field *field,
                             const struct config_share *rule, size_t f, uint32_t cut,
                             struct error *err)
{
    if (strcmp(rule->key, "0") != 0)
        return error_set(err, STATUS_INVALID,
                         "'%s' is ragged, and can be cut along its items alone: axis 0",
                         field->name);
    if (field->ragged->multiple == 0)
        return error_set(err, STATUS_INVALID,
                         "'%s' is ragged: its parts are of one length if it has deliver: "
                         "{pad_to_multiple_of: N}, with N a multiple of %" PRIu32,
                         field->name,
                         shares->cuts[cut].part_count *
                             (shares->cuts[cut].order == CUT_ZIGZAG ? 2 : 1));
    if (shares->cuts[cut].split != CUT_EXACT)
        return error_set(err, STATUS_INVALID,
                         "'%s' is ragged, and its parts are of one length: leave out split",
                         field->name);
    shares->fields[f].items_cut = 1 + cut;
    enum status status = cut_check(&shares->cuts[cut], field->ragged->multiple, err);
    return status != STATUS_OK
               ? error_prefix(err, status,
                              "deliver.pad_to_multiple_of of '%s': ", field->ragged->name)
               : STATUS_OK;
}

/* Cuts the field of a rule; and where steps are cut, what is said of its steps. */
static enum status apply_cut(struct shares *shares, const struct config *config,
                             const struct dataset *dataset, const struct config_share *rule,
                             size_t f, struct error *err)
{
    const struct dataset_field *field = &dataset->fields[f];
    uint32_t cut = find_cut(config, rule->value);
    assert(cut < config->cut_count); /* config_check() */
    if (field->ragged)
        return cut_items(shares, field, rule, f, cut, err);
    int axis = axis_of(dataset, f, rule->key);
    if (axis < 0)
        return error_set(err, STATUS_INVALID,
                         "samples of '%s' have no such axis: they have %d, from 0 on, or by names "
                         "of the array's dimensions",
                         field->name, field->rank);
    enum status status = add_cut(shares, dataset, f, (uint32_t)axis, cut, err);
    bool of_steps = axis == 0 && field->step_count > 0;
    for (size_t i = 0; status == STATUS_OK && of_steps && i < dataset->field_count; i++) {
        const struct dataset_field *other = &dataset->fields[i];
        if (other->source == FIELD_MADE && other->made_for == f && other->made <= MADE_POSITION)
            status = add_cut(shares, dataset, i, 0, cut, err);
    }
    return status;
}

static enum status apply(struct shares *shares, const struct config *config,
                         const struct dataset *dataset, const struct config_share *rule,
                         struct error *err)
{
    bool found = false;
    enum status status = STATUS_OK;
    for (size_t f = 0; status == STATUS_OK && f < dataset->field_count; f++) {
        bool is_of_it = strcmp(shares->owners[f], rule->field) == 0;
        found = found || is_of_it;
        if (rule->is_cut && is_of_it && dataset->fields[f].source != FIELD_MADE)
            status = apply_cut(shares, config, dataset, rule, f, err);
    }
    if (status == STATUS_OK && !found)
        status = error_set(err, STATUS_INVALID, "there is no such field");
    if (status != STATUS_OK && rule->is_cut)
        return error_prefix(err, status, "dataset.fields.%s.cut.%s (%s): ", rule->field, rule->key,
                            rule->value);
    return status != STATUS_OK
               ? error_prefix(err, status, "dataset.fields.%s.only.%s: ", rule->field, rule->key)
               : STATUS_OK;
}

static enum status number_parts(struct shares *shares, struct error *err)
{
    uint64_t parts = 0;
    for (size_t f = 0; f < shares->field_count; f++) {
        shares->first_parts[f] = (uint32_t)parts;
        parts += shares_part_count(shares, f);
    }
    if (parts <= RING_MOST_PARTS)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "dataset.cuts: all fields together have %" PRIu64
                     " parts; a ring holds %d: cut fewer fields, or in fewer parts",
                     parts, RING_MOST_PARTS);
}

enum status shares_settle(const struct config *config, const struct dataset *dataset,
                          struct shares *ret_shares, struct error *err)
{
    struct shares *shares = ret_shares;
    *shares = (struct shares){.field_count = dataset->field_count};
    enum status status = config_mesh(config, &shares->mesh, err);
    shares->rules = config_shares(config, &shares->rule_count);
    for (size_t f = 0; f < dataset->field_count; f++) {
        shares->owners[f] = owner_of(dataset, f);
        shares->everywhere |= (uint64_t)(dataset->fields[f].ragged != NULL) << f;
    }
    for (size_t i = 0; status == STATUS_OK && i < config->cut_count; i++)
        status = config_parse_cut(&config->cuts[i], &shares->mesh, &shares->cuts[i], err);
    for (size_t i = 0; status == STATUS_OK && i < shares->rule_count; i++)
        status = apply(shares, config, dataset, &shares->rules[i], err);
    return status == STATUS_OK ? number_parts(shares, err) : status;
}

uint32_t shares_part_count(const struct shares *shares, size_t field)
{
    const struct share_field *of = &shares->fields[field];
    if (of->items_cut > 0)
        return shares->cuts[of->items_cut - 1].part_count;
    uint32_t count = of->axis_count > 0;
    for (uint32_t k = 0; k < of->axis_count; k++)
        count *= shares->cuts[of->cuts[k]].part_count;
    return count;
}

struct cut_run shares_run_of(const struct shares *shares, size_t field, uint32_t k, uint32_t part)
{
    const struct share_field *of = &shares->fields[field];
    for (uint32_t i = of->axis_count; i-- > k + 1;)
        part /= shares->cuts[of->cuts[i]].part_count;
    const struct cut *cut = &shares->cuts[of->cuts[k]];
    return cut_run_of(cut, of->lengths[k], part % cut->part_count);
}

static void lay_out_over(const struct cut *cut, uint32_t k, struct ring_field *field)
{
    for (uint32_t i = 0; i < cut->axis_count; i++)
        field->cut_over[k][i] = (uint8_t)(cut->axes[i] + 1);
}

static void lay_out_cut(const struct shares *shares, size_t f, uint32_t k, struct ring_field *field)
{
    uint32_t axis = shares->fields[f].axes[k];
    const struct cut *cut = &shares->cuts[shares->fields[f].cuts[k]];
    field->cut_axes[k] = axis + 1;
    field->is_torch_chunk[k] = cut_is_torch_chunk(cut, field->shape[axis]);
    lay_out_over(cut, k, field);
}

/* Of items, pieces are counted. */
static void lay_out_items(const struct cut *cut, struct ring_field *field, struct ring_part *parts)
{
    bool is_zigzag = cut->order == CUT_ZIGZAG;
    field->cut_axes[0] = 1;
    lay_out_over(cut, 0, field);
    for (uint32_t p = 0; p < cut->part_count; p++)
        parts[p] = (struct ring_part){
            .begins = {p},
            .lengths = {is_zigzag ? 2 : 1},
            .seconds = {is_zigzag ? 2 * cut->part_count - 1 - p : RING_NO_SECOND, RING_NO_SECOND}};
}

static void lay_out_part(const struct shares *shares, size_t f, const struct ring_field *field,
                         uint32_t part, struct ring_part *ret_part)
{
    *ret_part = (struct ring_part){0};
    for (uint32_t k = 0; k < RING_MAX_CUT_AXES; k++) {
        ret_part->seconds[k] = RING_NO_SECOND;
        if (field->cut_axes[k] == 0)
            continue;
        struct cut_run run = shares_run_of(shares, f, k, part);
        ret_part->begins[k] = run.begin;
        ret_part->lengths[k] = cut_run_indices(run);
        if (run.has_second)
            ret_part->seconds[k] = run.second;
    }
}

enum status shares_transform(struct shares *shares, const struct board_shape *transform,
                             struct error *err)
{
    shares->transform = transform;
    for (uint32_t i = 0; transform && i < transform->input_count; i++) {
        uint32_t f = transform->inputs[i].field;
        if (shares_part_count(shares, f) > 0)
            return error_set(err, STATUS_INVALID,
                             "delivery.transform gets field '%s', which is cut: list the fields "
                             "that it needs in delivery.transform.fields, without this one",
                             transform->inputs[i].name);
        shares->everywhere |= UINT64_C(1) << f;
    }
    return STATUS_OK;
}

/* The fields that outputs are, as bits. */
static uint64_t output_fields(const struct board_shape *transform)
{
    uint64_t fields = 0;
    for (uint32_t o = 0; transform && o < transform->output_count; o++) {
        const struct board_output *output = &transform->outputs[o];
        if (output->same_as == 0)
            fields |= UINT64_C(1) << output->field;
        if (output->same_as == 0 && output->most_items > 0)
            fields |= UINT64_C(2) << output->field;
    }
    return fields;
}

/* The fields that only the transform gets, as bits. */
static uint64_t hidden_fields(const struct board_shape *transform)
{
    uint64_t fields = 0;
    for (uint32_t i = 0; transform && i < transform->input_count; i++)
        if (!transform->inputs[i].is_delivered)
            fields |= UINT64_C(1) << transform->inputs[i].field;
    return fields;
}

/* Outputs may have the names of hidden inputs, which get others. */
static void lay_out_transform(const struct board_shape *transform, struct ring_layout *layout)
{
    for (uint32_t i = 0; i < transform->input_count; i++) {
        struct ring_field *field = &layout->fields[transform->inputs[i].field];
        if (!transform->inputs[i].is_delivered)
            snprintf(field->name, sizeof field->name, "<%" PRIu32, transform->inputs[i].field);
    }
    for (uint32_t o = 0; o < transform->output_count; o++) {
        const struct board_output *output = &transform->outputs[o];
        struct ring_field *field = &layout->fields[output->field];
        if (output->same_as > 0)
            continue;
        *field = (struct ring_field){.dtype = output->dtype, .rank = output->rank};
        memcpy(field->name, output->name, sizeof field->name);
        memcpy(field->shape, output->shape, sizeof field->shape);
        layout->field_count++;
        if (output->most_items == 0)
            continue;
        field->kind = RING_ITEMS;
        field->capacity = mul_sat(output->most_items, layout->batch_size);
        field->offsets_field = output->field + 1;
        field[1] = (struct ring_field){.dtype = DTYPE_INT64, .kind = RING_OFFSETS};
        snprintf(field[1].name, sizeof field[1].name, "%.*s.offsets",
                 (int)(sizeof field[1].name - sizeof ".offsets"), output->name);
        layout->field_count++;
    }
}

void shares_lay_out(const struct shares *shares, struct ring_layout *layout)
{
    if (shares->transform)
        lay_out_transform(shares->transform, layout);
    layout->member_count = shares->mesh.rank_count / mesh_group_count(&shares->mesh);
    for (size_t f = 0; f < shares->field_count; f++) {
        struct ring_field *field = &layout->fields[f];
        field->part_count = shares_part_count(shares, f);
        field->first_part = field->part_count > 0 ? layout->part_count : 0;
        for (uint32_t k = 0; k < shares->fields[f].axis_count; k++)
            lay_out_cut(shares, f, k, field);
        struct ring_part *parts = &layout->parts[layout->part_count];
        uint32_t items_cut = shares->fields[f].items_cut;
        if (items_cut > 0)
            lay_out_items(&shares->cuts[items_cut - 1], field, parts);
        for (uint32_t p = 0; items_cut == 0 && p < field->part_count; p++)
            lay_out_part(shares, f, field, p, &parts[p]);
        layout->part_count += field->part_count;
    }
}

static bool has_field(const struct shares *shares, size_t f, const uint32_t *coordinates)
{
    const struct mesh *mesh = &shares->mesh;
    for (size_t i = 0; i < shares->rule_count; i++) {
        const struct config_share *rule = &shares->rules[i];
        if (rule->is_cut || strcmp(rule->field, shares->owners[f]) != 0)
            continue;
        int axis = mesh_find_axis(mesh, rule->key);
        if (!config_has_coordinate(rule->value, mesh->axes[axis].size, coordinates[axis]))
            return false;
    }
    return true;
}

static void describe(const struct shares *shares, uint32_t rank, struct ring_member *ret_member)
{
    uint32_t coordinates[MESH_MAX_AXES];
    mesh_coordinates(&shares->mesh, rank, coordinates);
    ret_member->fields = 0;
    for (size_t f = 0; f < shares->field_count; f++) {
        const struct share_field *field = &shares->fields[f];
        uint32_t part = field->items_cut > 0
                            ? cut_part_of(&shares->cuts[field->items_cut - 1], &shares->mesh, rank)
                            : 0;
        for (uint32_t k = 0; k < field->axis_count; k++) {
            const struct cut *cut = &shares->cuts[field->cuts[k]];
            part = part * cut->part_count + cut_part_of(cut, &shares->mesh, rank);
        }
        ret_member->parts[f] = (uint16_t)part;
        ret_member->fields |= (uint64_t)has_field(shares, f, coordinates) << f;
    }
    ret_member->fields &= ~hidden_fields(shares->transform);
    ret_member->fields |= output_fields(shares->transform);
}

void shares_describe(void *shares, uint32_t rank, struct ring_member *ret_member)
{
    describe(shares, rank, ret_member);
}

void needs_add(const struct shares *shares, uint32_t rank, struct needs *needs)
{
    struct ring_member member;
    describe(shares, rank, &member);
    needs->fields |= member.fields | shares->everywhere;
    for (size_t f = 0; f < shares->field_count; f++) {
        uint32_t first = shares->first_parts[f], part = first + member.parts[f];
        if (shares->fields[f].axis_count > 0 && member.fields >> f & 1)
            needs->parts[part / 64] |= UINT64_C(1) << (part % 64);
        for (uint32_t p = first; shares->fields[f].items_cut > 0 && /* everywhere, too */
                                 p < first + shares_part_count(shares, f);
             p++)
            needs->parts[p / 64] |= UINT64_C(1) << (p % 64);
    }
}

void needs_lay_out(const struct needs *needs, struct ring_layout *layout)
{
    for (uint32_t f = 0; f < layout->field_count; f++)
        layout->fields[f].is_absent = !needs_field(needs, f);
    for (uint32_t p = 0; p < layout->part_count; p++)
        layout->parts[p].is_absent = !needs_part(needs, p);
}

struct reader_needs {
    bool has_trainers;
    struct needs needs;
};

/* The class of that need, which is a new one if there is none. */
static uint32_t class_of(struct need_classes *classes, const struct needs *needs)
{
    uint32_t c = 0;
    while (c < classes->count && memcmp(&classes->needs[c], needs, sizeof *needs) != 0)
        c++;
    if (c == classes->count)
        classes->needs[classes->count++] = *needs;
    return c;
}

/* Adds what a rank needs to what its reader's trainers need. */
static void add_rank(const struct shares *shares, uint32_t rank, struct reader_needs *reader)
{
    reader->has_trainers = true;
    needs_add(shares, rank, &reader->needs);
}

enum status need_classes_init(struct need_classes *ret_classes, const struct shares *shares,
                              uint32_t reader_count, const uint32_t *reader_of_rank,
                              struct error *err)
{
    const struct mesh *mesh = &shares->mesh;
    struct reader_needs *of = calloc(reader_count, sizeof *of);
    *ret_classes = (struct need_classes){.needs = calloc(reader_count, sizeof of->needs),
                                         .of = calloc(reader_count, sizeof *ret_classes->of)};
    if (!of || !ret_classes->needs || !ret_classes->of) {
        free(of);
        return error_set(err, STATUS_NO_MEMORY, "no memory for what %" PRIu32 " readers need",
                         reader_count);
    }
    for (uint32_t r = 0; !reader_of_rank && r < reader_count; r++)
        for (uint32_t rank = mesh_block_first(mesh, reader_count, r);
             rank < mesh_block_first(mesh, reader_count, r + 1); rank++)
            add_rank(shares, rank, &of[r]);
    for (uint32_t rank = 0; reader_of_rank && rank < mesh->rank_count; rank++)
        add_rank(shares, rank, &of[reader_of_rank[rank]]);
    for (uint32_t r = 0; r < reader_count; r++)
        if (of[r].has_trainers)
            ret_classes->of[r] = class_of(ret_classes, &of[r].needs);
    free(of);
    return STATUS_OK;
}

void need_classes_done(struct need_classes *classes)
{
    free(classes->needs);
    free(classes->of);
    *classes = (struct need_classes){0};
}
