/* What the fuzz targets share: the function that each defines for libFuzzer and replay.c, which
 * returns 0 and aborts on a finding; a way to take an input apart; what must not be left behind. */
#ifndef PENSTOCK_TESTS_FUZZ_FUZZ_H
#define PENSTOCK_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* What is left of an input. What is taken behind its end is 0. */
struct input {
    const uint8_t *at;
    size_t left;
};

static inline uint64_t take_number(struct input *input, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t byte = input->left > 0 ? *input->at : 0;
        input->at += input->left > 0;
        input->left -= input->left > 0;
        number |= byte << 8 * i;
    }
    return number;
}

static inline uint8_t take_byte(struct input *input)
{
    return (uint8_t)take_number(input, 1);
}

/* Up to `most` bytes of the input itself. */
static inline const uint8_t *take_bytes(struct input *input, size_t most, size_t *ret_size)
{
    const uint8_t *bytes = input->at;
    *ret_size = most < input->left ? most : input->left;
    input->at += *ret_size;
    input->left -= *ret_size;
    return bytes;
}

/* What is left, as a string of its own (free()), so that AddressSanitizer sees its end. */
static inline char *take_text(struct input *input)
{
    char *text = malloc(input->left + 1);
    CHECK(text);
    memcpy(text, input->at, input->left);
    text[input->left] = '\0';
    input->at += input->left;
    input->left = 0;
    return text;
}

/* The lowest free descriptor: the same before and after, unless one was left open or one too many
 * was closed. */
static inline int lowest_free_fd(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK(fd >= 0);
    close(fd);
    return fd;
}

/* A folder of this process, in TMPDIR; made at the first call. The caller removes it. */
static inline const char *fuzz_folder(void)
{
    static char folder[64];
    const char *parent = getenv("TMPDIR");
    if (folder[0])
        return folder;
    int length =
        snprintf(folder, sizeof folder, "%s/penstock-fuzz-XXXXXX", parent ? parent : "/tmp");
    CHECK(length < (int)sizeof folder && mkdtemp(folder));
    return folder;
}

#endif
