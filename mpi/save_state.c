/* See save_state.h. */
#include "save_state.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_STATES = 1000 };

/* A state that nobody has asked for: into a new file in the current directory, with the run's name,
 * and a number where that file is there already. */
static enum status write_new_state(const struct job *job, const struct text *line,
                                   struct text *ret_path, struct error *err)
{
    char directory[PATH_MAX];
    const char *name = strrchr(job->run_dir, '/');
    int fd = -1;
    if (!getcwd(directory, sizeof directory))
        return error_set(err, STATUS_IO, "there is no current directory");
    for (int i = 1; fd < 0 && i <= MAX_STATES; i++) {
        text_done(ret_path);
        text_append(ret_path, "%s/penstock-state-%s", directory, name ? name + 1 : job->run_dir);
        text_append(ret_path, i > 1 ? "-%d.json" : ".json", i);
        fd = open(ret_path->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        return error_set(err, STATUS_IO, "cannot create '%s': %s", ret_path->data, strerror(errno));
    close(fd);
    enum status status = file_replace(ret_path->data, line->data, line->length, err);
    if (status != STATUS_OK)
        unlink(ret_path->data);
    return status;
}

/* In words that a shell takes as they are. */
static void print_hint(const char *where, const char *state)
{
    struct text quoted = {0};
    for (const char *c = state; *c; c++)
        text_append(&quoted, *c == '\'' ? "'\\''" : "%c", *c);
    fprintf(stderr, "penstock-reader: to go on there%s: --resume '%s'\n", where, quoted.data);
    text_done(&quoted);
}

void save_state(const struct session *session, const char *path)
{
    const struct ring_service *service = &session->job->setup.service;
    struct run_state state = {.order = service->order,
                              .epoch = session->stop_cursor / service->steps_per_epoch,
                              .step = session->stop_cursor % service->steps_per_epoch};
    struct text json = {0}, line = {0}, beside = {0};
    struct error err;
    run_state_print(&state, &json);
    text_append(&line, "%s\n", json.data);
    enum status status = path ? file_replace(path, line.data, line.length, &err)
                              : write_new_state(session->job, &line, &beside, &err);
    if (status != STATUS_OK && path)
        fprintf(stderr, "penstock-reader: the state is not saved: %s\n", err.message);
    if (status == STATUS_OK)
        print_hint("", path ? path : beside.data);
    /* The file is on this rank's node, which need not be where the run is started. */
    print_hint(status == STATUS_OK ? ", where that file is not" : "", json.data);
    text_done(&json);
    text_done(&line);
    text_done(&beside);
}
