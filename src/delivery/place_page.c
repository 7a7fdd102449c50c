/* See place_page.h. */
#include "delivery/place_page.h"

#include "delivery/sealed.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

static enum status map(int memfd, int access, struct place_page *ret_page, struct error *err)
{
    void *memory = mmap(NULL, PAGE_BYTES, access, MAP_SHARED, memfd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_IO, "map the page of a trainer's place");
    *ret_page = (struct place_page){.place = memory, .memfd = memfd};
    return STATUS_OK;
}

/* The page is there once it is written to: lack of memory is an error here. */
enum status place_page_new(struct place_page *ret_page, struct error *err)
{
    int memfd = memfd_create("penstock-place", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0)
        return error_set_errno(err, STATUS_IO, "create the page of a trainer's place");
    static const unsigned char zeros[PAGE_BYTES];
    enum status status = STATUS_OK;
    if (write(memfd, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
        status = error_set_errno(err, STATUS_NO_MEMORY, "fill the page of a trainer's place");
    if (!status)
        status = sealed_make(memfd, err);
    if (!status)
        status = map(memfd, PROT_READ | PROT_WRITE, ret_page, err);
    if (status)
        close(memfd);
    return status;
}

/* Memory of this size has plain pages: huge ones that were set aside could be lacking later. */
enum status place_page_open(int memfd, struct place_page *ret_page, struct error *err)
{
    uint64_t bytes;
    enum status status = STATUS_OK;
    if (!sealed_check(memfd, &bytes) || bytes != PAGE_BYTES)
        status = error_set(err, STATUS_PROTOCOL,
                           "what came with a HELLO is not the sealed page of a trainer's place");
    else
        status = map(memfd, PROT_READ, ret_page, err);
    close(memfd);
    if (!status)
        ret_page->memfd = -1;
    return status;
}

void place_page_done(struct place_page *page)
{
    if (!page->place)
        return;
    munmap(page->place, PAGE_BYTES);
    if (page->memfd >= 0)
        close(page->memfd);
    *page = (struct place_page){0};
}
