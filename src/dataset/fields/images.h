/* Fields that are images of OME-Zarr (zarr/hierarchy/multiscale.h): which level of each is read,
 * and the names of its axes. Called while opening, by one thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_IMAGES_H
#define PENSTOCK_DATASET_FIELDS_IMAGES_H

#include "dataset/fields/select.h"
#include "zarr/hierarchy/axes.h"

/* Fields with the arrays of levels instead of images. */
struct images {
    struct dataset_options options; /* those that were given, with `specs` as fields if there are
                                     * images */
    struct dataset_field_spec specs[DATASET_MAX_FIELDS];
    struct image_level {
        bool is_image;
        char name[ZARR_PATH_BYTES];     /* of a default field */
        char path[ZARR_PATH_BYTES + 1]; /* with a '/' in front */
        int axis_count;
        struct zarr_axis_names axes;
    } levels[DATASET_MAX_FIELDS]; /* parallel to specs */
};

/* Chooses the level of options->multiscale of each field that is an image; of no fields, those of
 * the image that is the group itself: "image", and its labels by their names. Without that option
 * the options stay as they are. Blocks on the stores, which are open. The caller frees
 * *ret_images, which borrows from `options`. NOT_FOUND: there is no image, or no such level; the
 * message has those that there are. INVALID: the option makes no sense. CORRUPT: an image is not
 * what OME-Zarr says. NO_MEMORY. Other errors as of store_get_text(). */
MUST_USE enum status images_choose(const struct dataset *dataset,
                                   const struct dataset_options *options,
                                   struct images **ret_images, struct error *err);

/* Gives the levels' axes in the open hierarchies the names that the image has. CORRUPT: a level has
 * another number of axes than its image. */
MUST_USE enum status images_name_axes(const struct dataset *dataset, const struct images *images,
                                      struct error *err);

#endif
