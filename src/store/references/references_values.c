/* Values of references, as virtual.h wants them. Pure; any thread. */
#include "store/references/references_internal.h"

#include <string.h>

_Static_assert((int)REFERENCE_LOCATION_BYTES <= (int)VIRTUAL_LOCATION_BYTES, "a value has room");

static enum status find(const struct virtual_store *store, const char *key, bool may_wait,
                        bool *ret_absent, struct virtual_value *ret_value, struct error *err)
{
    const struct reference_table *table = &references_of(&store->store)->table;
    const struct reference *reference = reference_table_find(table, key);
    (void)may_wait;
    *ret_absent = false;
    if (!reference)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has no '%s'", store->uri, key);
    struct virtual_value value = {.length = reference->length,
                                  .version = reference_content(table, reference)};
    if (reference->location == REFERENCE_INLINE)
        value.bytes = (const unsigned char *)table->data.bytes + reference->offset;
    else {
        value.is_whole = reference->length == REFERENCE_WHOLE;
        value.offset = reference->offset;
        strcpy(value.location, reference_text(table, reference->location));
    }
    *ret_value = value;
    return STATUS_OK;
}

/* Schemes that fsspec has other names for; Azure's without an account. */
static const struct {
    const char *theirs, *ours;
} schemes[] = {{"gcs://", "gs://"},
               {"s3a://", "s3://"},
               {"local://", "file://"},
               {"abfs://", "az://"},
               {"abfss://", "az://"}};

/* "CONTAINER@ACCOUNT/PATH" */
static bool has_account(const char *rest)
{
    return memchr(rest, '@', strcspn(rest, "/"));
}

static void append_scheme(const char *location, struct text *out)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t bytes = strlen(schemes[i].theirs);
        if (strncmp(location, schemes[i].theirs, bytes) == 0 && !has_account(location + bytes)) {
            text_append(out, "%s%s", schemes[i].ours, location + bytes);
            return;
        }
    }
    text_append(out, "%s", location);
}

/* fsspec takes locations as they are, but for those of HTTP; paths have no scheme. Queries are no
 * part of a key. */
static enum status locate(const struct virtual_store *store, const char *location, struct text *out,
                          struct error *err)
{
    (void)store;
    if (strncmp(location, "http", 4) == 0 && strpbrk(location, "?#")) {
        bool is_secret = text_has_secret(location);
        return error_set(err, STATUS_UNSUPPORTED,
                         "its url has a query, which is not read%s%.300s: write the references "
                         "anew with plain urls",
                         is_secret ? "" : ": ", is_secret ? "" : location);
    }
    if (strncmp(location, "http", 4) == 0) {
        virtual_append_decoded(location, out);
        return STATUS_OK;
    }
    if (!strstr(location, "://") && location[0] != '/')
        return error_set(err, STATUS_UNSUPPORTED,
                         "its url '%.300s' is a relative path: write the references anew with "
                         "absolute paths",
                         location);
    if (location[0] == '/')
        text_append(out, "file://");
    append_scheme(location, out);
    return STATUS_OK;
}

const struct virtual_kind references_kind = {
    .whole = "the references", .refers = "the references refer", .find = find, .locate = locate};
