/* See check_mpi.h. */
#include "check_mpi.h"

#include "base/clock.h"
#include "base/size.h"
#include "ranks/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 4 << 20, MESSAGES = 8 };

/* Each rank sends to the next one. Returns bytes a second. */
static double exchange(const struct comm *comm, char *out, char *in)
{
    int next = (comm->rank + 1) % comm->size;
    int before = (comm->rank + comm->size - 1) % comm->size;
    uint64_t begin_ns = 0;
    for (int i = -1; i < MESSAGES; i++) { /* the first one makes connections */
        MPI_Request requests[2];
        if (i == 0)
            begin_ns = clock_now_ns();
        MPI_Irecv(in, MESSAGE_BYTES, MPI_BYTE, before, 0, comm->world, &requests[0]);
        MPI_Isend(out, MESSAGE_BYTES, MPI_BYTE, next, 0, comm->world, &requests[1]);
        comm_wait(comm, &requests[0]);
        comm_wait(comm, &requests[1]);
    }
    return MESSAGES * (double)MESSAGE_BYTES / ((double)(clock_now_ns() - begin_ns) / 1e9);
}

/* What follows `name` in MPI's text up to the end of the line, without spaces in front. */
static void print_line_of(const char *text, const char *name, const char *shown)
{
    const char *found = strstr(text, name);
    found = found ? found + strlen(name) + strspn(found + strlen(name), " \t") : "";
    if (*found)
        printf("%s%.*s\n", shown, (int)strcspn(found, ",\n"), found);
}

/* "Open MPI v4.1.4, package: ...", or lines as "MPICH Version:      4.0.2". */
static void print_facts(const struct comm *comm, int node_count, double bytes_per_s)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(library, &length);
    if (strncmp(library, "MPICH Version:", strlen("MPICH Version:")) == 0)
        print_line_of(library, "MPICH Version:", "mpi library: MPICH ");
    else
        print_line_of(library, "", "mpi library: ");
    print_line_of(library, "MPICH Device:", "mpi transport: ");
    printf("mpi exchange: readers: %d, nodes: %d, %s/s from each reader to the next\n", comm->size,
           node_count, size_format((uint64_t)bytes_per_s).text);
}

int check_mpi(void)
{
    struct comm comm;
    struct error err;
    error_clear(&err);
    if (comm_init(1, &comm, &err) != STATUS_OK) {
        fprintf(stderr, "penstock-reader: error: %s\n", err.message);
        return EXIT_FAILURE;
    }
    char *out = calloc(2, MESSAGE_BYTES);
    int first = comm.node_rank == 0, node_count = 0;
    enum status status = out ? STATUS_OK : error_set(&err, STATUS_NO_MEMORY, "no memory");
    status = comm_agree(&comm, status, &err);
    if (status == STATUS_OK) {
        MPI_Allreduce(&first, &node_count, 1, MPI_INT, MPI_SUM, comm.world);
        double bytes_per_s = exchange(&comm, out, out + MESSAGE_BYTES);
        if (comm.rank == 0)
            print_facts(&comm, node_count, bytes_per_s);
    } else if (comm.rank == 0) {
        fprintf(stderr, "penstock-reader: error: %s\n", err.message);
    }
    free(out);
    comm_done(&comm);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
