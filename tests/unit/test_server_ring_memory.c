/* What rings are made of: huge pages that are set aside, transparent ones, or plain ones; and who
 * fills them. Huge pages are set aside by the test itself, which needs root. */
#include "delivery_support.h"

#include "base/memory.h"
#include "delivery/ring/ring.h"
#include "delivery/server/ring_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

static const char pool_path[] = "/proc/sys/vm/nr_hugepages";
static const char free_path[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/* Slots of 16 MiB and a little. */
static struct ring_layout huge_layout(uint32_t slots)
{
    struct ring_layout layout = {
        .field_count = 1, .slot_count = slots, .member_count = 1, .batch_size = 4};
    layout.fields[0] =
        (struct ring_field){.name = "image", .dtype = DTYPE_FLOAT32, .rank = 1, .shape = {1 << 20}};
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    return layout;
}

static long read_count(const char *path)
{
    long count = -1;
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%ld", &count) != 1)
        count = -1;
    if (file)
        fclose(file);
    return count;
}

static bool write_count(const char *path, long count)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    bool written = fprintf(file, "%ld", count) > 0;
    return fclose(file) == 0 && written;
}

/* Tests that set huge pages aside take turns: this lock is taken until it is closed; -1: there are
 * no huge pages. */
static int lock_pages(void)
{
    int fd = open("/sys/kernel/mm/hugepages", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        assert_int_equal(flock(fd, LOCK_EX), 0);
    return fd;
}

/* Sets aside so many more than there are free; false: that cannot be done here. */
static bool set_aside(long count, long *ret_before)
{
    *ret_before = read_count(pool_path);
    long left = read_count(free_path);
    if (*ret_before < 0 || left < 0 || !write_count(pool_path, *ret_before + count - left))
        return false;
    if (read_count(free_path) == count)
        return true;
    write_count(pool_path, *ret_before);
    return false;
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static const struct ring_member somebody = {.rank = 5, .is_there = 1, .fields = UINT64_MAX};

static struct ring create(const struct ring_layout *layout)
{
    struct ring_service service = support_service(1);
    struct ring ring;
    struct error error;
    if (ring_memory_create(layout, &service, &somebody, 1, NULL, NULL, &ring, &error) != STATUS_OK)
        fail_msg("%s", error.message);
    return ring;
}

/* The other side maps it, and each sees what the other writes, from the first byte to the last. */
static void check_both_ends(struct ring *ring, const struct ring_layout *layout)
{
    struct ring other;
    struct ring_header header;
    struct ring_member member;
    struct error error;
    if (ring_open(fcntl(ring->memfd, F_DUPFD_CLOEXEC, 0), 0, &other, &header, &member, &error) !=
        STATUS_OK)
        fail_msg("%s", error.message);
    assert_int_equal(ring->bytes, layout->total_bytes);
    assert_int_equal(other.bytes, layout->total_bytes);
    for (uint32_t slot = 0; slot < layout->slot_count; slot++) {
        unsigned char *mine = ring_slot(ring, slot), *theirs = ring_slot(&other, slot);
        mine[0] = (unsigned char)(slot + 1);
        theirs[layout->slot_stride - 1] = (unsigned char)(slot + 2);
        assert_int_equal(theirs[0], slot + 1);
        assert_int_equal(mine[layout->slot_stride - 1], slot + 2);
    }
    assert_int_equal(ftruncate(ring->memfd, 0), -1); /* sealed */
    ring_done(&other);
}

static void check_whole_pages(uint64_t offset, uint64_t bytes, uint64_t page_bytes, uint64_t begin,
                              uint64_t whole)
{
    uint64_t found;
    assert_int_equal(ring_whole_pages(offset, bytes, page_bytes, &found), whole);
    if (whole > 0)
        assert_int_equal(found, begin);
}

/* What is given back of a slot never reaches into its neighbours. */
static void test_whole_pages(void **state)
{
    (void)state;
    const uint64_t small = 4096, large = 65536, huge = MEMORY_HUGE_PAGE_BYTES;
    check_whole_pages(3 * small, 5 * small, small, 3 * small, 5 * small);
    check_whole_pages(3 * small, 5 * small, large, 0, 0);         /* within one */
    check_whole_pages(15 * small, 2 * small, large, 0, 0);        /* parts of two */
    check_whole_pages(large, large + small, large, large, large); /* all of one, and a part */
    check_whole_pages(small, 3 * large, large, large, 2 * large);
    check_whole_pages(huge, 2 * huge, small, huge, 2 * huge);
    check_whole_pages(huge, 2 * huge, large, huge, 2 * huge);
    check_whole_pages(huge, 2 * huge, huge, huge, 2 * huge);
    check_whole_pages(small, 2 * huge, huge, huge, huge);
}

static void test_set_aside(void **state)
{
    (void)state;
    struct ring_layout layout = huge_layout(2);
    assert_true(ring_layout_is_huge(&layout));
    assert_int_equal(layout.total_bytes % MEMORY_HUGE_PAGE_BYTES, 0);
    long pages = (long)(layout.total_bytes / MEMORY_HUGE_PAGE_BYTES), before = 0;
    int lock = lock_pages();
    if (lock < 0 || !set_aside(pages, &before)) {
        close(lock);
        print_message("no huge pages can be set aside here\n");
        skip();
    }
    struct ring ring = create(&layout);
    long left = read_count(free_path);
    struct ring second = create(&layout); /* too few are left: other pages, and no SIGBUS */
    struct stat info;
    bool described = fstat(ring.memfd, &info) == 0;
    check_both_ends(&ring, &layout);
    ring_give_back(&ring, 1);
    long given_back = read_count(free_path);
    bool restored = write_count(pool_path, before);
    assert_true(described && restored);
    assert_int_equal(ring.pages, RING_PAGES_HUGETLB);
    assert_int_equal(info.st_blksize, MEMORY_HUGE_PAGE_BYTES);
    assert_int_equal(left, 0);
    assert_int_not_equal(second.pages, RING_PAGES_HUGETLB);
    assert_int_equal(given_back, layout.slot_stride / MEMORY_HUGE_PAGE_BYTES);
    check_both_ends(&second, &layout);
    ring_done(&second);
    ring_done(&ring);
    assert_int_equal(read_count(pool_path), before);
    close(lock);
}

/* A number of kB that the kernel says of a mapping that begins at `memory`; -1: it says none. */
static long mapping_kib(const void *memory, const char *key)
{
    char line[512];
    long kib = -1;
    bool found = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    assert_non_null(file);
    while (kib < 0 && fgets(line, sizeof line, file)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            found = begin == (unsigned long)memory;
        else if (found && strncmp(line, key, strlen(key)) == 0)
            kib = strtol(line + strlen(key), NULL, 10);
    }
    fclose(file);
    return kib;
}

/* Where a file is mapped, so that its huge pages may be mapped whole. */
static bool is_aligned(const struct ring *ring)
{
    return (uintptr_t)ring->memory % MEMORY_HUGE_PAGE_BYTES == 0;
}

/* Whether the kernel makes a huge page of a file in memory where it is asked to. */
static bool kernel_collapses(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, MEMORY_HUGE_PAGE_BYTES), 0);
    unsigned char *memory = memory_map_file(fd, MEMORY_HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE);
    assert_true(memory != MAP_FAILED);
    memory[0] = 1;
    bool collapses = madvise(memory, MEMORY_HUGE_PAGE_BYTES, MADV_COLLAPSE) == 0;
    munmap(memory, MEMORY_HUGE_PAGE_BYTES);
    close(fd);
    return collapses;
}

