/* See options.h: the mesh of trainers, and which parts of fields they have: dataset.cuts, and the
 * properties `cut` and `only` of fields. */
#include "config/options.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct config_cut *find_cut(struct config *config, const char *name)
{
    for (size_t i = 0; i < config->cut_count; i++)
        if (strcmp(config->cuts[i].name, name) == 0)
            return &config->cuts[i];
    return NULL;
}

static enum status add_cut(struct config *config, const char *name, struct error *err)
{
    struct config_cut cut = {0};
    if (!*name)
        return error_set(err, STATUS_INVALID, "dataset.cuts: the name of a cut is empty");
    if (config->cut_count == CONFIG_MAX_CUTS)
        return error_set(err, STATUS_INVALID, "dataset.cuts: more than %d cuts", CONFIG_MAX_CUTS);
    enum status status = config_put_text(&cut.name, name, err);
    if (status == STATUS_OK)
        status = config_put_text(&cut.over, "", err);
    if (status == STATUS_OK)
        status = config_put_text(&cut.order, "", err);
    if (status == STATUS_OK)
        status = config_put_text(&cut.split, "", err);
    config->cuts[config->cut_count++] = cut; /* freed with the others, whatever the status */
    return status;
}

/* "[a,b]" is the list a,b. */
static enum status put_list(const char **member, const char *value, struct error *err)
{
    size_t length = strlen(value);
    bool is_list = length >= 2 && value[0] == '[' && value[length - 1] == ']';
    char *list = is_list ? strndup(value + 1, length - 2) : strdup(value);
    if (!list)
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    enum status status = config_put_text(member, list, err);
    free(list);
    return status;
}

enum status config_put_cut(struct config *config, const char *name, const char *property,
                           const char *value, struct error *err)
{
    enum status status = find_cut(config, name) ? STATUS_OK : add_cut(config, name, err);
    if (status != STATUS_OK)
        return status;
    struct config_cut *cut = find_cut(config, name);
    const char **member = strcmp(property, "over") == 0    ? &cut->over
                          : strcmp(property, "order") == 0 ? &cut->order
                          : strcmp(property, "split") == 0 ? &cut->split
                                                           : NULL;
    if (!member)
        return error_set(err, STATUS_INVALID,
                         "unknown key 'dataset.cuts.%s.%s': a cut has over, order, split", name,
                         property);
    status = put_list(member, value, err);
    return status != STATUS_OK ? error_prefix(err, status, "dataset.cuts.%s.%s: ", name, property)
                               : STATUS_OK;
}

bool config_is_share(const char *property)
{
    return strncmp(property, "cut.", 4) == 0 || strncmp(property, "only.", 5) == 0;
}

static void free_share(struct config_share *share)
{
    free((char *)share->field);
    free((char *)share->key);
    free((char *)share->value);
}

/* The share that the property sets; a new one, empty, if there is none. NULL: no memory. */
static struct config_share *share_of(struct config *config, const char *field, bool is_cut,
                                     const char *key)
{
    for (size_t i = 0; i < config->share_count; i++) {
        struct config_share *share = &config->shares[i];
        if (share->is_cut == is_cut && strcmp(share->field, field) == 0 &&
            strcmp(share->key, key) == 0)
            return share;
    }
    struct config_share *shares =
        realloc(config->shares, (config->share_count + 1) * sizeof *shares);
    if (!shares)
        return NULL;
    config->shares = shares;
    struct config_share share = {.field = strdup(field), .is_cut = is_cut, .key = strdup(key)};
    if (!share.field || !share.key) {
        free_share(&share);
        return NULL;
    }
    shares[config->share_count] = share;
    return &shares[config->share_count++];
}

enum status config_put_share(struct config *config, const char *field, const char *property,
                             const char *value, struct error *err)
{
    bool is_cut = property[0] == 'c';
    struct config_share *share = share_of(config, field, is_cut, strchr(property, '.') + 1);
    if (!share)
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    return put_list(&share->value, value, err);
}

void config_forget_shares(struct config *config, const char *field)
{
    size_t kept = 0;
    for (size_t i = 0; i < config->share_count; i++)
        if (strcmp(config->shares[i].field, field) == 0)
            free_share(&config->shares[i]);
        else
            config->shares[kept++] = config->shares[i];
    config->share_count = kept;
}

