/* What reading chunks took, counted by the thread that reads. */
#ifndef PENSTOCK_ZARR_CHUNK_READ_STATS_H
#define PENSTOCK_ZARR_CHUNK_READ_STATS_H

#include "base/counters.h"

/* Counters (base/counters.h) alone. Reads add to them, and never reset them. */
struct zarr_read_stats {
    COUNTER_TABLE(COUNTER_MEMBER, COUNTER_NONE, COUNTER_NONE, COUNTER_NONE)
    uint64_t chunk_count;         /* chunks from anywhere */
    uint64_t memory_chunk_count;  /* chunks from a tape */
    uint64_t disk_chunk_count;    /* chunks from the disk cache */
    uint64_t missing_chunk_count; /* missing chunks, which are the fill value */
};

#endif
