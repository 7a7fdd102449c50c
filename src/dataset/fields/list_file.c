/* See list_file.h. */
#include "dataset/fields/list_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 };

/* Cuts spaces off, the end of the line among them. */
static char *trim(char *line)
{
    char *end = line + strlen(line);
    while (isspace((unsigned char)*line))
        line++;
    while (end > line && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return line;
}

static enum status refuse(const char *path, int number, struct error *err)
{
    return error_set(err, number == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "read the file '%s': %s",
                     path, strerror(number));
}

enum status list_file_read(const char *path, struct text *list, struct error *err)
{
    FILE *file = fopen(path, "re");
    size_t room = 0, bytes = 0, count = 0;
    char *line = NULL;
    ssize_t length;
    if (!file)
        return refuse(path, errno, err);
    errno = 0;
    while (bytes <= MOST_BYTES && (length = getline(&line, &room, file)) >= 0) {
        const char *item = trim(line);
        bytes += (size_t)length;
        count += *item != '\0';
        if (*item)
            text_list_put(list, item);
    }
    int failure = ferror(file) ? errno : 0;
    (void)fclose(file);
    free(line);
    if (failure != 0)
        return refuse(path, failure, err);
    if (bytes > MOST_BYTES)
        return error_set(err, STATUS_INVALID, "the file '%s' has more than 64 MiB: it is no list",
                         path);
    if (count == 0)
        return error_set(err, STATUS_INVALID,
                         "the file '%s' has no line: write an index or a name a line", path);
    return STATUS_OK;
}
