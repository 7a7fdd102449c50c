/* References of kerchunk and VirtualiZarr: every form that is read, what is refused and why, and
 * where they may lead. Behind a network: mpi.references; by their writers: python.references. */
#include "directory_fixture.h"

#include "store/references/reference_json.h"
#include "store/references/reference_template.h"
#include "store/references/references.h"

#include <json-c/json.h>

enum { DATA_BYTES = 100 };

/* The file with references, and one that they lead to: bytes 0, 1, 2, ... */
static void put_files(struct fixture *fixture, const char *references)
{
    unsigned char data[DATA_BYTES];
    for (int i = 0; i < DATA_BYTES; i++)
        data[i] = (unsigned char)i;
    put(fixture->store, "refs.json", references);
    assert_int_equal(store_put(fixture->store, "d/data nc", data, sizeof data, NULL), STATUS_OK);
}

/* With the fixture's folder in every "%s". */
static void put_references(struct fixture *fixture, const char *format)
{
    struct text text = {0};
    for (const char *at = format, *mark; *at; at = mark + (*mark ? 2 : 0)) {
        mark = strstr(at, "%s");
        mark = mark ? mark : at + strlen(at);
        text_append_bytes(&text, at, (size_t)(mark - at));
        text_append(&text, "%s", *mark ? fixture->path : "");
    }
    put_files(fixture, text.data);
    text_done(&text);
}

static enum status open_with(struct fixture *fixture, const char *prefixes,
                             struct store **ret_store, struct error *err)
{
    struct store_settings settings = store_settings_default();
    const struct store_options options = {.settings = &settings};
    char uri[160];
    snprintf(uri, sizeof uri, "reference://%s/refs.json", fixture->path);
    snprintf(settings.virtual_prefixes, sizeof settings.virtual_prefixes, "%s", prefixes);
    return store_open_with(uri, &options, ret_store, err);
}

