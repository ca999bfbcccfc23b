/* token_fetch.c - fetches the tokens of service accounts: see token_fetch.h.
 *
 * RFC 7523: a JWT that the account's key has signed is exchanged for a token. Why that failed is
 * logged once for each failure: the status, and what an error of OAuth says of itself. Neither the
 * JWT nor the key nor a token is in any message.
 */
#include "server/runtime/token_fetch.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "io/sign/jwt.h"
#include "io/text/json_member.h"
#include "io/text/json_read.h"
#include "io/text/json_write.h"
#include "server/obs/log.h"
#include "server/runtime/generation.h"
#include "server/upstream/access_token.h"

#define SCOPE "https://www.googleapis.com/auth/cloud-platform"

enum {
    LIFE_S = 3600, /* how long the JWT is good, and the most that is granted */
    LEAST_S = 2,   /* a shorter life is taken for a mistake */
};

static const struct http_timeouts TIMEOUTS = {
    .connect = 5000, .first_byte = 10000, .idle = 10000, .total = 15000};

/* ---- The answer ---- */

struct answer {
    char text[ACCESS_TOKEN_MAX];
    size_t n;
    int64_t expires_s;
    char error[64], description[160];
};

static void token_fetch_keep(struct json_text from, char *to, size_t size)
{
    size_t n = from.size < size - 1 ? from.size : size - 1;

    memcpy(to, from.bytes, n);
    to[n] = '\0';
}

static bool read_answer(const struct access_fetch *fetch, struct answer *answer)
{
    struct json_reader *json = json_reader_new();
    struct json_text key;
    struct json_value value;

    memset(answer, 0, sizeof *answer);
    if (json == NULL)
        return false;
    if (json_begin(json, fetch->reply, fetch->fetch.n, fetch->fetch.n, &value) &&
        value.kind == JSON_OBJECT && json_enter(json))
        while (json_next(json, &key, &value)) {
            bool text = value.kind == JSON_STRING;
            if (text && json_text_is(key, "access_token") &&
                value.string.size < sizeof answer->text) {
                token_fetch_keep(value.string, answer->text, sizeof answer->text);
                answer->n = value.string.size;
            } else if (value.kind == JSON_INTEGER && json_text_is(key, "expires_in")) {
                answer->expires_s = value.integer;
            } else if (text && json_text_is(key, "error")) {
                token_fetch_keep(value.string, answer->error, sizeof answer->error);
            } else if (text && json_text_is(key, "error_description")) {
                token_fetch_keep(value.string, answer->description, sizeof answer->description);
            }
        }
    bool good = json_end(json);
    json_reader_free(json);
    return good;
}

/* What cannot stand in a header would end one if it got there. */
static bool is_sendable(const struct answer *answer)
{
    for (size_t i = 0; i < answer->n; i++)
        if (answer->text[i] <= ' ' || answer->text[i] > '~')
            return false;
    return answer->n > 0;
}

static void token_fetch_fail(struct access_token *token, const char *why)
{
    struct access_fetch *fetch = access_token_fetch(token);
    const struct log_field fields[] = {LOG_TEXT("key", fetch->who), LOG_TEXT("cause", why)};
    struct log *log = fetch->control->gateway->log;

    if (log != NULL)
        log_event(log, LOG_ERROR, "no access token for a service account", fields,
                  sizeof fields / sizeof fields[0]);
    access_token_failed(token, net_loop_now(fetch->control->loop));
}

static void token_fetch_on_answer(struct access_token *token)
{
    struct access_fetch *fetch = access_token_fetch(token);
    int status = fetch->fetch.status;
    struct answer answer;
    char why[320];

    bool good = read_answer(fetch, &answer);
    if (status == 200 && good && is_sendable(&answer) && answer.expires_s >= LEAST_S) {
        access_token_set(token, (struct slice){answer.text, answer.n},
                         net_loop_now(fetch->control->loop),
                         (answer.expires_s < 2 * LIFE_S ? answer.expires_s : 2 * LIFE_S) * 1000);
    } else {
        snprintf(why, sizeof why, "%.60s answered %d%s%s%s%s", fetch->audience, status,
                 answer.error[0] != '\0' ? ": " : "", answer.error,
                 answer.description[0] != '\0' ? ": " : "", answer.description);
        token_fetch_fail(token, status == 200 ? "the answer has no usable token" : why);
    }
    OPENSSL_cleanse(&answer, sizeof answer);
    OPENSSL_cleanse(fetch->reply, fetch->fetch.n);
}

