/* See tables.h. */
#include "base/tables.h"

#include "base/memory.h"
#include "base/number.h"

#include <stdlib.h>

struct table {
    struct table *before;
    _Alignas(max_align_t) unsigned char data[];
};

void *tables_take(struct tables *tables, uint64_t count, size_t size)
{
    uint64_t bytes = mul_sat(count, size);
    tables->bytes = add_sat(tables->bytes, bytes);
    if (tables->only_counts)
        return NULL;
    struct table *table = calloc(1, add_sat(sizeof *table, bytes));
    if (!table) {
        tables->failed = true;
        return NULL;
    }
    memory_prefer_huge(table->data, bytes); /* they are looked up at random */
    memory_touch(table->data, bytes);       /* so that no page is missing later */
    table->before = tables->last;
    tables->last = table;
    return table->data;
}

void tables_done(struct tables *tables)
{
    while (tables->last) {
        struct table *table = tables->last;
        tables->last = table->before;
        free(table);
    }
}
