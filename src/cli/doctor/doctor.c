/* `penstock doctor`: see doctor.h. */
#include "cli/doctor/doctor.h"
#include "base/launcher.h"
#include "base/number.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"

#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
    struct cli_settings settings;
    const char *hosts;
    uint64_t of_node; /* how many nodes the run has; 0: not asked for */
    bool json, before_run, lists_chunks;
};

static const char help[] =
    "Look for what would make a run fail or slow on this node, or on the nodes of a cluster, and "
    "say what to do."
    "\v"
    "Without a configuration, looks at the node alone: limits, shared memory, memory, clock, "
    "programs, MPI. With a configuration, also at the dataset, at directories, and at the memory "
    "that the run takes. With --hosts, and in a job, at each node, as penstock-run starts "
    "programs there, and at what differs between nodes.\n\n"
    "Examples:\n"
    "  penstock doctor\n"
    "  penstock doctor -c run.yaml\n"
    "  penstock doctor -c train.yaml --also val=val.yaml\n"
    "  penstock doctor -c run.yaml --hosts n1,n2,n3,n4\n"
    "  salloc --nodes=4 penstock doctor -c run.yaml\n\n"
    "Exit code: 0 nothing would make a run fail, although there may be warnings; 1 something "
    "would; 4 wrong usage.\n";

static void parse_also(void *options, const struct argp_state *state, const char *option,
                       char *argument)
{
    (void)option;
    cli_add_also(&((struct options *)options)->settings, state, argument);
}

static const struct cli_option option_table[] = {
    {"also", 0, "NAME=FILE", "a run beside it, as of penstock-run --also; may be repeated",
     CLI_EACH(parse_also)},
    {"before-run", 0, NULL,
     "look only for what lets no program start on this node, and print failures alone, each in a "
     "line; penstock-run does so",
     CLI_FLAG(before_run)},
    {"hosts", 0, "H1,H2,...", "look at these hosts, reached as penstock-run reaches them",
     CLI_TEXT(hosts)},
    {"json", 0, NULL, "print the findings for programs, as one line of JSON", CLI_FLAG(json)},
    {"list-chunks", 0, NULL, "with --of-node: only list which chunks of the dataset are there",
     CLI_FLAG(lists_chunks)},
    {"of-node", 0, "N",
     "look at this node alone, as one of N, and print a line of JSON for each finding",
     CLI_COUNT(of_node, 1, 1000000)},
};

static const char *const level_names[] = {"ok", "warning", "failure"};

