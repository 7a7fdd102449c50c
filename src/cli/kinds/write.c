/* Writing a configuration to start from: see kinds.h. */
#include "cli/kinds/kinds_internal.h"

#include "base/size.h"
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char group_key[] = "dataset.group=", store_key[] = "store.";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What a configuration has already is no start. */
static enum status check_settings(const struct cli_settings *settings, struct error *err)
{
    if (settings->path)
        return error_set(err, STATUS_INVALID,
                         "--write makes a first configuration, and '%s' is one: leave out one of "
                         "both",
                         settings->path);
    for (size_t i = 0; i < settings->assignment_count; i++)
        if (!begins(settings->assignments[i], store_key) &&
            !begins(settings->assignments[i], group_key))
            return error_set(err, STATUS_INVALID,
                             "--write takes over store.* and dataset.group alone: leave out --set "
                             "%s, and put it into the file",
                             settings->assignments[i]);
    return STATUS_OK;
}

/* The uri as the file has to have it: relative paths start at the file's folder. Where this is
 * another than the current one, they get the current one in front. */
static enum status find_uri(const char *uri, const char *path, struct text *out, struct error *err)
{
    static const char repository[] = "icechunk://";
    bool in_repository = begins(uri, repository);
    const char *rest = in_repository ? uri + strlen(repository) : uri;
    const char *slash = strrchr(path, '/');
    bool here = !slash || (slash == path + 1 && path[0] == '.');
    if (here || rest[0] == '/' || strstr(rest, "://") || strncasecmp(rest, "file:", 5) == 0) {
        text_append(out, "%s", uri);
        return STATUS_OK;
    }
    char *folder = getcwd(NULL, 0);
    if (!folder)
        return error_set_errno(err, STATUS_IO, "find the current folder");
    text_append(out, "%s%s/%s", in_repository ? repository : "", folder, rest);
    free(folder);
    return STATUS_OK;
}

/* One as a scalar, members as a list. */
static void put_uris(const char *uri, const char *members, struct text *out)
{
    struct text member = {0};
    size_t length = strlen(uri);
    if (!members) {
        struct text list = {0}; /* of one: a comma in the name is no separator */
        text_list_put(&list, uri);
        text_append(out, " ");
        kind_put_scalar(list.data, out);
        text_done(&list);
    }
    while (length > 1 && uri[length - 1] == '/')
        length--;
    while (members && text_list_take(&members, &member)) {
        struct text whole = {0};
        text_append(&whole, "%.*s/%s", (int)length, uri, member.data);
        text_append(out, "\n    - ");
        kind_put_scalar(whole.data, out);
        text_done(&whole);
    }
    text_done(&member);
}

/* "  endpoint: X" under store:, and "  group: G" under dataset:. */
static void put_settings(const struct cli_settings *settings, const char *prefix, struct text *out)
{
    for (size_t i = 0; i < settings->assignment_count; i++) {
        const char *assignment = settings->assignments[i], *equal = strchr(assignment, '=');
        if (!begins(assignment, prefix) || !equal)
            continue;
        const char *key = strchr(assignment, '.') + 1;
        text_append(out, "  %.*s: ", (int)(equal - key), key);
        kind_put_scalar(equal + 1, out);
        text_append(out, "\n");
    }
}

static enum status put_finding(const struct kind_look *look, const struct kind_finding *finding,
                               const struct cli_settings *settings, const char *path,
                               struct text *out, struct error *err)
{
    struct text store = {0}, uri = {0};
    kind_wrap("# ", finding->about.data, out);
    text_append(out, "# This is a start. 'penstock samples -c FILE --index 0' shows a sample.\n"
                     "dataset:\n  uri:");
    enum status status = find_uri(look->uri, path, &uri, err);
    if (status == STATUS_OK)
        put_uris(uri.data, finding->members.data, out);
    text_append(out, "\n");
    if (finding->group.data) {
        text_append(out, "  group: ");
        kind_put_scalar(finding->group.data, out);
        text_append(out, "\n");
    } else {
        put_settings(settings, group_key, out);
    }
    text_append(out, "%s%s", finding->dataset.data ? finding->dataset.data : "",
                finding->rest.data ? finding->rest.data : "");
    put_settings(settings, store_key, &store);
    if (store.data)
        text_append(out, "store:\n%s", store.data);
    text_done(&store);
    text_done(&uri);
    return status;
}

