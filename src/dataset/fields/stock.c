/* Arrays without any value: a folder that is not mounted, or fill values? */
#include "dataset/dataset_internal.h"
#include "zarr/chunk/separator.h"
#include "zarr/chunk/stock.h"

enum status stock_refuse(const struct store *store, const struct zarr_array *array,
                         struct error *err)
{
    char own[ZARR_KEY_BYTES], other[ZARR_KEY_BYTES];

    if (zarr_finds_other_separator(store, array, own, other)) {
        struct text text = {0};
        zarr_describe_other_separator(own, other, &text);
        error_set(err, STATUS_INVALID, "%s", text.data);
        text_done(&text);
        return STATUS_INVALID;
    }
    return error_set(err, STATUS_NOT_FOUND,
                     "the metadata is there, and no chunk at all: a folder that is not mounted, or "
                     "a copy without its chunks? If every item is the fill value, and a writer "
                     "left the chunks out, say so: errors.missing_chunk: fill");
}

enum status stock_expect(const struct dataset *dataset, const struct store *store,
                                   const struct zarr_array *array, struct error *err)
{
    const struct dataset_private *private = dataset->private;

    if (private->fills_empty || private->missing_is_bad || zarr_has_stock(store, array))
        return STATUS_OK;
    return stock_refuse(store, array, err);
}
