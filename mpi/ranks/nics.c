/* See nics.h. */
#include "ranks/nics.h"

#include "base/launcher.h"
#include "topology/nics.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const char VARIABLE[] = "UCX_NET_DEVICES";

static bool is_settled(void)
{
    static const char *const others[] = {"UCX_TLS", "UCX_SINGLE_NET_DEVICE"};
    bool settled = getenv(VARIABLE) != NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        settled = settled || getenv(others[i]);
    return settled;
}

void nics_choose(int run_count, char ret_nics[NICS_BYTES])
{
    struct launcher_standing node;
    struct topology *topology = NULL;
    struct text devices = {0};
    ret_nics[0] = '\0';
    if (is_settled() || launcher_node(LAUNCHER_OPEN_MPI, &node, NULL) != STATUS_OK)
        return;
    uint32_t of_run = node.size / (uint32_t)run_count;
    if (of_run < 2 || topology_load(NULL, NULL, &topology, NULL) != STATUS_OK)
        return;
    if (topology_deal_nics(topology, node.rank % of_run, of_run, &devices, NULL) == STATUS_OK &&
        devices.length > 0 && devices.length < NICS_BYTES && setenv(VARIABLE, devices.data, 0) == 0)
        snprintf(ret_nics, NICS_BYTES, "%s", devices.data);
    text_done(&devices);
    topology_free(topology);
}

void nics_forget(const char *nics)
{
    if (*nics)
        unsetenv(VARIABLE);
}
