/* `penstock verify`: reads all of a dataset and lists the damage. Main thread.
 *
 * scan/verify.h does the work. This file has the options, the report for people and the report for
 * programs.
 */
#include "scan/verify.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "zarr/chunk/stock.h"
#include "zarr/hierarchy/sparse_group.h"

#include <argp.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_DAMAGED = 2, SHOWN_BAD = 100 };

struct options {
    const char *uri, *json_path;
    const char **paths; /* of arrays; none: all */
    size_t path_count;
    struct verify_options verify;
    struct cli_settings settings;
};

/* The arrays to verify. */
struct subject {
    struct store *store;
    struct zarr_hierarchy *hierarchy;
    const struct zarr_node **nodes; /* those that are read */
    size_t node_count;
    const struct zarr_node **unread; /* those that cannot be */
    size_t unread_count;
    bool invalid; /* some of those are not valid, rather than not supported */
};

static void parse_missing(void *input, const struct argp_state *state, const char *option,
                          char *argument)
{
    struct options *options = input;
    if (strcmp(argument, "fill") != 0 && strcmp(argument, "fail") != 0)
        argp_error(state, "%s '%s': neither fill nor fail", option, argument);
    options->verify.missing_is_bad = strcmp(argument, "fail") == 0;
}

static const struct cli_option option_table[] = {
    {"digest", 0, NULL, "print a hash of each array's content, and of all",
     CLI_FLAG(verify.digest)},
    {"missing", 0, "WHAT",
     "chunks that are not there: fill (with the fill value, default) or fail (damage)",
     CLI_OWN(parse_missing)},
    {"json", 0, "FILE", "write the report to FILE, for programs", CLI_TEXT(json_path)},
    {"threads", 'j', "N", "threads that read and decode, or auto (one per CPU)",
     CLI_THREADS(verify.thread_count, 1024)},
    {"memory", 'm', "SIZE", "most memory of the threads, or auto (half of the free memory)",
     CLI_BYTES(verify.memory_bytes)},
};

static const char help[] =
    "Read and decode all of the Zarr dataset at URI, or the named arrays, and list every damaged "
    "chunk."
    "\v"
    "Sizes, checksums and shards' indices are checked as a run checks them. Codecs without "
    "checksums (raw, blosc, lz4) find only damage that cannot be decoded. Compare --digest with "
    "that of the original for the rest: the digest does not depend on chunks, codecs or the Zarr "
    "version. Strings and other values of variable length are read, and have no digest.\n"
    "\n"
    "Exit code: 0 everything was read; 2 chunks are damaged, or metadata is not valid; 4 Penstock "
    "does not read some of the arrays, or wrong usage; 1 verifying was not possible.\n"
    "\n"
    "Examples:\n"
    "  penstock verify latents.zarr\n"
    "  penstock verify latents.zarr base_frames --missing fail --json report.json\n"
    "  penstock verify latents.zarr --digest\n"
    "  penstock verify s3://public/latents.zarr --set store.anonymous=true\n";

static void take_path(void *input, const struct argp_state *state, const char *option,
                      char *argument)
{
    (void)state, (void)option;
    struct options *options = input;
    options->paths[options->path_count++] = argument;
}

static const struct cli_command command = {
    .help = help,
    .arguments = "URI [ARRAY...]",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, uri)},
    .argument_count = 1,
    .missing = "URI is missing: which dataset?",
    .more = take_path,
    .configured = true,
    .settings_offset = offsetof(struct options, settings),
};

/* Arrays to read
 * ------------------------------------------------------------------------------------------- */

/* Whether no reader could make anything of its metadata. */
static bool is_invalid(const struct zarr_node *node)
{
    return node->status == STATUS_CORRUPT;
}

static bool is_wanted(const struct options *options, const struct zarr_node *node)
{
    bool wanted = options->path_count == 0;
    for (size_t i = 0; i < options->path_count && !wanted; i++)
        wanted = strcmp(options->paths[i] + (options->paths[i][0] == '/'), node->array.path) == 0;
    return wanted;
}

static enum status check_names(const struct options *options, const struct subject *subject,
                               struct error *err)
{
    for (size_t i = 0; i < options->path_count; i++)
        if (!zarr_hierarchy_find(subject->hierarchy, options->paths[i]))
            return error_set(err, STATUS_NOT_FOUND,
                             "'%s' has no array '%s'; 'penstock inspect' lists those it has",
                             options->uri, options->paths[i]);
    if (subject->hierarchy->node_count == 0)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has no arrays", options->uri);
    return STATUS_OK;
}

static enum status choose(const struct options *options, struct subject *subject, struct error *err)
{
    size_t count = subject->hierarchy->node_count;
    enum status status = check_names(options, subject, err);
    if (status != STATUS_OK)
        return status;
    subject->nodes = calloc(count, sizeof(void *));
    subject->unread = calloc(count, sizeof(void *));
    if (!subject->nodes || !subject->unread)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu arrays", count);
    for (size_t i = 0; i < count; i++) {
        const struct zarr_node *node = &subject->hierarchy->nodes[i];
        if (!is_wanted(options, node))
            continue;
        const struct zarr_array *array = &node->array;
        if (node->status == STATUS_OK || array->is_vlen || array->is_scalar || array->is_empty)
            subject->nodes[subject->node_count++] = node;
        else
            subject->unread[subject->unread_count++] = node;
        subject->invalid = subject->invalid || is_invalid(node);
    }
    return STATUS_OK;
}

