/* See cursor_page.h. */
#include "delivery/ring/cursor_page.h"

#include "delivery/ring/sealed.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

static enum status map(int memfd, int access, struct cursor_page *ret_page, struct error *err)
{
    void *memory = mmap(NULL, PAGE_BYTES, access, MAP_SHARED, memfd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_IO, "map the page of a trainer's cursor");
    *ret_page = (struct cursor_page){.cursor = memory, .memfd = memfd};
    return STATUS_OK;
}

/* Writing makes the page present: lack of memory is an error here, and no SIGBUS later. */
enum status cursor_page_new(struct cursor_page *ret_page, struct error *err)
{
    int memfd = memfd_create("penstock-cursor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0)
        return error_set_errno(err, STATUS_IO, "create the page of a trainer's cursor");
    static const unsigned char zeros[PAGE_BYTES];
    enum status status = STATUS_OK;
    if (write(memfd, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
        status = error_set_errno(err, STATUS_NO_MEMORY, "fill the page of a trainer's cursor");
    if (status == STATUS_OK)
        status = sealed_make(memfd, err);
    if (status == STATUS_OK)
        status = map(memfd, PROT_READ | PROT_WRITE, ret_page, err);
    if (status != STATUS_OK)
        close(memfd);
    return status;
}

/* The size rules out hugetlb memory, whose page could be lacking at the first access. */
enum status cursor_page_open(int memfd, struct cursor_page *ret_page, struct error *err)
{
    uint64_t bytes;
    enum status status = STATUS_OK;
    if (!sealed_check(memfd, &bytes) || bytes != PAGE_BYTES)
        status =
            error_set(err, STATUS_PROTOCOL,
                      "the descriptor of a HELLO is not the sealed page of a trainer's cursor");
    else
        status = map(memfd, PROT_READ, ret_page, err);
    close(memfd);
    if (status == STATUS_OK)
        ret_page->memfd = -1;
    return status;
}

void cursor_page_done(struct cursor_page *page)
{
    if (!page->cursor)
        return;
    munmap(page->cursor, PAGE_BYTES);
    if (page->memfd >= 0)
        close(page->memfd);
    *page = (struct cursor_page){0};
}
