/* Decoding of chunks on one core, against the codec's library called directly on the same bytes.
 *
 *     penstock-bench-codecs [ROUNDS [KIB]]
 *
 * Both decode chunks that lie in memory, in turns: a round is some of the one, then as many of the
 * other, and its ratio the library's time by ours. Printed are medians over rounds. The filters
 * have no library but numcodecs; of them there is the rate alone, and that of copying for
 * comparison. Blosc, whose frames Penstock decodes by itself, is measured against libblosc with
 * three compressors, both shuffles and elements of 2, 4 and 8 bytes. The last line is one JSON
 * object. */
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

__attribute__((noreturn)) static void stop(const char *what, const struct error *err)
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
                     codec_output_of(chunk->decoded, chunk->bytes), &err) != STATUS_OK)
        stop("decode", &err);
}

typedef void decode(const struct chunk *chunk);

struct subject {
    const char *name, *codec; /* v2's */
    decode *bare;
    size_t type_bytes;
};

static const struct subject subjects[] = {
    {"blosc-zstd", "{'id': 'blosc', 'cname': 'zstd', 'clevel': 5, 'shuffle': 1}", bare_blosc, 2},
    {"zstd", "{'id': 'zstd', 'level': 3}", bare_zstd, 2},
    {"lz4", "{'id': 'lz4'}", bare_lz4, 2},
    {"gzip", "{'id': 'gzip', 'level': 5}", bare_gzip, 2},
    {"shuffle", "{'id': 'shuffle', 'elementsize': 4}", copy, 2},
    {"delta i4", "{'id': 'delta', 'dtype': '<i4'}", copy, 2},
    {"delta >i4", "{'id': 'delta', 'dtype': '>i4'}", copy, 2},
    {"f4 from f2", "{'id': 'astype', 'decode_dtype': '<f4', 'encode_dtype': '<f2'}", copy, 2},
    {"f4 from i2",
     "{'id': 'fixedscaleoffset', 'dtype': '<f4', 'astype': '<i2', 'scale': 10, 'offset': 3}", copy,
     2},
    {"packbits", "{'id': 'packbits'}", copy, 2},
};

static const size_t sizes[] = {64 * KIBIBYTE, 256 * KIBIBYTE, MEBIBYTE, 4 * MEBIBYTE,
                               16 * MEBIBYTE};

/* Of Blosc's matrix. */
static const char *const compressors[] = {"zstd", "lz4", "zlib"};
static const char *const shuffles[] = {"shuffle", "bitshuffle"}; /* 1 and 2 in v2 */
static const size_t type_sizes[] = {2, 4, 8};
static const size_t blosc_sizes[] = {16 * KIBIBYTE, 32 * KIBIBYTE, 64 * KIBIBYTE, 160 * KIBIBYTE,
                                     256 * KIBIBYTE};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Chunks
 * -----------------------------------------------------------------------------------------------
 */

/* About what samples of floats are: the lower half of an element is noise, the byte above has 3
 * bits of it, what is above that is zero; and every other 128 bytes have been there before, so that
 * lz4 finds something, too. */
static void make_samples(size_t type_bytes, uint8_t *samples, size_t bytes)
{
    static const uint64_t masks[] = {
        [2] = 0x07ff07ff07ff07ff, [4] = 0x0007ffff0007ffff, [8] = 0x00000007ffffffff};
    for (size_t i = 0; i < bytes; i += 8) {
        bool again = i & 128;
        uint64_t noise = random_u64(7, type_bytes, again ? i % 4096 : i) & masks[type_bytes];
        memcpy(samples + i, &noise, sizeof noise);
    }
}

