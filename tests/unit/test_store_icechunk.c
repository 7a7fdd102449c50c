/* Icechunk repositories, in parts: uris and their references, names of objects, headers of files,
 * threads that need one manifest, and pieces of a chunk. Whole repositories: mpi.icechunk,
 * conformance.icechunk. */
#include "store/icechunk/envelope.h"
#include "store/icechunk/icechunk_id.h"
#include "store/icechunk/icechunk_internal.h"
#include "store/icechunk/icechunk_uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_uris(void **state)
{
    static const struct {
        const char *uri, *base, *name;
        enum icechunk_reference kind;
    } cases[] = {
        {"icechunk:///data/repo", "/data/repo", "main", REFERENCE_BRANCH},
        {"icechunk://repo@main", "repo", "main", REFERENCE_BRANCH},
        {"icechunk+s3://bucket/a/b@feature/a b", "s3://bucket/a/b", "feature/a b",
         REFERENCE_BRANCH},
        {"icechunk+gs://bucket/@tag:v@1", "gs://bucket/", "v@1", REFERENCE_TAG},
        {"icechunk+file:///a%40b%20@branch:tag:x", "file:///a@b%20", "tag:x", REFERENCE_BRANCH},
        {"icechunk+https://host:80/x@snapshot:AB", "https://host:80/x", "AB", REFERENCE_SNAPSHOT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct icechunk_uri uri;
        struct error err;
        if (icechunk_uri_parse(cases[i].uri, &uri, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        assert_string_equal(uri.base, cases[i].base);
        assert_string_equal(uri.name, cases[i].name);
        assert_int_equal(uri.kind, cases[i].kind);
        icechunk_uri_done(&uri);
    }
    assert_null(icechunk_uri_inside("icechunk.zarr"));
    assert_null(icechunk_uri_inside("icechunk+://x"));
    assert_int_equal(icechunk_uri_path_bytes("icechunk://a@b"), strlen("icechunk://a"));
    assert_int_equal(icechunk_uri_path_bytes("/data/a@b"), strlen("/data/a@b"));
}

static void test_refused_uris(void **state)
{
    static const struct {
        const char *uri, *said;
    } cases[] = {{"icechunk+https://me:hidden@host/x", "credentials are taken from"},
                 {"icechunk+s3://hidden@bucket/x", "credentials are taken from"},
                 {"icechunk://", "it has no path"},
                 {"icechunk://@main", "it has no path"},
                 {"icechunk:///x@", "no name behind '@'"},
                 {"icechunk:///x@tag:", "no name behind '@'"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct icechunk_uri uri;
        struct error err;
        assert_int_equal(icechunk_uri_parse(cases[i].uri, &uri, &err), STATUS_INVALID);
        assert_non_null(strstr(err.message, cases[i].said));
        assert_null(strstr(err.message, "hidden"));
    }
}

static void test_ids(void **state)
{
    char text[ICECHUNK_ID_TEXT_BYTES];
    unsigned char id[ICECHUNK_ID_BYTES], again[ICECHUNK_ID_BYTES];
    (void)state;
    for (int k = 0; k < 256; k++) {
        for (int i = 0; i < ICECHUNK_ID_BYTES; i++)
            id[i] = (unsigned char)(k + 37 * i * k);
        icechunk_id_print(id, text);
        assert_true(icechunk_id_parse(text, again));
        assert_memory_equal(id, again, sizeof id);
    }
    assert_true(icechunk_id_parse("1CECHNKREP0F1RSTCMT0", id));
    assert_false(icechunk_id_parse("1CECHNKREP0F1RSTCMT", id));
    assert_false(icechunk_id_parse("1CECHNKREP0F1RSTCMT01", id));
    assert_false(icechunk_id_parse("1CECHNKREP0F1RSTCMT1", id)); /* bits beyond the last byte */
    assert_false(icechunk_id_parse("1cechnkrep0f1rstcmt0", id));
}

/* Headers that are cut, of a later format, or of more bytes than may be. */
static void test_headers(void **state)
{
    unsigned char file[64] = "ICE\xf0\x9f\xa7\x8a"
                             "CHUNK";
    uint64_t bytes = 0;
    struct error err;
    (void)state;
    file[36] = 2;
    file[37] = ENVELOPE_MANIFEST;
    assert_int_equal(envelope_measure(file, sizeof file, ENVELOPE_MANIFEST, 1024, &bytes, &err),
                     STATUS_OK);
    assert_int_equal(bytes, sizeof file - 39);
    assert_int_equal(envelope_measure(file, sizeof file, ENVELOPE_MANIFEST, 8, &bytes, &err),
                     STATUS_CORRUPT);
    for (size_t size = 0; size < 39; size++)
        assert_int_equal(envelope_measure(file, size, ENVELOPE_MANIFEST, 1024, &bytes, &err),
                         STATUS_CORRUPT);
    file[36] = 3;
    assert_int_equal(envelope_measure(file, sizeof file, ENVELOPE_MANIFEST, 1024, &bytes, &err),
                     STATUS_UNSUPPORTED);
}

/* A manifest without arrays, as its file is stored: a header, and a table without fields. */
enum { EMPTY_BYTES = 55, THREADS = 6 };
static const unsigned char empty[EMPTY_BYTES] = {
    'I',       'C',        'E', 0xf0, 0x9f, 0xa7,     0x8a,
    'C',       'H',        'U', 'N',  'K',  [36] = 1, ENVELOPE_MANIFEST,
    [39] = 12, [43] = 'I', 'c', 'h',  'k',  4,        0,
    4,         0,          4};

static _Atomic int reading, most_reading, reads, failures;

static void begin_reading(void)
{
    int now = ++reading, most = most_reading;
    while (now > most && !atomic_compare_exchange_weak(&most_reading, &most, now))
        ;
    reads++;
}

static enum status slow_get(const struct store *store, const char *key, store_begins *begins,
                            void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    (void)store, (void)begins;
    begin_reading();
    usleep(20000);
    reading--;
    if (failures > 0) {
        failures--;
        return error_set(err, STATUS_IO, "'%s' is broken", key);
    }
    assert_int_equal(capacity, EMPTY_BYTES);
    memcpy(buffer, empty, EMPTY_BYTES);
    *ret_size = EMPTY_BYTES;
    return STATUS_OK;
}

struct pinning {
    const struct icechunk *icechunk;
    struct snapshot_manifest *manifest;
    enum status status;
};

static void *pin_once(void *argument)
{
    struct pinning *pinning = argument;
    const unsigned char *bytes = NULL;
    pinning->status = icechunk_pin(pinning->icechunk, pinning->manifest, &bytes, NULL);
    if (pinning->status == STATUS_OK)
        inflated_unpin(pinning->icechunk->inflated, pinning->manifest);
    return NULL;
}

/* One reads it, and the others have it then; if that fails, the next one tries. */
static void test_one_thread_reads_a_manifest(void **state)
{
    static const struct store_operations operations = {.get = slow_get};
    struct store base = {.operations = &operations, .uri = (char *)"base"};
    struct icechunk icechunk = {.virtual = {.base = &base},
                                .inflated = inflated_new(),
                                .mutex = PTHREAD_MUTEX_INITIALIZER,
                                .loaded = PTHREAD_COND_INITIALIZER};
    (void)state;
    inflated_reserve(icechunk.inflated, 1 << 20);
    for (int broken = 0; broken < 3; broken++) {
        struct snapshot_manifest manifest = {.stored_bytes = EMPTY_BYTES};
        struct pinning pinnings[THREADS];
        pthread_t threads[THREADS];
        int failed = 0;
        reads = most_reading = 0;
        failures = broken;
        inflated_reserve(icechunk.inflated, -(1 << 20)); /* forgets what was there */
        inflated_reserve(icechunk.inflated, 1 << 20);
        for (int i = 0; i < THREADS; i++) {
            pinnings[i] = (struct pinning){&icechunk, &manifest, STATUS_LOST};
            pthread_create(&threads[i], NULL, pin_once, &pinnings[i]);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            failed += pinnings[i].status == STATUS_IO;
        }
        assert_int_equal(failed, broken);
        assert_int_equal(reads, 1 + broken);
        assert_int_equal(most_reading, 1);
    }
    inflated_free(icechunk.inflated);
}

/* A fetch of bytes that are their own offsets. Waits for two others, as long as that makes sense.
 */
static void *fetch_slowly(void *argument)
{
    struct fetch *fetch = argument;
    begin_reading();
    for (int i = 0; i < 1000 && most_reading < 3; i++)
        usleep(1000);
    reading--;
    for (size_t i = 0; i < fetch->size; i++)
        ((unsigned char *)fetch->buffer)[i] = (unsigned char)(fetch->offset + i);
    fetch->status = STATUS_OK;
    fetch->done(fetch);
    return NULL;
}

static void start_fetch(const struct store *store, struct fetch *fetch)
{
    pthread_t thread;
    (void)store;
    pthread_create(&thread, NULL, fetch_slowly, fetch);
    pthread_detach(thread);
}

/* Pieces of a chunk behind a network are read together; those without bytes are not asked for. */
static void test_pieces_are_fetched_together(void **state)
{
    static const struct store_operations operations = {.fetch = start_fetch};
    struct store base = {.operations = &operations, .uri = (char *)"base"};
    static const struct virtual_kind kind = {.whole = "the list", .refers = "the list refers"};
    struct virtual_store virtual = {.base = &base, .kind = &kind};
    struct virtual_value value = {
        .is_inside = true, .location = "chunks/1", .offset = 100, .length = 50};
    unsigned char bytes[3] = {0};
    const struct store_range ranges[] = {
        {7, 1, &bytes[0]}, {0, 1, &bytes[1]}, {9, 0, NULL}, {49, 1, &bytes[2]}};
    (void)state;
    reads = most_reading = 0;
    assert_int_equal(virtual_read_object(&virtual, &value, ranges, 4, NULL), STATUS_OK);
    assert_int_equal(reads, 3);
    assert_int_equal(most_reading, 3);
    assert_true(bytes[0] == 107 && bytes[1] == 100 && bytes[2] == 149);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_refused_uris),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_one_thread_reads_a_manifest),
        cmocka_unit_test(test_pieces_are_fetched_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
