/* Fuzz target for the files that name videos and come with them. The first byte says what the rest
 * is:
 *
 *     0  a list of videos, as text      2  rows of numbers, .npy
 *     1  a list of videos, as CSV       3  rows of numbers, .csv
 *
 * What is read has no empty paths and as many rows as were asked for; else there is a message. */
#include "fuzz.h"

#include "workshop/ingest/text_rows.h"
#include "workshop/ingest/video_list.h"

#include <stdbool.h>

enum { MOST_ROWS = 4 };

static const char *const names[] = {"list.txt", "list.csv", "rows.npy", "rows.csv"};

static void remove_folder(void)
{
    const char *folder = fuzz_folder();
    char path[96];
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static void read_list(const char *path)
{
    struct video_list list;
    struct error err;
    if (video_list_read(path, &list, &err) == STATUS_OK) {
        CHECK(list.count > 0);
        for (size_t i = 0; i < list.count; i++)
            CHECK(list.videos[i].path[0] && list.videos[i].name[0]);
    } else {
        CHECK(strstr(err.message, path));
    }
    video_list_done(&list);
}

static void read_rows(const char *path)
{
    for (uint64_t wanted = 1; wanted <= MOST_ROWS; wanted++) {
        struct text_rows rows;
        struct error err;
        if (text_rows_read(path, wanted, &rows, &err) != STATUS_OK) {
            CHECK(strstr(err.message, path) && !rows.values);
            continue;
        }
        CHECK(rows.count == wanted && rows.length > 0);
        size_t bytes = rows.count * rows.length * dtype_bytes(rows.dtype);
        memset(rows.values, 0, bytes); /* AddressSanitizer sees what lies beyond */
        text_rows_done(&rows);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_first = true;
    struct input input = {data, size};
    char path[96];
    if (is_first)
        atexit(remove_folder);
    is_first = false;
    int what = take_byte(&input) % 4, fd = lowest_free_fd();
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), names[what]);
    write_file(path, input.at, input.left);
    if (what < 2)
        read_list(path);
    else
        read_rows(path);
    CHECK(lowest_free_fd() == fd);
    return 0;
}
