/* The directory store: reading, writing atomically, listing, and what it refuses. */
#include "directory_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Instead of the C library's. */
static _Atomic unsigned looks;
int fstatat(int fd, const char *path, struct stat *info, int flags)
{
    looks++;
    return (int)syscall(SYS_newfstatat, fd, path, info, flags);
}

static void test_get_returns_what_was_put(void **state)
{
    const struct store *store = ((struct fixture *)*state)->store;
    char buffer[16];
    size_t size = 99;
    put(store, "a/c/0/1", "twelve bytes");
    assert_int_equal(store_get(store, "a/c/0/1", buffer, sizeof buffer, &size, NULL), STATUS_OK);
    assert_int_equal(size, 12);
    assert_memory_equal(buffer, "twelve bytes", 12);
    put(store, "a/c/0/1", "new");
    assert_int_equal(store_get(store, "a/c/0/1", buffer, 3, &size, NULL), STATUS_OK);
    assert_int_equal(size, 3);
    put(store, "empty", "");
    assert_int_equal(store_get(store, "empty", buffer, 0, &size, NULL), STATUS_OK);
    assert_int_equal(size, 0);
}

static void test_a_missing_key_is_not_found_and_only_that(void **state)
{
    const struct fixture *fixture = *state;
    struct error err;
    char buffer[4];
    size_t size = 99;
    put(fixture->store, "folder/value", "x");
    static const char *const absent[] = {"none", "folder/none", "none/none"};
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        assert_int_equal(store_get(fixture->store, absent[i], buffer, sizeof buffer, &size, &err),
                         STATUS_NOT_FOUND);
    assert_int_equal(size, 99);
    assert_int_equal(store_get(fixture->store, "folder", buffer, sizeof buffer, &size, &err),
                     STATUS_IO); /* a folder where a value should be is damage, not absence */
    assert_int_equal(symlink("loop", join(fixture, "loop")), 0);
    assert_int_equal(store_get(fixture->store, "loop", buffer, sizeof buffer, &size, &err),
                     STATUS_IO);
    assert_int_equal(
        store_get(fixture->store, "folder/value/below/it", buffer, sizeof buffer, &size, &err),
        STATUS_IO);
    assert_non_null(
        strstr(err.message, "/folder/value' is no folder, and 'folder/value/below/it'"));
    assert_int_equal(mkfifo(join(fixture, "pipe"), 0600), 0);
    assert_int_equal(store_get(fixture->store, "pipe", buffer, sizeof buffer, &size, &err),
                     STATUS_IO);
    assert_non_null(strstr(err.message, "/pipe'"));
}

/* Of a link to nothing the name is there: what it stands for is not absent. */
static void test_links_to_nothing(void **state)
{
    const struct fixture *fixture = *state;
    static const char *const keys[] = {"link", "gone/value", "gone/c/0/0", "folder/link"};
    struct store_info info;
    struct error err;
    char buffer[4], *text;
    size_t size;
    put(fixture->store, "folder/value", "x");
    assert_int_equal(symlink("../.git/annex/objects/x", join(fixture, "link")), 0);
    assert_int_equal(symlink("../.git/annex/objects/x", join(fixture, "folder/link")), 0);
    assert_int_equal(symlink("nowhere", join(fixture, "gone")), 0);
    assert_int_equal(symlink("folder", join(fixture, "good")), 0);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct store_range range = {0, 1, buffer};
        assert_int_equal(store_get(fixture->store, keys[i], buffer, 4, &size, &err), STATUS_IO);
        assert_non_null(strstr(err.message, "is a link to '"));
        assert_int_equal(store_stat(fixture->store, keys[i], &info, &err), STATUS_IO);
        assert_int_equal(store_get_text(fixture->store, keys[i], 9, &text, &size, &err), STATUS_IO);
        assert_int_equal(store_get_ranges(fixture->store, keys[i], &range, 1, NULL, &err),
                         STATUS_IO);
    }
    assert_int_equal(store_get(fixture->store, "good/value", buffer, 4, &size, &err), STATUS_OK);
    assert_int_equal(store_get(fixture->store, "good/none", buffer, 4, &size, &err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store_get(fixture->store, "good/none/0", buffer, 4, &size, &err),
                     STATUS_NOT_FOUND);
    struct store *other;
    assert_int_equal(store_open(join(fixture, "gone"), &other, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "is a link to a directory that is not there"));
}

