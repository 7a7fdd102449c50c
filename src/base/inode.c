/* See inode.h. */
#include "base/inode.h"

#include <fcntl.h>
#include <sys/stat.h>

bool inode_at(int folder, const char *path, int flags, struct inode *ret_inode)
{
    struct statx found;
    if (statx(folder, path, flags, STATX_BASIC_STATS, &found) < 0)
        return false;
    *ret_inode = (struct inode){.device = (uint64_t)found.stx_dev_major << 32 | found.stx_dev_minor,
                                .number = found.stx_ino,
                                .bytes = found.stx_size,
                                .mode = found.stx_mode,
                                .owner = found.stx_uid};
    return true;
}

bool inode_of(int fd, struct inode *ret_inode)
{
    return inode_at(fd, "", AT_EMPTY_PATH, ret_inode);
}

bool inode_same(const struct inode *a, const struct inode *b)
{
    return a->device == b->device && a->number == b->number;
}
