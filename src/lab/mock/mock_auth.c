/* mock_auth.c - what the mock asks of requests besides a key. See mock_auth.h.
 *
 * A signature is checked as AWS says: the request is signed once more, with the headers that the
 * client says it has signed, and the signatures are compared.
 */
#include "lab/mock/mock_auth.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/sign/jwt.h"
#include "io/sign/sigv4.h"
#include "io/text/json_read.h"

#define TOKEN_PREFIX "mock-access-token-"
#define SCOPE "https://www.googleapis.com/auth/cloud-platform"

enum { SKEW_MS = 5 * 60 * 1000 };

/* ---- The account ----------------------------------------------------------------------------- */

static char *copy_text(struct json_text text)
{
    char *copy = malloc(text.size + 1); /* no zero stands behind it, so no strndup() */

    if (copy != NULL) {
        memcpy(copy, text.bytes, text.size);
        copy[text.size] = '\0';
    }
    return copy;
}

bool mock_auth_init(struct mock_auth *auth, const struct mock_auth_options *options)
{
    struct json_reader *reader;
    struct json_text key;
    struct json_value value;

    *auth = (struct mock_auth){.options = options};
    pthread_mutex_init(&auth->lock, NULL);
    if (options->account == NULL)
        return true;
    reader = json_reader_new();
    if (reader == NULL)
        return false;
    size_t n = strlen(options->account);
    if (json_begin(reader, options->account, n, n, &value) && value.kind == JSON_OBJECT &&
        json_enter(reader))
        while (json_next(reader, &key, &value)) {
            char **to = json_text_is(key, "client_email")  ? &auth->email
                        : json_text_is(key, "private_key") ? &auth->pem
                                                           : NULL;
            if (to != NULL && value.kind == JSON_STRING)
                *to = copy_text(value.string);
        }
    bool good = json_end(reader) && auth->email != NULL && auth->pem != NULL &&
                jwt_is_key(slice_of(auth->pem));
    json_reader_free(reader);
    return good;
}

