/* The directory store past the page cache (store.direct): the same bytes, and a file system that
 * cannot. */
#include "directory_fixture.h"

#include "store/kind/watch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct store *open_direct(const char *path, struct store_watch *watch)
{
    struct store_settings settings = store_settings_default();
    const struct store_options options = {.settings = &settings, .watch = watch};
    struct store *store = NULL;
    settings.direct = true;
    assert_int_equal(store_open_with(path, &options, &store, NULL), STATUS_OK);
    return store;
}

/* Sizes around blocks, and room that ends within one, read like any others. */
static void test_direct_reads_give_the_same(void **state)
{
    enum { MIB = 1 << 20, MOST = 3 * MIB, GUARD = 64 };
    static const size_t sizes[] = {0, 1, 4096, MIB - 1, MIB, MIB + 1, 2 * MIB + 4096, MOST - 5};
    const struct fixture *fixture = *state;
    struct store *direct = open_direct(fixture->path, NULL);
    unsigned char *value = malloc(MOST), *room = aligned_alloc(4096, MOST + 4096);
    size_t size = 0;
    for (size_t i = 0; i < MOST; i++)
        value[i] = (unsigned char)(i * 31 + i / 4096);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t rooms[] = {sizes[i], sizes[i] + 1, MOST};
        assert_int_equal(store_put(fixture->store, "v", value, sizes[i], NULL), STATUS_OK);
        for (int k = 0; k < 3; k++)
            for (int misaligned = 0; misaligned < 2; misaligned++) {
                unsigned char *at = room + 64 * misaligned;
                memset(room, 0xa5, MOST + 4096);
                assert_int_equal(store_get(direct, "v", at, rooms[k], &size, NULL), STATUS_OK);
                assert_int_equal(size, sizes[i]);
                assert_memory_equal(at, value, size);
                for (int g = 0; g < GUARD; g++)
                    assert_int_equal(at[rooms[k] + (size_t)g], 0xa5);
            }
    }
    struct error err;
    assert_int_equal(store_get(direct, "v", room, MOST - 6, &size, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "/v' has 3145723 bytes, at most 3145722 can be right"));
    assert_int_equal(store_get(direct, "none", room, MOST, &size, &err), STATUS_NOT_FOUND);
    assert_int_equal(store_get(direct, "../v", room, MOST, &size, &err), STATUS_INVALID);
    store_free(direct);
    free(value);
    free(room);
}

static size_t cached_pages(const char *path, size_t bytes)
{
    unsigned char pages[512];
    size_t count = 0;
    int fd = open(path, O_RDONLY);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    assert_int_equal(mincore(map, bytes, pages), 0);
    for (size_t i = 0; i < bytes / 4096; i++)
        count += pages[i] & 1;
    munmap(map, bytes);
    close(fd);
    return count;
}

/* Whether what lies there can be dropped from the page cache, and be read past it. */
static bool can_be_read_directly(const char *path, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_DIRECT);
    if (fd < 0)
        return false;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return sysconf(_SC_PAGESIZE) == 4096 && cached_pages(path, bytes) == 0;
}

static void test_direct_reads_leave_the_page_cache_alone(void **state)
{
    enum { BYTES = 2 << 20 };
    const struct fixture *fixture = *state;
    static _Alignas(4096) unsigned char room[BYTES];
    size_t size;
    memset(room, 1, BYTES);
    assert_int_equal(store_put(fixture->store, "v", room, BYTES, NULL), STATUS_OK);
    if (!can_be_read_directly(join(fixture, "v"), BYTES)) {
        print_message("skipped: needs a disk below /tmp, and pages of 4 KiB\n");
        skip();
    }
    struct store *direct = open_direct(fixture->path, NULL);
    assert_int_equal(store_get(direct, "v", room, BYTES, &size, NULL), STATUS_OK);
    assert_in_range(cached_pages(join(fixture, "v"), BYTES), 0, 4); /* the end is looked for */
    assert_int_equal(store_get(fixture->store, "v", room, BYTES, &size, NULL), STATUS_OK);
    assert_in_range(cached_pages(join(fixture, "v"), BYTES), BYTES / 8192, BYTES / 4096);
    store_free(direct);
}

/* /proc does; a dataset could lie on anything. */
static void test_a_file_system_that_refuses_direct_reads(void **state)
{
    (void)state;
    enum { ROOM = 1 << 20 };
    struct store_watch *watch = NULL;
    struct error note;
    size_t size = 0, again = 0;
    unsigned char *room = aligned_alloc(4096, ROOM), *plain = aligned_alloc(4096, ROOM);
    struct store *proc = NULL;
    assert_int_equal(store_watch_new(&watch, NULL), STATUS_OK);
    assert_int_equal(store_open("/proc", &proc, NULL), STATUS_OK);
    struct store *direct = open_direct("/proc", watch);
    assert_false(store_watch_take_note(watch, &note));
    assert_int_equal(store_get(proc, "version", plain, ROOM, &again, NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_get(direct, "version", room, ROOM, &size, NULL), STATUS_OK);
        assert_int_equal(size, again);
        assert_memory_equal(room, plain, size);
        assert_int_equal(store_watch_take_note(watch, &note), i == 0);
    }
    assert_non_null(strstr(note.message, "'/proc/version': the file system refuses O_DIRECT"));
    store_free(proc);
    store_free(direct);
    store_watch_free(watch);
    free(room);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_direct_reads_give_the_same),
        TEST(test_direct_reads_leave_the_page_cache_alone),
        TEST(test_a_file_system_that_refuses_direct_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
