/* Decoding of chunks on one core, against the codec's library called directly on the same bytes.
 *
 *     penstock-bench-codecs [ROUNDS]
 *
 * Both decode chunks that lie in memory, in turns: a round is some of the one, then as many of the
 * other, and its ratio the library's time by ours. Printed are medians over rounds. The filters
 * have no library but numcodecs; of them there is the rate alone, and that of copying for
 * comparison. The last line is one JSON object. */
#include "base/random.h"
#include "codec/codec.h"

#include <blosc.h>
#include <json-c/json.h>
#include <libdeflate.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

enum { KIBIBYTE = 1024, MEBIBYTE = 1 << 20, ROUND_BYTES = 16 * MEBIBYTE, MAX_ROUNDS = 1000 };

/* One chunk, stored and with room to decode it. */
struct chunk {
    struct codec_chain chain;
    struct codec_context *context;
    uint8_t *stored, *decoded;
    size_t stored_bytes, bytes;
};

static void stop(const char *what, const struct error *err)
{
    fprintf(stderr, "penstock-bench-codecs: %s: %s\n", what, err ? err->message : "failed");
    exit(EXIT_FAILURE);
}

static void check(bool ok, const char *what)
{
    if (!ok)
        stop(what, NULL);
}

/* The libraries
 * ---------------------------------------------------------------------------------------- */

static ZSTD_DCtx *zstd;
static struct libdeflate_decompressor *deflate;

static void bare_blosc(const struct chunk *chunk)
{
    check(blosc_decompress_ctx(chunk->stored, chunk->decoded, chunk->bytes, 1) > 0, "blosc");
}

static void bare_zstd(const struct chunk *chunk)
{
    check(ZSTD_decompressDCtx(zstd, chunk->decoded, chunk->bytes, chunk->stored,
                              chunk->stored_bytes) == chunk->bytes,
          "zstd");
}

static void bare_lz4(const struct chunk *chunk)
{
    check(LZ4_decompress_safe((const char *)chunk->stored + 4, (char *)chunk->decoded,
                              (int)chunk->stored_bytes - 4, (int)chunk->bytes) > 0,
          "lz4");
}

static void bare_gzip(const struct chunk *chunk)
{
    size_t size = 0;
    check(libdeflate_gzip_decompress(deflate, chunk->stored, chunk->stored_bytes, chunk->decoded,
                                     chunk->bytes, &size) == LIBDEFLATE_SUCCESS,
          "gzip");
}

static void copy(const struct chunk *chunk)
{
    memcpy(chunk->decoded, chunk->stored, chunk->bytes);
}

static void ours(const struct chunk *chunk)
{
    struct error err;
    if (codec_decode(&chunk->chain, chunk->context, chunk->stored, chunk->stored_bytes,
                     chunk->decoded, chunk->bytes, &err))
        stop("decode", &err);
}

typedef void decode(const struct chunk *chunk);

static const struct {
    const char *name, *codec; /* v2's */
    decode *bare;
} subjects[] = {
    {"blosc-zstd", "{'id': 'blosc', 'cname': 'zstd', 'clevel': 5, 'shuffle': 1}", bare_blosc},
    {"zstd", "{'id': 'zstd', 'level': 3}", bare_zstd},
    {"lz4", "{'id': 'lz4'}", bare_lz4},
    {"gzip", "{'id': 'gzip', 'level': 5}", bare_gzip},
    {"shuffle", "{'id': 'shuffle', 'elementsize': 4}", copy},
    {"delta i4", "{'id': 'delta', 'dtype': '<i4'}", copy},
    {"delta >i4", "{'id': 'delta', 'dtype': '>i4'}", copy},
    {"f4 from f2", "{'id': 'astype', 'decode_dtype': '<f4', 'encode_dtype': '<f2'}", copy},
    {"f4 from i2",
     "{'id': 'fixedscaleoffset', 'dtype': '<f4', 'astype': '<i2', 'scale': 10, 'offset': 3}", copy},
    {"packbits", "{'id': 'packbits'}", copy},
};

enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

static const size_t sizes[] = {64 * KIBIBYTE, 256 * KIBIBYTE, MEBIBYTE, 4 * MEBIBYTE,
                               16 * MEBIBYTE};

/* Chunks
 * -----------------------------------------------------------------------------------------------
 */

/* About what float16 samples are: the low byte of each two is noise, the high one takes few
 * values; and every other 128 bytes have been there before, so that lz4 finds something, too.
 * Filters get as many of these bytes as they store. */
