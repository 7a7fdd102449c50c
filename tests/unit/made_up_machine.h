/* Made-up machines for tests of placement, written as hwloc's XML: its synthetic form has no
 * devices. One PCI device for each line of a table, listed in the order of the table.
 */
#ifndef PENSTOCK_TESTS_MADE_UP_MACHINE_H
#define PENSTOCK_TESTS_MADE_UP_MACHINE_H

#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_DEVICES = 16 };

struct device {
    unsigned bus; /* 0: ends the table, unless it has a class */
    unsigned class_id, vendor;
    int node; /* -1: of the whole machine */
};

/* A device of Linux's drivers below a PCI device. */
struct made_nic {
    const char *name; /* NULL: ends the table */
    int node;
    const char *state, *lid, *subnet; /* of port 1, as hwloc has them; NULL: not told */
    double link_speed;
};

/* A machine of nodes * cores * threads cpus. They are numbered in this order, from `first_cpu` on;
 * where `alternate`, first over nodes, then over cores, then over threads: of two nodes one has the
 * even cpus, the other the odd ones. */
struct machine {
    unsigned nodes, cores, threads;
    bool alternate;
    unsigned first_cpu;
    struct device devices[MAX_DEVICES];
    struct made_nic nics[MAX_DEVICES];
    unsigned nodes_a_package; /* 0: one */
};

enum { NVIDIA = 0x10de, AMD = 0x1002, INTEL = 0x8086, ASPEED = 0x1a03, VIRTIO = 0x1af4 };

static unsigned cpu_number(const struct machine *machine, unsigned node, unsigned core,
                           unsigned thread)
{
    unsigned number = machine->alternate
                          ? node + machine->nodes * (core + machine->cores * thread)
                          : (node * machine->cores + core) * machine->threads + thread;
    return machine->first_cpu + number;
}

/* All cpus of cores [first, end) of nodes [first_node, end_node). */
static struct cpuset cpus_of(const struct machine *machine, unsigned first_node, unsigned end_node,
                             unsigned first, unsigned end)
{
    struct cpuset cpus = {{0}};
    for (unsigned node = first_node; node < end_node; node++)
        for (unsigned core = first; core < end; core++)
            for (unsigned thread = 0; thread < machine->threads; thread++)
                cpuset_add(&cpus, cpu_number(machine, node, core, thread));
    return cpus;
}

static void print_set(FILE *file, const char *name, const struct cpuset *cpus)
{
    fprintf(file, " %s=\"", name);
    int first = CPUSET_MAX_CPUS / 64 - 1;
    while (first > 0 && cpus->words[first] == 0)
        first--;
    for (int word = first; word >= 0; word--)
        fprintf(file, "0x%08x,0x%08x%s", (unsigned)(cpus->words[word] >> 32),
                (unsigned)cpus->words[word], word ? "," : "\"");
}

/* Attributes that all objects with cpus have. */
static void print_sets(FILE *file, unsigned *object, const struct cpuset *cpus, unsigned nodes)
{
    print_set(file, "cpuset", cpus);
    print_set(file, "complete_cpuset", cpus);
    fprintf(file, " nodeset=\"0x%x\" complete_nodeset=\"0x%x\" gp_index=\"%u\"", nodes, nodes,
            ++*object);
}

static void print_devices(FILE *file, unsigned *object, const struct machine *machine, int node)
{
    for (const struct device *d = machine->devices; d->class_id; d++)
        if (d->node == node)
            fprintf(file,
                    "<object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"0000:%02x:00.0\" "
                    "pci_type=\"%04x [%04x:0001] [0000:0000] 00\" pci_link_speed=\"0.0\"/>\n",
                    ++*object, d->bus, d->class_id, d->vendor);
}

static void print_info(FILE *file, const char *name, const char *value, const char *rest)
{
    if (value)
        fprintf(file, "<info name=\"%s\" value=\"%s%s\"/>\n", name, value, rest);
}

static void print_nics(FILE *file, unsigned *object, const struct machine *machine, int node)
{
    for (const struct made_nic *n = machine->nics; n->name; n++) {
        if (n->node != node)
            continue;
        fprintf(file,
                "<object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"0000:%02x:00.0\" "
                "pci_type=\"0207 [15b3:101b] [0000:0000] 00\" pci_link_speed=\"%f\">\n",
                ++*object, 0xd0 + (unsigned)(n - machine->nics), n->link_speed);
        fprintf(file, "<object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" osdev_type=\"%d\">\n",
                ++*object, n->name, strncmp(n->name, "hsn", 3) ? 3 : 2);
        print_info(file, "Port1State", n->state, "");
        print_info(file, "Port1LID", n->lid, "");
        print_info(file, "Port1GID0", n->subnet, ":0c42:a103:0011:2233");
        fprintf(file, "</object>\n</object>\n");
    }
}

