/* `penstock inspect` for people: two tables, and what to do next. */
#include "base/dtype.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/inspect/dataset_text.h"
#include "cli/inspect/inspect.h"
#include "codec/codec.h"
#include "config/config.h"
#include "scan/advice.h"
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/axes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 8, LARGE_ARRAY_BYTES = 1 << 20 };

/* Cells are written one after another; columns are as wide as their widest cell. */
struct table {
    struct text cells; /* NUL-terminated strings */
    size_t widths[COLUMNS];
    size_t cell_count;
};

static void add_cell(struct table *table, const char *cell)
{
    assert(cell);
    size_t *width = &table->widths[table->cell_count++ % COLUMNS];
    size_t length = strlen(cell);
    *width = *width < length ? length : *width;
    text_append_bytes(&table->cells, cell, length + 1);
}

static void print_table(const struct table *table)
{
    const char *cell = table->cells.data;
    for (size_t i = 0; i < table->cell_count; i++, cell += strlen(cell) + 1) {
        bool last = i % COLUMNS == COLUMNS - 1;
        printf("%-*s%s", last ? 0 : (int)table->widths[i % COLUMNS], cell, last ? "\n" : "  ");
    }
}

struct shape_text {
    char text[ZARR_MAX_RANK * 24];
};

static struct shape_text format_shape(const uint64_t *shape, int rank, const char *separator)
{
    struct shape_text out = {""};
    for (int i = 0, used = 0; i < rank; i++)
        used += snprintf(out.text + used, sizeof out.text - (size_t)used, "%s%" PRIu64,
                         i ? separator : "", shape[i]);
    return out;
}

/* "time 37 x lat 73": with the names of axes that have one. */
static void add_named_shape(struct table *table, const struct zarr_node *node)
{
    struct zarr_axis_names names;
    struct text cell = {0};
    (void)zarr_node_axis_names(node, &names);
    for (int i = 0; i < node->array.rank; i++)
        text_append(&cell, "%s%s%s%" PRIu64, i ? " x " : "", names.names[i],
                    names.names[i][0] ? " " : "", node->array.shape[i]);
    add_cell(table, cell.data);
    text_done(&cell);
}

/* The chunk shape, and that of the shards which chunks are in. */
static void add_chunks(struct table *table, const struct zarr_array *array)
{
    struct shape_text chunks = format_shape(array->chunk_shape, array->rank, " x ");
    uint64_t shards[ZARR_MAX_RANK];
    char cell[2 * sizeof chunks.text + 16];
    zarr_array_shard_shape(array, shards);
    snprintf(cell, sizeof cell, "%s%s%s", chunks.text, array->shard_level_count > 0 ? " in " : "",
             array->shard_level_count > 0 ? format_shape(shards, array->rank, " x ").text : "");
    add_cell(table, cell);
}

static void add_array(struct table *table, const struct zarr_node *node,
                      const struct stored_size *stored)
{
    const struct zarr_array *array = &node->array;
    struct text codecs = {0};
    char ratio[32] = "-", size[64] = "-";
    codec_chain_describe(&array->codecs, &codecs);
    const char *about = stored->is_estimate ? "~" : "";
    bool known = stored->bytes != STORED_UNKNOWN;
    if (known)
        snprintf(size, sizeof size, "%s%s", about, size_format(stored->bytes).text);
    if (known && stored->bytes > 0)
        snprintf(ratio, sizeof ratio, "%s%.2f", about,
                 (double)array->total_bytes / (double)stored->bytes);
    add_cell(table, array->path[0] ? text_shown(array->path).text : "/");
    add_cell(table, array->stored_type[0] ? array->stored_type : dtype_name(array->dtype));
    add_named_shape(table, node);
    add_chunks(table, array);
    add_cell(table, codecs.data);
    add_cell(table, size);
    add_cell(table, size_format(array->total_bytes).text);
    add_cell(table, ratio);
    text_done(&codecs);
}

