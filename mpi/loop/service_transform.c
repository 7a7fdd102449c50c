/* The service loop's part of the transform. See service_internal.h. */
#include "loop/service_internal.h"

#include "base/clock.h"

bool service_progress_transform(struct service *service, bool looks)
{
    struct transform *transform = service->job->transform;
    struct error error;
    bool active = false;
    if (transform && transform_progress(transform, looks, &active, &error) != STATUS_OK)
        stop_event_error(service->stop, &error);
    return active;
}

enum status service_cancel_transform(const struct job *job, struct error *err)
{
    const uint64_t pause_ns = 200000;
    enum status status = STATUS_OK;
    bool active;
    while (job->transform && status == STATUS_OK && !transform_cancel(job->transform)) {
        comm_heed_signals(&job->comm);
        comm_move(&job->comm);
        clock_sleep_ns(pause_ns);
        status = transform_progress(job->transform, true, &active, err);
    }
    return status;
}
