/* mock_auth.h - what the mock asks of requests besides a key: a signature, or an access token.
 *
 * With `aws`, every request must have a signature (SigV4) of that key over what was sent, not older
 * than five minutes. With `account`, POST /token gives access tokens to who has the service
 * account's key, and paths of Vertex AI need one that has not expired.
 */
#ifndef TG_MOCK_MOCK_AUTH_H
#define TG_MOCK_MOCK_AUTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/http/http.h"
#include "io/text/text_out.h"

#define MOCK_TOKENS_KEPT 64

struct mock_auth_options {
    const char *aws;      /* "ID:SECRET" or "ID:SECRET:SESSION_TOKEN"; null: nothing is signed */
    const char *account;  /* the JSON of a service account; null: there is none */
    int64_t token_life_s; /* how long tokens are good; default 3600 */
};

struct mock_auth {
    const struct mock_auth_options *options;
    char *email, *pem; /* who the account is, and its key */
    pthread_mutex_t lock;
    int64_t n_tokens;                  /* how many have been given */
    int64_t ends_at[MOCK_TOKENS_KEPT]; /* ms of the wall clock; by number, modulo */
};

/* False: the account is none, or there is no memory. */
bool mock_auth_init(struct mock_auth *auth, const struct mock_auth_options *options);
void mock_auth_fini(struct mock_auth *auth);

/* 0, or the status of a refusal. For a signature the whole body has to be there. */
int mock_auth_check(struct mock_auth *auth, const struct http_head *head, struct slice key,
                    struct slice body, int64_t wall_ms);

/* Answers POST /token, and says with what status. `host`: what the client calls the mock, for which
 * the assertion must be. */
int mock_auth_token(struct mock_auth *auth, struct slice host, struct slice form, int64_t wall_ms,
                    struct text_out *out);

#endif
