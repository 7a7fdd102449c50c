/* Registers a connection's rings with a CUDA device, for programs in C and C++ without a framework.
 * Copies from registered memory are asynchronous, and as fast as the bus. Programs with PyTorch
 * write penstock.torch.Loader(pin=True) instead.
 *
 *     struct penstock_cuda cuda;
 *     char message[PENSTOCK_MESSAGE_BYTES];
 *     if (penstock_cuda_pin(&cuda, connection, message) != PENSTOCK_OK) ... message says why
 *     while (penstock_next(connection, &batch, -1) == PENSTOCK_OK) {
 *         cuMemcpyHtoDAsync(device, batch.data[0], bytes, stream);
 *         ... and when an event behind the copy has completed:
 *         penstock_release(connection, &batch);
 *     }
 *     penstock_close(connection);
 *     penstock_cuda_done(&cuda);
 *
 * Where trainers may be started again, penstock_trained() says up to where the program is done.
 *
 * A batch must not be released before its copies are complete: the service would overwrite the
 * batch meanwhile, and CUDA would not say so. Without registration CUDA has read the batch when the
 * call returns.
 *
 * This header is all of the helper. The helper opens libcuda.so.1 (the driver) when it is asked to
 * pin: a program that includes this header also runs where there is no CUDA. With glibc
 * before 2.34, link with -ldl.
 */
#ifndef PENSTOCK_CUDA_H
#define PENSTOCK_CUDA_H

#include <penstock.h>

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Drivers refuse 512 GiB and more in one call. */
#define PENSTOCK_CUDA_PART_BYTES (UINT64_C(64) << 30)

struct penstock_cuda {
    void *library, *context;
    int (*set_context)(void *context);
    int (*get_context)(void **ret_context);
    int (*synchronize)(void);
    int (*register_host)(void *memory, size_t bytes, unsigned flags);
    int (*unregister_host)(void *memory);
    int (*error_text)(int code, const char **ret_text);
    unsigned flags;  /* of registrations: 1, portable; and 8, read-only, for rings that are */
    uint64_t pinned; /* bit g % 64: the ring of generation g is registered */
    int error;       /* CUresult of the last registration that failed; 0: none */
};

static inline int penstock_cuda_enter_(struct penstock_cuda *cuda, void **ret_before)
{
    int code = cuda->get_context(ret_before);
    return code ? code : cuda->set_context(cuda->context);
}

/* Rings that are there at the same time have generations that follow one another. */
static inline uint64_t penstock_cuda_bit_(const struct penstock_ring *ring)
{
    return UINT64_C(1) << (ring->generation % 64);
}

/* Unregisters the parts of a ring before `end`. */
static inline void penstock_cuda_drop_(struct penstock_cuda *cuda, const struct penstock_ring *ring,
                                       uint64_t end)
{
    for (uint64_t at = 0; at < end; at += PENSTOCK_CUDA_PART_BYTES)
        (void)cuda->unregister_host((char *)ring->base + at);
}

/* All of a ring, or nothing. */
static inline int penstock_cuda_register_(struct penstock_cuda *cuda,
                                          const struct penstock_ring *ring)
{
    for (uint64_t at = 0; at < ring->bytes; at += PENSTOCK_CUDA_PART_BYTES) {
        uint64_t left = ring->bytes - at;
        uint64_t bytes = left < PENSTOCK_CUDA_PART_BYTES ? left : PENSTOCK_CUDA_PART_BYTES;
        int code = cuda->register_host((char *)ring->base + at, (size_t)bytes, cuda->flags);
        if (code) {
            penstock_cuda_drop_(cuda, ring, at);
            return code;
        }
    }
    return 0;
}

static inline void penstock_cuda_attached_(void *user, const struct penstock_ring *ring)
{
    struct penstock_cuda *cuda = (struct penstock_cuda *)user;
    void *before = NULL;
    int code = penstock_cuda_enter_(cuda, &before);
    if (!code)
        code = penstock_cuda_register_(cuda, ring);
    if (code)
        cuda->error = code;
    else
        __atomic_fetch_or(&cuda->pinned, penstock_cuda_bit_(ring), __ATOMIC_ACQ_REL);
    (void)cuda->set_context(before);
}

