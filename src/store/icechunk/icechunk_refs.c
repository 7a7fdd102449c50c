/* Which snapshot a reference of an Icechunk repository names. Format 2 has them all in the file
 * `repo`, format 1 has a file for each. Called once, at opening. */
#include "store/icechunk/envelope.h"
#include "store/icechunk/icechunk_internal.h"
#include "store/icechunk/icechunk_uri.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

/* Fields of the tables of `repo`. */
enum { REPO_TAGS = 1, REPO_BRANCHES, REPO_SNAPSHOTS = 4, REPO_STATUS, REPO_CONFIG = 9 };
enum { REF_NAME, REF_SNAPSHOT };
enum { SNAPSHOT_ID, STATUS_AVAILABILITY = 0, OFFLINE = 2 };
enum { REF_TEXT_BYTES = 1 << 16, MOST_SHOWN = 8 };

static const char *const kind_names[] = {"branch", "tag", "snapshot"};

/* The message has the names that there are. Takes `known`. */
static enum status no_reference(const struct icechunk *icechunk, const struct icechunk_uri *uri,
                                struct text *known, struct error *err)
{
    enum status status =
        error_set(err, STATUS_NOT_FOUND, "the Icechunk repository '%s' has no %s '%s'%s%s",
                  icechunk->virtual.base->uri, kind_names[uri->kind], uri->name,
                  known->data ? "; it has " : "", known->data ? known->data : "");
    text_done(known);
    return status;
}

static void note_name(struct text *known, const char *name, size_t bytes)
{
    text_append(known, "%s'%.*s'", known->data ? ", " : "", (int)bytes, name);
}

/* Format 2
 * ---------------------------------------------------------------------------------------------- */

static enum status find_in_list(struct icechunk *icechunk, const struct icechunk_uri *uri,
                                struct flat *flat, uint32_t root, struct error *err)
{
    struct text known = {0};
    uint32_t count, snapshot_count;
    uint32_t refs =
        flat_vector(flat, root, uri->kind == REFERENCE_TAG ? REPO_TAGS : REPO_BRANCHES, 4, &count);
    uint32_t snapshots = flat_vector(flat, root, REPO_SNAPSHOTS, 4, &snapshot_count);
    for (uint32_t i = 0; i < count && !flat->bad; i++) {
        uint32_t bytes = 0, table = flat_item(flat, refs, i);
        const char *name = (const char *)flat_bytes(flat, table, REF_NAME, &bytes);
        uint64_t of = flat_number(flat, table, REF_SNAPSHOT, 4, 0);
        if (!name || bytes != strlen(uri->name) || memcmp(name, uri->name, bytes) != 0) {
            if (name && i < MOST_SHOWN)
                note_name(&known, name, bytes);
            continue;
        }
        const unsigned char *id = of < snapshot_count
                                      ? flat_struct(flat, flat_item(flat, snapshots, (uint32_t)of),
                                                    SNAPSHOT_ID, ICECHUNK_ID_BYTES)
                                      : NULL;
        text_done(&known);
        if (!id)
            return error_set(err, STATUS_CORRUPT, "'%s/repo': %s '%s' names no snapshot",
                             icechunk->virtual.base->uri, kind_names[uri->kind], uri->name);
        icechunk_id_print(id, icechunk->id);
        return STATUS_OK;
    }
    if (!flat->bad)
        return no_reference(icechunk, uri, &known, err);
    text_done(&known);
    return error_set(err, STATUS_CORRUPT, "'%s/repo': what is in it leads out of its bytes",
                     icechunk->virtual.base->uri);
}

static enum status keep_config(struct icechunk *icechunk, struct flat *flat, uint32_t root,
                               struct error *err)
{
    uint32_t size;
    const unsigned char *config = flat_bytes(flat, root, REPO_CONFIG, &size);
    if (!config || size == 0)
        return STATUS_OK;
    icechunk->config = malloc(size);
    if (!icechunk->config)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a repository's configuration");
    memcpy(icechunk->config, config, size);
    icechunk->config_bytes = size;
    return STATUS_OK;
}