void config_free_cuts(struct config *config)
{
    for (size_t i = 0; i < config->cut_count; i++) {
        free((char *)config->cuts[i].name);
        free((char *)config->cuts[i].over);
        free((char *)config->cuts[i].order);
        free((char *)config->cuts[i].split);
    }
    for (size_t i = 0; i < config->share_count; i++)
        free_share(&config->shares[i]);
    free(config->shares);
}

enum status config_put_mesh(struct config *config, const char *mesh, const char *data,
                            struct error *err)
{
    enum status status = config_put_text((const char **)&config->mesh, mesh, err);
    return status == STATUS_OK ? config_put_text((const char **)&config->mesh_data, data, err)
                               : status;
}

enum status config_mesh(const struct config *config, struct mesh *ret_mesh, struct error *err)
{
    return mesh_parse(config->mesh, config->mesh_data, (uint32_t)config->trainers, ret_mesh, err);
}

uint32_t config_group_count(const struct config *config)
{
    struct mesh mesh;
    return config_mesh(config, &mesh, NULL) == STATUS_OK ? mesh_group_count(&mesh)
                                                         : (uint32_t)config->trainers;
}

enum status config_parse_cut(const struct config_cut *cut, const struct mesh *mesh,
                             struct cut *ret_cut, struct error *err)
{
    enum status status = cut_parse(mesh, cut->over, cut->order, cut->split, ret_cut, err);
    return status != STATUS_OK ? error_prefix(err, status, "dataset.cuts.%s: ", cut->name)
                               : STATUS_OK;
}

const struct config_share *config_shares(const struct config *config, size_t *ret_count)
{
    const struct config *owner = config->source_count > 0 ? config->sources[0].config : config;
    *ret_count = owner->share_count;
    return owner->shares;
}

/* One of a list of coordinates. False: it is none along an axis of that size. */
static bool parse_coordinate(const char *text, uint32_t size, uint32_t *ret_coordinate)
{
    uint64_t number = 0;
    bool is_last = strcmp(text, "last") == 0;
    if (!is_last && strcmp(text, "first") != 0 && !number_parse(text, 0, size - 1, &number))
        return false;
    *ret_coordinate = is_last ? size - 1 : (uint32_t)number;
    return true;
}

bool config_has_coordinate(const char *coordinates, uint32_t size, uint32_t coordinate)
{
    struct text item = {0};
    bool found = false;
    uint32_t one;
    while (text_list_take(&coordinates, &item))
        found |= parse_coordinate(item.data ? item.data : "", size, &one) && one == coordinate;
    text_done(&item);
    return found;
}

static enum status check_only(const struct config_share *share, const struct mesh *mesh,
                              struct error *err)
{
    int axis = mesh_find_axis(mesh, share->key);
    const char *at = share->value;
    struct text item = {0};
    uint32_t one;
    if (axis < 0)
        return error_set(err, STATUS_INVALID, "delivery.mesh has no axis '%s'", share->key);
    enum status status = STATUS_OK;
    bool any = false;
    while (status == STATUS_OK && text_list_take(&at, &item)) {
        any = true;
        if (!parse_coordinate(item.data ? item.data : "", mesh->axes[axis].size, &one))
            status =
                error_set(err, STATUS_INVALID,
                          "'%s' is no coordinate along axis '%s': 0 to %" PRIu32 ", first, or last",
                          item.data ? item.data : "", share->key, mesh->axes[axis].size - 1);
    }
    text_done(&item);
    if (status == STATUS_OK && !any)
        status = error_set(err, STATUS_INVALID, "no trainer would have the field");
    return status;
}

static enum status check_share(const struct config *config, const struct config_share *share,
                               const struct mesh *mesh, struct error *err)
{
    enum status status = STATUS_OK;
    bool exists = false;
    for (size_t i = 0; i < config->cut_count; i++)
        exists = exists || strcmp(config->cuts[i].name, share->value) == 0;
    if (share->is_cut && !exists)
        status = error_set(err, STATUS_INVALID, "dataset.cuts has no cut '%s'", share->value);
    else if (!share->is_cut)
        status = check_only(share, mesh, err);
    return status != STATUS_OK
               ? error_prefix(err, status, "dataset.fields.%s.%s.%s: ", share->field,
                              share->is_cut ? "cut" : "only", share->key)
               : STATUS_OK;
}

