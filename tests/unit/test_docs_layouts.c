/* docs/inside/layouts.md shows shared structs, messages and kinds as the code has them. The tables
 * of docs_layouts.h name the members. The text of the sources tells whether a table has all of
 * them. Of structs that only one source knows, the test looks at the files that they make. */
#include "docs_layouts.h"

#include "delivery/client/cursor_file.h"

#include <ctype.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "docs_page.h"

enum { MOST_ROWS = 24, LINE_BYTES = 256, LIST_BYTES = 1024 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The page
 * ---------------------------------------------------------------------------------------------- */

static char *page; /* of all tests */

struct rows {
    size_t count;
    char lines[MOST_ROWS][LINE_BYTES];
};

/* The lines that begin with a number, from the one that begins with `start` to an empty one. */
static void rows_from(const char *start, struct rows *ret_rows)
{
    char wanted[LINE_BYTES];
    snprintf(wanted, sizeof wanted, "\n%s", start);
    const char *at = strstr(page, wanted);
    if (!at)
        fail_msg("the page has no line '%s'", start);
    ret_rows->count = 0;
    for (at++; *at != '\n'; at = strchr(at, '\n') + 1) {
        if (!isdigit((unsigned char)at[strspn(at, " ")]))
            continue;
        assert_true(ret_rows->count < MOST_ROWS);
        snprintf(ret_rows->lines[ret_rows->count++], LINE_BYTES, "%.*s", (int)strcspn(at, "\n"),
                 at);
    }
}

static void rows_of_struct(const char *name, size_t bytes, struct rows *ret_rows)
{
    char start[LINE_BYTES];
    snprintf(start, sizeof start, "    struct %s, %zu bytes", name, bytes);
    rows_from(start, ret_rows);
}

struct row {
    size_t offset;
    char type[32], name[32], value[32]; /* the first word behind the name */
};

static struct row parse_row(const char *line)
{
    struct row row = {0};
    if (sscanf(line, " %zu %31s %31s %31s", &row.offset, row.type, row.name, row.value) < 3)
        fail_msg("the page's row '%s' is no offset, type and name", line);
    return row;
}

/* The member as the page writes it: "shape[8]". */
static void print_name(const struct member *member, char *text, size_t size)
{
    if (member->bytes == member->type_bytes)
        snprintf(text, size, "%s", member->name);
    else
        snprintf(text, size, "%s[%zu]", member->name, member->bytes / member->type_bytes);
}

static void check_row(const struct shared *shared, const struct member *member, const char *line)
{
    struct row row = parse_row(line);
    char name[LINE_BYTES];
    print_name(member, name, sizeof name);
    if (row.offset != member->offset || strcmp(row.type, member->type) != 0 ||
        strcmp(row.name, name) != 0)
        fail_msg("struct %s has %zu %s %s, the page has '%s'", shared->name, member->offset,
                 member->type, name, line);
}

static size_t member_count(const struct shared *shared)
{
    size_t count = 0;
    while (count < MOST_MEMBERS && shared->members[count].name)
        count++;
    return count;
}

static void page_has_each_struct(void **state)
{
    (void)state;
    struct rows rows;
    for (size_t i = 0; i < COUNT(structs); i++) {
        rows_of_struct(structs[i].name, structs[i].bytes, &rows);
        for (size_t m = 0; m < rows.count && m < member_count(&structs[i]); m++)
            check_row(&structs[i], &structs[i].members[m], rows.lines[m]);
        if (rows.count != member_count(&structs[i]))
            fail_msg("struct %s has %zu members, the page has %zu", structs[i].name,
                     member_count(&structs[i]), rows.count);
    }
}

/* "u64 epoch, u64 step" */
static void print_body(const struct shared *shared, char body[LIST_BYTES])
{
    body[0] = '\0';
    for (size_t m = 0; m < member_count(shared); m++) {
        char name[LINE_BYTES];
        print_name(&shared->members[m], name, sizeof name);
        snprintf(body + strlen(body), LIST_BYTES - strlen(body), "%s%s %s", m ? ", " : "",
                 shared->members[m].type, name);
    }
}

static void page_has_each_message(void **state)
{
    (void)state;
    struct rows rows;
    rows_from("     1 HELLO ", &rows);
    assert_int_equal(rows.count, COUNT(messages));
    for (size_t i = 0; i < rows.count; i++) {
        char body[LIST_BYTES], name[32], from[32];
        uint32_t type = 0;
        int at = 0;
        print_body(&messages[i].body, body);
        if (sscanf(rows.lines[i], " %" SCNu32 " %31s %31s %n", &type, name, from, &at) != 3 ||
            type != messages[i].type || strcmp(name, messages[i].name) != 0 ||
            strcmp(rows.lines[i] + at, body) != 0)
            fail_msg("message %" PRIu32 " %s has '%s', the page has '%s'", messages[i].type,
                     messages[i].name, body, rows.lines[i]);
    }
}

static void page_has_each_kind(void **state)
{
    (void)state;
    struct rows rows;
    for (size_t i = 0; i < COUNT(lists); i++) {
        char text[LINE_BYTES];
        size_t k = 0;
        snprintf(text, sizeof text, "    0 %s ", lists[i].kinds[0].name);
        rows_from(text, &rows);
        for (; lists[i].kinds[k].name; k++) {
            snprintf(text, sizeof text, "    %d %s ", lists[i].kinds[k].number,
                     lists[i].kinds[k].name);
            if (k >= rows.count || strncmp(rows.lines[k], text, strlen(text)) != 0)
                fail_msg("the page has no row '%s'", text);
        }
        assert_int_equal(rows.count, k);
    }
}

static struct row row_of(const char *in, const char *member)
{
    struct rows rows;
    char start[LINE_BYTES];
    snprintf(start, sizeof start, "    struct %s, ", in);
    rows_from(start, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        struct row row = parse_row(rows.lines[i]);
        row.name[strcspn(row.name, "[")] = '\0';
        if (strcmp(row.name, member) == 0)
            return row;
    }
    fail_msg("the page has no '%s' of struct %s", member, in);
    return (struct row){0};
}

static void check_value(const struct value *value)
{
    struct row row = row_of(value->in, value->member);
    char expected[32];
    row.value[strcspn(row.value, ";")] = '\0';
    if (value->is_text)
        snprintf(expected, sizeof expected, "\"%.8s\"", (const char *)&value->number);
    else
        snprintf(expected, sizeof expected, "%" PRIu64, value->number);
    if (strcmp(row.value, expected) != 0)
        fail_msg("'%s' of struct %s is %s, on the page %s", value->member, value->in, expected,
                 row.value);
}

static void page_has_each_value(void **state)
{
    (void)state;
    char version[32];
    for (size_t i = 0; i < COUNT(values); i++)
        check_value(&values[i]);
    snprintf(version, sizeof version, "{\"version\":%d,\"dataset\":", ORDER_STATE_VERSION);
    if (!strstr(page, version))
        fail_msg("the page has no state that begins with %s", version);
}

/* The sources
 * ---------------------------------------------------------------------------------------------- */

/* Removes comments, and what is behind the definition that begins at `text`. A union's members are
 * no names of the struct's. */
static void leave_definition(char *text)
{
    char *end = strstr(text, "\n};"), *inner = strstr(text, "union {");
    assert_non_null(end);
    *(inner && inner < end ? inner : end) = '\0';
    for (char *at; (at = strstr(text, "/*"));)
        memset(at, ' ', (size_t)(strstr(at, "*/") + 2 - at));
}

/* The names that a definition declares, with a blank behind each: what stands before , ; [ or =. A
 * count at the end of an enum has none of these. */
static void names_in_source(const char *file, const char *definition, char names[LIST_BYTES])
{
    char path[LINE_BYTES], start[LINE_BYTES];
    snprintf(path, sizeof path, PENSTOCK_SOURCE_DIR "/%s", file);
    snprintf(start, sizeof start, "\n%s {", definition);
    char *source = docs_page_read(path), *text = strstr(source, start);
    if (!text)
        fail_msg("%s has no '%s'", file, definition);
    text += strlen(start);
    leave_definition(text);
    names[0] = '\0';
    for (const char *at = text; *(at += strcspn(at, ",;[=")); at++) {
        const char *end = at, *begin;
        while (end > text && isspace((unsigned char)end[-1]))
            end--;
        for (begin = end; begin > text && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_');)
            begin--;
        if (begin < end && !isdigit((unsigned char)*begin))
            snprintf(names + strlen(names), LIST_BYTES - strlen(names), "%.*s ", (int)(end - begin),
                     begin);
    }
    free(source);
}

static void check_names(const struct shared *shared)
{
    char definition[LINE_BYTES], names[LIST_BYTES], expected[LIST_BYTES] = "";
    snprintf(definition, sizeof definition, "struct %s", shared->name);
    names_in_source(shared->file, definition, names);
    for (size_t m = 0; m < member_count(shared); m++)
        snprintf(expected + strlen(expected), LIST_BYTES - strlen(expected), "%s ",
                 shared->members[m].name);
    if (strcmp(names, expected) != 0)
        fail_msg("%s of %s has the members '%s', this test has '%s'", definition, shared->file,
                 names, expected);
}

static void structs_have_no_other_members(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(structs); i++)
        check_names(&structs[i]);
    for (size_t i = 0; i < COUNT(messages); i++)
        if (messages[i].body.name)
            check_names(&messages[i].body);
}

static void enums_have_no_other_kinds(void **state)
{
    (void)state;
    char names[LIST_BYTES], expected[LIST_BYTES] = "";
    for (size_t i = 0; i < COUNT(messages); i++)
        snprintf(expected + strlen(expected), LIST_BYTES - strlen(expected), "PROTOCOL_%s ",
                 messages[i].name);
    names_in_source(PROTOCOL, "enum protocol_type", names);
    assert_string_equal(names, expected);
    for (size_t i = 0; i < COUNT(lists); i++) {
        char definition[LINE_BYTES];
        expected[0] = '\0';
        for (size_t k = 0; lists[i].kinds[k].name; k++)
            snprintf(expected + strlen(expected), LIST_BYTES - strlen(expected), "%s ",
                     lists[i].kinds[k].name);
        snprintf(definition, sizeof definition, "enum %s", lists[i].enum_name);
        names_in_source(lists[i].file, definition, names);
        assert_string_equal(names, expected);
    }
}

/* Files that only their writers know
 * ---------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/penstock-test-XXXXXX";
static int folder_fd;

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    page = docs_page_read(PENSTOCK_SOURCE_DIR "/docs/inside/layouts.md");
    if (!mkdtemp(folder))
        return -1;
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder_fd < 0;
}

static int clean_up(void **state)
{
    (void)state;
    free(page);
    close(folder_fd);
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The file's bytes, `size` at least; its size is *ret_size. */
static void read_file(const char *name, void *bytes, size_t size, size_t *ret_size)
{
    struct stat info;
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(pread(fd, bytes, size, 0), size);
    *ret_size = (size_t)info.st_size;
    close(fd);
}

static void heads_of_metrics(void **state)
{
    (void)state;
    struct metrics_snapshot snapshot = {.reader = 1};
    struct metrics_overview overview;
    struct metrics_file_head head;
    struct metrics_overview_head all;
    size_t size;
    int fd;
    assert_int_equal(metrics_file_create(folder_fd, 0, &fd, NULL), STATUS_OK);
    metrics_file_write(fd, &snapshot);
    close(fd);
    read_file("reader-0.metrics", &head, sizeof head, &size);
    check_value(&(struct value){"metrics_file_head", "magic", head.magic, true});
    check_value(&(struct value){"metrics_file_head", "version", head.version, false});

    assert_int_equal(metrics_overview_create(folder_fd, 2, 0, &overview, NULL), STATUS_OK);
    metrics_overview_close(&overview);
    read_file("reader-0.overview", &all, sizeof all, &size);
    check_value(&(struct value){"metrics_overview_head", "magic", all.magic, true});
    check_value(&(struct value){"metrics_overview_head", "version", all.version, false});
    char begins[32];
    snprintf(begins, sizeof begins, "at %" PRIu64 "+r·page_bytes",
             size - all.reader_count * all.page_bytes);
    if (!strstr(page, begins))
        fail_msg("the page does not say that pages begin '%s'", begins);
}

/* A number of a private struct, at the offset that the page says. */
static uint64_t number_at(const void *file, const char *in, const char *member)
{
    uint64_t number;
    memcpy(&number, (const char *)file + row_of(in, member).offset, sizeof number);
    return number;
}

/* The page has the private struct's members, and no others. */
static void check_private(const char *file, const char *name, size_t bytes)
{
    struct rows rows;
    char definition[LINE_BYTES], names[LIST_BYTES], on_page[LIST_BYTES] = "";
    rows_of_struct(name, bytes, &rows);
    for (size_t i = 0; i < rows.count; i++) {
        struct row row = parse_row(rows.lines[i]);
        snprintf(on_page + strlen(on_page), LIST_BYTES - strlen(on_page), "%.*s ",
                 (int)strcspn(row.name, "["), row.name);
    }
    snprintf(definition, sizeof definition, "struct %s", name);
    names_in_source(file, definition, names);
    assert_string_equal(on_page, names);
}

static void file_of_a_cursor(void **state)
{
    (void)state;
    const struct ring_service service = {.steps_per_epoch = 7, .order = {.id = 8, .locality = 9}};
    char prefix[64];
    unsigned char file[72];
    size_t size;
    snprintf(prefix, sizeof prefix, "%s/cursor-", folder);
    struct cursor_file *cursor_file = cursor_file_open(prefix, 3, &service, 11);
    assert_non_null(cursor_file);
    cursor_file_close(cursor_file);
    read_file("cursor-3", file, sizeof file, &size);
    check_private(CURSOR, "content", size);
    check_value(&(struct value){"content", "magic", number_at(file, "content", "magic"), true});
    assert_memory_equal(file + row_of("content", "order").offset, &service.order,
                        sizeof service.order);
    assert_int_equal(number_at(file, "content", "steps_per_epoch"), 7);
    assert_int_equal(number_at(file, "content", "cursor"), 11);
}

static void files_of_a_disk_cache(void **state)
{
    (void)state;
    char path[64], pattern[80];
    unsigned char file[100];
    struct table table;
    struct disk_cache *cache;
    glob_t found;
    size_t size;
    snprintf(path, sizeof path, "%s/cache", folder);
    snprintf(pattern, sizeof pattern, "%s/*/[0-9a-f]*/*", path);
    const struct disk_cache_options options = {path, 1 << 20, 7};
    assert_int_equal(disk_cache_open(&options, &cache, NULL), STATUS_OK);
    disk_cache_put(cache, "a/c/0", "twelve bytes", 12);
    disk_cache_free(cache);
    read_file("cache/table", &table, sizeof table, &size);
    check_value(&(struct value){"table", "magic", table.magic, true});
    assert_int_equal(size, sizeof table);

    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    read_file(found.gl_pathv[0], file, 76, &size);
    globfree(&found);
    check_private(VALUE, "value_header", size - 12);
    check_value(
        &(struct value){"value_header", "magic", number_at(file, "value_header", "magic"), true});
    assert_int_equal(number_at(file, "value_header", "dataset"), 7);
    assert_int_equal(number_at(file, "value_header", "bytes"), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_has_each_struct),
        cmocka_unit_test(page_has_each_message),
        cmocka_unit_test(page_has_each_kind),
        cmocka_unit_test(page_has_each_value),
        cmocka_unit_test(structs_have_no_other_members),
        cmocka_unit_test(enums_have_no_other_kinds),
        cmocka_unit_test(heads_of_metrics),
        cmocka_unit_test(file_of_a_cursor),
        cmocka_unit_test(files_of_a_disk_cache),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
