/* sigv4.c - AWS Signature Version 4. See sigv4.h. */
#include "io/sign/sigv4.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS_MAX = 64, SEGMENTS_MAX = 256 };

static const char ALGORITHM[] = "AWS4-HMAC-SHA256";

/* ---- The time -------------------------------------------------------------------------------- */

void sigv4_time(int64_t wall_ms, char time[SIGV4_TIME_BYTES])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    char text[32];
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL || strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &tm) == 0)
        memset(text, '0', sizeof text);
    memcpy(time, text, SIGV4_TIME_BYTES);
}

/* Days of the epoch, of a date of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = y / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool sigv4_time_read(struct slice time, int64_t *wall_ms)
{
    static const char form[] = "ddddddddTddddddZ";
    int digits[SIGV4_TIME_BYTES];

    if (time.n != SIGV4_TIME_BYTES)
        return false;
    for (size_t i = 0; i < SIGV4_TIME_BYTES; i++) {
        bool digit = time.at[i] >= '0' && time.at[i] <= '9';
        if (form[i] == 'd' ? !digit : time.at[i] != form[i])
            return false;
        digits[i] = time.at[i] - '0';
    }
    const int *d = digits;
    int64_t days =
        days_of(d[0] * 1000 + d[1] * 100 + d[2] * 10 + d[3], d[4] * 10 + d[5], d[6] * 10 + d[7]);
    int64_t seconds = (d[9] * 10 + d[10]) * 3600 + (d[11] * 10 + d[12]) * 60 + d[13] * 10 + d[14];
    *wall_ms = (days * 86400 + seconds) * 1000;
    return true;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

static bool is_plain(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/* `escaped`: what is percent-encoded already stays as it is. */
static void put_encoded(struct text_out *out, struct slice text, bool escaped)
{
    for (size_t i = 0; i < text.n; i++)
        if (is_plain(text.at[i]) || (escaped && text.at[i] == '%' && text.n - i > 2 &&
                                     is_hex(text.at[i + 1]) && is_hex(text.at[i + 2]))) {
            size_t n = text.at[i] == '%' ? 3 : 1;
            text_out_put(out, text.at + i, n);
            i += n - 1;
        } else {
            char digits[4];
            snprintf(digits, sizeof digits, "%%%02X", (unsigned)(unsigned char)text.at[i]);
            text_out_put(out, digits, 3);
        }
}

/* ---- The canonical request ------------------------------------------------------------------- */

/* Without empty segments, "." and "..". A path that is too long in segments stays as it is. */
static void put_path(struct text_out *out, struct slice path)
{
    struct slice segments[SEGMENTS_MAX];
    size_t n = 0;

    for (size_t at = 0; at < path.n;) {
        const char *slash = memchr(path.at + at, '/', path.n - at);
        struct slice one = {path.at + at,
                            slash != NULL ? (size_t)(slash - path.at) - at : path.n - at};
        at += one.n + 1;
        if (slice_equal(one, SLICE("..")))
            n -= n > 0;
        else if (one.n > 0 && !slice_equal(one, SLICE(".")) && n < SEGMENTS_MAX)
            segments[n++] = one;
    }
    for (size_t i = 0; i < n; i++) {
        text_out_char(out, '/');
        put_encoded(out, segments[i], false);
    }
    if (n == 0 || (path.n > 0 && path.at[path.n - 1] == '/'))
        text_out_char(out, '/');
}

static int compare_slices(struct slice a, struct slice b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.at, b.at, n) : 0;

    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

struct pair {
    size_t name_at, value_at; /* where they begin in what was encoded */
    struct slice name, value;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = compare_slices(x->name, y->name);

    return order != 0 ? order : compare_slices(x->value, y->value);
}

/* Where the encoded text of a part of the query is in `room`, and how long. */
static size_t encode_part(struct text_out *room, struct slice text, size_t *n)
{
    size_t at = room->size;

    put_encoded(room, text, true);
    *n = room->size - at;
    return at;
}

/* By name and then by value, both encoded. What is in `room` has no address before it has stopped
 * growing. */
