/* The inside of a fetch stage, shared by fetch_stage.c (the stage and its buffers) and
 * fetch_lister.c (what rows take, and getting it).
 *
 * Buffers move between four threads: the lister takes free ones and starts their fetches; the
 * store's thread, which ends the last fetch of a buffer, puts it on the `fetched` list, or on that
 * of `indices`, which the lister goes on with; the owner gives fetched ones to workers, which put
 * them back on the `free` list. Lists are under one mutex, held for a few instructions.
 *
 *     memory   | buffer 0: piece | piece | ... | buffer 1: piece | ... |
 */
#ifndef PENSTOCK_READ_FETCH_STAGE_INTERNAL_H
#define PENSTOCK_READ_FETCH_STAGE_INTERNAL_H

#include "read/fetch_stage.h"
#include "store/fetch.h"
#include "zarr/chunk.h"

#include <pthread.h>
#include <stdatomic.h>

/* What a fetch is for. */
struct want {
    struct fetch_buffer *buffer;
    const struct store *store;
    struct zarr_piece piece;
    char key[ZARR_KEY_BYTES];
};

struct fetch_buffer {
    struct fetch_stage *stage;
    struct fetched fetched;
    struct want *wants; /* as told; fetches are of all of them, or of the indices alone */
    size_t want_count, index_count;
    unsigned char *memory;
    _Atomic size_t left; /* fetches that are not done; one more while they are started */
    uint64_t row;
    int32_t row_buffer; /* that the row is for */
    int32_t next;       /* on a list */
    int32_t waits_for;  /* the buffer that gets an index; FETCH_NONE: none */
    int steps;          /* how often it was listed */
    bool indexing;      /* its fetches are indices */
};

struct queue {
    int32_t first, last;
};

struct fetch_stage {
    const struct dataset *dataset;
    struct dataset_lister *lister;
    struct waker *waker;
    uint64_t buffer_bytes; /* of pieces */
    uint64_t piece_count;
    uint32_t buffer_count;
    struct fetch_buffer *buffers;
    struct fetch *fetches; /* [buffer_count][piece_count] */
    struct want *wants;    /* [buffer_count][piece_count] */
    void *memory;
    pthread_mutex_t mutex;               /* guards the lists, `flying` and `stopping` */
    pthread_cond_t all_done;             /* `flying` is 0 */
    struct queue waiting;                /* of row buffers */
    int32_t *next_waiting;               /* [row buffers] */
    uint64_t *rows;                      /* [row buffers]: of waiting ones */
    pthread_cond_t work;                 /* there is something for the lister */
    struct queue free, indices, fetched; /* of buffers */
    uint32_t flying;                     /* buffers with fetches that are not done */
    bool stopping;
    bool has_lister; /* the owner's: lister_thread runs */
    pthread_t lister_thread;
};

/* fetch_stage.c: puts a buffer at the end of a list, and takes the first; FETCH_NONE: the list is
 * empty. Under the mutex. */
void fetch_buffer_push(struct fetch_stage *stage, struct queue *queue, int32_t buffer);
int32_t fetch_buffer_pop(struct fetch_stage *stage, struct queue *queue);

/* fetch_lister.c: the lister's thread; `argument` is the stage. */
void *fetch_lister_main(void *argument);

#endif
