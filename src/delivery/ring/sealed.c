/* See sealed.h. */
#include "delivery/ring/sealed.h"
#include "base/inode.h"

#include <errno.h>
#include <fcntl.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static enum status make(int memfd, int seals, struct error *err)
{
    if (fcntl(memfd, F_ADD_SEALS, seals) < 0)
        return error_set_errno(err, STATUS_IO, "seal shared memory");
    return STATUS_OK;
}

enum status sealed_make(int memfd, struct error *err)
{
    return make(memfd, SEALS, err);
}

enum status sealed_make_constant(int memfd, struct error *err)
{
    return make(memfd, SEALS | F_SEAL_WRITE, err);
}

static bool check(int memfd, int wanted, uint64_t *ret_bytes)
{
    int seals = fcntl(memfd, F_GET_SEALS);
    struct inode info;
    if (seals < 0 || (seals & wanted) != wanted || !inode_of(memfd, &info))
        return false;
    *ret_bytes = info.bytes;
    return true;
}

bool sealed_check(int memfd, uint64_t *ret_bytes)
{
    return check(memfd, SEALS, ret_bytes);
}

bool sealed_is_constant(int memfd, uint64_t *ret_bytes)
{
    return check(memfd, SEALS | F_SEAL_WRITE, ret_bytes);
}
