/* tollgate.h - the whole public interface of libtollgate.
 *
 * Tollgate decides whether a call to a language model may start now. The library does no I/O,
 * starts no thread and reads no clock: you say what happened and when, it says what to do. What
 * is not declared here is private and will change.
 *
 *   1 Version   2 Numbers and time   3 Errors   4 Decisions   5 Limiters   6 The keyed store
 *   7 Laws   8 The gate   9 Bid prices   10 Keys   11 Money
 *
 * Memory:  *_init and *_fini work in your storage, *_new and *_free in ours; free accepts null.
 *          A pointer argument is borrowed for the call, unless its comment says otherwise.
 * Threads: functions on values are pure. A store, a gate, a policy, a keyring and a bank may be
 * used
 *          by any number of threads at once; what is an exception says so.
 * Errors:  functions that can fail return enum tg_err. Results come last and are untouched on
 *          error.
 */
#ifndef TOLLGATE_H
#define TOLLGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#define TG_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TG_API
#define TG_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- 1 Version ----------------------------------------------------------------------------
 *
 * Within one major version, programs built against an older minor keep working. Before 1.0 a
 * minor version may break them; the soname carries both numbers until then. */

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0
#define TG_VERSION "0.1.0"

/* The version of the library that is running, which may be newer than the header. Static. */
TG_API const char *tg_version(void);

/* ---- 2 Numbers and time -------------------------------------------------------------------
 *
 * Every number in a decision is an integer in [0, TG_NUMBER_MAX], which a double holds exactly:
 * so C, Lua in Redis and JSON agree to the bit. Arithmetic saturates there and never wraps. */

#define TG_NUMBER_MAX INT64_C(9007199254740991) /* 2^53 - 1 */

/* A point in time, or a span of it, in whole milliseconds. Points are counted from the epoch
 * (windows are aligned to it) and lie in [0, TG_NUMBER_MAX]. */
typedef int64_t tg_ms;

/* ---- 3 Errors -----------------------------------------------------------------------------
 *
 * An error means that no decision could be made. To be refused is not an error but a decision
 * (section 4) and comes with TG_OK. */

#define TG_ERRORS(X)                                                                               \
    X(OK, 0, "success")                                                                            \
    X(ERR_INVALID, 1, "an argument or a setting is outside its range")                             \
    X(ERR_MEMORY, 2, "the allocator has no memory")                                                \
    X(ERR_FULL, 3, "the store is full of live keys and takes no new one")                          \
    X(ERR_UNKNOWN, 4, "no such strategy, field or set of limits")                                  \
    X(ERR_STALE, 5, "the lease has ended, or is not at this step")                                 \
    X(ERR_STORE, 6, "the store could not decide")

enum tg_err {
#define TG_ERROR_ENUM(name, value, text) TG_##name = value,
    TG_ERRORS(TG_ERROR_ENUM)
#undef TG_ERROR_ENUM
};

/* The text of the list above; for a number that is not in it, a text that says so. Static. */
TG_API const char *tg_strerror(enum tg_err err);

/* What was wrong with a configuration: which field, what it held, what is allowed. Filled on
 * error by the functions that take one; null is accepted where nobody will read it. */
struct tg_problem {
    char text[640];
};

/* ---- 4 Decisions --------------------------------------------------------------------------
 *
 * Every limit answers in this one type, and answers are combined by tg_decision_combine():
 *
 *     combine(a, b) = { and, min, min, max, max }
 *
 * It commutes, associates and is idempotent, and TG_ALLOW_FULL is its identity: in whatever
 * order and grouping limits are asked, the answer is the same (tests/prop/test_algebra.c). */

struct tg_decision {
    bool allowed;
    int64_t limit;        /* the ceiling: burst, capacity, or the quota of a window */
    int64_t remaining;    /* whole units: left after an allow, there now on a deny */
    tg_ms reset_at;       /* when the limit is replenished, as its strategy counts it */
    tg_ms retry_after_ms; /* 0 on an allow; on a deny, a wait after which the same call, if it
                             meets no other traffic, is admitted; TG_UNSATISFIABLE for never */
};

/* The retry_after_ms of a call that can never be admitted: it costs more than the ceiling. */
#define TG_UNSATISFIABLE TG_NUMBER_MAX

/* The identity of combine, the answer of no limit at all. */
#ifdef __cplusplus
#define TG_ALLOW_FULL (tg_decision{true, TG_NUMBER_MAX, TG_NUMBER_MAX, 0, 0})
#else
#define TG_ALLOW_FULL ((struct tg_decision){true, TG_NUMBER_MAX, TG_NUMBER_MAX, 0, 0})
#endif

TG_API struct tg_decision tg_decision_combine(struct tg_decision a, struct tg_decision b);

/* The combination of `n` decisions; of none, TG_ALLOW_FULL. */
TG_API struct tg_decision tg_decision_fold(const struct tg_decision *decisions, size_t n);

/* ---- 5 Limiters ---------------------------------------------------------------------------
 *
 * A limiter says how much per time. It is immutable; what it has counted is a state, a block of
 * bytes that somebody else keeps (section 6, or you): fixed in size, aligned to 8, free to be
 * copied. All operations are pure functions of limiter, state, time and cost.
 *
 *     struct tg_limiter_config cfg;
 *     tg_limiter_config_init(&cfg, TG_GCRA);
 *     cfg.limit = 10;
 *     cfg.period = 1000;                      ten a second
 *     err = tg_limiter_init(&limiter, &cfg, &problem);
 */

#define TG_STRATEGIES(X)                                                                           \
    X(GCRA, gcra)                                                                                  \
    X(TOKEN_BUCKET, token_bucket)                                                                  \
    X(FIXED_WINDOW, fixed_window)                                                                  \
    X(SLIDING_WINDOW, sliding_window)                                                              \
    X(SLIDING_LOG, sliding_log)                                                                    \
    X(TOKEN_BUDGET, token_budget)

enum tg_strategy {
#define TG_STRATEGY_ENUM(upper, lower) TG_##upper,
    TG_STRATEGIES(TG_STRATEGY_ENUM)
#undef TG_STRATEGY_ENUM
        TG_STRATEGY_COUNT
};

/* "gcra" for TG_GCRA and so on; null for a number that is no strategy. Static. */
TG_API const char *tg_strategy_name(enum tg_strategy strategy);

/* The settings of a built-in limiter. A strategy takes the fields of its row, and refuses the
 * others unless they are 0; in brackets, the name that field has in a spec or a configuration
 * file, where it differs.
 *
 *   gcra            limit units every period; at most burst at once
 *   token_bucket    limit [capacity] units at most; refill units a second
 *   fixed_window    limit units in each window of period [window], aligned to the epoch
 *   sliding_window  limit units in the last period [window], counted in `buckets` parts
 *   sliding_log     limit units in the last period [window], each call remembered
 *   token_budget    limit [budget] units in each period [window]; a meter: the call that crosses
 *                   the budget is admitted whole, later ones are refused */
struct tg_limiter_config {
    enum tg_strategy strategy;
    int64_t limit; /* units, 1 or more; no default */
    tg_ms period;  /* ms, 1 or more; no default */
    int64_t burst; /* units; gcra only; 0: the same as limit; default 0 */
    int64_t
        buckets; /* 1 to 100000, at most 1000 for each ms; sliding_window only; 0: 10; default 0 */
    double refill; /* units a second, above 0, fractions allowed; token_bucket; no default */
};

/* Sets every field to its default. */
TG_API void tg_limiter_config_init(struct tg_limiter_config *config, enum tg_strategy strategy);

/* Reads a spec such as "gcra:limit=10,period=1000,burst=5"; times are in ms. Does not check
 * whether the values make a limiter: tg_limiter_init() does.
 *
 * TG_ERR_UNKNOWN: no such strategy or field. TG_ERR_INVALID: malformed, given twice, missing. */
TG_API TG_MUST_CHECK enum tg_err tg_limiter_config_parse(struct tg_limiter_config *config,
                                                         const char *spec,
                                                         struct tg_problem *problem);

struct tg_limiter;

