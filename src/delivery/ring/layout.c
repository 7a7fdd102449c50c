/* See layout.h. Only ring_layout_settle() describes the layout. A foreign layout is checked by
 * settling its names, shapes and counts again, and comparing. */
#include "delivery/ring/layout.h"

#include "base/memory.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

static const uint64_t max_ring_bytes = UINT64_C(1) << 48;

static enum status check_counts(const struct ring_layout *layout, struct error *err)
{
    if (layout->field_count == 0 || layout->field_count > RING_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " fields; a ring holds 1 to %d",
                         layout->field_count, RING_MAX_FIELDS);
    if (layout->slot_count == 0 || layout->slot_count > RING_MAX_SLOTS)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " slots; a ring has 1 to %d",
                         layout->slot_count, RING_MAX_SLOTS);
    if (layout->spare_slots >= layout->slot_count)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " of %" PRIu32 " slots are spare",
                         layout->spare_slots, layout->slot_count);
    if (layout->phase_count > RING_MAX_PHASES)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " phases of epochs; at most %d",
                         layout->phase_count, RING_MAX_PHASES);
    if (layout->member_count == 0 || layout->member_count > RING_MAX_MEMBERS)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " members; a ring has 1 to %d",
                         layout->member_count, RING_MAX_MEMBERS);
    if (layout->part_count > RING_MOST_PARTS)
        return error_set(err, STATUS_INVALID,
                         "%" PRIu32 " parts of fields; at most %d are possible", layout->part_count,
                         RING_MOST_PARTS);
    if (layout->batch_size == 0 || layout->batch_size > INT32_MAX)
        return error_set(err, STATUS_INVALID,
                         "a batch of %" PRIu32 " samples; 1 to %d are possible", layout->batch_size,
                         INT32_MAX);
    return STATUS_OK;
}

static enum status settle_field(struct ring_field *field, struct error *err)
{
    if (!memchr(field->name, '\0', sizeof field->name) || !field->name[0])
        return error_set(err, STATUS_INVALID, "a field's name is empty or longer than %d bytes",
                         RING_NAME_BYTES - 1);
    size_t item_bytes = dtype_bytes((enum dtype)field->dtype);
    if (item_bytes == 0)
        return error_set(err, STATUS_INVALID, "field '%s': no dtype has number %" PRIu32,
                         field->name, field->dtype);
    if (field->rank > RING_MAX_RANK)
        return error_set(err, STATUS_INVALID, "field '%s': %" PRIu32 " dimensions; at most %d",
                         field->name, field->rank, RING_MAX_RANK);
    uint64_t bytes = item_bytes;
    for (uint32_t d = 0; d < field->rank; d++)
        if (field->shape[d] == 0 || !size_multiply(bytes, field->shape[d], &bytes) ||
            bytes > max_ring_bytes)
            return error_set(err, STATUS_INVALID,
                             "field '%s': dimension %" PRIu32 " of %" PRIu64
                             " makes an empty sample or one beyond %s",
                             field->name, d, field->shape[d], size_format(max_ring_bytes).text);
    field->sample_bytes = bytes;
    return STATUS_OK;
}

/* What a field's kind does not use is 0, so that each layout has one form. */
static enum status check_kind(const struct ring_layout *layout, const struct ring_field *field,
                              struct error *err)
{
    bool has_items = field->kind == RING_ITEMS;
    bool has_capacity = has_items || field->kind == RING_PADDED;
    if (field->kind > RING_PADDED)
        return error_set(err, STATUS_INVALID, "field '%s': no kind has number %" PRIu32,
                         field->name, field->kind);
    if (has_capacity != (field->capacity > 0) || (!has_items && field->offsets_field != 0))
        return error_set(err, STATUS_INVALID,
                         "field '%s': a capacity of %" PRIu64 " items and offsets in field %" PRIu32
                         " do not go with kind %" PRIu32,
                         field->name, field->capacity, field->offsets_field, field->kind);
    if (has_items && (field->offsets_field >= layout->field_count ||
                      layout->fields[field->offsets_field].kind != RING_OFFSETS))
        return error_set(err, STATUS_INVALID, "field '%s': field %" PRIu32 " has no offsets",
                         field->name, field->offsets_field);
    if (field->kind == RING_OFFSETS && (field->dtype != DTYPE_INT64 || field->rank > 1))
        return error_set(err, STATUS_INVALID,
                         "field '%s': offsets are int64 of one dimension at most, its steps",
                         field->name);
    return STATUS_OK;
}

/* How many indices a cut axis has; or pieces. */
static uint64_t indices_of(const struct ring_field *field, const struct ring_part *part, int k)
{
    if (field->cut_axes[k] == 0)
        return 0;
    if (field->kind == RING_ITEMS)
        return field->part_count * (part->seconds[0] != RING_NO_SECOND ? 2 : 1);
    return field->shape[field->cut_axes[k] - 1];
}

