/* See fake_cuda.c. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>

enum { FAKE_CUDA_MOST = 8 };

struct fake_cuda {
    void *context; /* the current one, of all threads */
    int refuse;    /* a code for each registration; 0: none */
    unsigned last_flags;
    int registered, unregistered, synchronized;
    void *memory[FAKE_CUDA_MOST]; /* registered now */
    size_t bytes[FAKE_CUDA_MOST];
};
extern struct fake_cuda fake_cuda;

int cuCtxGetCurrent(void **ret_context);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
int cuMemHostUnregister(void *memory);
int cuGetErrorString(int code, const char **ret_text);

#endif
