/* A trainer that writes where it should not: hostile-trainer KIND. It consumes as any other, and
 * after each batch does as KIND says:
 *
 *     garbage  overwrites its ring's header, the flags of its control block and the batch it leases
 *     tail     moves its tail beyond the head, after three batches
 *     back     moves its tail back, after three batches
 *     cursor    says that it has released what there never will be, after three batches
 *     socket   sends nonsense to its reader, after three batches
 */
#include "delivery/ring/layout.h"
#include "penstock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HARMLESS_BATCHES = 3, SEEN_US = 300000 };

/* Where shared memory of that name lies in this process. */
static void *find_memory(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    uintptr_t start = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, name) && sscanf(line, "%" SCNxPTR, &start) == 1)
            break;
    if (maps)
        fclose(maps);
    return (void *)start;
}

static void overwrite(unsigned char *ring, struct ring_control *control,
                      const struct penstock *penstock, const struct penstock_batch *batch)
{
    const struct penstock_info *info = penstock_describe(penstock);
    for (size_t i = 0; i < sizeof(struct ring_header); i++)
        ring[i] = (unsigned char)rand();
    for (uint32_t f = 0; f < info->field_count; f++)
        memset(batch->data[f], 0xa5, info->fields[f].sample_bytes * batch->sample_count);
    memset((void *)batch->indices, 0xa5, sizeof(uint64_t) * batch->sample_count);
    atomic_store(&control->trainer_waits, (uint32_t)rand());
    atomic_store(&control->reader_waits, (uint32_t)rand());
}

/* When the reader has seen where it was, and long enough for it to see this; the next release would
 * put it right. */
static void move_back(struct ring_control *control)
{
    usleep(SEEN_US);
    atomic_store(&control->tail, 0);
    usleep(SEEN_US);
}

/* On all sockets there are. */
static void send_nonsense(void)
{
    static const char nonsense[] = "\x50\x4e\x53\x4d nonsense";
    struct stat info;
    for (int fd = 3; fd < 256; fd++)
        if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode))
            send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
    struct penstock *penstock;
    struct penstock_batch batch;
    char message[PENSTOCK_MESSAGE_BYTES];
    const char *kind = argc == 2 ? argv[1] : "";
    if (penstock_connect(NULL, &penstock, message) != PENSTOCK_OK) {
        fprintf(stderr, "hostile-trainer: %s\n", message);
        return EXIT_FAILURE;
    }
    unsigned char *ring = find_memory("memfd:penstock-ring");
    _Atomic uint64_t *cursor = find_memory("memfd:penstock-cursor");
    if (!ring || !cursor) {
        fprintf(stderr, "hostile-trainer: its shared memory is not to be found\n");
        return EXIT_FAILURE;
    }
    struct ring_control *control = (void *)(ring + ((struct ring_layout *)ring)->control_offset);
    enum penstock_status status;
    for (int i = 0; (status = penstock_next(penstock, &batch, -1)) == PENSTOCK_OK; i++) {
        if (strcmp(kind, "garbage") == 0)
            overwrite(ring, control, penstock, &batch);
        (void)penstock_release(penstock, &batch);
        if (i + 1 == HARMLESS_BATCHES && strcmp(kind, "tail") == 0)
            atomic_store(&control->tail, 1000);
        if (i + 1 == HARMLESS_BATCHES && strcmp(kind, "back") == 0)
            move_back(control);
        if (i + 1 == HARMLESS_BATCHES && strcmp(kind, "cursor") == 0)
            atomic_store(cursor, UINT64_MAX);
        if (i + 1 == HARMLESS_BATCHES && strcmp(kind, "socket") == 0)
            send_nonsense();
    }
    fprintf(stderr, "hostile-trainer: %s\n", penstock_last_error(penstock));
    penstock_close(penstock);
    return status == PENSTOCK_ENDED ? EXIT_SUCCESS : EXIT_FAILURE;
}
