/* jwt_check.c - the checks of a caller's token. See jwt_check.h.
 *
 * In the order in which they cost an attacker most and us least: form, algorithm, key, signature;
 * then the claims, whose bytes are somebody's word only from there on.
 */
#include "server/tenancy/jwt_check.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/base64url.h"
#include "lib/core/num.h"
#include "server/tenancy/jwt_internal.h"

const char *jwt_verdict_text(enum jwt_verdict verdict)
{
    static const char *const texts[] = {
        [JWT_GOOD] = "it is good",
        [JWT_MALFORMED] = "it is malformed",
        [JWT_ALGORITHM] = "its algorithm is not allowed",
        [JWT_UNKNOWN_KEY] = "no key of its issuer has the id that it names",
        [JWT_SIGNATURE] = "its signature does not match",
        [JWT_ISSUER] = "its issuer (iss) is another one",
        [JWT_AUDIENCE] = "its audience (aud) is another one",
        [JWT_EXPIRED] = "it has expired (exp)",
        [JWT_NOT_YET] = "it is not valid yet (nbf, iat)",
        [JWT_NO_EXPIRY] = "it never expires: exp is missing",
        [JWT_NO_CLAIM] = "the claim that names the tenant or the user is missing or no text",
        [JWT_NO_MEMORY] = "no memory to check it",
    };

    assert((size_t)verdict < sizeof texts / sizeof texts[0]);
    return texts[verdict];
}

bool jwt_has_form(struct slice credential)
{
    struct jwt_parts parts;

    return credential.n > 2 && memcmp(credential.at, "ey", 2) == 0 && jwt_split(credential, &parts);
}

/* Decodes a part into `room` bytes, and begins it as a JSON object. */
static bool open_part(struct slice part, struct json_reader *reader, char *room, size_t room_bytes)
{
    struct json_value root;
    size_t n;

    return base64url_read(part, (uint8_t *)room, room_bytes - JSON_PADDING, &n) &&
           json_begin(reader, room, n, room_bytes, &root) && root.kind == JSON_OBJECT &&
           json_enter(reader);
}

/* ---- the header ---- */

static bool read_header(struct json_reader *reader, struct json_text *algorithm,
                        struct json_text *id)
{
    struct json_text name;
    struct json_value value;
    bool good = true;

    *algorithm = *id = (struct json_text){"", 0};
    while (json_next(reader, &name, &value)) {
        if (json_text_is(name, "alg") || json_text_is(name, "kid")) {
            good &= value.kind == JSON_STRING;
            if (value.kind == JSON_STRING)
                *(name.bytes[0] == 'a' ? algorithm : id) = value.string;
        }
        /* Extensions that have to be understood: none is. And a payload that is not encoded. */
        good &= !json_text_is(name, "crit") && !json_text_is(name, "b64");
    }
    return json_end(reader) && good && algorithm->size > 0;
}

static const struct jwt_key *find_key(const struct jwt_keys *keys, struct json_text id,
                                      enum jwt_algorithm algorithm)
{
    const struct jwt_key *only = NULL;
    size_t n = 0;

    for (size_t i = 0; i < keys->n; i++) {
        const struct jwt_key *key = &keys->keys[i];
        if ((key->algorithms & 1u << algorithm) == 0)
            continue;
        if (id.size > 0 && key->id_bytes == id.size && memcmp(key->id, id.bytes, id.size) == 0)
            return key;
        only = key;
        n++;
    }
    return id.size == 0 && n == 1 ? only : NULL; /* who names no key means the only one */
}

/* ---- the claims ---- */

struct read_claims {
    bool issuer, audience;
    bool has_expiry, has_start, has_issue;
    bool has_tenant, has_user;
    bool malformed;
    double expiry, start, issue; /* seconds since 1970; fractions are allowed */
};

static bool read_audience(struct json_reader *reader, const struct json_value *value,
                          const char *wanted)
{
    struct json_text none;
    struct json_value item;
    bool found = false;

    if (value->kind == JSON_STRING)
        return json_text_is(value->string, wanted);
    if (value->kind == JSON_ARRAY && json_enter(reader))
        while (json_next(reader, &none, &item))
            found |= item.kind == JSON_STRING && json_text_is(item.string, wanted);
    return found;
}

static bool read_time(const struct json_value *value, double *seconds)
{
    if (value->kind == JSON_INTEGER)
        *seconds = (double)value->integer;
    else if (value->kind == JSON_DOUBLE)
        *seconds = value->real;
    else
        return false;
    return *seconds >= 0 && *seconds < 1e12;
}

/* A name: no controls, which could make two lines of one in a log. */
static bool read_name(const struct json_value *value, char name[JWT_CLAIM_MAX + 1])
{
    if (value->kind != JSON_STRING || value->string.size == 0 || value->string.size > JWT_CLAIM_MAX)
        return false;
    for (size_t i = 0; i < value->string.size; i++)
        if ((unsigned char)value->string.bytes[i] < ' ' || value->string.bytes[i] == 127)
            return false;
    memcpy(name, value->string.bytes, value->string.size);
    name[value->string.size] = 0;
    return true;
}