/* Sparse arrays are read again and again: a missing chunk is looked for, and its folder, however
 * deep that lies. */
static void test_a_missing_key_takes_two_looks(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *key;
        unsigned looks;
    } cases[] = {{"a/c/0/1/2/4", 2}, {"a/c/0/1/3/4", 3}, {"a/c/9/9/9/9", 5}, {"none", 1}};
    char buffer[4];
    size_t size;
    put(fixture->store, "a/c/0/1/2/3", "x");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        looks = 0;
        assert_int_equal(store_get(fixture->store, cases[i].key, buffer, 4, &size, NULL),
                         STATUS_NOT_FOUND);
        assert_int_equal(looks, cases[i].looks);
    }
}

static void test_a_value_longer_than_expected_is_corrupt(void **state)
{
    const struct store *store = ((struct fixture *)*state)->store;
    struct error err;
    char buffer[16] = "untouched behind", *text = NULL;
    size_t size = 99;
    put(store, "long", "0123456789");
    assert_int_equal(store_get(store, "long", buffer, 9, &size, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "/long' has 10 bytes, at most 9"));
    assert_int_equal(buffer[9], ' ');
    assert_int_equal(store_get_text(store, "long", 9, &text, &size, &err), STATUS_CORRUPT);
    assert_null(text);
    assert_int_equal(size, 99);
}

static void test_pieces(void **state)
{
    const struct fixture *fixture = *state;
    const struct store *store = fixture->store;
    struct error err;
    char a[4] = "", b[8] = "", tail[4] = "";
    uint64_t total = 99;
    put(store, "shard", "0123456789");
    const struct store_range ranges[] = {{7, 3, a}, {0, 5, b}, {10, 0, NULL}};
    assert_int_equal(store_get_ranges(store, "shard", ranges, 3, NULL, &err), STATUS_OK);
    assert_string_equal(a, "789");
    assert_string_equal(b, "01234");
    assert_int_equal(store_get_suffix(store, "shard", tail, 3, &total, &err), STATUS_OK);
    assert_string_equal(tail, "789");
    assert_int_equal(total, 10);

    const struct store_range past[] = {{0, 2, a}, {8, 3, b}};
    assert_int_equal(store_get_ranges(store, "shard", past, 2, NULL, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "/shard' has 10 bytes, 11 are needed"));
    const struct store_range nowhere = {UINT64_MAX - 1, 3, a};
    assert_int_equal(store_get_ranges(store, "shard", &nowhere, 1, NULL, &err), STATUS_CORRUPT);
    total = 99;
    char much[11];
    assert_int_equal(store_get_suffix(store, "shard", much, 11, &total, &err), STATUS_CORRUPT);
    assert_int_equal(total, 99);
    assert_int_equal(store_get_ranges(store, "none", past, 1, NULL, &err), STATUS_NOT_FOUND);
    assert_int_equal(store_get_suffix(store, "none", much, 1, &total, &err), STATUS_NOT_FOUND);
    assert_int_equal(store_get_suffix(store, "../x", much, 1, &total, &err), STATUS_INVALID);
}

static void test_text_is_terminated(void **state)
{
    const struct store *store = ((struct fixture *)*state)->store;
    char *text = NULL;
    size_t size = 0;
    put(store, ".zgroup", "{\"zarr_format\": 2}");
    assert_int_equal(store_get_text(store, ".zgroup", 1 << 20, &text, &size, NULL), STATUS_OK);
    assert_int_equal(size, 18);
    assert_string_equal(text, "{\"zarr_format\": 2}");
    free(text);
    assert_int_equal(store_get_text(store, ".zarray", 10, &text, &size, NULL), STATUS_NOT_FOUND);
}

