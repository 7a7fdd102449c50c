/* Shared by ingest.c (the process), ingest_arrays.c (what arrays there are), ingest_read.c (where
 * their values come from) and ingest_bad.c (segments that cannot be decoded). */
#ifndef PENSTOCK_WORKSHOP_INGEST_INGEST_INTERNAL_H
#define PENSTOCK_WORKSHOP_INGEST_INGEST_INTERNAL_H

#include "base/text.h"
#include "workshop/ingest/ingest.h"
#include "workshop/ingest/pixels.h"
#include "workshop/ingest/text_rows.h"
#include "workshop/ingest/video_list.h"
#include "workshop/ingest/video_plan.h"

#include <pthread.h>

/* Segments that could not be decoded, in files of the journal's folder: bad.R is part R's. */
struct bad_segments {
    int folder_fd; /* borrowed */
    uint32_t part;
    uint64_t count;      /* known to this process */
    bool *are_bad;       /* [segment_count] */
    struct text reasons; /* lines "<segment> <reason>\n" */
    pthread_mutex_t mutex;
};

struct ingest {
    const struct ingest_options *options;
    char *path;    /* owned: of the destination */
    int folder_fd; /* the journal's; -1: not open */
    struct video_list list;
    struct text_rows text;
    struct segment_wish wish;
    struct video_plan plan;
    struct pixel_table pixels;
    struct targets targets;
    struct targets frames;         /* with encoders, the one array that they get */
    struct encoding_plan encoders; /* with `encoding` */
    struct encoding *encoding;     /* NULL: none */
    struct bad_segments bad;
    uint64_t name_length; /* of the longest, in code points */
};

/* Arrays, for an ingest with list, text, wish and plan. `request` stands in the root's attributes.
 * With encoders this asks for the first batch. INVALID: an unknown codec. NO_MEMORY. Errors of
 * encoding_settle(). */
MUST_USE enum status ingest_make_targets(struct ingest *ingest, const char *request,
                                         struct error *err);

/* Reads values; borrows the ingest. */
struct sample_source ingest_source(struct ingest *ingest);

/* Prepares for `segment_count` segments. NO_MEMORY. */
MUST_USE enum status bad_segments_start(struct bad_segments *bad, int folder_fd, uint32_t part,
                                        uint64_t segment_count, struct error *err);

/* Notes a segment, in the file as well; any thread. IO. */
MUST_USE enum status bad_segments_add(struct bad_segments *bad, uint64_t segment,
                                      const char *reason, struct error *err);

/* Reads the files of all parts. IO, NO_MEMORY. */
MUST_USE enum status bad_segments_read(struct bad_segments *bad, uint64_t segment_count,
                                       struct error *err);
void bad_segments_done(struct bad_segments *bad);

#endif