static void read_claim(struct json_reader *reader, const struct jwt_terms *terms,
                       struct json_text name, const struct json_value *value,
                       struct read_claims *read, struct jwt_claims *claims)
{
    /* One claim may serve twice: a tenant's name and its user's. */
    if (json_text_is(name, terms->tenant_claim))
        read->has_tenant = read_name(value, claims->tenant);
    if (terms->user_claim != NULL && json_text_is(name, terms->user_claim))
        read->has_user = read_name(value, claims->user);
    if (json_text_is(name, "iss"))
        read->issuer = value->kind == JSON_STRING && json_text_is(value->string, terms->issuer);
    else if (json_text_is(name, "aud") && terms->audience != NULL)
        read->audience = read_audience(reader, value, terms->audience);
    else if (json_text_is(name, "exp"))
        read->malformed |= !(read->has_expiry = read_time(value, &read->expiry));
    else if (json_text_is(name, "nbf"))
        read->malformed |= !(read->has_start = read_time(value, &read->start));
    else if (json_text_is(name, "iat"))
        read->malformed |= !(read->has_issue = read_time(value, &read->issue));
}

static enum jwt_verdict judge_claims(const struct jwt_terms *terms, const struct read_claims *read,
                                     tg_ms wall_now, struct jwt_claims *claims)
{
    double now = (double)wall_now, leeway = (double)terms->leeway;

    if (read->malformed)
        return JWT_MALFORMED;
    if (!read->issuer)
        return JWT_ISSUER;
    if (terms->audience != NULL && !read->audience)
        return JWT_AUDIENCE;
    if (!read->has_expiry)
        return JWT_NO_EXPIRY;
    if (now >= read->expiry * 1000 + leeway)
        return JWT_EXPIRED;
    if ((read->has_start && now + leeway < read->start * 1000) ||
        (read->has_issue && now + leeway < read->issue * 1000))
        return JWT_NOT_YET;
    if (!read->has_tenant || (terms->user_claim != NULL && !read->has_user))
        return JWT_NO_CLAIM;
    claims->expires_at = (tg_ms)(read->expiry * 1000 + leeway);
    return JWT_GOOD;
}

/* `room` takes the decoded parts, one after the other. */
static enum jwt_verdict check(const struct jwt_keys *keys, const struct jwt_terms *terms,
                              struct json_reader *reader, const struct jwt_parts *parts,
                              tg_ms wall_now, char *room, struct jwt_claims *claims)
{
    const size_t bytes = JWT_BYTES_MAX + JSON_PADDING;
    struct json_text algorithm_name, id, name;
    struct read_claims read = {0};
    struct json_value value;
    int algorithm = 0;

    if (!open_part(parts->header, reader, room, bytes) ||
        !read_header(reader, &algorithm_name, &id))
        return JWT_MALFORMED;
    while (algorithm < JWT_ALGORITHMS &&
           !json_text_is(algorithm_name, jwt_algorithm_names[algorithm]))
        algorithm++;
    if (algorithm == JWT_ALGORITHMS || (terms->algorithms & 1u << algorithm) == 0)
        return JWT_ALGORITHM;
    const struct jwt_key *key = find_key(keys, id, (enum jwt_algorithm)algorithm);
    if (key == NULL)
        return JWT_UNKNOWN_KEY;
    if (!jwt_is_signed_by(parts, (enum jwt_algorithm)algorithm, key->key))
        return JWT_SIGNATURE;
    if (!open_part(parts->claims, reader, room, bytes))
        return JWT_MALFORMED;
    while (json_next(reader, &name, &value))
        read_claim(reader, terms, name, &value, &read, claims);
    if (!json_end(reader)) /* a claim that is there twice, among others */
        return JWT_MALFORMED;
    return judge_claims(terms, &read, wall_now, claims);
}

enum jwt_verdict jwt_check(const struct jwt_keys *keys, const struct jwt_terms *terms,
                           struct json_reader *reader, struct slice token, tg_ms wall_now,
                           struct jwt_claims *claims)
{
    enum jwt_verdict verdict;
    struct jwt_parts parts;

    claims->tenant[0] = claims->user[0] = 0;
    claims->expires_at = 0;
    if (token.n > JWT_BYTES_MAX || !jwt_split(token, &parts))
        return JWT_MALFORMED;
    char *room = malloc(JWT_BYTES_MAX + JSON_PADDING);
    if (room == NULL)
        return JWT_NO_MEMORY;
    verdict = check(keys, terms, reader, &parts, wall_now, room, claims);
    free(room);
    ERR_clear_error(); /* what failed here is nothing that a TLS connection should find */
    return verdict;
}