static void test_keys_that_leave_the_store_are_refused(void **state)
{
    const struct store *store = ((struct fixture *)*state)->store;
    static const char *const keys[] = {"",     "/etc/passwd", "..",    "../x", "a/../../x",
                                       "a/..", ".",           "a/./b", "a//b", "a/"};
    char buffer[4];
    size_t size;
    struct store_usage usage;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_int_equal(store_get(store, keys[i], buffer, sizeof buffer, &size, NULL),
                         STATUS_INVALID);
        assert_int_equal(store_put(store, keys[i], "x", 1, NULL), STATUS_INVALID);
        if (keys[i][0])
            assert_int_equal(store_usage(store, keys[i], 1, &usage, NULL), STATUS_INVALID);
    }
    put(store, "..a/...", "dots are fine within names");
}

struct names {
    char text[256];
    int stop_after;
};

static enum status note(const char *name, bool is_prefix, void *argument, struct error *err)
{
    struct names *names = argument;
    if (names->stop_after-- == 0)
        return error_set(err, STATUS_INTERRUPTED, "enough");
    strcat(names->text, name);
    strcat(names->text, is_prefix ? "/ " : " ");
    return STATUS_OK;
}

static void test_a_listing_is_sorted_and_tells_folders(void **state)
{
    const struct fixture *fixture = *state;
    put(fixture->store, "g/b/.zarray", "");
    put(fixture->store, "g/a10", "");
    put(fixture->store, "g/a9", "");
    put(fixture->store, "g/.zgroup", "");
    put(fixture->store, "g/.penstock-partial-0000000000000000", "left by a writer that died");
    assert_int_equal(symlink("b", join(fixture, "g/link")), 0);
    struct names names = {.stop_after = -1};
    assert_int_equal(store_list(fixture->store, "g", note, &names, NULL), STATUS_OK);
    assert_string_equal(names.text, ".zgroup a10 a9 b/ link/ ");
    names = (struct names){.stop_after = -1};
    assert_int_equal(store_list(fixture->store, "", note, &names, NULL), STATUS_OK);
    assert_string_equal(names.text, "g/ ");
    names = (struct names){.stop_after = 2};
    assert_int_equal(store_list(fixture->store, "g", note, &names, NULL), STATUS_INTERRUPTED);
    assert_string_equal(names.text, ".zgroup a10 ");
    assert_int_equal(store_list(fixture->store, "none", note, &names, NULL), STATUS_NOT_FOUND);
    assert_int_equal(store_list(fixture->store, "g/a9", note, &names, NULL), STATUS_NOT_FOUND);
}

static void test_usage_adds_up_and_ends(void **state)
{
    const struct fixture *fixture = *state;
    struct store_usage usage;
    put(fixture->store, "a/0", "12345");
    put(fixture->store, "a/b/1", "123");
    put(fixture->store, "other", "1");
    assert_int_equal(symlink("..", join(fixture, "a/up")), 0);
    assert_int_equal(symlink("0", join(fixture, "a/same")), 0);
    assert_int_equal(store_usage(fixture->store, "a", 1, &usage, NULL), STATUS_OK);
    assert_int_equal(usage.bytes, 13);
    assert_int_equal(usage.count, 3);
    assert_int_equal(store_usage(fixture->store, "", 1, &usage, NULL), STATUS_OK);
    assert_int_equal(usage.bytes, 14);
    assert_int_equal(store_usage(fixture->store, "none", 1, &usage, NULL), STATUS_NOT_FOUND);
}

