/* See rundir.h. A socket's address is /proc/self/fd/<dir>/reader-<r>.sock, since there is no
 * bindat(). */
#include "delivery/ring/rundir.h"
#include "base/inode.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAME_BYTES = 32, CLAIM_TRIES = 16 };

struct name {
    char text[NAME_BYTES];
};

static struct name name_of(uint32_t reader, const char *suffix)
{
    struct name name;
    snprintf(name.text, sizeof name.text, "reader-%" PRIu32 ".%s", reader, suffix);
    return name;
}

static struct name socket_name(uint32_t reader)
{
    return name_of(reader, "sock");
}

static struct name lock_name(uint32_t reader)
{
    return name_of(reader, "lock");
}

/* Removes all files of a reader but the lock. 0, or an errno with *ret_name. */
static int remove_files(int dir, uint32_t reader, struct name *ret_name)
{
    static const char *const suffixes[] = {"sock", "metrics", "overview", "json", "trace"};
    int failure = 0;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        struct name name = name_of(reader, suffixes[i]);
        if (unlinkat(dir, name.text, 0) == 0 || errno == ENOENT)
            continue;
        failure = errno;
        *ret_name = name;
    }
    return failure;
}

static enum status check_directory(int dir, const char *path, bool create, struct error *err)
{
    struct inode info;
    if (!inode_of(dir, &info))
        return error_set_errno(err, STATUS_IO, "run directory '%s'", path);
    if (info.owner != geteuid())
        return error_set(err, STATUS_REFUSED,
                         "run directory '%s' belongs to user %ju, this process runs as %ju; choose "
                         "a directory of your own",
                         path, (uintmax_t)info.owner, (uintmax_t)geteuid());
    if (info.mode & 077)
        return error_set(err, STATUS_REFUSED,
                         "run directory '%s' is open to others (mode %04o); %s", path,
                         (unsigned)(info.mode & 07777),
                         create ? "chmod 700 it, or choose a new one"
                                : "no run has made it so: a run prints its run_dir at its start");
    return STATUS_OK;
}

int rundir_name(const char *given, const char *also, char *name, size_t size)
{
    size_t length = strlen(given);
    while (length > 1 && given[length - 1] == '/')
        length--;
    return snprintf(name, size, "%.*s%s%s", (int)length, given, also ? "." : "", also ? also : "");
}

const char *rundir_parent(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder && access("/tmp", W_OK) < 0 ? folder : "/tmp";
}

enum status rundir_open(const char *given, bool create, int *ret_dir, struct error *err)
{
    char path[PATH_MAX]; /* behind a '/' at the end, a symbolic link would be followed */
    if (rundir_name(given, NULL, path, sizeof path) >= (int)sizeof path)
        return error_set(err, STATUS_IO, "the run directory's name is too long");
    if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
        return error_set_errno(err, STATUS_IO, "create run directory '%s'", path);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT)
        return error_set(err, STATUS_NOT_FOUND, "there is no run directory '%s'", path);
    if (dir < 0 && (errno == ELOOP || errno == ENOTDIR))
        return error_set(err, STATUS_REFUSED,
                         "run directory '%s' is not a directory or is a symbolic link; give the "
                         "directory itself",
                         path);
    if (dir < 0)
        return error_set_errno(err, STATUS_IO, "open run directory '%s'", path);
    enum status status = check_directory(dir, path, create, err);
    if (status != STATUS_OK) {
        close(dir);
        return status;
    }
    *ret_dir = dir;
    return STATUS_OK;
}

