/* Ways to read whole files, cold and warm: what the choices in docs/reading.md ("Files") rest
 * on.
 *
 * Threads take files from one counter, in a shuffled order, as the reader's workers take rows, and
 * read each whole into memory of their own; there is no decoding. Before a cold turn the files'
 * pages are dropped from the page cache, before a warm one they are read. Ways take turns; medians
 * over rounds are printed, and one JSON object as the last line. io_uring is used by its system
 * calls: no library is needed.
 */
#include "base/clock.h"
#include "base/random.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, MOST_THREADS = 64, MOST_ROUNDS = 99, NAME_BYTES = 32, RING_DEPTH = 16 };

struct ring {
    int fd;
    unsigned char *memory;
    size_t bytes, sqe_bytes;
    struct io_uring_params params;
    struct io_uring_sqe *sqes;
};

struct job {
    int folder;
    uint64_t count, bytes; /* files, and what each has */
    uint64_t *order;       /* [count] */
    uint32_t threads;
    const struct way *way;
    _Atomic uint64_t next;
};

/* One thread's. */
struct reader {
    struct job *job;
    unsigned char *buffer;
    struct ring ring;
};

struct way {
    const char *name;
    int flags; /* of open() */
    size_t piece;
    bool sequential, ring;
    int ahead; /* files after this one that are hinted */
};

static const struct way ways[] = {
    {"plain", 0, SIZE_MAX, false, false, 0},
    {"sequential", 0, SIZE_MAX, true, false, 0},
    {"hint next", 0, SIZE_MAX, false, false, 1},
    {"direct", O_DIRECT, SIZE_MAX, false, false, 0},
    {"direct by 1 MiB", O_DIRECT, 1 << 20, false, false, 0},
    {"direct by 256 KiB", O_DIRECT, 256 << 10, false, false, 0},
    {"io_uring", 0, 1 << 20, false, true, 0},
    {"io_uring direct", O_DIRECT, 1 << 20, false, true, 0},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "penstock-bench-files: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static void name_file(uint64_t number, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "file-%06llu", (unsigned long long)number);
}

/* Files
 * ---------------------------------------------------------------------------------------------- */

static void make_files(const struct job *job, unsigned char *buffer)
{
    for (uint64_t i = 0; i < job->bytes / sizeof(uint64_t); i++)
        ((uint64_t *)buffer)[i] = random_u64(1, 0, i);
    for (uint64_t i = 0; i < job->count; i++) {
        char name[NAME_BYTES];
        struct stat info;
        name_file(i, name);
        if (fstatat(job->folder, name, &info, 0) == 0 && (uint64_t)info.st_size == job->bytes)
            continue;
        int fd = openat(job->folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, buffer, job->bytes) != (ssize_t)job->bytes || fsync(fd) < 0)
            fail(name);
        close(fd);
    }
}

/* To the page cache, or from it. */
static void advise_all(const struct job *job, bool cold, unsigned char *buffer)
{
    for (uint64_t i = 0; i < job->count; i++) {
        char name[NAME_BYTES];
        name_file(i, name);
        int fd = openat(job->folder, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            fail(name);
        if (cold)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        else if (pread(fd, buffer, job->bytes, 0) != (ssize_t)job->bytes)
            fail(name);
        close(fd);
    }
}

/* io_uring
 * ---------------------------------------------------------------------------------------------- */

static void ring_open(struct ring *ring)
{
    ring->fd = (int)syscall(SYS_io_uring_setup, RING_DEPTH, &ring->params);
    if (ring->fd < 0)
        return; /* not allowed here: told by whoever reads */
    size_t sq = ring->params.sq_off.array + ring->params.sq_entries * sizeof(uint32_t);
    size_t cq = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
    ring->bytes = sq > cq ? sq : cq;
    ring->sqe_bytes = ring->params.sq_entries * sizeof(struct io_uring_sqe);
    ring->memory = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        ring->fd, IORING_OFF_SQ_RING);
    ring->sqes = mmap(NULL, ring->sqe_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                      ring->fd, IORING_OFF_SQES);
    if (ring->memory == MAP_FAILED || (void *)ring->sqes == MAP_FAILED)
        fail("io_uring");
}

static void ring_close(struct ring *ring)
{
    if (ring->fd < 0)
        return;
    munmap(ring->memory, ring->bytes);
    munmap(ring->sqes, ring->sqe_bytes);
    close(ring->fd);
}

static _Atomic uint32_t *ring_word(const struct ring *ring, uint32_t offset)
{
    return (_Atomic uint32_t *)(ring->memory + offset);
}

