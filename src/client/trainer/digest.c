/* See digest.h. */
#include "trainer/digest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct digest {
    FILE *file;
    XXH3_state_t *state;
    bool padding;
    int failure; /* errno of the first write that failed */
};

struct digest *digest_open(const char *path, bool padding)
{
    struct digest *digest = calloc(1, sizeof *digest);
    if (!digest)
        return NULL;
    digest->padding = padding;
    digest->state = XXH3_createState();
    digest->file = digest->state ? fopen(path, "we") : NULL;
    if (digest->file)
        return digest;
    int failure = digest->state ? errno : ENOMEM;
    XXH3_freeState(digest->state);
    free(digest);
    errno = failure;
    return NULL;
}

static uint64_t sample_digest(struct digest *digest, const struct penstock_info *info,
                              const struct penstock_batch *batch, uint32_t sample)
{
    XXH3_64bits_reset(digest->state);
    for (uint32_t f = 0; f < info->field_count; f++) {
        size_t bytes = info->fields[f].sample_bytes;
        const unsigned char *data = batch->data[f];
        XXH3_64bits_update(digest->state, data + sample * bytes, bytes);
    }
    return XXH3_64bits_digest(digest->state);
}

bool digest_batch(struct digest *digest, const struct penstock_info *info,
                  const struct penstock_batch *batch)
{
    for (uint32_t i = 0; i < batch->sample_count; i++) {
        if (!batch->valid[i] && !digest->padding)
            continue;
        int written = fprintf(digest->file,
                              "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
                              batch->epoch, batch->step, batch->first_position + i,
                              batch->indices[i], sample_digest(digest, info, batch, i));
        if (written < 0)
            return false;
    }
    if (fflush(digest->file) == 0)
        return true;
    digest->failure = errno;
    return false;
}

bool digest_close(struct digest *digest)
{
    if (!digest)
        return true;
    bool written = fclose(digest->file) == 0 && digest->failure == 0;
    int failure = digest->failure ? digest->failure : errno;
    XXH3_freeState(digest->state);
    free(digest);
    errno = failure;
    return written;
}