/* What an admitted call was charged by a limiter, and when. */
struct tg_charge {
    tg_ms at;
    int64_t cost;
};

/* What a limiter does. The built-in ones are six such tables; an embedder may bring its own.
 * `cost` is in [0, TG_NUMBER_MAX] and `now` in the range of tg_ms; the caller has checked both.
 * A cost of 0 is allowed and free. All of them work in constant time and memory, or in what the
 * limiter's comment says, and none may fail. */
struct tg_limiter_ops {
    const char *name;

    /* Makes the state of a key that was never seen. */
    void (*reset)(const struct tg_limiter *limiter, void *state);

    /* From when on the state answers as a fresh one would, if nothing more is charged: then it
     * may be forgotten. */
    tg_ms (*fresh_at)(const struct tg_limiter *limiter, const void *state);

    /* What taking `cost` at `now` would answer. Changes nothing. With cost 0: what is there. The
     * answer goes to where it is wanted, rather than by value: copying it on the way costs as much
     * as the decision itself. */
    void (*peek)(const struct tg_limiter *limiter, const void *state, tg_ms now, int64_t cost,
                 struct tg_decision *answer);

    /* Charges `cost`. Only after a peek at the same `now` has allowed it. */
    void (*take)(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost);

    /* Gives back `units` of a charge, and never more than it still owes at `now`: what has been
     * replenished since is not given back a second time. */
    void (*refund)(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t units);

    /* Replaces a charge by what was really used, in the window in which it was charged. Less
     * is refunded; more becomes debt, shown as remaining 0. */
    void (*settle)(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t actual);

    /* Goes on, as `limiter`, from what a limiter of the same table with other settings had counted:
     * what was charged stays charged, in the same units. `state` is fresh. May be null: then a
     * change of settings starts afresh. */
    void (*carry)(const struct tg_limiter *limiter, void *state, const struct tg_limiter *from,
                  const void *counted, tg_ms now);
};

/* A limiter: your storage, filled by tg_limiter_init(). For one of your own, set ops,
 * state_bytes and context yourself. */
struct tg_limiter {
    const struct tg_limiter_ops *ops;
    size_t state_bytes;              /* of one key's state; a multiple of 8 */
    struct tg_limiter_config config; /* as given, with the defaults filled in */
    double derived[2];               /* private to the built-in strategies */
    void *context;                   /* yours; the library never looks at it */
};

/* TG_ERR_INVALID: a field is out of its range, or belongs to another strategy; `problem` says
 * which and what is allowed. TG_ERR_UNKNOWN: no such strategy. */
TG_API TG_MUST_CHECK enum tg_err tg_limiter_init(struct tg_limiter *limiter,
                                                 const struct tg_limiter_config *config,
                                                 struct tg_problem *problem);

/* ---- 6 The keyed store --------------------------------------------------------------------
 *
 * Keeps the states of many keys within a memory bound given at creation. A key's entry holds the
 * states of all its limiters, and one call looks at, and debits, the limiters of several keys in
 * one critical section, if they belong to one root (a tenant and its parents and users).
 *
 * A key is known by 96 bits of a hash with a secret seed, never by its bytes: 32 bytes an entry,
 * nothing to copy, nothing to leak, any length (docs/decisions/0005).
 *
 * When memory is used up, a new key takes the place of one whose state has become that of a
 * fresh key; if there is none, it is refused by TG_ERR_FULL. A live limit is never reset. Looking
 * for such a key takes longer, the fewer there are: a store should be sized so that it is seldom
 * full. */

struct tg_store;

struct tg_store_config {
    size_t memory_bytes; /* bound for all keys together, but for the copy of a table that is just
                            being made larger or smaller; default 64 MiB */
    uint64_t seed;       /* secret, random: who knows it can choose colliding keys; default 0 */
    uint32_t shards;     /* locks, a power of two up to 65536; 0: by memory_bytes; default 0 */
};

TG_API void tg_store_config_init(struct tg_store_config *config);

/* TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_store_new(const struct tg_store_config *config,
                                              struct tg_store **store, struct tg_problem *problem);

/* No other thread may use the store any more. */
TG_API void tg_store_free(struct tg_store *store);

/* What is counted: calls that run (by the gate, section 8), calls a time, and cost a time. */
enum tg_axis {
    TG_AXIS_CONCURRENCY,
    TG_AXIS_RATE, /* 1 a call */
    TG_AXIS_COST, /* the cost of a call */
    TG_AXIS_COUNT,
    TG_AXIS_NONE = TG_AXIS_COUNT
};

/* Whether a limit refuses, or only counts what it would have refused. */
enum tg_mode { TG_ENFORCE, TG_SHADOW };

/* One limit of a scope. In shadow it decides, is charged where it allows, and refuses nothing. */
struct tg_limit {
    struct tg_limiter limiter;
    enum tg_axis axis; /* TG_AXIS_RATE or TG_AXIS_COST; token_budget is for cost alone */
    enum tg_mode mode; /* default TG_ENFORCE */
};

#define TG_LIMITS_MAX 8  /* limits in one set */
#define TG_SCOPES_MAX 16 /* scopes in one debit */

/* A set of limits that is known to a store. 0 is none. */
typedef uint32_t tg_limits;

/* Makes known the limits that the keys of one kind have: copied, and kept as long as the store.
 * The same key under two sets is two entries. For one thread at a time.
 *
 * TG_ERR_INVALID: none or too many limits, a wrong axis, a state that no entry can hold.
 * TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_store_define(struct tg_store *store,
                                                 const struct tg_limit *limits, size_t n,
                                                 tg_limits *set, struct tg_problem *problem);

/* Other limits for a set. */
struct tg_redefinition {
    tg_limits set;
    const struct tg_limit *limits; /* copied */
    size_t n;
};

/* Changes the limits of sets that are in use, in one step for all of them and all their keys. The
 * first limit of a kind, which is a table of operations and an axis, goes on from what the first
 * of that kind had counted, the second from the second:
 *
 *   gcra, token_bucket            the units that are owed stay owed, and are paid off at the new
 *                                 rate; more than the new burst or capacity is debt
 *   fixed_window, token_budget    the count goes into the new window that is running
 *   sliding_window                counts stay if only the limit changes; else all that is still in
 *                                 the window counts as charged now
 *   sliding_log                   every call in both windows stays
 *
 * Other limits start fresh. All shards are locked meanwhile, for some 100 ns a key of the store,
 * however many sets there are. For one thread at a time, together with tg_store_define().
 *
 * TG_ERR_INVALID, TG_ERR_UNKNOWN, TG_ERR_MEMORY, TG_ERR_FULL: nothing has changed. */
TG_API TG_MUST_CHECK enum tg_err tg_store_redefine(struct tg_store *store,
                                                   const struct tg_redefinition *list, size_t n,
                                                   tg_ms now, struct tg_problem *problem);

/* One key whose limits a call has to clear. */
struct tg_scope {
    tg_limits limits;
    const void *key;
    size_t key_bytes;
};

enum tg_charging {
    TG_CHARGE_ATOMIC,  /* every limit is looked at; all are debited, or on a refusal none */
    TG_CHARGE_PER_AXIS /* rate is asked and debited; only if it allows is cost asked and debited */
};

/* What a call asks of the store. */
struct tg_debit {
    const struct tg_scope *scopes; /* 1 to TG_SCOPES_MAX, no two the same */
    size_t n_scopes;
    int64_t cost;              /* for limits on the cost axis; those on the rate axis take 1 */
    const void *root;          /* whoever all scopes belong to; null: the first scope's key */
    size_t root_bytes;         /* a key must always come with the same root: it is kept there */
    enum tg_charging charging; /* default TG_CHARGE_ATOMIC */
};

/* The answers by axis. An axis that was not looked at, or has no limit, is not in `present`. */
struct tg_axes {
    struct tg_decision decision[TG_AXIS_COUNT];
    unsigned present;    /* bits 1 << axis */
    unsigned would_deny; /* bits of the axes on which a limit in shadow would have refused */
};

