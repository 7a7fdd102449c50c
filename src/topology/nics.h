/* Network cards (NICs) of a node: which of them each of its readers uses.
 *
 * MPI sends over InfiniBand by UCX, which takes the NICs near the cpus of the thread that calls
 * MPI_Init; of several that are equally near all processes take the same. Readers are not bound
 * when they call it, so that several readers of a node would share a NIC while others idle. Here
 * the NICs are dealt out, each once before any twice, the nearest to the cores of the reader (as
 * topology_placement() has them with a trainer for each GPU). Further ones of its own a reader gets
 * only if they are near, for UCX sends large messages over two:
 *
 *     NUMA node 0  mlx5_0 mlx5_1    2 readers   mlx5_0:1,mlx5_1:1   mlx5_2:1,mlx5_3:1
 *     NUMA node 1  mlx5_2 mlx5_3    4 readers   mlx5_0:1   mlx5_1:1   mlx5_2:1   mlx5_3:1
 *
 * Dealt are devices of InfiniBand with an active port, as fast as the fastest of them. Not dealt,
 * since a reader that is told of the wrong one reaches nobody:
 * - Ethernet (RoCE): NICs of a node may lead to networks of which only one has the other nodes.
 * - InfiniBand of several subnets, for the same reason.
 * - Slingshot (cxi, hsn): MPI uses it by libfabric, and gives each process of a node another NIC.
 *
 * What is found, and near to what, is hwloc's word, also of recorded machines; where hwloc lists no
 * devices there are none. Safe from any thread.
 */
#ifndef PENSTOCK_TOPOLOGY_NICS_H
#define PENSTOCK_TOPOLOGY_NICS_H

#include "topology/topology.h"

/* NICs that can be dealt. */
uint32_t topology_nic_count(const struct topology *topology);

/* Appends what UCX_NET_DEVICES is to be for reader `reader` of the `reader_count` of a node. All of
 * them have to ask with the same topology. Nothing is appended where UCX does as well by itself:
 * one NIC, one reader (which uses several NICs at once), or a process whose launcher has bound it
 * to some of the cpus. INVALID: `reader` not below `reader_count`. NO_MEMORY. */
MUST_USE enum status topology_deal_nics(const struct topology *topology, uint32_t reader,
                                        uint32_t reader_count, struct text *out, struct error *err);

/* Appends "InfiniBand mlx5_0:1 (NUMA node 0), Ethernet mlx5_1:1", all of them without an end of
 * line, and "not active" for those without an active port. Nothing if there are none. */
void topology_describe_nics(const struct topology *topology, struct text *out);

#endif