void mock_auth_fini(struct mock_auth *auth)
{
    pthread_mutex_destroy(&auth->lock);
    if (auth->pem != NULL)
        OPENSSL_cleanse(auth->pem, strlen(auth->pem));
    free(auth->email);
    free(auth->pem);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

struct claims {
    bool issuer, audience, scope;
    int64_t issued_s, ends_s;
};

static void read_claims(const struct mock_auth *auth, struct slice text, const char *address,
                        struct claims *claims)
{
    struct json_reader *reader = json_reader_new();
    struct json_text key;
    struct json_value value;

    *claims = (struct claims){.issuer = false};
    if (reader == NULL)
        return;
    if (json_begin(reader, text.at, text.n, text.n, &value) && value.kind == JSON_OBJECT &&
        json_enter(reader))
        while (json_next(reader, &key, &value)) {
            bool is_text = value.kind == JSON_STRING;
            if (is_text && json_text_is(key, "iss"))
                claims->issuer = json_text_is(value.string, auth->email);
            else if (is_text && json_text_is(key, "aud"))
                claims->audience = json_text_is(value.string, address);
            else if (is_text && json_text_is(key, "scope"))
                claims->scope = json_text_is(value.string, SCOPE);
            else if (value.kind == JSON_INTEGER && json_text_is(key, "iat"))
                claims->issued_s = value.integer;
            else if (value.kind == JSON_INTEGER && json_text_is(key, "exp"))
                claims->ends_s = value.integer;
        }
    if (!json_end(reader))
        *claims = (struct claims){.issuer = false};
    json_reader_free(reader);
}

/* What is wrong with the assertion; null: nothing. */
static const char *check_assertion(const struct mock_auth *auth, struct slice token,
                                   const char *address, int64_t now_s)
{
    struct text_out text = {0};
    struct claims claims;
    bool is_signed = jwt_verify(slice_of(auth->pem), token, &text);

    if (is_signed)
        read_claims(auth, text_out_written(&text), address, &claims);
    text_out_fini(&text);
    if (!is_signed)
        return "Invalid JWT Signature.";
    if (!claims.issuer)
        return "Invalid issuer.";
    if (!claims.audience)
        return "Invalid JWT: the audience is not this address.";
    if (!claims.scope)
        return "Invalid OAuth scope.";
    if (claims.issued_s > now_s + SKEW_MS / 1000 || claims.ends_s <= now_s ||
        claims.ends_s - claims.issued_s > 3600)
        return "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable "
               "timeframe.";
    return NULL;
}

/* The value of a field of a form, which has no escapes where it matters here. */
static struct slice find_field(struct slice form, struct slice name)
{
    for (size_t at = 0; at < form.n;) {
        const char *end = memchr(form.at + at, '&', form.n - at);
        struct slice one = {form.at + at, end != NULL ? (size_t)(end - form.at) - at : form.n - at};
        if (one.n > name.n && one.at[name.n] == '=' && memcmp(one.at, name.at, name.n) == 0)
            return (struct slice){one.at + name.n + 1, one.n - name.n - 1};
        at += one.n + 1;
    }
    return (struct slice){"", 0};
}

static int refuse_token(const char *error, const char *why, struct text_out *out)
{
    text_out_text(out, "{\"error\":");
    text_out_json(out, slice_of(error));
    text_out_text(out, ",\"error_description\":");
    text_out_json(out, slice_of(why));
    text_out_text(out, "}");
    return 400;
}

int mock_auth_token(struct mock_auth *auth, struct slice host, struct slice form, int64_t wall_ms,
                    struct text_out *out)
{
    char address[300];
    struct slice grant = find_field(form, SLICE("grant_type"));
    int64_t life_s = auth->options->token_life_s;

    if (auth->pem == NULL)
        return refuse_token("invalid_client", "there is no service account here", out);
    if (!slice_equal(grant, SLICE("urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer")) &&
        !slice_equal(grant, SLICE("urn:ietf:params:oauth:grant-type:jwt-bearer")))
        return refuse_token("unsupported_grant_type", "Invalid grant_type.", out);
    snprintf(address, sizeof address, "http://%.*s/token", (int)(host.n < 200 ? host.n : 200),
             host.at != NULL ? host.at : "");
    const char *wrong =
        check_assertion(auth, find_field(form, SLICE("assertion")), address, wall_ms / 1000);
    if (wrong != NULL)
        return refuse_token("invalid_grant", wrong, out);
    pthread_mutex_lock(&auth->lock);
    int64_t number = auth->n_tokens++;
    auth->ends_at[number % MOCK_TOKENS_KEPT] = wall_ms + life_s * 1000;
    pthread_mutex_unlock(&auth->lock);
    text_out_format(out,
                    "{\"access_token\":\"" TOKEN_PREFIX
                    "%lld\",\"expires_in\":%lld,\"token_type\":\"Bearer\"}",
                    (long long)number, (long long)life_s);
    return 200;
}

static bool is_token(struct mock_auth *auth, struct slice key, int64_t wall_ms)
{
    struct slice prefix = SLICE(TOKEN_PREFIX);
    char digits[24];

    if (key.n <= prefix.n || key.n - prefix.n >= sizeof digits ||
        memcmp(key.at, prefix.at, prefix.n) != 0)
        return false;
    snprintf(digits, sizeof digits, "%.*s", (int)(key.n - prefix.n), key.at + prefix.n);
    if (strspn(digits, "0123456789") != strlen(digits))
        return false;
    long long number = strtoll(digits, NULL, 10);
    pthread_mutex_lock(&auth->lock);
    bool good = number < auth->n_tokens && number >= auth->n_tokens - MOCK_TOKENS_KEPT &&
                wall_ms < auth->ends_at[number % MOCK_TOKENS_KEPT];
    pthread_mutex_unlock(&auth->lock);
    return good;
}

/* ---- Signatures ------------------------------------------------------------------------------ */

/* The headers that are said to be signed, as they came. False: one of them has not come, or those
 * that must be are not among them. */
static bool collect_signed(const struct http_head *head, struct slice names,
                           struct sigv4_header headers[SIGV4_HEADERS_MAX], size_t *n)
{
    bool host = false, date = false, token = false;

    *n = 0;
    while (names.n > 0) {
        const char *end = memchr(names.at, ';', names.n);
        struct slice name = {names.at, end != NULL ? (size_t)(end - names.at) : names.n};
        size_t before = *n;
        for (size_t i = 0; i < head->n_fields && *n < SIGV4_HEADERS_MAX; i++)
            if (slice_equal(head->fields[i].name, name))
                headers[(*n)++] = (struct sigv4_header){name, head->fields[i].value};
        if (*n == before || *n == SIGV4_HEADERS_MAX)
            return false;
        host |= slice_equal(name, SLICE("host"));
        date |= slice_equal(name, SLICE("x-amz-date"));
        token |= slice_equal(name, SLICE("x-amz-security-token"));
        names = end != NULL ? (struct slice){end + 1, names.n - name.n - 1} : (struct slice){"", 0};
    }
    return host && date && (token || http_find(head, SLICE("x-amz-security-token")).at == NULL);
}

static struct slice mock_auth_part(struct slice *text)
{
    const char *end = text->n > 0 ? memchr(text->at, ':', text->n) : NULL;
    struct slice part = {text->at, end != NULL ? (size_t)(end - text->at) : text->n};
    size_t past = part.n + (end != NULL);

    *text = (struct slice){text->at + past, text->n - past};
    return part;
}

static bool is_signed(const struct mock_auth *auth, const struct http_head *head, struct slice body,
                      int64_t wall_ms)
{
    struct slice known = slice_of(auth->options->aws), id = mock_auth_part(&known);
    struct slice secret = mock_auth_part(&known), time = http_find(head, SLICE("x-amz-date"));
    struct sigv4_header headers[SIGV4_HEADERS_MAX + 1];
    struct sigv4_request request = {
        .method = head->method, .target = head->target, .headers = headers};
    struct sigv4_claim claim;
    char digits[64], signature[SIGV4_SIGNATURE_BYTES];
    int64_t at;

    if (!sigv4_read(http_find(head, SLICE("authorization")), &claim) ||
        !sigv4_time_read(time, &at) || at < wall_ms - SKEW_MS || at > wall_ms + SKEW_MS ||
        !slice_equal(claim.access_key, id) ||
        !slice_equal(claim.date, (struct slice){time.at, 8}) ||
        (known.n > 0 && !slice_equal(http_find(head, SLICE("x-amz-security-token")), known)) ||
        !collect_signed(head, claim.signed_headers, headers, &request.n_headers) ||
        !sigv4_hash(&body, 1, digits))
        return false;
    request.body_sha256 = (struct slice){digits, sizeof digits};
    struct sigv4_scope scope = {
        .access_key = id, .secret = secret, .region = claim.region, .service = claim.service};
    memcpy(scope.time, time.at, sizeof scope.time);
    return sigv4_sign(&request, &scope, signature) &&
           memcmp(signature, claim.signature.at, sizeof signature) == 0;
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool has(struct slice text, struct slice part)
{
    for (size_t i = 0; i + part.n <= text.n; i++)
        if (memcmp(text.at + i, part.at, part.n) == 0)
            return true;
    return false;
}

int mock_auth_check(struct mock_auth *auth, const struct http_head *head, struct slice key,
                    struct slice body, int64_t wall_ms)
{
    if (auth->options->aws != NULL && !is_signed(auth, head, body, wall_ms))
        return 403;
    if (auth->pem != NULL && has(head->target, SLICE("/publishers/")) &&
        !is_token(auth, key, wall_ms))
        return 401;
    return 0;
}
