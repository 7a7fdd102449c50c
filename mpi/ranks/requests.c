/* See requests.h. */
#include "ranks/requests.h"

static bool is_asked(const struct requests *requests, const MPI_Request *request)
{
    for (uint32_t i = 0; i < requests->count; i++)
        if (requests->asked[i] == request)
            return true;
    return false;
}

bool requests_ask(struct requests *requests, MPI_Request *request)
{
    int complete = 0;
    if (*request == MPI_REQUEST_NULL)
        return true;
    if (is_asked(requests, request))
        return false;
    if (requests->count == REQUESTS_MOST)
        MPI_Test(request, &complete, MPI_STATUS_IGNORE);
    else
        requests->asked[requests->count++] = request;
    return complete;
}

bool requests_look(struct requests *requests)
{
    int done = 0;
    if (requests->count == 0)
        return false;
    for (uint32_t i = 0; i < requests->count; i++)
        requests->copies[i] = *requests->asked[i];
    MPI_Testsome((int)requests->count, requests->copies, &done, requests->indices,
                 requests->statuses);
    for (uint32_t i = 0; i < requests->count; i++)
        *requests->asked[i] = requests->copies[i];
    requests->count = 0;
    return done != MPI_UNDEFINED && done > 0;
}
