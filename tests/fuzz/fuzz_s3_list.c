/* Fuzz target for what servers say: an input is a page of a listing, and also the header lines and
 * body of an answer. */
#include "fuzz.h"

#include "store/http/http_judge.h"
#include "store/remote/page.h"

static enum status note(const char *key, bool is_prefix, uint64_t bytes, void *argument,
                        struct error *err)
{
    (void)is_prefix;
    (void)bytes;
    CHECK(strlen(key) < PAGE_KEY_BYTES);
    if (++*(uint64_t *)argument < 1000)
        return STATUS_OK;
    return error_set(err, STATUS_ENDED, "enough");
}

static void read_page(const struct page_format *format, const char *text)
{
    struct page page;
    struct error err;
    uint64_t count = 0;
    if (page_read(format, text, note, &count, &page, &err) == STATUS_OK)
        CHECK(!page.more || (page.next[0] && strlen(page.next) < PAGE_MARK_BYTES));
    else
        CHECK(err.message[0]);
}

static void read_answer(const char *text, enum fetch_kind kind, unsigned form)
{
    const struct store_settings settings = {.missing_count = 1, .missing = {404}};
    struct fetch fetch = {.kind = kind, .offset = 10, .size = 5, .own.form = (uint8_t)form};
    const struct http_try made = {.form = form, .got = 5, .seen = 5, .is_coded = text[0] == 'c'};
    struct http_answer answer = {0};
    struct error err = {0};
    while (*text && *text != '\n') {
        size_t length = strcspn(text, "\n");
        http_answer_line(&answer, text, length);
        text += length + (text[length] == '\n');
    }
    http_answer_body(&answer, text, strlen(text));
    enum http_verdict verdict = http_judge(&answer, &settings, &fetch, &made, &err);
    CHECK((verdict == HTTP_GOOD) == !err.message[0]);
    CHECK(verdict != HTTP_OTHERWISE || fetch.own.form > form);
    char code[20];
    http_answer_element(&answer, "Code", code, sizeof code);
    CHECK(strlen(code) < sizeof code && strlen(answer.encoding) < sizeof answer.encoding);
    CHECK(strlen(answer.location) < sizeof answer.location && answer.status < 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char *text = take_text(&input);
    read_page(&page_s3, text);
    read_page(&page_azure, text);
    read_page(&page_hub, text);
    for (int kind = FETCH_WHOLE; kind <= FETCH_QUERY; kind++)
        for (unsigned form = 0; form < 8; form++)
            read_answer(text, (enum fetch_kind)kind, form);
    free(text);
    return 0;
}
