/* What nodes find of a dataset's arrays, for `penstock doctor`: see doctor.h. Each node prints a
 * line of JSON for each array; doctor_cluster() compares them. */
#include "cli/doctor/doctor.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/open/inventory.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On a node
 * ------------------------------------------------------------------------------------------- */

/* The number of the first value that is not there, of an array with `total`; `total`: all are. */
static enum status find_absent(struct inventory *inventory, size_t i, uint64_t *ret_number,
                               struct error *err)
{
    enum { WINDOW_VALUES = 1 << 26 };
    const uint64_t total = inventory->arrays[i].total;
    _Atomic unsigned char *bits = NULL;
    enum status status = STATUS_OK;
    uint64_t at = inventory->arrays[i].value_count < total ? 0 : total;
    for (uint64_t first = 0; status == STATUS_OK && at == first && first < total;
         first += WINDOW_VALUES) {
        uint64_t count = min_u64(total - first, WINDOW_VALUES);
        free((void *)bits);
        bits = calloc(1, size_divide_up(count, 8));
        status = bits ? inventory_mark(inventory, i, first, count, bits, NULL, err)
                      : error_set(err, STATUS_NO_MEMORY, "no memory to compare copies");
        while (status == STATUS_OK && at < first + count &&
               bits[(at - first) / 8] >> (at - first) % 8 & 1)
            at++;
    }
    free((void *)bits);
    *ret_number = at;
    return status;
}

static void append_array(const struct inventory_array *of, const char *node, const char *run,
                         uint64_t absent, struct text *out)
{
    char key[INVENTORY_KEY_BYTES] = "";
    if (absent < of->total)
        inventory_value_key(of, absent, key);
    text_append(out, "{\"node\":");
    text_append_json(out, node);
    text_append(out, ",\"run\":");
    text_append_json(out, run ? run : "");
    text_append(out, ",\"array\":");
    text_append_json(out, of->path);
    text_append(out, ",\"store\":");
    text_append_json(out, of->uri);
    text_append(out, ",\"unit\":\"%s\",\"stamp\":\"%" PRIx64 "\",\"document\":\"%" PRIx64 "\"",
                of->unit, of->stamp, of->document);
    text_append(out,
                ",\"stock\":\"%" PRIx64 "\",\"count\":%" PRIu64 ",\"total\":%" PRIu64
                ",\"absent\":%" PRIu64 ",\"key\":",
                of->stock, of->value_count, of->total, absent);
    text_append_json(out, key);
    text_append(out, "}\n");
}

static enum status describe(struct diagnosis *diagnosis, struct inventory *inventory,
                            const char *run, struct error *err)
{
    enum status status = inventory_stamp(inventory, NULL, err);
    if (status == STATUS_OK)
        status = inventory_read_documents(inventory, NULL, err);
    if (status == STATUS_OK && diagnosis->lists_chunks)
        status = inventory_list(inventory, NULL, err);
    for (size_t i = 0; status == STATUS_OK && i < inventory->count; i++) {
        uint64_t absent = inventory->arrays[i].total;
        if (diagnosis->lists_chunks && inventory->arrays[i].stamp)
            status = find_absent(inventory, i, &absent, err);
        if (status == STATUS_OK)
            append_array(&inventory->arrays[i], diagnosis->node, run, absent,
                         &diagnosis->inventory);
    }
    return status;
}

enum status doctor_look_at_arrays(struct diagnosis *diagnosis, const struct dataset *dataset,
                                  const char *run, bool fills_empty, struct error *err)
{
    struct inventory inventory;
    enum status status = inventory_init(&inventory, dataset, err);
    if (status == STATUS_OK && diagnosis->of_node)
        status = describe(diagnosis, &inventory, run, err);
    if (status == STATUS_OK && !fills_empty)
        status = inventory_require(&inventory, NULL, err);
    inventory_done(&inventory);
    return status;
}

/* Of several nodes
 * ------------------------------------------------------------------------------------------- */

struct seen {
    char node[FINDING_NODE_BYTES];
    struct json_object *line; /* owned */
};

