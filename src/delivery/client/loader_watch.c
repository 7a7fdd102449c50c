/* The loader's rings as memory that a program registers with a device: who is told of them. */
#include "delivery/client/loader_internal.h"

static struct loader_ring describe(const struct attached_ring *attached)
{
    return (struct loader_ring){.base = attached->connection.ring.memory,
                                .bytes = attached->connection.ring.bytes,
                                .generation = attached->generation};
}

void loader_tell_attached(const struct loader *loader)
{
    struct loader_ring ring = describe(loader->attached);
    if (loader->watch.attached)
        loader->watch.attached(loader->watch.user, &ring);
}

void loader_tell_detaching(const struct loader *loader, const struct attached_ring *attached)
{
    struct loader_ring ring = describe(attached);
    if (loader->watch.detaching)
        loader->watch.detaching(loader->watch.user, &ring);
}

void loader_detach(struct loader *loader, struct attached_ring *attached)
{
    if (!attached)
        return;
    if (!attached->told)
        loader_tell_detaching(loader, attached);
    attached_ring_free(attached);
}

enum status loader_watch_rings(struct loader *loader, const struct loader_watch *watch,
                               struct error *err)
{
    if (loader->watch.attached || loader->watch.detaching)
        return error_set(err, STATUS_INVALID, "the rings are watched already");
    if (atomic_load(&loader->batches) > 0)
        return error_set(err, STATUS_INVALID,
                         "a batch was taken already: watch rings before the first one");
    loader->watch = *watch;
    loader_tell_attached(loader);
    return STATUS_OK;
}
