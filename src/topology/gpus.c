/* Which GPUs the machine has, in what order programs number them, and near which NUMA node each is.
 *
 * PCI alone tells: a reader needs no driver and touches no GPU. CUDA
 * numbers GPUs of one model by PCI address, and all others with CUDA_DEVICE_ORDER=PCI_BUS_ID; so
 * does nvidia-smi.
 */
#include "topology/machine.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

enum { VENDOR_INTEL = 0x8086, VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de };
enum { CLASS_DISPLAY = 0x03, CLASS_3D = 0x0302, CLASS_ACCELERATOR = 0x1200 };

static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    bool is_display = pci->class_id >> 8 == CLASS_DISPLAY;
    switch (pci->vendor_id) {
    case VENDOR_NVIDIA:
        return is_display;
    case VENDOR_AMD:
        return is_display || pci->class_id == CLASS_ACCELERATOR;
    case VENDOR_INTEL:
        return is_display && pci->bus != 0;
    default:
        return pci->class_id == CLASS_3D;
    }
}

static int by_address(const void *left, const void *right)
{
    const struct hwloc_pcidev_attr_s *a = &((const struct gpu *)left)->pci;
    const struct hwloc_pcidev_attr_s *b = &((const struct gpu *)right)->pci;
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    int in_a = a->bus << 16 | a->dev << 8 | a->func;
    int in_b = b->bus << 16 | b->dev << 8 | b->func;
    return in_a - in_b;
}

/* Twice the GPUs of that vendor, and one more for NVIDIA, so that it wins a tie. */
static uint32_t weight(const struct topology *topology, unsigned vendor)
{
    uint32_t sum = vendor == VENDOR_NVIDIA;
    for (uint32_t i = 0; i < topology->gpu_count; i++)
        sum += topology->gpus[i].pci.vendor_id == vendor ? 2 : 0;
    return sum;
}

/* Drops all but the GPUs of the vendor that has the most. */
static void keep_one_vendor(struct topology *topology)
{
    unsigned vendor = 0;
    uint32_t heaviest = 0, kept = 0;
    for (uint32_t i = 0; i < topology->gpu_count; i++) {
        uint32_t mine = weight(topology, topology->gpus[i].pci.vendor_id);
        if (mine > heaviest) {
            vendor = topology->gpus[i].pci.vendor_id;
            heaviest = mine;
        }
    }
    for (uint32_t i = 0; i < topology->gpu_count; i++) {
        if (topology->gpus[i].pci.vendor_id == vendor)
            topology->gpus[kept++] = topology->gpus[i];
        else
            hwloc_bitmap_free(topology->gpus[i].near);
    }
    topology->gpu_count = kept;
}

enum status gpus_find(struct topology *topology, struct error *err)
{
    hwloc_obj_t device = NULL;
    size_t count = 0;
    while ((device = hwloc_get_next_pcidev(topology->hwloc, device)))
        count += is_gpu(&device->attr->pcidev);
    topology->gpus = calloc(count + 1, sizeof *topology->gpus);
    if (!topology->gpus)
        return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    while ((device = hwloc_get_next_pcidev(topology->hwloc, device))) {
        if (!is_gpu(&device->attr->pcidev))
            continue;
        struct gpu *gpu = &topology->gpus[topology->gpu_count++];
        gpu->pci = device->attr->pcidev;
        hwloc_obj_t above = hwloc_get_non_io_ancestor_obj(topology->hwloc, device);
        assert(above); /* the machine, if nothing else */
        gpu->near = hwloc_bitmap_dup(above->complete_cpuset);
        if (!gpu->near)
            return error_set(err, STATUS_NO_MEMORY, "topology: out of memory");
    }
    qsort(topology->gpus, topology->gpu_count, sizeof *topology->gpus, by_address);
    keep_one_vendor(topology);
    return STATUS_OK;
}

uint32_t nearest_node(const struct topology *topology, hwloc_const_bitmap_t near)
{
    uint32_t node = ANY_NODE;
    for (uint32_t i = 0; i < topology->core_count; i++) {
        const struct core *core = &topology->cores[i];
        if (!hwloc_bitmap_intersects(core->cpuset, near))
            continue;
        if (node != ANY_NODE && node != core->node)
            return ANY_NODE;
        node = core->node;
    }
    return node;
}

void gpus_locate(struct topology *topology)
{
    for (uint32_t i = 0; i < topology->gpu_count; i++)
        topology->gpus[i].node = nearest_node(topology, topology->gpus[i].near);
}

void gpus_free(struct topology *topology)
{
    for (uint32_t i = 0; i < topology->gpu_count; i++)
        hwloc_bitmap_free(topology->gpus[i].near);
    free(topology->gpus);
}

uint32_t gpus_visible(const struct topology *topology, const char *visible, uint32_t *ret_gpus)
{
    uint32_t count = 0;
    if (!visible) {
        for (; count < topology->gpu_count; count++)
            ret_gpus[count] = count;
        return count;
    }
    const char *at = visible;
    while (count < topology->gpu_count && isdigit((unsigned char)*at)) {
        char *end;
        unsigned long number = strtoul(at, &end, 10);
        if (number >= topology->gpu_count || (*end != '\0' && *end != ','))
            break;
        ret_gpus[count++] = (uint32_t)number;
        at = end + (*end == ',');
    }
    return count;
}

uint32_t topology_gpu_count(const struct topology *topology)
{
    return topology->gpu_count;
}