/* The first of concurrency, rate and cost that refused; TG_AXIS_NONE if none did. */
TG_API enum tg_axis tg_axes_binding(const struct tg_axes *axes);

/* "concurrency", "rate", "cost"; null for TG_AXIS_NONE. Static. */
TG_API const char *tg_axis_name(enum tg_axis axis);

/* Looks at the limits of every scope and combines the answers; if all allow, all are debited.
 * `axes`, unless null, gets the answers by axis. A limit that was not debited is
 * reported as it stands; one that was, with what the debit left.
 *
 * TG_ERR_INVALID: cost or time out of range. TG_ERR_UNKNOWN: no such set of limits.
 * TG_ERR_FULL, TG_ERR_MEMORY: a new key found no place. Nothing was charged. */
TG_API TG_MUST_CHECK enum tg_err tg_store_take(struct tg_store *store, const struct tg_debit *debit,
                                               tg_ms now, struct tg_decision *decision,
                                               struct tg_axes *axes);

/* The same answer, and nothing is debited. A key that is not there is not made. */
TG_API TG_MUST_CHECK enum tg_err tg_store_peek(struct tg_store *store, const struct tg_debit *debit,
                                               tg_ms now, struct tg_decision *decision,
                                               struct tg_axes *axes);

/* One limit, by itself, at one moment. */
struct tg_limit_metrics {
    enum tg_axis axis;
    enum tg_mode mode;
    struct tg_limiter_config config;
    struct tg_decision decision; /* of the debit; what is left is what is there now, in any case */
};

/* What each limit of one scope of a debit has to say to it, in the order of its set, and how many
 * there are, up to TG_LIMITS_MAX; 0 also where tg_store_peek() would be an error, or there is no
 * such scope. Nothing is debited, and no key is made. For who wants to know which limit it is. */
TG_API size_t tg_store_peek_scope(struct tg_store *store, const struct tg_debit *debit,
                                  size_t scope, tg_ms now, struct tg_limit_metrics *limits);

/* Many takes with one clock value, each by itself, in order; while one is decided, the memory of
 * the next ones is on its way. `errs[i]` says whether `decisions[i]` was made. */
TG_API void tg_store_take_many(struct tg_store *store, const struct tg_debit *debits, size_t n,
                               tg_ms now, struct tg_decision *decisions, enum tg_err *errs);

/* Undoes a take that was allowed at `charged_at`: all its limits get back what is still owed. Not
 * those in shadow, here and below: the store does not know whether they were charged.
 *
 * TG_ERR_INVALID, TG_ERR_UNKNOWN as above. */
TG_API TG_MUST_CHECK enum tg_err tg_store_refund(struct tg_store *store,
                                                 const struct tg_debit *debit, tg_ms now,
                                                 tg_ms charged_at);

/* Replaces the cost of a take that was allowed at `charged_at` by what was used, on the cost
 * axis. At most once for a take: the store does not remember calls, the owner of the call does.
 *
 * TG_ERR_INVALID, TG_ERR_UNKNOWN as above. TG_ERR_FULL, TG_ERR_MEMORY: debt of a key that has been
 * forgotten meanwhile found no place. */
TG_API TG_MUST_CHECK enum tg_err tg_store_settle(struct tg_store *store,
                                                 const struct tg_debit *debit, tg_ms now,
                                                 tg_ms charged_at, int64_t actual);

/* Forgets every key whose state is that of a fresh one at `now`, and says how many. Never needed:
 * a full store does it by itself. An owner with idle moments may give memory back earlier. A
 * forgotten key does not remember `now`: do not let the clock step back across a sweep. */
TG_API size_t tg_store_sweep(struct tg_store *store, tg_ms now);

struct tg_store_stats {
    size_t keys;         /* entries now */
    size_t memory_bytes; /* what they use now, tables included */
    uint64_t forgotten;  /* keys that made place since the store was made */
    uint64_t refused;    /* debits answered by TG_ERR_FULL */
};

/* A moment's view, shard by shard, while others go on. */
TG_API void tg_store_get_stats(struct tg_store *store, struct tg_store_stats *stats);

/* ---- 7 Laws -------------------------------------------------------------------------------
 *
 * A law moves the limit of how many calls run at once, from what finished calls tell: how long they
 * took, how many there were. It steps at the first event at or after the end of its window, holds
 * for any clock, and re-measures what it compares with.
 *
 *   vegas      compares a window's mean with the lowest one: (1 - lowest / mean) of the calls are
 *              waiting somewhere; fewer than alpha, one more; more than beta, one less
 *   gradient2  scales the limit by how much slower the last call was than the fastest of late, plus
 *              the square root of the limit
 *   aimd       one more while calls are fast, a factor less when one is slow or dropped
 *   fixed      the limit is `initial`
 *   none       the limit is `max`
 */

#define TG_LAWS(X)                                                                                 \
    X(VEGAS, vegas)                                                                                \
    X(GRADIENT2, gradient2)                                                                        \
    X(AIMD, aimd)                                                                                  \
    X(FIXED, fixed)                                                                                \
    X(NONE, none)

enum tg_law {
#define TG_LAW_ENUM(upper, lower) TG_LAW_##upper,
    TG_LAWS(TG_LAW_ENUM)
#undef TG_LAW_ENUM
        TG_LAW_COUNT
};

/* "vegas" for TG_LAW_VEGAS and so on; null for a number that is no law. Static. */
TG_API const char *tg_law_name(enum tg_law law);

struct tg_law_config {
    enum tg_law law; /* default vegas */
    int64_t initial; /* calls, within [min, max]; default 128 */
    int64_t min;     /* 1 or more; default 8 */
    int64_t max;     /* default 1024 */
    tg_ms window;    /* of vegas; 1 or more; default 1000 */
    struct {
        double alpha;           /* calls, above 0; default 2 */
        double beta;            /* calls, above alpha; default 8 */
        double min_utilisation; /* grow only if the peak was this part of the limit; 0 to 1; 0:
                                   always; default 0.5 */
    } vegas;
    struct {
        double tolerance;   /* how much slower is not yet slow, 1 or more; default 2 */
        double smoothing;   /* weight of a new sample, above 0, at most 1; default 0.2 */
        int64_t rtt_window; /* samples the fastest is taken of, 1 to 10000; default 100 */
    } gradient2;
    struct {
        double tolerance;   /* as above; default 2 */
        double backoff;     /* factor of a decrease, from 0.5 to below 1; default 0.9 */
        int64_t rtt_window; /* as above; default 100 */
    } aimd;
};

TG_API void tg_law_config_init(struct tg_law_config *config);

/* TG_ERR_INVALID: `problem` names the field and what is allowed. */
TG_API TG_MUST_CHECK enum tg_err tg_law_config_check(const struct tg_law_config *config,
                                                     struct tg_problem *problem);

/* ---- 8 The gate ---------------------------------------------------------------------------
 *
 * One decision over all stages, in this order; what a stage took is given back when a later one
 * refuses:
 *
 *   memory       by priority                                    reason memory_pressure
 *   peers        so many calls of one party at once             reason peer_limit
 *   concurrency  so many calls at once; the only place to wait  reason concurrency
 *   policy       which calls are worth it                       reason policy
 *   rate, cost   the limits of the call's scopes                reason rate, cost
 *
 * The gate is a step machine. It parks no thread: tg_gate_admit() answers at once, with a decision,
 * or that the call waits for a slot, or that a remote store has to be asked. It goes on when its
 * owner calls again.
 *
 *   tg_gate_admit --> TG_DECIDED
 *             |-----> TG_WAITING -----> wake() or deadline, then tg_gate_resume --> as from admit
 *             `-----> TG_NEEDS_STORE -> tg_gate_store_answered ----------------------> TG_DECIDED
 *
 * An admitted call that holds something, or will be settled, has a lease. It ends exactly once: by
 * tg_gate_release(), or when its time is over. Ending it twice does nothing.
 *
 * Time: the queue, the leases and the law never see it go back; limiters see it as given.
 */

struct tg_gate;

enum tg_priority { TG_PRIORITY_HIGH, TG_PRIORITY_NORMAL, TG_PRIORITY_LOW, TG_PRIORITY_COUNT };

