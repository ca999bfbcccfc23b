/* jwks.c - the keys by which tokens of callers are verified. See jwks.h.
 *
 * Workers borrow the newest keys under a lock that is held for a few instructions, and count who
 * borrows them: a check takes tens of microseconds, and a new document must not wait for it.
 */
#include "server/runtime/jwks.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/http/http_fetch.h"
#include "io/net/loop.h"
#include "lib/core/problem.h"
#include "server/obs/log.h"
#include "server/upstream/route_origin.h"

enum {
    DOCUMENT_MAX = 256 << 10,
    AGAIN_MS = 5000, /* after an attempt that came to nothing */
};

static const struct http_timeouts TIMEOUTS = {
    .connect = 5000, .first_byte = 10000, .idle = 10000, .total = 20000};

struct key_set {
    struct jwt_keys *keys;
    char issuer[160]; /* whose they are */
    size_t borrowed;  /* by checks, and once by the newest of jwks */
};

struct jwks {
    pthread_mutex_t lock;
    struct key_set *newest; /* null: there are none */
    struct jwks_state state;
    tg_ms asked_at; /* when the last fetch began; 0: never */
    bool wanted;    /* a token has named a key that is not there */

    /* For the control thread alone. */
    struct net_loop *loop;
    struct log *log; /* null: none */
    tg_ms refresh;
    struct http_origin *origin; /* null: none yet */
    char url[600];              /* where the keys are; empty: nowhere */
    char issuer[160];           /* whose they are */
    char settings[1024];        /* by which they are fetched; empty: they are not */
    struct json_reader *reader;
    struct http_fetch fetch;
    tg_ms next_at;
    bool away; /* the last attempt came to nothing, and that has been told */
    char document[DOCUMENT_MAX];
};

/* ---- keys that several threads use ---- */

static void give_back(struct jwks *keys, struct key_set *set)
{
    pthread_mutex_lock(&keys->lock);
    assert(set->borrowed > 0);
    bool last = --set->borrowed == 0;
    pthread_mutex_unlock(&keys->lock);
    if (!last)
        return;
    jwt_keys_free(set->keys);
    free(set);
}

static struct key_set *borrow(struct jwks *keys)
{
    pthread_mutex_lock(&keys->lock);
    struct key_set *set = keys->newest;
    if (set != NULL)
        set->borrowed++;
    pthread_mutex_unlock(&keys->lock);
    return set;
}

static void replace(struct jwks *keys, struct key_set *by, tg_ms now)
{
    pthread_mutex_lock(&keys->lock);
    struct key_set *old = keys->newest;
    keys->newest = by;
    keys->state.fetched_at = by != NULL ? now : 0;
    keys->state.n = by != NULL ? jwt_keys_count(by->keys) : 0;
    keys->state.fetched += by != NULL;
    pthread_mutex_unlock(&keys->lock);
    if (old != NULL)
        give_back(keys, old);
}

/* Asks for newer keys, unless they have just been asked for. False: what is there is the newest. */
static bool want_newer(struct jwks *keys, tg_ms now)
{
    pthread_mutex_lock(&keys->lock);
    bool newer = keys->wanted || now - keys->asked_at >= JWKS_PAUSE;
    keys->wanted = newer;
    pthread_mutex_unlock(&keys->lock);
    return newer;
}

enum jwks_answer jwks_check(struct jwks *keys, const struct jwt_terms *terms,
                            struct json_reader *reader, struct slice token, tg_ms now, tg_ms wall,
                            enum jwt_verdict *verdict, struct jwt_claims *claims)
{
    struct key_set *set = borrow(keys);

    if (set == NULL)
        return JWKS_AWAY;
    if (strcmp(set->issuer, terms->issuer) != 0) { /* the configuration has just changed */
        give_back(keys, set);
        return JWKS_AWAY;
    }
    *verdict = jwt_check(set->keys, terms, reader, token, wall, claims);
    give_back(keys, set);
    if (*verdict == JWT_UNKNOWN_KEY && want_newer(keys, now))
        return JWKS_AWAY;
    return JWKS_CHECKED;
}

void jwks_state(struct jwks *keys, struct jwks_state *state)
{
    pthread_mutex_lock(&keys->lock);
    *state = keys->state;
    pthread_mutex_unlock(&keys->lock);
}

/* ---- what becomes of a document ---- */

static void jwks_tell(struct jwks *keys, bool away, const char *why)
{
    struct jwks_state state;

    jwks_state(keys, &state);
    const struct log_field fields[] = {LOG_TEXT("jwks", keys->url),
                                       LOG_NUMBER("keys", (int64_t)state.n), LOG_TEXT("why", why)};
    if (keys->log != NULL && (away != keys->away || state.fetched == 1))
        log_event(keys->log, away ? LOG_WARN : LOG_INFO,
                  away ? "the keys of callers_jwt cannot be fetched"
                       : "the keys of callers_jwt have been fetched",
                  fields, away ? 3 : 2);
    keys->away = away;
}

static void came_to_nothing(struct jwks *keys, const char *why)
{
    pthread_mutex_lock(&keys->lock);
    keys->state.failed++;
    pthread_mutex_unlock(&keys->lock);
    keys->next_at = net_loop_now(keys->loop) + AGAIN_MS;
    jwks_tell(keys, true, why);
}

