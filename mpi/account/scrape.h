/* Scrapes: gives a reader's metrics to Prometheus by HTTP, in a thread of its own.
 *
 * GET /metrics answers with the snapshot in the reader's metrics file (metrics/metrics_file.h). So
 * a scrape takes no lock of the reader, and what is told is as old as the page is, a quarter of a
 * second at most. Only the address that metrics.listen names is bound. A few connections are served
 * at once, and each is closed when it is silent for long.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_SCRAPE_H
#define PENSTOCK_MPI_ACCOUNT_SCRAPE_H

#include "base/address.h"
#include "base/error.h"

struct scrape;

/* Listens at `address`, and begins to answer. `dir` is the run directory, borrowed until
 * scrape_free(). With port 0 the system chooses the port: scrape_address() says which. IO: the
 * address cannot be bound; the message says why, and what to do. NO_MEMORY. */
MUST_USE enum status scrape_new(int dir, uint32_t reader, const struct address *address,
                                struct scrape **ret_scrape, struct error *err);

/* The address with the port in use. */
struct address scrape_address(const struct scrape *scrape);

/* Ends the thread, which takes no longer than an answer. NULL is fine. */
void scrape_free(struct scrape *scrape);

#endif
