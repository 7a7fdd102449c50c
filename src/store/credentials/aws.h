/* Credentials of AWS, and of servers with the protocol of S3: the first of
 *
 *     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN      a role, by the token in a file (IRSA)
 *     ~/.aws/credentials, ~/.aws/config              section AWS_PROFILE, or "default": keys; a
 *                                                    role of another profile, or by a token; SSO,
 *                                                    with the token that `aws sso login` left; a
 *                                                    program (credential_process)
 *     the container's endpoint                       AWS_CONTAINER_CREDENTIALS_FULL_URI or
 *                                                    _RELATIVE_URI
 *     the instance's endpoint                        169.254.169.254, or
 *                                                    AWS_EC2_METADATA_SERVICE_ENDPOINT
 *
 * The last two are asked only where store.metadata allows it. Roles and SSO are asked of AWS over
 * https: AWS_ENDPOINT_URL_STS and AWS_ENDPOINT_URL_SSO, AWS_ENDPOINT_URL, or the address of the
 * region.
 *
 * A region is that of AWS_REGION, AWS_DEFAULT_REGION or the profile, an endpoint that of
 * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile. The first one given counts.
 *
 * Sources: AWS SDKs and Tools Reference Guide ("Standardized credential providers"), AWS STS and
 * SSO portal API references, "Instance metadata service version 2".
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_AWS_H
#define PENSTOCK_STORE_CREDENTIALS_AWS_H

#include "store/credentials/credentials.h"

struct json_object;

/* As credentials_look(). Region and endpoint are set also without credentials. INVALID: half of a
 * key pair, an AWS_PROFILE that no file has, a value that is too long or holds a control character,
 * an endpoint that is no url or none of this machine; a profile that is its own source, or lacks
 * what its role, login or program needs. IO: a file cannot be read, a server does not answer, a
 * program fails. */
MUST_USE enum status aws_look(const struct store_settings *settings, struct credentials *ret_found,
                              struct error *err);

/* The settings of a section that are looked for; "": not there. */
#define AWS_PROFILE_TABLE(X)                                    \
    X(access_key, "aws_access_key_id", CREDENTIAL_BYTES)        \
    X(secret, "aws_secret_access_key", CREDENTIAL_BYTES)        \
    X(token, "aws_session_token", CREDENTIAL_TOKEN_BYTES)       \
    X(region, "region", CREDENTIAL_BYTES)                       \
    X(endpoint, "endpoint_url", CREDENTIAL_BYTES)               \
    X(role, "role_arn", CREDENTIAL_BYTES)                       \
    X(session, "role_session_name", CREDENTIAL_BYTES)           \
    X(external_id, "external_id", CREDENTIAL_BYTES)             \
    X(duration, "duration_seconds", CREDENTIAL_BYTES)           \
    X(source_profile, "source_profile", CREDENTIAL_BYTES)       \
    X(credential_source, "credential_source", CREDENTIAL_BYTES) \
    X(token_file, "web_identity_token_file", AWS_PATH_BYTES)    \
    X(program, "credential_process", AWS_PATH_BYTES)            \
    X(sso_session, "sso_session", CREDENTIAL_BYTES)             \
    X(sso_start_url, "sso_start_url", AWS_PATH_BYTES)           \
    X(sso_region, "sso_region", CREDENTIAL_BYTES)               \
    X(sso_account, "sso_account_id", CREDENTIAL_BYTES)          \
    X(sso_role, "sso_role_name", CREDENTIAL_BYTES)

enum { AWS_PATH_BYTES = 1024 };

struct aws_profile {
    bool seen; /* a file has the section */
#define AWS_MEMBER(member, key, bytes) char member[bytes];
    AWS_PROFILE_TABLE(AWS_MEMBER)
#undef AWS_MEMBER
};

/* aws_profile.c: reads the section "NAME", or "KIND NAME" of ~/.aws/config, of both files; what is
 * set in *profile already stays. INVALID, IO. */
MUST_USE enum status aws_profile_read(const char *kind, const char *name,
                                      struct aws_profile *profile, struct error *err);

/* Where and how a role is asked for. */
struct aws_role {
    const char *arn, *session, *external_id, *duration; /* but for arn, "" will do */
    const char *region, *endpoint;                      /* "": AWS's */
};

/* aws_role.c: by the token in `token_file`, which is read anew each time; or signed with `with`. */
MUST_USE enum status aws_role_by_token(const struct aws_role *role, const char *token_file,
                                       const struct store_settings *settings,
                                       struct credentials *credentials, struct error *err);
MUST_USE enum status aws_role_assume(const struct aws_role *role, const struct credentials *with,
                                     const struct store_settings *settings,
                                     struct credentials *credentials, struct error *err);

/* aws_login.c: by the token of `aws sso login`; `session` is "" or the sso-session's name. */
MUST_USE enum status aws_sso(const struct aws_profile *profile,
                             const struct store_settings *settings, struct credentials *credentials,
                             struct error *err);

/* aws_login.c: runs a program, without a shell. After `limit_s`, or if it writes too much, it is
 * killed with its process group. */
enum { AWS_PROGRAM_S = 60 };
MUST_USE enum status aws_program(const char *command, uint32_t limit_s,
                                 struct credentials *credentials, struct error *err);

/* aws_metadata.c: asks the endpoint that the environment names, or the instance's. Sets keys, token
 * and expiry. IO: no answer, another answer than expected, or a token file that cannot be read.
 * INVALID: a variable has no url that url_parse() takes; AWS_CONTAINER_CREDENTIALS_FULL_URI is
 * neither https, nor on this machine, nor a container's endpoint. AWS_EC2_METADATA_SERVICE_ENDPOINT
 * may be any host. */
MUST_USE enum status aws_metadata(struct credentials *credentials, struct error *err);

/* aws_metadata.c: takes keys, token and expiry out of a document; `token` is that member's name. */
bool aws_take(struct json_object *root, const char *token, struct credentials *credentials);

#endif
