/* Steps on their way through the transform, to trainers. See service_internal.h. */
#include "loop/service_internal.h"

#include "base/clock.h"

bool service_progress_transform(struct service *service, bool looks)
{
    const struct job *job = service->job;
    struct error error;
    bool active = false;
    if (!job->transform)
        return false;
    if (transform_progress(job->transform, looks, &active, &error) != STATUS_OK)
        stop_event_error(service->stop, &error);
    for (uint32_t r = 0; r < service->session->ring_count; r++)
        while (transform_take(job->transform, service->session->rings[r].ring)) {
            server_publish(job->server, service->session->rings[r].ring);
            active = true;
        }
    return active;
}

bool service_has_transformed(const struct service *service)
{
    return !service->job->transform || transform_is_idle(service->job->transform);
}

enum status service_finish_transform(const struct session *session, struct error *err)
{
    const struct job *job = session->job;
    const uint64_t pause_ns = 200000;
    bool active;
    if (!job->transform)
        return STATUS_OK;
    while (!transform_is_idle(job->transform)) {
        enum status status = transform_progress(job->transform, true, &active, err);
        if (status != STATUS_OK)
            return status;
        for (uint32_t r = 0; r < session->ring_count; r++)
            while (transform_take(job->transform, session->rings[r].ring))
                server_publish(job->server, session->rings[r].ring);
        comm_heed_signals(&job->comm);
        clock_sleep_ns(pause_ns);
    }
    transform_skip(job->transform);
    return STATUS_OK;
}