static struct store *open_references(struct fixture *fixture, const char *format)
{
    struct store *store = NULL;
    struct error err;
    put_references(fixture, format);
    if (open_with(fixture, fixture->path, &store, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return store;
}

static void expect_bytes(const struct store *store, const char *key, const void *value, size_t size)
{
    unsigned char got[DATA_BYTES];
    size_t got_size = 0;
    struct error err;
    if (store_get(store, key, got, sizeof got, &got_size, &err) != STATUS_OK)
        fail_msg("%s: %s", key, err.message);
    assert_int_equal(got_size, size);
    assert_memory_equal(got, value, size);
}

/* Bytes of the data file. */
static void expect_piece(const struct store *store, const char *key, int offset, size_t size)
{
    unsigned char value[DATA_BYTES];
    for (size_t i = 0; i < size; i++)
        value[i] = (unsigned char)(offset + (int)i);
    expect_bytes(store, key, value, size);
}

static void test_version_0(void **state)
{
    struct store *store = open_references(
        *state, " {\"x\\/.zarray\": {\"a\": [1e5, NaN, 0.10], \"b\" :2},\n"
                "\"x/0.0\": \"a\\u0000b\\u00fc\", \"x/0.1\": \"base64:AAECAw==\", \"x/1\": \"\",\n"
                "\"x/0.2\": [\"%s/d/data nc\", 7, 20], \"x/0.3\": [\"file://%s/d/data nc\"],\n"
                "\"s/\": [\"%s/d/data nc\", 99, 1], \"x/0.4\": [\"%s/d/data nc\", 3, 0]} ");
    expect_bytes(store, "x/.zarray", "{\"a\": [1e5, NaN, 0.10], \"b\" :2}", 31);
    expect_bytes(store, "x/0.0", "a\0b\xc3\xbc", 5);
    expect_bytes(store, "x/0.1", "\0\1\2\3", 4);
    expect_bytes(store, "x/1", "", 0);
    expect_piece(store, "x/0.2", 7, 20);
    expect_piece(store, "x/0.3", 0, DATA_BYTES);
    expect_piece(store, "x/0.4", 0, 0);
    expect_piece(store, "s/0", 99, 1); /* of an array without axes */
    assert_int_equal(store_get(store, "x/9", NULL, 0, NULL, NULL), STATUS_NOT_FOUND);
    assert_true(store_table_bytes(store) >= 8 * sizeof(struct reference));
    store_free(store);
}

static void test_version_1(void **state)
{
    struct store *store = open_references(
        *state,
        "{\"version\": 1, \"other\": [{\"}\": \"\\\"]\"}],\n"
        "\"refs\": {\"a\": [\"{{u}}\", 1, 2], \"b\": [\"{{ f(c='data', e=\\\" nc\\\") }}\", 3, "
        "4],\n"
        "\"c\": \"{{u}}\"},\n"
        "\"gen\": [{\"key\": \"g/{{i}}.{{ j }}\", \"url\": \"{{f(c=n, e=' nc')}}\",\n"
        "\"offset\": \"{{(i + 1) * 10 + j % 3}}\", \"length\": \"{{-2+ 7//2 + 1}}\",\n"
        "\"dimensions\": {\"i\": {\"stop\": 3}, \"j\": {\"start\": 4, \"stop\": 0, \"step\": -2},\n"
        "\"n\": [\"data\"]}}, {\"key\": \"w{{k}}\", \"url\": \"{{u}}\", \"dimensions\": {\"k\": "
        "[7]}}],\n"
        "\"templates\": {\"u\": \"%s/d/data nc\", \"f\": \"%s/d/{{c}}{{e}}\"}}");
    expect_piece(store, "a", 1, 2);
    expect_piece(store, "b", 3, 4);
    expect_bytes(store, "c", "{{u}}", 5);
    expect_piece(store, "g/0.4", 11, 2);
    expect_piece(store, "g/0.2", 12, 2);
    expect_piece(store, "g/2.4", 31, 2);
    expect_piece(store, "w7", 0, DATA_BYTES);
    assert_int_equal(store_get(store, "g/2.0", NULL, 0, NULL, NULL), STATUS_NOT_FOUND);
    store_free(store);
}

/* Pieces of values, wherever these are. */
static void test_pieces(void **state)
{
    static const char *const keys[] = {"part", "whole", "here"};
    struct store *store = open_references(
        *state, "{\"part\": [\"%s/d/data nc\", 10, 20], \"whole\": [\"%s/d/data nc\"],"
                "\"here\": \"base64:CgsMDQ4PEBESExQVFhcYGRobHB0=\"}");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int first = i == 1 ? 0 : 10;
        uint64_t total = 0, size = i == 1 ? DATA_BYTES : 20;
        unsigned char piece[4];
        struct store_range range = {5, sizeof piece, piece}, beyond = {size - 3, 4, piece};
        struct store_info info;
        char *text = NULL;
        size_t length = 0;
        assert_int_equal(store_get_ranges(store, keys[i], &range, 1, NULL, NULL), STATUS_OK);
        assert_int_equal(piece[0], first + 5);
        assert_int_equal(store_get_ranges(store, keys[i], &beyond, 1, NULL, NULL), STATUS_CORRUPT);
        assert_int_equal(store_get_suffix(store, keys[i], piece, 4, &total, NULL), STATUS_OK);
        assert_int_equal(total, size);
        assert_int_equal(piece[3], first + (int)size - 1);
        assert_int_equal(store_stat(store, keys[i], &info, NULL), STATUS_OK);
        assert_int_equal(info.bytes, size);
        assert_int_equal(store_get_text(store, keys[i], 100, &text, &length, NULL), STATUS_OK);
        assert_int_equal(length, size);
        assert_int_equal(text[length], 0);
        assert_int_equal(store_get(store, keys[i], piece, 4, &length, NULL), STATUS_CORRUPT);
        free(text);
    }
    store_free(store);
}

static enum status add_name(const char *name, bool is_prefix, void *argument, struct error *err)
{
    (void)err;
    text_append(argument, "%s%s ", name, is_prefix ? "/" : "");
    return STATUS_OK;
}

static void expect_names(const struct store *store, const char *prefix, const char *names)
{
    struct text text = {0};
    assert_int_equal(store_list(store, prefix, add_name, &text, NULL), STATUS_OK);
    assert_string_equal(text.data, names);
    text_done(&text);
}

static void test_lists(void **state)
{
    struct store *store = open_references(
        *state, "{\"b/x/0\": \"12\", \"b-c/0\": \"\", \"b/x/1/2\": [\"/f\", 0, 5], \"b/.z\": \"\","
                "\"a\": \"\", \"b/x/1/1\": [\"/f\"], \"b\": \"\", \"c/0\": [\"%s/d/data nc\"]}");
    struct store_usage usage;
    expect_names(store, "", "a b b/ b-c/ c/ ");
    expect_names(store, "b", ".z x/ ");
    expect_names(store, "b/x", "0 1/ ");
    expect_names(store, "b/x/1", "1 2 ");
    assert_int_equal(store_list(store, "b/y", add_name, NULL, NULL), STATUS_NOT_FOUND);
    assert_int_equal(store_list(store, "b/x/0", add_name, NULL, NULL), STATUS_NOT_FOUND);
    assert_int_equal(store_usage(store, "b/x", 9, &usage, NULL), STATUS_OK);
    assert_int_equal(usage.bytes, 7);
    assert_int_equal(usage.count, 2); /* the size of a file that is not allowed is not known */
    assert_true(usage.more);
    assert_int_equal(store_usage(store, "c", 1, &usage, NULL), STATUS_OK);
    assert_int_equal(usage.bytes, DATA_BYTES);
    assert_int_equal(store_usage(store, "c", 0, &usage, NULL), STATUS_OK);
    assert_true(usage.more && usage.count == 0);
    store_free(store);
}

/* Many are found, whichever order the file has, and take as much memory as the pages say. */
static void test_many(void **state)
{
    enum { COUNT = 200000, MOST_BYTES = 48 };
    struct reference_table table = {0};
    struct text text = {0};
    (void)state;
    text_append(&text, "{\"z\": \"\"");
    for (long i = 0; i < COUNT; i++) {
        long mixed = i * 7919 % COUNT;
        text_append(&text, ", \"a/%ld/%ld\": [\"/f%ld\", %ld, 1]", i % 13, mixed, mixed % 5, mixed);
    }
    text_append(&text, "}");
    assert_int_equal(reference_json_read(text.data, text.length, &table, NULL), STATUS_OK);
    assert_int_equal(table.count, COUNT + 1);
    assert_true(reference_table_bytes(&table) <= (uint64_t)COUNT * MOST_BYTES);
    for (long i = 0; i < COUNT; i++) {
        char key[64], location[32];
        long mixed = i * 7919 % COUNT;
        snprintf(key, sizeof key, "a/%ld/%ld", i % 13, mixed);
        snprintf(location, sizeof location, "/f%ld", mixed % 5);
        const struct reference *reference = reference_table_find(&table, key);
        assert_true(reference && reference->offset == (uint64_t)mixed);
        assert_true(strcmp(reference_text(&table, reference->location), location) == 0);
    }
    assert_null(reference_table_find(&table, "a/0/x"));
    reference_table_done(&table);
    text_done(&text);
}

static void expect_refused(const char *text, size_t size, enum status expected, const char *said)
{
    struct reference_table table = {0};
    struct error err;
    enum status status = reference_json_read(text, size, &table, &err);
    if (status != expected || !strstr(err.message, said))
        fail_msg("%.*s: status %d, '%s' instead of '%s'", (int)size, text, status,
                 status != STATUS_OK ? err.message : "", said);
    reference_table_done(&table);
}

static void test_bad_references(void **state)
{
#define GEN(members) "{\"version\": 1, \"gen\": [{" members "}]}"
    static const struct {
        const char *text, *said;
        enum status status;
    } cases[] = {
        {"", "the JSON ends within a value", STATUS_CORRUPT},
        {"[]", "begins with '{'", STATUS_CORRUPT},
        {"\x1f\x8b\x08", "it is packed by gzip", STATUS_UNSUPPORTED},
        {"\x28\xb5\x2f\xfd", "it is packed by zstd", STATUS_UNSUPPORTED},
        {"{\"a\": \"b\"} x", "something is behind", STATUS_CORRUPT},
        {"{\"a\" \"b\"}", "a ':' follows a key", STATUS_CORRUPT},
        {"{\"a\": \"b\" \"c\": \"\"}", "a ',' or '}' follows", STATUS_CORRUPT},
        {"{\"a\": 1}", "reference 'a': it is neither", STATUS_CORRUPT},
        {"{\"a\": null}", "reference 'a': it is neither", STATUS_CORRUPT},
        {"{\"a\": []}", "reference 'a': it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": [null, 0, 1]}", "it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": [\"u\", 0]}", "it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": [\"u\", -1, 2]}", "it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": [\"u\", 1.5, 2]}", "it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": [\"u\\u0000\", 1, 2]}", "it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": [\"u\", 18446744073709551615, 2]}", "it is neither [URL]", STATUS_CORRUPT},
        {"{\"a\": \"base64:AA?=\"}", "no base64", STATUS_CORRUPT},
        {"{\"a\": \"base64:AAA\"}", "no base64", STATUS_CORRUPT},
        {"{\"a\": \"b\", \"a\": \"c\"}", "two references have the key 'a'", STATUS_CORRUPT},
        {"{\"a/\": \"b\", \"a/0\": \"c\"}", "two references have the key 'a/0'", STATUS_CORRUPT},
        {"{\"../a\": \"\"}", "is not a relative path", STATUS_CORRUPT},
        {"{\"/a\": \"\"}", "is not a relative path", STATUS_CORRUPT},
        {"{\"a//b\": \"\"}", "is not a relative path", STATUS_CORRUPT},
        {"{\"\": \"\"}", "is not a relative path", STATUS_CORRUPT},
        {"{\"a\\u0000\": \"\"}", "a key has a NUL", STATUS_CORRUPT},
        {"{\"a\": "
         "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
         "nesting too deep", STATUS_CORRUPT},
        {"{\"version\": 2, \"refs\": {}}", "of version 2", STATUS_UNSUPPORTED},
        {"{\"version\": 1, \"refs\": []}", "begins with '{'", STATUS_CORRUPT},
        {"{\"version\": 1, \"templates\": []}", "'templates' is no object", STATUS_CORRUPT},
        {"{\"version\": 1, \"gen\": {}}", "'gen' is no list", STATUS_CORRUPT},
        {"{\"version\": 1, \"refs\": {\"a\": [\"{{u}}\"]}}", "uses 'u', which is neither",
         STATUS_CORRUPT},
        {"{\"version\": 1, \"refs\": {\"a\": [\"{{u}}\"]}, \"templates\": {\"u\": \"{{u}}\"}}",
         "neither a template nor an argument", STATUS_CORRUPT},
        {GEN("\"url\": \"u\", \"dimensions\": {\"i\": [1]}"), "no texts 'key' and 'url'",
         STATUS_CORRUPT},
        {GEN("\"key\": \"k\", \"url\": \"u\", \"offset\": 1, \"dimensions\": {\"i\": [1]}"),
         "only one of 'offset' and 'length'", STATUS_CORRUPT},
        {GEN("\"key\": \"k\", \"url\": \"u\""), "'dimensions' is no object", STATUS_CORRUPT},
        {GEN("\"key\": \"k\", \"url\": \"u\", \"dimensions\": {\"i\": {\"step\": 1}}"),
         "dimension 'i' is neither", STATUS_CORRUPT},
        {GEN("\"key\": \"k\", \"url\": \"u\", \"dimensions\": {\"i\": {\"stop\": 3, \"step\": 0}}"),
         "dimension 'i' is neither", STATUS_CORRUPT},
        {GEN("\"key\": \"k\", \"url\": \"u\", \"dimensions\": {\"i\": [1, 2]}"),
         "two references have the key 'k'", STATUS_CORRUPT},
        {GEN("\"key\": \"k{{i}}\", \"url\": \"u\", \"offset\": \"{{i}}\", \"length\": 1, "
             "\"dimensions\": {\"i\": [-1]}"),
         "'-1', which is no number of bytes", STATUS_CORRUPT},
        {GEN("\"key\": \"k\", \"url\": \"u\", \"dimensions\": {\"i\": {\"stop\": 1000000000}, "
             "\"j\": {\"stop\": 1000000000}, \"k\": {\"stop\": 1000000000}}"),
         "references, which are too many", STATUS_UNSUPPORTED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].text, strlen(cases[i].text), cases[i].status, cases[i].said);
}

/* A file that was cut anywhere. */
static void test_cut(void **state)
{
    static const char text[] = "{\"version\": 1, \"refs\": {\"a\": [\"u\", 1, 2], \"b\": {\"c\": "
                               "\"\\\"}\"}, \"d\": \"e\"}, \"templates\": {}, \"gen\": []}";
    struct reference_table table = {0};
    (void)state;
    for (size_t size = 0; size < sizeof text - 1; size++)
        expect_refused(text, size, STATUS_CORRUPT, "");
    assert_int_equal(reference_json_read(text, sizeof text - 1, &table, NULL), STATUS_OK);
    reference_table_done(&table);
}

static void test_templates(void **state)
{
    static const struct {
        const char *format, *text;
        enum status status;
    } cases[] = {
        {"plain {u}", "plain {u}", STATUS_OK},
        {"{{ u }}/{{u}}", "U/U", STATUS_OK},
        {"{{f(c='x', d=i*2)}}", "<x-14>", STATUS_OK},
        {"{{f(c=f(c='a', d='b'), d=\"}\")}}", "<<a-b>-}>", STATUS_OK},
        {"{{ 7 // 2 }},{{ -7 // 2 }},{{ -7 % 3 }},{{ 2 + 3 * (4 - -1) }}", "3,-4,2,17", STATUS_OK},
        {"{{f()}}", "uses 'c', which is neither a template nor an argument", STATUS_CORRUPT},
        {"{{f}}", "uses 'c'", STATUS_CORRUPT},
        {"{{u", "without '}}'", STATUS_CORRUPT},
        {"{{1 // 0}}", "divided by 0", STATUS_CORRUPT},
        {"{{9223372036854775807 + 1}}", "beyond 64 bits", STATUS_CORRUPT},
        {"{{u | upper}}", "at '| upper'", STATUS_UNSUPPORTED},
        {"{{'%03d' % i}}", "at '% i'", STATUS_UNSUPPORTED},
        {"{{u[0]}}", "at '[0]'", STATUS_UNSUPPORTED},
        {"{{u.x}}", "at '.x'", STATUS_UNSUPPORTED},
        {"{{u + 'x'}}", "something of Jinja", STATUS_UNSUPPORTED},
        {"{{1.5}}", "at '.5'", STATUS_UNSUPPORTED},
        {"{{2 ** 3}}", "at '* 3'", STATUS_UNSUPPORTED},
        {"{{}}", "something of Jinja", STATUS_UNSUPPORTED},
        {"{{((((((((((((((((((((1))))))))))))))))))))}}", "something of Jinja", STATUS_UNSUPPORTED},
        {"{% if u %}x{% endif %}", "a statement of Jinja", STATUS_UNSUPPORTED},
    };
    const struct template_variable variables[] = {{"i", {.is_number = true, .number = 7}}};
    struct json_object *templates = json_tokener_parse("{\"u\": \"U\", \"f\": \"<{{c}}-{{d}}>\"}");
    const struct template_names names = {templates, variables, 1};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[TEMPLATE_TEXT_BYTES] = "";
        struct error err = {0};
        enum status status = template_render(cases[i].format, &names, text, &err);
        const char *said = status == STATUS_OK ? text : err.message;
        if (status != cases[i].status || !strstr(said, cases[i].text))
            fail_msg("%s: status %d, '%s'", cases[i].format, status, said);
    }
    json_object_put(templates);
}

/* What is not there, or not allowed, is an error, never a missing chunk. */
static void test_where_references_lead(void **state)
{
    static const struct {
        const char *key, *said;
        enum status status;
    } cases[] = {
        {"beyond", "d/data nc", STATUS_CORRUPT},
        {"absent",
         "the references refer to this chunk, which lies outside the references, and was "
         "removed",
         STATUS_IO},
        {"gone", "was removed, or never copied", STATUS_IO},
        {"elsewhere", "set store.virtual: ['s3://bucket/p/']", STATUS_INVALID},
        {"google", "set store.virtual: ['gs://bucket/p/']", STATUS_INVALID},
        {"azure", "set store.virtual: ['az://container/p/']", STATUS_INVALID},
        {"account", "set store.virtual: ['abfss://c@a.dfs.core.windows.net/p/']", STATUS_INVALID},
        {"up", "has '.' or '..' in it", STATUS_CORRUPT},
        {"sibling", "set store.virtual", STATUS_INVALID},
        {"relative", "is a relative path", STATUS_UNSUPPORTED},
        {"query", "its url has a query", STATUS_UNSUPPORTED},
        {"secret", "its url has a query", STATUS_UNSUPPORTED},
        {"user", "at a uri with a secret in it", STATUS_INVALID},
    };
    struct store *store = open_references(
        *state, "{\"beyond\": [\"%s/d/data nc\", 90, 11], \"absent\": [\"%s/d/none\", 0, 1],"
                "\"gone\": [\"%s/d/none\"], \"elsewhere\": [\"s3://bucket/p/f.nc\", 0, 1],"
                "\"up\": [\"%s/d/../../f\", 0, 1], \"sibling\": [\"%s.nc\", 0, 1],"
                "\"relative\": [\"d/data nc\", 0, 1], \"query\": [\"http://h/f?x=1\", 0, 1],"
                "\"google\": [\"gcs://bucket/p/f\"], \"azure\": [\"abfs://container/p/f\"],"
                "\"account\": [\"abfss://c@a.dfs.core.windows.net/p/f\"],"
                "\"secret\": [\"https://h/f?sig=hidden\", 0, 1],"
                "\"user\": [\"https://me:hidden@h/f\", 0, 1]}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char byte[16];
        size_t size;
        struct error err = {0};
        enum status status = store_get(store, cases[i].key, byte, sizeof byte, &size, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].said) ||
            !strstr(err.message, cases[i].key))
            fail_msg("%s: status %d, '%s'", cases[i].key, status, err.message);
        assert_null(strstr(err.message, "hidden"));
    }
    store_free(store);
}

static void test_refused_stores(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct error err;
    char uri[160];
    put_references(fixture, "{\"a\": [\"%s/d/data nc\", 0, 1]}");
    snprintf(uri, sizeof uri, "reference://%s/refs.json", fixture->path);
    assert_int_equal(open_with(fixture, uri, &store, &err), STATUS_INVALID); /* opens itself */
    assert_non_null(strstr(err.message, "store.virtual: "));
    assert_int_equal(store_create(uri, true, &store, &err), STATUS_UNSUPPORTED);
    put(fixture->store, "refs.x/.zmetadata", "{}");
    static const struct {
        const char *uri, *said;
        enum status status;
    } cases[] = {
        {"reference+s3://bucket", "it names no file", STATUS_INVALID},
        {"reference://", "it names no file", STATUS_INVALID},
        {"reference+https://me:hidden@host/x.json", "credentials are taken from", STATUS_INVALID},
        {"reference:///none/refs.json", "/none", STATUS_NOT_FOUND},
        {"reference:///tmp/no such.parq/", "python3 -m penstock.references no such.parq refs.json",
         STATUS_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status status = store_open(cases[i].uri, &store, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].said))
            fail_msg("%s: status %d, '%s'", cases[i].uri, status, err.message);
        assert_null(strstr(err.message, "hidden"));
    }
    snprintf(uri, sizeof uri, "reference://%s/refs.x", fixture->path);
    assert_int_equal(store_open(uri, &store, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "as Parquet"));
}

/* The memory of all, and one name for each. */
static void test_joined(void **state)
{
    struct fixture *fixture = *state;
    struct store *one = open_references(fixture, "{\"a\": \"b\"}"), *joined = NULL;
    const struct store_options options = {0};
    char uri[160];
    snprintf(uri, sizeof uri, "reference://%s/refs.json", fixture->path);
    const char *uris[] = {uri, fixture->path, uri};
    assert_int_equal(store_open_joined(uris, 3, &options, &joined, NULL), STATUS_OK);
    expect_bytes(joined, "3-refs.json/a", "b", 1);
    assert_int_equal(store_table_bytes(joined), 2 * store_table_bytes(one));
    store_free(joined);
    store_free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_version_0),
        TEST(test_version_1),
        TEST(test_pieces),
        TEST(test_lists),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bad_references),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_templates),
        TEST(test_where_references_lead),
        TEST(test_refused_stores),
        TEST(test_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
