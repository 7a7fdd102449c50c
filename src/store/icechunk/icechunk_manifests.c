/* Files of an Icechunk repository, and its manifests in memory. Any thread; all wait. */
#include "store/icechunk/icechunk_internal.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "store/icechunk/envelope.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is told of a file that was not read: what the repository names is not merely missing. */
static enum status tell(const struct store *base, const char *key, enum status status,
                        struct error *err)
{
    if (status == STATUS_NOT_FOUND)
        return error_set(err, STATUS_IO,
                         "'%s/%s' is not there, and the Icechunk repository refers to it: was it "
                         "copied in part, or garbage collected?",
                         base->uri, key);
    return error_prefix(err, status, "'%s/%s': ", base->uri, key);
}

enum status icechunk_read_file(const struct store *base, const char *key, int kind,
                               unsigned char **ret_bytes, size_t *ret_size, struct error *err)
{
    char *stored = NULL;
    unsigned char *bytes = NULL;
    size_t size = 0;
    uint64_t decoded = 0;
    enum status status =
        base->operations->get_text(base, key, ENVELOPE_MOST_BYTES, &stored, &size, err);
    if (status == STATUS_NOT_FOUND)
        return status;
    if (status == STATUS_OK)
        status = envelope_measure(stored, size, (enum envelope_kind)kind, ENVELOPE_MOST_BYTES,
                                  &decoded, err);
    if (status == STATUS_OK && !(bytes = malloc(decoded ? decoded : 1)))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for its %" PRIu64 " bytes", decoded);
    if (status == STATUS_OK)
        status = envelope_decode(stored, size, bytes, decoded, err);
    free(stored);
    if (status != STATUS_OK) {
        free(bytes);
        return tell(base, key, status, err);
    }
    *ret_bytes = bytes;
    *ret_size = decoded;
    return STATUS_OK;
}

/* Manifests
 * ---------------------------------------------------------------------------------------------- */

/* Waits until this thread may read the manifest: it is not being read, and few others are. */
static void begin_load(struct icechunk *icechunk, struct snapshot_manifest *manifest)
{
    pthread_mutex_lock(&icechunk->mutex);
    while (manifest->is_loading || icechunk->loads == ICECHUNK_LOADS)
        pthread_cond_wait(&icechunk->loaded, &icechunk->mutex);
    manifest->is_loading = true;
    icechunk->loads++;
    pthread_mutex_unlock(&icechunk->mutex);
}

static void end_load(struct icechunk *icechunk, struct snapshot_manifest *manifest)
{
    pthread_mutex_lock(&icechunk->mutex);
    manifest->is_loading = false;
    icechunk->loads--;
    pthread_cond_broadcast(&icechunk->loaded);
    pthread_mutex_unlock(&icechunk->mutex);
}

struct making {
    const char *stored;
    size_t size;
    uint64_t decoded_bytes;
};

static enum status make_manifest(void *context, void *memory, struct error *err)
{
    const struct making *making = context;
    enum status status =
        envelope_decode(making->stored, making->size, memory, making->decoded_bytes, err);
    return status == STATUS_OK ? manifest_check(memory, making->decoded_bytes, err) : status;
}

/* The file as it is stored; as many bytes as the snapshot says. */
static enum status read_stored(const struct icechunk *icechunk, const char *key, uint64_t bytes,
                               char **ret_stored, struct error *err)
{
    size_t size = 0;
    if (bytes > ENVELOPE_MOST_MANIFEST_BYTES)
        return error_set(err, STATUS_CORRUPT, "the snapshot says that it has %" PRIu64 " bytes",
                         bytes);
    char *stored = malloc(bytes ? bytes : 1);
    if (!stored)
        return error_set(err, STATUS_NO_MEMORY, "no memory for its %" PRIu64 " bytes", bytes);
    enum status status = icechunk->virtual.base->operations->get(icechunk->virtual.base, key, NULL,
                                                                 stored, bytes, &size, err);
    if (status == STATUS_OK && size != bytes)
        status =
            error_set(err, STATUS_CORRUPT,
                      "it has %zu bytes instead of %" PRIu64 ": it was cut short", size, bytes);
    if (status != STATUS_OK) {
        free(stored);
        return status;
    }
    *ret_stored = stored;
    return STATUS_OK;
}

/* Reads the manifest and pins it. */
static enum status load(const struct icechunk *icechunk, const char *key,
                        struct snapshot_manifest *manifest, const unsigned char **ret_bytes,
                        struct error *err)
{
    char *stored = NULL;
    uint64_t decoded = manifest->decoded_bytes;
    enum status status = read_stored(icechunk, key, manifest->stored_bytes, &stored, err);
    if (status == STATUS_OK && decoded == 0)
        status = envelope_measure(stored, manifest->stored_bytes, ENVELOPE_MANIFEST,
                                  ENVELOPE_MOST_MANIFEST_BYTES, &decoded, err);
    if (status == STATUS_OK) {
        struct making making = {stored, manifest->stored_bytes, decoded};
        manifest->decoded_bytes = decoded;
        status = inflated_pin(icechunk->inflated, manifest, decoded, 0, make_manifest, &making,
                              ret_bytes, err);
    }
    free(stored);
    return status == STATUS_OK ? STATUS_OK : tell(icechunk->virtual.base, key, status, err);
}

