/* A mix as bytes, and back: its sources, each packed as a dataset. */
#include "dataset/pack/pack_internal.h"

#include "dataset/mix/mix.h"

#include <stdlib.h>
#include <string.h>

static const char pack_magic[] = "penstock mix 1";

void mix_pack(const struct dataset *mix, struct text *out)
{
    packed_put_run(out, pack_magic, strlen(pack_magic));
    packed_put_number(out, mix->source_count);
    for (uint32_t d = 0; d < mix->source_count; d++) {
        void *bytes;
        size_t size;
        (void)!dataset_pack(mix->sources[d], &bytes, &size, NULL); /* does not fail */
        packed_put_run(out, bytes, size);
        free(bytes);
    }
}

static bool take_magic(struct packed *packed)
{
    const char *magic;
    return packed_take_string(packed, &magic) && strcmp(magic, pack_magic) == 0;
}

bool mix_is_packed(const void *bytes, size_t size)
{
    struct packed packed = {bytes, size};
    return take_magic(&packed);
}

static enum status unpack_sources(struct packed *packed, struct store_watch *watch,
                                  struct dataset *mix, struct error *err)
{
    const char *names[DATASET_MAX_SOURCES] = {0};
    enum status status = STATUS_OK;
    for (uint32_t d = 0; d < mix->source_count && status == STATUS_OK; d++) {
        const char *bytes;
        size_t size;
        names[d] = "of rank 0"; /* where the fields were compared */
        if (!packed_take_run(packed, &bytes, &size))
            return error_set(err, STATUS_CORRUPT, "packed mix ends early");
        status = dataset_unpack_source(bytes, size, NULL, watch, mix, d, &mix->sources[d], err);
    }
    return status == STATUS_OK ? mix_settle_sources(mix, names, err) : status;
}

enum status mix_unpack(const void *bytes, size_t size, struct store_watch *watch,
                       struct dataset **ret_mix, struct error *err)
{
    struct packed packed = {bytes, size};
    struct dataset *mix;
    uint64_t count;
    if (!take_magic(&packed) || !packed_take_number(&packed, &count) || count == 0 ||
        count > DATASET_MAX_SOURCES)
        return error_set(err, STATUS_CORRUPT, "packed mix is not valid");
    enum status status = mix_new(&(struct dataset_options){.uri = ""}, (uint32_t)count, &mix, err);
    if (status != STATUS_OK)
        return status;
    status = unpack_sources(&packed, watch, mix, err);
    if (status != STATUS_OK)
        dataset_free(mix);
    else
        *ret_mix = mix;
    return status;
}