/* "high", "normal", "low"; null for another number. Static. */
TG_API const char *tg_priority_name(enum tg_priority priority);

#define TG_REASONS(X)                                                                              \
    X(NONE, "none")                                                                                \
    X(MEMORY_PRESSURE, "memory_pressure")                                                          \
    X(PEER_LIMIT, "peer_limit")                                                                    \
    X(CONCURRENCY, "concurrency")                                                                  \
    X(POLICY, "policy")                                                                            \
    X(RATE, "rate")                                                                                \
    X(COST, "cost")

/* Why a call was refused. */
enum tg_reason {
#define TG_REASON_ENUM(upper, text) TG_REASON_##upper,
    TG_REASONS(TG_REASON_ENUM)
#undef TG_REASON_ENUM
        TG_REASON_COUNT
};

/* The text of the list above; null for another number. Static. */
TG_API const char *tg_reason_name(enum tg_reason reason);

struct tg_call;

/* A call that ran, as it was reckoned when it was admitted, and as it was. */
struct tg_spent {
    tg_ms admitted_at;
    int64_t cost, actual; /* the same where no actual was given, also of a lease that expired */
    double hold_s;        /* as the call said */
    double held_s;        /* since it got its slot; without one, since it was admitted */
};

/* Which calls are worth what they take: bid prices (section 9), or one of your own with this as its
 * first member. Asked once a slot is held and before anything is debited. Its functions are called
 * by any thread, without the gate's lock. It may only remove admits.
 *
 * Of every call that is admitted it hears once, in shadow too, and once of the end of its lease,
 * which every such call has if `released` is not null: in this order, whatever the threads do. A
 * call that another thread releases while it is decided (TG_ERR_STALE) may have been told as
 * admitted: then its end is told at once, with an actual of 0. Leases that end with their gate are
 * not told, nor those of calls that a policy has judged which is no longer the gate's. So once
 * tg_gate_reconfigure() has put another in its place, a policy can be freed as soon as no thread is
 * in a function of the gate that it entered before. */
struct tg_policy {
    /* `in_flight` slots are held, this call's too; 0 where concurrency is off. */
    bool (*worth)(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                  tg_ms now);

    /* The call has been admitted; its lease has ended. Null: it need not know. Of a call that a
     * remote store has decided, `call` has priority, cost, value and hold, and else defaults. */
    void (*admitted)(struct tg_policy *policy, const struct tg_call *call, tg_ms now);
    void (*released)(struct tg_policy *policy, const struct tg_spent *spent, tg_ms now);
};

/* Settings of a gate. A stage that is not `on` is passed over. */
struct tg_gate_config {
    struct {
        bool on;           /* default false */
        enum tg_mode mode; /* default TG_ENFORCE, here and below */
        double pressure;   /* above this part of memory, low is refused; default 0.85 */
        double critical;   /* above this, all but high; default 0.95 */
        double limit;      /* above this, all; default 0.98 */
    } memory;
    struct {
        bool on;
        enum tg_mode mode;
        int64_t limit;     /* calls of one peer, waiting or running; 1 or more; default 64 */
        int64_t max_peers; /* how many are told apart; further ones share one; default 65536 */
    } peers;
    struct {
        bool on;
        enum tg_mode mode;
        struct tg_law_config law;
        int64_t queue_size;              /* waiting calls of each priority; default 1024 */
        tg_ms wait[TG_PRIORITY_COUNT];   /* how long each may wait; default 100, 50, 0 */
        double share[TG_PRIORITY_COUNT]; /* of each grant made above it, to earn a turn; [0] is
                                            not used; default 0.2 and 0.05 */
        double low_ratio;                /* of the limit, that low may hold, from 0 to 1; above 0 it
                                            is one slot at least; default 0.5; 1: all of it */
    } concurrency;

    struct tg_policy *policy; /* which calls are worth it; borrowed; null: all; default null */
    enum tg_mode policy_mode;

    tg_ms lease_ttl;        /* a lease that is not renewed ends after this; default 600000 */
    struct tg_store *store; /* where rate and cost are decided; borrowed; null: there is none */
    bool remote_store;      /* rate and cost are decided elsewhere: TG_NEEDS_STORE; default false */
    uint64_t seed;          /* of chance (the law's) and of hashing; default 0 */

    /* A waiting call should be resumed: it got a slot, or its wait is over. Called under the gate's
     * lock by whichever thread made it so: it may only post, and must not call the gate. After a
     * lease has ended no wake comes for it. */
    void (*wake)(void *context, void *waiter);
    void *context; /* for wake */
};

TG_API void tg_gate_config_init(struct tg_gate_config *config);

/* TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_new(const struct tg_gate_config *config,
                                             struct tg_gate **gate, struct tg_problem *problem);

/* No other thread may use the gate any more. Leases that are still open end with it. */
TG_API void tg_gate_free(struct tg_gate *gate);

/* New settings for a running gate. Every state is kept: calls that run or wait go on, and count
 * under the new limits; a lower limit revokes nothing; the law keeps its limit, moved into its
 * new range. `store`, `remote_store` and `seed` cannot change. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_reconfigure(struct tg_gate *gate,
                                                     const struct tg_gate_config *config, tg_ms now,
                                                     struct tg_problem *problem);

/* How much of memory is used, from 0 to 1. NaN: not known, and then nothing is refused for it. */
TG_API void tg_gate_set_memory(struct tg_gate *gate, double used);

/* A lease, or the handle of a call on its way to one. 0 is none. Never used twice. */
typedef uint64_t tg_lease;

/* A call that asks to be admitted. Borrowed for the time of each function it is given to. */
struct tg_call {
    enum tg_priority priority; /* default normal */
    const void *peer;          /* whom fairness counts; null: not counted; default null */
    size_t peer_bytes;
    int64_t peer_limit;     /* of this peer; 0: the gate's, if peers are on; default 0 */
    enum tg_mode peer_mode; /* of that limit, where it is given; default TG_ENFORCE */
    const void *tenant;     /* among whom waiting is fair; null: the peer; default null */
    size_t tenant_bytes;
    double weight;         /* the tenant's share among those who wait, 1e-6 to 1e6; default 1 */
    struct tg_debit debit; /* rate and cost; without scopes: neither; default without */
    double value;          /* for the policy; to bid prices NaN or negative is 0; default 1 */
    double hold_s;         /* seconds; there, not finite or negative is 0; default 0 */
    tg_ms deadline;        /* the caller's own; it does not wait longer; 0: none; default 0 */
    tg_ms lease_ttl;       /* 0: the gate's; default 0 */
    void *waiter;          /* given to wake() */
};

TG_API void tg_call_init(struct tg_call *call);

enum tg_step { TG_DECIDED, TG_WAITING, TG_NEEDS_STORE };

struct tg_answer {
    enum tg_step step;
    tg_lease lease; /* 0 where nothing is held; to be given to whatever comes next */
    tg_ms deadline; /* of TG_WAITING: tick or resume then; of a lease: when it ends */

    /* Of TG_DECIDED: */
    struct tg_decision decision; /* the combination of what was looked at */
    enum tg_reason reason;       /* TG_REASON_NONE if it is allowed */
    bool policy_denied;          /* the policy refused; no axis is binding then */
    struct tg_axes axes;         /* tg_axes_binding() says which one refused */
    unsigned would_deny;         /* bits 1 << reason of stages in shadow that would have refused */
    double memory_used;          /* what memory was refused for */
};

/* Writes why, for people: "memory pressure: 96.0% used", "peer X exceeded per-peer limit", "server
 * overloaded", ...; nothing for an allow. */
TG_API void tg_answer_describe(const struct tg_answer *answer, const struct tg_call *call,
                               char *text, size_t size);

