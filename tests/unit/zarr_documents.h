/* Metadata documents of arrays: a valid one, with one member replaced, added or left out. */
#ifndef PENSTOCK_TESTS_ZARR_DOCUMENTS_H
#define PENSTOCK_TESTS_ZARR_DOCUMENTS_H

#include "base/text.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <string.h>

static const struct member {
    const char *name, *value;
} v2_members[] =
    {
        {"zarr_format", "2"},   {"shape", "[10, 4]"}, {"chunks", "[3, 4]"}, {"dtype", "\"<f2\""},
        {"compressor", "null"}, {"fill_value", "0"},  {"order", "\"C\""},   {"filters", "null"},
},
  v3_members[] = {
      {"zarr_format", "3"},
      {"node_type", "\"array\""},
      {"shape", "[10, 4]"},
      {"data_type", "\"float16\""},
      {"chunk_grid", "{\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [3, 4]}}"},
      {"chunk_key_encoding", "{\"name\": \"default\"}"},
      {"fill_value", "0"},
      {"codecs", "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}]"},
      {"attributes", "{\"a\": {\"b\": [1, null]}}"},
      {"dimension_names", "[null, \"y\"]"},
      {"storage_transformers", "[]"},
};

/* `name` NULL: unchanged; `value` NULL: left out. */
static inline void write_document(enum zarr_format format, const char *name, const char *value,
                                  struct text *out)
{
    const struct member *members = format == ZARR_V2 ? v2_members : v3_members;
    size_t count = format == ZARR_V2 ? sizeof v2_members / sizeof *members
                                     : sizeof v3_members / sizeof *members;
    bool is_replaced = false;
    const char *comma = "";
    text_append(out, "{");
    for (size_t i = 0; i < count; i++) {
        bool is_this = name && strcmp(members[i].name, name) == 0;
        is_replaced = is_replaced || is_this;
        if (is_this && !value)
            continue;
        text_append(out, "%s\"%s\": %s", comma, members[i].name,
                    is_this ? value : members[i].value);
        comma = ", ";
    }
    if (name && value && !is_replaced)
        text_append(out, ", \"%s\": %s", name, value);
    text_append(out, "}");
}

/* The same; the caller frees it. */
static inline char *document_of(enum zarr_format format, const char *name, const char *value)
{
    struct text document = {0};
    write_document(format, name, value, &document);
    return document.data;
}

/* A structured dtype, and its fill value: bytes 01 02 03 04, 05, 06 and 07 to 0a. */
static const char record_type[] = "[[\"x\", \">i4\"], [\"\", \"|V1\"], [\"tag\", \"|S1\"], "
                                  "[\"p\", \"<i2\", [2, 1]]]",
                  record_fill[] = "\"AQIDBAUGBwgJCg==\"";

#endif