static void test_stat_tells_size_and_version(void **state)
{
    const struct fixture *fixture = *state;
    struct store_info info = {0}, later = {0};
    struct timespec times[2] = {{1, 0}, {1, 1}};
    put(fixture->store, "a/0", "12345");
    assert_int_equal(store_stat(fixture->store, "a/0", &info, NULL), STATUS_OK);
    assert_int_equal(info.bytes, 5);
    assert_int_equal(utimensat(AT_FDCWD, join(fixture, "a/0"), times, 0), 0);
    assert_int_equal(store_stat(fixture->store, "a/0", &later, NULL), STATUS_OK);
    assert_int_equal(later.bytes, 5);
    assert_true(info.version != later.version);
    assert_int_equal(store_stat(fixture->store, "a/0", &info, NULL), STATUS_OK);
    assert_true(info.version == later.version);
    assert_int_equal(store_stat(fixture->store, "a/1", &info, NULL), STATUS_NOT_FOUND);
    assert_int_equal(store_stat(fixture->store, "a", &info, NULL), STATUS_IO);
    assert_int_equal(store_stat(fixture->store, "../a", &info, NULL), STATUS_INVALID);
}

/* However the uri is spelt. */
static void test_identity(void **state)
{
    const struct fixture *fixture = *state;
    struct text first = {0};
    put(fixture->store, "d.zarr/x", "");
    put(fixture->store, "e.zarr/x", "");
    assert_int_equal(symlink("d.zarr", join(fixture, "link")), 0);
    static const char *const names[] = {"d.zarr", "d.zarr/", "./e.zarr/../d.zarr", "link",
                                        "e.zarr"};
    for (size_t i = 0; i < 5; i++) {
        struct store *store = NULL;
        struct text text = {0};
        assert_int_equal(store_open(join(fixture, names[i]), &store, NULL), STATUS_OK);
        assert_int_equal(store_identify(store, &text, NULL), STATUS_OK);
        if (i == 0)
            text_append(&first, "%s", text.data);
        assert_int_equal(strcmp(first.data, text.data) == 0, i < 4);
        text_done(&text);
        store_free(store);
    }
    text_done(&first);
}

