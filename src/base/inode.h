/* What a path or a descriptor stands for: stat() for libpenstock. Any thread; blocks on the disk.
 *
 * By statx(), since glibc 2.33 has stat(), fstat() and fstatat() under new names: a library that
 * calls these does not load with an older glibc. libpenstock is to load with glibc 2.28.
 */
#ifndef PENSTOCK_BASE_INODE_H
#define PENSTOCK_BASE_INODE_H

#include <stdbool.h>
#include <stdint.h>

struct inode {
    uint64_t device, number; /* together those of one file or directory alone */
    uint64_t bytes;
    uint32_t mode, owner;
};

/* As fstatat(): `folder` and `flags` are AT_FDCWD and 0 for stat(). False: errno says why, and
 * *ret_inode is untouched. */
bool inode_at(int folder, const char *path, int flags, struct inode *ret_inode);

/* As fstat(). */
bool inode_of(int fd, struct inode *ret_inode);

bool inode_same(const struct inode *a, const struct inode *b);

#endif
