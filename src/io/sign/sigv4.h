/* sigv4.h - AWS Signature Version 4: a request is signed with a secret that is not sent.
 *
 *     canonical request = method, path, query, headers, hash of the body
 *     string to sign    = time, scope, hash of the canonical request
 *     signature         = HMAC of it, with a key derived from the secret, the day and the scope
 *
 * Pure functions: the time is an argument, and nothing is kept. Whoever verifies a request signs it
 * once more and compares. The path is signed as it is sent, each segment percent-encoded once more,
 * as every service but S3 wants it. Checked by tests/unit/io/sign/test_sigv4.c against the suite
 * that AWS publishes.
 */
#ifndef TG_SIGN_SIGV4_H
#define TG_SIGN_SIGV4_H

#include <stdint.h>

#include "io/text/text_out.h"

#define SIGV4_TIME_BYTES 16      /* "20150830T123600Z" */
#define SIGV4_SIGNATURE_BYTES 64 /* hexadecimal digits */
#define SIGV4_HEADERS_MAX 16

struct sigv4_header {
    struct slice name, value; /* the name in lower case */
};

struct sigv4_request {
    struct slice method;
    struct slice target;                /* path and query, as they are sent */
    const struct sigv4_header *headers; /* those that are signed, in any order; `host` and
                                           `x-amz-date` among them */
    size_t n_headers;                   /* at most SIGV4_HEADERS_MAX */
    struct slice body_sha256;           /* 64 hexadecimal digits */
};

/* Whose key it is, and for what: the scope of a signature is the day of `time`, region, service. */
struct sigv4_scope {
    struct slice access_key, secret; /* the access key is public; the secret is never sent */
    struct slice region, service;
    char time[SIGV4_TIME_BYTES]; /* what `x-amz-date` says */
};

/* Writes a time in ms of the epoch, by the wall clock. */
void sigv4_time(int64_t wall_ms, char time[SIGV4_TIME_BYTES]);

/* The milliseconds of such a time. False: it is none. */
bool sigv4_time_read(struct slice time, int64_t *wall_ms);

/* The hash of a body in pieces, in hexadecimal digits. False: OpenSSL has no memory. */
bool sigv4_hash(const struct slice *pieces, size_t n, char digits[64]);

/* The signature, in hexadecimal digits. False: no memory. */
bool sigv4_sign(const struct sigv4_request *request, const struct sigv4_scope *scope,
                char signature[SIGV4_SIGNATURE_BYTES]);

/* Appends what `authorization` says. False: no memory. */
bool sigv4_authorization(const struct sigv4_request *request, const struct sigv4_scope *scope,
                         struct text_out *out);

/* Appends the canonical request: for tests, and to see what was signed. */
void sigv4_canonical(const struct sigv4_request *request, struct text_out *out);

/* What an `authorization` header says, in slices of it. */
struct sigv4_claim {
    struct slice access_key, date, region, service;
    struct slice signed_headers; /* "host;x-amz-date" */
    struct slice signature;
};

/* False: it is no such header. */
bool sigv4_read(struct slice authorization, struct sigv4_claim *claim);

#endif
