/* References as a store: what the files of this room share. Inside src/store. */
#ifndef PENSTOCK_STORE_REFERENCES_REFERENCES_INTERNAL_H
#define PENSTOCK_STORE_REFERENCES_REFERENCES_INTERNAL_H

#include "store/references/reference_table.h"
#include "store/virtual/virtual.h"

struct references {
    struct virtual_store virtual; /* without a base: the file was read */
    struct reference_table table;
    struct text identity; /* what store_identify() says */
    uint64_t content;     /* a hash of the file */
};

static inline const struct references *references_of(const struct store *store)
{
    return (const struct references *)store;
}

/* references_values.c: what the stores of this kind have of their own, of virtual.h. */
extern const struct virtual_kind references_kind;

/* references_list.c: operations of the kind. */
MUST_USE enum status references_list(const struct store *store, const char *prefix,
                                     store_visit *visit, void *argument, struct error *err);
MUST_USE enum status references_names(const struct store *store, const char *prefix,
                                      store_visit_name *visit, void *argument, struct error *err);
MUST_USE enum status references_usage(const struct store *store, const char *prefix, uint64_t most,
                                      struct store_usage *ret_usage, struct error *err);

#endif
