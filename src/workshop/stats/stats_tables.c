/* What is counted, added up, and kept in files. See stats.h. */
#include "workshop/stats/stats.h"

#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BITS = 16, TABLE_BYTES = 16 << 20 /* of a field, unless one bit takes more */ };

/* Keys
 * ------------------------------------------------------------------------------------------- */

/* Rises with the value; 0 and -0 are one. */
static uint64_t key_of(double value, uint32_t key_bits)
{
    value += 0.0;
    if (key_bits == 32) {
        float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        return bits >> 31 ? ~bits : bits | 1u << 31;
    }
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

static double value_of(uint64_t key, uint32_t key_bits)
{
    if (key_bits == 32) {
        uint32_t bits = (uint32_t)key >> 31 ? (uint32_t)key & ~(1u << 31) : ~(uint32_t)key;
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        return narrow;
    }
    uint64_t bits = key >> 63 ? key & ~(1ull << 63) : ~key;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Moments
 * ------------------------------------------------------------------------------------------- */

static void merge(struct stats_moments *into, const struct stats_moments *more)
{
    if (more->count == 0)
        return;
    if (into->count == 0) {
        *into = *more;
        return;
    }
    double n = (double)into->count, m = (double)more->count;
    double distance = more->origin - into->origin + (more->mean - into->mean);
    into->mean += distance * (m / (n + m));
    into->squares += more->squares + distance * distance * (n * (m / (n + m)));
    into->count += more->count;
    into->least = fmin(into->least, more->least);
    into->greatest = fmax(into->greatest, more->greatest);
}

static void add_value(struct stats_moments *into, double value)
{
    if (into->count++ == 0)
        into->origin = into->least = into->greatest = value;
    double distance = value - into->origin - into->mean;
    into->mean += distance / (double)into->count;
    into->squares += distance * (value - into->origin - into->mean);
    into->least = fmin(into->least, value);
    into->greatest = fmax(into->greatest, value);
}

static double square(double value)
{
    return value * value;
}

/* Of one entry: two passes over the line. */
static void add_line(struct stats_moments *into, const double *items, size_t count)
{
    struct stats_moments line = {.least = INFINITY, .greatest = -INFINITY};
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(items[i])) {
            if (line.count++ == 0)
                line.origin = items[i];
            sum += items[i] - line.origin;
            line.least = fmin(line.least, items[i]);
            line.greatest = fmax(line.greatest, items[i]);
        }
    if (line.count > 0)
        line.mean = sum / (double)line.count;
    for (size_t i = 0; i < count; i++)
        if (!isnan(items[i]))
            line.squares += square(items[i] - line.origin - line.mean);
    merge(into, &line);
}

/* Counting
 * ------------------------------------------------------------------------------------------- */

static uint64_t counts_of(const struct stats_field *field)
{
    return field->entry_count * field->most_targets << field->bits;
}

static void count_key(const struct stats_field *field, uint64_t *counts, uint64_t entry,
                      uint64_t key)
{
    const struct stats_target *targets = field->targets + entry * STATS_MOST_TARGETS;
    uint64_t known = field->known_bits ? key >> (field->key_bits - field->known_bits) : 0;
    uint64_t next =
        key >> (field->key_bits - field->known_bits - field->bits) & ((1ull << field->bits) - 1);
    for (uint32_t t = 0; t < field->target_counts[entry]; t++)
        if (targets[t].prefix == known) {
            counts[((entry * field->most_targets + t) << field->bits) + next]++;
            return;
        }
}

void stats_add_line(const struct stats *stats, size_t f, struct stats_table *table, uint64_t entry,
                    uint64_t stride, const double *items, size_t count)
{
    const struct stats_field *field = &stats->fields[f];
    if (stats->pass == 0 && stride == 0)
        add_line(&table->moments[f][entry], items, count);
    for (size_t i = 0; i < count; i++) {
        if (isnan(items[i]))
            continue;
        if (stats->pass == 0 && stride > 0)
            add_value(&table->moments[f][entry + i * stride], items[i]);
        if (table->counts[f])
            count_key(field, table->counts[f], entry + i * stride,
                      key_of(items[i], field->key_bits));
    }
}

/* Tables
 * ------------------------------------------------------------------------------------------- */

uint64_t stats_shared_bytes(const struct stats *stats)
{
    uint64_t bytes = stats_table_bytes(stats); /* the sums */
    for (size_t f = 0; f < stats->field_count; f++)
        bytes += stats->fields[f].entry_count *
                 (sizeof(struct stats_moments) + STATS_MOST_TARGETS * sizeof(struct stats_target) +
                  sizeof(uint32_t));
    return bytes;
}

uint64_t stats_table_bytes(const struct stats *stats)
{
    uint64_t bytes = 0;
    for (size_t f = 0; f < stats->field_count; f++)
        bytes += stats->fields[f].entry_count * sizeof(struct stats_moments) +
                 counts_of(&stats->fields[f]) * sizeof(uint64_t);
    return bytes;
}

enum status stats_table_new(const struct stats *stats, struct stats_table *ret_table,
                            struct error *err)
{
    struct stats_table table = {0};
    bool has_memory = true;
    for (size_t f = 0; f < stats->field_count; f++) {
        const struct stats_field *field = &stats->fields[f];
        table.moments[f] = calloc(field->entry_count, sizeof *table.moments[f]);
        table.counts[f] =
            field->bits > 0 ? calloc(counts_of(field), sizeof *table.counts[f]) : NULL;
        has_memory = has_memory && table.moments[f] && (field->bits == 0 || table.counts[f]);
    }
    if (!has_memory) {
        stats_table_free(&table);
        return error_set(err, STATUS_NO_MEMORY, "no memory for statistics");
    }
    *ret_table = table;
    return STATUS_OK;
}

void stats_table_clear(const struct stats *stats, struct stats_table *table)
{
    for (size_t f = 0; f < stats->field_count; f++) {
        const struct stats_field *field = &stats->fields[f];
        memset(table->moments[f], 0, field->entry_count * sizeof *table->moments[f]);
        if (table->counts[f])
            memset(table->counts[f], 0, counts_of(field) * sizeof *table->counts[f]);
    }
}

void stats_table_free(struct stats_table *table)
{
    for (size_t f = 0; f < DATASET_MAX_FIELDS; f++) {
        free(table->moments[f]);
        free(table->counts[f]);
    }
}

/* Files: of each field the moments, and pairs of an index and a count that is not 0
 * ------------------------------------------------------------------------------------------- */

struct file_name {
    char text[64];
};

static struct file_name name_of(const struct stats *stats, uint64_t block)
{
    struct file_name name;
    snprintf(name.text, sizeof name.text, "pass.%" PRIu32 ".%" PRIu64, stats->pass, block);
    return name;
}

bool stats_has_block(const struct stats *stats, uint64_t block)
{
    return faccessat(stats->folder_fd, name_of(stats, block).text, F_OK, 0) == 0;
}

static bool write_counts(FILE *file, const uint64_t *counts, uint64_t count)
{
    uint64_t pair[2] = {0};
    bool fine = true;
    for (uint64_t i = 0; i < count; i++)
        pair[0] += counts[i] != 0;
    fine = fwrite(pair, sizeof *pair, 1, file) == 1;
    for (uint64_t i = 0; i < count && fine; i++)
        if (counts[i]) {
            pair[0] = i;
            pair[1] = counts[i];
            fine = fwrite(pair, sizeof pair, 1, file) == 1;
        }
    return fine;
}

enum status stats_table_write(const struct stats *stats, uint64_t block,
                              const struct stats_table *table, struct error *err)
{
    struct file_name name = name_of(stats, block), partial;
    snprintf(partial.text, sizeof partial.text, "new.%.40s", name.text);
    int fd = openat(stats->folder_fd, partial.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool fine = file != NULL;
    for (size_t f = 0; f < stats->field_count && fine; f++) {
        const struct stats_field *field = &stats->fields[f];
        if (stats->pass == 0)
            fine = fwrite(table->moments[f], sizeof *table->moments[f], field->entry_count, file) ==
                   field->entry_count;
        if (fine && table->counts[f])
            fine = write_counts(file, table->counts[f], counts_of(field));
    }
    fine = file && fclose(file) == 0 && fine;
    fine = fine && renameat(stats->folder_fd, partial.text, stats->folder_fd, name.text) == 0;
    return fine ? STATUS_OK
                : error_set_errno(err, STATUS_IO, "write '%s' in the journal", name.text);
}

static bool add_counts(FILE *file, uint64_t *counts, uint64_t count)
{
    uint64_t pairs, pair[2];
    bool fine = fread(&pairs, sizeof pairs, 1, file) == 1 && pairs <= count;
    for (uint64_t i = 0; fine && i < pairs; i++) {
        fine = fread(pair, sizeof pair, 1, file) == 1 && pair[0] < count;
        if (fine)
            counts[pair[0]] += pair[1];
    }
    return fine;
}

static bool add_moments(FILE *file, struct stats_moments *moments, uint64_t count)
{
    struct stats_moments more;
    for (uint64_t i = 0; i < count; i++) {
        if (fread(&more, sizeof more, 1, file) != 1)
            return false;
        merge(&moments[i], &more);
    }
    return true;
}

enum status stats_table_add(const struct stats *stats, uint64_t block, struct stats_table *table,
                            struct error *err)
{
    struct file_name name = name_of(stats, block);
    int fd = openat(stats->folder_fd, name.text, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    bool fine = true;
    if (!file)
        return error_set_errno(err, STATUS_IO, "open '%s' in the journal", name.text);
    for (size_t f = 0; f < stats->field_count && fine; f++) {
        if (stats->pass == 0)
            fine = add_moments(file, table->moments[f], stats->fields[f].entry_count);
        if (fine && table->counts[f])
            fine = add_counts(file, table->counts[f], counts_of(&stats->fields[f]));
    }
    fclose(file);
    return fine ? STATUS_OK
                : error_set(err, STATUS_CORRUPT,
                            "'%s' in the journal is damaged: remove the destination to start anew",
                            name.text);
}

/* Passes
 * ------------------------------------------------------------------------------------------- */

/* As many bits as TABLE_BYTES has room for, up to MOST_BITS. */
static uint32_t bits_of(uint64_t entry_count, uint32_t most_targets, uint32_t left)
{
    uint64_t each = entry_count * most_targets * sizeof(uint64_t);
    uint32_t bits = 1;
    while (bits < MOST_BITS && (each << (bits + 1)) <= TABLE_BYTES)
        bits++;
    return min_u32(bits, left);
}

static void choose_bits(struct stats_field *field)
{
    field->bits =
        bits_of(field->entry_count, field->most_targets, field->key_bits - field->known_bits);
}

uint32_t stats_most_passes(const struct stats *stats)
{
    uint32_t most = 1;
    for (size_t f = 0; f < stats->field_count && stats->quantile_count > 0; f++) {
        const struct stats_field *field = &stats->fields[f];
        uint32_t passes = 1, known = bits_of(field->entry_count, 1, field->key_bits);
        for (; known < field->key_bits; passes++)
            known += bits_of(field->entry_count, 2 * (uint32_t)stats->quantile_count,
                             field->key_bits - known);
        most = max_u32(most, passes);
    }
    return most;
}

void stats_begin(struct stats *stats)
{
    for (size_t f = 0; f < stats->field_count; f++) {
        struct stats_field *field = &stats->fields[f];
        field->most_targets = stats->quantile_count > 0;
        for (uint64_t e = 0; e < field->entry_count; e++)
            field->target_counts[e] = field->most_targets;
        if (stats->quantile_count > 0)
            choose_bits(field);
    }
}

/* The index of quantile q among `count` values, and how far it is to the next one. */
static uint64_t index_of(double q, uint64_t count, double *ret_rest)
{
    double index = q * (double)(count - 1), whole = floor(index);
    *ret_rest = index - whole;
    return min_u64((uint64_t)whole, count - 1);
}

/* Of the target that holds the value at `index`, the longer prefix. */
static struct stats_target find_index(const struct stats_field *field, const uint64_t *counts,
                                      uint64_t entry, uint64_t index)
{
    const struct stats_target *targets = field->targets + entry * STATS_MOST_TARGETS;
    uint32_t t = field->target_counts[entry] - 1;
    while (t > 0 && targets[t].before > index)
        t--;
    const uint64_t *own = counts + ((entry * field->most_targets + t) << field->bits);
    uint64_t before = targets[t].before, next = 0, last = (1ull << field->bits) - 1;
    while (next < last && before + own[next] <= index)
        before += own[next++];
    return (struct stats_target){targets[t].prefix << field->bits | next, before};
}

static int compare_targets(const void *a, const void *b)
{
    uint64_t x = ((const struct stats_target *)a)->prefix;
    uint64_t y = ((const struct stats_target *)b)->prefix;
    return (x > y) - (x < y);
}

static void narrow_entry(const struct stats *stats, struct stats_field *field,
                         const uint64_t *counts, uint64_t entry)
{
    struct stats_target found[STATS_MOST_TARGETS],
        *targets = field->targets + entry * STATS_MOST_TARGETS;
    uint64_t count = field->moments[entry].count;
    uint32_t n = 0, kept = 0;
    for (size_t q = 0; q < stats->quantile_count && count > 0; q++) {
        double rest;
        uint64_t index = index_of(stats->quantiles[q], count, &rest);
        found[n++] = find_index(field, counts, entry, index);
        found[n++] = find_index(field, counts, entry, min_u64(index + 1, count - 1));
    }
    qsort(found, n, sizeof *found, compare_targets);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || targets[kept - 1].prefix != found[i].prefix)
            targets[kept++] = found[i];
    field->target_counts[entry] = kept;
}

static void narrow_field(const struct stats *stats, struct stats_field *field,
                         const uint64_t *counts)
{
    uint32_t most = 1;
    for (uint64_t entry = 0; entry < field->entry_count; entry++) {
        narrow_entry(stats, field, counts, entry);
        most = max_u32(most, field->target_counts[entry]);
    }
    field->known_bits += field->bits;
    field->most_targets = most;
    field->bits = 0;
    if (field->known_bits < field->key_bits)
        choose_bits(field);
}

bool stats_next_pass(struct stats *stats, const struct stats_table *sums)
{
    bool more = false;
    for (size_t f = 0; f < stats->field_count; f++) {
        struct stats_field *field = &stats->fields[f];
        if (stats->pass == 0)
            memcpy(field->moments, sums->moments[f], field->entry_count * sizeof *field->moments);
        if (sums->counts[f])
            narrow_field(stats, field, sums->counts[f]);
        more |= field->bits > 0;
    }
    stats->pass++;
    return more;
}

/* The value at an index: that of the last key whose smaller ones do not reach so far. */
static double value_at(const struct stats_field *field, uint64_t entry, uint64_t index)
{
    const struct stats_target *targets = field->targets + entry * STATS_MOST_TARGETS;
    uint32_t t = field->target_counts[entry] - 1;
    while (t > 0 && targets[t].before > index)
        t--;
    return value_of(targets[t].prefix, field->key_bits);
}

double stats_quantile(const struct stats_field *field, uint64_t entry, double q)
{
    uint64_t count = field->moments[entry].count;
    double rest;
    if (count == 0)
        return NAN;
    uint64_t index = index_of(q, count, &rest);
    double low = value_at(field, entry, index);
    double high = value_at(field, entry, min_u64(index + 1, count - 1));
    if (!(rest > 0.0))
        return low;
    return rest < 0.5 ? low + (high - low) * rest : high - (high - low) * (1.0 - rest);
}
