/* remote_keys.h - provider keys that several nodes use: windows, leases, cooldowns, breakers.
 *
 *     tg_pool_acquire(pool, &call, now, &answer)             the ring chooses: a first filter
 *     tg_keyring_terms(ring, answer.lease, &terms)
 *     remote_keys_take(keys, &terms, decided, context)  ->  key
 *     ... decided(context, TG_OK, null)          it is taken here, too
 *     ... decided(context, TG_OK, &hold)         no: tg_keyring_hold_off(), and acquire again
 *     ... decided(context, TG_ERR_STORE, null)   Redis has no answer: see below
 *     remote_keys_cancel(key)                    instead: a yes that comes is given back
 *     tg_keyring_end(ring, lease, now, &report, &ending)
 *     remote_keys_give(key, &report, &ending)    once, for every key that was taken
 *
 * A group, or a key without one, has one slot. In it, each key of each pool, and each group, has
 * what a ring's key has (src/lib/keypool): calls and tokens of the last 60 s in 61 counters of a
 * second, by Redis' clock, calls and tokens in flight, a cooldown; a key also a breaker with one
 * run of failures, and one probe when it is half open, over all nodes. The scripts (lua/key_*.lua)
 * decide and take in one step, and give back once for each lease id.
 *
 *     <prefix>:key:{<provider>:g:<group>}:k:<model>:<key>   a hash; ...:l  its leases by their end
 *     <prefix>:key:{<provider>:g:<group>}:g:<group>         the same
 *     <prefix>:key:{<provider>:g:<group>}:s:<key>           it is suspended
 *     <prefix>:key:{<provider>:k:<key>}:...                 of a key without a group
 *
 * What is in flight is leased for `ttl` and renewed by this object as long as it is not given back.
 * Leases of a node that died end by that, and what they had charged to the windows stays charged. A
 * renewal also puts back what a server that lost its data has forgotten. All times that go to Redis
 * or come from there are spans, so clocks need not agree.
 *
 * Without an answer its owner decides whether a call continues; where it continues, there is
 * nothing to give back here: the key that remote_keys_take() returned ends with decided(), unless
 * that said TG_OK and no hold.
 *
 * One object for each worker's loop, used by its thread alone. No allocation once as many keys have
 * been held at once as ever will be.
 */
#ifndef TG_REMOTE_STORE_REMOTE_KEYS_H
#define TG_REMOTE_STORE_REMOTE_KEYS_H

#include <stdatomic.h>

#include "io/redis/redis.h"

struct remote_keys;
struct remote_key;

struct remote_keys_options {
    struct net_loop *loop; /* borrowed, and so is the next */
    struct redis *redis;
    const char *prefix; /* "tg"; copied */
    const char *holder; /* names leases: of this node and worker, and of no other; copied */
    tg_ms ttl; /* life of a lease without renewal; renewed at a third of it; default 30000 */
    tg_ms (*time)(void *context); /* null, the default: Redis TIME; else, for tests, this */
    void *time_context;
};

void remote_keys_options_init(struct remote_keys_options *options);

/* TG_ERR_INVALID: no holder, or no ttl. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err remote_keys_new(const struct remote_keys_options *options,
                                          struct remote_keys **keys);

/* Free the client first: what is in flight is answered by that. Keys that are held are forgotten,
 * not given back. */
void remote_keys_free(struct remote_keys *keys);

/* `hold` null: it is taken. Otherwise why not, for tg_keyring_hold_off(); `until` is computed from
 * the loop's time. TG_ERR_STORE: no answer within the client's time limit, or one that makes no
 * sense; a yes that comes later is given back. Never from inside remote_keys_take(). */
typedef void remote_keys_decided(void *context, enum tg_err err, const struct tg_key_hold *hold);

/* The terms are copied. Null: no memory, or names that are too long together; nothing was asked. */
struct remote_key *remote_keys_take(struct remote_keys *keys, const struct tg_key_terms *terms,
                                    remote_keys_decided *decided, void *context);

/* What remote_keys_take() would be answered now. Nothing is taken or written: it ends with
 * decided(), or with remote_keys_cancel(). */
struct remote_key *remote_keys_peek(struct remote_keys *keys, const struct tg_key_terms *terms,
                                    remote_keys_decided *decided, void *context);

/* Before decided(): it does not come any more. */
void remote_keys_cancel(struct remote_key *key);

/* Before decided(), or within it after TG_ERR_STORE: the attempt is made without an answer. A yes
 * that comes later is its own, until remote_keys_end(). False: none will come; nothing is kept. */
bool remote_keys_keep(struct remote_key *key);

/* Watches one that is kept: a no that comes before remote_keys_end() sets `*flag` to 0. */
void remote_keys_watch(struct remote_key *key, atomic_llong *flag);

/* The attempt of a key that was kept has ended, as in remote_keys_give(), whether Redis has said
 * yes by now, says so later, or does not: then it is charged all the same, for it was used. */
void remote_keys_end(struct remote_key *key, const struct tg_key_report *report,
                     const struct tg_key_ending *ending);

/* Releases a key that was taken: how its attempt ended, as the ring was told, and what that led to.
 * The cooldown is told to all nodes. So is a breaker that this node's own failures have opened,
 * even where calls of others that went well lie between them. It is sent until Redis has answered;
 * where it never does, the lease ends by its time, and the estimate stands. */
void remote_keys_give(struct remote_key *key, const struct tg_key_report *report,
                      const struct tg_key_ending *ending);

/* For a key that was used without being taken here: only the cooldown of how it ended counts. */
void remote_keys_tell(struct remote_keys *keys, const struct tg_key_terms *terms,
                      const struct tg_key_report *report, const struct tg_key_ending *ending);

/* For a key that was used without being taken here, by this gateway's own word: it is charged,
 * whatever its limits say. */
void remote_keys_owe(struct remote_keys *keys, const struct tg_key_terms *terms,
                     const struct tg_key_report *report, const struct tg_key_ending *ending);

/* A probe has failed, and so the credential is suspended for all nodes, for a minute; or one has
 * not, and it is no longer. Of a key that is in several groups, or in one and in none: once for
 * each. */
void remote_keys_suspend(struct remote_keys *keys, const char *provider, const char *name,
                         const char *group, bool suspended);

/* Keys that are held, or asked for. */
size_t remote_keys_count(const struct remote_keys *keys);

#endif
