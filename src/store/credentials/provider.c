/* See credentials.h: the provider, and what all functions that look share. */
#include "store/credentials/credentials.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BEFORE_S = 120, /* new ones are looked for so long before the old ones run out, at most */
    REREAD_S = 30,  /* files that say no time */
    PAUSE_S = 10,   /* after looking for new ones in vain, at most */
};

struct credentials_provider {
    credentials_look *look;
    struct store_settings settings;
    pthread_mutex_t mutex;
    /* Under the mutex: */
    struct credentials now;
    time_t due;           /* when to look again; 0: never */
    uint64_t renewed_ns;  /* when there were newer ones; 0: never */
    time_t vain;          /* when looking last found nothing newer */
    bool fails;           /* looking for new ones was in vain: */
    struct error trouble; /* why */
};

/* A part of the time that is left, so that those of seconds are renewed in time, too. */
static time_t part_of(time_t left, time_t most)
{
    time_t part = left / 3;
    return part < 1 ? 1 : part > most ? most : part;
}

static time_t due_after(const struct credentials *found, time_t now)
{
    time_t left = found->expires - now;
    if (!found->expires)
        return found->from_file ? now + REREAD_S : 0;
    return left > 0 ? found->expires - part_of(left, BEFORE_S) : now + 1;
}

static bool are_equal(const struct credentials *a, const struct credentials *b)
{
    return strcmp(a->token, b->token) == 0 && strcmp(a->access_key, b->access_key) == 0 &&
           strcmp(a->secret, b->secret) == 0;
}

/* True: there are newer ones now. Under the mutex. */
static bool renew(struct credentials_provider *provider)
{
    struct credentials fresh = {0};
    time_t now = time(NULL);
    enum status status = provider->look(&provider->settings, &fresh, &provider->trouble);
    provider->fails = status != STATUS_OK || !fresh.found;
    if (status == STATUS_OK && !fresh.found)
        error_set(&provider->trouble, STATUS_IO, "there are none any more");
    bool newer = !provider->fails && !are_equal(&fresh, &provider->now);
    if (newer) {
        provider->now = fresh;
        provider->renewed_ns = clock_now_ns();
    }
    now = provider->fails ? now : time(NULL);
    provider->due = provider->fails ? now + part_of(provider->now.expires - now, PAUSE_S)
                                    : due_after(&provider->now, now);
    provider->vain = newer ? 0 : now;
    credentials_done(&fresh);
    return newer;
}

enum status credentials_provider_new(credentials_look *look, const struct store_settings *settings,
                                     struct credentials_provider **ret_provider, struct error *err)
{
    struct credentials_provider *provider = calloc(1, sizeof *provider);
    if (!provider)
        return error_set(err, STATUS_NO_MEMORY, "no memory for credentials");
    provider->look = look;
    provider->settings = *settings;
    enum status status = look(settings, &provider->now, err);
    if (status != STATUS_OK) {
        credentials_done(&provider->now);
        free(provider);
        return status;
    }
    if (provider->now.found)
        provider->due = due_after(&provider->now, time(NULL));
    pthread_mutex_init(&provider->mutex, NULL);
    *ret_provider = provider;
    return STATUS_OK;
}

void credentials_provider_free(struct credentials_provider *provider)
{
    if (!provider)
        return;
    pthread_mutex_destroy(&provider->mutex);
    credentials_done(&provider->now);
    free(provider);
}

enum status credentials_take(struct credentials_provider *provider, struct credentials *ret_now,
                             struct error *err)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&provider->mutex);
    if (provider->due && time(NULL) >= provider->due)
        (void)renew(provider); /* what there is may still do */
    if (provider->fails && provider->now.expires && time(NULL) >= provider->now.expires)
        status = error_set(err, STATUS_IO,
                           "the credentials (%s) have run out, and new ones cannot be had: %.600s",
                           provider->now.source, provider->trouble.message);
    if (status == STATUS_OK)
        *ret_now = provider->now;
    pthread_mutex_unlock(&provider->mutex);
    return status;
}

bool credentials_renew(struct credentials_provider *provider, uint64_t sent_ns)
{
    pthread_mutex_lock(&provider->mutex);
    bool may_look = time(NULL) != provider->vain; /* many may be refused at once */
    bool newer = provider->renewed_ns > sent_ns || (may_look && renew(provider));
    pthread_mutex_unlock(&provider->mutex);
    return newer;
}

void credentials_source(struct credentials_provider *provider, char ret_source[CREDENTIAL_BYTES])
{
    pthread_mutex_lock(&provider->mutex);
    strcpy(ret_source, provider->now.found ? provider->now.source : "");
    pthread_mutex_unlock(&provider->mutex);
}

void credentials_done(struct credentials *credentials)
{
    explicit_bzero(credentials, sizeof *credentials);
}

enum status credentials_copy(char *out, size_t capacity, const char *value, const char *name,
                             struct error *err)
{
    if (strlen(value) >= capacity)
        return error_set(err, STATUS_INVALID, "%s has more than %zu bytes", name, capacity - 1);
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return error_set(err, STATUS_INVALID, "%s holds a control character", name);
    strcpy(out, value);
    return STATUS_OK;
}

const char *credentials_variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

void credentials_home_path(const char *name, struct text *out)
{
    const char *home = credentials_variable("HOME");
    struct passwd entry, *user = NULL;
    char texts[4096];
    if (!*home && getpwuid_r(getuid(), &entry, texts, sizeof texts, &user) == 0 && user)
        home = user->pw_dir;
    text_append(out, "%s/%s", home, name);
}

enum status credentials_read_file(const char *path, bool lines,
                                  char ret_text[CREDENTIAL_TOKEN_BYTES], struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(err, STATUS_IO, "open '%s'", path);
    size_t size = fread(ret_text, 1, CREDENTIAL_TOKEN_BYTES, file);
    bool failed = ferror(file);
    fclose(file);
    if (failed)
        return error_set(err, STATUS_IO, "read '%s': %s", path, strerror(EIO));
    size_t kept = size < CREDENTIAL_TOKEN_BYTES ? size : 0;
    while (kept > 0 && strchr(" \t\r\n", ret_text[kept - 1]))
        kept--;
    ret_text[kept] = '\0';
    size_t first = strspn(ret_text, " \t\r\n");
    memmove(ret_text, ret_text + first, kept - first + 1);
    bool good = ret_text[0] && strlen(ret_text) == kept - first;
    for (const char *c = ret_text; *c && good; c++)
        good = ((unsigned char)*c >= ' ' && *c != 0x7f) || (lines && strchr("\r\n", *c));
    if (good)
        return STATUS_OK;
    explicit_bzero(ret_text, CREDENTIAL_TOKEN_BYTES);
    return error_set(err, STATUS_INVALID, "'%s': %s", path,
                     size >= CREDENTIAL_TOKEN_BYTES ? "it is too long"
                     : kept == 0                    ? "it is empty"
                                                    : "it holds a control character");
}