static void put_query(struct text_out *out, struct slice query)
{
    struct text_out room = {0};
    struct pair pairs[PAIRS_MAX];
    size_t n = 0;

    for (size_t at = 0; at < query.n && n < PAIRS_MAX;) {
        const char *end = memchr(query.at + at, '&', query.n - at);
        struct slice one = {query.at + at,
                            end != NULL ? (size_t)(end - query.at) - at : query.n - at};
        const char *equal = one.n > 0 ? memchr(one.at, '=', one.n) : NULL;
        size_t name = equal != NULL ? (size_t)(equal - one.at) : one.n;
        at += one.n + 1;
        if (one.n == 0)
            continue;
        struct pair *pair = &pairs[n++];
        struct slice value = {one.at + name, 0};
        if (equal != NULL)
            value = (struct slice){equal + 1, one.n - name - 1};
        pair->name_at = encode_part(&room, (struct slice){one.at, name}, &pair->name.n);
        pair->value_at = encode_part(&room, value, &pair->value.n);
    }
    out->failed |= room.failed;
    for (size_t i = 0; i < n && !room.failed; i++) {
        pairs[i].name.at = room.bytes + pairs[i].name_at;
        pairs[i].value.at = room.bytes + pairs[i].value_at;
    }
    if (!room.failed && n > 0)
        qsort(pairs, n, sizeof pairs[0], compare_pairs);
    for (size_t i = 0; i < n && !room.failed; i++) {
        if (i > 0)
            text_out_char(out, '&');
        text_out_slice(out, pairs[i].name);
        text_out_char(out, '=');
        text_out_slice(out, pairs[i].value);
    }
    text_out_fini(&room);
}

/* Without blanks around it, and runs of them as one. */
static void put_value(struct text_out *out, struct slice value)
{
    bool blank = false, any = false;

    for (size_t i = 0; i < value.n; i++) {
        if (value.at[i] == ' ' || value.at[i] == '\t') {
            blank = any;
            continue;
        }
        if (blank)
            text_out_char(out, ' ');
        text_out_char(out, value.at[i]);
        blank = false;
        any = true;
    }
}

/* The order of their names; of one name, that in which they are sent. */
static size_t sort_headers(const struct sigv4_request *request,
                           const struct sigv4_header *sorted[SIGV4_HEADERS_MAX])
{
    size_t n = 0;

    assert(request->n_headers <= SIGV4_HEADERS_MAX);
    for (size_t i = 0; i < request->n_headers; i++) {
        const struct sigv4_header *header = &request->headers[i];
        size_t at = n++;
        for (; at > 0 && compare_slices(sorted[at - 1]->name, header->name) > 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = header;
    }
    return n;
}

/* The names, each once, with ";" between them. */
static void put_names(struct text_out *out, const struct sigv4_header *const *sorted, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && slice_equal(sorted[i - 1]->name, sorted[i]->name))
            continue;
        if (i > 0)
            text_out_char(out, ';');
        text_out_slice(out, sorted[i]->name);
    }
}

void sigv4_canonical(const struct sigv4_request *request, struct text_out *out)
{
    const struct sigv4_header *sorted[SIGV4_HEADERS_MAX];
    const char *mark =
        request->target.n > 0 ? memchr(request->target.at, '?', request->target.n) : NULL;
    size_t path = mark != NULL ? (size_t)(mark - request->target.at) : request->target.n;
    size_t n = sort_headers(request, sorted);

    text_out_slice(out, request->method);
    text_out_char(out, '\n');
    put_path(out, (struct slice){request->target.at, path});
    text_out_char(out, '\n');
    if (mark != NULL)
        put_query(out, (struct slice){mark + 1, request->target.n - path - 1});
    for (size_t i = 0; i < n; i++) {
        bool more = i > 0 && slice_equal(sorted[i - 1]->name, sorted[i]->name);
        text_out_char(out, more ? ',' : '\n');
        if (!more) {
            text_out_slice(out, sorted[i]->name);
            text_out_char(out, ':');
        }
        put_value(out, sorted[i]->value);
    }
    text_out_text(out, "\n\n");
    put_names(out, sorted, n);
    text_out_char(out, '\n');
    text_out_slice(out, request->body_sha256);
}

/* ---- The signature --------------------------------------------------------------------------- */

static void put_digits(const unsigned char hash[SHA256_DIGEST_LENGTH], char digits[64])
{
    struct text_out out;

    text_out_fixed(&out, digits, 64);
    text_out_hex(&out, hash, SHA256_DIGEST_LENGTH);
}

bool sigv4_hash(const struct slice *pieces, size_t n, char digits[64])
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    bool fine = digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; i < n && fine; i++)
        fine = EVP_DigestUpdate(digest, pieces[i].at, pieces[i].n) == 1;
    fine = fine && EVP_DigestFinal_ex(digest, hash, NULL) == 1;
    EVP_MD_CTX_free(digest);
    if (fine)
        put_digits(hash, digits);
    return fine;
}

static bool sigv4_hmac(const unsigned char *key, size_t key_n, struct slice text,
                       unsigned char hash[SHA256_DIGEST_LENGTH])
{
    return HMAC(EVP_sha256(), key, (int)key_n, (const unsigned char *)text.at, text.n, hash,
                NULL) != NULL;
}

