/* Signatures against the examples of AWS's documentation, listings, and where a bucket lies. */
#include "store/credentials/s3_sign.h"
#include "store/remote/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* S3 API reference, "Signature Calculations for the Authorization Header: Transferring Payload in a
 * Single Chunk": its keys and two of its examples. */
static const char access_key[] = "AKIAIOSFODNN7EXAMPLE";
static const char secret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
enum { EXAMPLE_TIME = 1369353600 }; /* 2013-05-24 */

static struct s3_request example(void)
{
    return (struct s3_request){.method = "GET",
                               .host = "examplebucket.s3.amazonaws.com",
                               .path = "/",
                               .query = "",
                               .region = "us-east-1",
                               .time = EXAMPLE_TIME};
}

static void expect_signature(const struct s3_request *request, const char *signature)
{
    struct text value = {0};
    s3_authorize(request, access_key, secret, &value);
    const char *found = strstr(value.data, "Signature=");
    assert_non_null(found);
    assert_string_equal(found + strlen("Signature="), signature);
    assert_null(strstr(value.data, secret));
    text_done(&value);
}

static void test_get_object(void **state)
{
    (void)state;
    struct s3_request request = example();
    request.path = "/test.txt";
    request.range = "bytes=0-9";
    expect_signature(&request, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

static void test_list_objects(void **state)
{
    (void)state;
    struct s3_request request = example();
    request.query = "max-keys=2&prefix=J";
    expect_signature(&request, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void test_everything_that_is_signed_counts(void **state)
{
    (void)state;
    struct s3_request request = example();
    struct text plain = {0}, other = {0};
    s3_authorize(&request, access_key, secret, &plain);
    request.token = "session";
    s3_authorize(&request, access_key, secret, &other);
    assert_string_not_equal(plain.data, other.data);
    assert_non_null(strstr(other.data, "x-amz-date;x-amz-security-token,"));
    text_done(&plain);
    text_done(&other);
}

static void test_encoding(void **state)
{
    (void)state;
    struct text out = {0};
    s3_encode("a b/c+d~e=f/\xc3\xa4", true, &out);
    assert_string_equal(out.data, "a%20b/c%2Bd~e%3Df/%C3%A4");
    text_done(&out);
    s3_encode("a/b", false, &out);
    assert_string_equal(out.data, "a%2Fb");
    text_done(&out);
}

static enum status note(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                        struct error *err)
{
    (void)err;
    text_append(argument, "%s%s %llu\n", key, is_prefix ? "*" : "", (unsigned long long)bytes);
    return STATUS_OK;
}

static void expect_page(const char *page, const char *entries, bool more, const char *next)
{
    struct text noted = {0};
    struct page read;
    struct error err;
    if (page_read(&page_s3, page, note, &noted, &read, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    assert_string_equal(noted.data ? noted.data : "", entries);
    assert_int_equal(read.more, more);
    assert_string_equal(read.next, next);
    text_done(&noted);
}

static void test_pages(void **state)
{
    (void)state;
    expect_page("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><Prefix>a/</Prefix>"
                "<IsTruncated>true</IsTruncated><NextContinuationToken>m&amp;=</"
                "NextContinuationToken><Contents><Key>a/&lt;b&gt;</Key><Size>12</Size></Contents>"
                "<Contents><Size>0</Size><Key>a/&#228;&#x1F600;</Key></Contents>"
                "<CommonPrefixes><Prefix>a/c/</Prefix></CommonPrefixes></ListBucketResult>",
                "a/<b> 12\na/\xc3\xa4\xf0\x9f\x98\x80 0\na/c/* 0\n", true, "m&=");
    expect_page("<ListBucketResult/>", "", false, "");
}

static void test_pages_that_are_none(void **state)
{
    static const char *const pages[] = {
        "",
        "<html>",
        "<ListBucketResult><Contents><Size>1</Size></Contents>",
        "<ListBucketResult><Contents><Key>a</Key></Contents>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents>",
        "<ListBucketResult><Contents><Key>a</Key><Size>1x</Size></Contents>",
        "<ListBucketResult><Contents><Key>a&nbsp;</Key><Size>1</Size></Contents>",
        "<ListBucketResult><Contents><Key>a&#0;</Key><Size>1</Size></Contents>",
        "<ListBucketResult><Contents><Key>a<b></Key><Size>1</Size></Contents>",
        "<ListBucketResult><IsTruncated>true</IsTruncated>",
    };
    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        struct text noted = {0};
        struct page page;
        if (page_read(&page_s3, pages[i], note, &noted, &page, NULL) != STATUS_CORRUPT)
            fail_msg("page %zu was taken", i);
        text_done(&noted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_object),
        cmocka_unit_test(test_list_objects),
        cmocka_unit_test(test_everything_that_is_signed_counts),
        cmocka_unit_test(test_encoding),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pages_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