/* Waits for all copies before the memory goes: penstock_close() may be called with batches leased.
 */
static inline void penstock_cuda_detaching_(void *user, const struct penstock_ring *ring)
{
    struct penstock_cuda *cuda = (struct penstock_cuda *)user;
    void *before;
    uint64_t bit = penstock_cuda_bit_(ring);
    if (!(__atomic_fetch_and(&cuda->pinned, ~bit, __ATOMIC_ACQ_REL) & bit) ||
        penstock_cuda_enter_(cuda, &before))
        return;
    (void)cuda->synchronize();
    penstock_cuda_drop_(cuda, ring, ring->bytes);
    (void)cuda->set_context(before);
}

static inline int penstock_cuda_find_(struct penstock_cuda *cuda, const char **ret_missing)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"cuCtxSetCurrent", &cuda->set_context},
                  {"cuCtxGetCurrent", &cuda->get_context},
                  {"cuCtxSynchronize", &cuda->synchronize},
                  {"cuMemHostRegister_v2", &cuda->register_host},
                  {"cuMemHostUnregister", &cuda->unregister_host},
                  {"cuGetErrorString", &cuda->error_text}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *found = dlsym(cuda->library, wanted[i].name);
        *ret_missing = wanted[i].name;
        if (!found)
            return 0;
        memcpy(wanted[i].function, &found, sizeof found);
    }
    return 1;
}

/* Frees what penstock_cuda_pin() opened. After penstock_close(). */
static inline void penstock_cuda_done(struct penstock_cuda *cuda)
{
    if (cuda->library)
        dlclose(cuda->library);
    cuda->library = NULL;
}

/* Registers the connection's ring, and each ring that follows when a reader comes back. *cuda stays
 * where it is until penstock_cuda_done(). `message`: PENSTOCK_MESSAGE_BYTES bytes for the reason of
 * a failure, or NULL. Takes the place of penstock_watch_rings(): before the first batch, once, in a
 * thread whose current CUDA context is the one that copies.
 *
 * NOT_FOUND: there is no libcuda.so.1, or no such function in it. INVALID: no current context; the
 * rings are watched already. NO_MEMORY: the driver refused to register the memory. After a failure
 * batches come as without a call. If a later ring is refused, `error` says so, and copies from that
 * ring are synchronous. */
static inline enum penstock_status penstock_cuda_pin(struct penstock_cuda *cuda,
                                                     struct penstock *connection, char *message)
{
    struct penstock_ring_watch watch;
    const char *missing = NULL, *text = NULL;
    char unused[PENSTOCK_MESSAGE_BYTES];
    enum penstock_status status = PENSTOCK_NOT_FOUND;
    message = message ? message : unused;
    memset(cuda, 0, sizeof *cuda);
    memset(&watch, 0, sizeof watch);
    watch.attached = penstock_cuda_attached_;
    watch.detaching = penstock_cuda_detaching_;
    watch.user = cuda;
    cuda->flags = penstock_describe(connection)->is_shared ? 1u | 8u : 1u;
    cuda->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda->library) {
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "no CUDA driver: %s", dlerror());
    } else if (!penstock_cuda_find_(cuda, &missing)) {
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "libcuda.so.1 has no %s", missing);
    } else if (cuda->get_context(&cuda->context) || !cuda->context) {
        status = PENSTOCK_INVALID;
        snprintf(message, PENSTOCK_MESSAGE_BYTES,
                 "this thread has no CUDA context: make the one that will copy current");
    } else if (penstock_watch_rings(connection, &watch) != PENSTOCK_OK) {
        status = PENSTOCK_INVALID;
        snprintf(message, PENSTOCK_MESSAGE_BYTES,
                 "rings are watched once, and before the first batch");
    } else if (cuda->error) {
        (void)cuda->error_text(cuda->error, &text);
        snprintf(message, PENSTOCK_MESSAGE_BYTES,
                 "CUDA refused to register the batches' memory (%d: %s): raise the limit of locked "
                 "memory (ulimit -l)",
                 cuda->error, text ? text : "unknown");
        return PENSTOCK_NO_MEMORY; /* the library stays open: later rings are tried again */
    } else {
        return PENSTOCK_OK;
    }
    penstock_cuda_done(cuda);
    return status;
}

#endif
