/* Decoding and encoding through a chain.
 *
 * Steps run in reverse to decode. Bytes between two steps lie in one of two scratch buffers of the
 * thread's context, used in turn. The first step of the chain runs last and decodes straight into
 * the caller's memory. A step that only trims (a checksum at the end) passes on a part of its input
 * and costs no buffer. A context belongs to one thread.
 */
#include "base/memory.h"
#include "base/number.h"
#include "codec/codec_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SCRATCH_COUNT = 2 };

struct codec_context {
    const struct codec *codecs[CODEC_COUNT]; /* that take memory, by codec_index(); else NULL */
    void *states[CODEC_COUNT];
    uint8_t *scratch[SCRATCH_COUNT];
    size_t scratch_count;
    size_t scratch_bytes; /* each */
};

/* What decoding through some chains takes
 * ----------------------------------------------------------- */

struct demand {
    const struct codec *codecs[CODEC_COUNT]; /* as in codec_context */
    size_t decoded_bytes[CODEC_COUNT];       /* the most that each decodes to */
    size_t scratch_count, scratch_bytes;
};

static void add_chain(struct demand *demand, const struct codec_chain *chain, size_t decoded_bytes)
{
    size_t between = 0;
    for (size_t i = 0; i < chain->step_count; i++) {
        const struct codec *codec = chain->steps[i].codec;
        size_t index = codec_index(codec);
        size_t bytes = codec_chain_bound_after(chain, i, decoded_bytes);
        if (codec->state_new || codec->state_room) {
            demand->codecs[index] = codec;
            demand->decoded_bytes[index] = max_u64(bytes, demand->decoded_bytes[index]);
        }
        if (i == 0 || codec->trims)
            continue;
        demand->scratch_bytes = max_u64(bytes, demand->scratch_bytes);
        between++;
    }
    demand->scratch_count = max_u64(min_u64(between, SCRATCH_COUNT), demand->scratch_count);
}

static struct demand demand_of(const struct codec_chain *const *chains, size_t chain_count,
                               size_t decoded_bytes)
{
    struct demand demand = {0};
    for (size_t i = 0; i < chain_count; i++)
        add_chain(&demand, chains[i], decoded_bytes);
    return demand;
}

size_t codec_context_bytes(const struct codec_chain *const *chains, size_t chain_count,
                           size_t decoded_bytes)
{
    struct demand demand = demand_of(chains, chain_count, decoded_bytes);
    size_t bytes = sizeof(struct codec_context) + demand.scratch_count * demand.scratch_bytes;
    for (size_t i = 0; i < CODEC_COUNT; i++) {
        const struct codec *codec = demand.codecs[i];
        if (codec)
            bytes += codec->state_bytes;
        if (codec && codec->state_room)
            bytes += codec->state_room(demand.decoded_bytes[i]);
    }
    return bytes;
}

/* The context
 * -------------------------------------------------------------------------------------- */

static enum status add_scratch(struct codec_context *context, struct error *err)
{
    void *memory = NULL;
    enum status status = memory_map(context->scratch_bytes, "codec scratch memory", &memory, err);
    if (status != STATUS_OK)
        return status;
    memory_touch(memory, context->scratch_bytes);
    context->scratch[context->scratch_count++] = memory;
    return STATUS_OK;
}

static enum status fill(struct codec_context *context, const struct demand *demand,
                        struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < CODEC_COUNT && status == STATUS_OK; i++) {
        context->codecs[i] = demand->codecs[i];
        if (demand->codecs[i] && demand->codecs[i]->state_new)
            status =
                demand->codecs[i]->state_new(demand->decoded_bytes[i], &context->states[i], err);
    }
    while (status == STATUS_OK && context->scratch_count < demand->scratch_count)
        status = add_scratch(context, err);
    return status;
}

enum status codec_context_new(const struct codec_chain *const *chains, size_t chain_count,
                              size_t decoded_bytes, struct codec_context **ret_context,
                              struct error *err)
{
    struct demand demand = demand_of(chains, chain_count, decoded_bytes);
    struct codec_context *context = calloc(1, sizeof *context);
    if (!context)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a codec context");
    context->scratch_bytes = demand.scratch_bytes;
    enum status status = fill(context, &demand, err);
    if (status != STATUS_OK) {
        codec_context_free(context);
        return status;
    }
    *ret_context = context;
    return STATUS_OK;
}

void codec_context_free(struct codec_context *context)
{
    if (!context)
        return;
    for (size_t i = 0; i < context->scratch_count; i++)
        memory_unmap(context->scratch[i], context->scratch_bytes);
    for (size_t i = 0; i < CODEC_COUNT; i++)
        if (context->states[i])
            context->codecs[i]->state_free(context->states[i]);
    free(context);
}

bool codec_chain_may_be_narrow(const struct codec_chain *chain)
{
    return chain->step_count > 0 && chain->steps[0].codec->narrows;
}

/* Decoding
 * ----------------------------------------------------------------------------------------- */

static enum status unprepared(const struct codec *codec, struct error *err)
{
    return error_set(err, STATUS_INVALID, "%s: the context was not made for this chain or size",
                     codec->name);
}

/* Decodes step `index`, which is not the first, into scratch memory. `*turn` counts the buffers
 * used. */
