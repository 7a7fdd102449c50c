/* See textfile.h. */
#include "account/textfile.h"

#include "base/file.h"
#include "base/text.h"
#include "base/thread.h"
#include "metrics/metrics_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PERIOD_S = 5 }; /* collectors look every 15 s or so */

struct textfile {
    int dir;
    uint32_t reader;
    char *path;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool stopping; /* under the mutex */
    bool warned;   /* the thread's */
};

/* A failure is told once: the run goes on without. Under the mutex. */
static void write_once(struct textfile *textfile)
{
    struct metrics_snapshot *snapshot;
    struct error error;
    struct text text = {0};
    if (metrics_file_read(textfile->dir, textfile->reader, &snapshot, &error) != STATUS_OK)
        return;
    metrics_text(snapshot, &text);
    free(snapshot);
    enum status status = file_replace(textfile->path, text.data, text.length, &error);
    if (status != STATUS_OK && !textfile->warned)
        fprintf(stderr, "penstock-reader: warning: metrics.file: %s\n", error.message);
    textfile->warned = status != STATUS_OK;
    text_done(&text);
}

static void *keep_writing(void *argument)
{
    struct textfile *textfile = argument;
    pthread_mutex_lock(&textfile->mutex);
    while (!textfile->stopping) {
        write_once(textfile);
        struct timespec until = thread_deadline(PERIOD_S * UINT64_C(1000000000));
        pthread_cond_timedwait(&textfile->stop, &textfile->mutex, &until);
    }
    pthread_mutex_unlock(&textfile->mutex);
    return NULL;
}

enum status textfile_new(int dir, uint32_t reader, const char *path, struct textfile **ret_textfile,
                         struct error *err)
{
    struct stat info;
    /* A pipe that nobody reads would block the thread, and the end removes what is there. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return error_set(err, STATUS_IO,
                         "metrics.file '%s' is no regular file: name a file that Penstock may "
                         "replace and remove",
                         text_shown(path).text);
    enum status status = file_check_writable(path, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "metrics.file: ");
    struct textfile *textfile = calloc(1, sizeof *textfile);
    char *copy = strdup(path);
    if (!textfile || !copy) {
        free(textfile);
        free(copy);
        return error_set(err, STATUS_NO_MEMORY, "no memory for metrics");
    }
    *textfile = (struct textfile){.dir = dir, .reader = reader, .path = copy};
    thread_cond_init(&textfile->stop);
    pthread_mutex_init(&textfile->mutex, NULL);
    if (!thread_start("metrics", keep_writing, textfile, &textfile->thread)) {
        status = error_set_errno(err, STATUS_IO, "metrics.file: start a thread");
        free(copy);
        free(textfile);
        return status;
    }
    *ret_textfile = textfile;
    return STATUS_OK;
}

void textfile_remove(struct textfile *textfile)
{
    if (textfile)
        unlink(textfile->path);
}

void textfile_free(struct textfile *textfile)
{
    if (!textfile)
        return;
    pthread_mutex_lock(&textfile->mutex);
    textfile->stopping = true;
    pthread_cond_signal(&textfile->stop);
    pthread_mutex_unlock(&textfile->mutex);
    pthread_join(textfile->thread, NULL);
    textfile_remove(textfile);
    pthread_cond_destroy(&textfile->stop);
    pthread_mutex_destroy(&textfile->mutex);
    free(textfile->path);
    free(textfile);
}
