/* See cgroup.h. What the files hold is in cgroups(7), proc(5), and the kernel's cgroup-v2 and
 * cgroup-v1/memory documents. */
#include "base/cgroup.h"
#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096 };

/* Names of the files of each version. */
struct version {
    const char *type;       /* of the mount */
    const char *controller; /* in /proc/self/cgroup */
    const char *limits[2];  /* the lower one counts */
    const char *used;
    const char *cached[2]; /* lines of memory.stat: file cache, which is given up on demand */
};
static const struct version versions[] = {
    {"cgroup2",
     "",
     {"memory.max", "memory.high"},
     "memory.current",
     {"inactive_file ", "active_file "}},
    {"cgroup",
     "memory",
     {"memory.limit_in_bytes", NULL},
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

/* The number behind `key` in the first line that starts with it; `fallback` where there is none. */
static uint64_t read_number(const char *folder, const char *name, const char *key,
                            uint64_t fallback)
{
    char path[4 * CGROUP_PATH_BYTES + 64], line[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    uint64_t value = fallback;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        char *end;
        unsigned long long number = strtoull(line + strlen(key), &end, 10);
        if (end != line + strlen(key))
            value = number;
        break;
    }
    if (file)
        fclose(file);
    return value;
}

/* Lowers *memory to what the group of that folder leaves. */
static void look_at(const struct version *version, const char *folder, struct cgroup_memory *memory)
{
    uint64_t limit = UINT64_MAX;
    for (int i = 0; i < 2 && version->limits[i]; i++) {
        uint64_t number = read_number(folder, version->limits[i], "", UINT64_MAX);
        limit = min_u64(number, limit);
    }
    if (limit >= (uint64_t)INT64_MAX / 4096 * 4096) /* v1's way to say that there is none */
        return;
    uint64_t used = read_number(folder, version->used, "", 0);
    for (int i = 0; i < 2; i++) {
        uint64_t cached = read_number(folder, "memory.stat", version->cached[i], 0);
        used -= min_u64(cached, used);
    }
    uint64_t left = limit > used ? limit - used : 0;
    if (left >= memory->left_bytes)
        return;
    memory->left_bytes = left;
    memory->limit_bytes = limit;
    snprintf(memory->path, sizeof memory->path, "%.1000s", folder);
}

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (; list; list = strchr(list, ','), list = list ? list + 1 : NULL)
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return true;
    return false;
}

/* This process's group: "4:cpu,memory:/job/7" -> "/job/7". */
static bool find_group(const char *root, const struct version *version, char *ret_group)
{
    char path[CGROUP_PATH_BYTES], line[LINE_BYTES];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group = '\0';
        found = *version->controller ? has_word(controllers + 1, version->controller)
                                     : controllers[1] == '\0';
        if (found)
            snprintf(ret_group, CGROUP_PATH_BYTES, "%.1000s", group + 1);
    }
    if (file)
        fclose(file);
    return found;
}

/* Where the version's groups are mounted, and which group that shows:
 * "36 25 0:30 /job /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw" */
static bool find_mount(const char *root, const struct version *version, char *ret_top,
                       char *ret_mount)
{
    char path[CGROUP_PATH_BYTES], line[LINE_BYTES], type[32], options[512];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(dash, " - %31s %*s %511s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %1023s %1023s", ret_top, ret_mount) != 2)
            continue;
        found = strcmp(type, version->type) == 0 &&
                (!*version->controller || has_word(options, version->controller));
    }
    if (file)
        fclose(file);
    return found;
}

/* The process's group and all above it that can be seen. */
static void look_up(const char *root, const struct version *version, struct cgroup_memory *memory)
{
    char group[CGROUP_PATH_BYTES], top[CGROUP_PATH_BYTES], mount[CGROUP_PATH_BYTES];
    char folder[4 * CGROUP_PATH_BYTES];
    if (!find_group(root, version, group) || !find_mount(root, version, top, mount))
        return;
    size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    bool below = strncmp(group, top, length) == 0 && (group[length] == '/' || !group[length]);
    /* A container may see its own group as the mount's top, and its name from outside. */
    int base = snprintf(folder, sizeof folder, "%s%s", root, mount);
    snprintf(folder + base, sizeof folder - (size_t)base, "%s", below ? group + length : "");
    for (;;) {
        look_at(version, folder, memory);
        char *slash = strrchr(folder, '/');
        if (slash - folder < base)
            return;
        *slash = '\0';
    }
}

bool cgroup_memory(const char *root, struct cgroup_memory *ret_memory)
{
    struct cgroup_memory memory = {.left_bytes = UINT64_MAX};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        look_up(root, &versions[i], &memory);
    if (memory.left_bytes == UINT64_MAX)
        return false;
    *ret_memory = memory;
    return true;
}
