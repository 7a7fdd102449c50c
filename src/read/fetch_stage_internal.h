/* The inside of a fetch stage, shared by fetch_stage.c (the stage and its buffers) and
 * fetch_lister.c (listing pieces, and asking for them).
 *
 * Fetch buffers move between four threads. The lister takes buffers from the `free` list and starts
 * their fetches. A thread of the store's ends the last fetch of a buffer, and puts the buffer on
 * the `fetched` list; or on the `indices` list, with which the lister goes on. The owner hands
 * fetched buffers to workers. Workers put them back on the `free` list. All lists are under one
 * mutex, which is held for a few instructions.
 *
 *     memory   | buffer 0: piece | piece | ... | buffer 1: piece | ... |
 */
#ifndef PENSTOCK_READ_FETCH_STAGE_INTERNAL_H
#define PENSTOCK_READ_FETCH_STAGE_INTERNAL_H

#include "dataset/read/row_pieces.h"
#include "read/fetch_stage.h"
#include "store/kind/fetch.h"
#include "zarr/chunk/chunk.h"

#include <pthread.h>
#include <stdatomic.h>

/* A piece that a row is read from, and the buffer of the row. */
struct want {
    struct fetch_buffer *buffer;
    const struct store *store;
    struct zarr_piece piece;
    char key[ZARR_KEY_BYTES];
    uint32_t
        more_uses; /* the same request for other fields, which select other items of the array */
};

struct fetch_buffer {
    struct fetch_stage *stage;
    struct fetched fetched;
    struct want *wants; /* as listed; fetches are of all wants, or of the indices alone */
    size_t want_count, index_count;
    unsigned char *memory;
    _Atomic size_t left; /* fetches that are not done, and 1 more while fetches are started */
    uint64_t row;
    int32_t row_buffer; /* the row's buffer in the row store */
    int32_t next;       /* on the same list; FETCH_NONE: the last */
    int32_t waits_for;  /* the buffer that gets an index; FETCH_NONE: none */
    int steps;          /* how often the row was listed */
    bool indexing;      /* the fetches are of indices */
};

/* A list of buffers. */
struct queue {
    int32_t first, last; /* `first` FETCH_NONE: empty */
};

struct fetch_stage {
    const struct dataset *dataset; /* borrowed */
    struct dataset_lister *lister; /* owned; the lister's alone */
    struct waker *waker;           /* borrowed */
    uint64_t buffer_bytes;         /* of one buffer's pieces */
    uint64_t piece_count;          /* the most pieces of one buffer */
    uint32_t buffer_count;
    struct fetch_buffer *buffers;
    struct fetch *fetches; /* [buffer_count][piece_count] */
    struct want *wants;    /* [buffer_count][piece_count] */
    void *memory;
    pthread_mutex_t mutex;               /* guards the lists, `flying` and `stopping` */
    pthread_cond_t all_done;             /* `flying` is 0 */
    struct queue waiting;                /* row buffers whose rows wait for a fetch buffer */
    int32_t *next_waiting;               /* [row buffers] */
    uint64_t *rows;                      /* [row buffers]: the rows that wait */
    pthread_cond_t work;                 /* there is something for the lister */
    struct queue free, indices, fetched; /* fetch buffers */
    uint32_t flying;                     /* buffers with fetches that are not done */
    bool stopping;
    bool has_lister; /* the owner's: lister_thread runs */
    pthread_t lister_thread;
};

/* fetch_stage.c: puts a fetch buffer at the end of a list. Under the mutex. */
void fetch_buffer_push(struct fetch_stage *stage, struct queue *queue, int32_t buffer);

/* fetch_stage.c: takes the first buffer of a list. FETCH_NONE: the list is empty. Under the mutex.
 */
int32_t fetch_buffer_pop(struct fetch_stage *stage, struct queue *queue);

/* fetch_lister.c: the main function of the lister; `argument` is the stage. */
void *fetch_lister_main(void *argument);

#endif
