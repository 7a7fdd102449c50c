/* penstock-bench-encoder: an encoder in C for `penstock derive` that only copies: the result for a
 * batch is its first field. What derive costs beside an encoder shows with this one.
 */
#include "penstock.h"

#include <stdio.h>
#include <string.h>

static enum penstock_status encode(struct penstock *penstock, const struct penstock_batch *batch)
{
    const struct penstock_field *field = &penstock_describe(penstock)->fields[0];
    uint64_t shape[PENSTOCK_MAX_RANK] = {batch->sample_count};
    memcpy(&shape[1], field->shape, (size_t)field->rank * sizeof *shape);
    return penstock_give(penstock, batch, field->dtype, field->rank + 1, shape, batch->data[0]);
}

int main(void)
{
    struct penstock *penstock;
    struct penstock_batch batch;
    char message[PENSTOCK_MESSAGE_BYTES];
    if (penstock_connect(NULL, &penstock, message) != PENSTOCK_OK) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    enum penstock_status status = PENSTOCK_OK;
    while (status == PENSTOCK_OK && (status = penstock_next(penstock, &batch, -1)) == PENSTOCK_OK) {
        status = encode(penstock, &batch);
        if (status == PENSTOCK_OK)
            status = penstock_release(penstock, &batch);
    }
    if (status != PENSTOCK_ENDED)
        fprintf(stderr, "%s\n", penstock_last_error(penstock));
    penstock_close(penstock);
    return status == PENSTOCK_ENDED ? 0 : 1;
}