static void take_document(struct jwks *keys)
{
    struct key_set *set = calloc(1, sizeof *set);
    struct tg_problem problem;
    tg_ms now = net_loop_now(keys->loop);

    if (set == NULL) {
        came_to_nothing(keys, "no memory");
        return;
    }
    if (jwt_keys_read((struct slice){keys->document, keys->fetch.n}, keys->reader, &set->keys,
                      &problem) != TG_OK) {
        free(set);
        came_to_nothing(keys, problem.text);
        return;
    }
    set->borrowed = 1;
    strcpy(set->issuer, keys->issuer);
    replace(keys, set, now);
    keys->next_at = now + keys->refresh;
    jwks_tell(keys, false, "");
}

/* ---- one exchange ---- */

static void jwks_on_done(struct http_fetch *fetch)
{
    struct jwks *keys = fetch->owner;
    char why[200];

    if (fetch->answered && fetch->status == 200 && !fetch->too_long) {
        take_document(keys);
        return;
    }
    if (!fetch->answered)
        snprintf(why, sizeof why, "%.190s",
                 fetch->text[0] ? fetch->text : http_why_text(fetch->why));
    else if (fetch->too_long)
        snprintf(why, sizeof why, "the document has more than %d bytes", DOCUMENT_MAX);
    else
        snprintf(why, sizeof why, "status %d", fetch->status);
    came_to_nothing(keys, why);
}

static void jwks_fetch(struct jwks *keys, struct http_client *client, const struct config_url *url)
{
    struct http_field fields[] = {{SLICE("accept"), SLICE("application/json")},
                                  {SLICE("user-agent"), SLICE("tollgate")}};
    struct http_head head = {.method = SLICE("GET"),
                             .target = slice_of(url->path[0] ? url->path : "/"),
                             .fields = fields,
                             .n_fields = 2};

    pthread_mutex_lock(&keys->lock);
    keys->wanted = false;
    keys->asked_at = net_loop_now(keys->loop);
    pthread_mutex_unlock(&keys->lock);
    if (!http_fetch_send(&keys->fetch, client, keys->origin, &head, (struct slice){"", 0},
                         &TIMEOUTS))
        came_to_nothing(keys, "no memory");
}

/* ---- life ---- */

static bool wants_fetch(struct jwks *keys, tg_ms now)
{
    pthread_mutex_lock(&keys->lock);
    bool wanted = keys->wanted;
    pthread_mutex_unlock(&keys->lock);
    return wanted || now >= keys->next_at;
}

/* A reading of the configuration has other settings: what is under way by the old ones ends, and
 * keys of another issuer, or from another place, say nothing about tokens any more. */
static void jwks_follow(struct jwks *keys, const struct config_callers_jwt *config, tg_ms now)
{
    char settings[sizeof keys->settings] = "", url[sizeof keys->url] = "";

    if (config->present && config->jwks.host != NULL) {
        snprintf(url, sizeof url, "%s://%s:%d%s", config->jwks.tls ? "https" : "http",
                 config->jwks.host, config->jwks.port, config->jwks.path);
        snprintf(settings, sizeof settings, "%s %s %" PRId64 " %" PRId64 " %s", url,
                 config->ca != NULL ? config->ca : "", config->refresh, config->stale,
                 config->issuer);
    }
    if (strcmp(settings, keys->settings) == 0)
        return;
    http_fetch_cancel(&keys->fetch);
    http_origin_unref(keys->origin);
    keys->origin = NULL;
    if (strcmp(url, keys->url) != 0 ||
        (url[0] != '\0' && strcmp(config->issuer, keys->issuer) != 0))
        replace(keys, NULL, now);
    strcpy(keys->settings, settings);
    strcpy(keys->url, url);
    snprintf(keys->issuer, sizeof keys->issuer, "%s", url[0] != '\0' ? config->issuer : "");
    keys->next_at = now;
}

void jwks_tick(struct jwks *keys, const struct jwks_surroundings *of)
{
    const struct config_callers_jwt *config = of->config;
    tg_ms now = net_loop_now(of->loop);
    struct tg_problem problem;

    keys->loop = of->loop;
    keys->refresh = config->refresh;
    keys->log = of->log;
    jwks_follow(keys, config, now);
    if (keys->newest != NULL && now - keys->state.fetched_at >= config->stale) {
        replace(keys, NULL, now);
        keys->next_at = now;
    }
    if (keys->settings[0] == '\0' || http_fetch_is_busy(&keys->fetch))
        return;
    if (keys->origin == NULL && now >= keys->next_at &&
        !route_origin_new(&config->jwks, (struct route_trust){.ca = config->ca}, NULL, HTTP2_NEVER,
                          &keys->origin, &problem)) {
        came_to_nothing(keys, problem.text);
        return;
    }
    if (keys->reader == NULL)
        keys->reader = json_reader_new();
    if (keys->origin != NULL && keys->reader != NULL && wants_fetch(keys, now))
        jwks_fetch(keys, of->client, &config->jwks);
}

struct jwks *jwks_new(void)
{
    struct jwks *keys = calloc(1, sizeof *keys);

    if (keys == NULL)
        return NULL;
    pthread_mutex_init(&keys->lock, NULL);
    http_fetch_init(&keys->fetch, jwks_on_done, keys, keys->document, sizeof keys->document);
    return keys;
}

void jwks_stop(struct jwks *keys)
{
    http_fetch_cancel(&keys->fetch);
    http_origin_unref(keys->origin);
    keys->origin = NULL;
}

void jwks_free(struct jwks *keys)
{
    if (keys == NULL)
        return;
    assert(!http_fetch_is_busy(&keys->fetch));
    if (keys->newest != NULL)
        give_back(keys, keys->newest);
    json_reader_free(keys->reader);
    pthread_mutex_destroy(&keys->lock);
    free(keys);
}