static void check_transparent(const struct ring_layout *layout)
{
    struct ring ring = create(layout), other;
    struct ring_header header;
    struct ring_member member;
    struct error error;
    assert_true(is_aligned(&ring));
    if (ring_open(fcntl(ring.memfd, F_DUPFD_CLOEXEC, 0), 0, &other, &header, &member, &error) !=
        STATUS_OK)
        fail_msg("%s", error.message);
    assert_true(is_aligned(&other));
    if (ring.pages != RING_PAGES_HUGETLB) { /* somebody has set some aside */
        long kib = mapping_kib(ring.memory, "ShmemPmdMapped:");
        assert_int_equal(mapping_kib(ring.memory, "Rss:"), layout->total_bytes / 1024);
        assert_int_equal(ring.pages, RING_PAGES_TRANSPARENT);
        assert_true(kib * 1024 + 2 * MEMORY_HUGE_PAGE_BYTES > (long)layout->total_bytes);
    }
    check_both_ends(&ring, layout);
    ring_done(&other);
    ring_done(&ring);
}

/* 40 slots of a little more than 256 KiB. */
static struct ring_layout small_slots(void)
{
    struct ring_layout layout = {
        .field_count = 1, .slot_count = 40, .member_count = 1, .batch_size = 1};
    layout.fields[0] =
        (struct ring_field){.name = "image", .dtype = DTYPE_FLOAT32, .rank = 1, .shape = {65537}};
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    return layout;
}

