/* See user_path.h. */
#include "trainers/user_path.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char told_path[] = "PENSTOCK_PATH", told_libraries[] = "PENSTOCK_LD_LIBRARY_PATH";

/* The length of the folder that the first entry of a path lies in: 4 of "/usr/bin:..." */
static size_t prefix_length(const char *path)
{
    size_t entry = strcspn(path, ":");
    while (entry > 0 && path[entry - 1] != '/')
        entry--;
    return entry > 0 ? entry - 1 : 0;
}

static bool same_prefix(const char *one, const char *other)
{
    size_t length = prefix_length(one);
    return length > 0 && length == prefix_length(other) && memcmp(one, other, length) == 0;
}

/* Whether the first entry of a path is there once more. */
static bool again(const char *path)
{
    size_t length = strcspn(path, ":");
    for (const char *at = path + length; *at++ == ':'; at += strcspn(at, ":"))
        if (strcspn(at, ":") == length && memcmp(path, at, length) == 0)
            return true;
    return false;
}

static const char *behind_first(const char *path)
{
    size_t length = strcspn(path, ":");
    return path + length + (path[length] == ':');
}

/* Whether Open MPI's daemon is a program of the first entry. */
static bool is_of_mpirun(const char *path)
{
    static const char *const daemons[] = {"orted", "prted"};
    char name[4096];
    for (size_t i = 0; i < sizeof daemons / sizeof daemons[0]; i++) {
        snprintf(name, sizeof name, "%.*s/%s", (int)strcspn(path, ":"), path, daemons[i]);
        if (access(name, X_OK) == 0)
            return true;
    }
    return false;
}

void user_path_note(void)
{
    const char *path = getenv("PATH"), *libraries = getenv("LD_LIBRARY_PATH"), *changed = path;
    if (!path || !libraries || getenv(told_path) || !getenv("OMPI_COMM_WORLD_RANK"))
        return;
    /* It does so once or twice, and then both variables begin with the same prefix. */
    while (same_prefix(path, libraries) && again(path) && is_of_mpirun(path)) {
        path = behind_first(path);
        libraries = behind_first(libraries);
    }
    if (path == changed)
        return;
    setenv(told_path, path, 1);
    setenv(told_libraries, libraries, 1);
}

/* Sets `name` to what `from` has, and removes that. */
static void take(const char *name, const char *from)
{
    const char *value = getenv(from);
    if (value && *value)
        setenv(name, value, 1);
    else if (value)
        unsetenv(name);
    unsetenv(from);
}

void user_path_restore(void)
{
    take("PATH", told_path);
    take("LD_LIBRARY_PATH", told_libraries);
}
