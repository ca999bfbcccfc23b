/* remote_keys_internal.h - a lease of a key, as the files of remote_keys.h share it. */
#ifndef TG_REMOTE_STORE_REMOTE_KEYS_INTERNAL_H
#define TG_REMOTE_STORE_REMOTE_KEYS_INTERNAL_H

#include <sys/queue.h>

#include "server/remote_store/remote_keys.h"

enum { NAMES_BYTES = 2048, NUMBER_BYTES = 24 };
enum { GIVEN_TOGETHER = 32, ARGS_MAX = 10 + 6 * GIVEN_TOGETHER };

enum key_state { ASKED, HELD, ABANDONED, KEPT, REFUSED, ENDED, GIVEN, OVER };

TAILQ_HEAD(key_list, remote_key);

struct remote_key {
    struct redis_ask ask; /* the take, later the release */
    struct redis_ask renewal;
    struct remote_keys *keys;
    enum key_state state;
    bool ask_in_flight, renewal_in_flight;
    TAILQ_ENTRY(remote_key) list; /* held, spare, unsent, giving, together, waiting; or in none */
    struct key_list together;     /* giving: others of the same key, released by the same script, */
    struct key_list waiting;      /* and by the next */
    tg_ms renewed_at;
    remote_keys_decided *decided;
    void *context;
    int64_t tokens;
    int64_t breaker_failures;
    tg_ms breaker_open;
    atomic_llong *watch; /* set to 0 by a no, while it is kept; or null */
    bool owed;           /* it was asked for without limits: it is used, whatever they say */
    struct tg_key_report report; /* how it ended, and until when that is told */
    struct tg_key_ending ending;
    tg_ms give_until;
    struct slice key, key_leases, suspended, group, group_leases;
    size_t id_bytes;
    char id[160];
    char names[NAMES_BYTES];
};

struct remote_keys {
    struct remote_keys_options options;
    struct net_timer timer; /* the next renewal */
    struct key_list held;   /* the one whose renewal is longest ago first */
    struct key_list spare;  /* memory to be used again */
    struct key_list unsent; /* released, and Redis does not know */
    struct key_list giving; /* whose release is on its way */
    struct net_timer again; /* sends the unsent */
    LIST_HEAD(, suspension) suspensions;
    size_t n;
    uint64_t last_id;
    char prefix[160];
    char holder[128];
};

/* Arguments of a script. */
struct key_args {
    struct slice list[ARGS_MAX];
    size_t n;
    char numbers[ARGS_MAX][NUMBER_BYTES];
};

/* ---- remote_keys.c ---- */

/* What every script begins with: the time, and the lease. */
void remote_keys_begin_args(struct key_args *args, const struct remote_key *key);
void remote_keys_add_number(struct key_args *args, int64_t number);

/* It is spare once nothing of it is in flight. */
void remote_key_put_spare(struct remote_key *key);

/* What has been used is asked for until Redis has answered: a yes is all that is left to say. */
void remote_key_ask_without_limits(struct remote_key *key);

/* ---- remote_keys_give.c ---- */

/* It is given back, with how it ended, until Redis has answered or the lease has ended. */
void remote_key_give(struct remote_key *key, const struct tg_key_report *report,
                     const struct tg_key_ending *ending);
void remote_key_give_unsent(struct remote_key *key);

/* It is sent again with the next that are. */
void remote_key_send_later(struct remote_key *key);
void remote_keys_send_again(void *arg);

#endif
