/* Whether all nodes see one dataset, or whole copies of it: before the first batch. See
 * job_internal.h and dataset/open/inventory.h.
 *
 * The first rank of each node looks at the folders of the arrays. Of those that see the same
 * folders, the lowest one speaks for all, and is called a witness. One witness: the file system is
 * shared, and nothing is listed. Several: the witnesses compare the metadata documents, then hashes
 * of which values are there. Only where hashes differ do bits travel, one a value, to find the
 * first difference.
 */
#include "job/job_internal.h"

#include "base/number.h"
#include "base/progress.h"
#include "base/size.h"
#include "dataset/open/inventory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Values that are compared have 62 bits: see job_reduce(). */
static const uint64_t mask = (UINT64_C(1) << 62) - 1;

enum { WINDOW_VALUES = 1 << 26 }; /* whose bits are compared at once */

struct survey {
    const struct comm *comm;
    struct inventory inventory;
    bool is_witness;
    int witness_count;
    uint64_t *gathered; /* [ranks] */
    uint64_t *values;   /* [5 * arrays] */
    bool shows_progress;
    struct progress progress;
    struct inventory_waiting waiting;
};

/* Two readers that do not find the same, and what each has. */
struct pair {
    int ranks[2];
    uint64_t values[2];
    char nodes[2][COMM_NODE_NAME_BYTES];
};

static void look(void *argument, uint64_t done, uint64_t total)
{
    struct survey *survey = argument;
    survey->progress.total = total;
    if (survey->shows_progress)
        progress_update(&survey->progress, done, 0);
    comm_heed_signals(survey->comm);
}

/* Comparing numbers
 * ------------------------------------------------------------------------------------------- */

/* Collective: everybody gets all ranks' values. */
static void gather(const struct survey *survey, uint64_t value)
{
    MPI_Request request;
    MPI_Iallgather(&value, 1, MPI_UINT64_T, survey->gathered, 1, MPI_UINT64_T, survey->comm->world,
                   &request);
    comm_wait(survey->comm, &request);
}

/* Collective: the first number, of one for each array, that is not the same for all who take part;
 * how many arrays there are if all are the same. */
static size_t find_difference(const struct survey *survey, const uint64_t *values, bool takes_part)
{
    size_t count = survey->inventory.count;
    uint64_t *mine = survey->values + count, *least = mine + 2 * count;
    MPI_Request request;
    for (size_t i = 0; i < count; i++) { /* the least, and the greatest by its complement */
        mine[i] = takes_part ? values[i] & mask : mask;
        mine[count + i] = takes_part ? mask - (values[i] & mask) : mask;
    }
    MPI_Iallreduce(mine, least, 2 * (int)count, MPI_UINT64_T, MPI_MIN, survey->comm->world,
                   &request);
    comm_wait(survey->comm, &request);
    for (size_t i = 0; i < count; i++)
        if (least[i] != mask - least[count + i])
            return i;
    return count;
}

/* Collective: the lowest rank that takes part, and the lowest one that has another value; with
 * these ranks' nodes. There is such a rank. */
static struct pair find_pair(const struct survey *survey, uint64_t value, bool takes_part)
{
    const struct comm *comm = survey->comm;
    struct pair pair = {.ranks = {-1, -1}};
    gather(survey, takes_part ? value & mask : UINT64_MAX);
    for (int rank = 0; rank < comm->size; rank++) {
        uint64_t other = survey->gathered[rank];
        if (other == UINT64_MAX)
            continue;
        int which = pair.ranks[0] < 0 ? 0 : other != pair.values[0] && pair.ranks[1] < 0 ? 1 : -1;
        if (which < 0)
            continue;
        pair.ranks[which] = rank;
        pair.values[which] = other;
    }
    for (int which = 0; which < 2; which++) {
        assert(pair.ranks[which] >= 0);
        memcpy(pair.nodes[which], comm->node_name, sizeof pair.nodes[which]);
        comm_broadcast(comm, pair.nodes[which], sizeof pair.nodes[which], pair.ranks[which],
                       comm->world);
    }
    return pair;
}

/* So that the first of the pair is the one that has `value`. */
static void put_first(struct pair *pair, uint64_t value)
{
    struct pair other = *pair;
    if (pair->values[0] == value || pair->values[1] != value)
        return;
    for (int i = 0; i < 2; i++) {
        pair->ranks[i] = other.ranks[!i];
        pair->values[i] = other.values[!i];
        memcpy(pair->nodes[i], other.nodes[!i], sizeof pair->nodes[i]);
    }
}

/* Documents
 * ------------------------------------------------------------------------------------------- */

