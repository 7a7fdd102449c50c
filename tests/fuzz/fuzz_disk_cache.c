/* Fuzz target for a disk cache whose files were damaged or put there by others. The input is a
 * script of at most 32 steps:
 *
 *     0  a value is written                     5  its file becomes a folder, a link or a FIFO
 *     1  a value is read                        6  something else appears in one of the folders
 *     2  bytes of the table are overwritten     7  the cache is opened again, for any of three
 *     3  bytes of a value's file; its header       datasets
 *        may be given the right check           8  table or value are cut off or made longer
 *     4  the same for the length in it
 *
 * What is read is what was written, or nothing; what lies beside the cache stays as it is. */
#include "fuzz.h"

#include "store/cache/disk_cache.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <xxhash.h>

enum {
    MOST_STEPS = 32,
    KEYS = 4,
    DATASETS = 3,
    LIMIT_BYTES = 48 << 10,
    VALUE_BYTES = 9000,
    HEADER_BYTES = 64,
    CHECK_BYTES = 56, /* of the header, what its check is over */
    LENGTH_AT = 32,
};

/* In fuzz_folder(), which is removed at the end. */
static char cache_dir[96], outside[96];

struct stage {
    struct disk_cache *cache; /* NULL: it could not be opened */
    uint64_t dataset;
};

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void remove_root(void)
{
    remove_tree(fuzz_folder());
}

static void prepare(void)
{
    atexit(remove_root);
    snprintf(cache_dir, sizeof cache_dir, "%s/cache", fuzz_folder());
    snprintf(outside, sizeof outside, "%s/outside", fuzz_folder());
    int fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "outside", 7) == 7 && close(fd) == 0);
}

static size_t value_size(uint8_t key)
{
    static const size_t sizes[KEYS] = {0, 10, 4032, VALUE_BYTES};
    return sizes[key];
}

static void fill_value(uint8_t key, uint64_t dataset, unsigned char *value)
{
    for (size_t i = 0; i < value_size(key); i++)
        value[i] = (unsigned char)(i * 31 + key + dataset);
}

struct key_text {
    char text[16];
};

static struct key_text key_text(uint8_t key)
{
    struct key_text ret;
    snprintf(ret.text, sizeof ret.text, "array/%d.0", key);
    return ret;
}

/* Where disk_cache.h says that a value lies. */
static void value_path(const struct stage *stage, uint8_t key, char path[160])
{
    struct key_text text = key_text(key);
    XXH128_hash_t hash = XXH3_128bits(text.text, strlen(text.text));
    snprintf(path, 160, "%s/%016" PRIx64 "/%02x/%014" PRIx64 "%016" PRIx64, cache_dir,
             stage->dataset, (unsigned)(hash.high64 >> 56), hash.high64 & UINT64_MAX >> 8,
             hash.low64);
}

static void table_path(char path[160])
{
    snprintf(path, 160, "%s/table", cache_dir);
}

static void reopen(struct stage *stage, uint64_t dataset)
{
    disk_cache_free(stage->cache);
    *stage = (struct stage){.dataset = dataset};
    struct disk_cache_options options = {
        .path = cache_dir, .limit_bytes = LIMIT_BYTES, .dataset = dataset};
    struct error err;
    if (disk_cache_open(&options, &stage->cache, &err) != STATUS_OK)
        CHECK(strstr(err.message, cache_dir));
}

static void put(const struct stage *stage, uint8_t key)
{
    unsigned char value[VALUE_BYTES];
    fill_value(key, stage->dataset, value);
    disk_cache_put(stage->cache, key_text(key).text, value, value_size(key));
}

static void get(const struct stage *stage, uint8_t key, size_t capacity)
{
    unsigned char expected[VALUE_BYTES];
    size_t size = SIZE_MAX;
    unsigned char *value = malloc(capacity ? capacity : 1);
    CHECK(value);
    fill_value(key, stage->dataset, expected);
    if (disk_cache_get(stage->cache, key_text(key).text, value, capacity, &size)) {
        CHECK(size == value_size(key) && size <= capacity);
        CHECK(memcmp(value, expected, size) == 0);
    }
    free(value);
}

