/* See video_list.h. */
#include "workshop/ingest/video_list.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_COLUMNS = 64 };

static enum status add_video(struct video_list *list, const char *folder, const char *path,
                             const char *name, struct error *err)
{
    struct listed_video video = {.name = strdup(name)};
    if (path[0] == '/' || !*folder)
        video.path = strdup(path);
    else if (asprintf(&video.path, "%s/%s", folder, path) < 0)
        video.path = NULL;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct listed_video *videos = realloc(list->videos, capacity * sizeof *videos);
        if (videos) {
            list->videos = videos;
            list->capacity = capacity;
        }
    }
    if (!video.path || !video.name || list->count == list->capacity) {
        free(video.path);
        free(video.name);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a list of videos");
    }
    list->videos[list->count++] = video;
    return STATUS_OK;
}

/* Folders
 * ------------------------------------------------------------------------------------------- */

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static enum status read_folder(const char *path, struct video_list *list, struct error *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_shown, NULL);
    if (count < 0)
        return error_set_errno(err, STATUS_IO, "list '%s'", path);
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        struct stat info;
        char *whole = NULL;
        if (asprintf(&whole, "%s/%s", path, entries[i]->d_name) < 0)
            status = error_set(err, STATUS_NO_MEMORY, "no memory for a list of videos");
        else if (stat(whole, &info) != 0 || !S_ISDIR(info.st_mode))
            status = add_video(list, path, entries[i]->d_name, entries[i]->d_name, err);
        free(whole);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct listed_video *)a)->name, ((const struct listed_video *)b)->name);
}

/* Lines
 * ------------------------------------------------------------------------------------------- */

static char *strip(char *line)
{
    while (*line == ' ' || *line == '\t')
        line++;
    size_t end = strlen(line);
    while (end > 0 && strchr(" \t\r\n", line[end - 1]))
        end--;
    line[end] = '\0';
    return line;
}

/* Takes a cell of a CSV line, in quotes or not, from *rest; NULL: there are no more. */
static char *take_cell(char **rest)
{
    char *at = *rest;
    if (!at)
        return NULL;
    if (*at != '"') {
        strsep(rest, ",");
        return strip(at);
    }
    char *cell = ++at, *to = at;
    while (*at && !(*at == '"' && at[1] != '"')) {
        at += *at == '"';
        *to++ = *at++;
    }
    *rest = *at && at[1] == ',' ? at + 2 : NULL;
    *to = '\0';
    return cell;
}

struct columns {
    int path, name; /* -1: none */
};

static struct columns read_header(char *line)
{
    struct columns columns = {-1, -1};
    char *rest = strip(line), *cell;
    for (int i = 0; i < MOST_COLUMNS && (cell = take_cell(&rest)); i++) {
        if (strcmp(cell, "path") == 0)
            columns.path = i;
        else if (strcmp(cell, "name") == 0)
            columns.name = i;
    }
    return columns;
}

static enum status take_row(struct video_list *list, const char *folder,
                            const struct columns *columns, char *line, struct error *err)
{
    char *rest = strip(line), *cell;
    const char *path = "", *name = "";
    for (int i = 0; i < MOST_COLUMNS && (cell = take_cell(&rest)); i++) {
        if (i == columns->path)
            path = cell;
        else if (i == columns->name)
            name = cell;
    }
    if (!*path)
        return error_set(err, STATUS_INVALID, "video %zu has no path", list->count + 1);
    return add_video(list, folder, path, *name ? name : path, err);
}

/* What a list of lines is read by. */
struct line_reader {
    struct video_list *list;
    const char *folder;
    bool is_csv, has_header;
    struct columns columns;
};

static enum status take_line(struct line_reader *reader, char *line, struct error *err)
{
    if (!reader->is_csv)
        return add_video(reader->list, reader->folder, line, line, err);
    if (reader->has_header)
        return take_row(reader->list, reader->folder, &reader->columns, line, err);
    reader->columns = read_header(line);
    reader->has_header = true;
    return reader->columns.path < 0
               ? error_set(err, STATUS_INVALID, "the first line names no column 'path'")
               : STATUS_OK;
}

static enum status read_lines(FILE *file, struct line_reader *reader, struct error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    enum status status = STATUS_OK;
    for (size_t number = 1; status == STATUS_OK && (length = getline(&line, &capacity, file)) >= 0;
         number++) {
        if (strlen(line) != (size_t)length)
            status =
                error_set(err, STATUS_INVALID, "it is no text: line %zu has a zero byte", number);
        char *bare = strip(number == 1 ? text_after_mark(line) : line);
        if (status == STATUS_OK && *bare && *bare != '#')
            status = take_line(reader, bare, err);
    }
    free(line);
    return status;
}

static enum status read_file(const char *path, struct video_list *list, struct error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path)) : strdup("");
    FILE *file = fopen(path, "re");
    size_t length = strlen(path);
    struct line_reader reader = {
        .list = list,
        .folder = folder,
        .is_csv = length > 4 && strcmp(path + length - 4, ".csv") == 0,
    };
    enum status status = STATUS_OK;
    if (!folder)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a list of videos");
    else if (!file)
        status = error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                                 "open the list of videos '%s'", path);
    else if ((status = read_lines(file, &reader, err)) != STATUS_OK)
        status = error_prefix(err, status, "list of videos '%s': ", path);
    if (file)
        fclose(file);
    free(folder);
    return status;
}

enum status video_list_read(const char *path, struct video_list *ret_list, struct error *err)
{
    struct stat info;
    *ret_list = (struct video_list){0};
    bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    enum status status =
        is_folder ? read_folder(path, ret_list, err) : read_file(path, ret_list, err);
    if (status != STATUS_OK)
        return status;
    if (ret_list->count == 0)
        return error_set(err, STATUS_INVALID, "'%s' lists no videos", path);
    if (is_folder)
        qsort(ret_list->videos, ret_list->count, sizeof *ret_list->videos, compare_names);
    return STATUS_OK;
}

void video_list_done(struct video_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->videos[i].path);
        free(list->videos[i].name);
    }
    free(list->videos);
    *list = (struct video_list){0};
}