static enum status refuse_document(const struct inventory_array *of, struct pair pair,
                                   struct error *err)
{
    put_first(&pair, 0);
    if (pair.values[0] == 0)
        return error_set(
            err, STATUS_INVALID,
            "field '%s': reader %d on %s finds no metadata of array '%s' in the store '%.200s', "
            "and reader %d on %s does: on %s another folder is there, or the dataset is not "
            "mounted, or not copied whole: mount or copy it, as it is on %s",
            of->field, pair.ranks[0], pair.nodes[0], of->path, of->uri, pair.ranks[1],
            pair.nodes[1], pair.nodes[0], pair.nodes[1]);
    return error_set(
        err, STATUS_INVALID,
        "field '%s': the metadata of array '%s' in the store '%.200s' is not the same for reader "
        "%d on %s and for reader %d on %s: these are two datasets, or one was written anew since "
        "it was copied: copy one of them to all nodes",
        of->field, of->path, of->uri, pair.ranks[0], pair.nodes[0], pair.ranks[1], pair.nodes[1]);
}

/* Behind a network, what a node sees is what its first reader sees. */
static enum status compare_documents(struct survey *survey, struct error *err)
{
    const struct comm *comm = survey->comm;
    struct inventory *inventory = &survey->inventory;
    bool takes_part = survey->is_witness || (inventory->remote_count > 0 && comm->node_rank == 0);
    enum status status =
        takes_part ? inventory_read_documents(inventory, &survey->waiting, err) : STATUS_OK;
    status = comm_agree(comm, comm_name_reader(comm, status, err), err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < inventory->count; i++)
        survey->values[i] = inventory->arrays[i].document;
    size_t i = find_difference(survey, survey->values, takes_part);
    if (i == inventory->count)
        return STATUS_OK;
    struct pair pair = find_pair(survey, inventory->arrays[i].document, takes_part);
    return refuse_document(&inventory->arrays[i], pair, err);
}

/* Stocks
 * ------------------------------------------------------------------------------------------- */

static enum status refuse_value(const struct inventory_array *of, uint64_t number,
                                const struct pair *pair, const uint64_t *counts, struct error *err)
{
    char key[INVENTORY_KEY_BYTES];
    inventory_value_key(of, number, key);
    return error_set(
        err, STATUS_INVALID,
        "field '%s': array '%s': reader %d on %s has no '%.300s' in the store '%.200s' (%s of %s "
        "%s are there), and reader %d on %s has it (%s): their copies of the dataset are not the "
        "same: copy the dataset to %s anew (rsync -a --delete), or read it from a file system that "
        "all nodes share",
        of->field, of->path, pair->ranks[0], pair->nodes[0], key, of->uri,
        count_format(counts[pair->ranks[0]]).text, count_format(of->total).text, of->unit,
        pair->ranks[1], pair->nodes[1], count_format(counts[pair->ranks[1]]).text, pair->nodes[0]);
}

static enum status refuse_content(const struct inventory_array *of, const struct pair *pair,
                                  struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "field '%s': array '%s': chunks in the store '%.200s' have other bytes for "
                     "reader %d on %s than for reader %d on %s: these are two archives: copy one "
                     "of them to all nodes",
                     of->field, of->path, of->uri, pair->ranks[0], pair->nodes[0], pair->ranks[1],
                     pair->nodes[1]);
}

/* The first bit that is not the same in both; 8 * `bytes` if all are. */
static uint64_t first_difference(const unsigned char *a, const unsigned char *b, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (a[i] != b[i])
            return 8 * i + (uint64_t)__builtin_ctz(a[i] ^ b[i]);
    return 8 * bytes;
}

/* Collective: looks for a value in [first, first + WINDOW_VALUES) that not all witnesses have.
 * `bits`: memory for three windows. */
static enum status compare_window(struct survey *survey, size_t i, uint64_t first,
                                  unsigned char *bits, uint64_t *ret_number, bool *ret_has,
                                  struct error *err)
{
    const struct comm *comm = survey->comm;
    uint64_t count = min_u64(survey->inventory.arrays[i].total - first, WINDOW_VALUES);
    uint64_t bytes = size_divide_up(count, 8);
    unsigned char *mine = bits, *all = bits + bytes, *any = all + bytes;
    enum status status = STATUS_OK;
    MPI_Request request;
    memset(mine, 0, bytes);
    if (survey->is_witness)
        status = inventory_mark(&survey->inventory, i, first, count,
                                (_Atomic unsigned char *)(void *)mine, &survey->waiting, err);
    status = comm_agree(comm, comm_name_reader(comm, status, err), err);
    if (status != STATUS_OK)
        return status;
    MPI_Iallreduce(mine, any, (int)bytes, MPI_BYTE, MPI_BOR, comm->world, &request);
    comm_wait(comm, &request);
    if (!survey->is_witness)
        memset(mine, 0xff, bytes);
    MPI_Iallreduce(mine, all, (int)bytes, MPI_BYTE, MPI_BAND, comm->world, &request);
    comm_wait(comm, &request);
    uint64_t at = first_difference(all, any, bytes);
    *ret_number = first + at;
    *ret_has = at < count && mine[at / 8] >> at % 8 & 1;
    return STATUS_OK;
}