static void print_arrays(const struct inspection *inspection)
{
    static const char *const heads[COLUMNS] = {"array",  "type",   "shape",   "chunks",
                                               "codecs", "stored", "decoded", "ratio"};
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    struct table table = {0};
    for (int i = 0; i < COLUMNS; i++)
        add_cell(&table, heads[i]);
    size_t readable = 0;
    bool estimates = false;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        if (hierarchy->nodes[i].status != STATUS_OK)
            continue;
        add_array(&table, &hierarchy->nodes[i], &inspection->stored[i]);
        estimates |= inspection->stored[i].is_estimate;
        readable++;
    }
    if (readable > 0)
        print_table(&table);
    if (estimates)
        printf("~: estimated from some of the array's chunks%s%s%s\n",
               inspection->listing_error.status != STATUS_OK ? " (listing failed: " : "",
               inspection->listing_error.message,
               inspection->listing_error.status != STATUS_OK ? ")" : "");
    text_done(&table.cells);
}

static void print_unreadable(const struct zarr_hierarchy *hierarchy)
{
    bool first = true;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        if (node->status == STATUS_OK)
            continue;
        printf("%s  %s: %s\n", first ? "\nCannot be read:\n" : "",
               text_shown(node->array.path).text, node->reason);
        first = false;
    }
}

/* Prints the attributes that change the meaning of values. A run delivers values as they are
 * stored. */
static void print_encodings(const struct zarr_hierarchy *hierarchy)
{
    bool first = true;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        struct zarr_encoding encoding;
        struct text text = {0};
        zarr_node_encoding(node, &encoding);
        if (node->status != STATUS_OK || !zarr_encoding_changes(&encoding))
            continue;
        zarr_encoding_describe(&encoding, &text);
        printf("%s  %s: %s%s%s\n", first ? "\nStored as something else than is meant:\n" : "",
               text_shown(node->array.path).text, text.data, encoding.units[0] ? ", units " : "",
               text_shown(encoding.units).text);
        text_done(&text);
        first = false;
    }
}

static bool has_part(const struct zarr_hierarchy *hierarchy, const char *group, size_t length,
                     const char *part)
{
    char path[2 * ZARR_PATH_BYTES];
    snprintf(path, sizeof path, "%.*s/%s", (int)length, group, part);
    return zarr_hierarchy_find(hierarchy, path) != NULL;
}

/* The length of the path of the array's group, if this is a sparse matrix; else 0. */
static size_t sparse_group(const struct zarr_hierarchy *hierarchy, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    bool is_sparse = slash && has_part(hierarchy, path, length, "indptr") &&
                     has_part(hierarchy, path, length, "indices") &&
                     has_part(hierarchy, path, length, "data");
    return is_sparse ? length : 0;
}

/* Arrays with another number of entries than samples may be meant to be joined: shows how. Listing
 * a field replaces the default ones, so all are listed. */
static void print_joins(const struct inspection *inspection)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    const struct dataset *dataset = inspection->dataset;
    const struct zarr_node *index = inspection->index, *ends = inspection->ends;
    struct text ends_at = {0};
    text_append(&ends_at, "samples.episodes_ends=%s%s", inspection->root,
                ends ? ends->array.path : "");
    if (ends && sparse_group(hierarchy, ends->array.path) == 0) {
        struct text word = {0};
        text_append_word(&word, ends_at.data);
        printf("hint: '%s' looks like the ends of episodes, which samples of several steps do not "
               "cross: --set %s\n",
               text_shown(ends->array.path).text, word.data);
        text_done(&word);
    }
    text_done(&ends_at);
    if (!index || sparse_group(hierarchy, index->array.path) > 0)
        return;
    printf("hint: with what '%s' points to as a field of its own, for example:\n",
           text_shown(index->array.path).text);
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const char *path = hierarchy->nodes[i].array.path;
        if (inspection->joined[i])
            printf("  --set dataset.fields.%s=%s%s[%s%s]\n",
                   text_shown(inspect_last_component(path)).text, inspection->root,
                   text_shown(path).text, inspection->root, text_shown(index->array.path).text);
    }
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct zarr_array *array = dataset_field_array(dataset, i);
        const char *path = array ? array->path : index->array.path;
        if (strcmp(path, index->array.path) != 0)
            printf("  --set dataset.fields.%s=%s%s\n",
                   text_shown(inspect_last_component(path)).text, inspection->root,
                   text_shown(path).text);
    }
}