/* Filters get as many of the samples' bytes as they store. */
static void make_chunk(const struct subject *subject, size_t bytes, struct chunk *chunk)
{
    struct json_object *json = json_tokener_parse(subject->codec), *id = NULL;
    const struct codec_chain *chains[] = {&chunk->chain};
    struct error err;
    *chunk = (struct chunk){.bytes = bytes};
    json_object_object_get_ex(json, "id", &id);
    if (codec_chain_add(&chunk->chain, CODEC_ZARR_V2, json_object_get_string(id), json,
                        subject->type_bytes, &err) != STATUS_OK ||
        codec_context_new(chains, 1, bytes, &chunk->context, &err) != STATUS_OK)
        stop(subject->name, &err);
    json_object_put(json);
    size_t bound = codec_chain_stored_bound(&chunk->chain, bytes);
    chunk->stored = malloc(bound > bytes ? bound : bytes);
    chunk->decoded = malloc(bytes);
    check(chunk->stored && chunk->decoded, "no memory");
    make_samples(subject->type_bytes, chunk->decoded, bytes);
    chunk->stored_bytes = bound;
    if (codec_encode(&chunk->chain, chunk->decoded, bytes, chunk->stored, bound,
                     &chunk->stored_bytes, &err) == STATUS_OK)
        return;
    memcpy(chunk->stored, chunk->decoded, bytes < bound ? bytes : bound);
    chunk->stored[0] = subject->codec[8] == 'p' ? 0 : chunk->stored[0]; /* packbits */
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

struct rates {
    double ours, bare, ratio; /* GB/s, GB/s, and what the one is of the other */
    size_t stored_bytes;
};

static struct rates measure(const struct subject *subject, size_t bytes, size_t rounds)
{
    struct chunk chunk;
    double ours_rates[MAX_ROUNDS] = {0}, bare_rates[MAX_ROUNDS] = {0}, ratios[MAX_ROUNDS] = {0};
    make_chunk(subject, bytes, &chunk);
    size_t count = ROUND_BYTES / bytes;
    seconds_of(ours, &chunk, 1 + count / 8);
    seconds_of(subject->bare, &chunk, 1 + count / 8);
    for (size_t i = 0; i < rounds; i++) {
        bool first = i % 2 == 0;
        double before = first ? seconds_of(ours, &chunk, count) : 0;
        double theirs = seconds_of(subject->bare, &chunk, count);
        double mine = first ? before : seconds_of(ours, &chunk, count);
        ours_rates[i] = (double)(count * bytes) / mine / 1e9;
        bare_rates[i] = (double)(count * bytes) / theirs / 1e9;
        ratios[i] = theirs / mine;
    }
    struct rates rates = {median(ours_rates, rounds), median(bare_rates, rounds),
                          median(ratios, rounds), chunk.stored_bytes};
    drop_chunk(&chunk);
    return rates;
}

static void report_codec(const struct subject *subject, size_t bytes, size_t rounds,
                         struct text *json)
{
    bool is_copy = subject->bare == copy;
    struct rates rates = measure(subject, bytes, rounds);
    printf("%-12s %7zu KiB %9.2f %9.2f %7.2f%s\n", subject->name, bytes / KIBIBYTE, rates.ours,
           rates.bare, rates.ratio, is_copy ? " of copying" : "");
    fflush(stdout);
    text_append(json,
                "%s{\"codec\": \"%s\", \"bytes\": %zu, \"rate\": %.3f, \"%s\": %.3f, "
                "\"ratio\": %.3f}",
                json->length > 1 ? ", " : "", subject->name, bytes, rates.ours,
                is_copy ? "copy_rate" : "library_rate", rates.bare, rates.ratio);
}

/* One compressor with chunks of one size: both shuffles, all elements. */
static void report_blosc(const char *compressor, size_t bytes, size_t rounds, struct text *json)
{
    text_append(json, "\"%zu\": {", bytes / KIBIBYTE);
    for (size_t i = 0; i < COUNT(shuffles) * COUNT(type_sizes); i++) {
        char codec[128];
        size_t shuffle = i / COUNT(type_sizes), type_bytes = type_sizes[i % COUNT(type_sizes)];
        snprintf(codec, sizeof codec, "{'id': 'blosc', 'cname': '%s', 'clevel': 5, 'shuffle': %zu}",
                 compressor, shuffle + 1);
        const struct subject subject = {"blosc", codec, bare_blosc, type_bytes};
        struct rates rates = measure(&subject, bytes, rounds);
        printf("%-5s %-10s of %zu %7zu KiB %6.2f to 1 %9.2f %9.2f %7.2f\n", compressor,
               shuffles[shuffle], type_bytes, bytes / KIBIBYTE,
               (double)bytes / (double)rates.stored_bytes, rates.ours, rates.bare, rates.ratio);
        fflush(stdout);
        text_append(json, "%s\"%s%zu\": %.2f", i > 0 ? ", " : "", shuffles[shuffle], type_bytes,
                    rates.ratio);
    }
    text_append(json, "}");
}

static void report_all_blosc(size_t rounds, size_t most_bytes, struct text *json)
{
    printf("\n%-41s %9s %9s %7s\n", "blosc frames", "GB/s", "libblosc", "ratio");
    for (size_t i = 0; i < COUNT(compressors); i++) {
        text_append(json, "%s\"%s\": {", i > 0 ? ", " : "", compressors[i]);
        for (size_t k = 0; k < COUNT(blosc_sizes) && blosc_sizes[k] <= most_bytes; k++) {
            text_append(json, "%s", k > 0 ? ", " : "");
            report_blosc(compressors[i], blosc_sizes[k], rounds, json);
        }
        text_append(json, "}");
    }
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 5;
    size_t most_kib = argc > 2 ? strtoul(argv[2], NULL, 10) : SIZE_MAX / KIBIBYTE;
    struct text json = {0}, blosc = {0};
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
    for (size_t i = 0; i < COUNT(subjects); i++)
        for (size_t k = 0; k < COUNT(sizes) && sizes[k] <= most_kib * KIBIBYTE; k++)
            report_codec(&subjects[i], sizes[k], rounds, &json);
    report_all_blosc(rounds, most_kib * KIBIBYTE, &blosc);
    printf("{\"decode\": %s], \"blosc_over_libblosc\": {%s}}\n", json.data, blosc.data);
    text_done(&blosc);
    text_done(&json);
    ZSTD_freeDCtx(zstd);
    libdeflate_free_decompressor(deflate);
    return EXIT_SUCCESS;
}