/* Whether a part's indices along its cut axis `k` are indices of the field. */
static bool is_within(const struct ring_field *field, const struct ring_part *part, int k)
{
    uint64_t length = part->lengths[k], axis = field->cut_axes[k];
    bool has_second = part->seconds[k] != RING_NO_SECOND;
    if (axis == 0)
        return length == 0 && part->begins[k] == 0 && !has_second;
    uint64_t indices = indices_of(field, part, k), run = has_second ? length / 2 : length;
    if (field->kind == RING_ITEMS && run != 1)
        return false;
    return length <= indices && part->begins[k] <= indices - run &&
           (!has_second || (length % 2 == 0 && part->seconds[k] <= indices - run));
}

/* Whether a cut is over axes of a mesh, and what is no cut over none. */
static bool is_over_axes(const struct ring_field *field, int k)
{
    const uint8_t *over = field->cut_over[k];
    bool is_cut = field->cut_axes[k] > 0;
    bool sound = field->is_torch_chunk[k] <= is_cut && (over[0] > 0) == is_cut;
    for (int i = 0; i < MESH_MAX_AXES; i++)
        sound = sound && over[i] <= MESH_MAX_AXES && (i == 0 || over[i] == 0 || over[i - 1] > 0);
    return sound;
}

static enum status settle_parts(struct ring_layout *layout, const struct ring_field *field,
                                struct error *err)
{
    bool has_items = field->kind == RING_ITEMS;
    uint32_t rank = has_items ? 1 : field->rank;
    bool sound = field->cut_axes[0] <= rank && field->cut_axes[1] <= rank &&
                 (field->cut_axes[1] == 0 ||
                  (field->cut_axes[0] > 0 && field->cut_axes[0] < field->cut_axes[1])) &&
                 (field->cut_axes[0] > 0) == (field->part_count > 0) &&
                 (field->part_count == 0 || field->kind == RING_SAMPLES ||
                  (has_items && field->capacity % field->part_count == 0)) &&
                 field->part_count <= RING_MOST_PARTS &&
                 field->first_part + field->part_count <= layout->part_count &&
                 field->is_absent <= 1 && is_over_axes(field, 0) && is_over_axes(field, 1);
    for (uint32_t p = 0; sound && p < field->part_count; p++) {
        struct ring_part *part = &layout->parts[field->first_part + p];
        part->sample_bytes = field->sample_bytes;
        sound = part->is_absent == 1 || (part->is_absent == 0 && !field->is_absent);
        for (int k = 0; sound && k < RING_MAX_CUT_AXES; k++) {
            part->wholes[k] = indices_of(field, part, k);
            sound = is_within(field, part, k);
            if (sound && field->cut_axes[k] > 0 && !has_items)
                part->sample_bytes =
                    part->sample_bytes / field->shape[field->cut_axes[k] - 1] * part->lengths[k];
        }
    }
    return sound
               ? STATUS_OK
               : error_set(err, STATUS_INVALID, "field '%s': its parts make no sense", field->name);
}

/* Appends a part of `count` items and `more` bytes to a slot that has *bytes bytes so far. False:
 * the slot would exceed max_ring_bytes. */
static bool lay_out(uint64_t *bytes, uint64_t count, uint64_t item_bytes, size_t more,
                    uint64_t *ret_offset)
{
    uint64_t part;
    if (!size_multiply(count, item_bytes, &part) || part > max_ring_bytes)
        return false;
    *ret_offset = *bytes;
    *bytes = size_round_up(*bytes + part + more, MEMORY_LINE_BYTES);
    return *bytes <= max_ring_bytes;
}

static enum status settle_slot(struct ring_layout *layout, uint64_t *ret_bytes, struct error *err)
{
    uint64_t count = layout->batch_size;
    uint64_t bytes = size_round_up(sizeof(struct slot_header), MEMORY_LINE_BYTES);
    bool fits = lay_out(&bytes, count, sizeof(uint64_t), 0, &layout->indices_offset) &&
                lay_out(&bytes, count, sizeof(uint64_t), 0, &layout->keys_offset) &&
                lay_out(&bytes, count, sizeof(uint8_t), 0, &layout->valid_offset);
    for (uint32_t f = 0; fits && f < layout->field_count; f++) {
        struct ring_field *field = &layout->fields[f];
        bool has_items = field->capacity > 0;
        uint64_t items = has_items ? field->capacity : count;
        size_t more = field->kind == RING_OFFSETS ? sizeof(int64_t) : 0;
        field->slot_offset = bytes;
        if (field->part_count == 0 && !field->is_absent)
            fits = lay_out(&bytes, items, field->sample_bytes, more, &field->slot_offset);
        for (uint32_t p = 0; fits && p < field->part_count; p++) {
            struct ring_part *part = &layout->parts[field->first_part + p];
            part->slot_offset = bytes;
            if (!part->is_absent)
                fits = lay_out(&bytes, has_items ? items / field->part_count : items,
                               part->sample_bytes, 0, &part->slot_offset);
        }
        if (!fits)
            return error_set(
                err, STATUS_INVALID, "field '%s': %" PRIu64 " %s of %s make a slot beyond %s",
                field->name, items, has_items ? "items" : "samples",
                size_format(field->sample_bytes).text, size_format(max_ring_bytes).text);
    }
    *ret_bytes = bytes;
    return STATUS_OK;
}

