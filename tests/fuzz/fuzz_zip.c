/* Fuzz target for zip archives: the directory, local headers, stored and deflated entries.
 *
 * The input is an archive, written to a file, opened as a store, and walked through. */
#include "fuzz_walk.h"

static void remove_folder(void)
{
    rmdir(fuzz_folder());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[96];
    struct store *store = NULL;
    struct error err;
    if (!path[0])
        atexit(remove_folder);
    snprintf(path, sizeof path, "%s/a.zip", fuzz_folder());
    FILE *file = fopen(path, "we");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    int fd = lowest_free_fd();
    enum status status = store_open(path, &store, &err);
    CHECK(status == STATUS_OK || err.message[0]);
    if (status == STATUS_OK)
        walk_store(store, true);
    store_free(store);
    CHECK(lowest_free_fd() == fd);
    CHECK(remove(path) == 0);
    return 0;
}