static enum status open_subject(const struct options *options, struct subject *subject,
                                struct error *err)
{
    struct zarr_wanted wanted = {.paths = options->path_count > 0 ? options->paths : NULL,
                                 .path_count = options->path_count};
    enum status status =
        cli_settings_open_store(&options->settings, options->uri, &subject->store, err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_open_wanted(subject->store, &wanted, &subject->hierarchy, err);
    if (status == STATUS_OK)
        status = choose(options, subject, err);
    return status;
}

static void subject_done(struct subject *subject)
{
    free(subject->nodes);
    free(subject->unread);
    zarr_hierarchy_free(subject->hierarchy);
    store_free(subject->store);
}

/* The reports
 * ------------------------------------------------------------------------------------------- */

static struct shown_text shown_path(const struct zarr_node *node)
{
    return text_shown(node->array.path[0] ? node->array.path : "/");
}

static const char *why_unread(const struct zarr_node *node)
{
    return is_invalid(node) ? "invalid" : "not supported";
}

static void print_array(const struct verify_array *array)
{
    printf("%-24s %12s chunks", shown_path(array->node).text,
           count_format(array->chunk_count).text);
    if (array->missing_count > 0)
        printf(", %s missing", count_format(array->missing_count).text);
    if (array->bad_count > 0)
        printf(", %s BAD", count_format(array->bad_count).text);
    if (array->digest.text[0])
        printf("  %s", array->digest.text);
    printf("\n");
}

/* An array without any chunk may have them under other names. One of a single value, or of offsets
 * to nothing, has often none: writers leave out what is all fill value. */
static void print_doubt(const struct subject *subject, const struct verify_array *array)
{
    struct text text = {0};
    if (array->missing_count < array->chunk_count || array->chunk_count == 0 ||
        array->node->array.is_scalar ||
        zarr_sparse_group_is_empty(subject->hierarchy, &array->node->array))
        return;
    zarr_describe_no_stock(subject->store, &array->node->array, &text);
    printf("warning: array '%s': %s\n", shown_path(array->node).text, text.data);
    text_done(&text);
}

static void print_text(const struct subject *subject, const struct verify_result *result)
{
    double seconds = (double)result->elapsed_ns / 1e9;
    for (size_t i = 0; i < result->array_count; i++)
        print_array(&result->arrays[i]);
    for (size_t i = 0; i < result->array_count; i++)
        print_doubt(subject, &result->arrays[i]);
    for (size_t i = 0; i < subject->unread_count; i++)
        printf("%-24s %s: %s\n", shown_path(subject->unread[i]).text,
               why_unread(subject->unread[i]), subject->unread[i]->reason);
    for (size_t i = 0; i < result->bad_count && i < SHOWN_BAD; i++)
        printf("bad: '%s': %s\n", text_shown(result->bad[i].key).text, result->bad[i].cause);
    if (result->bad_chunk_count > SHOWN_BAD)
        printf("and %s more; --json lists up to %s\n",
               count_format(result->bad_chunk_count - SHOWN_BAD).text,
               count_format(VERIFY_MAX_BAD).text);
    if (result->digest.text[0] && subject->unread_count == 0)
        printf("digest %s\n", result->digest.text);
    if (result->array_count == 0)
        return; /* no chunks were looked at */
    printf("%s of %s chunk%s bad, %s missing; %s stored, %s decoded in %.1f s%s\n",
           count_format(result->bad_chunk_count).text, count_format(result->chunk_count).text,
           count_plural(result->chunk_count), count_format(result->missing_count).text,
           size_format(result->stored_bytes).text, size_format(result->decoded_bytes).text, seconds,
           rate_format(result->decoded_bytes, seconds).text);
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key,
                           text[0] ? json_object_new_string(text_shown(text).text) : NULL);
}

static void add_count(struct json_object *object, const char *key, uint64_t count)
{
    json_object_object_add(object, key, json_object_new_uint64(count));
}

static void add_path(struct json_object *object, const char *key, const char *path)
{
    json_object_object_add(object, key, json_object_new_string(text_shown(path).text));
}

static struct json_object *array_json(const struct verify_array *array, bool digest)
{
    struct json_object *object = json_object_new_object();
    add_path(object, "path", array->node->array.path);
    add_count(object, "chunks", array->chunk_count);
    add_count(object, "missing", array->missing_count);
    add_count(object, "bad", array->bad_count);
    if (digest)
        add_text(object, "digest", array->digest.text);
    return object;
}

static struct json_object *unread_json(const struct zarr_node *node)
{
    struct json_object *object = json_object_new_object();
    add_path(object, "path", node->array.path);
    add_text(object, "why", why_unread(node));
    add_text(object, "reason", node->reason);
    return object;
}