/* The pid in a lock file; 0: the file has none. */
static long owner_pid(int lock)
{
    char text[NAME_BYTES] = "";
    ssize_t got = pread(lock, text, sizeof text - 1, 0);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

static enum status write_owner(int lock, const char *name, const char *mark, struct error *err)
{
    char text[NAME_BYTES + RUNDIR_MARK_BYTES];
    int length = snprintf(text, sizeof text, "%ld\n%.*s%s", (long)getpid(), RUNDIR_MARK_BYTES - 2,
                          mark ? mark : "", mark ? "\n" : "");
    if (ftruncate(lock, 0) < 0 || pwrite(lock, text, (size_t)length, 0) != length)
        return error_set_errno(err, STATUS_IO, "write '%s' in the run directory", name);
    return STATUS_OK;
}

/* Whether the locked file is still in the directory: its last owner may have removed the file
 * between our open() and our lock. */
static bool still_there(int dir, const char *name, int lock)
{
    struct inode ours, theirs;
    return inode_of(lock, &ours) && inode_at(dir, name, AT_SYMLINK_NOFOLLOW, &theirs) &&
           inode_same(&ours, &theirs);
}

static enum status take_lock(int dir, uint32_t reader, int *ret_lock, struct error *err)
{
    struct name name = lock_name(reader);
    for (int i = 0; i < CLAIM_TRIES; i++) {
        int lock = openat(dir, name.text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (lock < 0)
            return error_set_errno(err, STATUS_IO, "create '%s' in the run directory", name.text);
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(lock, F_OFD_SETLK, &all) < 0) {
            enum status status =
                errno == EAGAIN || errno == EACCES
                    ? error_set(err, STATUS_REFUSED,
                                "reader %" PRIu32
                                " of this run directory is alive already: process "
                                "%ld; stop it, or choose another run directory",
                                reader, owner_pid(lock))
                    : error_set_errno(err, STATUS_IO, "lock '%s' in the run directory", name.text);
            close(lock);
            return status;
        }
        if (still_there(dir, name.text, lock)) {
            *ret_lock = lock;
            return STATUS_OK;
        }
        close(lock);
    }
    return error_set(err, STATUS_IO, "'%s' in the run directory keeps vanishing", name.text);
}

enum status rundir_claim(int dir, uint32_t reader, const char *mark, int *ret_lock,
                         struct error *err)
{
    int lock = -1;
    enum status status = take_lock(dir, reader, &lock, err);
    if (status != STATUS_OK)
        return status;
    status = write_owner(lock, lock_name(reader).text, mark, err);
    struct name stale;
    if (status == STATUS_OK && (errno = remove_files(dir, reader, &stale)))
        status =
            error_set_errno(err, STATUS_IO, "remove '%s', which a dead reader left", stale.text);
    if (status != STATUS_OK) {
        close(lock);
        return status;
    }
    *ret_lock = lock;
    return STATUS_OK;
}

static struct sockaddr_un address_of(int dir, uint32_t reader)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir,
             socket_name(reader).text);
    return address;
}

enum status rundir_bind(int dir, uint32_t reader, int *ret_socket, struct error *err)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create a socket");
    struct sockaddr_un address = address_of(dir, reader);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        enum status status = error_set_errno(err, STATUS_IO, "create '%s' in the run directory",
                                             socket_name(reader).text);
        close(fd);
        return status;
    }
    *ret_socket = fd;
    return STATUS_OK;
}

void rundir_leave(int dir, uint32_t reader)
{
    struct name name;
    remove_files(dir, reader, &name);
    unlinkat(dir, lock_name(reader).text, 0);
}

/* Exactly reader-<number>.sock. */
static bool parse_socket_name(const char *text, uint32_t *ret_reader)
{
    static const char prefix[] = "reader-";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || !isdigit((unsigned char)text[7]))
        return false;
    unsigned long number = strtoul(text + sizeof prefix - 1, NULL, 10);
    if (number > UINT32_MAX || strcmp(socket_name((uint32_t)number).text, text) != 0)
        return false;
    *ret_reader = (uint32_t)number;
    return true;
}

static bool is_alive(int dir, uint32_t reader)
{
    int lock = openat(dir, lock_name(reader).text, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0)
        return false;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool locked = fcntl(lock, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
    close(lock);
    return locked;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

size_t rundir_readers(int dir, uint32_t *readers, size_t capacity)
{
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* an offset of its own */
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list) {
        if (again >= 0)
            close(again);
        return 0;
    }
    size_t count = 0;
    uint32_t reader;
    for (struct dirent *entry; count < capacity && (entry = readdir(list));)
        if (parse_socket_name(entry->d_name, &reader) && is_alive(dir, reader))
            readers[count++] = reader;
    closedir(list);
    qsort(readers, count, sizeof *readers, by_number);
    return count;
}

enum status rundir_connect(int dir, uint32_t reader, int *ret_socket, struct error *err)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create a socket");
    struct sockaddr_un address = address_of(dir, reader);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        *ret_socket = fd;
        return STATUS_OK;
    }
    bool absent = errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN;
    enum status status = error_set_errno(err, absent ? STATUS_NOT_FOUND : STATUS_IO,
                                         "connect to '%s'", socket_name(reader).text);
    close(fd);
    return status;
}