struct sightings {
    struct seen *seen; /* [count], owned */
    size_t count;
};

static const char *word(const struct seen *seen, const char *name)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(seen->line, name, &value);
    return value ? json_object_get_string(value) : "";
}

static uint64_t number(const struct seen *seen, const char *name)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(seen->line, name, &value);
    return value ? json_object_get_uint64(value) : 0;
}

static bool same(const struct seen *a, const struct seen *b, const char *name)
{
    return strcmp(word(a, name), word(b, name)) == 0;
}

void doctor_sightings_free(struct sightings *sightings)
{
    for (size_t i = 0; sightings && i < sightings->count; i++)
        json_object_put(sightings->seen[i].line);
    if (sightings)
        free(sightings->seen);
    free(sightings);
}

bool doctor_take_sighting(struct sightings **sightings, struct json_object *line)
{
    if (!json_object_object_get_ex(line, "stamp", NULL))
        return false;
    if (!*sightings)
        *sightings = calloc(1, sizeof **sightings);
    struct sightings *to = *sightings;
    struct seen *more = to ? realloc(to->seen, (to->count + 1) * sizeof *more) : NULL;
    if (!more)
        return true; /* what was seen before is compared */
    to->seen = more;
    struct seen *seen = &to->seen[to->count++];
    seen->line = json_object_get(line);
    snprintf(seen->node, sizeof seen->node, "%s", word(seen, "node"));
    return true;
}

static const char *const copy_advice =
    "copy the dataset to that node anew, whole (rsync -a --delete), or mount it, or use a file "
    "system that all nodes share";

/* What differs between the same array on two nodes. */
static void refuse(struct diagnosis *diagnosis, const struct seen *a, const struct seen *b)
{
    const char *run = word(b, "run");
    struct text text = {0};
    if (*run)
        text_append(&text, "run '%s': ", run);
    text_append(&text, "array '%s' of the store '%.160s' ", word(b, "array"), word(b, "store"));
    const struct seen *bare = strcmp(word(a, "document"), "0") == 0   ? a
                              : strcmp(word(b, "document"), "0") == 0 ? b
                                                                      : NULL;
    if (bare)
        text_append(&text, "has no metadata on %s, and has on %s", bare->node,
                    (bare == a ? b : a)->node);
    else if (!same(a, b, "document"))
        text_append(&text, "has other metadata on %s than on %s", b->node, a->node);
    else if (number(a, "absent") != number(b, "absent")) {
        /* All values before its first absent one are there. */
        const struct seen *less = number(a, "absent") < number(b, "absent") ? a : b;
        const struct seen *other = less == a ? b : a;
        text_append(&text, "has no '%s' on %s (%s of %s %s are there), and has it on %s (%s)",
                    word(less, "key"), less->node, count_format(number(less, "count")).text,
                    count_format(number(less, "total")).text, word(less, "unit"), other->node,
                    count_format(number(other, "count")).text);
    } else
        text_append(&text, "has other %s on %s (%s) than on %s (%s)", word(b, "unit"), b->node,
                    count_format(number(b, "count")).text, a->node,
                    count_format(number(a, "count")).text);
    diagnosis->node[0] = '\0';
    diagnosis_add(diagnosis, FINDING_FAILURE, "copies", copy_advice, "%s", text.data);
    text_done(&text);
}

bool doctor_compare_sightings(struct diagnosis *diagnosis, const struct sightings *sightings,
                              bool lists_chunks)
{
    bool differ = false;
    for (size_t i = 0; sightings && i < sightings->count; i++) {
        const struct seen *b = &sightings->seen[i], *a = sightings->seen;
        while (a != b && !(same(a, b, "run") && same(a, b, "array") && same(a, b, "store")))
            a++;
        if (a == b)
            continue;
        bool other = !same(a, b, "document") || (lists_chunks && !same(a, b, "stock"));
        if (other)
            refuse(diagnosis, a, b);
        differ |= !other && !same(a, b, "stamp");
    }
    return differ;
}
