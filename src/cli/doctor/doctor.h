/* `penstock doctor`: what is wrong with a node or a cluster for a run, and what to do.
 *
 * Each check appends findings to a `struct diagnosis`; doctor.c runs the checks and prints. On
 * other nodes `penstock doctor --of-node` runs, and prints a line of JSON for each finding, which
 * doctor_cluster() reads. Main thread.
 */
#ifndef PENSTOCK_CLI_DOCTOR_DOCTOR_H
#define PENSTOCK_CLI_DOCTOR_DOCTOR_H

#include "base/error.h"
#include "base/text.h"
#include "cli/common/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum finding_level {
    FINDING_OK,
    FINDING_WARNING, /* a run works, and may be slow or fail later */
    FINDING_FAILURE, /* a run would fail */
};

enum { FINDING_CHECK_BYTES = 32, FINDING_NODE_BYTES = 65, FINDING_TEXT_BYTES = 512 };

struct finding {
    enum finding_level level;
    char node[FINDING_NODE_BYTES];   /* "": of the cluster */
    char check[FINDING_CHECK_BYTES]; /* a constant name, for programs: "limits.nofile" */
    char text[FINDING_TEXT_BYTES];   /* what was found */
    char advice[FINDING_TEXT_BYTES]; /* what to do; "": nothing */
};

struct diagnosis {
    struct finding *findings; /* [count], owned */
    size_t count, capacity;
    char node[FINDING_NODE_BYTES]; /* that findings are about which are added now */
    bool of_node;          /* doctor_cluster() of another process reads what this one prints */
    bool lists_chunks;     /* of_node: the inventory has which chunks are there */
    struct text inventory; /* of_node: a line of JSON for each array of the run's datasets */
};

/* Adds a finding, whose text is formatted. `advice` is NULL or formatted before. */
void diagnosis_add(struct diagnosis *diagnosis, enum finding_level level, const char *check,
                   const char *advice, const char *format, ...) PRINTF_LIKE(5, 6);
void diagnosis_done(struct diagnosis *diagnosis);
enum finding_level diagnosis_level(const struct diagnosis *diagnosis);

/* What a run needs of its node. */
struct needs {
    uint64_t trainers; /* on this node */
    bool remote;       /* a store is behind a network */
    bool signs;        /* requests have the time in their signature: clouds */
};

/* What keeps any program of a run from starting on this node: limits of the process, and the folder
 * for temporary files. False: something does. */
enum { DOCTOR_LEAST_FILES = 40 };
bool doctor_start(struct diagnosis *diagnosis, const struct needs *needs);

/* Limits of the process, shared memory, huge pages, control groups, and the clock. */
void doctor_node(struct diagnosis *diagnosis, const struct needs *needs);

/* Reads the configuration of a run on `node_count` nodes, and those of --also. False: one is wrong,
 * as a finding says, and *ret_needs is untouched. */
bool doctor_needs(struct diagnosis *diagnosis, const struct cli_settings *settings,
                  uint64_t node_count, struct needs *ret_needs);

/* The run itself, whose configuration is right, and those of --also: datasets, directories that are
 * written to, and the memory of all together with `node_count` nodes, of which this is one. */
void doctor_run(struct diagnosis *diagnosis, const struct cli_settings *settings,
                uint64_t node_count);

/* Looks at the arrays of a dataset, as this node has them (dataset/open/inventory.h). `run`: of
 * --also, or NULL. Errors as of inventory_require(), which is left out with `fills_empty`. */
struct dataset;
MUST_USE enum status doctor_look_at_arrays(struct diagnosis *diagnosis,
                                           const struct dataset *dataset, const char *run,
                                           bool fills_empty, struct error *err);

/* Takes a line of such an inventory; false: it is none. *sightings is NULL at first. */
struct sightings;
struct json_object;
bool doctor_take_sighting(struct sightings **sightings, struct json_object *line);

/* Adds a finding for each array that is not the same on all nodes. True: nodes have copies, of
 * which nothing else is known to differ; to tell, their chunks have to be listed. */
bool doctor_compare_sightings(struct diagnosis *diagnosis, const struct sightings *sightings,
                              bool lists_chunks);
void doctor_sightings_free(struct sightings *sightings); /* NULL is fine */

/* Programs and libraries beside this one, and their versions. */
void doctor_programs(struct diagnosis *diagnosis);

/* MPI: penstock-reader is started by penstock-run as a run starts it, on `hosts` (NULL: this
 * machine, or the nodes of the job). */
void doctor_mpi(struct diagnosis *diagnosis, const char *hosts);

/* How many nodes the job has that this process is in, by penstock-run, which knows the batch
 * systems; 1 outside a job, and if penstock-run cannot tell: doctor_mpi() will say why. */
uint64_t doctor_count_nodes(void);

/* Runs `penstock doctor --of-node N` on each of `hosts` (NULL: of the job) through
 * penstock-run, adds what it finds, and compares nodes: versions, clocks. True: all of `node_count`
 * nodes answered. */
bool doctor_cluster(struct diagnosis *diagnosis, const char *hosts, uint64_t node_count,
                    const struct cli_settings *settings, const struct needs *needs);

/* A program beside this one ("penstock-reader") or in PATH; false: there is none. */
enum { DOCTOR_PATH_BYTES = 4096 };
bool doctor_find_program(const char *name, char path[DOCTOR_PATH_BYTES]);

/* output_of() with the words `first` (NULL behind the last), and --config, --set and --also of
 * `settings`. */
int doctor_ask(const char *const *first, const struct cli_settings *settings, unsigned timeout_s,
               struct text *output);

#endif
