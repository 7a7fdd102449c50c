/* A libcuda.so.1 that checks what is registered: overlapping and unknown memory gets the driver's
 * codes. The test sets and reads fake_cuda. */
#include "fake_cuda.h"

#include <stdint.h>

struct fake_cuda fake_cuda;

static int index_of(const void *memory)
{
    for (int i = 0; i < FAKE_CUDA_MOST; i++)
        if (fake_cuda.memory[i] == memory)
            return i;
    return -1;
}

int cuCtxGetCurrent(void **ret_context)
{
    *ret_context = fake_cuda.context;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    fake_cuda.context = context;
    return 0;
}

int cuCtxSynchronize(void)
{
    fake_cuda.synchronized++;
    return 0;
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    fake_cuda.last_flags = flags;
    if (!fake_cuda.context || bytes == 0)
        return 201;
    if (fake_cuda.refuse)
        return fake_cuda.refuse;
    for (int i = 0; i < FAKE_CUDA_MOST; i++)
        if (fake_cuda.memory[i] &&
            (uintptr_t)memory < (uintptr_t)fake_cuda.memory[i] + fake_cuda.bytes[i] &&
            (uintptr_t)fake_cuda.memory[i] < (uintptr_t)memory + bytes)
            return 712;
    int free_index = index_of(NULL);
    fake_cuda.memory[free_index] = memory;
    fake_cuda.bytes[free_index] = bytes;
    fake_cuda.registered++;
    return 0;
}

int cuMemHostUnregister(void *memory)
{
    int index = index_of(memory);
    if (!fake_cuda.context || index < 0)
        return 713;
    fake_cuda.memory[index] = NULL;
    fake_cuda.unregistered++;
    return 0;
}

int cuGetErrorString(int code, const char **ret_text)
{
    *ret_text = code == 712 ? "already registered" : "out of memory";
    return 0;
}