static void overwrite(const char *path, uint64_t at, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t written = pwrite(fd, bytes, size, (off_t)at);
    (void)written;
    close(fd);
}

static void overwrite_some(const char *path, struct input *input)
{
    size_t size;
    uint64_t at = take_number(input, 2) % 12400;
    const uint8_t *bytes = take_bytes(input, take_byte(input) % 32, &size);
    overwrite(path, at, bytes, size);
}

/* Makes the header's check right again: only then what it says is looked at. */
static void correct_check(const char *path)
{
    unsigned char header[CHECK_BYTES];
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, header, sizeof header) == (ssize_t)sizeof header) {
        uint64_t check = XXH3_64bits(header, sizeof header);
        overwrite(path, CHECK_BYTES, &check, HEADER_BYTES - CHECK_BYTES);
    }
    close(fd);
}

/* What is not a file; `kind` says what. */
static void put_other(const char *path, uint8_t kind)
{
    remove_tree(path);
    int outcome = kind % 4 == 0   ? mkdir(path, 0700)
                  : kind % 4 == 1 ? symlink(outside, path)
                  : kind % 4 == 2 ? mkfifo(path, 0600)
                                  : symlink(fuzz_folder(), path);
    (void)outcome;
}

static void put_stranger(uint8_t which, uint8_t kind)
{
    static const char *const names[] = {
        "partial/0000000000000001-0000000000000000",
        "partial/x",
        "0000000000000001/lock",
        "0000000000000002",
        "0000000000000003/ab",
        "ffffffffffffffff",
        "lock",
        "partial",
    };
    char path[160];
    snprintf(path, sizeof path, "%s/%s", cache_dir, names[which % (sizeof names / sizeof *names)]);
    put_other(path, kind);
}

static void resize(const char *path, uint64_t bytes)
{
    int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int outcome = fd < 0 ? -1 : ftruncate(fd, (off_t)bytes);
    (void)outcome;
    if (fd >= 0)
        close(fd);
}

static void step(struct stage *stage, struct input *input)
{
    char value[160], table[160];
    uint8_t what = take_byte(input), key = what / 16 % KEYS;
    uint64_t length;
    what %= 16;
    value_path(stage, key, value);
    table_path(table);
    if (what == 0 && stage->cache)
        put(stage, key);
    else if (what == 1 && stage->cache)
        get(stage, key, (size_t)take_number(input, 2) % (2 * VALUE_BYTES));
    else if (what == 2)
        overwrite_some(table, input);
    else if (what == 3) {
        overwrite_some(value, input);
        if (take_byte(input) % 2)
            correct_check(value);
    } else if (what == 4) {
        length = take_number(input, 8);
        overwrite(value, LENGTH_AT, &length, sizeof length);
        correct_check(value);
    } else if (what == 5)
        put_other(value, take_byte(input));
    else if (what == 6) {
        uint8_t which = take_byte(input);
        put_stranger(which, take_byte(input));
    } else if (what == 7)
        reopen(stage, 1 + key % DATASETS);
    else if (what == 8)
        resize(take_byte(input) % 2 ? table : value, take_number(input, 2) % 20000);
}

static void check_outside(void)
{
    char text[8] = "";
    int fd = open(outside, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text) == 7 && memcmp(text, "outside", 7) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!cache_dir[0])
        prepare();
    int before = lowest_free_fd();
    struct input input = {data, size};
    struct stage stage = {0};
    reopen(&stage, 1);
    CHECK(stage.cache);
    for (int i = 0; i < MOST_STEPS && input.left > 0; i++)
        step(&stage, &input);
    disk_cache_free(stage.cache);
    remove_tree(cache_dir);
    check_outside();
    CHECK(lowest_free_fd() == before);
    return 0;
}
