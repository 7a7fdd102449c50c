/* Frames that the store itself calls missing: the attribute `missing_dates` of the root group, as
 * anemoi writes it, a list of dates. The date of a frame is in the array `dates` beside it
 * (datetime64), or follows from the attributes `start_date` and `frequency`. Inside src/dataset;
 * used while opening, by one thread. */
#ifndef PENSTOCK_DATASET_FRAMES_MISSING_DATES_H
#define PENSTOCK_DATASET_FRAMES_MISSING_DATES_H

#include "dataset/dataset_internal.h"

/* The numbers of the missing frames, over all stores (*ret_frames: [*ret_count], malloc'ed; NULL if
 * there are none). Each store has its own attribute, or none. With samples along another axis than
 * the first, none is missing. Blocks on the stores. INVALID: a date cannot be read, there are not
 * as many dates as frames, or no frame has a date; the message says what to write. Errors as of
 * zarr_group_texts() and small_array_read(). */
MUST_USE enum status missing_dates_find(const struct dataset *dataset, uint64_t **ret_frames,
                                        size_t *ret_count, struct error *err);

/* The same of store number `s`, of the dataset or of single fields, which has `length` frames,
 * numbered from `first` on. Adds them to *frames ([*count], malloc'ed, the caller's, on failure
 * too; NULL: none). */
MUST_USE enum status missing_dates_add(const struct dataset *dataset, size_t s, uint64_t first,
                                       uint64_t length, uint64_t **frames, size_t *count,
                                       struct error *err);

/* Seconds from 1970 on to the date "2020-01-08T06:00:00", of which the end may be left out from the
 * 'T' (or a space), the minutes or the seconds on. False: it is no such date, or not a whole
 * second. */
bool missing_dates_parse(const char *text, int64_t *ret_seconds);

/* Seconds of "6h", "30m", "45s", "1d", "1D" or "6" (hours). False: it is none, or 0. */
bool missing_dates_frequency(const char *text, int64_t *ret_seconds);

#endif