struct chunks_text {
    char text[32];
};

/* "0.25 chunks", "1 chunk". */
static struct chunks_text format_chunks(double count)
{
    struct chunks_text chunks;
    int length = snprintf(chunks.text, sizeof chunks.text, "%.3g chunk", count);
    if (strcmp(chunks.text, "1 chunk") != 0)
        snprintf(chunks.text + length, sizeof chunks.text - (size_t)length, "s");
    return chunks;
}

/* The command that writes the dataset anew, without options of chunks and codecs. What cannot be
 * read is left out. */
static void append_rechunk(const struct inspection *inspection, struct text *out)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    struct text names = {0};
    bool all = true;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        all = all && node->status == STATUS_OK;
        if (node->status == STATUS_OK)
            text_append(&names, "%s%s", names.data ? "," : "", node->array.path);
    }
    text_append(out, "penstock rechunk ");
    text_append_word(out, inspection->uri);
    text_append(out, " DST");
    if (!all && names.data) {
        text_append(out, " --arrays ");
        text_append_word(out, names.data);
    }
    text_done(&names);
}

/* Prints the findings about the layout, and a better layout. */
static void print_layout_hint(const struct inspection *inspection)
{
    const struct layout_cost *cost = &inspection->cost;
    if (cost->small)
        printf("hint: reading costs one request for each chunk row of %s; 1 MiB and more read "
               "faster\n",
               size_format(cost->row_bytes).text);
    if (cost->large)
        printf("hint: a reader holds many rows of %s at once; smaller chunks along axis 0 take "
               "less memory and shuffle better\n",
               size_format(cost->row_bytes).text);
    if (cost->across)
        printf("hint: chunks run along the samples and cut each of them into many pieces\n");
    if (cost->unaligned)
        printf("hint: fields have chunks of different lengths along axis 0: some are decoded more "
               "than once\n");
    if (cost->window_bytes > cost->memory_bytes)
        printf(
            "hint: a window of %s row%s takes %s, and there are %s: its rows would be read again "
            "and again\n",
            count_format(cost->window_rows).text, count_plural(cost->window_rows),
            size_format(cost->window_bytes).text, size_format(cost->memory_bytes).text);
    struct text rechunk = {0};
    char reads[64] = "";
    append_rechunk(inspection, &rechunk);
    if (cost->amplification - cost->chunk_amplification >= 0.1)
        snprintf(reads, sizeof reads, "read %.1fx instead of %.1fx, and ",
                 cost->chunk_amplification, cost->amplification);
    if (cost->chunk > 0)
        printf("hint: to %sdecode %s for a sample instead of %.3g: %s --chunk %" PRIu64 "\n", reads,
               format_chunks(cost->chunk_reads).text, cost->chunks, rechunk.data, cost->chunk);
    text_done(&rechunk);
}

/* Prints how large arrays would better be compressed and divided. */
static void print_array_hints(const struct inspection *inspection)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    struct text hints = {0}, rechunk = {0};
    append_rechunk(inspection, &rechunk);
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        uint64_t stored = inspection->stored[i].bytes;
        if (node->status == STATUS_OK && stored != STORED_UNKNOWN && stored > 0 &&
            node->array.total_bytes >= LARGE_ARRAY_BYTES) {
            /* Unless the run's cost says which length is good. Other arrays than the largest get
             * multiples of its length, or keep their own. */
            if (inspection->cost.chunk == 0 && node == inspect_largest(inspection))
                advice_describe_chunks(&node->array, rechunk.data, &hints);
            advice_describe(&node->array, (double)stored / (double)node->array.total_bytes,
                            rechunk.data, &hints);
        }
    }
    printf("%s", hints.data ? hints.data : "");
    text_done(&hints);
    text_done(&rechunk);
}

