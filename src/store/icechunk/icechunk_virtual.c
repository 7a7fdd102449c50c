/* Where the objects of chunks lie: in the repository, or below prefixes outside it that the
 * configuration allows (store.virtual). A repository is foreign data, and may name any uri. */
#include "store/http/url.h"
#include "store/icechunk/containers.h"
#include "store/icechunk/icechunk_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A location as bytes, up to a '?' or '#': percent-decoded. A NUL ends it, and so matches no more.
 */
static void append_decoded(const char *text, struct text *out)
{
    for (; *text && *text != '?' && *text != '#'; text++) {
        char c = *text;
        bool escape = url_is_escape(text, &c);
        text_append_bytes(out, &c, 1);
        text += escape ? 2 : 0;
    }
    text_append_bytes(out, "", 0);
}

/* As locations are compared: paths are file:// uris; and what stores decode in their uris is
 * decoded.
 */
static void append_prefix(const char *uri, struct text *out)
{
    bool is_path = !strstr(uri, "://");
    if (strncmp(uri, "file:", 5) == 0 || strncmp(uri, "http", 4) == 0)
        append_decoded(uri, out);
    else
        text_append(out, "%s%s", is_path ? "file://" : "", uri);
    if (out->data[out->length - 1] != '/')
        text_append(out, "/");
}

static enum status open_prefix(struct icechunk *icechunk, const char *uri,
                               const struct store_options *options, store_opener *open,
                               struct error *err)
{
    struct virtual_prefix *prefix = &icechunk->prefixes[icechunk->prefix_count];
    struct text text = {0};
    if (icechunk->prefix_count == ICECHUNK_MOST_PREFIXES)
        return error_set(err, STATUS_INVALID, "store.virtual: more than %d prefixes",
                         ICECHUNK_MOST_PREFIXES);
    if (!strstr(uri, "://") && uri[0] != '/')
        return error_set(err, STATUS_INVALID,
                         "store.virtual: '%s': write an absolute path, or a uri such as "
                         "s3://BUCKET/PREFIX/",
                         uri);
    enum status status = open(uri, options, &prefix->store, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "store.virtual: ");
    icechunk->prefix_count++;
    append_prefix(uri, &text);
    prefix->prefix = text.data;
    return STATUS_OK;
}

enum status icechunk_open_prefixes(struct icechunk *icechunk, const struct store_options *options,
                                   store_opener *open, struct error *err)
{
    struct text uri = {0};
    const char *list = options->settings->virtual_prefixes;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &uri))
        status = open_prefix(icechunk, uri.data, options, open, err);
    text_done(&uri);
    return status;
}

/* A location with its container's prefix; "gcs://" is another name of "gs://". */
static enum status locate(const struct icechunk *icechunk, const char *location, struct text *out,
                          struct error *err)
{
    static const char container[] = "vcc://";
    bool is_other = strncmp(location, "gcs://", 6) == 0;
    if (strncmp(location, container, strlen(container)) != 0) {
        text_append(out, "%s", is_other ? "gs://" : "");
        append_decoded(location + (is_other ? 6 : 0), out);
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
    append_decoded(whole.data, out);
    text_done(&whole);
    return STATUS_OK;
}

static enum status not_allowed(const char *location, struct error *err)
{
    const char *slash = strrchr(location, '/');
    int bytes = slash ? (int)(slash - location) + 1 : 0;
    if (text_has_secret(location))
        return error_set(err, STATUS_INVALID,
                         "it lies outside the repository, at a uri with a secret in it");
    return error_set(err, STATUS_INVALID,
                     "it lies outside the repository, at '%.300s': if the repository may have that "
                     "read, set store.virtual: ['%.*s'], or a prefix of it",
                     location, bytes < 300 ? bytes : 300, location);
}

static enum status find_prefix(const struct icechunk *icechunk, const char *location,
                               const struct store **ret_store, char ret_key[ICECHUNK_KEY_BYTES],
                               struct error *err)
{
    const struct virtual_prefix *longest = NULL;
    for (size_t i = 0; i < icechunk->prefix_count; i++) {
        const struct virtual_prefix *prefix = &icechunk->prefixes[i];
        size_t bytes = strlen(prefix->prefix);
        if (strncmp(location, prefix->prefix, bytes) == 0 &&
            (!longest || bytes > strlen(longest->prefix)))
            longest = prefix;
    }
    if (!longest)
        return not_allowed(location, err);
    const char *key = location + strlen(longest->prefix);
    if (strlen(key) >= ICECHUNK_KEY_BYTES || !store_key_is_well_formed(key))
        return error_set(err, STATUS_CORRUPT,
                         "its location '%.300s' is malformed, or has '.' or '..' in it", location);
    strcpy(ret_key, key);
    *ret_store = longest->store;
    return STATUS_OK;
}

enum status icechunk_object(const struct icechunk *icechunk, const struct chunk_ref *ref,
                            const struct store **ret_store, char ret_key[ICECHUNK_KEY_BYTES],
                            struct error *err)
{
    char id[ICECHUNK_ID_TEXT_BYTES];
    struct text location = {0};
    if (ref->kind == CHUNK_NATIVE) {
        icechunk_id_print(ref->id, id);
        snprintf(ret_key, ICECHUNK_KEY_BYTES, "chunks/%s", id);
        *ret_store = icechunk->base;
        return STATUS_OK;
    }
    enum status status = locate(icechunk, ref->location, &location, err);
    if (status == STATUS_OK)
        status = find_prefix(icechunk, location.data, ret_store, ret_key, err);
    text_done(&location);
    return status;
}
