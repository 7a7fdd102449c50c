/* Replacing files whole: what is there before, after and when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/penstock-file-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void assert_content(const char *path, const char *expected)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_int_equal(size, strlen(expected));
    assert_string_equal(text, expected);
}

static int count_files(void)
{
    int count = 0;
    DIR *stream = opendir(folder);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return count;
}

static void test_new_and_replaced(void **state)
{
    (void)state;
    struct error err;
    struct stat info;
    const char *path = in_folder("report");
    assert_int_equal(file_replace(path, "long content", 12, &err), STATUS_OK);
    assert_content(path, "long content");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(file_replace(path, "short", 5, &err), STATUS_OK);
    assert_content(path, "short");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(count_files(), 1);
}

/* Somebody who has the old file open goes on reading the old content: it was not written over. */
static void test_readers_see_one_version(void **state)
{
    (void)state;
    struct error err;
    char text[8] = "";
    const char *path = in_folder("report");
    assert_int_equal(file_replace(path, "old", 3, &err), STATUS_OK);
    int fd = open(path, O_RDONLY);
    assert_int_equal(file_replace(path, "new one", 7, &err), STATUS_OK);
    assert_int_equal(read(fd, text, sizeof text), 3);
    assert_string_equal(text, "old");
    close(fd);
}

static void test_failures(void **state)
{
    (void)state;
    struct error err;
    const char *path = in_folder("none/report");
    assert_int_equal(file_check_writable(path, &err), STATUS_IO);
    assert_int_equal(file_replace(path, "x", 1, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "none/"));
    assert_non_null(strstr(err.message, "No such file"));
    assert_int_equal(mkdir(in_folder("a folder"), 0700), 0);
    assert_int_equal(file_replace(in_folder("a folder"), "x", 1, &err), STATUS_IO);
    assert_int_equal(count_files(), 1);
}

/* Devices are written to, never renamed over. */
static void test_devices(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(file_replace("/dev/full", "x", 1, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "No space left"));
    assert_int_equal(file_replace("/dev/null", "x", 1, &err), STATUS_OK);
    struct stat info;
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

static void test_check_leaves_nothing(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(file_check_writable(in_folder("later"), &err), STATUS_OK);
    assert_int_equal(count_files(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_and_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_readers_see_one_version, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_failures, make_folder, remove_folder),
        cmocka_unit_test(test_devices),
        cmocka_unit_test_setup_teardown(test_check_leaves_nothing, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
