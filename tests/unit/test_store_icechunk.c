/* Icechunk repositories, in parts: uris and their references, names of objects, and
 * headers of files. Whole repositories: mpi.icechunk, conformance.icechunk. */
#include "store/icechunk/envelope.h"
#include "store/icechunk/icechunk_id.h"
#include "store/icechunk/icechunk_uri.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_refused_uris),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
