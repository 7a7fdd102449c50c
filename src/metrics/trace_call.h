/* How `penstock trace` calls a reader: SIGUSR1 with one of these values. */
#ifndef PENSTOCK_METRICS_TRACE_CALL_H
#define PENSTOCK_METRICS_TRACE_CALL_H

enum { TRACE_CALL_BEGIN = 1, TRACE_CALL_END = 2 };

#endif