static struct json_object *bad_json(const struct verify_result *result,
                                    const struct verify_bad *bad)
{
    struct json_object *object = json_object_new_object();
    add_path(object, "array", result->arrays[bad->array].node->array.path);
    add_text(object, "chunk", bad->chunk);
    add_text(object, "key", bad->key);
    add_text(object, "cause", bad->cause);
    return object;
}

static struct json_object *report_json(const struct options *options, const struct subject *subject,
                                       const struct verify_result *result, const char *verdict)
{
    struct json_object *root = json_object_new_object();
    struct json_object *arrays = json_object_new_array(), *unread = json_object_new_array();
    struct json_object *bad = json_object_new_array();
    for (size_t i = 0; i < result->array_count; i++)
        json_object_array_add(arrays, array_json(&result->arrays[i], options->verify.digest));
    for (size_t i = 0; i < subject->unread_count; i++)
        json_object_array_add(unread, unread_json(subject->unread[i]));
    for (size_t i = 0; i < result->bad_count; i++)
        json_object_array_add(bad, bad_json(result, &result->bad[i]));
    add_text(root, "uri", options->uri);
    add_text(root, "verdict", verdict);
    add_count(root, "chunks", result->chunk_count);
    add_count(root, "missing", result->missing_count);
    add_count(root, "bad", result->bad_chunk_count);
    add_count(root, "stored_bytes", result->stored_bytes);
    add_count(root, "decoded_bytes", result->decoded_bytes);
    add_count(root, "threads", result->thread_count);
    json_object_object_add(root, "seconds",
                           json_object_new_double((double)result->elapsed_ns / 1e9));
    if (options->verify.digest)
        add_text(root, "digest", subject->unread_count == 0 ? result->digest.text : "");
    json_object_object_add(root, "arrays", arrays);
    json_object_object_add(root, "not_read", unread);
    json_object_object_add(root, "bad_chunks", bad);
    return root;
}

static enum status write_json(const struct options *options, const struct subject *subject,
                              const struct verify_result *result, const char *verdict,
                              struct error *err)
{
    struct json_object *root = report_json(options, subject, result, verdict);
    struct text text = {0};
    text_append(&text, "%s\n", json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    enum status status = file_replace(options->json_path, text.data, text.length, err);
    text_done(&text);
    json_object_put(root);
    return status;
}

static int tell(const char *program, const struct options *options, const struct subject *subject,
                const struct verify_result *result)
{
    struct error err;
    int code = EXIT_SUCCESS;
    const char *verdict = "good";
    if (result->bad_chunk_count > 0 || subject->invalid) {
        code = EXIT_DAMAGED;
        verdict = result->bad_chunk_count > 0 ? "damaged" : "metadata is invalid";
    } else if (subject->unread_count > 0) {
        code = status_exit_code(STATUS_UNSUPPORTED);
        verdict = "not all could be read";
    }
    print_text(subject, result);
    printf("%s: %s\n", options->uri, verdict);
    if (options->json_path && write_json(options, subject, result, verdict, &err) != STATUS_OK)
        return cli_fail(program, &err);
    return code;
}

static enum status verify(const struct options *options, const struct subject *subject,
                          struct verify_result *ret_result, struct error *err)
{
    uint32_t threads;
    uint64_t memory;
    if (subject->node_count == 0)
        return STATUS_OK;
    enum status status = verify_settle(subject->store, subject->nodes, subject->node_count,
                                       &options->verify, &threads, &memory, err);
    if (status != STATUS_OK)
        return status;
    printf("%s: Zarr v%d, %zu array%s; %u thread%s, at most %s\n", options->uri,
           (int)subject->hierarchy->format, subject->node_count, count_plural(subject->node_count),
           threads, count_plural(threads), size_format(memory).text);
    return verify_run(subject->store, subject->nodes, subject->node_count, &options->verify,
                      ret_result, err);
}

int cli_verify(int argc, char **argv)
{
    struct options options = {.paths = calloc((size_t)argc, sizeof(char *))};
    struct subject subject = {0};
    struct verify_result result = {0};
    struct error err;
    error_clear(&err);
    if (!options.paths) {
        error_set(&err, STATUS_NO_MEMORY, "no memory for %d arguments", argc);
        return cli_fail(argv[0], &err);
    }
    cli_parse(&command, argc, argv, &options);
    if (options.verify.thread_count == 0)
        options.verify.thread_count = cpu_count();
    if (options.verify.memory_bytes == 0)
        options.verify.memory_bytes = memory_available_bytes() / 2;

    enum status status = STATUS_OK;
    if (options.json_path)
        status = file_check_writable(options.json_path, &err);
    if (status == STATUS_OK)
        status = open_subject(&options, &subject, &err);
    if (status == STATUS_OK)
        status = verify(&options, &subject, &result, &err);
    int code =
        status != STATUS_OK ? cli_fail(argv[0], &err) : tell(argv[0], &options, &subject, &result);
    verify_result_done(&result);
    subject_done(&subject);
    free(options.paths);
    cli_settings_done(&options.settings);
    return code;
}
