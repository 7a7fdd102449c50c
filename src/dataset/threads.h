/* Threads that read while a dataset is opened or held. Signals belong to the main thread: these
 * threads take none. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_THREADS_H
#define PENSTOCK_DATASET_THREADS_H

#include <pthread.h>
#include <stdint.h>

struct dataset;

/* How many threads read at once what is cut into so many pieces. */
enum { DATASET_MOST_THREADS = 16 };
uint64_t dataset_thread_count(const struct dataset *dataset, uint64_t pieces);

/* Starts up to `count` threads of body(argument), which returns NULL. Returns how many; if fewer,
 * errno says why. */
uint64_t threads_start(pthread_t *threads, uint64_t count, const char *name, void *(*body)(void *),
                       void *argument);

/* Waits for their end, and calls look(argument) about ten times a second until then. */
void threads_await(const pthread_t *threads, uint64_t count, void (*look)(void *), void *argument);

/* Runs body(argument) in `count` threads, DATASET_MOST_THREADS at most, and blocks until all have
 * returned. The calling thread is one of them, so that it does not matter how many others can be
 * started. */
void threads_run(const char *name, uint64_t count, void *(*body)(void *), void *argument);

#endif
