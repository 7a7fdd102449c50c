/* Partitions: readers that read different parts of each sample.
 *
 * Ranks of a model may cut a grid among nodes: then no node needs all of a sample. Where the chunks
 * divide the grid likewise, readers whose trainers need the same parts are a partition. Each
 * partition reads, keeps and delivers its parts of all rows, as if the dataset had nothing else,
 * and exchanges nothing with other partitions. Otherwise (the chunks do not fit, or partitions
 * would have to read much that all of them need) there is one partition: each chunk is read once,
 * and parts travel.
 *
 * Pure; any thread.
 */
#ifndef PENSTOCK_RUN_PARTITIONS_H
#define PENSTOCK_RUN_PARTITIONS_H

#include "run/shares.h"

/* What readers would read if each class were a partition, of the bytes of a sample. */
struct partitions_cost {
    double most; /* the most of any class */
    double sum;  /* of all classes together; 1: nothing twice */
    uint32_t class_count;
    uint32_t largest; /* the class that keeps most of a row */
};

/* Whether readers of different classes are partitions: as many readers each, with trainers of all
 * groups and something to read; and together they read at most a twentieth more than the dataset.
 * `dataset` is the whole one. */
bool partitions_fit(const struct shares *shares, const struct dataset *dataset,
                    const struct need_classes *classes, uint32_t reader_count,
                    struct partitions_cost *ret_cost);

/* With partitions and ranks in blocks: the most readers of one partition that a group has trainers
 * at. 0: no memory. */
uint32_t partitions_copies(const struct mesh *mesh, const struct need_classes *classes,
                           uint32_t reader_count);

/* What readers of a class read: `fields` has room for DATASET_MAX_FIELDS, and is borrowed as long
 * as *ret_narrowing. *ret_shares becomes `shares` for the dataset that dataset_narrow() makes of
 * it. */
void partitions_narrow(const struct shares *shares, const struct dataset *dataset,
                       const struct needs *needs, struct dataset_narrowed *fields,
                       struct dataset_narrowing *ret_narrowing, struct shares *ret_shares);

#endif
