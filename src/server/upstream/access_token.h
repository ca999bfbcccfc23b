/* access_token.h - the token that a service account is given, for the calls of its key.
 *
 *     control thread:  token_fetch_tick() ---> POST token_uri ---> access_token_set(), _failed()
 *     worker:          access_token_take() ---> the text, or a place among those who wait
 *
 * It is fetched when it is first known, and renewed ahead of its end, so that calls wait for it
 * only where a gateway has just started, or its token could not be renewed in time. While fetching
 * fails nobody waits: a call is told at once.
 *
 * From any thread, but for what belongs to the control thread.
 */
#ifndef TG_UPSTREAM_ACCESS_TOKEN_H
#define TG_UPSTREAM_ACCESS_TOKEN_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "io/http/http_fetch.h"
#include "io/net/loop.h"
#include "server/config/config.h"

#define ACCESS_TOKEN_MAX 8000 /* bytes: what a header may carry */

struct access_token;
struct control;

/* A place among those who wait. All zero: none. */
struct access_wait {
    struct access_token *token; /* null: it waits for none */
    struct net_loop *loop;      /* where `woken` is posted, once, when there is a token or none can
                                   be had; null: it has been */
    struct net_post *woken;
    LIST_ENTRY(access_wait) link;
};

enum access_answer {
    ACCESS_READY,   /* the text was copied */
    ACCESS_WAITING, /* `woken` will be posted */
    ACCESS_NONE,    /* fetching one has failed, and will be tried again later */
};

/* One for an account, as the key has it; `provider` and `key` are for messages. Everything is
 * copied. Made with one reference. Null: no memory, or `problem` says what. */
struct access_token *access_token_new(const struct config_provider *provider,
                                      const struct config_provider_key *key,
                                      struct tg_problem *problem);
struct access_token *access_token_ref(struct access_token *token);

/* The last one is given back on the control thread, or when there are no threads. */
void access_token_unref(struct access_token *token);

/* Whether it is the token of that key. */
bool access_token_is_of(const struct access_token *token, const struct config_provider *provider,
                        const struct config_provider_key *key);

/* The text that is good at this time; `text` may be null. */
enum access_answer access_token_take(struct access_token *token, tg_ms now,
                                     char text[ACCESS_TOKEN_MAX], size_t *n);

/* The same without its text. If there is none yet, takes a place, whose loop and post are set. */
enum access_answer access_token_await(struct access_token *token, tg_ms now,
                                      struct access_wait *wait);

/* Leaves the place. It may have been woken. */
void access_token_leave(struct access_wait *wait);

/* The provider has turned it away: another one is fetched, if this one is not brand-new. */
void access_token_doubt(struct access_token *token, tg_ms now);

/* ---- for the control thread ---- */

/* Whether one is to be fetched now. */
bool access_token_is_due(struct access_token *token, tg_ms now);

void access_token_set(struct access_token *token, struct slice text, tg_ms now, tg_ms lives_ms);
void access_token_failed(struct access_token *token, tg_ms now);

/* What token_fetch.c keeps here. */
struct access_fetch {
    struct http_fetch fetch;
    struct http_origin *origin;
    struct control *control;
    char reply[16 * 1024];
    char who[160]; /* "provider/key" */
    char *path, *audience, *email, *key_id, *private_key;
    size_t private_key_n;
};
struct access_fetch *access_token_fetch(struct access_token *token);

#endif
