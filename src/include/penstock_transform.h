/* Transforms: a program of the user's that changes samples before trainers get them
 * (delivery.transform, docs/use/transforms.md). Readers start its processes, beside themselves on
 * each node, and each process works on one batch, or a part of one, after another:
 *
 *     struct penstock_transform *t;
 *     struct penstock_transform_batch batch;
 *     char message[PENSTOCK_MESSAGE_BYTES];
 *     if (penstock_transform_open(&t, message) != PENSTOCK_OK)
 *         ...
 *     while (penstock_transform_next(t, &batch) == PENSTOCK_OK) {
 *         if (batch.is_trial)
 *             penstock_transform_tell(t, outputs, output_count);
 *         else {
 *             for (uint32_t i = 0; i < batch.sample_count; i++)
 *                 ...                              from batch.data[k] to batch.results[k]
 *             penstock_transform_done(t);
 *         }
 *     }
 *     penstock_transform_close(t);
 *
 * What is made of a sample depends on this sample alone, and on its key: batches are divided among
 * processes in any way, and a batch is done again if a process dies.
 *
 * One thread. Everything is borrowed until the next call of penstock_transform_next().
 */
#ifndef PENSTOCK_TRANSFORM_H
#define PENSTOCK_TRANSFORM_H

#include "penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct penstock_transform;

/* What the transform makes. An output of an input's name takes its place. Inputs of which there is
 * no output are not delivered. */
struct penstock_output {
    const char *name;
    enum penstock_dtype dtype;
    int32_t rank;
    uint64_t shape[PENSTOCK_MAX_RANK]; /* of a sample; with most_items: of an item */
    uint64_t
        most_items;  /* a ragged field: a sample has so many items at most; 0: it is not ragged */
    int32_t same_as; /* the index of an input that is delivered as it is; the rest is not looked
                      * at; -1: none */
};

struct penstock_transform_batch {
    uint64_t epoch, step;
    uint32_t sample_count; /* of this part of the batch */
    uint32_t is_trial;     /* 1: before the start, with a sample or a few, to be answered by
                            * penstock_transform_tell(); made fields ("F.valid") are zeros */
    uint64_t bound;        /* as of struct penstock_batch */
    const uint64_t *indices, *keys; /* [sample_count] */
    const uint8_t *valid; /* [sample_count] 0: the sample repeats another one, or could not
                           * be read and is zeros: nobody trains on it */
    uint32_t input_count, output_count;    /* 0 outputs in a trial */
    const struct penstock_field *fields;   /* [input_count] in order of name */
    const struct penstock_output *outputs; /* [output_count] as told */
    const void *data[64];                  /* [input_count], not to be written to; as of struct
                                            * penstock_batch, but that offsets begin with those of
                                            * the part's first sample, and items with the batch's */
    void *results[64];           /* [output_count] where outputs go: [sample_count, shape...], or
                                  * with most_items all items, one sample after another; NULL of
                                  * one that is an input */
    int64_t *result_offsets[64]; /* [sample_count + 1], with most_items: from 0 on; else NULL */
};

/* Says that this process is ready. From now on its process group is killed two seconds after the
 * reader is gone, unless it has closed the transform. INVALID: no reader has started it. ENDED:
 * that reader is gone already. Errors of the socket. */
PENSTOCK_API enum penstock_status penstock_transform_open(struct penstock_transform **ret_transform,
                                                          char *message);

/* Waits for the next part of a batch. The one before has been answered. ENDED: there is no more, or
 * the reader is gone. INVALID: it was not answered. Others: see penstock_transform_error(). */
PENSTOCK_API enum penstock_status
penstock_transform_next(struct penstock_transform *transform,
                        struct penstock_transform_batch *ret_batch);

/* Answers a trial. INVALID: names, dtypes or shapes that no field can have, and the message says
 * which. */
PENSTOCK_API enum penstock_status penstock_transform_tell(struct penstock_transform *transform,
                                                          const struct penstock_output *outputs,
                                                          uint32_t output_count);

/* All results are in their places. INVALID: offsets that do not begin with 0, that fall, or that
 * give a sample more than most_items. */
PENSTOCK_API enum penstock_status penstock_transform_done(struct penstock_transform *transform);

/* A sample of the part cannot be done, `text` says why, and the others can: with errors.bad_sample:
 * mask it goes to trainers with `valid` 0 and zeros, and its results are not looked at, but that
 * offsets are sound. Call penstock_transform_done() then. INVALID: errors.bad_sample is not mask,
 * or there is no such sample. */
PENSTOCK_API enum penstock_status penstock_transform_mask(struct penstock_transform *transform,
                                                          uint32_t sample, const char *text);

/* The batch, or the trial, cannot be done: the run ends with `text`, of which the first 3071 bytes
 * count. `sample`: which one of the part it is; -1: none. */
PENSTOCK_API enum penstock_status penstock_transform_fail(struct penstock_transform *transform,
                                                          int64_t sample, const char *text);

/* Why the last call failed. */
PENSTOCK_API const char *penstock_transform_error(const struct penstock_transform *transform);

/* NULL is fine. */
PENSTOCK_API void penstock_transform_close(struct penstock_transform *transform);

#ifdef __cplusplus
}
#endif

#endif
