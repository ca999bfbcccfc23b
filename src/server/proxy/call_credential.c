/* call_credential.c - what lets a request in at its provider. See call_credential.h.
 *
 * A signature (SigV4) is of the request as it is sent: its path, the hash of its body, and of its
 * fields `host`, `content-type`, the time and the session's token. Others may be changed on the way
 * by a proxy, and are not signed.
 */
#include "server/proxy/call_credential.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "server/upstream/access_token.h"

enum { HOST_MAX = 300 };

static void write_secret(const struct config_provider *provider,
                         const struct config_provider_key *key, struct credential *to)
{
    size_t prefix = strlen(provider->auth_prefix);

    assert(key->secret.bytes != NULL); /* the configuration requires it */
    to->n = prefix + key->secret.size;
    assert(to->n <= sizeof to->at);
    memcpy(to->at, provider->auth_prefix, prefix);
    memcpy(to->at + prefix, key->secret.bytes, key->secret.size);
}

static bool write_token(const struct call *call, struct credential *to)
{
    struct access_token *token = call->attempt.owner->place->token;
    size_t prefix = strlen("Bearer "), n;

    _Static_assert(sizeof to->at >= 7 + ACCESS_TOKEN_MAX, "a token has room behind its prefix");
    memcpy(to->at, "Bearer ", prefix);
    if (token == NULL ||
        access_token_take(token, call_now(call), to->at + prefix, &n) != ACCESS_READY)
        return false;
    to->n = prefix + n;
    return true;
}

bool credential_write(const struct call *call, struct credential *credential)
{
    const struct config_provider *provider = call_provider(call)->config;

    credential->n = 0;
    switch (provider->auth) {
    case CONFIG_AUTH_GCP:
        return write_token(call, credential);
    case CONFIG_AUTH_AWS:
        sigv4_time(call_wall(call), credential->time);
        return true;
    default:
        write_secret(provider, call->attempt.owner->config, credential);
        return true;
    }
}

bool credential_owns(const struct config_provider *provider, struct slice name)
{
    return provider->auth == CONFIG_AUTH_AWS && name.n >= 6 && memcmp(name.at, "x-amz-", 6) == 0;
}

/* ---- A signature ---- */

/* What the client of the gateway says in `Host`: see http_origin.c. */
static struct slice write_host(const struct config_url *url, char text[HOST_MAX])
{
    bool brackets = strchr(url->host, ':') != NULL;
    int n = snprintf(text, HOST_MAX, brackets ? "[%s]" : "%s", url->host);

    if (n > 0 && n < HOST_MAX && url->port != (url->tls ? 443 : 80))
        n += snprintf(text + n, HOST_MAX - (size_t)n, ":%d", url->port);
    return (struct slice){text, n > 0 && n < HOST_MAX ? (size_t)n : 0};
}

/* The only field of that name; n 0: there is none, or several. */
static struct slice find_only(const struct http_fields *fields, struct slice name)
{
    struct slice found = {"", 0};
    size_t n = 0;

    for (size_t i = 0; i < fields->n; i++)
        if (slice_equal(fields->list[i].name, name)) {
            found = fields->list[i].value;
            n++;
        }
    return n == 1 ? found : (struct slice){"", 0};
}

static bool sign(const struct call *call, struct credential *credential, struct slice target,
                 const struct slice *pieces, size_t n, const struct http_fields *fields)
{
    const struct config_provider *provider = call_provider(call)->config;
    const struct config_provider_key *key = call->attempt.owner->config;
    struct slice time = {credential->time, sizeof credential->time};
    struct slice type = find_only(fields, SLICE("content-type"));
    char host[HOST_MAX], digits[64];
    struct sigv4_header headers[4] = {
        {SLICE("host"), write_host(call->attempt.owner->place->base, host)},
        {SLICE("x-amz-date"), time},
    };
    struct sigv4_request request = {.method = call->in->head.method,
                                    .target = target,
                                    .headers = headers,
                                    .n_headers = 2,
                                    .body_sha256 = {digits, sizeof digits}};
    struct sigv4_scope scope = {.access_key = slice_of(key->access_key),
                                .secret = {key->secret.bytes, key->secret.size},
                                .region = slice_of(provider->region),
                                .service = slice_of(provider->service)};
    struct text_out out;

    if (type.n > 0)
        headers[request.n_headers++] = (struct sigv4_header){SLICE("content-type"), type};
    if (key->session_token.size > 0)
        headers[request.n_headers++] = (struct sigv4_header){
            SLICE("x-amz-security-token"), {key->session_token.bytes, key->session_token.size}};
    memcpy(scope.time, credential->time, sizeof scope.time);
    text_out_fixed(&out, credential->at, sizeof credential->at);
    if (headers[0].value.n == 0 || !sigv4_hash(pieces, n, digits) ||
        !sigv4_authorization(&request, &scope, &out))
        return false;
    credential->n = out.size;
    return true;
}

bool credential_add(const struct call *call, struct credential *credential, struct slice target,
                    const struct slice *pieces, size_t n, struct http_fields *fields)
{
    const struct config_provider *provider = call_provider(call)->config;
    const struct config_provider_key *key = call->attempt.owner->config;

    if (provider->auth == CONFIG_AUTH_AWS) {
        if (!sign(call, credential, target, pieces, n, fields))
            return false;
        http_fields_add(fields, SLICE("x-amz-date"),
                        (struct slice){credential->time, sizeof credential->time});
        if (key->session_token.size > 0)
            http_fields_add(fields, SLICE("x-amz-security-token"),
                            (struct slice){key->session_token.bytes, key->session_token.size});
    }
    return http_fields_add(fields, slice_of(provider->auth_header),
                           (struct slice){credential->at, credential->n});
}

void credential_wipe(struct credential *credential)
{
    OPENSSL_cleanse(credential->at, credential->n); /* a byte at a time: not all the room */
}
