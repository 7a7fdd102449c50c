/* `penstock samples --plot`: draws what a trainer would get of one sample. */
#ifndef PENSTOCK_CLI_SAMPLES_SAMPLES_PLOT_H
#define PENSTOCK_CLI_SAMPLES_SAMPLES_PLOT_H

#include "run/one_sample.h"

/* Reads the sample and writes the picture, an SVG: each step of each field as a picture or as a
 * map of its values. Items of unequal numbers are left out. Blocks on the store. IO: the file
 * cannot be written. NO_MEMORY: the row is too large. Other errors as of dataset_read_row(). */
MUST_USE enum status samples_plot(const struct one_sample *plot, const char *path,
                                  struct error *err);

#endif