static bool has_share(const struct config *config, const struct config_share *share)
{
    for (size_t i = 0; i < config->share_count; i++) {
        const struct config_share *other = &config->shares[i];
        if (other->is_cut == share->is_cut && strcmp(other->field, share->field) == 0 &&
            strcmp(other->key, share->key) == 0 && strcmp(other->value, share->value) == 0)
            return true;
    }
    return false;
}

/* A source may repeat what the first one says, and nothing else. */
static enum status check_source(const struct config *first, const struct config_source *source,
                                struct error *err)
{
    for (size_t i = 0; i < source->config->share_count; i++) {
        const struct config_share *share = &source->config->shares[i];
        if (!has_share(first, share))
            return error_set(err, STATUS_INVALID,
                             "source '%s': dataset.fields.%s.%s.%s: the first source says which "
                             "parts of fields trainers have: write it there",
                             source->name, share->field, share->is_cut ? "cut" : "only",
                             share->key);
    }
    return STATUS_OK;
}

/* With a mesh the axis that divides the batch changes. */
static enum status check_least(const struct config *config, const struct mesh *mesh,
                               struct error *err)
{
    struct mesh least;
    if (config->trainers_least > config->trainers)
        return error_set(err, STATUS_INVALID,
                         "delivery.trainers_least %llu is more than delivery.trainers, which is "
                         "%llu: that is the most",
                         (unsigned long long)config->trainers_least,
                         (unsigned long long)config->trainers);
    if (mesh_resize(mesh, config_least_trainers(config), &least))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "delivery.trainers_least %llu: only the one axis of delivery.data may change, "
                     "so that it is a multiple of the %u ranks of a group",
                     (unsigned long long)config->trainers_least,
                     mesh->rank_count / mesh_group_count(mesh));
}

enum status config_check_mesh(const struct config *config, struct error *err)
{
    struct mesh mesh;
    struct cut cut;
    size_t count;
    const struct config_share *shares = config_shares(config, &count);
    enum status status = config_mesh(config, &mesh, err);
    if (status == STATUS_OK)
        status = check_least(config, &mesh, err);
    for (size_t i = 0; status == STATUS_OK && i < config->cut_count; i++)
        status = config_parse_cut(&config->cuts[i], &mesh, &cut, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = check_share(config, &shares[i], &mesh, err);
    for (size_t i = 1; status == STATUS_OK && i < config->source_count; i++)
        status = check_source(config->sources[0].config, &config->sources[i], err);
    return status;
}

static void print_member(const char *key, const char *value, bool is_list, bool *first,
                         struct text *out)
{
    struct text item = {0};
    if (!*value)
        return;
    text_append(out, "%s%s: %s", *first ? "" : ", ", key, is_list ? "[" : "");
    *first = false;
    if (!is_list)
        print_quoted(value, out);
    for (const char *joint = ""; is_list && text_list_take(&value, &item); joint = ", ") {
        text_append(out, "%s", joint);
        print_quoted(item.data ? item.data : "", out);
    }
    text_append(out, "%s", is_list ? "]" : "");
    text_done(&item);
}

void config_print_cuts(const struct config *config, struct text *out)
{
    text_append(out, config->cut_count > 0 ? "  cuts:\n" : "");
    for (size_t i = 0; i < config->cut_count; i++) {
        const struct config_cut *cut = &config->cuts[i];
        bool first = true, is_word = !strcmp(cut->split, "chunk") || !strcmp(cut->split, "even");
        text_append(out, "    ");
        print_quoted(cut->name, out);
        text_append(out, ": {");
        print_member("over", cut->over, true, &first, out);
        print_member("order", cut->order, false, &first, out);
        print_member("split", cut->split, !is_word, &first, out);
        text_append(out, "}\n");
    }
}

static void print_some(const struct config *config, const char *field, bool is_cut,
                       struct text *out)
{
    bool first = true;
    for (size_t i = 0; i < config->share_count; i++) {
        const struct config_share *share = &config->shares[i];
        struct text key = {0};
        if (share->is_cut != is_cut || strcmp(share->field, field) != 0)
            continue;
        if (first)
            text_append(out, ", %s: {", is_cut ? "cut" : "only");
        print_quoted(share->key, &key);
        print_member(key.data, share->value, !is_cut, &first, out);
        text_done(&key);
    }
    text_append(out, first ? "" : "}");
}

void config_print_shares(const struct config *config, const char *field, struct text *out)
{
    print_some(config, field, true, out);
    print_some(config, field, false, out);
}
