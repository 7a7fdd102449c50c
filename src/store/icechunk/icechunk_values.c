/* Values of an Icechunk repository, as virtual.h wants them: documents of nodes, and chunks. Any
 * thread. */
#include "store/icechunk/containers.h"
#include "store/icechunk/icechunk_internal.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

_Static_assert((int)MANIFEST_LOCATION_BYTES <= (int)VIRTUAL_LOCATION_BYTES &&
                   (int)MANIFEST_ETAG_BYTES <= (int)VIRTUAL_ETAG_BYTES,
               "a value has room");

static void take_chunk(const struct icechunk_chunk *chunk, struct virtual_value *ret_value)
{
    const struct chunk_ref *ref = &chunk->ref;
    char id[ICECHUNK_ID_TEXT_BYTES];
    struct virtual_value value = {.bytes = ref->kind == CHUNK_INLINE ? ref->bytes : NULL,
                                  .length = ref->length,
                                  .version = icechunk_content(ref),
                                  .pinned = chunk->manifest,
                                  .is_inside = ref->kind == CHUNK_NATIVE,
                                  .offset = ref->offset,
                                  .modified_s = ref->modified_s};
    if (ref->kind == CHUNK_NATIVE) {
        icechunk_id_print(ref->id, id);
        snprintf(value.location, sizeof value.location, "chunks/%s", id);
    } else if (ref->kind == CHUNK_VIRTUAL) {
        strcpy(value.location, ref->location);
        strcpy(value.etag, ref->etag);
    }
    *ret_value = value;
}

static enum status find(const struct virtual_store *store, const char *key, bool may_wait,
                        bool *ret_absent, struct virtual_value *ret_value, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(&store->store);
    struct icechunk_key parts;
    struct icechunk_chunk chunk = {0};
    bool absent = false;
    icechunk_read_key(icechunk, key, &parts);
    if (!parts.node)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has no '%s'", store->uri, key);
    if (parts.is_document) {
        const struct snapshot_node *node = parts.node;
        *ret_value =
            (struct virtual_value){.bytes = node->document,
                                   .length = node->document_bytes,
                                   .version = XXH3_64bits(node->document, node->document_bytes)};
        return STATUS_OK;
    }
    enum status status =
        icechunk_find(icechunk, &parts, may_wait, may_wait ? NULL : &absent, &chunk, err);
    *ret_absent = absent;
    if (status == STATUS_OK && !absent)
        take_chunk(&chunk, ret_value);
    return status;
}

static void let_go(const struct virtual_store *store, struct virtual_value *value)
{
    inflated_unpin(icechunk_of(&store->store)->inflated, value->pinned);
}

/* A location with its container's prefix; "gcs://" is another name of "gs://". */
static enum status locate(const struct virtual_store *store, const char *location, struct text *out,
                          struct error *err)
{
    static const char container[] = "vcc://";
    const struct icechunk *icechunk = icechunk_of(&store->store);
    bool is_other = strncmp(location, "gcs://", 6) == 0;
    if (strncmp(location, container, strlen(container)) != 0) {
        text_append(out, "%s", is_other ? "gs://" : "");
        virtual_append_decoded(location + (is_other ? 6 : 0), out);
        return STATUS_OK;
    }
    const char *name = location + strlen(container);
    size_t bytes = strcspn(name, "/");
    struct container_text prefix;
    if (!icechunk->config ||
        !containers_find(icechunk->config, icechunk->config_bytes, name, bytes, &prefix))
        return error_set(err, STATUS_CORRUPT,
                         "its reference names container '%.*s', which the repository's "
                         "configuration does not have",
                         (int)bytes, name);
    struct text whole = {0};
    bool has_slash = prefix.bytes > 0 && prefix.text[prefix.bytes - 1] == '/';
    text_append_bytes(&whole, prefix.text, prefix.bytes);
    text_append(&whole, "%s%s", has_slash ? "" : "/", name[bytes] == '/' ? name + bytes + 1 : "");
    virtual_append_decoded(whole.data, out);
    text_done(&whole);
    return STATUS_OK;
}

const struct virtual_kind icechunk_kind = {.whole = "the repository",
                                           .refers = "the manifest refers",
                                           .find = find,
                                           .let_go = let_go,
                                           .locate = locate};
