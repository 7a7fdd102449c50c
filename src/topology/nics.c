/* See nics.h. */
#include "topology/nics.h"

#include "topology/seating.h"

#include <stdlib.h>
#include <string.h>

/* Among what UCX has of a port's state in sysfs: 4 is active. */
static const char ACTIVE[] = "4";

static const char *port_info(hwloc_obj_t device, uint32_t port, const char *what)
{
    char name[32];
    snprintf(name, sizeof name, "Port%u%s", port, what);
    return hwloc_obj_get_info_by_name(device, name);
}

/* The first active port, or 0. */
static uint32_t active_port(hwloc_obj_t device)
{
    const char *state;
    for (uint32_t port = 1; (state = port_info(device, port, "State")); port++)
        if (strcmp(state, ACTIVE) == 0)
            return port;
    return 0;
}

/* Ports of InfiniBand have a local identifier, those of Ethernet have none. */
static enum nic_kind kind_of(hwloc_obj_t device, uint32_t port)
{
    const char *identifier = port ? port_info(device, port, "LID") : NULL;
    if (strncmp(device->name, "cxi", 3) == 0 || strncmp(device->name, "hsn", 3) == 0)
        return NIC_SLINGSHOT;
    return identifier && strtoul(identifier, NULL, 16) != 0 ? NIC_INFINIBAND : NIC_ETHERNET;
}

static bool is_nic(hwloc_obj_t device)
{
    hwloc_obj_osdev_type_t type = device->attr->osdev.type;
    return device->name &&
           (type == HWLOC_OBJ_OSDEV_OPENFABRICS ||
            (type == HWLOC_OBJ_OSDEV_NETWORK && strncmp(device->name, "hsn", 3) == 0));
}

static enum status add_nic(struct topology *topology, hwloc_obj_t device, struct error *err)
{
    struct nic *nic = &topology->nics[topology->nic_count++];
    nic->port = active_port(device);
    nic->kind = kind_of(device, nic->port);
    snprintf(nic->name, sizeof nic->name, "%s", device->name);
    const char *gid = nic->port ? port_info(device, nic->port, "GID0") : NULL;
    snprintf(nic->subnet, sizeof nic->subnet, "%s", gid ? gid : "");
    hwloc_obj_t pci = device->parent;
    if (pci && pci->type == HWLOC_OBJ_PCI_DEVICE)
        nic->link_speed = pci->attr->pcidev.linkspeed;
    hwloc_obj_t above = hwloc_get_non_io_ancestor_obj(topology->hwloc, device);
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology->hwloc, HWLOC_OBJ_PACKAGE, above);
    nic->near = hwloc_bitmap_dup(above->complete_cpuset);
    nic->around = hwloc_bitmap_dup((package ? package : above)->complete_cpuset);
    return nic->near && nic->around ? STATUS_OK
                                    : error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
}

enum status nics_find(struct topology *topology, struct error *err)
{
    hwloc_obj_t device = NULL;
    size_t count = 0;
    enum status status = STATUS_OK;
    while ((device = hwloc_get_next_osdev(topology->hwloc, device)))
        count += is_nic(device);
    topology->nics = calloc(count + 1, sizeof *topology->nics);
    if (!topology->nics)
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    while (status == STATUS_OK && (device = hwloc_get_next_osdev(topology->hwloc, device)))
        if (is_nic(device))
            status = add_nic(topology, device, err);
    return status;
}

void nics_free(struct topology *topology)
{
    for (uint32_t i = 0; i < topology->nic_count; i++) {
        hwloc_bitmap_free(topology->nics[i].near);
        hwloc_bitmap_free(topology->nics[i].around);
    }
    free(topology->nics);
}

/* Links of PCI that differ by less run as fast, but for how they are told. */
static bool is_slower(const struct nic *nic, const struct nic *other)
{
    return nic->link_speed < 0.9F * other->link_speed;
}

/* Writes the indexes of the NICs that can be dealt; returns how many. */
static uint32_t list_dealt(const struct topology *topology, uint32_t *ret_nics)
{
    const struct nic *fastest = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < topology->nic_count; i++) {
        const struct nic *nic = &topology->nics[i];
        if (nic->kind == NIC_INFINIBAND && (!fastest || is_slower(fastest, nic)))
            fastest = nic;
    }
    for (uint32_t i = 0; fastest && i < topology->nic_count; i++) {
        const struct nic *nic = &topology->nics[i];
        if (nic->kind != NIC_INFINIBAND || is_slower(nic, fastest))
            continue;
        if (strncmp(nic->subnet, fastest->subnet, strlen("fe80:0000:0000:0000")) != 0)
            return 0;
        if (ret_nics)
            ret_nics[count] = i;
        count++;
    }
    return count;
}

uint32_t topology_nic_count(const struct topology *topology)
{
    return list_dealt(topology, NULL);
}

/* How far a NIC may be from a reader. */
enum reach { ON_NODE, IN_PACKAGE, ANYWHERE };

struct deal {
    const struct seating *seating;
    uint32_t nic_count, reader_count;
    uint32_t *nics;    /* [nic_count] indexes into topology->nics */
    uint32_t *uses;    /* [nic_count] readers of each */
    uint32_t *counts;  /* [reader_count] NICs of each reader */
    uint32_t *readers; /* [reader_count * nic_count] its NICs, as indexes into nics */
};

