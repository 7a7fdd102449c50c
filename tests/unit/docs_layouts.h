/* What docs/inside/layouts.md has to show, for test_docs_layouts.c: structs with their members, of
 * which the compiler knows offsets and sizes, messages, values and kinds. A new member or message
 * is a row here, and one of the page. */
#ifndef PENSTOCK_TESTS_DOCS_LAYOUTS_H
#define PENSTOCK_TESTS_DOCS_LAYOUTS_H

#include "delivery/ring/handout.h"
#include "delivery/ring/layout.h"
#include "delivery/ring/protocol.h"
#include "metrics/overview.h"
#include "store/cache/disk_cache_internal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_MEMBERS = 20 };

/* The page's names of types. */
typedef uint64_t u64;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint16_t u16;
typedef uint8_t u8;
typedef struct ring_field ring_field;
typedef struct ring_part ring_part;
typedef struct ring_phase ring_phase;
typedef struct mesh mesh;
typedef struct mesh_axis mesh_axis;
typedef struct ring_waits ring_waits;
typedef struct order order;
typedef struct table_entry table_entry;

struct member {
    const char *type, *name;
    size_t offset, bytes, type_bytes;
};

struct shared {
    const char *name, *file;
    size_t bytes;
    struct member members[MOST_MEMBERS];
};

// clang-format off
/* A struct; its member m, which is of that type or an array of it; an enum's name. */
#define S(s, file)    #s, file, sizeof(struct s)
#define M(s, type, m) {#type, #m, offsetof(struct s, m), sizeof(((struct s *)0)->m), sizeof(type)}
#define K(name)       {#name, name}
// clang-format on

#define LAYOUT   "src/delivery/ring/layout.h"
#define MESH     "src/mesh/mesh.h"
#define ORDER    "src/delivery/ring/order.h"
#define HANDOUT  "src/delivery/ring/handout.h"
#define PROTOCOL "src/delivery/ring/protocol.h"
#define PAGE     "src/metrics/metrics_file.h"
#define OVERVIEW "src/metrics/overview.h"
#define ERROR    "src/base/error.h"
#define CACHE    "src/store/cache/disk_cache_internal.h"
#define VALUE    "src/store/cache/disk_cache_value.c"
#define CURSOR   "src/delivery/client/cursor_file.c"

static const struct shared structs[] = {
    {S(ring_layout, LAYOUT),
     {M(ring_layout, u64, magic),          M(ring_layout, u32, version),
      M(ring_layout, u32, field_count),    M(ring_layout, u32, slot_count),
      M(ring_layout, u32, batch_size),     M(ring_layout, u32, spare_slots),
      M(ring_layout, u32, member_count),   M(ring_layout, u32, part_count),
      M(ring_layout, u32, phase_count),    M(ring_layout, u64, members_offset),
      M(ring_layout, u64, control_offset), M(ring_layout, u64, data_offset),
      M(ring_layout, u64, slot_stride),    M(ring_layout, u64, total_bytes),
      M(ring_layout, u64, indices_offset), M(ring_layout, u64, keys_offset),
      M(ring_layout, u64, valid_offset),   M(ring_layout, ring_field, fields),
      M(ring_layout, ring_part, parts),    M(ring_layout, ring_phase, phases)}},
    {S(ring_field, LAYOUT),
     {M(ring_field, char, name), M(ring_field, u32, dtype), M(ring_field, u32, rank),
      M(ring_field, u64, shape), M(ring_field, u64, sample_bytes), M(ring_field, u64, slot_offset),
      M(ring_field, u64, capacity), M(ring_field, u32, kind), M(ring_field, u32, offsets_field),
      M(ring_field, u32, part_count), M(ring_field, u32, first_part), M(ring_field, u32, cut_axes),
      M(ring_field, u32, is_absent), M(ring_field, u16, is_torch_chunk),
      M(ring_field, u8, cut_over)}},
    {S(ring_part, LAYOUT),
     {M(ring_part, u64, sample_bytes), M(ring_part, u64, slot_offset), M(ring_part, u64, begins),
      M(ring_part, u64, seconds), M(ring_part, u64, lengths), M(ring_part, u64, wholes),
      M(ring_part, u64, is_absent)}},
    {S(ring_phase, LAYOUT), {M(ring_phase, u64, epoch), M(ring_phase, u32, steps)}},
    {S(ring_member, LAYOUT),
     {M(ring_member, u32, rank), M(ring_member, u32, is_there), M(ring_member, u64, fields),
      M(ring_member, u16, parts)}},
    {S(mesh, MESH), {M(mesh, u32, rank_count), M(mesh, u32, axis_count), M(mesh, mesh_axis, axes)}},
    {S(mesh_axis, MESH),
     {M(mesh_axis, char, name), M(mesh_axis, u32, size), M(mesh_axis, u32, divides)}},
    {S(ring_service, LAYOUT),
     {M(ring_service, u32, world_size), M(ring_service, u32, group), M(ring_service, mesh, mesh),
      M(ring_service, u64, dataset_samples), M(ring_service, u64, steps_per_epoch),
      M(ring_service, u64, epochs), M(ring_service, u64, start_epoch),
      M(ring_service, u64, start_step), M(ring_service, order, order)}},
    {S(order, ORDER),
     {M(order, u64, id), M(order, u64, fingerprint), M(order, u64, seed),
      M(order, u32, global_batch), M(order, u32, row_length), M(order, u32, window_rows),
      M(order, u32, shuffle), M(order, u32, last), M(order, u32, locality)}},
    {S(ring_control, LAYOUT),
     {M(ring_control, u64, head), M(ring_control, u64, tail), M(ring_control, ring_waits, waits),
      M(ring_control, u32, trainer_waits), M(ring_control, u32, reader_waits)}},
    {S(ring_waits, LAYOUT),
     {M(ring_waits, u64, wait_ns), M(ring_waits, u64, released_ms), M(ring_waits, u32, taken),
      M(ring_waits, u32, buckets)}},
    {S(slot_header, LAYOUT),
     {M(slot_header, u64, epoch), M(slot_header, u64, step), M(slot_header, u32, sample_count),
      M(slot_header, u32, first_position), M(slot_header, u64, bound)}},
    {S(handout_header, HANDOUT),
     {M(handout_header, u64, magic), M(handout_header, u32, version),
      M(handout_header, u32, field_count), M(handout_header, u32, constant_count),
      M(handout_header, u32, reserved), M(handout_header, u64, total_bytes)}},
    {S(handout_item, HANDOUT),
     {M(handout_item, char, name), M(handout_item, u32, dtype), M(handout_item, u32, rank),
      M(handout_item, u64, shape), M(handout_item, u64, data_bytes),
      M(handout_item, u64, data_offset), M(handout_item, u64, text_bytes),
      M(handout_item, u64, text_offset)}},
    {S(metrics_file_head, PAGE),
     {M(metrics_file_head, u64, magic), M(metrics_file_head, u32, version),
      M(metrics_file_head, u32, bytes), M(metrics_file_head, u64, checksum)}},
    {S(metrics_overview_head, OVERVIEW),
     {M(metrics_overview_head, u64, magic), M(metrics_overview_head, u32, version),
      M(metrics_overview_head, u32, reader_count), M(metrics_overview_head, u64, page_bytes)}},
    {"protocol_message",
     PROTOCOL,
     offsetof(struct protocol_message, hello),
     {M(protocol_message, u32, magic), M(protocol_message, u32, version),
      M(protocol_message, u32, type), M(protocol_message, u32, reserved)}},
    {S(table, CACHE), {M(table, u64, magic), M(table, u64, boot), M(table, table_entry, entries)}},
    {S(table_entry, CACHE),
     {M(table_entry, u64, dataset), M(table_entry, u64, bytes), M(table_entry, u64, used_ns),
      M(table_entry, u64, writers)}},
};

