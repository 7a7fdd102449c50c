/* See png.h. PNG (ISO/IEC 15948): a signature, then chunks of length, type, data and CRC-32. The
 * pixels are one zlib stream of lines, each behind a byte that says how it is filtered: not. */
#include "cli/samples/png.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { LEVEL = 6, HEADER_BYTES = 13 };

static void put_u32(uint32_t number, unsigned char *at)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(number >> (24 - 8 * i));
}

static void put_chunk(struct text *png, const char *type, const void *data, size_t size)
{
    unsigned char word[4];
    uint32_t crc = libdeflate_crc32(libdeflate_crc32(0, type, 4), data, size);
    put_u32((uint32_t)size, word);
    text_append_bytes(png, word, sizeof word);
    text_append_bytes(png, type, 4);
    text_append_bytes(png, data, size);
    put_u32(crc, word);
    text_append_bytes(png, word, sizeof word);
}

/* Puts the pixels into `lines`, and compresses them; returns the bytes at `out`, 0: no memory. */
static size_t compress_lines(const unsigned char *rgb, size_t width, size_t height,
                             unsigned char *lines, unsigned char *out, size_t capacity)
{
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(LEVEL);
    size_t line = 3 * width;
    if (!compressor)
        return 0;
    for (size_t y = 0; y < height; y++) {
        lines[y * (line + 1)] = 0;
        memcpy(lines + y * (line + 1) + 1, rgb + y * line, line);
    }
    size_t size = libdeflate_zlib_compress(compressor, lines, height * (line + 1), out, capacity);
    libdeflate_free_compressor(compressor);
    return size;
}

static void append_base64(const unsigned char *bytes, size_t size, struct text *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t word = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (left > 2 ? bytes[i + 2] : 0);
        const char four[] = {digits[word >> 18], digits[word >> 12 & 63],
                             left > 1 ? digits[word >> 6 & 63] : '=',
                             left > 2 ? digits[word & 63] : '='};
        text_append_bytes(out, four, sizeof four);
    }
}

enum status png_append_base64(const unsigned char *rgb, uint32_t width, uint32_t height,
                              struct text *out, struct error *err)
{
    static const unsigned char signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char header[HEADER_BYTES] = {0};
    size_t bytes = height * (3 * (size_t)width + 1);
    size_t capacity = libdeflate_zlib_compress_bound(NULL, bytes), size = 0;
    unsigned char *lines = malloc(bytes), *packed = malloc(capacity);
    if (lines && packed)
        size = compress_lines(rgb, width, height, lines, packed, capacity);
    if (size > 0) {
        struct text png = {0};
        put_u32(width, header);
        put_u32(height, header + 4);
        header[8] = 8; /* bits */
        header[9] = 2; /* red, green, blue */
        text_append_bytes(&png, signature, sizeof signature);
        put_chunk(&png, "IHDR", header, sizeof header);
        put_chunk(&png, "IDAT", packed, size);
        put_chunk(&png, "IEND", "", 0);
        append_base64((const unsigned char *)png.data, png.length, out);
        text_done(&png);
    }
    free(lines);
    free(packed);
    return size > 0 ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for a picture");
}