/* Memory and peers only: what can be said before a body is read. If it is allowed, `answer` has a
 * lease that counts the peer, to be given to tg_gate_admit(), or to be released. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_precheck(struct tg_gate *gate, const struct tg_call *call,
                                                  tg_ms now, struct tg_answer *answer);

/* Asks. `prechecked` is the lease from tg_gate_precheck(), or 0 to have that done here.
 *
 * TG_ERR_INVALID, TG_ERR_MEMORY, TG_ERR_FULL, TG_ERR_UNKNOWN, TG_ERR_STALE: there is no decision,
 * nothing is held and nothing was charged. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_admit(struct tg_gate *gate, const struct tg_call *call,
                                               tg_lease prechecked, tg_ms now,
                                               struct tg_answer *answer);

/* Goes on with a call that waits, after wake() or at its deadline. TG_WAITING again if it came too
 * early. The call must be the one it was. Errors as above; TG_ERR_STALE also when another thread
 * has released it while it was decided: then nothing stays charged. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_resume(struct tg_gate *gate, tg_lease lease,
                                                const struct tg_call *call, tg_ms now,
                                                struct tg_answer *answer);

/* What a remote store did: TG_OK and the axes, or why it could not. An error is handed on as it is.
 * TG_ERR_STALE: the call has been released or has ended meanwhile; what the store has debited for
 * it is now the caller's to refund. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_store_answered(struct tg_gate *gate, tg_lease lease,
                                                        enum tg_err outcome,
                                                        const struct tg_axes *axes, tg_ms now,
                                                        struct tg_answer *answer);

enum tg_outcome {
    TG_OUTCOME_OK,        /* it has run: a sample for the law */
    TG_OUTCOME_DROPPED,   /* overload made it fail: the law contracts */
    TG_OUTCOME_CANCELLED, /* it says nothing about overload: no sample */
    TG_OUTCOME_REFUSED    /* a stage of the owner's, after the gate, refused it: as cancelled, and
                             what rate and cost took is given back */
};

struct tg_release {
    enum tg_outcome outcome; /* default ok */
    double sample_ms;        /* what the law gets; negative: the time since admission; default -1 */
    int64_t actual;          /* what was used, in units of cost; negative: the estimate stands;
                                default -1 */
};

TG_API void tg_release_init(struct tg_release *release);

/* Ends a lease, or a call on its way to one, at whatever step it is. Says whether it was there: of
 * several at once, one is told so. */
TG_API bool tg_gate_release(struct tg_gate *gate, tg_lease lease, tg_ms now,
                            const struct tg_release *release);

/* Gives a lease another `ttl` ms from now (0: the gate's). False: it has ended. */
TG_API bool tg_gate_renew(struct tg_gate *gate, tg_lease lease, tg_ms now, tg_ms ttl);

/* Nothing happens by itself before this: no wait is over, no lease ends. It may be too early, never
 * too late. INT64_MAX: never. */
TG_API tg_ms tg_gate_next_deadline(struct tg_gate *gate);

/* Lets it happen: wakes those whose wait is over, ends leases whose time is. */
TG_API void tg_gate_tick(struct tg_gate *gate, tg_ms now);

struct tg_gate_stats {
    int64_t limit;     /* of concurrency now; TG_NUMBER_MAX if that is off */
    int64_t in_flight; /* slots held */
    int64_t queued[TG_PRIORITY_COUNT];
    int64_t peers;      /* that have a call waiting or running */
    int64_t peer_calls; /* of all of them together */
    int64_t leases;     /* open ones, and calls on their way to one */
    uint64_t admitted;  /* since the gate was made */
    uint64_t refused[TG_REASON_COUNT];
    uint64_t would_deny[TG_REASON_COUNT];
    uint64_t expired;   /* leases that ended by their time */
    double memory_used; /* as it was told; NaN: not known, or never told */
    double last_ms;     /* how long the last call took that was a sample; 0: there was none */
};

TG_API void tg_gate_get_stats(struct tg_gate *gate, struct tg_gate_stats *stats);

/* What the law of a gate knows at one moment. */
struct tg_law_metrics {
    enum tg_law law;
    int64_t limit;    /* that admission obeys; a probe may hold it below what was learned */
    int64_t learned;  /* 0: the law learns nothing */
    int64_t min, max; /* of the configuration */

    /* Of vegas, from the last window in which calls ended; other laws leave these as if nothing
     * were known. */
    double queue_estimate; /* calls that wait somewhere behind the gate; negative: not known */
    double mean_ms;        /* of the samples; 0: none yet */
    double baseline_ms;    /* what a call takes when nothing waits; 0: not known */
};

TG_API void tg_gate_get_law(struct tg_gate *gate, struct tg_law_metrics *metrics);

/* How many calls a peer has, waiting or running. 0 for one that shares a place with others, because
 * there are more than max_peers. */
TG_API int64_t tg_gate_peer_calls(struct tg_gate *gate, const void *peer, size_t peer_bytes);

/* ---- 9 Bid prices -------------------------------------------------------------------------
 *
 * A policy that knows what is scarce. Rate, cost and slot-seconds each have a price; a call is
 * worth it if
 *
 *     value >= price of a call + price of a unit x cost + price of a slot-second x hold
 *
 * with a tolerance of 1e-9 of the right side, so that a call exactly at the margin is admitted. The
 * prices are the duals of the fluid program: of all that is expected to arrive, choose the parts
 * that together are worth most and fit into the budgets. docs/bid-price.md has the reasons. */

struct tg_duals {
    double rate;        /* of a call; finite, 0 or more, as the others */
    double cost;        /* of a unit of cost */
    double concurrency; /* of a slot for a second */
};

/* A kind of call. */
struct tg_type {
    double cost;   /* units; 0, or 1e-15 to 1e18, as the others; default 1 */
    double value;  /* default 1 */
    double weight; /* how many there are, or which share: see tg_workload; default 1 */
    double hold_s; /* seconds; TG_NO_HOLD: not given; default TG_NO_HOLD */
};

#define TG_NO_HOLD (-1.0)
#define TG_TYPES_MAX 256

/* What is expected to arrive, and what there is for it. */
struct tg_workload {
    const struct tg_type *types; /* borrowed */
    size_t n_types;              /* 1 to TG_TYPES_MAX */
    double arrivals;      /* how many arrivals the budgets are for: weights are then shares of
                                    their sum. 0: weights are used as they are; default 0 */
    double rate_budget;   /* calls; 1e-15 to 1e18, as the others; no default */
    double cost_budget;   /* units; no default */
    double conc_budget_s; /* slot-seconds; then every type has a hold. 0: there is no
                                    such budget, and no type may hold; default 0 */
};

TG_API void tg_type_init(struct tg_type *type);
TG_API void tg_workload_init(struct tg_workload *workload);

/* Solves   max sum(weight value x)   with sum(weight x) <= rate_budget, sum(weight cost x) <=
 * cost_budget, sum(weight hold x) <= conc_budget_s and 0 <= x <= 1, through its dual. Among several
 * best prices it takes the most selective vertex: that which refuses most types, then the dearest
 * slot-second, then unit of cost, then call. `fractions` has room for n_types numbers, the x of
 * each; null: not wanted. `objective` may be null.
 *
 * If all prices come out 0 nothing is scarce: a policy with this workload refuses nothing.
 *
 * TG_ERR_INVALID: `problem` names the field. TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_fluid_solve(const struct tg_workload *workload,
                                                struct tg_duals *duals, double *fractions,
                                                double *objective, struct tg_problem *problem);

/* Where prices come from. */
#define TG_PRICE_SOURCES(X)                                                                        \
    X(DUALS, "duals")       /* given */                                                            \
    X(WORKLOAD, "workload") /* solved once, for what is expected */                                \
    X(ADAPTIVE, "adaptive") /* the same, until a sample shows better ones */                       \
    X(ONLINE, "online")     /* from what is left and what is forecast, all the time */

enum tg_prices {
#define TG_PRICES_ENUM(upper, text) TG_PRICES_##upper,
    TG_PRICE_SOURCES(TG_PRICES_ENUM)
#undef TG_PRICES_ENUM
        TG_PRICES_COUNT
};

/* The text of the list above; null for another number. Static. */
TG_API const char *tg_prices_name(enum tg_prices prices);