enum status icechunk_pin(const struct icechunk *icechunk, struct snapshot_manifest *manifest,
                         const unsigned char **ret_bytes, struct error *err)
{
    char key[16 + ICECHUNK_ID_TEXT_BYTES], id[ICECHUNK_ID_TEXT_BYTES];
    enum status status = STATUS_OK;
    *ret_bytes = inflated_find(icechunk->inflated, manifest);
    if (*ret_bytes)
        return STATUS_OK;
    begin_load((struct icechunk *)icechunk, manifest);
    *ret_bytes = inflated_find(icechunk->inflated, manifest);
    if (!*ret_bytes) {
        icechunk_id_print(manifest->id, id);
        snprintf(key, sizeof key, "manifests/%s", id);
        status = load(icechunk, key, manifest, ret_bytes, err);
    }
    end_load((struct icechunk *)icechunk, manifest);
    return status;
}

/* Of an array's manifests, those that are read to find out their size: of a repository that splits
 * them there may be thousands. */
enum { MOST_MEASURED = 4 };

struct measured {
    struct snapshot_manifest *manifests[MOST_MEASURED]; /* of most stored bytes, in order */
    size_t count;
};

/* Keeps a manifest if it is one of the largest. The order of equal ones is that of the snapshot. */
static void note_large(struct measured *measured, struct snapshot_manifest *manifest)
{
    size_t i = measured->count;
    while (i > 0 && measured->manifests[i - 1]->stored_bytes < manifest->stored_bytes)
        i--;
    if (i == MOST_MEASURED)
        return;
    measured->count += measured->count < MOST_MEASURED;
    for (size_t k = measured->count - 1; k > i; k--)
        measured->manifests[k] = measured->manifests[k - 1];
    measured->manifests[i] = manifest;
}

/* The sizes of the largest ones, and how many times larger than stored they are at most. */
static enum status measure(const struct icechunk *icechunk, const struct measured *measured,
                           struct store_catalogue *catalogue, uint64_t *ret_ratio,
                           struct error *err)
{
    *ret_ratio = 1;
    for (size_t i = 0; i < measured->count; i++) {
        struct snapshot_manifest *manifest = measured->manifests[i];
        if (manifest->decoded_bytes == 0) {
            const unsigned char *bytes;
            enum status status = icechunk_pin(icechunk, manifest, &bytes, err);
            if (status != STATUS_OK)
                return status;
            inflated_unpin(icechunk->inflated, manifest);
        }
        uint64_t decoded = size_round_up(manifest->decoded_bytes, MEMORY_PAGE_BYTES);
        catalogue->most_bytes = max_u64(catalogue->most_bytes, decoded);
        catalogue->all_bytes = add_sat(catalogue->all_bytes, decoded);
        catalogue->stored_bytes = max_u64(catalogue->stored_bytes, manifest->stored_bytes);
        *ret_ratio =
            max_u64(*ret_ratio, size_divide_up(decoded, max_u64(manifest->stored_bytes, 1)));
    }
    return STATUS_OK;
}

/* Adds an array's manifests. What the snapshot says of them, and of the largest what is in them,
 * counts alone, so that all processes come to the same. */
static enum status add_manifests(const struct icechunk *icechunk, const struct snapshot_node *node,
                                 struct store_catalogue *catalogue, struct error *err)
{
    struct snapshot_walk walk = snapshot_walk(&icechunk->snapshot, node);
    struct measured measured = {.count = 0};
    uint64_t stored = 0, ratio;
    for (;;) {
        struct snapshot_manifest *manifest;
        enum status status = snapshot_next(&icechunk->snapshot, &walk, NULL, 0, 0, &manifest, err);
        if (status != STATUS_OK)
            return status;
        if (!manifest)
            break;
        note_large(&measured, manifest);
        stored = add_sat(stored, manifest->stored_bytes);
    }
    enum status status = measure(icechunk, &measured, catalogue, &ratio, err);
    for (size_t i = 0; i < measured.count; i++)
        stored -= min_u64(stored, measured.manifests[i]->stored_bytes);
    catalogue->all_bytes = add_sat(catalogue->all_bytes, mul_sat(stored, ratio));
    return status;
}

enum status icechunk_catalogue_below(const struct store *store, const char *prefix,
                                     struct store_catalogue *ret_catalogue, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    const struct snapshot *snapshot = &icechunk->snapshot;
    struct store_catalogue catalogue = {0};
    size_t bytes = strlen(prefix);
    enum status status = STATUS_OK;
    for (size_t i = snapshot_find_from(snapshot, prefix, bytes);
         status == STATUS_OK && i < snapshot->node_count; i++) {
        const struct snapshot_node *node = &snapshot->nodes[i];
        if (bytes > 0 && (node->path_bytes < bytes || memcmp(node->path, prefix, bytes) != 0 ||
                          (node->path_bytes > bytes && node->path[bytes] != '/')))
            break;
        if (node->is_array)
            status = add_manifests(icechunk, node, &catalogue, err);
    }
    if (catalogue.all_bytes > 0)
        catalogue.kept_bytes = ICECHUNK_KEPT_BYTES;
    catalogue.stored_bytes = mul_sat(catalogue.stored_bytes, ICECHUNK_LOADS);
    *ret_catalogue = catalogue;
    return status;
}