static enum status settle_fields(struct ring_layout *layout, struct error *err)
{
    uint32_t parts = 0;
    for (uint32_t f = 0; f < layout->field_count; f++) {
        enum status status = settle_field(&layout->fields[f], err);
        if (status == STATUS_OK)
            status = check_kind(layout, &layout->fields[f], err);
        if (status == STATUS_OK)
            status = settle_parts(layout, &layout->fields[f], err);
        if (status != STATUS_OK)
            return status;
        if (layout->fields[f].first_part != (layout->fields[f].part_count > 0 ? parts : 0))
            return error_set(err, STATUS_INVALID,
                             "field '%s': its first part is not behind those "
                             "of the fields before",
                             layout->fields[f].name);
        parts += layout->fields[f].part_count;
        for (uint32_t g = 0; g < f; g++)
            if (strcmp(layout->fields[g].name, layout->fields[f].name) == 0)
                return error_set(err, STATUS_INVALID, "two fields have the name '%s'",
                                 layout->fields[f].name);
    }
    if (parts != layout->part_count)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " parts, and fields have %" PRIu32,
                         layout->part_count, parts);
    return STATUS_OK;
}

static bool may_have_phases(const struct ring_field *field)
{
    return field->kind == RING_SAMPLES && field->rank > 0 && field->part_count == 0;
}

/* Fields have steps in all phases or in none, and one has. All that no field has is 0. */
static enum status check_phases(const struct ring_layout *layout, struct error *err)
{
    const struct ring_phase *first = &layout->phases[0];
    bool sound = first->epoch == 0, has_any = layout->phase_count == 0;
    for (uint32_t p = 0; p < RING_MAX_PHASES; p++) {
        const struct ring_phase *phase = &layout->phases[p];
        bool is_there = p < layout->phase_count;
        sound =
            sound && (p == 0 || (is_there ? phase->epoch > phase[-1].epoch : phase->epoch == 0));
        for (uint32_t f = 0; sound && f < RING_MAX_FIELDS; f++) {
            const struct ring_field *field = &layout->fields[f];
            bool has = is_there && first->steps[f] > 0;
            has_any |= has;
            sound = (phase->steps[f] > 0) == has &&
                    (!has || (f < layout->field_count && may_have_phases(field) &&
                              phase->steps[f] <= field->shape[0]));
        }
    }
    return sound && has_any ? STATUS_OK
                            : error_set(err, STATUS_INVALID, "phases of epochs make no sense");
}

/* Works on a copy, so that *layout is untouched on failure. */
enum status ring_layout_settle(struct ring_layout *layout, struct error *err)
{
    enum status status = check_counts(layout, err);
    if (status != STATUS_OK)
        return status;
    struct ring_layout settled = *layout;
    status = settle_fields(&settled, err);
    if (status == STATUS_OK)
        status = check_phases(&settled, err);
    uint64_t slot_bytes = 0;
    if (status == STATUS_OK)
        status = settle_slot(&settled, &slot_bytes, err);
    if (status != STATUS_OK)
        return status;

    /* Slots lie on huge pages where rounding up costs at most an eighth. */
    uint64_t unit = slot_bytes >= UINT64_C(8) * MEMORY_HUGE_PAGE_BYTES ? MEMORY_HUGE_PAGE_BYTES
                                                                       : MEMORY_PAGE_BYTES;
    settled.magic = RING_MAGIC;
    settled.version = RING_VERSION;
    settled.members_offset = sizeof(struct ring_header);
    settled.control_offset =
        size_round_up(settled.members_offset + settled.member_count * sizeof(struct ring_member),
                      MEMORY_PAGE_BYTES);
    settled.data_offset = size_round_up(
        settled.control_offset + settled.member_count * sizeof(struct ring_control), unit);
    settled.slot_stride = size_round_up(slot_bytes, unit);
    uint64_t data_bytes;
    if (!size_multiply(settled.slot_stride, settled.slot_count, &data_bytes) ||
        data_bytes > max_ring_bytes - settled.data_offset)
        return error_set(err, STATUS_INVALID, "%" PRIu32 " slots of %s make a ring beyond %s",
                         settled.slot_count, size_format(slot_bytes).text,
                         size_format(max_ring_bytes).text);
    settled.total_bytes = settled.data_offset + data_bytes;
    *layout = settled;
    return STATUS_OK;
}

