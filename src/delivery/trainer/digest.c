/* See digest.h. */
#include "delivery/trainer/digest.h"

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

/* Of offsets a sample's own lengths, so that no digest depends on the batch's other samples. */
static void add_lengths(struct digest *digest, const struct penstock_field *field,
                        const int64_t *offsets)
{
    for (uint64_t k = 0; k < field->steps; k++) {
        int64_t length = offsets[k + 1] - offsets[k];
        XXH3_64bits_update(digest->state, &length, sizeof length);
    }
}

static void add_field(struct digest *digest, const struct penstock_info *info,
                      const struct penstock_batch *batch, uint32_t f, uint32_t sample)
{
    const struct penstock_field *field = &info->fields[f];
    const unsigned char *data = batch->data[f];
    uint64_t begin = sample, end = begin + 1;
    if (field->is_padded) {
        begin = sample * batch->bound;
        end = begin + batch->bound;
    } else if (field->most_items > 0) {
        const int64_t *offsets = batch->data[field->offsets_field];
        begin = penstock_own_items(field, offsets[sample * field->steps]);
        end = penstock_own_items(field, offsets[(sample + 1) * field->steps]);
    } else if (field->steps > 0) {
        add_lengths(digest, field, (const int64_t *)batch->data[f] + sample * field->steps);
        return;
    }
    uint64_t bytes = penstock_sample_bytes(info, batch, f);
    XXH3_64bits_update(digest->state, data + begin * bytes, (end - begin) * bytes);
}

static uint64_t sample_digest(struct digest *digest, const struct penstock_info *info,
                              const struct penstock_batch *batch, uint32_t sample)
{
    XXH3_64bits_reset(digest->state);
    for (uint32_t f = 0; f < info->field_count; f++)
        add_field(digest, info, batch, f, sample);
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
