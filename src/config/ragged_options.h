/* Ragged fields in the configuration: dataset.fields.NAME.ragged and .deliver. Inside src/config.
 *
 *     ragged: {offsets: A, index: [A, ...], values: A}      or columns: [A, ...]
 *     deliver: csr, dense, {pad: N, truncate: true}, {pad: bound}, {pad_to_multiple_of: N},
 *              {dense: [N, ...], combine: sum, last or max}
 */
#ifndef PENSTOCK_CONFIG_RAGGED_OPTIONS_H
#define PENSTOCK_CONFIG_RAGGED_OPTIONS_H

#include "config/options.h"

/* Sets a property: "ragged.KEY", "deliver" or "deliver.KEY". A list is "[a,b]", or without the
 * brackets. INVALID: no such key, or a value that makes no sense; the message does not name the
 * field. NO_MEMORY. */
MUST_USE enum status config_put_ragged(struct dataset_field_spec *field, const char *property,
                                       const char *value, struct error *err);

/* Appends both, each with ", " in front; nothing for a field that has neither. */
void config_print_ragged(const struct dataset_field_spec *field, struct text *out);

void config_free_ragged(struct dataset_field_spec *field);

#endif