static void test_uris(void **state)
{
    const struct fixture *fixture = *state;
    struct store *store = NULL;
    struct error err;
    char uri[128];
    snprintf(uri, sizeof uri, "file://%s", fixture->path);
    assert_int_equal(store_open(uri, &store, &err), STATUS_OK);
    assert_string_equal(store_uri(store), uri);
    store_free(store);
    store = NULL;
    put(fixture->store, "plain", "");
    put(fixture->store, "pack.zip", "PK");
    assert_int_equal(store_open(join(fixture, "plain"), &store, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "/plain' is a file"));
    assert_int_equal(store_open(join(fixture, "pack.zip"), &store, &err), STATUS_CORRUPT);
    assert_non_null(
        strstr(err.message, "there is no end record: it was cut off, or is not a zip archive"));
    assert_int_equal(store_open(join(fixture, "none.zip"), &store, &err), STATUS_NOT_FOUND);
    assert_int_equal(store_open("gcs://bucket/a.zarr", &store, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'gcs://bucket/a.zarr': gcs stores are not supported"));
    assert_int_equal(store_open("https:///a", &store, &err), STATUS_INVALID);
    assert_int_equal(store_open("", &store, &err), STATUS_INVALID);
    assert_null(store);
}

static void test_file_uris(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *before, *after, *message; /* around the store's path; NULL: opens */
    } cases[] = {{"file://", "/a%20b%25", NULL},
                 {"file://localhost", "/a%20b%25", NULL},
                 {"FILE:", "/a%20b%25", NULL},
                 {"", "/a b%", NULL},
                 {"", "/a%20b%25", "no such directory"},
                 {"file://", "/a b%", "write %25"},
                 {"file://", "/a%zz", "write %25"},
                 {"file://", "/a%00", "write %25"},
                 {"file://host", "", "'host' is a host"},
                 {"file:relative", "", "without file:"},
                 {"file:", NULL, "without file:"}};
    put(fixture->store, "a b%/x", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = NULL;
        struct error err;
        char uri[256];
        bool has_path = cases[i].after != NULL;
        snprintf(uri, sizeof uri, "%s%s%s", cases[i].before, has_path ? fixture->path : "",
                 has_path ? cases[i].after : "");
        enum status status = store_open(uri, &store, &err);
        if (cases[i].message ? status == STATUS_OK || !strstr(err.message, cases[i].message)
                             : status)
            fail_msg("'%s': %s", uri, status != STATUS_OK ? err.message : "opens");
        store_free(store);
    }
}

static void test_other_schemes(void **state)
{
    static const struct {
        const char *uri, *message;
    } cases[] = {{"gcs://b/x", "gcs stores are not supported: write gs://BUCKET/PATH"},
                 {"azure://c/x", "azure stores are not supported: write az://CONTAINER/PATH"},
                 {"s3a://b/x", "write s3://BUCKET/PATH"},
                 {"S3://b/x", "small letters"},
                 {"memory://x", "write it to a directory"},
                 {"hdfs://h/x", "copy it to a directory"},
                 {"what://h/x", "what stores are not supported; supported are"},
                 {"zip::s3://b/x.zip", "chained uris"},
                 {"simplecache::gs://b/x", "chained uris"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = NULL;
        struct error err;
        if (store_open(cases[i].uri, &store, &err) != STATUS_UNSUPPORTED ||
            !strstr(err.message, cases[i].message))
            fail_msg("'%s': %s", cases[i].uri, err.message);
    }
}

/* A file that is no zip archive is named by how it begins. */
static void test_files_of_other_formats(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *start, *message;
    } cases[] = {{"\x89HDF\r\n\x1a\n", "an HDF5 or NetCDF 4 file"},
                 {"CDF\1", "a NetCDF file"},
                 {"PAR1", "'penstock import parquet'"},
                 {"\x93NUMPY", "a NumPy file"},
                 {"\x1f\x8b", "gzip has packed"},
                 {"{\"version\": 1, \"refs\": {}}", "kerchunk's references"},
                 {"\n<!DOCTYPE html>", "an HTML or XML page"},
                 {"something", "is a file: name the directory"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct store *store = NULL;
        struct error err;
        put(fixture->store, "other.zarr", cases[i].start);
        if (store_open(join(fixture, "other.zarr"), &store, &err) != STATUS_INVALID ||
            !strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].message, err.message);
    }
    /* An archive by its start: an empty one, whose end record is all there is. */
    static const char empty[22] = "PK\5\6";
    struct store *store;
    struct error err;
    assert_int_equal(store_put(fixture->store, "other.zarr", empty, sizeof empty, &err), STATUS_OK);
    assert_int_equal(store_open(join(fixture, "other.zarr"), &store, &err), STATUS_OK);
    assert_true(store_is_archive(store));
    store_free(store);
}

static void test_create_deletes_only_zarr_hierarchies(void **state)
{
    const struct fixture *fixture = *state;
    struct store *store = NULL;
    struct error err;
    struct store_usage usage;
    char path[160];
    snprintf(path, sizeof path, "%s", join(fixture, "new.zarr"));
    assert_int_equal(store_create(path, false, &store, &err), STATUS_OK);
    put(store, "x/c/0", "data");
    store_free(store);
    assert_int_equal(store_create(path, false, &store, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "exists and is not empty"));
    assert_int_equal(store_create(path, true, &store, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "no Zarr metadata"));
    assert_int_equal(access(join(fixture, "new.zarr/x/c/0"), F_OK), 0);
    put(fixture->store, "new.zarr/zarr.json", "{}");
    put(fixture->store, "kept", "outside");
    assert_int_equal(symlink("../..", join(fixture, "new.zarr/x/outside")), 0);
    assert_int_equal(store_create(path, false, &store, &err), STATUS_INVALID);
    assert_int_equal(store_create(path, true, &store, &err), STATUS_OK);
    assert_int_equal(store_usage(store, "", 1, &usage, NULL), STATUS_OK);
    assert_int_equal(usage.count, 0);
    store_free(store);
    assert_int_equal(access(join(fixture, "kept"), F_OK), 0);
    assert_int_equal(store_create(join(fixture, "kept"), true, &store, &err), STATUS_INVALID);
    assert_int_equal(store_create(join(fixture, "no/such/parent"), true, &store, &err), STATUS_IO);
}

static void test_a_failed_put_leaves_nothing(void **state)
{
    const struct fixture *fixture = *state;
    struct error err;
    struct names names = {.stop_after = -1};
    put(fixture->store, "folder/value", "x");
    assert_int_equal(store_put(fixture->store, "folder", "y", 1, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "rename"));
    assert_int_equal(store_put(fixture->store, "folder/value/below", "y", 1, &err), STATUS_IO);
    assert_int_equal(store_list(fixture->store, "", note, &names, NULL), STATUS_OK);
    assert_string_equal(names.text, "folder/ ");
    struct store_usage usage;
    assert_int_equal(store_usage(fixture->store, "", 1, &usage, NULL), STATUS_OK);
    assert_int_equal(usage.count, 1);
}

/* Readers fill missing chunks: a store that is gone must not look like one that is full of them. */
static void test_a_removed_store_is_not_an_empty_one(void **state)
{
    const struct fixture *fixture = *state;
    struct store *store = NULL;
    struct error err;
    char buffer[4];
    size_t size = 0;
    assert_int_equal(store_create(join(fixture, "gone.zarr"), false, &store, &err), STATUS_OK);
    assert_int_equal(store_get(store, "c/0", buffer, sizeof buffer, &size, &err), STATUS_NOT_FOUND);
    assert_int_equal(rmdir(join(fixture, "gone.zarr")), 0);
    assert_int_equal(store_get(store, "c/0", buffer, sizeof buffer, &size, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "removed while in use"));
    store_free(store);
}

enum { WRITERS = 3, ROUNDS = 200, VALUE_BYTES = 20000 };

/* Writes one key again and again, with a value of equal bytes, and reads it: never a mixture. */
static void *write_and_read(void *argument)
{
    const struct store *store = argument;
    char value[VALUE_BYTES], seen[VALUE_BYTES];
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = 0;
        memset(value, 'a' + round % 26, sizeof value);
        if (store_put(store, "shared/key", value, sizeof value, NULL) != STATUS_OK ||
            store_get(store, "shared/key", seen, sizeof seen, &size, NULL) != STATUS_OK ||
            size != sizeof seen)
            return "put or get failed";
        if (memcmp(seen, seen + 1, sizeof seen - 1) != 0)
            return "two writers' bytes in one value";
    }
    return NULL;
}

