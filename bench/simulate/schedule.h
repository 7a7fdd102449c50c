/* A schedule file: how many records every reader sends to every other, step after step, as the real
 * plan has it. Written by schedule.c, read by exchange_smpi.c and model.py.
 *
 *     0   8 bytes  "PSSCHED1"
 *     8   uint32   readers
 *     12  uint32   steps
 *     16  uint8    [steps][readers from][readers to] records; none from a reader to itself
 *
 * All little-endian.
 */
#ifndef PENSTOCK_BENCH_SCHEDULE_H
#define PENSTOCK_BENCH_SCHEDULE_H

#include <stdint.h>

#define SCHEDULE_MAGIC "PSSCHED1"

struct schedule_header {
    char magic[8];
    uint32_t reader_count, step_count;
};
_Static_assert(sizeof(struct schedule_header) == 16, "the counts follow at byte 16");

#endif