static void ring_put(struct ring *ring, int fd, void *buffer, size_t size, uint64_t offset)
{
    uint32_t mask = *ring_word(ring, ring->params.sq_off.ring_mask);
    _Atomic uint32_t *tail = ring_word(ring, ring->params.sq_off.tail);
    uint32_t entry = *tail & mask;
    ring->sqes[entry] = (struct io_uring_sqe){.opcode = IORING_OP_READ,
                                              .fd = fd,
                                              .addr = (uint64_t)(uintptr_t)buffer,
                                              .len = (uint32_t)size,
                                              .off = offset};
    *ring_word(ring, ring->params.sq_off.array + entry * (uint32_t)sizeof(uint32_t)) = entry;
    atomic_store_explicit(tail, *tail + 1, memory_order_release);
}

/* Bytes of all answers that are there. */
static size_t ring_take(struct ring *ring, uint32_t *answers)
{
    _Atomic uint32_t *head = ring_word(ring, ring->params.cq_off.head);
    uint32_t tail = *ring_word(ring, ring->params.cq_off.tail);
    uint32_t mask = *ring_word(ring, ring->params.cq_off.ring_mask);
    const struct io_uring_cqe *cqes = (void *)(ring->memory + ring->params.cq_off.cqes);
    size_t bytes = 0;
    for (uint32_t at = *head; at != tail; at++, ++*answers) {
        errno = -cqes[at & mask].res;
        if (cqes[at & mask].res < 0)
            fail("io_uring read");
        bytes += (size_t)cqes[at & mask].res;
    }
    *head = tail;
    return bytes;
}

static size_t read_by_ring(struct reader *reader, int fd, size_t piece)
{
    size_t asked = 0, got = 0, bytes = reader->job->bytes;
    uint32_t flying = 0;
    while (asked < bytes || flying > 0) {
        uint32_t put = 0, answers = 0;
        for (; asked < bytes && flying < RING_DEPTH; asked += piece, put++, flying++)
            ring_put(&reader->ring, fd, reader->buffer + asked,
                     piece < bytes - asked ? piece : bytes - asked, asked);
        if (syscall(SYS_io_uring_enter, reader->ring.fd, put, 1, IORING_ENTER_GETEVENTS, NULL, 0) <
            0)
            fail("io_uring");
        got += ring_take(&reader->ring, &answers);
        flying -= answers;
    }
    return got;
}

/* Reading
 * ---------------------------------------------------------------------------------------------- */

/* All of a file: one call takes no more than the device's readahead. */
static void hint(const struct job *job, uint64_t position)
{
    enum { STEP = 128 << 10 };
    char name[NAME_BYTES];
    if (position >= job->count)
        return;
    name_file(job->order[position], name);
    int fd = openat(job->folder, name, O_RDONLY | O_CLOEXEC);
    for (uint64_t at = 0; at < job->bytes; at += STEP)
        posix_fadvise(fd, (off_t)at, STEP, POSIX_FADV_WILLNEED);
    close(fd);
}

static size_t read_by_calls(struct reader *reader, int fd, size_t piece)
{
    size_t done = 0, bytes = reader->job->bytes;
    ssize_t got;
    do {
        size_t size = piece < bytes - done ? piece : bytes - done;
        got = pread(fd, reader->buffer + done, size, (off_t)done);
        done += got > 0 ? (size_t)got : 0;
    } while (got > 0 && done < bytes);
    return done;
}

static void *read_files(void *argument)
{
    struct reader *reader = argument;
    struct job *job = reader->job;
    const struct way *way = job->way;
    uint64_t position;
    while ((position = atomic_fetch_add(&job->next, 1)) < job->count) {
        char name[NAME_BYTES];
        if (way->ahead)
            hint(job, position + job->threads);
        name_file(job->order[position], name);
        int fd = openat(job->folder, name, O_RDONLY | O_CLOEXEC | way->flags);
        if (fd < 0)
            fail(name);
        if (way->sequential)
            posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        size_t got = way->ring ? read_by_ring(reader, fd, way->piece)
                               : read_by_calls(reader, fd, way->piece);
        close(fd);
        if (got != job->bytes)
            fail(name);
    }
    return NULL;
}

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

struct turn {
    double seconds, cpu_s;
};

