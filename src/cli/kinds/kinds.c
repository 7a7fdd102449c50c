/* See kinds.h: the table of kinds, and what they share. */
#include "cli/kinds/kinds_internal.h"

#include "base/size.h"
#include "zarr/hierarchy/group_attributes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The first that recognises a store has it: special ones come first. */
static kind_function *const kinds[] = {kind_spatialdata, kind_ome,    kind_anndata, kind_anemoi,
                                       kind_robot,       kind_xarray, kind_plain};

void kind_recognise(const struct kind_look *look, struct kind_finding *ret_finding)
{
    *ret_finding = (struct kind_finding){0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i](look, ret_finding))
            return;
}

void kind_finding_done(struct kind_finding *finding)
{
    text_done(&finding->about);
    text_done(&finding->group);
    text_done(&finding->members);
    text_done(&finding->dataset);
    text_done(&finding->rest);
    finding->name = NULL;
}

static size_t group_length(const struct kind_look *look)
{
    return strlen(look->group);
}

const struct zarr_node *kind_array(const struct kind_look *look, const char *path)
{
    char full[2 * ZARR_PATH_BYTES];
    snprintf(full, sizeof full, "%s%s%s", look->group, *look->group ? "/" : "", path);
    const struct zarr_node *node = zarr_hierarchy_find(look->hierarchy, full);
    return node && node->status == STATUS_OK ? node : NULL;
}

const char *kind_path(const struct kind_look *look, const struct zarr_node *node)
{
    const char *path = node->array.path;
    size_t length = group_length(look);
    if (length == 0)
        return path;
    return strncmp(path, look->group, length) == 0 && path[length] == '/' ? path + length + 1
                                                                          : NULL;
}

const char *kind_leaf(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool kind_says(const struct kind_look *look, const char *path, const char *attribute,
               const char *text)
{
    char full[2 * ZARR_PATH_BYTES];
    struct zarr_texts texts = {0};
    snprintf(full, sizeof full, "%s%s%s", look->group, *look->group && *path ? "/" : "", path);
    bool says = zarr_group_texts(look->store, look->hierarchy->format, full, attribute, &texts,
                                 NULL) == STATUS_OK &&
                texts.is_there && (texts.count > 0 || !*text) &&
                (!*text || strncmp(texts.items[0], text, strlen(text)) == 0);
    zarr_texts_done(&texts);
    return says;
}

/* A word that YAML takes for nothing but text. */
static bool is_word(const char *text)
{
    static const char *const others[] = {"null", "none", "true", "false", "yes", "no", "on", "off"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcasecmp(text, others[i]) == 0)
            return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_./-", *c))
            return false;
    return isalpha((unsigned char)text[0]) || text[0] == '/' || text[0] == '_';
}

void kind_put_scalar(const char *foreign, struct text *out)
{
    if (is_word(foreign))
        text_append(out, "%s", foreign);
    else
        text_append_json(out, foreign);
}

void kind_put_field(const char *mark, const char *name, const char *path, struct text *out)
{
    char key[DATASET_NAME_BYTES];
    snprintf(key, sizeof key, "%s", name);
    for (char *c = key; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_./-", *c))
            *c = '_';
    text_append(out, "    %s", mark);
    kind_put_scalar(key, out);
    text_append(out, ": {array: ");
    kind_put_scalar(path, out);
}

struct kind_shape kind_shape(const struct zarr_array *array, int first_axis)
{
    struct kind_shape out = {""};
    for (int i = first_axis, used = 0; i < array->rank; i++)
        used += snprintf(out.text + used, sizeof out.text - (size_t)used, "%s%s",
                         i > first_axis ? " x " : "", count_format(array->shape[i]).text);
    return out;
}

void kind_wrap(const char *before, const char *text, struct text *out)
{
    enum { COLUMNS = 98 };
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        bool starts = column == 0;
        if (!starts && column + 1 + word > COLUMNS) {
            text_append(out, "\n");
            starts = true;
            column = 0;
        }
        text_append(out, "%s%.*s", starts ? before : " ", (int)word, text);
        column += word + !starts;
        text += word + (text[word] == ' ');
    }
    text_append(out, "\n");
}