struct tg_bid_config {
    enum tg_prices prices;       /* default workload */
    struct tg_duals duals;       /* of `duals`; default 0 */
    struct tg_workload workload; /* of `workload`; what `adaptive` starts from, or without types
                                    from `duals`, with `arrivals` and the budgets given; what
                                    `online` may start from, and need not: then n_types is 0;
                                    default none */
    int64_t sample_window;       /* of `adaptive`: calls, 1 to 1000000; default 500 */
    struct {
        tg_ms window;         /* what the budgets are for, 1 or more; default 60000 */
        double rate_budget;   /* calls in a window; 0: not scarce; default 0, as the others */
        double cost_budget;   /* units of cost in a window */
        double conc_budget_s; /* slot-seconds in a window */
        bool steady;          /* budgets come back steadily, as a bucket of a window's budget does,
                                 rather than all at the start of each window; default false */
    } online;                 /* at least one budget */
};

TG_API void tg_bid_config_init(struct tg_bid_config *config);

/* Makes a policy for tg_gate_config. Everything is copied.
 *
 * TG_ERR_INVALID: `problem` names the field. TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_bid_new(const struct tg_bid_config *config,
                                            struct tg_policy **policy, struct tg_problem *problem);

/* No gate may use it any more. */
TG_API void tg_bid_free(struct tg_policy *policy);

/* The prices that hold now. */
TG_API void tg_bid_get_duals(struct tg_policy *policy, struct tg_duals *duals);

/* ---- 10 Keys ------------------------------------------------------------------------------
 *
 * Provider keys are capacity. A call leases one before it is sent and gives it back on every path;
 * to choose a key and to take its capacity is one step. A key can serve when it is not suspended,
 * not cooling after a 429, its breaker lets it, and its calls in flight, calls in the last minute
 * and tokens in the last minute leave room, its own and its group's. Of the keys that can serve two
 * are drawn evenly, and the one with the lower latency average is taken, ties by chance. "No key"
 * is never said while one can serve.
 *
 *     ring       provider -> model -> pool of keys
 *     key        a secret of the provider, known here by its name: never by its bytes
 *     group      keys of one provider, in whatever pools, that share limits and cool together
 *
 * A key that stands in several pools has its own limits, windows, breaker and latency in each, for
 * a provider counts by model, but is suspended in all of them at once.
 *
 * Windows count the last 60 s in whole seconds, the part of a second at its far end counted whole:
 * a window never admits more than the limit in any 60 s, and memory is fixed.
 *
 * One lease is one attempt. All functions may be called by any number of threads. `now` never goes
 * back for a ring: an earlier one counts as the latest that was seen. */

struct tg_keyring;
struct tg_pool;

/* 0: not limited. */
struct tg_key_limits {
    int64_t rpm;         /* calls in 60 s; default 0 */
    int64_t tpm;         /* tokens in 60 s, and tokens in flight; default 0 */
    int64_t concurrency; /* calls at once; default 0 */
};

struct tg_key_spec {
    const char *name;  /* one name in a provider is one key */
    const char *group; /* of the provider; null: none */
    struct tg_key_limits limits;
    void *owner; /* yours: found in leases, probes and metrics */
};

struct tg_group_spec {
    const char *provider;
    const char *name;
    struct tg_key_limits limits;
};

struct tg_pool_spec {
    const char *provider;
    const char *model;
    const struct tg_key_spec *keys;
    size_t n_keys;            /* 0 is a pool that never has a key */
    int64_t breaker_failures; /* attempts in a row that failed, and open it: 1 to 1000; default 5 */
    tg_ms breaker_open;       /* for how long; 1 or more; default 30000 */
    tg_ms affinity_ttl;       /* how long a call's key is remembered for those after it; 0: not at
                                 all; default 600000 */
};

TG_API void tg_pool_spec_init(struct tg_pool_spec *spec);

struct tg_keyring_spec {
    const struct tg_group_spec *groups;
    size_t n_groups;
    const struct tg_pool_spec *pools;
    size_t n_pools;
    tg_ms cooldown;      /* after a 429 that does not say; default 60000 */
    tg_ms cooldown_max;  /* what a 429 can ask for; default 3600000 */
    tg_ms probe_every;   /* of a suspended key; default 60000 */
    size_t max_affinity; /* calls remembered in each pool; default 65536 */
    uint64_t seed;       /* of chance and hashing; default 0 */
};

TG_API void tg_keyring_spec_init(struct tg_keyring_spec *spec);

/* TG_ERR_INVALID: `problem` names what. TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_keyring_new(const struct tg_keyring_spec *spec,
                                                struct tg_keyring **ring,
                                                struct tg_problem *problem);

/* No other thread may use it any more. Leases end with it. */
TG_API void tg_keyring_free(struct tg_keyring *ring);

/* Makes the ring what the spec says. Keys, groups and pools of the same names keep their windows,
 * cooldowns, breakers, suspensions and leases, under the new limits; others end: their leases stay
 * good, and are forgotten when given back. `seed` cannot change. On an error nothing has changed.
 * */
TG_API TG_MUST_CHECK enum tg_err tg_keyring_change(struct tg_keyring *ring,
                                                   const struct tg_keyring_spec *spec, tg_ms now,
                                                   struct tg_problem *problem);

/* The pool of a model; null if there is none. It stays good until the ring is freed; a pool that
 * was taken out by tg_keyring_change() has no keys. */
TG_API struct tg_pool *tg_keyring_pool(struct tg_keyring *ring, const char *provider,
                                       const char *model);

#define TG_TRIED_MAX 8

struct tg_key_call {
    int64_t tokens;       /* estimate, prompt and answer, 0 to TG_NUMBER_MAX; default 0 */
    const void *affinity; /* prefers the key that the last call with this had; null: none */
    size_t affinity_bytes;
    void *prefer;              /* the owner of a key that is taken, if it can serve; null: none */
    void *tried[TG_TRIED_MAX]; /* owners of keys that are not taken; default none */
    size_t n_tried;
};

TG_API void tg_key_call_init(struct tg_key_call *call);

typedef uint64_t tg_key_lease; /* 0 is none; never used twice */

struct tg_key_answer {
    tg_key_lease lease; /* 0: no key can serve */
    void *owner;        /* of the key that is leased */

    /* Of no key: */
    tg_ms retry_after_ms; /* until the earliest moment at which one can, if nothing else happens; a
                             call in flight is taken to end at the pool's mean; TG_UNSATISFIABLE:
                             never, the call is larger than every key; or all are suspended or were
                             tried. 1 where there is no memory to remember a lease */
    bool all_cooling;     /* every key that is in use is cooling after a 429 of the provider */
    bool too_large;       /* no key's limit can ever hold these tokens */
};

/* Leases a key. Never an error: an estimate out of its range is too large. */
TG_API void tg_pool_acquire(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                            struct tg_key_answer *answer);

/* How an attempt ended, for its key. */
enum tg_key_outcome {
    TG_KEY_OK,
    TG_KEY_LIMITED,  /* 429: cools, and ends a run of failures */
    TG_KEY_FAILED,   /* 5xx, 408, network error, time-out: counts for the breaker */
    TG_KEY_REFUSED,  /* 401, 403: wants a probe */
    TG_KEY_REJECTED, /* any other 4xx: the call's own fault, ends a run of failures */
    TG_KEY_CANCELLED /* the caller has gone, or nothing was tried: says nothing about the key */
};

struct tg_key_report {
    enum tg_key_outcome outcome; /* default ok */
    bool sent;                   /* a byte went to the provider. If not, the call and its tokens are
                                    given back to the windows; default true */
    int64_t tokens;    /* what was used; negative: not known, the estimate stands; more than
                                    TG_NUMBER_MAX counts as that; default -1 */
    double latency_ms; /* to the first byte; negative: none; default -1 */
    tg_ms cool_until;  /* of limited: what the provider asked for; 0: it did not say;
                                    default 0 */
};

TG_API void tg_key_report_init(struct tg_key_report *report);

/* Gives a key back. The tokens in flight are released, the window holds what was used instead of
 * the estimate. False: the lease had ended before, and nothing is done. */
TG_API bool tg_keyring_release(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                               const struct tg_key_report *report);

