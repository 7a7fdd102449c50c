/* Programs, MPI and other nodes, for `penstock doctor`: see doctor.h. */
#include "cli/doctor.h"
#include "cli/output_of.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VERSION_TIMEOUT_S = 20, MPI_TIMEOUT_S = 60, NODES_TIMEOUT_S = 120, VERSION_BYTES = 64 };

/* Clocks that are further apart make logs hard to compare; S3 has a limit of its own. */
static const double CLOCK_TOLERANCE_S = 2, S3_TOLERANCE_S = 900;

bool doctor_find_program(const char *name, char path[DOCTOR_PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", path, DOCTOR_PATH_BYTES - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    if (folder + strlen(name) < DOCTOR_PATH_BYTES) {
        strcpy(path + folder, name);
        if (folder && access(path, X_OK) == 0)
            return true;
    }
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t size = strcspn(at, ":");
        int made = snprintf(path, DOCTOR_PATH_BYTES, "%.*s/%s", (int)size, at, name);
        if (made < DOCTOR_PATH_BYTES && access(path, X_OK) == 0)
            return true;
        at += size + (at[size] == ':');
    }
    return false;
}

/* --- programs ------------------------------------------------------------------------------- */

/* The last word of the first line. */
static void version_in(const char *output, char version[VERSION_BYTES])
{
    size_t end = strcspn(output, "\n"), start = end;
    while (start > 0 && output[start - 1] != ' ')
        start--;
    snprintf(version, VERSION_BYTES, "%.*s", (int)(end - start), output + start);
}

/* Adds "name version" to `all`, and a finding where the program does not start. */
static void ask_version(struct diagnosis *diagnosis, const char *name, const char *shown,
                        const char *advice, bool *same, struct text *all)
{
    char path[DOCTOR_PATH_BYTES], own[VERSION_BYTES], version[VERSION_BYTES];
    if (!doctor_find_program(name, path))
        return;
    const char *const words[] = {path, "--version", NULL};
    struct text output = {0};
    int code = output_of(words, VERSION_TIMEOUT_S, &output);
    if (code != 0) {
        output.data[strcspn(output.data, "\n")] = '\0';
        diagnosis_add(diagnosis, FINDING_FAILURE, "programs", advice, "%s does not start: %s",
                      text_shown(path).text, text_shown(output.data).text);
        *same = false;
    } else {
        version_in(output.data, version);
        version_in("penstock " PENSTOCK_VERSION_TEXT, own);
        *same = *same && strcmp(version, own) == 0;
        text_append(all, ", %s %s", shown, version);
    }
    text_done(&output);
}

void doctor_programs(struct diagnosis *diagnosis)
{
    struct text all = {0};
    bool same = true;
    char path[DOCTOR_PATH_BYTES];
    text_append(&all, "penstock " PENSTOCK_VERSION_TEXT);
    ask_version(diagnosis, "penstock-reader", "penstock-reader",
                "load the MPI that Penstock is built with (module load), or build Penstock with "
                "the MPI that is here",
                &same, &all);
    ask_version(diagnosis, "penstock-run", "penstock-run", "install Penstock anew", &same, &all);
    ask_version(diagnosis, "penstock-trainer", "libpenstock",
                "libpenstock.so.0 is not found, or belongs to another release: install Penstock "
                "anew",
                &same, &all);
    diagnosis_add(diagnosis, same ? FINDING_OK : FINDING_FAILURE, "versions",
                  same ? NULL : "have all of Penstock from one release, first in PATH", "%s",
                  all.data);
    if (!doctor_find_program("penstock-reader", path))
        diagnosis_add(diagnosis, FINDING_WARNING, "programs",
                      "build with PENSTOCK_MPI=ON, or install the package of readers; trainers "
                      "alone do without",
                      "there is no penstock-reader, neither beside penstock nor in PATH");
    text_done(&all);
}

/* --- MPI ------------------------------------------------------------------------------------ */

/* What follows `start` in the text up to the end of the line, or "". */
static void line_after(const char *text, const char *start, char *ret_line, size_t size)
{
    const char *found = strstr(text, start);
    ret_line[0] = '\0';
    if (found)
        snprintf(ret_line, size, "%.*s", (int)strcspn(found + strlen(start), "\n"),
                 found + strlen(start));
}