static bool reaches(const struct deal *deal, uint32_t reader, uint32_t index, enum reach reach)
{
    const struct topology *topology = deal->seating->topology;
    const struct nic *nic = &topology->nics[deal->nics[index]];
    struct range cores = deal->seating->shares[reader];
    if (reach == ANYWHERE)
        return true;
    for (uint32_t i = cores.first; i < cores.first + cores.count; i++)
        if (hwloc_bitmap_intersects(topology->cores[i].cpuset,
                                    reach == ON_NODE ? nic->near : nic->around))
            return true;
    return false;
}

/* Gives the reader one of the NICs that the fewest readers use, within reach. */
static bool take(struct deal *deal, uint32_t reader, enum reach reach)
{
    uint32_t fewest = UINT32_MAX;
    for (uint32_t i = 0; i < deal->nic_count; i++)
        fewest = deal->uses[i] < fewest ? deal->uses[i] : fewest;
    for (uint32_t i = 0; i < deal->nic_count; i++) {
        if (deal->uses[i] > fewest || !reaches(deal, reader, i, reach))
            continue;
        deal->readers[reader * deal->nic_count + deal->counts[reader]++] = i;
        deal->uses[i]++;
        return true;
    }
    return false;
}

/* All readers without a NIC that can have one within reach, until none can. */
static void take_first(struct deal *deal, enum reach reach)
{
    for (bool taken = true; taken;) {
        taken = false;
        for (uint32_t reader = 0; reader < deal->reader_count; reader++)
            if (deal->counts[reader] == 0)
                taken |= take(deal, reader, reach);
    }
}

static void deal_out(struct deal *deal)
{
    for (int reach = ON_NODE; reach <= ANYWHERE; reach++)
        take_first(deal, (enum reach)reach);
    for (uint32_t each = 1; each < deal->nic_count / deal->reader_count; each++)
        for (uint32_t reader = 0; reader < deal->reader_count; reader++)
            if (deal->counts[reader] == each)
                take(deal, reader, ON_NODE);
}

static void append_devices(const struct deal *deal, uint32_t reader, struct text *out)
{
    for (uint32_t i = 0; i < deal->counts[reader]; i++) {
        uint32_t index = deal->readers[reader * deal->nic_count + i];
        const struct nic *nic = &deal->seating->topology->nics[deal->nics[index]];
        text_append(out, "%s%s:%u", i ? "," : "", nic->name, nic->port);
    }
}

/* With a trainer for each GPU. */
static enum status seat_all(const struct topology *topology, struct placement_group *groups,
                            struct placement_request *request, struct seating *ret_seating,
                            struct error *err)
{
    for (uint32_t reader = 0; reader < request->reader_count; reader++) {
        uint32_t first = part_begin(topology->gpu_count, reader, request->reader_count);
        uint32_t end = part_begin(topology->gpu_count, reader + 1, request->reader_count);
        groups[reader] = (struct placement_group){.first = first, .count = end - first};
    }
    request->groups = groups;
    request->node_trainers = topology->gpu_count;
    request->bind = BIND_NUMA;
    return seating_init(topology, request, ret_seating, err);
}

enum status topology_deal_nics(const struct topology *topology, uint32_t reader,
                               uint32_t reader_count, struct text *out, struct error *err)
{
    if (reader >= reader_count)
        return error_set(err, STATUS_INVALID, "NICs: reader %u of %u", reader, reader_count);
    struct deal deal = {.nic_count = topology_nic_count(topology), .reader_count = reader_count};
    if (deal.nic_count < 2 || reader_count < 2 || topology->bound)
        return STATUS_OK;
    struct placement_request request = {.reader = reader, .reader_count = reader_count};
    struct seating seating;
    struct placement_group *groups = calloc(reader_count, sizeof *groups);
    deal.nics = calloc(deal.nic_count, sizeof *deal.nics);
    deal.uses = calloc(deal.nic_count, sizeof *deal.uses);
    deal.counts = calloc(reader_count, sizeof *deal.counts);
    deal.readers = calloc((size_t)reader_count * deal.nic_count, sizeof *deal.readers);
    bool whole = groups && deal.nics && deal.uses && deal.counts && deal.readers;
    enum status status = whole ? seat_all(topology, groups, &request, &seating, err)
                               : error_set(err, STATUS_NO_MEMORY, "NICs: out of memory");
    if (status == STATUS_OK) {
        list_dealt(topology, deal.nics);
        deal.seating = &seating;
        deal_out(&deal);
        append_devices(&deal, reader, out);
        seating_done(&seating);
    }
    free(deal.readers);
    free(deal.counts);
    free(deal.uses);
    free(deal.nics);
    free(groups);
    return status;
}

void topology_describe_nics(const struct topology *topology, struct text *out)
{
    static const char *const kinds[] = {"InfiniBand", "Ethernet", "Slingshot"};
    for (uint32_t i = 0; i < topology->nic_count; i++) {
        const struct nic *nic = &topology->nics[i];
        bool again = i > 0 && nic[-1].kind == nic->kind;
        text_append(out, "%s%s%s%s", i ? ", " : "", again ? "" : kinds[nic->kind], again ? "" : " ",
                    nic->name);
        if (nic->port)
            text_append(out, ":%u", nic->port);
        else if (nic->kind != NIC_SLINGSHOT)
            text_append(out, " not active");
        uint32_t node = nearest_node(topology, nic->near);
        if (node != ANY_NODE)
            text_append(out, " (NUMA node %u)", topology->node_os_indexes[node]);
    }
}
