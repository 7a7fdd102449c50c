/* Samples of fuzzed arrays: read as a part and as a whole, and compared. */
#ifndef PENSTOCK_TESTS_FUZZ_SAMPLES_H
#define PENSTOCK_TESTS_FUZZ_SAMPLES_H

#include "memory_store.h"

#include "zarr/chunk/chunk.h"

static inline struct zarr_array parse_array(enum zarr_format format, const char *document)
{
    struct zarr_array array;
    struct error err;
    if (zarr_array_parse(format, "x", document, strlen(document), &array, &err) != STATUS_OK) {
        fprintf(stderr, "array %s: %s\n", document, err.message);
        abort();
    }
    return array;
}

/* Samples in memory of just their size (free()); NULL if they cannot be read, with a message that
 * has `place`. */
static inline unsigned char *read_samples(struct zarr_chunk_reader *reader,
                                          const struct zarr_array *array, uint64_t begin,
                                          uint64_t end, const char *place)
{
    struct zarr_read_stats stats = {0};
    struct error err;
    unsigned char *samples = malloc((end - begin) * zarr_array_sample_bytes(array));
    CHECK(samples);
    enum status status = zarr_read_samples(reader, array, begin, end, samples, &stats, &err);
    if (status == STATUS_OK)
        return samples;
    CHECK(err.status == (int32_t)status && strstr(err.message, "'x") && /* 'x.a': a member */
          strstr(err.message, place));
    free(samples);
    return NULL;
}

/* The samples are the same, read alone and with all others. Returns whether they can be read. */
static inline bool check_samples(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                                 uint64_t begin, uint64_t end, const char *place)
{
    unsigned char *part = read_samples(reader, array, begin, end, place);
    unsigned char *all = read_samples(reader, array, 0, array->shape[0], place);
    uint64_t bytes = zarr_array_sample_bytes(array);
    bool readable = part;
    CHECK(part || !all);
    if (all)
        CHECK(memcmp(part, all + begin * bytes, (end - begin) * bytes) == 0);
    free(part);
    free(all);
    return readable;
}

#endif
