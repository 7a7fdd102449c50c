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

enum { ANSWER_BYTES = 64 << 10, WORDS_MOST = 64, LOOK_MS = 10 };

extern char **environ;

/* SSO
 * ---------------------------------------------------------------------------------------------- */

/* The file that `aws sso login` leaves: named by the SHA-1 of the session or the start url. */
static void cache_path(const struct aws_profile *profile, struct text *out)
{
    const char *name = profile->sso_session[0] ? profile->sso_session : profile->sso_start_url;
    unsigned char hash[SHA_DIGEST_LENGTH];
    SHA1((const unsigned char *)name, strlen(name), hash);
    credentials_home_path(".aws/sso/cache/", out);
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
    text_forget(&header);
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

struct program {
    const char *path;
    uint32_t limit_s;
    pid_t pid;
    int output;
    char *answer; /* [ANSWER_BYTES], owned: secret */
    size_t bytes;
};

/* Reads until the program closes its output, and waits for its end. False: it took too long, or
 * says too much. */
static bool await_program(struct program *program, int *ret_how)
{
    uint64_t end_ns = clock_now_ns() + (uint64_t)program->limit_s * 1000000000;
    struct pollfd ready = {.fd = program->output, .events = POLLIN};
    while (clock_now_ns() < end_ns && program->bytes < ANSWER_BYTES) {
        if (ready.fd < 0 && waitpid(program->pid, ret_how, WNOHANG) != 0)
            return true;
        if (poll(&ready, 1, LOOK_MS) <= 0)
            continue;
        ssize_t count =
            read(program->output, program->answer + program->bytes, ANSWER_BYTES - program->bytes);
        program->bytes += count > 0 ? (size_t)count : 0;
        if (count == 0 || (count < 0 && errno != EINTR))
            ready.fd = -1;
    }
    kill(-program->pid, SIGKILL);
    while (waitpid(program->pid, ret_how, 0) < 0 && errno == EINTR)
        ;
    return false;
}

static enum status judge_program(const struct program *program, bool ended, int how,
                                 struct error *err)
{
    if (!ended && program->bytes == ANSWER_BYTES)
        return error_set(err, STATUS_IO, "credential_process: '%s' wrote more than %d KiB",
                         program->path, ANSWER_BYTES >> 10);
    if (!ended)
        return error_set(err, STATUS_IO,
                         "credential_process: '%s' did not end within %u s, and was killed: does "
                         "it wait for an answer?",
                         program->path, program->limit_s);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        return error_set(err, STATUS_IO, "credential_process: '%s' failed (%s %d)", program->path,
                         WIFEXITED(how) ? "exit status" : "signal",
                         WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
    return STATUS_OK;
}

static enum status run(struct program *program, char *const *words, struct error *err)
{
    int ends[2], how = 0;
    if (pipe2(ends, O_CLOEXEC))
        return error_set_errno(err, STATUS_IO, "a pipe for credential_process");
    int failure =
        spawn_program(program->path, words, environ, ends[1], STDOUT_FILENO, &program->pid);
    close(ends[1]);
    program->output = ends[0];
    bool ended = failure || await_program(program, &how);
    close(ends[0]);
    if (failure)
        return error_set(err, STATUS_IO, "credential_process: run '%s': %s", program->path,
                         strerror(failure));
    return judge_program(program, ended, how, err);
}

static enum status take_answer(const struct program *program, struct credentials *credentials,
                               struct error *err)
{
    struct json_object *root = json_tokener_parse(program->answer);
    bool good =
        ask_seconds(root, "Version", false) == 1 && aws_take(root, "SessionToken", credentials);
    json_object_put(root);
    return good ? STATUS_OK
                : error_set(err, STATUS_IO,
                            "credential_process: '%s' wrote something else than JSON with "
                            "Version 1, AccessKeyId and SecretAccessKey",
                            program->path);
}

enum status aws_program(const char *command, uint32_t limit_s, struct credentials *credentials,
                        struct error *err)
{
    char *copy = strdup(command), *answer = calloc(1, ANSWER_BYTES + 1), *words[WORDS_MOST];
    struct text path = {0};
    enum status status = STATUS_OK;
    if (!copy || !answer)
        status = error_set(err, STATUS_NO_MEMORY, "credential_process: no memory");
    else if (split(copy, words) == 0)
        status = error_set(err, STATUS_INVALID, "credential_process: no program");
    if (status == STATUS_OK) {
        find_program(words[0], &path);
        struct program program = {.path = path.data, .limit_s = limit_s, .answer = answer};
        status = run(&program, words, err);
        if (status == STATUS_OK)
            status = take_answer(&program, credentials, err);
    }
    text_done(&path);
    if (answer)
        explicit_bzero(answer, ANSWER_BYTES);
    free(answer);
    if (copy)
        explicit_bzero(copy, strlen(command));
    free(copy);
    return status;
}
