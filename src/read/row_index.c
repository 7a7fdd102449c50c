/* See row_index.h. */
#include "read/row_index.h"

#include <assert.h>
#include <stdlib.h>

/* The finaliser of splitmix64: rows are consecutive numbers and need to be scattered. */
static uint64_t hash(uint64_t row)
{
    row = (row ^ (row >> 30)) * 0xbf58476d1ce4e5b9u;
    row = (row ^ (row >> 27)) * 0x94d049bb133111ebu;
    return row ^ (row >> 31);
}

enum status row_index_init(struct row_index *index, uint32_t capacity, struct error *err)
{
    uint64_t size = 2;
    while (size < 2 * (uint64_t)capacity)
        size *= 2;
    struct row_index_entry *entries = malloc(size * sizeof *entries);
    if (!entries)
        return error_set(err, STATUS_NO_MEMORY, "index of %u rows: out of memory", capacity);
    for (uint64_t i = 0; i < size; i++)
        entries[i] = (struct row_index_entry){.buffer = ROW_NONE};
    *index = (struct row_index){.entries = entries, .mask = size - 1};
    return STATUS_OK;
}

void row_index_done(struct row_index *index)
{
    free(index->entries);
    *index = (struct row_index){0};
}

/* Where the row stands, or the empty entry where it would. */
static uint64_t probe(const struct row_index *index, uint64_t row)
{
    uint64_t i = hash(row) & index->mask;
    while (index->entries[i].buffer != ROW_NONE && index->entries[i].row != row)
        i = (i + 1) & index->mask;
    return i;
}

int32_t row_index_find(const struct row_index *index, uint64_t row)
{
    return index->entries[probe(index, row)].buffer;
}

void row_index_add(struct row_index *index, uint64_t row, int32_t buffer)
{
    uint64_t i = probe(index, row);
    assert(index->entries[i].buffer == ROW_NONE);
    index->entries[i] = (struct row_index_entry){.row = row, .buffer = buffer};
}

void row_index_remove(struct row_index *index, uint64_t row)
{
    uint64_t hole = probe(index, row);
    assert(index->entries[hole].buffer != ROW_NONE);
    uint64_t i = (hole + 1) & index->mask;
    for (; index->entries[i].buffer != ROW_NONE; i = (i + 1) & index->mask) {
        uint64_t bucket = hash(index->entries[i].row) & index->mask;
        uint64_t from_bucket = (i - bucket) & index->mask;
        uint64_t from_hole = (i - hole) & index->mask;
        if (from_bucket < from_hole)
            continue; /* its bucket lies behind the hole: moved there, it would not be found */
        index->entries[hole] = index->entries[i];
        hole = i;
    }
    index->entries[hole].buffer = ROW_NONE;
}
