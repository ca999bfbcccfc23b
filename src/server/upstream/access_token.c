/* access_token.c - the token of a service account. See access_token.h. */
#include "server/upstream/access_token.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/upstream/route_origin.h"

/* A token is renewed five minutes ahead of its end, or in the last quarter of a short life; it is
 * not sent in its last ten seconds, or the last tenth. After a failure it is tried again after a
 * second, then twice as long each time. */
enum {
    AHEAD_MS = 5 * 60 * 1000,
    MARGIN_MS = 10 * 1000,
    RETRY_MS = 1000,
    RETRY_DOUBLINGS = 6,
    DOUBT_MS = 30 * 1000, /* a token that is younger is not doubted */
};

struct access_token {
    atomic_int refs;
    /* What tells it from others. */
    char *provider, *key;
    struct config_url url; /* texts are own copies */
    char *ca, *proxy;

    pthread_mutex_t lock; /* for what follows */
    char *text;           /* null: there is none */
    size_t n;
    tg_ms set_at, good_until, renew_at;
    tg_ms retry_at; /* not before that, after failures */
    unsigned failures;
    LIST_HEAD(, access_wait) waits;

    struct access_fetch fetch; /* the control thread's */
};

/* ---- Life ---- */

static void wipe(char *text, size_t n)
{
    if (text != NULL)
        OPENSSL_cleanse(text, n);
    free(text);
}

