/* See foreign.h. */
#include "zarr/hierarchy/foreign.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAMES = 64, NAME_BYTES = 128, MOST_MARKS = 2, MOST_SHOWN = 3 };

#define TO_ZARR "write a Zarr store, as with xarray.open_dataset(...).to_zarr()"

/* Formats by names at their root; '/' behind a name: it is a folder. Names in folders are asked
 * for.
 */
static const struct {
    const char *marks[MOST_MARKS];
    const char *what;
} formats[] = {
    {{"snapshots/", "refs/"},
     "an Icechunk repository: write icechunk:// before its path, or icechunk+ before its uri"},
    {{"snapshots/", "repo"},
     "an Icechunk repository: write icechunk:// before its path, or icechunk+ before its uri"},
    {{"refs/branch.main/ref.json"},
     "an Icechunk repository: write icechunk:// before its path, or icechunk+ before its uri"},
    {{"meta/info.json"}, "a LeRobot dataset: 'penstock import lerobot' makes a dataset of it"},
    {{"attributes.json"}, "an N5 container, which is not read: write its arrays to a Zarr store"},
    {{"meta"},
     "an array of Zarr version 1, which is not read: write the array anew with Zarr 2 or 3"},
    {{"manifest.ocdbt"},
     "an OCDBT database of TensorStore, which is not read: copy its keys to a "
     "directory"},
    {{"info"}, "a precomputed volume of Neuroglancer, which is not read: write a Zarr store of it"},
    {{"_versions/", "data/"},
     "a Lance dataset: write it as Parquet, and 'penstock import parquet' "
     "makes a dataset of it"},
    {{"_delta_log/"}, "a Delta table: 'penstock import parquet' makes a dataset of its files"},
    {{"dataset_info.json"},
     "a dataset of Hugging Face: write it as Parquet, and 'penstock import "
     "parquet' makes a dataset of it"},
};

/* Files by the ends of their names. */
static const struct {
    const char *end, *what;
} files[] = {
    {".parq",
     "a folder of kerchunk's references as Parquet, which are not read: write them as JSON, by "
     "python3 -m penstock.references IN OUT, and reference:// before the file's path"},
    {".parquet", "a folder of Parquet files: 'penstock import parquet' makes a dataset of them"},
    {".arrow",
     "a folder of Arrow files: write them as Parquet, and 'penstock import parquet' makes "
     "a dataset of them"},
    {".h5", "a folder of HDF5 files: " TO_ZARR},
    {".hdf5", "a folder of HDF5 files: " TO_ZARR},
    {".h5ad", "a folder of AnnData's HDF5 files: write_zarr() makes a store of each"},
    {".nc", "a folder of NetCDF files: write a Zarr store, as with "
            "xarray.open_mfdataset(...).to_zarr()"},
    {".npy", "a folder of NumPy files: write their arrays to a Zarr store, as with zarr.save()"},
    {".npz", "a folder of NumPy files: write their arrays to a Zarr store, as with zarr.save()"},
    {".tar", "a folder of tar archives: unpack them"},
    {".mp4", "a folder of videos: 'penstock ingest' makes a dataset of them"},
    {".mkv", "a folder of videos: 'penstock ingest' makes a dataset of them"},
};

/* Files behind a server, by the ends of their uris. */
static const char *const archives[] = {".tar", ".tgz", ".gz",  ".zst",  ".7z",      ".h5",
                                       ".nc",  ".npy", ".npz", ".json", ".parquet", ".hdf5"};

struct listing {
    char names[MOST_NAMES][NAME_BYTES]; /* with a '/' behind folders' */
    size_t count;
};

static enum status take_name(const char *name, bool is_prefix, void *argument, struct error *err)
{
    struct listing *listing = argument;
    if (listing->count == MOST_NAMES)
        return error_set(err, STATUS_ENDED, "enough names");
    if (strlen(name) + 2 <= NAME_BYTES)
        snprintf(listing->names[listing->count++], NAME_BYTES, "%s%s", name, is_prefix ? "/" : "");
    return STATUS_OK;
}

static bool has_name(const struct listing *listing, const char *name)
{
    for (size_t i = 0; i < listing->count; i++)
        if (strcmp(listing->names[i], name) == 0)
            return true;
    return false;
}

static bool has_key(const struct store *store, const char *key)
{
    struct store_info info;
    return store_stat(store, key, &info, NULL) == STATUS_OK;
}