/* Collective: the stocks of array number `i` differ. */
static enum status say_difference(struct survey *survey, size_t i, struct error *err)
{
    const struct comm *comm = survey->comm;
    const struct inventory_array *of = &survey->inventory.arrays[i];
    uint64_t total = of->total;
    unsigned char *bits = malloc(3 * size_divide_up(min_u64(total, WINDOW_VALUES), 8));
    enum status status =
        bits ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory to compare copies");
    status = comm_agree(comm, status, err);
    bool found = false, has = false;
    uint64_t number = 0;
    for (uint64_t first = 0; status == STATUS_OK && first < total && !found;
         first += WINDOW_VALUES) {
        status = compare_window(survey, i, first, bits, &number, &has, err);
        found = number < min_u64(first + WINDOW_VALUES, total);
    }
    free(bits);
    if (status != STATUS_OK)
        return status;
    struct pair pair = find_pair(survey, found ? has : of->stock, survey->is_witness);
    put_first(&pair, 0);
    gather(survey, of->value_count);
    return found ? refuse_value(of, number, &pair, survey->gathered, err)
                 : refuse_content(of, &pair, err);
}

static enum status compare_stocks(struct survey *survey, struct error *err)
{
    struct inventory *inventory = &survey->inventory;
    progress_done(&survey->progress);
    progress_init(&survey->progress, "comparing the nodes' copies of the dataset", "parts", 1);
    enum status status =
        survey->is_witness ? inventory_list(inventory, &survey->waiting, err) : STATUS_OK;
    progress_done(&survey->progress);
    survey->shows_progress = false;
    status = comm_agree(survey->comm, comm_name_reader(survey->comm, status, err), err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < inventory->count; i++)
        survey->values[i] = inventory->arrays[i].stock;
    size_t i = find_difference(survey, survey->values, survey->is_witness);
    return i < inventory->count ? say_difference(survey, i, err) : STATUS_OK;
}

/* All together
 * ------------------------------------------------------------------------------------------- */

static enum status prepare(struct survey *survey, const struct dataset *dataset, struct error *err)
{
    enum status status = inventory_init(&survey->inventory, dataset, err);
    if (status == STATUS_OK && survey->comm->node_rank == 0)
        status = inventory_stamp(&survey->inventory, &survey->waiting, err);
    survey->gathered = calloc((size_t)survey->comm->size, sizeof *survey->gathered);
    survey->values = calloc(5 * survey->inventory.count + 1, sizeof *survey->values);
    if (status == STATUS_OK && (!survey->gathered || !survey->values))
        status = error_set(err, STATUS_NO_MEMORY, "no memory to compare what nodes see");
    return status;
}

static void choose_witnesses(struct survey *survey)
{
    const int rank = survey->comm->rank;
    gather(survey, survey->comm->node_rank == 0 ? survey->inventory.stamp | 1 : 0);
    for (int i = 0; i < survey->comm->size; i++) {
        int first = 0;
        while (survey->gathered[first] != survey->gathered[i])
            first++;
        bool is_witness = survey->gathered[i] && first == i;
        survey->witness_count += is_witness;
        if (i == rank)
            survey->is_witness = is_witness;
    }
}

/* `requires`: of each array some chunk has to be there. */
static enum status compare(struct survey *survey, bool requires, struct error *err)
{
    const struct comm *comm = survey->comm;
    bool has_nodes = comm->size > comm->node_size;
    enum status status = STATUS_OK;
    choose_witnesses(survey);
    if (survey->witness_count > 1 || (survey->inventory.remote_count > 0 && has_nodes))
        status = compare_documents(survey, err);
    if (status != STATUS_OK)
        return status;
    if (survey->is_witness && requires)
        status = inventory_require(&survey->inventory, &survey->waiting, err);
    status = comm_agree(comm, comm_name_reader(comm, status, err), err);
    return status == STATUS_OK && survey->witness_count > 1 ? compare_stocks(survey, err) : status;
}

enum status job_check_inventory(struct job *job, bool quiet, struct error *err)
{
    struct survey survey = {.comm = &job->comm, .shows_progress = !quiet && job->comm.rank == 0};
    survey.waiting = (struct inventory_waiting){look, &survey};
    progress_init(&survey.progress, "looking at the dataset's arrays", "arrays", 1);
    enum status status = prepare(&survey, job->dataset, err);
    status = comm_agree(&job->comm, comm_name_reader(&job->comm, status, err), err);
    if (status == STATUS_OK)
        status = compare(&survey, job->config.missing_chunk == MISSING_CHUNK_AUTO, err);
    progress_done(&survey.progress);
    inventory_done(&survey.inventory);
    free(survey.gathered);
    free(survey.values);
    return status;
}
