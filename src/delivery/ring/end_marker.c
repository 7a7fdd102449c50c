/* See end_marker.h. */
#include "delivery/ring/end_marker.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *path_of(const char *prefix)
{
    char *path;
    return !prefix || asprintf(&path, "%send", prefix) < 0 ? NULL : path;
}

void end_marker_make(const char *prefix)
{
    char *path = path_of(prefix);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0)
        close(fd);
    free(path);
}

bool end_marker_found(const char *prefix)
{
    char *path = path_of(prefix);
    bool found = path && access(path, F_OK) == 0;
    free(path);
    return found;
}
