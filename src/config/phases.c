/* See options.h: steps of a field that differ from epoch to epoch. */
#include "config/options.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Steps without phases are those from epoch 0 on. */
static void begin(struct dataset_field_spec *field)
{
    if (field->phase_count > 0 || field->step_count == 0)
        return;
    field->phases[0] = (struct dataset_phase){0, field->step_count};
    field->phase_count = 1;
}

static enum status refuse(const struct dataset_field_spec *field, const int32_t *steps,
                          size_t count, struct error *err)
{
    struct text longest = {0}, other = {0};
    config_print_steps(field->steps, field->step_count, &longest);
    config_print_steps(steps, count, &other);
    enum status status =
        error_set(err, STATUS_INVALID,
                  "%s and %s: of two lists the longer one begins with the shorter one, so that "
                  "samples have the same anchors in all epochs",
                  longest.data, other.data);
    text_done(&longest);
    text_done(&other);
    return status;
}

/* Takes `steps` if they are more than the field's. */
static enum status widen(struct dataset_field_spec *field, int32_t *steps, size_t count,
                         struct error *err)
{
    size_t common = min_u64(field->step_count, count);
    enum status status = STATUS_OK;
    if (common > 0 && memcmp(field->steps, steps, common * sizeof *steps) != 0)
        status = refuse(field, steps, count, err);
    if (status != STATUS_OK || count <= field->step_count) {
        free(steps);
        return status;
    }
    free((int32_t *)field->steps);
    field->steps = steps;
    field->step_count = count;
    return STATUS_OK;
}

/* The phase of an epoch, which is added if there is none; NULL: there is no room. */
static struct dataset_phase *find(struct dataset_field_spec *field, uint64_t epoch)
{
    size_t at = 0;
    while (at < field->phase_count && field->phases[at].epoch < epoch)
        at++;
    if (at < field->phase_count && field->phases[at].epoch == epoch)
        return &field->phases[at];
    if (field->phase_count == DATASET_MAX_PHASES)
        return NULL;
    memmove(&field->phases[at + 1], &field->phases[at],
            (field->phase_count++ - at) * sizeof field->phases[0]);
    field->phases[at] = (struct dataset_phase){.epoch = epoch};
    return &field->phases[at];
}

enum status config_put_phase(struct dataset_field_spec *field, const char *epoch, const char *value,
                             struct error *err)
{
    uint64_t number;
    int32_t *steps;
    size_t count, most = 0;
    if (!number_parse(epoch, 0, UINT32_MAX, &number))
        return error_set(err, STATUS_INVALID,
                         "'%.40s' is not a number of an epoch: write steps: {0: \"0:2\", 5: "
                         "\"0:4\"}",
                         epoch);
    begin(field);
    enum status status = config_parse_steps(value, &steps, &count, err);
    if (status == STATUS_OK)
        status = widen(field, steps, count, err);
    if (status != STATUS_OK)
        return status;
    struct dataset_phase *phase = find(field, number);
    if (!phase)
        return error_set(err, STATUS_INVALID, "steps of more than %d epochs", DATASET_MAX_PHASES);
    phase->step_count = count;
    for (size_t i = 0; i < field->phase_count; i++)
        most = max_u64(most, field->phases[i].step_count);
    field->step_count = most; /* of another one that was replaced more may be left */
    return STATUS_OK;
}
