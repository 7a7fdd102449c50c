/* See sealed.h. */
#include "delivery/sealed.h"
#include "base/inode.h"

#include <errno.h>
#include <fcntl.h>

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
    struct inode info;
    if (seals < 0 || (seals & SEALS) != SEALS || !inode_of(memfd, &info))
        return false;
    *ret_bytes = info.bytes;
    return true;
}