enum status ring_layout_check(const struct ring_layout *layout, uint64_t memfd_bytes,
                              struct error *err)
{
    if (layout->magic != RING_MAGIC)
        return error_set(err, STATUS_PROTOCOL, "ring: magic is %016" PRIx64 ", not that of a ring",
                         layout->magic);
    if (layout->version != RING_VERSION)
        return error_set(err, STATUS_UNSUPPORTED,
                         "ring: layout version %" PRIu32 ", this library knows version %d; install "
                         "the same release of Penstock on both sides",
                         layout->version, RING_VERSION);
    struct ring_layout settled = *layout;
    if (ring_layout_settle(&settled, err) != STATUS_OK)
        return error_prefix(err, STATUS_PROTOCOL, "ring: ");
    size_t used =
        offsetof(struct ring_layout, fields) + settled.field_count * sizeof settled.fields[0];
    if (memcmp(&settled, layout, used) != 0 ||
        memcmp(settled.parts, layout->parts, settled.part_count * sizeof settled.parts[0]) != 0)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the offsets and sizes do not follow from the fields");
    if (settled.total_bytes != memfd_bytes)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the header asks for %" PRIu64 " bytes, the memory has %" PRIu64,
                         settled.total_bytes, memfd_bytes);
    return STATUS_OK;
}

bool ring_member_makes_sense(const struct ring_layout *layout, const struct ring_member *member)
{
    bool sound = member->is_there == 1;
    for (uint32_t f = 0; sound && f < layout->field_count; f++) {
        const struct ring_field *field = &layout->fields[f];
        bool has = member->fields >> f & 1;
        sound = field->part_count == 0 || member->parts[f] < field->part_count;
        if (has && sound)
            sound = !field->is_absent &&
                    (field->part_count == 0 ||
                     !layout->parts[field->first_part + member->parts[f]].is_absent);
        if (has && field->kind == RING_ITEMS)
            sound = sound && (member->fields >> field->offsets_field & 1);
    }
    return sound;
}

static void take_part(struct ring_field *field, const struct ring_part *part)
{
    if (field->kind == RING_ITEMS)
        field->capacity /= field->part_count;
    for (int k = 0; k < RING_MAX_CUT_AXES && field->kind != RING_ITEMS; k++)
        if (field->cut_axes[k] > 0)
            field->shape[field->cut_axes[k] - 1] = part->lengths[k];
    field->sample_bytes = part->sample_bytes;
    field->slot_offset = part->slot_offset;
    field->part_count = 1;
}

uint64_t ring_field_steps(const struct ring_layout *layout, uint32_t field, uint64_t epoch)
{
    uint64_t steps = 0;
    for (uint32_t p = 0; p < layout->phase_count && layout->phases[p].epoch <= epoch; p++)
        steps = layout->phases[p].steps[field];
    return steps;
}

void ring_layout_of_member(const struct ring_layout *layout, const struct ring_member *member,
                           struct ring_layout *ret_layout)
{
    uint32_t numbers[RING_MAX_FIELDS] = {0}, count = 0;
    for (uint32_t f = 0; f < layout->field_count; f++)
        if (member->fields >> f & 1)
            numbers[f] = count++;
    *ret_layout = *layout;
    ret_layout->field_count = count;
    ret_layout->part_count = 0;
    memset(ret_layout->phases, 0, sizeof ret_layout->phases);
    for (uint32_t p = 0; p < layout->phase_count; p++)
        ret_layout->phases[p].epoch = layout->phases[p].epoch;
    for (uint32_t f = 0; f < layout->field_count; f++) {
        struct ring_field field = layout->fields[f];
        if (!(member->fields >> f & 1))
            continue;
        for (uint32_t p = 0; p < layout->phase_count; p++)
            ret_layout->phases[p].steps[numbers[f]] = layout->phases[p].steps[f];
        if (field.part_count > 0) {
            const struct ring_part *part = &layout->parts[field.first_part + member->parts[f]];
            take_part(&field, part);
            field.first_part = ret_layout->part_count++;
            ret_layout->parts[field.first_part] = *part;
        }
        if (field.kind == RING_ITEMS)
            field.offsets_field = numbers[field.offsets_field];
        ret_layout->fields[numbers[f]] = field;
    }
}