void diagnosis_add(struct diagnosis *diagnosis, enum finding_level level, const char *check,
                   const char *advice, const char *format, ...)
{
    if (diagnosis->count == diagnosis->capacity) {
        size_t capacity = diagnosis->capacity * 2 + 32;
        struct finding *more = realloc(diagnosis->findings, capacity * sizeof *more);
        if (!more) {
            fprintf(stderr, "penstock doctor: no memory\n");
            exit(EXIT_FAILURE);
        }
        diagnosis->findings = more;
        diagnosis->capacity = capacity;
    }
    struct finding *finding = &diagnosis->findings[diagnosis->count++];
    *finding = (struct finding){.level = level};
    memcpy(finding->node, diagnosis->node, sizeof finding->node);
    snprintf(finding->check, sizeof finding->check, "%s", check);
    snprintf(finding->advice, sizeof finding->advice, "%s", advice ? advice : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

void diagnosis_done(struct diagnosis *diagnosis)
{
    free(diagnosis->findings);
    text_done(&diagnosis->inventory);
    *diagnosis = (struct diagnosis){0};
}

enum finding_level diagnosis_level(const struct diagnosis *diagnosis)
{
    enum finding_level worst = FINDING_OK;
    for (size_t i = 0; i < diagnosis->count; i++)
        if (diagnosis->findings[i].level > worst)
            worst = diagnosis->findings[i].level;
    return worst;
}

static void append_member(struct text *out, const char *name, const char *value)
{
    text_append(out, "%s\"%s\":", out->data[out->length - 1] == '{' ? "" : ",", name);
    text_append_json(out, value);
}

static void append_finding(struct text *out, const struct finding *finding)
{
    text_append(out, "{");
    append_member(out, "node", finding->node);
    append_member(out, "check", finding->check);
    append_member(out, "level", level_names[finding->level]);
    append_member(out, "text", finding->text);
    append_member(out, "advice", finding->advice);
    text_append(out, "}");
}

/* For doctor_cluster(): mpirun keeps lines apart, and not more. */
static void print_lines(const struct diagnosis *diagnosis)
{
    struct timespec now;
    struct text out = {0};
    for (size_t i = 0; i < diagnosis->count; i++) {
        append_finding(&out, &diagnosis->findings[i]);
        text_append(&out, "\n");
    }
    if (diagnosis->inventory.length > 0)
        text_append(&out, "%s", diagnosis->inventory.data);
    clock_gettime(CLOCK_REALTIME, &now);
    text_append(&out, "{\"node\":");
    text_append_json(&out, diagnosis->node);
    text_append(&out, ",\"time\":%.3f}\n", (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    fputs(out.data, stdout);
    text_done(&out);
}

static void print_failures(const struct diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->count; i++) {
        const struct finding *finding = &diagnosis->findings[i];
        if (finding->level == FINDING_FAILURE)
            printf("%s; %s\n", finding->text, finding->advice);
    }
}

static void print_json(const struct diagnosis *diagnosis)
{
    struct text out = {0};
    text_append(&out, "{\"level\":\"%s\",\"findings\":[", level_names[diagnosis_level(diagnosis)]);
    for (size_t i = 0; i < diagnosis->count; i++) {
        text_append(&out, i ? "," : "");
        append_finding(&out, &diagnosis->findings[i]);
    }
    text_append(&out, "]}\n");
    fputs(out.data, stdout);
    text_done(&out);
}

/* Whether findings are about more than one node. */
static bool has_nodes(const struct diagnosis *diagnosis)
{
    for (size_t i = 1; i < diagnosis->count; i++)
        if (strcmp(diagnosis->findings[i].node, diagnosis->findings[0].node) != 0)
            return true;
    return false;
}

static void print_text(const struct diagnosis *diagnosis)
{
    bool several = has_nodes(diagnosis);
    static const char *const marks[] = {"ok", "warning", "FAILURE"};
    size_t counts[3] = {0};
    for (size_t i = 0; i < diagnosis->count; i++) {
        const struct finding *finding = &diagnosis->findings[i];
        counts[finding->level]++;
        printf("%-8s ", marks[finding->level]);
        if (several)
            printf("%-10s ", finding->node[0] ? text_shown(finding->node).text : "all");
        printf("%-15s %s\n", finding->check, text_shown(finding->text).text);
        if (finding->advice[0])
            printf("         %s\n", text_shown(finding->advice).text);
    }
    printf("%s: %zu ok, %zu warnings, %zu failures\n",
           counts[FINDING_FAILURE]   ? "a run would fail"
           : counts[FINDING_WARNING] ? "a run can start"
                                     : "nothing is wrong",
           counts[FINDING_OK], counts[FINDING_WARNING], counts[FINDING_FAILURE]);
}

/* Whether this process is one of several that a launcher has started: it starts no others. One of a
 * pod's own is alone there. */
static bool is_launched(void)
{
    const struct launcher *whole = launcher_of_size(), *half = launcher_of_half();
    return (half && half->local_rank) || (whole && (strcmp(whole->name, "srun") != 0 ||
                                                    strcmp(launcher_value(whole->size), "1") != 0));
}

/* Those of a list, or of the job; 1 without either. */
static uint64_t count_nodes(const char *hosts)
{
    static const char between[] = ", \t\r\n";
    uint64_t count = 0;
    if (!hosts)
        return is_launched() ? 1 : doctor_count_nodes();
    for (const char *at = hosts; *(at += strspn(at, between)); count++)
        at += strcspn(at, between);
    return count > 0 ? count : 1;
}

static bool has_configuration(const struct cli_settings *settings)
{
    const char *uri = getenv("PENSTOCK_DATASET_URI");
    const char *sources = getenv("PENSTOCK_MIX_SOURCES");
    return settings->path || settings->assignment_count > 0 || (uri && *uri) ||
           (sources && *sources);
}

/* False: no program would start. */
static bool examine_node(struct diagnosis *diagnosis, const struct options *options,
                         const struct needs *needs, uint64_t node_count, bool configured)
{
    if (configured)
        doctor_run(diagnosis, &options->settings, node_count);
    if (options->lists_chunks)
        return true;
    bool starts = doctor_start(diagnosis, needs);
    doctor_node(diagnosis, needs);
    doctor_programs(diagnosis);
    return starts;
}

static void examine(struct diagnosis *diagnosis, const struct options *options)
{
    struct needs needs = {.trainers = 1};
    if (options->before_run) {
        doctor_start(diagnosis, &needs);
        return;
    }
    uint64_t nodes = options->of_node ? options->of_node : count_nodes(options->hosts);
    bool cluster = options->of_node == 0 && (options->hosts || nodes > 1);
    bool complete = true; /* readers do not come together where a node is not there */
    bool configured = has_configuration(&options->settings);
    if (configured && !doctor_needs(diagnosis, &options->settings, nodes, &needs))
        configured = false;
    if (cluster)
        complete = doctor_cluster(diagnosis, options->hosts, nodes, &options->settings, &needs);
    else
        complete = examine_node(diagnosis, options, &needs, nodes, configured);
    if (options->of_node == 0 && complete && !is_launched())
        doctor_mpi(diagnosis, options->hosts);
}

int cli_doctor(int argc, char **argv)
{
    static const struct cli_command command = {
        .help = help,
        .options = option_table,
        .option_count = sizeof option_table / sizeof option_table[0],
        .settings_offset = offsetof(struct options, settings),
        .configured = true,
    };
    struct options options = {0};
    struct diagnosis diagnosis = {0};
    cli_parse(&command, argc, argv, &options);
    struct error err;
    if (cli_settings_check_files(&options.settings, &err) != STATUS_OK)
        return cli_fail("penstock doctor", &err);
    gethostname(diagnosis.node, sizeof diagnosis.node - 1);
    diagnosis.of_node = options.of_node > 0;
    diagnosis.lists_chunks = options.lists_chunks;
    examine(&diagnosis, &options);
    if (options.before_run)
        print_failures(&diagnosis);
    else if (options.of_node)
        print_lines(&diagnosis);
    else if (options.json)
        print_json(&diagnosis);
    else
        print_text(&diagnosis);
    int code = diagnosis_level(&diagnosis) == FINDING_FAILURE ? EXIT_FAILURE : EXIT_SUCCESS;
    diagnosis_done(&diagnosis);
    cli_settings_done(&options.settings);
    return options.of_node ? EXIT_SUCCESS : code; /* mpirun makes much of an exit code */
}