static void test_writers_and_readers_at_once(void **state)
{
    const struct fixture *fixture = *state;
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_read, fixture->store), 0);
    for (int i = 0; i < WRITERS; i++) {
        void *failure = NULL;
        pthread_join(threads[i], &failure);
        if (failure)
            fail_msg("%s", (const char *)failure);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_get_returns_what_was_put),
        TEST(test_a_missing_key_is_not_found_and_only_that),
        TEST(test_links_to_nothing),
        TEST(test_a_missing_key_takes_two_looks),
        TEST(test_a_value_longer_than_expected_is_corrupt),
        TEST(test_pieces),
        TEST(test_text_is_terminated),
        TEST(test_keys_that_leave_the_store_are_refused),
        TEST(test_a_listing_is_sorted_and_tells_folders),
        TEST(test_usage_adds_up_and_ends),
        TEST(test_stat_tells_size_and_version),
        TEST(test_identity),
        TEST(test_uris),
        TEST(test_file_uris),
        TEST(test_other_schemes),
        TEST(test_files_of_other_formats),
        TEST(test_create_deletes_only_zarr_hierarchies),
        TEST(test_a_failed_put_leaves_nothing),
        TEST(test_a_removed_store_is_not_an_empty_one),
        TEST(test_writers_and_readers_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
