/* See phases.h. */
#include "run/phases.h"

void phases_lay_out(const struct dataset *dataset, struct ring_layout *layout)
{
    _Static_assert((int)DATASET_MAX_PHASES == (int)RING_MAX_PHASES, "a ring has a dataset's");
    bool has_any = false;
    for (size_t f = 0; f < dataset->field_count; f++)
        has_any |= dataset->fields[f].phase_count > 0;
    layout->phase_count = has_any ? dataset->phase_count : 0;
    for (uint32_t p = 0; p < layout->phase_count; p++) {
        struct ring_phase *phase = &layout->phases[p];
        phase->epoch = dataset->phase_epochs[p];
        for (size_t f = 0; f < dataset->field_count; f++)
            if (dataset->fields[f].phase_count > 0)
                phase->steps[f] = (uint32_t)dataset_field_steps(&dataset->fields[f], phase->epoch);
    }
}

/* Whether the transform gets a field. */
static bool is_input(const struct board_shape *transform, size_t field)
{
    for (uint32_t i = 0; transform && i < transform->input_count; i++)
        if (transform->inputs[i].field == field)
            return true;
    return false;
}

enum status phases_check(const struct dataset *dataset, const struct shares *shares,
                         struct error *err)
{
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].phase_count > 0 && shares_part_count(shares, f) > 0)
            return error_set(err, STATUS_UNSUPPORTED,
                             "field '%s' is cut, and has other steps in later epochs: leave cut "
                             "out, or give one list of steps",
                             dataset->fields[f].name);
        else if (dataset->fields[f].phase_count > 0 && is_input(shares->transform, f))
            return error_set(err, STATUS_UNSUPPORTED,
                             "delivery.transform gets field '%s', which has other steps in later "
                             "epochs: list the fields that it needs in delivery.transform.fields, "
                             "without this one",
                             dataset->fields[f].name);
    return STATUS_OK;
}
