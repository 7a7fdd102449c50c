/* See icechunk_uri.h. */
#include "store/icechunk/icechunk_uri.h"

#include "base/text.h"
#include "store/virtual/virtual.h"

#include <stdlib.h>
#include <string.h>

/* What the names of references have in front. */
static const struct {
    const char *prefix;
    enum icechunk_reference kind;
} kinds[] = {
    {"branch:", REFERENCE_BRANCH}, {"tag:", REFERENCE_TAG}, {"snapshot:", REFERENCE_SNAPSHOT}};

static void take_reference(const char *text, struct icechunk_uri *uri, const char **ret_name)
{
    uri->kind = REFERENCE_BRANCH;
    *ret_name = text;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            uri->kind = kinds[i].kind;
            *ret_name = text + strlen(kinds[i].prefix);
        }
}

/* The repository's own uri: `length` bytes, in which %40 is an '@'. */
static char *copy_base(const char *base, size_t length)
{
    struct text out = {0};
    for (size_t i = 0; i < length; i++) {
        bool at = length - i >= 3 && strncmp(base + i, "%40", 3) == 0;
        text_append_bytes(&out, at ? "@" : base + i, 1);
        i += at ? 2 : 0;
    }
    text_append_bytes(&out, "", 0);
    return out.data;
}

/* "icechunk+s3://bucket@main" looks like a user, too. */
static enum status refuse_secret(const char *uri, const char *base, struct error *err)
{
    bool is_web = strncmp(base, "http", 4) == 0;
    return error_set(err, STATUS_INVALID,
                     "the store's uri has a user, a password or a signature in it: credentials "
                     "are taken from the environment and files alone; a branch of a repository at "
                     "the root of a %s is written %.*s%s/@BRANCH",
                     is_web ? "server" : "bucket", (int)(strstr(uri, "://") + 3 - uri), uri,
                     is_web ? "HOST" : "BUCKET");
}

enum status icechunk_uri_parse(const char *uri, struct icechunk_uri *ret_uri, struct error *err)
{
    struct icechunk_uri parsed = {0};
    const char *base = icechunk_uri_inside(uri), *name = "main";
    const char *at = strchr(base, '@');
    size_t length = at ? (size_t)(at - base) : strlen(base);
    if (text_has_secret(uri))
        return refuse_secret(uri, base, err);
    if (at)
        take_reference(at + 1, &parsed, &name);
    if (length == 0)
        return error_set(err, STATUS_INVALID,
                         "store '%s': it has no path: write icechunk:///PATH or "
                         "icechunk+s3://BUCKET/PREFIX",
                         uri);
    if (!*name)
        return error_set(err, STATUS_INVALID,
                         "store '%s': no name behind '@': write @BRANCH, @tag:NAME or "
                         "@snapshot:ID; an '@' of the path is written %%40",
                         uri);
    parsed.name = strdup(name);
    if (!parsed.name)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    parsed.base = copy_base(base, length);
    *ret_uri = parsed;
    return STATUS_OK;
}

void icechunk_uri_done(struct icechunk_uri *uri)
{
    free(uri->base);
    free(uri->name);
    *uri = (struct icechunk_uri){0};
}

const char *icechunk_uri_inside(const char *uri)
{
    return virtual_uri_inside(uri, "icechunk");
}

size_t icechunk_uri_path_bytes(const char *uri)
{
    return icechunk_uri_inside(uri) ? strcspn(uri, "@") : strlen(uri);
}
