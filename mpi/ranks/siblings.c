/* See siblings.h. */
#include "ranks/siblings.h"

#include <stdlib.h>

enum { TAG_WORD = 2, WORD_SIGNAL = 0, WORD_END, WORDS };

struct word {
    int32_t kind, signal_number;
    struct error outcome;
};

struct siblings {
    const struct comm *comm;
    const char *name;
    struct siblings_news news;
    bool told[WORDS];
    struct word outgoing[WORDS];
    MPI_Request sends[WORDS][COMM_MAX_RUNS];
    struct word incoming;
    uint64_t looked_ns; /* for words: see comm_take() */
    int ended;          /* runs whose end has come here */
};

static bool speaks(const struct siblings *siblings)
{
    return siblings && siblings->comm->rank == 0;
}

enum status siblings_new(const struct comm *comm, const char *name, struct siblings **ret_siblings,
                         struct error *err)
{
    *ret_siblings = NULL;
    if (comm->run_count == 1)
        return STATUS_OK;
    struct siblings *siblings = calloc(1, sizeof *siblings);
    if (!siblings)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the runs of --also");
    siblings->comm = comm;
    siblings->name = name;
    for (int word = 0; word < WORDS; word++)
        for (int run = 0; run < COMM_MAX_RUNS; run++)
            siblings->sends[word][run] = MPI_REQUEST_NULL;
    *ret_siblings = siblings;
    return STATUS_OK;
}

static void tell(struct siblings *siblings, int kind, const struct word *word)
{
    const struct comm *comm = siblings->comm;
    if (siblings->told[kind])
        return;
    siblings->told[kind] = true;
    siblings->outgoing[kind] = *word;
    siblings->outgoing[kind].kind = kind;
    for (int run = 0; run < comm->run_count; run++)
        if (run != comm->run && (run == 0 || comm->run == 0))
            MPI_Isend(&siblings->outgoing[kind], sizeof *word, MPI_BYTE, comm->leaders[run],
                      TAG_WORD, comm->all, &siblings->sends[kind][run]);
}

void siblings_tell_signal(struct siblings *siblings, int number)
{
    if (speaks(siblings) && siblings->comm->run == 0)
        tell(siblings, WORD_SIGNAL, &(struct word){.signal_number = number});
}

void siblings_tell_end(struct siblings *siblings, const struct error *outcome)
{
    struct word word = {.outcome = *outcome};
    if (!speaks(siblings))
        return;
    if (siblings->name && outcome->status != STATUS_OK)
        error_prefix(&word.outcome, (enum status)outcome->status, "run '%s': ", siblings->name);
    tell(siblings, WORD_END, &word);
}

static void heed(struct siblings *siblings)
{
    const struct word *word = &siblings->incoming;
    struct siblings_news *news = &siblings->news;
    if (word->kind == WORD_SIGNAL) {
        news->signal_number = word->signal_number;
        return;
    }
    siblings->ended++;
    bool failed = word->outcome.status != STATUS_OK && word->outcome.status != STATUS_INTERRUPTED;
    if (news->over || (siblings->comm->run == 0 && !failed))
        return;
    news->over = true;
    news->outcome = word->outcome;
}

const struct siblings_news *siblings_hear(struct siblings *siblings)
{
    static const struct siblings_news none;
    if (!speaks(siblings))
        return &none;
    while (comm_take(siblings->comm, siblings->comm->all, TAG_WORD, &siblings->incoming,
                     sizeof siblings->incoming, &siblings->looked_ns))
        heed(siblings);
    return &siblings->news;
}

void siblings_free(struct siblings *siblings)
{
    if (speaks(siblings)) {
        const struct comm *comm = siblings->comm;
        int expected = comm->run == 0 ? comm->run_count - 1 : 1;
        for (unsigned idle = 0; siblings->ended < expected; comm_back_off(&idle)) {
            comm_heed_signals(comm);
            siblings_hear(siblings);
        }
        for (int kind = 0; kind < WORDS; kind++)
            for (int run = 0; run < comm->run_count; run++)
                comm_wait(comm, &siblings->sends[kind][run]);
    }
    free(siblings);
}
