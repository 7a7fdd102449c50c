/* Listings of references, which have all keys in memory. Any thread; sizes of whole objects wait.
 */
#include "store/references/references_internal.h"

#include <stdio.h>
#include <string.h>

/* The folders and the references directly below a path, both in order of name. */
struct cursor {
    const struct reference_table *table;
    const char *path;
    size_t path_bytes;
    size_t folder;                  /* the next one at the path or below */
    char name[REFERENCE_KEY_BYTES]; /* its next part; "": there is no other folder */
    size_t reference, end;          /* those of the path's own folder */
};

/* Goes on to the next folder whose name differs. */
static void next_folder(struct cursor *cursor)
{
    const char *rest;
    size_t bytes = strlen(cursor->name);
    for (; reference_table_is_below(cursor->table, cursor->folder, cursor->path, cursor->path_bytes,
                                    &rest);
         cursor->folder++) {
        size_t length = strcspn(rest, "/");
        if (length == 0 || (length == bytes && strncmp(rest, cursor->name, bytes) == 0))
            continue;
        memcpy(cursor->name, rest, length);
        cursor->name[length] = '\0';
        return;
    }
    cursor->name[0] = '\0';
}

static struct cursor begin(const struct reference_table *table, const char *path)
{
    struct cursor cursor = {.table = table, .path = path, .path_bytes = strlen(path)};
    const char *rest;
    cursor.folder = reference_table_folder(table, path, cursor.path_bytes);
    if (reference_table_is_below(table, cursor.folder, path, cursor.path_bytes, &rest) && !*rest) {
        cursor.reference = table->folders[cursor.folder].first;
        cursor.end = table->folders[cursor.folder + 1].first;
    }
    next_folder(&cursor);
    return cursor;
}

static enum status nothing_below(const char *prefix, struct error *err)
{
    return error_set(err, STATUS_NOT_FOUND, "no reference is below '%s'", prefix);
}

static enum status list_with(const struct store *store, const char *prefix,
                             const struct store_visitor *visitor, struct error *err)
{
    const struct reference_table *table = &references_of(store)->table;
    struct cursor cursor = begin(table, prefix);
    enum status status = STATUS_OK;
    if (!cursor.name[0] && cursor.reference == cursor.end)
        return nothing_below(prefix, err);
    while (status == STATUS_OK && (cursor.name[0] || cursor.reference < cursor.end)) {
        const struct reference *reference = &table->references[cursor.reference];
        const char *name =
            cursor.reference < cursor.end ? reference_text(table, reference->name) : NULL;
        if (!name || (cursor.name[0] && strcmp(cursor.name, name) < 0)) {
            status = store_tell(visitor, cursor.name, true, 0, err);
            next_folder(&cursor);
        } else {
            status = store_tell(visitor, name, false, reference_content(table, reference), err);
            cursor.reference++;
        }
    }
    return status;
}

enum status references_list(const struct store *store, const char *prefix, store_visit *visit,
                            void *argument, struct error *err)
{
    return list_with(store, prefix, &(struct store_visitor){visit, NULL, argument}, err);
}

enum status references_names(const struct store *store, const char *prefix, store_visit_name *visit,
                             void *argument, struct error *err)
{
    return list_with(store, prefix, &(struct store_visitor){NULL, visit, argument}, err);
}

/* Adds a value; the size of a whole object is looked up, unless that fails, or enough were. */
static enum status add_value(const struct store *store, const struct reference *reference,
                             uint64_t *looks, struct store_usage *usage, struct error *err)
{
    const struct reference_table *table = &references_of(store)->table;
    const char *folder = reference_text(table, reference->folder);
    struct store_info info = {.bytes = reference->length};
    if (reference->length == REFERENCE_WHOLE) {
        char key[REFERENCE_KEY_BYTES];
        snprintf(key, sizeof key, "%s%s%s", folder, *folder ? "/" : "",
                 reference_text(table, reference->name));
        if (*looks == 0 || virtual_stat(store, key, &info, NULL) != STATUS_OK) {
            usage->more = true;
            return STATUS_OK;
        }
        --*looks;
    }
    usage->count++;
    return __builtin_add_overflow(usage->bytes, info.bytes, &usage->bytes)
               ? error_set(err, STATUS_CORRUPT, "the sizes exceed 2^64 bytes")
               : STATUS_OK;
}

enum status references_usage(const struct store *store, const char *prefix, uint64_t most,
                             struct store_usage *ret_usage, struct error *err)
{
    const struct reference_table *table = &references_of(store)->table;
    struct store_usage usage = {0};
    const char *rest;
    size_t bytes = strlen(prefix), folder = reference_table_folder(table, prefix, bytes);
    if (!reference_table_is_below(table, folder, prefix, bytes, &rest))
        return nothing_below(prefix, err);
    for (; reference_table_is_below(table, folder, prefix, bytes, &rest); folder++)
        for (uint32_t i = table->folders[folder].first; i < table->folders[folder + 1].first; i++) {
            enum status status = add_value(store, &table->references[i], &most, &usage, err);
            if (status != STATUS_OK)
                return status;
        }
    *ret_usage = usage;
    return STATUS_OK;
}
