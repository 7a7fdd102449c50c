/* Advice on how an array is compressed and divided, from the table of `bench/run.sh layouts`
 * (docs/measured/benchmarks.md). Pure.
 *
 * The rule, for float16 and bfloat16, which the table is about, and for nothing else:
 *   stored above 0.95 of decoded      do not compress: nothing is gained
 *   above 0.85, without bitshuffle    blosc-zstd with bitshuffle; not instead of lz4, which is
 * faster else                              none: what is there is good
 *
 * Chunks of several samples of 16 KiB or more, above 4 MiB: about 1 MiB. The table's samples were
 * read as fast from 0.6 MiB on, and a reader's memory grows with the chunk.
 */
#ifndef PENSTOCK_SCAN_ADVICE_H
#define PENSTOCK_SCAN_ADVICE_H

#include "base/text.h"
#include "zarr/metadata/array.h"

/* Options of `penstock rechunk` that would do better for chunks that take `stored_share` of their
 * decoded bytes, and why; empty where there are none. Neither is to be freed. */
struct advice {
    const char *options, *reason;
};

struct advice advice_on_codecs(const struct zarr_array *array, double stored_share);

/* Samples of a chunk that would do better; 0: those that it has. */
uint64_t advice_on_chunks(const struct zarr_array *array);

/* Appends "hint: 'base_frames': chunks of ...: <rechunk> --chunk N\n", or nothing. `rechunk` is a
 * command without options that writes the dataset anew. */
void advice_describe_chunks(const struct zarr_array *array, const char *rechunk, struct text *out);

/* Appends "hint: 'base_frames' <reason>: <rechunk> <options>\n", or nothing. */
void advice_describe(const struct zarr_array *array, double stored_share, const char *rechunk,
                     struct text *out);

#endif