/* The key of a day, a region and a service. */
static bool derive_key(const struct sigv4_scope *scope, unsigned char key[SHA256_DIGEST_LENGTH])
{
    const struct slice steps[] = {
        {scope->time, 8}, scope->region, scope->service, SLICE("aws4_request")};
    struct text_out secret = {0};

    text_out_text(&secret, "AWS4");
    text_out_slice(&secret, scope->secret);
    bool fine = !secret.failed &&
                sigv4_hmac((const unsigned char *)secret.bytes, secret.size, steps[0], key);
    if (secret.bytes != NULL)
        OPENSSL_cleanse(secret.bytes, secret.capacity);
    text_out_fini(&secret);
    for (size_t i = 1; i < sizeof steps / sizeof steps[0] && fine; i++) {
        unsigned char next[SHA256_DIGEST_LENGTH];
        fine = sigv4_hmac(key, SHA256_DIGEST_LENGTH, steps[i], next);
        memcpy(key, next, SHA256_DIGEST_LENGTH);
        OPENSSL_cleanse(next, sizeof next);
    }
    return fine;
}

static void put_scope(struct text_out *out, const struct sigv4_scope *scope)
{
    text_out_put(out, scope->time, 8);
    text_out_char(out, '/');
    text_out_slice(out, scope->region);
    text_out_char(out, '/');
    text_out_slice(out, scope->service);
    text_out_text(out, "/aws4_request");
}

bool sigv4_sign(const struct sigv4_request *request, const struct sigv4_scope *scope,
                char signature[SIGV4_SIGNATURE_BYTES])
{
    unsigned char key[SHA256_DIGEST_LENGTH], hash[SHA256_DIGEST_LENGTH];
    struct text_out text = {0};
    char digits[64];

    sigv4_canonical(request, &text);
    struct slice canonical = text_out_written(&text);
    bool fine = !text.failed && sigv4_hash(&canonical, 1, digits);
    text_out_clear(&text);
    text_out_text(&text, ALGORITHM);
    text_out_char(&text, '\n');
    text_out_put(&text, scope->time, SIGV4_TIME_BYTES);
    text_out_char(&text, '\n');
    put_scope(&text, scope);
    text_out_char(&text, '\n');
    text_out_put(&text, digits, sizeof digits);
    fine = fine && !text.failed && derive_key(scope, key) &&
           sigv4_hmac(key, sizeof key, text_out_written(&text), hash);
    OPENSSL_cleanse(key, sizeof key);
    text_out_fini(&text);
    if (fine)
        put_digits(hash, signature);
    return fine;
}

bool sigv4_authorization(const struct sigv4_request *request, const struct sigv4_scope *scope,
                         struct text_out *out)
{
    const struct sigv4_header *sorted[SIGV4_HEADERS_MAX];
    char signature[SIGV4_SIGNATURE_BYTES];

    if (!sigv4_sign(request, scope, signature))
        return false;
    text_out_text(out, ALGORITHM);
    text_out_text(out, " Credential=");
    text_out_slice(out, scope->access_key);
    text_out_char(out, '/');
    put_scope(out, scope);
    text_out_text(out, ", SignedHeaders=");
    put_names(out, sorted, sort_headers(request, sorted));
    text_out_text(out, ", Signature=");
    text_out_put(out, signature, sizeof signature);
    return !out->failed;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* What stands up to the next of `end`, or to the end of the text; goes behind it. */
static struct slice take_until(struct slice *text, char end)
{
    const char *at = text->n > 0 ? memchr(text->at, end, text->n) : NULL;
    struct slice taken = {text->at, at != NULL ? (size_t)(at - text->at) : text->n};
    size_t past = taken.n + (at != NULL);

    *text = (struct slice){text->at + past, text->n - past};
    return taken;
}

static bool skip(struct slice *text, struct slice word)
{
    while (text->n > 0 && text->at[0] == ' ')
        *text = (struct slice){text->at + 1, text->n - 1};
    if (text->n < word.n || memcmp(text->at, word.at, word.n) != 0)
        return false;
    *text = (struct slice){text->at + word.n, text->n - word.n};
    return true;
}

bool sigv4_read(struct slice text, struct sigv4_claim *claim)
{
    if (!skip(&text, SLICE("AWS4-HMAC-SHA256")) || !skip(&text, SLICE("Credential=")))
        return false;
    struct slice scope = take_until(&text, ',');
    claim->access_key = take_until(&scope, '/');
    claim->date = take_until(&scope, '/');
    claim->region = take_until(&scope, '/');
    claim->service = take_until(&scope, '/');
    if (!slice_equal(scope, SLICE("aws4_request")) || !skip(&text, SLICE("SignedHeaders=")))
        return false;
    claim->signed_headers = take_until(&text, ',');
    if (!skip(&text, SLICE("Signature=")))
        return false;
    claim->signature = text;
    return claim->signature.n == SIGV4_SIGNATURE_BYTES;
}
