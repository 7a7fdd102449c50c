/* See page.h: pages in JSON. */
#include "store/remote/page.h"

#include <json-c/json.h>
#include <string.h>

static const char *text_member(struct json_object *object, const char *name)
{
    struct json_object *member = NULL;
    bool is_text = json_object_object_get_ex(object, name, &member) &&
                   json_object_is_type(member, json_type_string);
    return is_text ? json_object_get_string(member) : "";
}

static enum status read_entry(const struct page_format *format, struct json_object *object,
                              page_entry *entry, void *argument, struct error *err)
{
    const char *key = text_member(object, format->key), *type = text_member(object, "type");
    bool is_prefix = strcmp(type, format->folder) == 0;
    struct json_object *size = NULL;
    if (!*key || strlen(key) >= PAGE_KEY_BYTES)
        return error_set(err, STATUS_CORRUPT, "the listing has an entry without a valid key");
    if (is_prefix)
        return entry(key, true, 0, argument, err);
    if (strcmp(type, format->entry) != 0)
        return STATUS_OK; /* no value: a submodule */
    if (!json_object_object_get_ex(object, format->size, &size) ||
        !json_object_is_type(size, json_type_int) || json_object_get_int64(size) < 0)
        return error_set(err, STATUS_CORRUPT, "the listing has an entry without a size");
    return entry(key, false, (uint64_t)json_object_get_int64(size), argument, err);
}

enum status page_read_json(const struct page_format *format, const char *text, page_entry *entry,
                           void *argument, struct error *err)
{
    struct json_object *page = json_tokener_parse(text);
    enum status status = json_object_is_type(page, json_type_array)
                             ? STATUS_OK
                             : error_set(err, STATUS_CORRUPT, "the answer is not a listing");
    size_t count = status == STATUS_OK ? json_object_array_length(page) : 0;
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = read_entry(format, json_object_array_get_idx(page, i), entry, argument, err);
    json_object_put(page);
    return status;
}