static void print_cost(const struct inspection *inspection)
{
    const struct layout_cost *cost = &inspection->cost;
    if (inspection->sizes_error.status != STATUS_OK)
        printf("  read for a sample, of its share: %.1fx; %s decoded\n"
               "    (sizes are not known: %s)\n",
               cost->amplification, format_chunks(cost->chunks).text,
               inspection->sizes_error.message);
    else
        printf("  %s read for a sample whose share is %s: %.1fx; %s decoded\n",
               size_format((uint64_t)cost->read_bytes).text,
               size_format((uint64_t)cost->stored_bytes).text, cost->amplification,
               format_chunks(cost->chunks).text);
    printf("    (windows of %s row%s, which take %s of memory; there are %s)\n",
           count_format(cost->window_rows).text, count_plural(cost->window_rows),
           cost->window_bytes > 0 ? size_format(cost->window_bytes).text : "next to none",
           size_format(cost->memory_bytes).text);
}

static const char *source_text(const struct dataset_field *field)
{
    if (field->source == FIELD_RAGGED && field->ragged->is_held)
        return "held in memory";
    return field->source == FIELD_ROW      ? "read row by row"
           : field->source == FIELD_HELD   ? "held in memory"
           : field->source == FIELD_RAGGED ? "read row by row, in pages"
                                           : "made for each sample";
}

/* How long samples are, and what it costs that rows cut chunks in two. */
static void print_ragged(const struct dataset *dataset)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        printf("  ragged %-19s %s item%s of %s", ragged->name,
               count_format(ragged->item_count).text, count_plural(ragged->item_count),
               size_format(ragged_item_bytes(ragged)).text);
        if (ragged->panel_count > 0)
            printf(" in %s listed column%s", count_format(ragged->panel_count).text,
                   count_plural(ragged->panel_count));
        printf(", %.3g a sample, %s a frame at most\n",
               (double)ragged->sample_items / (double)dataset->sample_count,
               count_format(ragged->most_frame_items).text);
        if (ragged->is_held)
            continue;
        printf("    (pages of %s item%s, %s, %s a row at most; rows cut chunks: each is decoded "
               "%.3g times)\n",
               count_format(ragged->page_items).text, count_plural(ragged->page_items),
               size_format(ragged->page_bytes).text,
               count_format(dataset_most_row_pages(dataset)).text, ragged->decode_amplification);
    }
}

/* Groups that are sparse matrices, which no field is by default. */
static void print_sparse(const struct inspection *inspection)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    for (size_t i = 0; i < hierarchy->node_count && !inspection->configured; i++) {
        const char *path = hierarchy->nodes[i].array.path;
        size_t length = sparse_group(hierarchy, path);
        if (length == 0 || strcmp(path + length, "/indptr") != 0)
            continue;
        struct text group = {0};
        text_append(&group, "%.*s", (int)length, path);
        struct shown_text shown = text_shown(group.data);
        printf("hint: group '%s' looks like a sparse matrix (indptr, indices, data), whose rows "
               "can be samples: --set dataset.fields.%s=%s%s\n",
               shown.text, text_shown(inspect_last_component(group.data)).text, inspection->root,
               shown.text);
        text_done(&group);
    }
}

/* Whether an assignment says what is delivered, and not how. `uri`: dataset.uri counts, too. */
static bool says_what(const char *assignment, bool uri)
{
    static const char *const sections[] = {"dataset.", "samples.", "batch."};
    bool is_what = false;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        is_what = is_what || strncmp(assignment, sections[i], strlen(sections[i])) == 0;
    return is_what && (uri || strncmp(assignment, "dataset.uri=", strlen("dataset.uri=")) != 0);
}