static void make_chunk(size_t subject, size_t bytes, struct chunk *chunk)
{
    struct json_object *json = json_tokener_parse(subjects[subject].codec), *id = NULL;
    const struct codec_chain *chains[] = {&chunk->chain};
    struct error err;
    *chunk = (struct chunk){.bytes = bytes};
    json_object_object_get_ex(json, "id", &id);
    if (codec_chain_add(&chunk->chain, CODEC_ZARR_V2, json_object_get_string(id), json, 2, &err) ||
        codec_context_new(chains, 1, bytes, &chunk->context, &err))
        stop(subjects[subject].name, &err);
    json_object_put(json);
    size_t bound = codec_chain_stored_bound(&chunk->chain, bytes);
    chunk->stored = malloc(bound > bytes ? bound : bytes);
    chunk->decoded = malloc(bytes);
    check(chunk->stored && chunk->decoded, "no memory");
    for (size_t i = 0; i < bytes; i += 8) {
        bool again = i & 128;
        uint64_t noise = random_u64(7, subject, again ? i % 4096 : i) & 0x07ff07ff07ff07ff;
        memcpy(chunk->decoded + i, &noise, sizeof noise);
    }
    chunk->stored_bytes = bound;
    if (codec_encode(&chunk->chain, chunk->decoded, bytes, chunk->stored, bound,
                     &chunk->stored_bytes, &err) == STATUS_OK)
        return;
    memcpy(chunk->stored, chunk->decoded, bytes < bound ? bytes : bound);
    chunk->stored[0] = subjects[subject].codec[8] == 'p' ? 0 : chunk->stored[0]; /* packbits */
}

static void drop_chunk(struct chunk *chunk)
{
    codec_context_free(chunk->context);
    free(chunk->stored);
    free(chunk->decoded);
}

/* Measuring
 * -------------------------------------------------------------------------------------------- */

/* Of this thread on a core: others that use the machine disturb that less than they do the time of
 * day. */
static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds_of(decode *function, const struct chunk *chunk, size_t count)
{
    double start = thread_seconds();
    for (size_t i = 0; i < count; i++)
        function(chunk);
    return thread_seconds() - start;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

static void measure(size_t subject, size_t bytes, size_t rounds, struct text *json)
{
    struct chunk chunk;
    double ours_rates[MAX_ROUNDS] = {0}, bare_rates[MAX_ROUNDS] = {0}, ratios[MAX_ROUNDS] = {0};
    make_chunk(subject, bytes, &chunk);
    size_t count = ROUND_BYTES / bytes;
    decode *bare = subjects[subject].bare;
    seconds_of(ours, &chunk, 1 + count / 8);
    seconds_of(bare, &chunk, 1 + count / 8);
    for (size_t i = 0; i < rounds; i++) {
        bool first = i % 2 == 0;
        double before = first ? seconds_of(ours, &chunk, count) : 0;
        double theirs = seconds_of(bare, &chunk, count);
        double mine = first ? before : seconds_of(ours, &chunk, count);
        ours_rates[i] = (double)(count * bytes) / mine / 1e9;
        bare_rates[i] = (double)(count * bytes) / theirs / 1e9;
        ratios[i] = theirs / mine;
    }
    double rate = median(ours_rates, rounds), bare_rate = median(bare_rates, rounds);
    double ratio = median(ratios, rounds);
    bool is_copy = bare == copy;
    printf("%-12s %7zu KiB %9.2f %9.2f %7.2f%s\n", subjects[subject].name, bytes / KIBIBYTE, rate,
           bare_rate, ratio, is_copy ? " of copying" : "");
    fflush(stdout);
    text_append(json,
                "%s{\"codec\": \"%s\", \"bytes\": %zu, \"rate\": %.3f, \"%s\": %.3f, "
                "\"ratio\": %.3f}",
                json->length > 1 ? ", " : "", subjects[subject].name, bytes, rate,
                is_copy ? "copy_rate" : "library_rate", bare_rate, ratio);
    drop_chunk(&chunk);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 5;
    size_t most_kib = argc > 2 ? strtoul(argv[2], NULL, 10) : SIZE_MAX / KIBIBYTE;
    struct text json = {0};
    if (argc > 3 || rounds == 0 || rounds > MAX_ROUNDS) {
        fprintf(stderr,
                "usage: penstock-bench-codecs [ROUNDS [KIB]], 1 to %d, chunks of KIB at most\n",
                MAX_ROUNDS);
        return 64;
    }
    zstd = ZSTD_createDCtx();
    deflate = libdeflate_alloc_decompressor();
    check(zstd && deflate, "no memory");
    printf("%-12s %11s %9s %9s %7s\n", "codec", "chunk", "GB/s", "library", "ratio");
    text_append(&json, "[");
    for (size_t i = 0; i < SUBJECTS; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0] && sizes[k] <= most_kib * KIBIBYTE;
             k++)
            measure(i, sizes[k], rounds, &json);
    printf("{\"decode\": %s]}\n", json.data);
    text_done(&json);
    ZSTD_freeDCtx(zstd);
    libdeflate_free_decompressor(deflate);
    return EXIT_SUCCESS;
}
