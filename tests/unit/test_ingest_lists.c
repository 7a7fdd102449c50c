/* Lists of videos, and rows of numbers for them. */
#include "directory_fixture.h"

#include "workshop/ingest/text_rows.h"
#include "workshop/ingest/video_list.h"

#include <sys/stat.h>

static struct video_list read_list(const struct fixture *fixture, const char *name,
                                   const char *text)
{
    struct video_list list;
    struct error err;
    put(fixture->store, name, text);
    if (video_list_read(join(fixture, name), &list, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return list;
}

static void expect_video(const struct fixture *fixture, const struct video_list *list, size_t i,
                         const char *path, const char *name)
{
    assert_true(i < list->count);
    assert_string_equal(list->videos[i].path, *path == '/' ? path : join(fixture, path));
    assert_string_equal(list->videos[i].name, name);
}

static void a_text_has_a_path_a_line(void **state)
{
    const struct fixture *fixture = *state;
    struct video_list list = read_list(fixture, "list.txt",
                                       "\xef\xbb\xbf"
                                       "# comment\n a, b.mp4\t\r\n\n/c.mp4\nd/e.mp4");
    assert_int_equal(list.count, 3);
    expect_video(fixture, &list, 0, "a, b.mp4", "a, b.mp4");
    expect_video(fixture, &list, 1, "/c.mp4", "/c.mp4");
    expect_video(fixture, &list, 2, "d/e.mp4", "d/e.mp4");
    video_list_done(&list);
}

static void a_csv_has_columns(void **state)
{
    const struct fixture *fixture = *state;
    struct video_list list = read_list(fixture, "list.csv",
                                       "\xef\xbb\xbfname,more,path\r\n"
                                       "\"a \"\"b\"\", c\",x,d.mp4\r\n,,\"e,f.mp4\"\n");
    assert_int_equal(list.count, 2);
    expect_video(fixture, &list, 0, "d.mp4", "a \"b\", c");
    expect_video(fixture, &list, 1, "e,f.mp4", "e,f.mp4");
    video_list_done(&list);
}

static void a_folder_is_read_by_name(void **state)
{
    const struct fixture *fixture = *state;
    struct video_list list;
    struct error err;
    put(fixture->store, "b.mp4", "");
    put(fixture->store, "a10.mp4", "");
    put(fixture->store, "a9.mp4", "");
    put(fixture->store, ".hidden", "");
    assert_int_equal(mkdir(join(fixture, "below"), 0700), 0);
    assert_int_equal(video_list_read(fixture->path, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 3);
    expect_video(fixture, &list, 0, "a10.mp4", "a10.mp4");
    expect_video(fixture, &list, 1, "a9.mp4", "a9.mp4");
    expect_video(fixture, &list, 2, "b.mp4", "b.mp4");
    video_list_done(&list);
}

static void refuse_list(const struct fixture *fixture, const char *name, const char *text,
                        size_t length, const char *message)
{
    struct video_list list;
    struct error err;
    assert_int_equal(store_put(fixture->store, name, text, length, &err), STATUS_OK);
    assert_int_equal(video_list_read(join(fixture, name), &list, &err), STATUS_INVALID);
    if (!strstr(err.message, message) || !strstr(err.message, name))
        fail_msg("'%s' does not say '%s'", err.message, message);
    video_list_done(&list);
}

static void other_lists_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *name, *text, *message;
        size_t length;
    } cases[] = {
        {"list.txt", "# nothing\n\n", "lists no videos", 11},
        {"list.txt", "a.mp4\nb\0c.mp4\n", "line 2 has a zero byte", 14},
        {"list.csv", "file\na.mp4\n", "names no column 'path'", 11},
        {"list.csv", "path,name\na.mp4,x\n,y\n", "video 2 has no path", 21},
        {"list.csv", "path\n", "lists no videos", 5},
    };
    struct video_list list;
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse_list(fixture, cases[i].name, cases[i].text, cases[i].length, cases[i].message);
    assert_int_equal(video_list_read(join(fixture, "nowhere"), &list, &err), STATUS_NOT_FOUND);
    video_list_done(&list);
}

/* An .npy file of version 1 with this header, and so many bytes of values: 0, 1, 2, ... */
static void put_npy(const struct fixture *fixture, const char *header, size_t value_bytes)
{
    unsigned char file[512];
    size_t length = strlen(header);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)length;
    file[9] = 0;
    memcpy(file + 10, header, length);
    for (size_t i = 0; i < value_bytes; i++)
        file[10 + length + i] = (unsigned char)i;
    assert_int_equal(store_put(fixture->store, "rows.npy", file, 10 + length + value_bytes, NULL),
                     STATUS_OK);
}