static char *copy(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static void access_token_free(struct access_token *token)
{
    struct access_fetch *fetch = &token->fetch;

    assert(LIST_EMPTY(&token->waits));
    http_fetch_cancel(&fetch->fetch);
    http_origin_unref(fetch->origin);
    wipe(token->text, token->n);
    wipe(fetch->private_key, fetch->private_key_n);
    OPENSSL_cleanse(fetch->reply, sizeof fetch->reply);
    free(fetch->path);
    free(fetch->audience);
    free(fetch->email);
    free(fetch->key_id);
    free(token->provider);
    free(token->key);
    free((char *)token->url.host);
    free((char *)token->url.path);
    free(token->ca);
    free(token->proxy);
    pthread_mutex_destroy(&token->lock);
    free(token);
}

struct access_token *access_token_new(const struct config_provider *provider,
                                      const struct config_provider_key *key,
                                      struct tg_problem *problem)
{
    const struct config_account *account = key->account;
    struct access_token *token = calloc(1, sizeof *token);

    (void)problem_fail(problem, "no memory");
    if (token == NULL)
        return NULL;
    assert(account != NULL && account->private_key.bytes != NULL);
    atomic_init(&token->refs, 1);
    pthread_mutex_init(&token->lock, NULL);
    LIST_INIT(&token->waits);
    token->provider = copy(provider->name);
    token->key = copy(key->name);
    token->url = account->token_url;
    token->url.host = copy(account->token_url.host);
    token->url.path = copy(account->token_url.path);
    token->ca = copy(provider->ca);
    token->proxy = copy(provider->proxy);
    struct access_fetch *fetch = &token->fetch;
    fetch->path = copy(account->token_url.path[0] != '\0' ? account->token_url.path : "/");
    fetch->audience = copy(account->token_uri);
    fetch->email = copy(account->email);
    fetch->key_id = copy(account->key_id);
    fetch->private_key_n = account->private_key.size;
    fetch->private_key = malloc(fetch->private_key_n);
    snprintf(fetch->who, sizeof fetch->who, "%.70s/%.70s", provider->name, key->name);
    bool fine = token->provider && token->key && token->url.host && token->url.path &&
                fetch->path && fetch->audience && fetch->email && fetch->private_key &&
                (fetch->key_id != NULL || account->key_id == NULL);
    if (fetch->private_key != NULL)
        memcpy(fetch->private_key, account->private_key.bytes, fetch->private_key_n);
    if (fine && route_origin_of(&token->url, provider, &fetch->origin, problem))
        return token;
    access_token_free(token);
    return NULL;
}

struct access_token *access_token_ref(struct access_token *token)
{
    /* Relaxed: whoever has a reference to copy knows that the token lives. */
    atomic_fetch_add_explicit(&token->refs, 1, memory_order_relaxed);
    return token;
}

void access_token_unref(struct access_token *token)
{
    /* Acquire and release: the last one sees all that others have done with it. */
    if (token != NULL && atomic_fetch_sub_explicit(&token->refs, 1, memory_order_acq_rel) == 1)
        access_token_free(token);
}

bool access_token_is_of(const struct access_token *token, const struct config_provider *provider,
                        const struct config_provider_key *key)
{
    const struct config_account *account = key->account;
    const struct access_fetch *fetch = &token->fetch;

    /* With a file of authorities it is made anew, since the file may say something else by now. */
    return account != NULL && text_same(token->provider, provider->name) &&
           text_same(token->key, key->name) && text_same(fetch->email, account->email) &&
           text_same(fetch->key_id, account->key_id) &&
           fetch->private_key_n == account->private_key.size &&
           memcmp(fetch->private_key, account->private_key.bytes, fetch->private_key_n) == 0 &&
           text_same(token->url.host, account->token_url.host) &&
           token->url.port == account->token_url.port && token->url.tls == account->token_url.tls &&
           text_same(token->url.path, account->token_url.path) &&
           text_same(token->ca, provider->ca) && text_same(token->proxy, provider->proxy) &&
           (!token->url.tls || token->ca == NULL || strcmp(token->ca, "system") == 0);
}

struct access_fetch *access_token_fetch(struct access_token *token)
{
    return &token->fetch;
}

/* ---- For calls ---- */

enum access_answer access_token_take(struct access_token *token, tg_ms now,
                                     char text[ACCESS_TOKEN_MAX], size_t *n)
{
    pthread_mutex_lock(&token->lock);
    bool good = token->text != NULL && now < token->good_until;
    if (good && text != NULL) {
        memcpy(text, token->text, token->n);
        *n = token->n;
    }
    pthread_mutex_unlock(&token->lock);
    return good ? ACCESS_READY : ACCESS_NONE;
}

enum access_answer access_token_await(struct access_token *token, tg_ms now,
                                      struct access_wait *wait)
{
    enum access_answer answer = ACCESS_NONE;

    pthread_mutex_lock(&token->lock);
    if (token->text != NULL && now < token->good_until) {
        answer = ACCESS_READY;
    } else if (token->failures == 0) {
        answer = ACCESS_WAITING;
        assert(wait->token == NULL && wait->loop != NULL);
        wait->token = access_token_ref(token);
        LIST_INSERT_HEAD(&token->waits, wait, link);
    }
    pthread_mutex_unlock(&token->lock);
    return answer;
}

/* The reference is not the last: whoever waits for a token has the generation of its key. */
void access_token_leave(struct access_wait *wait)
{
    struct access_token *token = wait->token;

    if (token == NULL)
        return;
    pthread_mutex_lock(&token->lock);
    if (wait->loop != NULL)
        LIST_REMOVE(wait, link);
    wait->loop = NULL;
    pthread_mutex_unlock(&token->lock);
    wait->token = NULL;
    access_token_unref(token);
}

void access_token_doubt(struct access_token *token, tg_ms now)
{
    pthread_mutex_lock(&token->lock);
    if (token->text != NULL && now - token->set_at >= DOUBT_MS && token->renew_at > now)
        token->renew_at = now;
    pthread_mutex_unlock(&token->lock);
}

/* ---- For the control thread ---- */

bool access_token_is_due(struct access_token *token, tg_ms now)
{
    pthread_mutex_lock(&token->lock);
    bool due = (token->text == NULL || now >= token->renew_at) && now >= token->retry_at;
    pthread_mutex_unlock(&token->lock);
    return due && !http_fetch_is_busy(&token->fetch.fetch);
}

static void wake_all(struct access_token *token)
{
    struct access_wait *wait;

    while ((wait = LIST_FIRST(&token->waits)) != NULL) {
        LIST_REMOVE(wait, link);
        net_loop_post(wait->loop, wait->woken);
        wait->loop = NULL;
    }
}

void access_token_set(struct access_token *token, struct slice text, tg_ms now, tg_ms lives_ms)
{
    char *kept = text.n > 0 && text.n <= ACCESS_TOKEN_MAX ? malloc(text.n) : NULL;

    if (kept == NULL) {
        access_token_failed(token, now);
        return;
    }
    memcpy(kept, text.at, text.n);
    pthread_mutex_lock(&token->lock);
    wipe(token->text, token->n);
    token->text = kept;
    token->n = text.n;
    token->set_at = now;
    token->good_until = num_add(now, num_max(lives_ms - MARGIN_MS, lives_ms / 10 * 9));
    token->renew_at = num_add(now, num_max(lives_ms - AHEAD_MS, lives_ms / 4 * 3));
    token->retry_at = 0;
    token->failures = 0;
    wake_all(token);
    pthread_mutex_unlock(&token->lock);
}

void access_token_failed(struct access_token *token, tg_ms now)
{
    pthread_mutex_lock(&token->lock);
    unsigned doublings = token->failures < RETRY_DOUBLINGS ? token->failures : RETRY_DOUBLINGS;
    token->failures++;
    token->retry_at = now + ((tg_ms)RETRY_MS << doublings);
    wake_all(token);
    pthread_mutex_unlock(&token->lock);
}
