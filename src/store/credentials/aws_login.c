/* See aws.h: profiles with a login or a program. */
#include "base/clock.h"
#include "base/spawn.h"
#include "store/credentials/ask.h"
#include "store/credentials/aws.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <openssl/sha.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_BYTES = 64 << 10, WORDS_MOST = 64, PROGRAM_S = 60 };

extern char **environ;

/* SSO
 * ---------------------------------------------------------------------------------------------- */

/* The file that `aws sso login` leaves: named by the SHA-1 of the session or the start url. */
static void cache_path(const struct aws_profile *profile, struct text *out)
{
    const char *name = profile->sso_session[0] ? profile->sso_session : profile->sso_start_url;
    unsigned char hash[SHA_DIGEST_LENGTH];
    SHA1((const unsigned char *)name, strlen(name), hash);
    aws_profile_path("sso/cache/", out);
    for (size_t i = 0; i < sizeof hash; i++)
        text_append(out, "%02x", hash[i]);
    text_append(out, ".json");
}

static enum status read_login(const struct aws_profile *profile, char *ret_token, struct error *err)
{
    char expires[64] = "";
    struct text path = {0};
    cache_path(profile, &path);
    struct json_object *root = json_object_from_file(path.data);
    bool good = root && ask_member(root, "accessToken", ret_token, CREDENTIAL_TOKEN_BYTES) &&
                ask_member(root, "expiresAt", expires, sizeof expires);
    json_object_put(root);
    enum status status = STATUS_OK;
    if (!good)
        status = error_set(err, STATUS_INVALID,
                           "no login for SSO in '%s': run `aws sso login` on this node", path.data);
    else if (ask_date(expires) <= time(NULL))
        status = error_set(
            err, STATUS_INVALID,
            "the login for SSO in '%s' has run out: run `aws sso login` on this node", path.data);
    text_done(&path);
    return status;
}

static enum status ask_portal(const struct aws_profile *profile, const char *token,
                              const struct store_settings *settings,
                              struct credentials *credentials, struct error *err)
{
    static const char what[] = "the endpoint for SSO (AWS_ENDPOINT_URL_SSO)";
    const char *given = credentials_variable("AWS_ENDPOINT_URL_SSO");
    struct text url = {0}, header = {0}, query = {0};
    struct json_object *root = NULL, *keys;
    if (*given)
        text_append(&url, "%s", given);
    else
        text_append(&url, "https://portal.sso.%s.amazonaws.com", profile->sso_region);
    ask_form(&query, "role_name", profile->sso_role);
    ask_form(&query, "account_id", profile->sso_account);
    text_append(&url, "/federation/credentials?%s", query.data);
    text_append(&header, "x-amz-sso_bearer_token: %s", token);
    struct ask ask = {.method = "GET", .url = url.data, .headers = {header.data}};
    enum status status = ask_json(&ask, what, settings, &root, err);
    bool good = status == STATUS_OK && json_object_object_get_ex(root, "roleCredentials", &keys) &&
                json_object_is_type(keys, json_type_object) &&
                ask_member(keys, "accessKeyId", credentials->access_key, CREDENTIAL_BYTES) &&
                ask_member(keys, "secretAccessKey", credentials->secret, CREDENTIAL_BYTES) &&
                ask_member(keys, "sessionToken", credentials->token, CREDENTIAL_TOKEN_BYTES);
    if (good)
        credentials->expires = ask_seconds(keys, "expiration", false) / 1000; /* of ms */
    credentials->found = good;
    if (status == STATUS_OK && !good)
        status = ask_not_expected(url.data, err);
    json_object_put(root);
    ask_forget(&header);
    text_done(&query);
    text_done(&url);
    return status;
}

enum status aws_sso(const struct aws_profile *given, const struct store_settings *settings,
                    struct credentials *credentials, struct error *err)
{
    struct aws_profile profile = *given;
    char token[CREDENTIAL_TOKEN_BYTES];
    enum status status = STATUS_OK;
    if (profile.sso_session[0])
        status = aws_profile_read("sso-session", given->sso_session, &profile, err);
    if (status == STATUS_OK &&
        !(profile.sso_account[0] && profile.sso_role[0] && profile.sso_region[0]))
        status = error_set(err, STATUS_INVALID,
                           "a profile with SSO needs sso_account_id, sso_role_name and sso_region");
    if (status == STATUS_OK)
        status = read_login(&profile, token, err);
    if (status == STATUS_OK)
        status = ask_portal(&profile, token, settings, credentials, err);
    explicit_bzero(&profile, sizeof profile);
    explicit_bzero(token, sizeof token);
    return status;
}

