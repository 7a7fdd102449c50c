/* Images of OME-Zarr: a group whose attribute `multiscales` lists the levels of one image, arrays
 * of the same axes at several resolutions. Versions 0.1 to 0.4 have the attribute in the group's
 * attributes, 0.5 in their member `ome`. Labels are such images in the group `labels` of the image.
 * Blocks on the store; one thread, while opening. */
#ifndef PENSTOCK_ZARR_HIERARCHY_MULTISCALE_H
#define PENSTOCK_ZARR_HIERARCHY_MULTISCALE_H

#include "base/error.h"
#include "base/text.h"
#include "store/store.h"
#include "zarr/hierarchy/axes.h"
#include "zarr/hierarchy/group_attributes.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stddef.h>

enum { MULTISCALE_MAX_LEVELS = 32, MULTISCALE_UNIT_BYTES = 32 };

struct zarr_multiscale {
    bool is_there;
    int axis_count;
    struct zarr_axis_names axes;                      /* [axis_count] "t", "c", "z", "y", "x" */
    char units[ZARR_MAX_RANK][MULTISCALE_UNIT_BYTES]; /* "micrometer"; "": none */
    size_t level_count;
    struct {
        char path[ZARR_PATH_BYTES];  /* of the array, from the root of the store */
        double scale[ZARR_MAX_RANK]; /* from one item to the next along each axis; 0: not known */
    } levels[MULTISCALE_MAX_LEVELS];
};

/* Reads the attribute `multiscales` of the group at `path` ("": the root), of several images the
 * first; without it `is_there` is false. CORRUPT: it is not what OME-Zarr says; the message has the
 * group. Other errors as of group_attributes_read(). */
MUST_USE enum status zarr_multiscale_read(const struct store *store, enum zarr_format format,
                                          const char *path, struct zarr_multiscale *ret_multiscale,
                                          struct error *err);

/* What OME-Zarr says in the attributes of the group at `path`: as of group_attributes_read(), where
 * 0.5 has it. CORRUPT, too: the path leads elsewhere ("../x"). */
struct json_object;
MUST_USE enum status zarr_ome_attributes(const struct store *store, enum zarr_format format,
                                         const char *path, struct json_object **ret_root,
                                         struct json_object **ret_ome, struct error *err);

/* Names of the labels of the image at `path`; is_there is false where there are none. */
MUST_USE enum status zarr_multiscale_labels(const struct store *store, enum zarr_format format,
                                            const char *path, struct zarr_texts *ret_names,
                                            struct error *err);

/* Appends the levels: "0: c 2, y 512 (0.5 micrometer), x 512 (0.5 micrometer); 1: ...", with
 * lengths as far as the hierarchy (NULL: none) has the arrays. Pure. */
void zarr_multiscale_describe(const struct zarr_multiscale *image,
                              const struct zarr_hierarchy *hierarchy, struct text *out);

#endif