static enum status decode_between(const struct codec_chain *chain, size_t index,
                                  const struct codec_context *context, size_t decoded_size,
                                  size_t *turn, struct bytes *data, struct error *err)
{
    const struct codec *codec = chain->steps[index].codec;
    struct codec_output room = {.capacity = codec_chain_bound_after(chain, index, decoded_size)};
    if (!codec->trims) {
        size_t buffer = (*turn)++ % SCRATCH_COUNT;
        if (buffer >= context->scratch_count || room.capacity > context->scratch_bytes)
            return unprepared(codec, err);
        room.data = context->scratch[buffer];
    }
    return codec->decode(&chain->steps[index], context->states[codec_index(codec)], *data, room,
                         data, err);
}

static void say_whole(const struct codec_output *output)
{
    if (output->width)
        *output->width = NARROW_NOT;
}

static enum status check_size(const char *who, size_t size, size_t expected, struct error *err)
{
    if (size == expected)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT, "%s: decodes to %zu bytes, chunk holds %zu", who, size,
                     expected);
}

enum status codec_decode(const struct codec_chain *chain, struct codec_context *context,
                         const void *stored, size_t stored_size, struct codec_output output,
                         struct error *err)
{
    struct bytes data = {stored, stored_size};
    const char *who = "uncompressed";
    size_t turn = 0;
    say_whole(&output);
    for (size_t i = chain->step_count; i-- > 0;) {
        const struct codec *codec = chain->steps[i].codec;
        size_t index = codec_index(codec);
        who = codec->name;
        if (codec->state_new && !context->states[index])
            return unprepared(codec, err);
        enum status status =
            i == 0
                ? codec->decode(&chain->steps[0], context->states[index], data, output, &data, err)
                : decode_between(chain, i, context, output.capacity, &turn, &data, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "%s: ", who);
    }
    enum status status = check_size(who, data.size, output.capacity, err);
    if (status != STATUS_OK)
        say_whole(&output);
    if (status == STATUS_OK && data.data != output.data && output.capacity > 0)
        memcpy(output.data, data.data, output.capacity);
    return status;
}

bool (*codec_chain_begins(const struct codec_chain *chain))(const void *bytes, size_t size)
{
    return chain->step_count > 0 ? chain->steps[chain->step_count - 1].codec->begins : NULL;
}

bool codec_chain_has_partial(const struct codec_chain *chain)
{
    return chain->step_count == 1 && chain->steps[0].codec->decode_partial;
}

bool codec_chain_stores_plain(const struct codec_chain *chain, const void *head,
                              size_t decoded_size, size_t *ret_offset)
{
    const struct codec *codec = chain->steps[0].codec;
    return codec->stores_plain && codec->stores_plain(head, decoded_size, ret_offset);
}

enum status codec_decode_partial(const struct codec_chain *chain, struct codec_context *context,
                                 const void *stored, size_t stored_size, size_t decoded_size,
                                 size_t begin, struct codec_output range, bool *ret_done,
                                 struct error *err)
{
    const struct codec *codec = chain->steps[0].codec;
    void *state = context->states[codec_index(codec)];
    say_whole(&range);
    range.streams = false;
    if (codec->state_new && !state)
        return unprepared(codec, err);
    enum status status = codec->decode_partial(state, (struct bytes){stored, stored_size},
                                               decoded_size, begin, range, ret_done, err);
    return status != STATUS_OK ? error_prefix(err, status, "%s: ", codec->name) : STATUS_OK;
}

/* Encoding
 * ----------------------------------------------------------------------------------------- */

/* Encodes through all steps, using `scratch` (two buffers of `scratch_bytes`) between them. */
static enum status encode_steps(const struct codec_chain *chain, struct bytes data,
                                uint8_t *scratch, size_t scratch_bytes, struct codec_output room,
                                size_t *ret_size, struct error *err)
{
    for (size_t i = 0; i < chain->step_count; i++) {
        const struct codec_step *step = &chain->steps[i];
        struct codec_output here = room;
        if (i + 1 < chain->step_count)
            here = codec_output_of(scratch + i % SCRATCH_COUNT * scratch_bytes, scratch_bytes);
        size_t size = 0;
        if (!step->codec->encode)
            return error_set(err, STATUS_UNSUPPORTED, "codec '%s' is only read, not written",
                             step->codec->name);
        enum status status = step->codec->encode(step, data, here, &size, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "%s: ", step->codec->name);
        data = (struct bytes){here.data, size};
    }
    *ret_size = data.size;
    return STATUS_OK;
}

enum status codec_encode(const struct codec_chain *chain, const void *decoded, size_t decoded_size,
                         void *stored, size_t capacity, size_t *ret_stored_size, struct error *err)
{
    size_t bound = codec_chain_stored_bound(chain, decoded_size);
    if (capacity < bound)
        return error_set(err, STATUS_INVALID, "encode: room for %zu bytes, may take %zu", capacity,
                         bound);
    if (chain->step_count == 0) {
        if (decoded_size > 0)
            memcpy(stored, decoded, decoded_size);
        *ret_stored_size = decoded_size;
        return STATUS_OK;
    }
    uint8_t *scratch = NULL;
    if (chain->step_count > 1 && !(scratch = malloc(SCRATCH_COUNT * bound)))
        return error_set(err, STATUS_NO_MEMORY, "encode: no memory for %zu bytes of scratch",
                         SCRATCH_COUNT * bound);
    enum status status = encode_steps(chain, (struct bytes){decoded, decoded_size}, scratch, bound,
                                      codec_output_of(stored, capacity), ret_stored_size, err);
    free(scratch);
    return status;
}