static enum status read_repo(struct icechunk *icechunk, const struct icechunk_uri *uri,
                             const unsigned char *bytes, size_t size, struct error *err)
{
    struct flat flat = {bytes, size, false};
    uint32_t root = flat_root(&flat, "Ichk");
    uint32_t availability = (uint32_t)flat_number(&flat, flat_table(&flat, root, REPO_STATUS),
                                                  STATUS_AVAILABILITY, 1, 0);
    if (availability == OFFLINE)
        return error_set(err, STATUS_IO,
                         "the Icechunk repository '%s' was set offline by its owner",
                         icechunk->virtual.base->uri);
    enum status status = keep_config(icechunk, &flat, root, err);
    return status != STATUS_OK || uri->kind == REFERENCE_SNAPSHOT
               ? status
               : find_in_list(icechunk, uri, &flat, root, err);
}

/* Format 1
 * ---------------------------------------------------------------------------------------------- */

static enum status note_file(const char *name, bool is_prefix, void *argument, struct error *err)
{
    struct text *known = argument;
    (void)is_prefix, (void)err;
    const char *dot = strchr(name, '.');
    if (dot)
        note_name(known, dot + 1, strlen(dot + 1));
    return STATUS_OK;
}

static enum status no_file(const struct icechunk *icechunk, const struct icechunk_uri *uri,
                           struct error *err)
{
    const struct store *base = icechunk->virtual.base;
    struct text known = {0};
    (void)!base->operations->list(base, "refs", note_file, &known, NULL);
    if (!known.data && strcmp(uri->name, "main") == 0)
        return error_set(err, STATUS_NOT_FOUND,
                         "'%s' is no Icechunk repository: it has neither 'repo' nor "
                         "'refs/branch.main/ref.json'",
                         base->uri);
    return no_reference(icechunk, uri, &known, err);
}

static enum status read_ref(struct icechunk *icechunk, const char *key, const char *text,
                            struct error *err)
{
    unsigned char id[ICECHUNK_ID_BYTES];
    struct json_object *document = json_tokener_parse(text), *snapshot = NULL;
    const char *name = document && json_object_object_get_ex(document, "snapshot", &snapshot)
                           ? json_object_get_string(snapshot)
                           : NULL;
    bool good = name && icechunk_id_parse(name, id);
    if (good)
        icechunk_id_print(id, icechunk->id);
    json_object_put(document);
    return good ? STATUS_OK
                : error_set(err, STATUS_CORRUPT, "'%s/%s' names no snapshot: is it damaged?",
                            icechunk->virtual.base->uri, key);
}

static enum status find_file(struct icechunk *icechunk, const struct icechunk_uri *uri,
                             struct error *err)
{
    const struct store *base = icechunk->virtual.base;
    struct text key = {0}, deleted = {0};
    char *text = NULL;
    size_t size;
    struct store_info info;
    text_append(&key, "refs/%s.%s/ref.json", kind_names[uri->kind], uri->name);
    text_append(&deleted, "%s.deleted", key.data);
    enum status status = store_key_is_well_formed(key.data) ? STATUS_OK : STATUS_NOT_FOUND;
    if (status == STATUS_OK && uri->kind == REFERENCE_TAG &&
        base->operations->stat(base, deleted.data, &info, NULL) == STATUS_OK)
        status = STATUS_NOT_FOUND;
    if (status == STATUS_OK)
        status = base->operations->get_text(base, key.data, REF_TEXT_BYTES, &text, &size, err);
    if (status == STATUS_OK)
        status = read_ref(icechunk, key.data, text, err);
    else if (status == STATUS_NOT_FOUND)
        status = no_file(icechunk, uri, err);
    free(text);
    text_done(&key);
    text_done(&deleted);
    return status;
}

enum status icechunk_resolve(struct icechunk *icechunk, const struct icechunk_uri *uri,
                             struct error *err)
{
    unsigned char id[ICECHUNK_ID_BYTES], *bytes = NULL;
    size_t size = 0;
    if (uri->kind == REFERENCE_SNAPSHOT && !icechunk_id_parse(uri->name, id))
        return error_set(err, STATUS_INVALID,
                         "'%s' is no snapshot's id: 20 characters such as 1CECHNKREP0F1RSTCMT0",
                         uri->name);
    if (uri->kind == REFERENCE_SNAPSHOT)
        icechunk_id_print(id, icechunk->id);
    enum status status =
        icechunk_read_file(icechunk->virtual.base, "repo", ENVELOPE_REPOSITORY, &bytes, &size, err);
    if (status == STATUS_OK)
        status = read_repo(icechunk, uri, bytes, size, err);
    else if (status == STATUS_NOT_FOUND)
        status = uri->kind == REFERENCE_SNAPSHOT ? STATUS_OK : find_file(icechunk, uri, err);
    free(bytes);
    return status;
}