/* Programs
 * ---------------------------------------------------------------------------------------------- */

/* Words between spaces; double quotes hold words together. Changes `command`. */
static size_t split(char *command, char *words[WORDS_MOST])
{
    size_t count = 0;
    char *in = command;
    while (*(in += strspn(in, " \t")) && count < WORDS_MOST - 1) {
        char *out = in;
        bool quoted = false;
        words[count++] = out;
        for (; *in && (quoted || !strchr(" \t", *in)); in++) {
            if (*in == '"')
                quoted = !quoted;
            else
                *out++ = *in;
        }
        in += *in != '\0';
        *out = '\0';
    }
    words[count] = NULL;
    return count;
}

/* The file of a program: on the PATH unless its name has a slash. */
static void find_program(const char *name, struct text *out)
{
    const char *path = credentials_variable("PATH");
    while (!strchr(name, '/') && *path) {
        size_t length = strcspn(path, ":");
        out->length = 0;
        text_append(out, "%.*s/%s", (int)length, path, name);
        if (access(out->data, X_OK) == 0)
            return;
        path += length + (path[length] == ':');
    }
    out->length = 0;
    text_append(out, "%s", name);
}

/* Until the program closes its output. False: it took too long, or says too much. */
static bool read_all(int fd, struct text *answer)
{
    uint64_t end_ns = clock_now_ns() + (uint64_t)PROGRAM_S * 1000000000;
    char bytes[4096];
    for (;;) {
        uint64_t now_ns = clock_now_ns();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (now_ns >= end_ns || answer->length > ANSWER_BYTES)
            return false;
        if (poll(&ready, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
            continue;
        ssize_t count = read(fd, bytes, sizeof bytes);
        if (count > 0)
            text_append_bytes(answer, bytes, (size_t)count);
        else if (count == 0 || errno != EINTR)
            break;
    }
    explicit_bzero(bytes, sizeof bytes);
    return true;
}

static enum status run(const char *path, char *const *words, struct text *answer, struct error *err)
{
    int ends[2], how = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC))
        return error_set_errno(err, STATUS_IO, "a pipe for credential_process");
    int failure = spawn_program(path, words, environ, ends[1], STDOUT_FILENO, &pid);
    close(ends[1]);
    if (failure) {
        close(ends[0]);
        return error_set(err, STATUS_IO, "credential_process: run '%s': %s", path,
                         strerror(failure));
    }
    bool ended = read_all(ends[0], answer);
    close(ends[0]);
    if (!ended)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    if (!ended)
        return error_set(err, STATUS_IO, "credential_process: '%s' did not end within %d s", path,
                         PROGRAM_S);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        return error_set(err, STATUS_IO, "credential_process: '%s' failed (%s %d)", path,
                         WIFEXITED(how) ? "exit status" : "signal",
                         WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
    return STATUS_OK;
}

enum status aws_program(const char *command, struct credentials *credentials, struct error *err)
{
    char *copy = strdup(command), *words[WORDS_MOST];
    struct text path = {0}, answer = {0};
    enum status status = copy && split(copy, words) > 0
                             ? STATUS_OK
                             : error_set(err, STATUS_INVALID, "credential_process: no program");
    if (status == STATUS_OK) {
        find_program(words[0], &path);
        status = run(path.data, words, &answer, err);
    }
    if (status == STATUS_OK) {
        struct json_object *root = json_tokener_parse(answer.data ? answer.data : "");
        if (ask_seconds(root, "Version", false) != 1 ||
            !aws_take(root, "SessionToken", credentials))
            status = error_set(err, STATUS_IO,
                               "credential_process: '%s' wrote something else than JSON with "
                               "Version 1, AccessKeyId and SecretAccessKey",
                               path.data);
        json_object_put(root);
    }
    ask_forget(&answer);
    text_done(&path);
    if (copy)
        explicit_bzero(copy, strlen(command));
    free(copy);
    return status;
}