static struct turn run_turn(struct job *job, struct reader *readers, const struct way *way)
{
    pthread_t threads[MOST_THREADS];
    struct turn turn = {.cpu_s = cpu_s()};
    job->way = way;
    job->next = 0;
    uint64_t start_ns = clock_now_ns();
    for (uint32_t i = 0; i < job->threads; i++)
        if (pthread_create(&threads[i], NULL, read_files, &readers[i]) != 0)
            fail("start a thread");
    for (uint32_t i = 0; i < job->threads; i++)
        pthread_join(threads[i], NULL);
    turn.seconds = (double)(clock_now_ns() - start_ns) * 1e-9;
    turn.cpu_s = cpu_s() - turn.cpu_s;
    return turn;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double median(const struct turn *turns, uint32_t count, bool cpu)
{
    double values[MOST_ROUNDS] = {0};
    for (uint32_t i = 0; i < count; i++)
        values[i] = cpu ? turns[i].cpu_s : turns[i].seconds;
    qsort(values, count, sizeof values[0], compare);
    return values[count / 2];
}

static void shuffle(struct job *job, uint64_t seed)
{
    for (uint64_t i = job->count; i-- > 1;) {
        uint64_t k = random_below(random_u64(seed, 2, i), i + 1), other = job->order[k];
        job->order[k] = job->order[i];
        job->order[i] = other;
    }
}

struct result {
    uint32_t rounds;
    struct turn turns[2][WAYS][MOST_ROUNDS]; /* cold, warm */
};

/* Whether the kernel lets us use a ring, and the file system, direct reads. */
static bool is_possible(const struct way *way, const struct reader *reader)
{
    char name[NAME_BYTES];
    if (way->ring && reader->ring.fd < 0)
        return false;
    name_file(0, name);
    int fd = openat(reader->job->folder, name, O_RDONLY | O_CLOEXEC | way->flags);
    bool possible = fd >= 0 && pread(fd, reader->buffer, BLOCK, 0) == BLOCK;
    if (fd >= 0)
        close(fd);
    return possible;
}

static double rate(const struct result *result, const struct job *job, int warm, int way)
{
    return (double)job->count * (double)job->bytes /
           median(result->turns[warm][way], result->rounds, false) / 1e6;
}

static double cpu_ms(const struct result *result, const struct job *job, int warm, int way)
{
    return median(result->turns[warm][way], result->rounds, true) / (double)job->count * 1e3;
}

static void run_rounds(struct job *job, struct reader *readers, struct result *result)
{
    for (uint32_t round = 0; round < result->rounds; round++) {
        shuffle(job, round);
        for (int i = 0; i < 2 * WAYS; i++) {
            int warm = i / WAYS, way = i % WAYS;
            if (!is_possible(&ways[way], readers))
                continue;
            advise_all(job, !warm, readers[0].buffer);
            result->turns[warm][way][round] = run_turn(job, readers, &ways[way]);
        }
    }
}

static void print_result(const struct job *job, const struct reader *reader,
                         const struct result *result)
{
    const char *comma = "";
    printf("%-18s %10s %12s %10s %12s\n", "", "cold MB/s", "CPU ms/file", "warm MB/s",
           "CPU ms/file");
    for (int w = 0; w < WAYS; w++)
        if (is_possible(&ways[w], reader))
            printf("%-18s %10.0f %12.3f %10.0f %12.3f\n", ways[w].name, rate(result, job, 0, w),
                   cpu_ms(result, job, 0, w), rate(result, job, 1, w), cpu_ms(result, job, 1, w));
        else
            printf("%-18s not allowed on this machine\n", ways[w].name);
    printf("{\"benchmark\": \"files\", \"bytes\": %llu, \"threads\": %u, \"ways\": {",
           (unsigned long long)job->bytes, job->threads);
    for (int w = 0; w < WAYS; w++) {
        if (!is_possible(&ways[w], reader))
            continue;
        printf("%s\"%s\": [%.0f, %.0f]", comma, ways[w].name, rate(result, job, 0, w),
               rate(result, job, 1, w));
        comma = ", ";
    }
    printf("}}\n");
}

int main(int argc, char **argv)
{
    static struct result result;
    struct reader readers[MOST_THREADS] = {0};
    if (argc != 6) {
        fprintf(stderr, "usage: penstock-bench-files FOLDER FILES BYTES THREADS ROUNDS\n");
        return EXIT_FAILURE;
    }
    struct job job = {.folder = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                      .count = strtoull(argv[2], NULL, 10),
                      .bytes = strtoull(argv[3], NULL, 10) / BLOCK * BLOCK,
                      .threads = (uint32_t)strtoul(argv[4], NULL, 10)};
    result.rounds = (uint32_t)strtoul(argv[5], NULL, 10);
    if (job.folder < 0)
        fail(argv[1]);
    errno = EINVAL;
    if (job.count == 0 || job.bytes == 0 || job.threads == 0 || job.threads > MOST_THREADS ||
        result.rounds == 0 || result.rounds > MOST_ROUNDS)
        fail("numbers");
    job.order = calloc(job.count, sizeof *job.order);
    for (uint32_t i = 0; i < job.threads; i++) {
        readers[i].job = &job;
        readers[i].buffer = aligned_alloc(BLOCK, job.bytes);
        ring_open(&readers[i].ring);
        if (!readers[i].buffer || !job.order)
            fail("memory");
    }
    for (uint64_t i = 0; i < job.count; i++)
        job.order[i] = i;
    make_files(&job, readers[0].buffer);
    run_rounds(&job, readers, &result);
    print_result(&job, readers, &result);
    for (uint32_t i = 0; i < job.threads; i++) {
        ring_close(&readers[i].ring);
        free(readers[i].buffer);
    }
    free(job.order);
    close(job.folder);
    return EXIT_SUCCESS;
}
