/* Runs a fuzz target over the files of the given directories and files, in order of name, without
 * libFuzzer: the corpus becomes a test of every build. A finding aborts with the file's name as the
 * last line printed. */
#include "fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    bool complete = file && data && fread(data, 1, size, file) == size;
    if (complete) {
        printf("%s\n", path);
        fflush(stdout);
        LLVMFuzzerTestOneInput(data, size);
    } else {
        perror(path);
    }
    free(data);
    if (file)
        fclose(file);
    return complete;
}

static bool replay(const char *path, size_t *count);

static bool replay_directory(const char *path, size_t *count)
{
    struct dirent **entries = NULL;
    int entry_count = scandir(path, &entries, NULL, alphasort);
    bool ok = entry_count >= 0;
    for (int i = 0; i < entry_count; i++) {
        char *below = NULL;
        if (entries[i]->d_name[0] != '.' &&
            asprintf(&below, "%s/%s", path, entries[i]->d_name) >= 0)
            ok = replay(below, count) && ok;
        free(below);
        free(entries[i]);
    }
    free(entries);
    return ok;
}

static bool replay(const char *path, size_t *count)
{
    struct stat info;
    if (stat(path, &info) < 0) {
        perror(path);
        return false;
    }
    if (S_ISDIR(info.st_mode))
        return replay_directory(path, count);
    (*count)++;
    return replay_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv)
{
    size_t count = 0;
    bool ok = true;
    for (int i = 1; i < argc; i++)
        ok = replay(argv[i], &count) && ok;
    printf("%zu inputs replayed\n", count);
    return ok && count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