/* By number. */
static const struct {
    const char *name;
    uint32_t type;
    struct shared body;
} messages[] = {
    {"HELLO",
     PROTOCOL_HELLO,
     {S(protocol_hello, PROTOCOL),
      {M(protocol_hello, u32, rank), M(protocol_hello, u32, world_size),
       M(protocol_hello, u32, wish), M(protocol_hello, char, coordinates),
       M(protocol_hello, char, state)}}},
    {"WAIT",
     PROTOCOL_WAIT,
     {S(protocol_wait, PROTOCOL),
      {M(protocol_wait, u32, connected), M(protocol_wait, u32, expected),
       M(protocol_wait, u64, reconnect_ms)}}},
    {"WELCOME",
     PROTOCOL_WELCOME,
     {S(protocol_welcome, PROTOCOL),
      {M(protocol_welcome, u64, epoch), M(protocol_welcome, u64, step),
       M(protocol_welcome, u32, member), M(protocol_welcome, u32, reserved)}}},
    {"GOODBYE",
     PROTOCOL_GOODBYE,
     {S(protocol_goodbye, PROTOCOL),
      {M(protocol_goodbye, u64, epoch), M(protocol_goodbye, u64, step)}}},
    {"END", PROTOCOL_END, {0}},
    {"FAIL",
     PROTOCOL_FAIL,
     {S(error, ERROR),
      {M(error, i32, status), M(error, i32, system_errno), M(error, i32, rank), M(error, i32, line),
       M(error, char, file), M(error, char, message)}}},
    {"DONE", PROTOCOL_DONE, {0}},
    {"HANDOUT", PROTOCOL_HANDOUT, {0}},
    {"SKIP",
     PROTOCOL_SKIP,
     {S(protocol_skip, PROTOCOL),
      {M(protocol_skip, u64, from_epoch), M(protocol_skip, u64, from_step),
       M(protocol_skip, u64, epoch), M(protocol_skip, u64, step)}}},
    {"GIVE",
     PROTOCOL_GIVE,
     {S(protocol_give, PROTOCOL),
      {M(protocol_give, u64, epoch), M(protocol_give, u64, step), M(protocol_give, u32, dtype),
       M(protocol_give, u32, rank), M(protocol_give, u64, shape)}}},
};

/* Values that the page has behind a member's name. */
static const struct value {
    const char *in, *member;
    uint64_t number;
    bool is_text;
} values[] = {
    {"ring_layout", "magic", RING_MAGIC, true},
    {"ring_layout", "version", RING_VERSION, false},
    {"ring_layout", "field_count", RING_MAX_FIELDS, false},
    {"ring_layout", "slot_count", RING_MAX_SLOTS, false},
    {"handout_header", "magic", HANDOUT_MAGIC, true},
    {"handout_header", "version", HANDOUT_VERSION, false},
    {"handout_header", "constant_count", HANDOUT_MAX_CONSTANTS, false},
    {"protocol_message", "magic", PROTOCOL_MAGIC, true},
    {"protocol_message", "version", PROTOCOL_VERSION, false},
};

/* Enums of which the page has a row "NUMBER NAME ..." for each name. */
static const struct {
    const char *enum_name, *file;
    struct {
        const char *name;
        int number;
    } kinds[MOST_MEMBERS];
} lists[] = {
    {"ring_kind", LAYOUT, {K(RING_SAMPLES), K(RING_ITEMS), K(RING_OFFSETS), K(RING_PADDED)}},
    {"protocol_wish", PROTOCOL, {K(WISH_FRESH), K(WISH_STATE), K(WISH_CONTINUE)}},
};

#endif