/* The command that goes on, with the configuration that inspect was given. */
static void print_next(const struct inspection *inspection)
{
    const struct cli_settings *settings = inspection->settings;
    struct text uri = {0}, next = {0};
    if (inspection->written) {
        text_append_word(&next, inspection->written);
        printf("%s is written. next: penstock plan -c %s\n", inspection->written, next.data);
        text_done(&next);
        return;
    }
    text_append(&uri, "dataset.uri=%s", inspection->uri);
    text_append(&next, "next: penstock plan");
    if (settings->path) { /* FILE: what was read once is gone */
        text_append(&next, " -c ");
        text_append_word(&next, config_file_is_stream(settings->path) ? "FILE" : settings->path);
    }
    if (!inspection->has_uri) {
        text_append(&next, " --set ");
        text_append_word(&next, uri.data);
    }
    for (size_t i = 0; i < settings->assignment_count; i++)
        if (says_what(settings->assignments[i], inspection->has_uri)) {
            text_append(&next, " --set ");
            text_append_word(&next, settings->assignments[i]);
        }
    if (inspection->dataset->sample_count < inspection->global_batch) /* else no epoch has a step */
        text_append(&next, " --set batch.last=partial");
    printf("%s\n", next.data);
    text_done(&uri);
    text_done(&next);
}

static void print_dataset(const struct inspection *inspection)
{
    const struct dataset *dataset = inspection->dataset;
    struct text samples = {0};
    plan_describe_samples(dataset, "  ", &samples);
    printf("\nA run delivers%s:\n"
           "  %s sample%s of %s\n%s"
           "  %s chunk row%s of %s %s%s, %s each\n",
           inspection->configured ? "" : " by default", count_format(dataset->sample_count).text,
           count_plural(dataset->sample_count), size_format(dataset->sample_bytes).text,
           samples.data ? samples.data : "", count_format(dataset->row_count).text,
           count_plural(dataset->row_count), count_format(dataset->row_length).text,
           dataset->anchors ? "frame" : "sample", count_plural(dataset->row_length),
           size_format(inspection->cost.row_bytes).text);
    text_done(&samples);
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct dataset_field *field = &dataset->fields[i];
        const char *store = dataset_field_store(dataset, i);
        printf("  field %-20s %s [%s], %s, %s%s%s\n", field->name, dtype_name(field->dtype),
               format_shape(field->shape, field->rank, ", ").text,
               size_format(field->sample_bytes).text, source_text(field),
               store ? ", of the store " : "", store ? text_shown(store).text : "");
    }
    print_ragged(dataset);
    print_cost(inspection);
    if (inspection->doubts.data)
        printf("%s", inspection->doubts.data);
    print_sparse(inspection);
    print_joins(inspection);
    print_layout_hint(inspection);
    print_array_hints(inspection);
    print_next(inspection);
}

/* What people call the store, and what its samples are. */
static void print_kind(const struct inspection *inspection)
{
    struct text lines = {0};
    if (!inspection->kind.name)
        return;
    kind_wrap("", inspection->kind.about.data, &lines);
    printf("\n%s", lines.data);
    if (!inspection->written)
        printf("--write run.yaml writes a configuration to start from.\n");
    text_done(&lines);
}

void inspect_print_text(const struct inspection *inspection)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    printf("%s: Zarr v%d, %zu array%s, metadata %s\n\n", inspection->uri, (int)hierarchy->format,
           hierarchy->node_count, count_plural(hierarchy->node_count),
           hierarchy->consolidated ? "consolidated" : "not consolidated");
    print_arrays(inspection);
    if (inspection->is_stats) {
        printf("\nStatistics that penstock stats wrote: a field reads those of its own name by "
               "stats: %s\n",
               inspection->uri);
        return;
    }
    print_unreadable(hierarchy);
    print_encodings(hierarchy);
    print_kind(inspection);
    if (inspection->dataset) {
        print_dataset(inspection);
        return;
    }
    printf("\nNo run with default fields: %s\n", inspection->dataset_error.message);
    if (inspection->written)
        print_next(inspection);
}
