/* Other nodes, for `penstock doctor`: see doctor.h. */
#include "base/number.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/output_of.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { COUNT_TIMEOUT_S = 20, NODES_TIMEOUT_S = 120, LISTS_TIMEOUT_S = 600 };

/* Clocks that are further apart make logs hard to compare; S3 has a limit of its own. */
static const double CLOCK_TOLERANCE_S = 2, CLOUD_TOLERANCE_S = 900;

static const char *member(struct json_object *object, const char *name)
{
    struct json_object *value = NULL;
    return json_object_object_get_ex(object, name, &value) && value ? json_object_get_string(value)
                                                                    : "";
}

/* What a node's clock said, and its name. */
struct answer {
    char node[FINDING_NODE_BYTES];
    double time;
};

static bool is_end(struct json_object *line, struct answer *ret_answer)
{
    struct json_object *time = NULL;
    if (!json_object_object_get_ex(line, "time", &time))
        return false;
    snprintf(ret_answer->node, sizeof ret_answer->node, "%s", member(line, "node"));
    ret_answer->time = json_object_get_double(time);
    return true;
}

static void take_finding(struct diagnosis *diagnosis, struct json_object *line)
{
    const char *level = member(line, "level");
    snprintf(diagnosis->node, sizeof diagnosis->node, "%s", member(line, "node"));
    diagnosis_add(diagnosis,
                  strcmp(level, "failure") == 0   ? FINDING_FAILURE
                  : strcmp(level, "warning") == 0 ? FINDING_WARNING
                                                  : FINDING_OK,
                  member(line, "check"), member(line, "advice"), "%s", member(line, "text"));
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A node's clock spoke between `begin` and now, if that clock is right. */
static void compare_clock(struct diagnosis *diagnosis, const struct answer *answer, double begin,
                          const struct needs *needs)
{
    double off = answer->time < begin ? answer->time - begin : answer->time - now_s();
    if (answer->time >= begin && off <= 0)
        return;
    double size = off < 0 ? -off : off;
    if (size < CLOCK_TOLERANCE_S)
        return;
    bool fails = needs->signs && size > CLOUD_TOLERANCE_S;
    snprintf(diagnosis->node, sizeof diagnosis->node, "%s", answer->node);
    diagnosis_add(diagnosis, fails ? FINDING_FAILURE : FINDING_WARNING, "clock",
                  "run chrony or systemd-timesyncd on all nodes",
                  "the clock is at least %.0f s %s this node's%s", size,
                  off < 0 ? "behind" : "ahead of",
                  fails ? ": clouds refuse what is 15 minutes off" : "");
}

static const struct finding *versions_of(const struct diagnosis *diagnosis, size_t from)
{
    for (size_t i = from; i < diagnosis->count; i++)
        if (strcmp(diagnosis->findings[i].check, "versions") == 0)
            return &diagnosis->findings[i];
    return NULL;
}

/* Copies: findings move where one is added. */
static void compare_versions(struct diagnosis *diagnosis, size_t from)
{
    const struct finding *found = versions_of(diagnosis, from);
    if (!found)
        return;
    const struct finding first = *found;
    for (size_t i = from, count = diagnosis->count; i < count; i++) {
        const struct finding other = diagnosis->findings[i];
        if (strcmp(other.check, first.check) != 0 || strcmp(other.text, first.text) == 0)
            continue;
        memcpy(diagnosis->node, other.node, sizeof other.node);
        diagnosis_add(diagnosis, FINDING_FAILURE, "versions",
                      "install the same release of Penstock on all nodes, at the same path",
                      "versions differ: node %s has %.200s", first.node, first.text);
    }
}

/* Takes findings, inventories and ends out of what all nodes have printed. Returns how many nodes
 * came to the end. */
static size_t take_answers(struct diagnosis *diagnosis, char *output, double begin,
                           const struct needs *needs, struct sightings **sightings)
{
    size_t answers = 0;
    for (char *at = output, *line; (line = strsep(&at, "\n"));) {
        struct json_object *object = line[0] == '{' ? json_tokener_parse(line) : NULL;
        struct answer answer;
        if (object && is_end(object, &answer)) {
            compare_clock(diagnosis, &answer, begin, needs);
            answers++;
        } else if (object && !doctor_take_sighting(sightings, object))
            take_finding(diagnosis, object);
        json_object_put(object);
    }
    return answers;
}

/* Which nodes did not answer: `said` is the last that penstock-run said, `silent` what it said of
 * such nodes. */
static void add_silence(struct diagnosis *diagnosis, size_t answers, uint64_t node_count,
                        const char *said, const char *silent)
{
    diagnosis->node[0] = '\0';
    if (answers == 0)
        diagnosis_add(diagnosis, FINDING_FAILURE, "nodes",
                      "reach each host by 'ssh HOST true' without a password, and have Penstock "
                      "there at the same path",
                      "no host answers: %s", text_shown(said).text);
    else if (answers < node_count)
        diagnosis_add(diagnosis, FINDING_FAILURE, "nodes",
                      "reach each host by 'ssh HOST true' without a password",
                      "only %zu of %" PRIu64 " hosts answer%s%s", answers, node_count,
                      silent[0] ? ", not " : "", text_shown(silent).text);
}

uint64_t doctor_count_nodes(void)
{
    char run[DOCTOR_PATH_BYTES], said[24];
    uint64_t count;
    if (!doctor_find_program("penstock-run", run))
        return 1;
    const char *const words[] = {run, "--probe", "count", NULL};
    struct text output = {0};
    bool told = output_of(words, COUNT_TIMEOUT_S, &output) == 0;
    output_line_after(output.data, "nodes: ", said, sizeof said);
    text_done(&output);
    return told && number_parse(said, 1, UINT32_MAX, &count) ? count : 1;
}

/* How `penstock doctor --of-node` is started on each node. */
struct call {
    char run[DOCTOR_PATH_BYTES], self[DOCTOR_PATH_BYTES], nodes[24];
    const char *words[14];
};

static bool make_call(const char *hosts, uint64_t node_count, struct call *call)
{
    if (!doctor_find_program("penstock-run", call->run) ||
        !doctor_find_program("penstock", call->self))
        return false;
    snprintf(call->nodes, sizeof call->nodes, "%" PRIu64, node_count);
    size_t count = 0;
    call->words[count++] = call->run;
    call->words[count++] = "--probe";
    call->words[count++] = "node";
    if (hosts) {
        call->words[count++] = "--hosts";
        call->words[count++] = hosts;
    }
    const char *const rest[] = {"--", call->self, "doctor", "--of-node", call->nodes, NULL};
    memcpy(call->words + count, rest, sizeof rest);
    return true;
}

/* Nodes have copies of the dataset: their chunks are listed, and compared. */
static void compare_copies(struct diagnosis *diagnosis, struct call *call,
                           const struct cli_settings *settings, const struct needs *needs)
{
    struct diagnosis again = {0}; /* its findings are known */
    struct sightings *sightings = NULL;
    struct text output = {0};
    size_t count = 0;
    while (call->words[count])
        count++;
    call->words[count] = "--list-chunks";
    call->words[count + 1] = NULL;
    double begin = now_s();
    int code = doctor_ask(call->words, settings, LISTS_TIMEOUT_S, &output);
    take_answers(&again, output.data, begin, needs, &sightings);
    diagnosis->node[0] = '\0';
    if (code != 0)
        diagnosis_add(diagnosis, FINDING_WARNING, "copies",
                      "a run compares them, too, before its first batch",
                      "nodes have copies of the dataset, and could not list them");
    else
        (void)doctor_compare_sightings(diagnosis, sightings, true);
    doctor_sightings_free(sightings);
    diagnosis_done(&again);
    text_done(&output);
}

bool doctor_cluster(struct diagnosis *diagnosis, const char *hosts, uint64_t node_count,
                    const struct cli_settings *settings, const struct needs *needs)
{
    struct call call = {0};
    if (!make_call(hosts, node_count, &call)) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "nodes",
                      "install penstock-run, which starts programs on nodes",
                      "there is no penstock-run, neither beside penstock nor in PATH");
        return false;
    }
    struct text output = {0};
    struct sightings *sightings = NULL;
    size_t from = diagnosis->count;
    double begin = now_s();
    int code = doctor_ask(call.words, settings, NODES_TIMEOUT_S, &output);
    char said[FINDING_TEXT_BYTES / 2] = "time has run out", silent[FINDING_TEXT_BYTES / 2];
    if (code != OUTPUT_TIMEOUT)
        output_cause(output.data, said, sizeof said);
    output_line_after(output.data, "no answer from ", silent, sizeof silent);
    silent[strcspn(silent, ":")] = '\0';
    size_t answers = take_answers(diagnosis, output.data, begin, needs, &sightings);
    compare_versions(diagnosis, from);
    add_silence(diagnosis, answers, node_count, said, silent);
    if (doctor_compare_sightings(diagnosis, sightings, false) && answers == node_count)
        compare_copies(diagnosis, &call, settings, needs);
    doctor_sightings_free(sightings);
    text_done(&output);
    return answers == node_count;
}
