/* See file_kind.h. */
#include "store/directory/file_kind.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { START_BYTES = 4096 };

static const struct {
    size_t offset, bytes;
    const char *start, *kind;
} kinds[] = {
    {257, 5, "ustar", "a tar archive: unpack it"},
    {0, 8, "\x89HDF\r\n\x1a\n",
     "an HDF5 or NetCDF 4 file: write its arrays to a Zarr store, as with "
     "xarray.open_dataset(...).to_zarr()"},
    {0, 3, "CDF", "a NetCDF file: write a Zarr store, as with xarray.open_dataset(...).to_zarr()"},
    {0, 4, "GRIB", "a GRIB file: write a Zarr store, as with xarray.open_dataset(...).to_zarr()"},
    {0, 4, "PAR1", "a Parquet file: 'penstock import parquet' makes a dataset of it"},
    {0, 6, "ARROW1",
     "an Arrow file: write it as Parquet, and 'penstock import parquet' makes a "
     "dataset of it"},
    {0, 6, "\x93NUMPY", "a NumPy file: write its array to a Zarr store, as with zarr.save()"},
    {0, 15, "SQLite format 3", "an SQLite database: copy its store to a directory"},
    {0, 4, "II*", "a TIFF file: write its array to a Zarr store"},
    {0, 4, "MM\0*", "a TIFF file: write its array to a Zarr store"},
    {0, 2, "\x1f\x8b", "a file that gzip has packed: unpack it (tar xf, if it is an archive)"},
    {0, 4, "\x28\xb5\x2f\xfd",
     "a file that zstd has packed: unpack it (tar xf, if it is an "
     "archive)"},
    {0, 3, "BZh", "a file that bzip2 has packed: unpack it (tar xf, if it is an archive)"},
    {0, 6,
     "\xfd"
     "7zXZ",
     "a file that xz has packed: unpack it (tar xf, if it is an archive)"},
    {0, 6, "7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it"},
};

static size_t read_start(const char *path, char start[START_BYTES])
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)
                      ? read(fd, start, START_BYTES - 1)
                      : 0;
    if (fd >= 0)
        close(fd);
    start[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

bool file_is_zip(const char *path)
{
    char start[START_BYTES];
    return read_start(path, start) >= 4 && start[0] == 'P' && start[1] == 'K' &&
           ((start[2] == 3 && start[3] == 4) || (start[2] == 5 && start[3] == 6));
}

static const char *kind_of_json(const char *name, const char *start)
{
    static const char *const documents[] = {"zarr.json", ".zgroup", ".zarray", ".zmetadata",
                                            ".zattrs"};
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++)
        if (strcmp(name, documents[i]) == 0)
            return "a metadata document: name the folder that it lies in";
    if (strstr(start, "\"refs\"") || strstr(start, "/.zarray\"") || strstr(start, "\".zgroup\""))
        return "a file of kerchunk's references: write reference:// before its path";
    return NULL;
}

const char *file_kind(const char *path)
{
    char start[START_BYTES];
    const char *slash = strrchr(path, '/');
    size_t got = read_start(path, start), blank = strspn(start, " \t\r\n");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (got >= kinds[i].offset + kinds[i].bytes &&
            memcmp(start + kinds[i].offset, kinds[i].start, kinds[i].bytes) == 0)
            return kinds[i].kind;
    if (start[blank] == '<')
        return "an HTML or XML page: the download gave an error or a page to log in, perhaps";
    return start[blank] == '{' ? kind_of_json(slash ? slash + 1 : path, start) : NULL;
}
