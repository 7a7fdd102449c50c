/* Means and standard deviations, and where they come from: arrays of the dataset or of another
 * store; numbers instead of an array, which are one for all, or those of an array of one axis; and
 * statistics of `penstock stats`, also from least and greatest values where these are wanted.
 * Inside src/dataset; used while opening, by one thread.
 *
 * The axes of such an array are axes of the field's array, but for the sample axis: by the names of
 * dimensions, where all axes of both have names; else the one axis of an array that is as long as
 * the field's first such axis is that axis ("channel"); else the last axes, as NumPy broadcasts. An
 * axis has one entry for all indices, or one for each: of the field's array, of which the slice is
 * taken, or of the slice. */
#ifndef PENSTOCK_DATASET_FIELDS_STATISTIC_H
#define PENSTOCK_DATASET_FIELDS_STATISTIC_H

#include "dataset/dataset_internal.h"

/* The items of a view, as the tables are to see them. */
struct statistic_frame {
    const struct field_origin *origin;
    int rank;                        /* of the view */
    uint64_t lengths[ZARR_MAX_RANK]; /* of the view; the first does not count */
    uint64_t whole[ZARR_MAX_RANK];   /* of the array, in the view's order */
};

/* An array of means, say, and where its entry for an index of the view lies. */
struct statistic {
    bool is_of_slice; /* an axis has no entries for indices outside the field's slice */
    double *values;   /* owned; NULL: there is none */
    uint64_t count;
    uint64_t lengths[ZARR_MAX_RANK]; /* along each axis of the view; 1: one for all */
    uint64_t strides[ZARR_MAX_RANK];
};

/* What is read for: which dataset, and which field's items. */
struct statistic_reading {
    const struct dataset *dataset;
    const struct dataset_options *options;
    const struct statistic_frame *frame; /* NULL: of one number */
};

static inline int statistic_array_axis(const struct statistic_frame *frame, int axis)
{
    return axis <= frame->origin->axis ? axis - 1 : axis;
}

struct statistic_frame statistic_frame_of(const struct field_origin *origin);

/* Reads what `text` says, numbers or the name of an array, into *statistic, whose values are the
 * caller's to free, also after an error. `divides`: 0 is refused. INVALID: the shape does not fit,
 * or a value is not finite in `work`. Errors of small_array_read_named(). */
MUST_USE enum status statistic_read(const struct statistic_reading *reading, const char *text,
                                    bool divides, enum dtype work, struct statistic *statistic,
                                    struct error *err);

/* The same of the field's `stats`: what is subtracted, and what divides. */
MUST_USE enum status statistic_read_stats(const struct statistic_reading *reading,
                                          const struct dataset_field_spec *spec, enum dtype work,
                                          struct statistic *mean, struct statistic *std,
                                          struct error *err);

#endif
