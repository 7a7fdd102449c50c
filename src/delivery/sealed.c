/* See sealed.h. */
#include "delivery/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

enum status sealed_make(int memfd, struct error *err)
{
    if (fcntl(memfd, F_ADD_SEALS, SEALS) < 0)
        return error_set_errno(err, STATUS_IO, "seal shared memory");
    return STATUS_OK;
}

bool sealed_check(int memfd, uint64_t *ret_bytes)
{
    int seals = fcntl(memfd, F_GET_SEALS);
    struct stat info;
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &info) < 0)
        return false;
    *ret_bytes = (uint64_t)info.st_size;
    return true;
}