static void print_core(FILE *file, unsigned *object, const struct machine *machine, unsigned node,
                       unsigned core)
{
    struct cpuset cpus = cpus_of(machine, node, node + 1, core, core + 1);
    fprintf(file, "<object type=\"Core\" os_index=\"%u\"", node * machine->cores + core);
    print_sets(file, object, &cpus, 1u << node);
    fprintf(file, ">\n");
    for (unsigned thread = 0; thread < machine->threads; thread++) {
        unsigned cpu = cpu_number(machine, node, core, thread);
        struct cpuset one = {{0}};
        cpuset_add(&one, cpu);
        fprintf(file, "<object type=\"PU\" os_index=\"%u\"", cpu);
        print_sets(file, object, &one, 1u << node);
        fprintf(file, "/>\n");
    }
    fprintf(file, "</object>\n");
}

/* hwloc has the memory of a part of a package in a group. */
static void print_node(FILE *file, unsigned *object, const struct machine *machine, unsigned node)
{
    struct cpuset cpus = cpus_of(machine, node, node + 1, 0, machine->cores);
    bool grouped = machine->nodes_a_package > 1;
    if (grouped) {
        fprintf(file, "<object type=\"Group\" kind=\"1001\" subkind=\"0\"");
        print_sets(file, object, &cpus, 1u << node);
        fprintf(file, ">\n");
    }
    fprintf(file, "<object type=\"NUMANode\" os_index=\"%u\" local_memory=\"1073741824\"", node);
    print_sets(file, object, &cpus, 1u << node);
    fprintf(file, "/>\n");
    for (unsigned core = 0; core < machine->cores; core++)
        print_core(file, object, machine, node, core);
    print_devices(file, object, machine, (int)node);
    print_nics(file, object, machine, (int)node);
    fprintf(file, grouped ? "</object>\n" : "");
}

static void print_machine(FILE *file, const struct machine *machine)
{
    unsigned object = 0;
    struct cpuset cpus = cpus_of(machine, 0, machine->nodes, 0, machine->cores);
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
                  "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"");
    print_sets(file, &object, &cpus, (1u << machine->nodes) - 1);
    fprintf(file, ">\n");
    unsigned each = machine->nodes_a_package ? machine->nodes_a_package : 1;
    for (unsigned package = 0; package < machine->nodes / each; package++) {
        unsigned first = package * each, end = first + each;
        cpus = cpus_of(machine, first, end, 0, machine->cores);
        fprintf(file, "<object type=\"Package\" os_index=\"%u\"", package);
        print_sets(file, &object, &cpus, (1u << end) - (1u << first));
        fprintf(file, ">\n");
        for (unsigned node = first; node < end; node++)
            print_node(file, &object, machine, node);
        fprintf(file, "</object>\n");
    }
    print_nics(file, &object, machine, -1);
    print_devices(file, &object, machine, -1);
    fprintf(file, "</object>\n</topology>\n");
}

static enum status try_load(const struct machine *machine, const char *allowed,
                            struct topology **ret_topology, struct error *err)
{
    char name[] = "/tmp/penstock-test-XXXXXX.xml";
    int fd = mkstemps(name, 4);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    print_machine(file, machine);
    assert_int_equal(fclose(file), 0);
    enum status status = topology_load(name, allowed, ret_topology, err);
    unlink(name);
    return status;
}

static inline struct topology *load(const struct machine *machine, const char *allowed)
{
    struct topology *topology = NULL;
    struct error err;
    if (try_load(machine, allowed, &topology, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return topology;
}

/* With trainers divided evenly among `readers`. */
static inline struct placement even_placement(const struct topology *topology, uint32_t reader,
                                              uint32_t readers, uint32_t trainers, uint32_t threads,
                                              enum topology_bind bind)
{
    static struct placement placement;
    struct error err;
    if (topology_placement(topology, reader, readers, trainers, threads, bind, &placement, &err) !=
        STATUS_OK)
        fail_msg("%s", err.message);
    return placement;
}

#endif
