/* docs/metrics.md lists the metrics as the table in metrics.h has them. Run with
 * PENSTOCK_UPDATE_DOCS=1 to write the file anew. */
#include "metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "docs_page.h"

static const char introduction[] =
    "# Metrics\n"
    "\n"
    "Each reader counts what flows, what is waited for, and what is cached. There are four ways to "
    "see this:\n"
    "\n"
    "- `penstock top RUN_DIR` shows a running job on one screen "
    "([tools.md](tools.md#penstock-top-what-a-run-waits-for)).\n"
    "  Nothing has to be switched on. On reader 0's node the readers of all nodes are shown.\n"
    "- `metrics.listen: \"127.0.0.1:9400\"`: each reader answers `GET /metrics` in Prometheus' "
    "text format. With port 0 the system\n"
    "  chooses the port. Each reader writes its address to `RUN_DIR/reader-N.json`, for "
    "Prometheus' `file_sd_configs`:\n"
    "  `files: [\"RUN_DIR/reader-*.json\"]`. The readers of a node take one port after another, "
    "from the given one on. A Prometheus that starts\n"
    "  before the run directory is there finds the readers after `refresh_interval`, which is 5 "
    "minutes unless it is set.\n"
    "- `metrics.file: /var/lib/prometheus/node-exporter/penstock.prom`: each reader writes a file "
    "for the textfile collector of\n"
    "  node_exporter every 5 seconds. Where a node has several readers, the name must contain "
    "`{rank}`. The file is removed at\n"
    "  the end. A reader that is killed leaves the file behind: `node_textfile_mtime_seconds` "
    "tells.\n"
    "- `penstock-reader --report FILE` has the last values of every reader as "
    "`readers[].metrics`.\n"
    "\n"
    "Nothing listens unless `metrics.listen` says so, and then only at that address. There is no "
    "password and no encryption: name an\n"
    "address other than the loopback only on a network that you trust. Values are a quarter of a "
    "second old at most.\n"
    "\n"
    "**Is training waiting for data?** `rate(penstock_trainer_wait_seconds_sum[1m])` is the share "
    "of the time in which a trainer waited\n"
    "in `penstock_next()`. The largest value over ranks counts. 0 means that data is always ready. "
    "Waits for a trainer's own releases do\n"
    "not count, and a wait is added when its batch has come (`penstock_trainer_waiting` is 1 "
    "meanwhile).\n"
    "\n"
    "**What does it wait for?** `rate(penstock_blocked_seconds_total[1m])` is the share of the "
    "time in which a reader's next round waited,\n"
    "by cause. `trainers` is good: batches are ready, and trainers are busy. A reader that waits "
    "for another reader's rows counts\n"
    "`network`, as it cannot tell a slow link from a slow reader. So only the least `network` of "
    "all readers is the network's, and of\n"
    "other causes the largest counts. While rounds wait for rows, `storage` and `decode` divide "
    "the time as the workers' own time\n"
    "is divided, between reads of the store and decoding, a quarter of a second at a time. Rows of "
    "a remote store that no worker has yet\n"
    "wait for `storage`.\n"
    "\n"
    "The tables below are made from the tables in `src/metrics/metrics.h`. Beside these there are "
    "`penstock_build_info{version}` and\n"
    "`penstock_run_info{dataset, seed, order_id, node}`, whose value is always 1.\n"
    "[launch/grafana/penstock.json](../launch/grafana/penstock.json) is a dashboard for Grafana: "
    "import the file, and choose the data source.\n"
    "[A picture](dashboard.png) shows its panels, with the answers of a Prometheus that scraped a "
    "run of two readers. A script of `docs/pictures` drew\n"
    "the picture, not Grafana.\n"
    "\n";

static void page_lists_the_table(void **state)
{
    (void)state;
    struct text page = {0};
    text_append(&page, "%s", introduction);
    metrics_markdown(&page);
    docs_page_compare(PENSTOCK_SOURCE_DIR "/docs/metrics.md", &page);
    text_done(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_lists_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
