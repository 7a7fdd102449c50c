/* Test tool: writes the samples of one field of datasets to standard output, C order, native byte
 * order.
 *
 * Each line of standard input is a configuration: "section.key=value" several times, with tabs
 * between. The answer is "ok BYTES CHUNKS" and the samples of the first field, or "error BYTES 0"
 * and the message: one process for a thousand fields. CHUNKS is how many chunks were read. */
#include "config/config.h"
#include "dataset/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status read_rows(const struct dataset *dataset, struct text *out, uint64_t *ret_chunks,
                             struct error *err)
{
    const struct dataset_field *field = &dataset->fields[0];
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader = NULL;
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    enum status status = buffer ? dataset_reader_new(dataset, &reader, err)
                                : error_set(err, STATUS_NO_MEMORY, "no memory for a row");
    for (uint64_t row = 0; status == STATUS_OK && row < dataset->row_count; row++) {
        status = dataset_read_row(reader, row, buffer, &stats, err);
        if (status == STATUS_OK)
            text_append_bytes(out, buffer + field->row_offset,
                              dataset_row_frames(dataset, row) * field->sample_bytes);
    }
    dataset_reader_free(reader);
    free(buffer);
    *ret_chunks = stats.chunk_count;
    return status;
}

static enum status dump(char *line, struct text *out, uint64_t *ret_chunks, struct error *err)
{
    struct config config;
    struct dataset *dataset = NULL;
    enum status status = config_init(&config, err);
    for (char *at = strtok(line, "\t"); status == STATUS_OK && at; at = strtok(NULL, "\t"))
        status = config_set(&config, at, err);
    if (status == STATUS_OK)
        status = config_check(&config, err);
    if (status == STATUS_OK) {
        const struct dataset_options options = config_dataset_options(&config, NULL);
        status = dataset_open(&options, &dataset, err);
    }
    if (status == STATUS_OK)
        status = read_rows(dataset, out, ret_chunks, err);
    dataset_free(dataset);
    config_done(&config);
    return status;
}

int main(void)
{
    static char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        struct text out = {0};
        struct error err = {0};
        uint64_t chunks = 0;
        line[strcspn(line, "\n")] = '\0';
        if (dump(line, &out, &chunks, &err) == STATUS_OK) {
            printf("ok %zu %" PRIu64 "\n", out.length, chunks);
            fwrite(out.data, 1, out.length, stdout);
        } else {
            printf("error %zu 0\n%s", strlen(err.message), err.message);
        }
        fflush(stdout);
        text_done(&out);
    }
    return 0;
}