static void rows_come_from_npy(void **state)
{
    const struct fixture *fixture = *state;
    struct text_rows rows;
    struct error err;
    put_npy(fixture, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }\n", 12);
    if (text_rows_read(join(fixture, "rows.npy"), 2, &rows, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(rows.dtype, DTYPE_FLOAT16);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.length, 3);
    assert_memory_equal(rows.values, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b", 12);
    text_rows_done(&rows);
}

static void rows_come_from_csv(void **state)
{
    const struct fixture *fixture = *state;
    static const float expected[] = {1, -2.5f, 3e2f, 4};
    struct text_rows rows;
    struct error err;
    put(fixture->store, "rows.csv",
        "\xef\xbb\xbf"
        "1, -2.5\r\n\n3e2 ,4\n");
    if (text_rows_read(join(fixture, "rows.csv"), 2, &rows, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(rows.dtype, DTYPE_FLOAT32);
    assert_int_equal(rows.length, 2);
    assert_memory_equal(rows.values, expected, sizeof expected);
    text_rows_done(&rows);
}

static void refuse_rows(const struct fixture *fixture, const char *name, const char *message)
{
    struct text_rows rows;
    struct error err;
    assert_int_equal(text_rows_read(join(fixture, name), 2, &rows, &err), STATUS_INVALID);
    assert_null(rows.values);
    if (!strstr(err.message, message) || !strstr(err.message, name))
        fail_msg("'%s' does not say '%s'", err.message, message);
}

static void other_npy_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", "ends early"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }",
         "too large"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 8), }", "ends early"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", "neither float16"},
        {"{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3), }", "Fortran"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", "two axes"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1, 3), }", "two axes"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 3), }", "1 rows, and the list"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (3, 2), }", "3 rows, and the list"},
        {"{}", "damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_npy(fixture, cases[i].header, 12);
        refuse_rows(fixture, "rows.npy", cases[i].message);
    }
    put(fixture->store, "rows.npy", "1,2\n");
    refuse_rows(fixture, "rows.npy", "begins otherwise");
    put(fixture->store, "rows.txt", "1,2\n");
    refuse_rows(fixture, "rows.txt", "neither .npy nor .csv");
}

static void other_csv_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    static const struct {
        const char *text, *message;
        size_t length;
    } cases[] = {
        {"a,b\n1,2\n", "1 rows, and the list has 2", 8},
        {"1,2\n3\n", "line 2 has 1 numbers", 6},
        {"1,2\n3,x\n", "line 2 is not a row of numbers", 8},
        {"1,2\n3,\n", "line 2 is not a row of numbers", 7},
        {"1,2\n3,1e60\n", "line 2 is not a row of numbers", 11},
        {"1,2\n3,4\0,5\n", "line 2 is not a row of numbers", 11},
        {"\0\n1,2\n3,4\n", "line 1 is not a row of numbers", 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            store_put(fixture->store, "rows.csv", cases[i].text, cases[i].length, NULL), STATUS_OK);
        refuse_rows(fixture, "rows.csv", cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_text_has_a_path_a_line), TEST(a_csv_has_columns),     TEST(a_folder_is_read_by_name),
        TEST(other_lists_are_refused),  TEST(rows_come_from_npy),    TEST(rows_come_from_csv),
        TEST(other_npy_are_refused),    TEST(other_csv_are_refused),
    };
    return cmocka_run_group_tests_name("ingest: lists", tests, NULL, NULL);
}