static void token_fetch_on_done(struct http_fetch *fetch)
{
    char cause[256];

    if (fetch->answered) {
        token_fetch_on_answer(fetch->owner);
        return;
    }
    snprintf(cause, sizeof cause, "%s%s%s", http_why_text(fetch->why),
             fetch->text[0] != '\0' ? ": " : "", fetch->text);
    token_fetch_fail(fetch->owner, cause);
}

/* ---- The request ---- */

static void write_claims(const struct access_fetch *fetch, int64_t now_s, struct json_writer *out)
{
    const char *audience = fetch->audience;

    json_write_object(out);
    json_member_text(out, "iss", fetch->email);
    json_member_text(out, "scope", SCOPE);
    json_member_text(out, "aud", audience);
    json_member_number(out, "iat", now_s);
    json_member_number(out, "exp", now_s + LIFE_S);
    json_write_object_end(out);
}

static bool write_form(const struct access_fetch *fetch, int64_t now_s, struct text_out *form)
{
    struct json_writer header, claims;

    json_writer_init(&header);
    json_writer_init(&claims);
    json_write_object(&header);
    json_write_key(&header, "alg");
    json_write_string(&header, "RS256", 5);
    json_write_key(&header, "typ");
    json_write_string(&header, "JWT", 3);
    if (fetch->key_id != NULL) {
        json_member_text(&header, "kid", fetch->key_id);
    }
    json_write_object_end(&header);
    write_claims(fetch, now_s, &claims);
    text_out_text(form, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
                        "&assertion=");
    bool fine = !header.text.failed && !claims.text.failed &&
                jwt_sign((struct slice){fetch->private_key, fetch->private_key_n},
                         text_out_written(&header.text), text_out_written(&claims.text), form);
    json_writer_fini(&header);
    json_writer_fini(&claims);
    return fine;
}

static void token_fetch_send(struct control *control, struct access_token *token)
{
    struct access_fetch *fetch = access_token_fetch(token);
    tg_ms wall = clock_wall_of(&control->gateway->clock, net_loop_now(control->loop));
    struct http_field fields[] = {
        {SLICE("content-type"), SLICE("application/x-www-form-urlencoded")},
        {SLICE("accept"), SLICE("application/json")},
        {SLICE("accept-encoding"), SLICE("identity")},
    };
    struct text_out form = {0};

    bool sent = false;

    fetch->control = control;
    http_fetch_init(&fetch->fetch, token_fetch_on_done, token, fetch->reply, sizeof fetch->reply);
    if (write_form(fetch, wall / 1000, &form)) {
        struct http_head head = {.method = SLICE("POST"),
                                 .target = slice_of(fetch->path),
                                 .fields = fields,
                                 .n_fields = sizeof fields / sizeof fields[0]};
        sent = http_fetch_send(&fetch->fetch, control->client, fetch->origin, &head,
                               text_out_written(&form), &TIMEOUTS);
    }
    if (!sent)
        token_fetch_fail(token, "the request for it could not be made");
    if (form.bytes != NULL)
        OPENSSL_cleanse(form.bytes, form.capacity);
    text_out_fini(&form);
}

/* ---- All of them ---- */

void token_fetch_tick(struct control *control)
{
    const struct generation *generation = control->generation;
    tg_ms now = net_loop_now(control->loop);

    for (size_t i = 0; i < generation->n_places; i++) {
        struct access_token *token = generation->places[i].token;
        if (token != NULL && access_token_is_due(token, now))
            token_fetch_send(control, token);
    }
}

void token_fetch_stop(struct control *control)
{
    struct generation *generation;

    LIST_FOREACH(generation, &control->gateway->generations, link) {
        for (size_t i = 0; i < generation->n_places; i++) {
            struct access_token *token = generation->places[i].token;
            if (token != NULL)
                http_fetch_cancel(&access_token_fetch(token)->fetch);
        }
    }
}