/* As many samples as make 32 MiB, at most 64, and a power of 2. */
static uint64_t batch_size(const struct dataset *dataset)
{
    const uint64_t most = 64, most_bytes = 32 << 20;
    uint64_t size = 1;
    while (2 * size <= most && 2 * size <= dataset->sample_count &&
           2 * size * dataset->sample_bytes <= most_bytes)
        size *= 2;
    return size;
}

/* Opens the dataset of the configuration in `text`, and appends what depends on it. */
static enum status try_it(const char *path, struct text *text, struct error *err)
{
    struct config config;
    struct dataset *dataset = NULL;
    enum status status = config_init(&config, err);
    if (status == STATUS_OK)
        status = config_read_text(&config, text->data, text->length, path, ".", err);
    if (status == STATUS_OK)
        status = config_read_environment(&config, err);
    if (status == STATUS_OK)
        status = config_check(&config, err);
    if (status == STATUS_OK)
        status = config_open_dataset(&config, false, NULL, &dataset, err);
    if (status == STATUS_OK)
        text_append(text,
                    "batch: {global_size: %" PRIu64 "}    # samples of a step, over all trainers\n"
                    "order: {seed: 1, epochs: 1}\n"
                    "delivery: {trainers: 1}    # processes of the training; global_size is a "
                    "multiple\n",
                    batch_size(dataset));
    dataset_free(dataset);
    config_done(&config);
    return status;
}

static enum status compose(const struct kind_look *look, const struct cli_settings *settings,
                           const char *path, struct text *out, struct error *err)
{
    struct kind_finding finding;
    kind_recognise(look, &finding);
    enum status status = finding.name ? put_finding(look, &finding, settings, path, out, err)
                                      : error_set(err, STATUS_INVALID, "%s", look->no_dataset);
    kind_finding_done(&finding);
    return status == STATUS_OK ? try_it(path, out, err) : status;
}

/* A new file: one that is there stays as it is. */
static enum status make_file(const char *path, const struct text *text, struct error *err)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST)
        return error_set(err, STATUS_INVALID,
                         "--write: '%s' is there already, and stays as it is: give another name",
                         path);
    if (file < 0)
        return error_set_errno(err, STATUS_IO, "--write: make '%s'", path);
    ssize_t written = write(file, text->data, text->length);
    bool whole = written >= 0 && (size_t)written == text->length;
    enum status status =
        whole ? STATUS_OK : error_set_errno(err, STATUS_IO, "--write: write '%s'", path);
    if (close(file) != 0 && status == STATUS_OK)
        status = error_set_errno(err, STATUS_IO, "--write: write '%s'", path);
    if (status != STATUS_OK)
        unlink(path);
    return status;
}

enum status kind_write(const struct kind_look *look, const struct cli_settings *settings,
                       const char *path, struct error *err)
{
    struct text text = {0};
    struct error first = {0};
    enum status status = check_settings(settings, err);
    if (status != STATUS_OK)
        return status;
    status = compose(look, settings, path, &text, &first);
    if (status != STATUS_OK && text.data) { /* again, without what may be refused */
        struct kind_look cautious = *look;
        cautious.refused = first.message;
        text_done(&text);
        status = compose(&cautious, settings, path, &text, NULL);
    }
    if (status == STATUS_OK)
        status = make_file(path, &text, err);
    else
        status = error_set(err, (enum status)first.status, "--write: %s", first.message);
    text_done(&text);
    return status;
}