/* `listing` NULL: the store has no listings, and is asked for the files. */
static const char *find_format(const struct store *store, const struct listing *listing)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        bool found = true;
        for (size_t k = 0; k < MOST_MARKS && formats[i].marks[k] && found; k++) {
            const char *mark = formats[i].marks[k];
            const char *slash = strchr(mark, '/');
            bool is_folder = slash && !slash[1], is_inside = slash && slash[1];
            found = listing && !is_inside ? has_name(listing, mark)
                                          : !is_folder && has_key(store, mark);
        }
        if (found)
            return formats[i].what;
    }
    return NULL;
}

static bool ends_in(const char *text, size_t length, const char *end)
{
    size_t bytes = strlen(end);
    return length > bytes && strncasecmp(text + length - bytes, end, bytes) == 0;
}

static const char *find_files(const struct listing *listing)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        for (size_t k = 0; k < listing->count; k++) {
            size_t length = strlen(listing->names[k]);
            length -= listing->names[k][length - 1] == '/'; /* of kerchunk "refs.0.parq", too */
            if (ends_in(listing->names[k], length, files[i].end))
                return files[i].what;
        }
    return NULL;
}

static bool is_store(const struct store *store, const char *name)
{
    static const char *const documents[] = {"zarr.json", ".zgroup", ".zarray", ".zmetadata"};
    char key[NAME_BYTES + 16];
    size_t length = strlen(name);
    for (size_t i = 0; name[length - 1] == '/' && i < 4; i++) {
        snprintf(key, sizeof key, "%s%s", name, documents[i]);
        if (has_key(store, key))
            return true;
    }
    return ends_in(name, length, ".zarr.zip");
}

/* "it holds stores: ..."; no uri names a path in an archive, but a group's path may begin there. */
static const char in_folder[] = "it holds stores: name one or more of ",
                  in_archive[] = "it holds stores: unpack them, or set dataset.group to one of ";
static bool name_stores(const struct store *store, const struct listing *listing, struct text *out)
{
    bool is_archive = store_is_archive(store);
    const char *uri = store_uri(store);
    size_t count = 0, end = strlen(uri);
    while (end > 0 && uri[end - 1] == '/')
        end--;
    for (size_t i = 0; i < listing->count && count < MOST_SHOWN; i++) {
        const char *name = listing->names[i];
        size_t length = strlen(name);
        if (!is_store(store, name))
            continue;
        text_append(out, "%s'", count++ ? ", " : is_archive ? in_archive : in_folder);
        if (!is_archive)
            text_append(out, "%.*s/", (int)end, uri);
        text_append(out, "%.*s'", (int)(length - (name[length - 1] == '/')), name);
    }
    return count > 0;
}

static bool is_chunk(const char *name)
{
    size_t length = strlen(name);
    length -= name[length - 1] == '/';
    return strcmp(name, "c/") == 0 || (strspn(name, "0123456789.") >= length && name[0] != '.');
}

static bool has_chunks(const struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        if (is_chunk(listing->names[i]))
            return true;
    return false;
}

static void describe(const struct store *store, const struct listing *listing, struct text *out)
{
    const char *what = find_format(store, listing);
    if (what) {
        text_append(out, "it looks like %s", what);
        return;
    }
    if (!listing || name_stores(store, listing, out))
        return;
    if (listing->count == 0)
        text_append(out, "it is empty: is the file system mounted there?");
    else if ((what = find_files(listing)))
        text_append(out, "it looks like %s", what);
    else if (has_chunks(listing))
        text_append(out, "it has chunks without their metadata document: name the folder of the "
                         "array, or copy the store anew");
}

static bool names_a_file(const char *uri)
{
    size_t length = strlen(uri);
    while (length > 0 && uri[length - 1] == '/')
        length--;
    for (size_t i = 0; i < sizeof archives / sizeof archives[0]; i++)
        if (ends_in(uri, length, archives[i]))
            return true;
    return false;
}

void foreign_explain(const struct store *store, struct error *err)
{
    struct listing listing = {.count = 0};
    struct text text = {0};
    if (!err || store_joined_at(store, 0, &(const char *){NULL}) != store)
        return;
    enum status status = store_list(store, "", take_name, &listing, NULL);
    bool listed = status == STATUS_OK || status == STATUS_ENDED;
    if (store_is_remote(store) && !store_is_archive(store) && names_a_file(store_uri(store)))
        text_append(&text,
                    "it looks like a file: behind a network no file is read but zip archives: "
                    "download it, or serve what is in it; before the uri of kerchunk's references "
                    "write reference+");
    else
        describe(store, listed ? &listing : NULL, &text);
    if (text.data)
        error_set(err, (enum status)err->status, "%.500s: %s", err->message, text.data);
    text_done(&text);
}