/* Keys that other machines use, too. A ring counts what went through it, which is never more than
 * what all of them used, so it is a right first filter; a store that all share has the last word
 * (src/redis). tg_keyring_terms() says what to ask there. After a no, tg_keyring_hold_off() tells
 * the ring, and the next tg_pool_acquire() chooses among the others. tg_keyring_end() says what a
 * release has led to, for the others to know. */

/* What a lease is of. The texts are good until it ends. */
struct tg_key_terms {
    const char *provider;
    const char *model;
    const char *name;
    const char *group; /* null: none */
    struct tg_key_limits limits;
    struct tg_key_limits group_limits; /* 0 without a group */
    int64_t breaker_failures;
    tg_ms breaker_open;
    int64_t tokens; /* as they were asked for */
};

/* False: the lease has ended. */
TG_API bool tg_keyring_terms(struct tg_keyring *ring, tg_key_lease lease,
                             struct tg_key_terms *terms);

/* What a release has led to. */
struct tg_key_ending {
    tg_ms cool_until; /* a 429 has made its key and group cool until then; 0: it has not */
    tg_ms open_until; /* its failure has opened the breaker until then; 0: it has not */
};

/* As tg_keyring_release(); `ending` is set where it is true. */
TG_API bool tg_keyring_end(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                           const struct tg_key_report *report, struct tg_key_ending *ending);

enum tg_hold {
    TG_HOLD_COOLING, /* somebody got a 429: a cooldown like any other, and the later one wins */
    TG_HOLD_BROKEN,  /* somebody's failures have opened the breaker: so does this ring's */
    TG_HOLD_BUSY     /* others use what is left of its limits, or it is suspended elsewhere */
};

struct tg_key_hold {
    enum tg_hold why;
    bool of_group; /* cooling and busy: the whole group of the lease, if it has one */
    tg_ms until;   /* when it may serve again, if nothing else happens */
    int64_t room;  /* of busy: calls of so many tokens may still be served; -1: none */
};

/* Ends a lease of which nothing was sent, and keeps its key, or its group, from being chosen until
 * then. As others may give back earlier, a busy one is chosen again after a second at the latest,
 * but tg_key_answer.retry_after_ms goes by `until`. False: the lease had ended before, and nothing
 * is done. */
TG_API bool tg_keyring_hold_off(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                                const struct tg_key_hold *hold);

/* A key that the owner should try with a request of its own: after 401 or 403, and every
 * `probe_every` while it is suspended. It is handed out once, until tg_keyring_probed(). */
struct tg_probe {
    const char *provider; /* these point into the ring, until tg_keyring_probed() */
    const char *name;
    void *owner;
    uint64_t id;
};

/* False: none is due. */
TG_API bool tg_keyring_next_probe(struct tg_keyring *ring, tg_ms now, struct tg_probe *probe);

enum tg_probe_result { TG_PROBE_GOOD, TG_PROBE_BAD, TG_PROBE_UNCLEAR /* asked again later */ };
TG_API void tg_keyring_probed(struct tg_keyring *ring, const struct tg_probe *probe,
                              enum tg_probe_result result, tg_ms now);

/* When the next probe is due; INT64_MAX: none. */
TG_API tg_ms tg_keyring_next_deadline(struct tg_keyring *ring);

/* For an operator: a key that is not to be used, whatever a probe says; or again. False: no key. */
TG_API bool tg_keyring_enable(struct tg_keyring *ring, const char *provider, const char *name,
                              bool enabled, tg_ms now);

/* For an operator who knows that it is good again: ends the cooldown of a key and of its group,
 * closes its breaker and lifts its suspension, in all pools it stands in. What its windows have
 * counted stays, and so does the word of tg_keyring_enable(). False: no key. */
TG_API bool tg_keyring_reset(struct tg_keyring *ring, const char *provider, const char *name,
                             tg_ms now);

enum tg_key_state { TG_KEY_HEALTHY, TG_KEY_SUSPENDED, TG_KEY_DISABLED };
enum tg_breaker_state { TG_BREAKER_CLOSED, TG_BREAKER_OPEN, TG_BREAKER_HALF_OPEN };

/* One key in one pool, at one moment. */
struct tg_key_metrics {
    const char *name; /* good as long as the ring is not changed */
    const char *group;
    void *owner;
    int64_t tpm_inflight;
    int64_t tpm_limit;     /* 0: none */
    int64_t tpm_remaining; /* in the window; TG_NUMBER_MAX without a limit */
    int64_t rpm_limit;     /* 0: none */
    int64_t rpm_remaining; /* the same */
    int64_t in_flight;
    tg_ms cool_down_until;   /* 0: not cooling */
    tg_ms failure_cool_down; /* when an open breaker lets a probe through; 0: closed */
    int64_t consecutive_fails;
    enum tg_breaker_state breaker;
    enum tg_key_state state;
    double latency_ms; /* 0: none yet */
};

struct tg_pool_metrics {
    uint64_t acquired;
    uint64_t no_key;
    size_t n_keys;
};

/* Reads up to `room` keys from number `from` on, and says how many; the pool is locked for at most
 * 64 keys at a time. */
TG_API size_t tg_pool_get_keys(struct tg_pool *pool, tg_ms now, size_t from,
                               struct tg_key_metrics *keys, size_t room);
TG_API void tg_pool_get_metrics(struct tg_pool *pool, struct tg_pool_metrics *metrics);

/* How much more than the estimate of a model's calls is reserved in tokens, learned from how they
 * ended: between 1 and `max`. For token windows and the cost axis, never for money. */
struct tg_overbook {
    uint64_t state[4]; /* private */
};

TG_API TG_MUST_CHECK enum tg_err tg_overbook_init(struct tg_overbook *overbook, double start,
                                                  double max, struct tg_problem *problem);
TG_API double tg_overbook_factor(const struct tg_overbook *overbook);

/* tokens x factor, rounded up, at most TG_NUMBER_MAX. */
TG_API int64_t tg_overbook_apply(const struct tg_overbook *overbook, int64_t tokens);

/* A call that was estimated at so many tokens, before the factor, has used so many. Either 0 or
 * less: it teaches nothing. */
TG_API void tg_overbook_learn(struct tg_overbook *overbook, int64_t estimated, int64_t used);

/* ---- 11 Money -----------------------------------------------------------------------------
 *
 * Micro-dollars in int64_t, saturating at TG_MONEY_MAX, never in doubles. A call reserves before it
 * is sent, at every account on its way up (user, tenant, its parents, everyone) and in all windows
 * of each, in one step: all or nothing. It settles once. For each budget and window, at any instant
 *
 *     used = settled + outstanding
 *
 * Windows follow from the clock at each look: nothing has to be reset. A settlement goes to the
 * windows in which the reservation was made. */

typedef int64_t tg_micro; /* micro-dollars */

#define TG_MONEY_MAX INT64_C(9000000000000000000)

/* What a model costs. Micro-dollars for a million tokens, so that 1 is a millionth of a
 * micro-dollar a token; and micro-dollars for each call. 0 to 10^15; default 0. */
struct tg_price {
    int64_t input;
    int64_t cached_input; /* negative: as input; default -1 */
    int64_t cache_write;  /* negative: as input; default -1 */
    int64_t output;
    int64_t per_call;
};

TG_API void tg_price_init(struct tg_price *price);

/* Tokens of a call. The three kinds of input exclude each other. */
struct tg_usage {
    int64_t input; /* read anew */
    int64_t cached_input;
    int64_t cache_write;
    int64_t output; /* with what was thought and not shown */
};

/* What this costs: the exact sum, rounded up once, to a whole micro-dollar. A negative count is 0.
 * */
TG_API tg_micro tg_price_of(const struct tg_price *price, const struct tg_usage *usage);

/* The most that a call can cost: its prompt at the dearest input price, its output at output's. */
TG_API tg_micro tg_price_bound(const struct tg_price *price, int64_t prompt, int64_t output);

/* How much output is bought by what is left after the prompt; -1: not even the prompt is. */
TG_API int64_t tg_price_affordable(const struct tg_price *price, int64_t prompt, tg_micro money);

