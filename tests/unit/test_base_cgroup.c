/* Control groups' memory limits, in trees as kernels and containers show them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/penstock-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void put(const char *path, const char *text)
{
    char command[512], full[256];
    snprintf(full, sizeof full, "%s%s", root, path);
    snprintf(command, sizeof command, "mkdir -p $(dirname %s)", full);
    assert_int_equal(system(command), 0);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_left(uint64_t left, uint64_t limit, const char *folder)
{
    struct cgroup_memory memory;
    assert_true(cgroup_memory(root, &memory));
    assert_int_equal(memory.left_bytes, left);
    assert_int_equal(memory.limit_bytes, limit);
    assert_string_equal(memory.path + strlen(root), folder);
}

/* A Slurm job: the limit is on a group in the middle. */
static void test_v2_above(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/system.slice/job_7/step_0/task_1\n");
    put("/proc/self/mountinfo",
        "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    put("/sys/fs/cgroup/system.slice/job_7/step_0/task_1/memory.max", "max\n");
    put("/sys/fs/cgroup/system.slice/job_7/memory.max", "1000000\n");
    put("/sys/fs/cgroup/system.slice/job_7/memory.current", "700000\n");
    put("/sys/fs/cgroup/system.slice/job_7/memory.stat",
        "anon 1\nfile 500\ninactive_file 40000\nactive_file 10000\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "9000000\n");
    put("/sys/fs/cgroup/system.slice/memory.current", "800000\n");
    expect_left(350000, 1000000, "/sys/fs/cgroup/system.slice/job_7");
    put("/sys/fs/cgroup/system.slice/job_7/memory.high", "800000\n"); /* what is above is slowed */
    expect_left(150000, 800000, "/sys/fs/cgroup/system.slice/job_7");
    put("/sys/fs/cgroup/system.slice/job_7/memory.current", "2000000\n");
    expect_left(0, 800000, "/sys/fs/cgroup/system.slice/job_7");
}

/* A container whose own group is the top of its mount, by its name outside or in. */
static void test_containers(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:cpu,memory:/docker/abc\n0::/\n");
    put("/proc/self/mountinfo",
        "40 30 0:9 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "cache 1\ninactive_file 77\ntotal_inactive_file 100000\ntotal_active_file 100000\n");
    expect_left(4200000, 5000000, "/sys/fs/cgroup/memory");
    put("/proc/self/cgroup", "4:memory:/\n");
    expect_left(4200000, 5000000, "/sys/fs/cgroup/memory");
}

/* The least of both versions counts; v1 says "none" by a large number. */
static void test_both_versions(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/a/b\n0::/c\n");
    put("/proc/self/mountinfo", "40 30 0:9 / /cg/memory rw - cgroup cgroup rw,memory\n"
                                "41 30 0:8 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n"
                                "42 30 0:7 / /cg/unified rw - cgroup2 cgroup2 rw\n");
    put("/cg/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    put("/cg/memory/a/memory.limit_in_bytes", "3000\n");
    put("/cg/memory/a/memory.usage_in_bytes", "500\n");
    put("/cg/unified/c/memory.max", "4000\n");
    put("/cg/unified/c/memory.current", "100\n");
    expect_left(2500, 3000, "/cg/memory/a");
    put("/cg/unified/c/memory.current", "2000\n");
    expect_left(2000, 4000, "/cg/unified/c");
}

static void test_none(void **state)
{
    (void)state;
    struct cgroup_memory memory;
    assert_false(cgroup_memory(root, &memory));
    put("/proc/self/cgroup", "garbage\n::\n4:memory\n0::/a\n");
    assert_false(cgroup_memory(root, &memory));
    put("/proc/self/mountinfo", "garbage\n - cgroup2\n1 2 3 / /cg rw - cgroup2 cgroup2 rw\n");
    assert_false(cgroup_memory(root, &memory));
    put("/cg/a/memory.max", "max\n");
    assert_false(cgroup_memory(root, &memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_v2_above, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_containers, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_both_versions, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_none, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