static void test_transparent(void **state)
{
    (void)state;
    if (!kernel_collapses()) {
        print_message("this kernel makes no huge pages of a file in memory\n");
        skip();
    }
    struct ring_layout layout = huge_layout(1);
    check_transparent(&layout);
    layout = small_slots();
    assert_false(ring_layout_is_huge(&layout));
    check_transparent(&layout);
}

static void test_plain(void **state)
{
    (void)state;
    struct ring_layout layout = support_layout(3); /* no huge page fits */
    struct ring ring = create(&layout);
    assert_int_equal(ring.pages, RING_PAGES_PLAIN);
    check_both_ends(&ring, &layout);
    ring_done(&ring);
}

/* Of slots that share huge pages with others, too. */
static void test_slots_given_back(void **state)
{
    (void)state;
    struct ring_layout layout = small_slots();
    struct ring ring = create(&layout);
    struct stat all, left;
    assert_int_equal(fstat(ring.memfd, &all), 0);
    unsigned char *last = ring_slot(&ring, layout.slot_count - 1);
    last[0] = 7;
    for (uint32_t slot = 0; slot + 1 < layout.slot_count; slot++)
        ring_give_back(&ring, slot);
    assert_int_equal(fstat(ring.memfd, &left), 0);
    assert_int_equal(last[0], 7);
    assert_true(left.st_blocks * 512 <= (blkcnt_t)(layout.slot_stride + MEMORY_HUGE_PAGE_BYTES));
    assert_true(all.st_blocks * 512 >= (blkcnt_t)layout.total_bytes);
    ring_done(&ring);
}

struct filled {
    int calls, failure;
    uint32_t rank;
    size_t bytes;
};

static int fill(void *argument, uint32_t rank, void *memory, size_t bytes)
{
    struct filled *filled = argument;
    filled->calls++;
    filled->rank = rank;
    filled->bytes = bytes;
    return filled->failure ? filled->failure : memory_populate(memory, bytes);
}

static void test_who_fills(void **state)
{
    (void)state;
    struct ring_layout layout = support_layout(3);
    struct ring_service service = support_service(8);
    struct filled filled = {0};
    struct ring ring;
    struct error error;
    assert_int_equal(
        ring_memory_create(&layout, &service, &somebody, 1, fill, &filled, &ring, &error),
        STATUS_OK);
    assert_int_equal(filled.calls, 1);
    assert_int_equal(filled.rank, 5);
    assert_int_equal(filled.bytes, layout.total_bytes);
    ring_done(&ring);

    int before = descriptors();
    filled.failure = ENOMEM;
    assert_int_equal(
        ring_memory_create(&layout, &service, &somebody, 1, fill, &filled, &ring, &error),
        STATUS_NO_MEMORY);
    assert_non_null(strstr(error.message, "fill a ring of"));
    assert_int_equal(descriptors(), before);
}

static void test_what_is_said(void **state)
{
    (void)state;
    struct ring_layout layout = huge_layout(2);
    struct text text = {0};
    ring_memory_describe(&layout, (const uint64_t[]){0, 0, 8}, &text);
    assert_string_equal(text.data, "8 of 38.0 MiB: 8 of huge pages set aside (hugetlb)");
    text_done(&text);
    ring_memory_describe(&layout, (const uint64_t[]){2, 1, 8}, &text);
    assert_string_equal(
        text.data,
        "11 of 38.0 MiB: 8 of huge pages set aside (hugetlb), 1 of transparent huge pages, 2 of "
        "plain pages; as root, 'sysctl vm.nr_hugepages=19' (for each ring of a node) gives them "
        "huge ones");
    text_done(&text);
    layout = support_layout(3);
    ring_memory_describe(&layout, (const uint64_t[]){2, 0, 0}, &text);
    assert_non_null(strstr(text.data, ": 2 of plain pages"));
    assert_null(strstr(text.data, "as root"));
    text_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_pages),      cmocka_unit_test(test_set_aside),
        cmocka_unit_test(test_transparent),      cmocka_unit_test(test_plain),
        cmocka_unit_test(test_slots_given_back), cmocka_unit_test(test_who_fills),
        cmocka_unit_test(test_what_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
