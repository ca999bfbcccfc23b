/* jwks.h - the keys by which tokens of callers are verified (`callers_jwt`), kept up to date.
 *
 *     ABSENT --- the first JWKS ---> CURRENT --- none for `stale` ---> ABSENT
 *                                     |   ^
 *                                     `---' every `refresh`, or when a token names an unknown key
 *
 * The control thread fetches the document of the issuer; workers check tokens with the newest keys,
 * and never wait. While the issuer is away the keys that are there go on serving for `stale`: an
 * identity provider that is down for a night must not take the models with it, and one whose keys
 * were stolen must not be believed for ever.
 *
 * A token that names a key which is not there may have been signed with one that is new: it makes
 * the document be fetched, at most every JWKS_PAUSE, and is told to come back when that has
 * not been done yet. So nobody can make the issuer be asked more often by inventing keys.
 */
#ifndef TG_RUNTIME_JWKS_H
#define TG_RUNTIME_JWKS_H

#include "server/config/config.h"
#include "server/tenancy/jwt_check.h"

struct http_client;
struct jwks;
struct log;
struct net_loop;

#define JWKS_PAUSE 10000 /* ms between two fetches that unknown keys of tokens bring about */

/* Null: no memory. */
struct jwks *jwks_new(void);
void jwks_free(struct jwks *keys);

/* ---- on the control thread ---- */

struct jwks_surroundings {
    struct net_loop *loop;
    struct http_client *client;
    struct log *log;                         /* null: none */
    const struct config_callers_jwt *config; /* what the newest generation says */
};

/* Fetches if it is time to. */
void jwks_tick(struct jwks *keys, const struct jwks_surroundings *of);

/* Cuts off what is under way. */
void jwks_stop(struct jwks *keys);

/* ---- from any thread ---- */

enum jwks_answer {
    JWKS_CHECKED, /* `verdict` and `claims` are set */
    JWKS_AWAY,    /* there are no keys, or newer ones are being fetched: try again */
};

enum jwks_answer jwks_check(struct jwks *keys, const struct jwt_terms *terms,
                            struct json_reader *reader, struct slice token, tg_ms now, tg_ms wall,
                            enum jwt_verdict *verdict, struct jwt_claims *claims);

/* For metrics and pages. */
struct jwks_state {
    uint64_t fetched, failed; /* documents that were taken, and attempts that came to nothing */
    tg_ms fetched_at;         /* when the newest keys came; 0: there are none */
    size_t n;                 /* how many there are */
};

void jwks_state(struct jwks *keys, struct jwks_state *state);

#endif
