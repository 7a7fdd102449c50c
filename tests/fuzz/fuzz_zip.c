/* Fuzz target for zip archives: the directory, local headers, stored and deflated entries.
 *
 * The input is an archive, written to a file and opened as a store. Whatever it lists can be asked
 * for: the answer is the value or an error, and pieces agree with the whole. */
#include "fuzz.h"

#include "store/store.h"

enum { DEPTH = 4, VALUE_BYTES = 1 << 16 };

struct walk {
    const struct store *store;
    const char *prefix;
    int depth;
    uint64_t visited;
};

static void look_at(const struct store *store, const char *key)
{
    static unsigned char value[VALUE_BYTES], piece[VALUE_BYTES];
    struct store_info info;
    struct error err;
    size_t size = 0;
    uint64_t total = 0;
    enum status status = store_stat(store, key, &info, &err);
    CHECK(status != STATUS_NOT_FOUND);
    if (store_get(store, key, value, sizeof value, &size, &err) != STATUS_OK) {
        CHECK(err.message[0]);
        return;
    }
    CHECK(status == STATUS_OK && info.bytes == size);
    CHECK(store_get_suffix(store, key, piece, size / 2, &total, &err) == STATUS_OK);
    CHECK(total == size && memcmp(piece, value + size - size / 2, size / 2) == 0);
    const struct store_range range = {size / 3, size / 3, piece};
    CHECK(store_get_ranges(store, key, &range, 1, NULL, &err) == STATUS_OK);
    CHECK(memcmp(piece, value + size / 3, size / 3) == 0);
}

static enum status visit(const char *name, bool is_prefix, void *argument, struct error *err)
{
    struct walk *walk = argument;
    char key[4096];
    CHECK(name[0] && !strchr(name, '/'));
    if (++walk->visited > 64)
        return error_set(err, STATUS_ENDED, "enough");
    if (snprintf(key, sizeof key, "%s%s%s", walk->prefix, *walk->prefix ? "/" : "", name) >=
        (int)sizeof key)
        return STATUS_OK;
    if (!is_prefix) {
        look_at(walk->store, key);
        return STATUS_OK;
    }
    struct walk below = {walk->store, key, walk->depth + 1, walk->visited};
    struct store_usage usage;
    CHECK(store_usage(walk->store, key, 1, &usage, NULL) != STATUS_NOT_FOUND);
    return below.depth < DEPTH ? store_list(walk->store, key, visit, &below, err) : STATUS_OK;
}

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
    if (status == STATUS_OK) {
        struct walk walk = {store, "", 0, 0};
        status = store_list(store, "", visit, &walk, &err);
        CHECK(status == STATUS_OK || err.message[0]);
    } else {
        CHECK(err.message[0]);
    }
    store_free(store);
    CHECK(lowest_free_fd() == fd);
    CHECK(remove(path) == 0);
    return 0;
}