/* The last line that says something: launchers draw lines of dashes. */
static void last_words(const char *text, char *ret_line, size_t size)
{
    ret_line[0] = '\0';
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");
        if (length > 0 && at[0] != '-' && strspn(at, " ") < length)
            snprintf(ret_line, size, "%.*s", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static void add_mpi_facts(struct diagnosis *diagnosis, const char *output)
{
    char library[128], transport[128], rate[128];
    line_after(output, "mpi library: ", library, sizeof library);
    line_after(output, "mpi exchange: ", rate, sizeof rate);
    line_after(output, "mpi transport: ", transport, sizeof transport);
    if (!transport[0])
        line_after(output, "] selected ", transport, sizeof transport);
    transport[strcspn(transport, " ")] = '\0';
    const char *interface = getenv("OMPI_MCA_btl_tcp_if_include");
    diagnosis_add(diagnosis, FINDING_OK, "mpi", NULL, "%s: %s", text_shown(library).text,
                  text_shown(rate).text);
    if (transport[0])
        diagnosis_add(
            diagnosis, FINDING_OK, "transport", NULL, "%s%s%s%s", text_shown(transport).text,
            strcmp(transport, "ob1") ? "" : " (shared memory within nodes, TCP between)",
            interface ? ", by interface " : "", interface ? text_shown(interface).text : "");
}

void doctor_mpi(struct diagnosis *diagnosis, const char *hosts)
{
    char run[DOCTOR_PATH_BYTES], reader[DOCTOR_PATH_BYTES];
    if (!doctor_find_program("penstock-run", run) ||
        !doctor_find_program("penstock-reader", reader))
        return;
    const char *words[10] = {run, "--probe", "mpi"};
    size_t count = 3;
    if (hosts) {
        words[count++] = "--hosts";
        words[count++] = hosts;
    }
    words[count++] = "--";
    words[count++] = reader;
    words[count++] = "--check-mpi";
    setenv("OMPI_MCA_pml_base_verbose", "10", 0); /* says which transport it takes */
    struct text output = {0};
    int code = output_of(words, MPI_TIMEOUT_S, &output);
    unsetenv("OMPI_MCA_pml_base_verbose");
    char said[FINDING_TEXT_BYTES / 2];
    last_words(output.data, said, sizeof said);
    if (code == 0)
        add_mpi_facts(diagnosis, output.data);
    else if (code == OUTPUT_TIMEOUT)
        diagnosis_add(diagnosis, FINDING_FAILURE, "mpi",
                      "a firewall between nodes, or an interface that only some have: name one "
                      "with --launcher-options (docs/launching.md)",
                      "readers that MPI started have not come together within %d s", MPI_TIMEOUT_S);
    else
        diagnosis_add(diagnosis, FINDING_FAILURE, "mpi",
                      "run 'penstock-run --verbose' with the same hosts to see all that MPI says; "
                      "docs/launching.md has what helps",
                      "readers do not start: %s", text_shown(said).text);
    text_done(&output);
}

/* --- other nodes ---------------------------------------------------------------------------- */

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
    bool fails = needs->signs && size > S3_TOLERANCE_S;
    snprintf(diagnosis->node, sizeof diagnosis->node, "%s", answer->node);
    diagnosis_add(diagnosis, fails ? FINDING_FAILURE : FINDING_WARNING, "clock",
                  "run chrony or systemd-timesyncd on all nodes",
                  "the clock is at least %.0f s %s this node's%s", size,
                  off < 0 ? "behind" : "ahead of",
                  fails ? ": S3 refuses what is 15 minutes off" : "");
}

static const struct finding *versions_of(const struct diagnosis *diagnosis, size_t from)
{
    for (size_t i = from; i < diagnosis->count; i++)
        if (strcmp(diagnosis->findings[i].check, "versions") == 0)
            return &diagnosis->findings[i];
    return NULL;
}

static void compare_versions(struct diagnosis *diagnosis, size_t from)
{
    size_t count = diagnosis->count;
    const struct finding *first = versions_of(diagnosis, from);
    for (size_t i = from; first && i < count; i++) {
        struct finding one = diagnosis->findings[i], other = *versions_of(diagnosis, from);
        if (strcmp(one.check, "versions") || strcmp(one.text, other.text) == 0)
            continue;
        memcpy(diagnosis->node, one.node, sizeof one.node);
        diagnosis_add(diagnosis, FINDING_FAILURE, "versions",
                      "install the same release of Penstock on all nodes, at the same path",
                      "versions differ: node %s has %.200s", other.node, other.text);
    }
}

size_t doctor_cluster(struct diagnosis *diagnosis, const char *hosts, uint64_t node_count,
                      const struct cli_settings *settings, const struct needs *needs)
{
    char run[DOCTOR_PATH_BYTES], self[DOCTOR_PATH_BYTES];
    char nodes[24];
    size_t first = diagnosis->count, answers = 0, count = 0;
    snprintf(nodes, sizeof nodes, "%" PRIu64, node_count);
    const char **words = calloc(settings->assignment_count * 2 + 16, sizeof *words);
    if (!words || !doctor_find_program("penstock-run", run) ||
        !doctor_find_program("penstock", self)) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "nodes",
                      "install penstock-run, which starts programs on nodes",
                      "there is no penstock-run, neither beside penstock nor in PATH");
        free(words);
        return 0;
    }
    const char *const start[] = {run,  "--probe", "node",   "--hosts",   hosts,
                                 "--", self,      "doctor", "--of-node", nodes};
    for (size_t i = 0; i < sizeof start / sizeof start[0]; i++)
        words[count++] = start[i];
    if (settings->path) {
        words[count++] = "--config";
        words[count++] = settings->path;
    }
    for (size_t i = 0; i < settings->assignment_count; i++) {
        words[count++] = "--set";
        words[count++] = settings->assignments[i];
    }
    struct text output = {0};
    double begin = now_s();
    int code = output_of(words, NODES_TIMEOUT_S, &output);
    char said[FINDING_TEXT_BYTES / 2];
    last_words(output.data, said, sizeof said);
    for (char *at = output.data, *line; (line = strsep(&at, "\n"));) {
        struct json_object *object = line[0] == '{' ? json_tokener_parse(line) : NULL;
        struct answer answer;
        if (object && is_end(object, &answer)) {
            compare_clock(diagnosis, &answer, begin, needs);
            answers++;
        } else if (object)
            take_finding(diagnosis, object);
        json_object_put(object);
    }
    compare_versions(diagnosis, first);
    diagnosis->node[0] = '\0';
    if (answers == 0)
        diagnosis_add(diagnosis, FINDING_FAILURE, "nodes",
                      "reach each host by 'ssh HOST true' without a password, and have Penstock "
                      "there at the same path",
                      "no host answers: %s",
                      code == OUTPUT_TIMEOUT ? "time has run out" : text_shown(said).text);
    text_done(&output);
    free(words);
    return answers;
}