/* Counts that were negative, or so large that nobody can have meant them (above 10^9 tokens of a
 * kind): such a usage is not believed. */
TG_API bool tg_usage_absurd(const struct tg_usage *usage);

/* From `at` on, clocks of a place are so many seconds east of UTC; less than 26 hours. */
struct tg_zone_change {
    tg_ms at;
    int32_t offset_s;
};

/* When clocks of a place change, ascending; before the first change, `base_s`. */
struct tg_zone {
    int32_t base_s; /* seconds east of UTC */
    size_t n;
    const struct tg_zone_change *changes;
};

enum tg_per { TG_PER_DAY, TG_PER_WEEK /* from Monday */, TG_PER_MONTH, TG_PER_TOTAL, TG_PER_COUNT };

TG_API const char *tg_per_name(enum tg_per per);

/* Where the window of `at` begins, and the next one: 00:00 of its first day in the zone, or the
 * first moment of that day where there is no 00:00; the first 00:00 where there are two. Null: UTC.
 * TOTAL begins at 0 and ends at TG_NUMBER_MAX, and so do the first and the last of the others. */
TG_API void tg_window_of(enum tg_per per, const struct tg_zone *zone, tg_ms at, tg_ms *begin,
                         tg_ms *end);

struct tg_bank;

/* An account of a bank. 0 is none. Never used twice. */
typedef uint64_t tg_account;

struct tg_budget {
    tg_micro amount; /* 0 to TG_MONEY_MAX */
    enum tg_per per;
    const struct tg_zone *zone; /* null: UTC; borrowed as long as the account has it */
    enum tg_mode mode;          /* default TG_ENFORCE */
};

#define TG_BUDGETS_MAX 8 /* of one account */
#define TG_LEVELS_MAX 16 /* accounts from a user up to everyone */

struct tg_bank_config {
    size_t max_accounts; /* 1 to 2^30; default 1048576 */
    uint64_t seed;       /* secret, random: of hashing; default 0 */
};

TG_API void tg_bank_config_init(struct tg_bank_config *config);
TG_API TG_MUST_CHECK enum tg_err tg_bank_new(const struct tg_bank_config *config,
                                             struct tg_bank **bank, struct tg_problem *problem);
TG_API void tg_bank_free(struct tg_bank *bank);

/* Opens an account under `parent` (0: at the top) with its budgets, or finds the one of that name
 * there: `fresh` says which, and of one that is found the budgets stay as they are. Concurrent
 * first calls of one user get one account. An account without budgets refuses nothing.
 *
 * When there are max_accounts, a new one takes the place of one that holds nothing: neither money
 * in its current windows, nor accounts under it; that is not at the top, nor nearer to it than the
 * new one. Who finds an account's number to be TG_ERR_UNKNOWN opens it again by its name, and
 * nothing is lost. If none is found, TG_ERR_FULL.
 *
 * The time of a bank never steps back: it is the latest `now` it was told by any function that
 * changes something.
 *
 * TG_ERR_INVALID, TG_ERR_MEMORY, TG_ERR_FULL, TG_ERR_UNKNOWN (no such parent). */
TG_API TG_MUST_CHECK enum tg_err tg_bank_open(struct tg_bank *bank, tg_account parent,
                                              const void *name, size_t name_bytes,
                                              const struct tg_budget *budgets, size_t n, tg_ms now,
                                              tg_account *account, bool *fresh,
                                              struct tg_problem *problem);

/* The account of that name; 0: there is none, which was never opened, or has made place. A look: it
 * opens nothing. */
TG_API tg_account tg_bank_find(struct tg_bank *bank, tg_account parent, const void *name,
                               size_t name_bytes);

/* New budgets for an account. One whose window of now is also that of an old one, from the same
 * moment to the same moment, keeps what was spent in it, whatever its amount, mode or zone; one of
 * another window starts from what is outstanding, and from what the owner then tells
 * tg_bank_restore().
 *
 * TG_ERR_INVALID, TG_ERR_MEMORY, TG_ERR_UNKNOWN. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_change(struct tg_bank *bank, tg_account account,
                                                const struct tg_budget *budgets, size_t n,
                                                tg_ms now, struct tg_problem *problem);

/* Closes an account: no more is reserved there. What is outstanding still settles. Accounts under
 * it are closed too. */
TG_API void tg_bank_close(struct tg_bank *bank, tg_account account);

/* Sets what was settled in one budget's window of `now`, as a ledger remembers it. What is
 * outstanding stays.
 *
 * TG_ERR_INVALID (no such budget, a sum out of its range), TG_ERR_UNKNOWN. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_restore(struct tg_bank *bank, tg_account account,
                                                 size_t budget, tg_micro settled, tg_ms now);

/* A reservation. 0 is none; never used twice. */
typedef uint64_t tg_reservation;

struct tg_money_answer {
    tg_reservation reservation; /* 0: refused */
    tg_micro reserved;          /* how much: what was asked, or less with `up_to` */

    /* Of a refusal, the first budget from the top that is spent; if there is none, the first that
     * is contended: */
    bool contended;     /* only reservations are in the way, anywhere: it may be retried */
    tg_account account; /* whose it is */
    enum tg_per per;
    tg_ms reset_at; /* when its window ends */
    tg_micro amount, used;

    unsigned would_deny; /* budgets in shadow that would have refused */
};

/* Reserves `money` at `account` and all above it. With `up_to`, for a call whose cost has no bound:
 * if less than `money` is left but something is, what is left is reserved, and what it uses beyond
 * that is counted as overshoot.
 *
 * A budget refuses if used + need > amount, and is contended if settled + need <= amount; so never
 * for what is more than the whole amount. The need is the money, but at least 1, so that a budget
 * of which nothing is left refuses free calls too; with `up_to` it is 1.
 *
 * TG_ERR_INVALID (money outside 0 to TG_MONEY_MAX, now out of its range), TG_ERR_UNKNOWN,
 * TG_ERR_MEMORY, TG_ERR_FULL (2^24 - 256 reservations, or more than TG_MONEY_MAX outstanding). */
TG_API TG_MUST_CHECK enum tg_err tg_bank_reserve(struct tg_bank *bank, tg_account account,
                                                 tg_micro money, bool up_to, tg_ms now,
                                                 struct tg_money_answer *answer);

/* What was spent, where and when: a line for a ledger. */
struct tg_spend {
    tg_account account;
    tg_ms reserved_at;
    tg_micro reserved, settled;
};

/* Replaces a reservation by what was spent, at most TG_MONEY_MAX. -1: that is not known, and what
 * was reserved stands; below -1: what is known cannot be believed, the same happens, and an anomaly
 * is counted. False: it had ended before, and nothing is done. `spend` may be null. */
TG_API bool tg_bank_settle(struct tg_bank *bank, tg_reservation reservation, tg_micro spent,
                           struct tg_spend *spend);

/* The least that is left at `account` and above, in budgets that are enforced, and that as a part
 * of its budget's amount; TG_MONEY_MAX and 1 where there is no budget. A look: it changes nothing.
 *
 * TG_ERR_INVALID, TG_ERR_UNKNOWN. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_left(struct tg_bank *bank, tg_account account, tg_ms now,
                                              tg_micro *left, double *part);

/* One budget at one moment. */
struct tg_budget_metrics {
    tg_micro amount, settled, outstanding;
    enum tg_per per;
    enum tg_mode mode;
    tg_ms begin, end;
};

/* Reads the budgets of an account, up to TG_BUDGETS_MAX, and says how many. A look: it changes
 * nothing, and stops the bank for these budgets only. */
TG_API size_t tg_bank_get_budgets(struct tg_bank *bank, tg_account account, tg_ms now,
                                  struct tg_budget_metrics *budgets);

struct tg_bank_stats {
    size_t accounts, reservations;
    uint64_t overshoots; /* settlements above their reservation */
    tg_micro overshot;   /* by how much, together */
    uint64_t anomalies;  /* second settlements, and sums that could not be true */
};

TG_API void tg_bank_get_stats(struct tg_bank *bank, struct tg_bank_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* TOLLGATE_H */
