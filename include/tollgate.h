/* tollgate.h - the whole public interface of libtollgate.
 *
 * Tollgate decides whether a call to a language model may start now. The library does no I/O,
 * starts no thread and reads no clock: you tell it what happened and when, and it tells you what to
 * do. Everything that is not declared here is private and will change.
 *
 *   1 Version   2 Numbers and time   3 Errors   4 Decisions   5 Limiters   6 The keyed store
 *   7 Laws   8 The gate   9 Bid prices   10 Keys   11 Money   12 The allocator
 *
 * Memory:  *_init and *_fini work on your storage; *_new allocates and *_free frees, and
 *          accepts null. A pointer argument is borrowed for the duration of the call, unless its
 *          comment says otherwise. All memory comes from libc, or from your allocator (section 12).
 * Threads: Functions on values are pure. Any number of threads may use a store, a gate, a policy,
 *          a keyring or a bank at once; exceptions are documented where they occur.
 * fork:    A child has a copy of every object. It may use the copies if no other thread was in a
 *          function of theirs at the fork; what it counts there is its own, and of no use to the
 *          parent. After a fork without such care it may only call exec or _exit.
 * Errors:  Functions that can fail return enum tg_err. Results are the last parameters and are
 *          left untouched on error.
 * Growth:  A struct with a `struct_size` is initialized by its *_init macro, which notes the size
 *          that it has in your header. Later versions add members at its end, default 0, so
 *          a program that was compiled before keeps working. Functions that fill in a struct of
 *          numbers are macros, too, and pass its size. From other languages, call the function with
 *          the suffix _sized that is behind the macro. Structs without a size have the same members
 *          for as long as the soname stays the same.
 * Misuse:  A null pointer where one is needed is TG_ERR_NULL, and a struct that was not initialized
 *          TG_ERR_UNINITIALIZED, even if it is all zeros. Functions without enum tg_err return
 *          false, 0 or null then. In three structs whose defaults are not 0, and that
 *          are easily forgotten, a 0 means the default if struct_size is 0: tg_release,
 *          tg_key_report and tg_price. tests/api/misuse.c has them all.
 * Systems: 64-bit, with IEEE 754 arithmetic and without -ffast-math; Linux is tested on x86-64, and
 *          on aarch64 under emulation. docs/library.md has the others.
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
#define TG_VERSION_MINOR 2
#define TG_VERSION_PATCH 0
#define TG_VERSION "0.2.0"

/* The version of the library that is running, which may be newer than the header. Static. */
TG_API const char *tg_version(void);

/* ---- 2 Numbers and time -------------------------------------------------------------------
 *
 * Every number in a decision is an integer in [0, TG_NUMBER_MAX], which a double represents
 * exactly, so C, Lua in Redis and JSON agree to the bit. Arithmetic saturates there and never
 * wraps. */

#define TG_NUMBER_MAX INT64_C(9007199254740991) /* 2^53 - 1 */

/* A point in time or a duration, in whole milliseconds. Points in time count from the epoch, to
 * which windows are aligned, and are in [0, TG_NUMBER_MAX]. */
typedef int64_t tg_ms;

/* ---- 3 Errors -----------------------------------------------------------------------------
 *
 * An error means that no decision could be made. A refusal is not an error but a decision
 * (section 4), and is returned with TG_OK. */

#define TG_ERRORS(X)                                                                               \
    X(OK, 0, "success")                                                                            \
    X(ERR_INVALID, 1, "an argument or a setting is outside its range")                             \
    X(ERR_MEMORY, 2, "the allocator has no memory")                                                \
    X(ERR_FULL, 3, "the store is full of live keys and takes no new one")                          \
    X(ERR_UNKNOWN, 4, "no such strategy, field or set of limits")                                  \
    X(ERR_STALE, 5, "the lease has ended, or is not at this step")                                 \
    X(ERR_STORE, 6, "the store could not decide")                                                  \
    X(ERR_NULL, 7, "a pointer that is needed is null")                                             \
    X(ERR_UNINITIALIZED, 8, "a struct was not initialized by its init function")                   \
    X(ERR_REENTERED, 9, "a wake function called its gate")

enum tg_err {
#define TG_ERROR_ENUM(name, value, text) TG_##name = value,
    TG_ERRORS(TG_ERROR_ENUM)
#undef TG_ERROR_ENUM
};

/* Returns the text from the list above, or a text that says that the number is unknown. Static. */
TG_API const char *tg_strerror(enum tg_err err);

/* Describes what is wrong with a configuration: the field, its value, and what is allowed. It is
 * filled in on error by the functions that take one; pass null if you do not need it. */
struct tg_problem {
    char text[640];
};

/* ---- 4 Decisions --------------------------------------------------------------------------
 *
 * Every limit answers with this one type, and tg_decision_combine() combines answers:
 *
 *     combine(a, b) = { and, min, min, max, max }
 *
 * It is commutative, associative and idempotent, and TG_ALLOW_FULL is its identity: the answer is
 * the same in whatever order and grouping limits are checked (tests/prop/test_algebra.c). */

struct tg_decision {
    bool allowed;
    int64_t limit;        /* the ceiling: burst, capacity, or the quota of a window */
    int64_t remaining;    /* whole units: left after an allow, available now on a deny */
    tg_ms reset_at;       /* when the limit is replenished, as its strategy defines it */
    tg_ms retry_after_ms; /* 0 on an allow; on a deny, a wait after which the same call is
                             admitted if there is no other traffic; TG_UNSATISFIABLE: never */
};

/* The retry_after_ms of a call that can never be admitted because it costs more than the limit. */
#define TG_UNSATISFIABLE TG_NUMBER_MAX

/* The identity of combine: the answer if there is no limit at all. */
#ifdef __cplusplus
#define TG_ALLOW_FULL (tg_decision{true, TG_NUMBER_MAX, TG_NUMBER_MAX, 0, 0})
#else
#define TG_ALLOW_FULL ((struct tg_decision){true, TG_NUMBER_MAX, TG_NUMBER_MAX, 0, 0})
#endif

TG_API struct tg_decision tg_decision_combine(struct tg_decision a, struct tg_decision b);

/* Combines `n` decisions; TG_ALLOW_FULL if n is 0. */
TG_API struct tg_decision tg_decision_fold(const struct tg_decision *decisions, size_t n);

/* ---- 5 Limiters ---------------------------------------------------------------------------
 *
 * A limiter bounds how much is used per time. It is immutable. What it has counted is a state: a
 * block of bytes that the store (section 6) or you keep, of fixed size, aligned to 8, and free to
 * be copied. All operations are pure functions of limiter, state, time and cost.
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

/* Returns "gcra" for TG_GCRA and so on; null for an unknown number. Static. */
TG_API const char *tg_strategy_name(enum tg_strategy strategy);

/* The settings of a built-in limiter. A strategy uses the fields of its row and rejects the others
 * unless they are 0. Where a field has another name in a spec or a configuration file, that name is
 * in brackets.
 *
 *   gcra            limit units every period; at most burst at once
 *   token_bucket    limit [capacity] units at most; refill units a second
 *   fixed_window    limit units in each window of period [window], aligned to the epoch
 *   sliding_window  limit units in the last period [window], counted in `buckets` parts
 *   sliding_log     limit units in the last period [window], each call recorded
 *   token_budget    limit [budget] units in each period [window]; a meter: the call that crosses
 *                   the budget is admitted in full, later ones are refused */
struct tg_limiter_config {
    enum tg_strategy strategy;
    int64_t limit; /* units, 1 or more; no default */
    tg_ms period;  /* ms, 1 or more; no default */
    int64_t burst; /* units; gcra only; 0: the same as limit; default 0 */
    /* 1 to 100000, at most 1000 for each ms; sliding_window only; 0: 10; default 0 */
    int64_t buckets;
    double refill; /* units a second, above 0, fractions allowed; token_bucket; no default */
};

/* Sets every field to its default. */
TG_API void tg_limiter_config_init(struct tg_limiter_config *config, enum tg_strategy strategy);

/* Parses a spec such as "gcra:limit=10,period=1000,burst=5"; times are in ms. It does not check
 * whether the values are in range; tg_limiter_init() does.
 *
 * TG_ERR_UNKNOWN: no such strategy or field. TG_ERR_INVALID: malformed, duplicate or missing. */
TG_API TG_MUST_CHECK enum tg_err tg_limiter_config_parse(struct tg_limiter_config *config,
                                                         const char *spec,
                                                         struct tg_problem *problem);

struct tg_limiter;

/* What a limiter charged an admitted call, and when. */
struct tg_charge {
    tg_ms at;
    int64_t cost;
};

/* The operations of a limiter. The built-in strategies are six such tables; you can bring your own.
 * `cost` is in [0, TG_NUMBER_MAX] and `now` in the range of tg_ms; the caller has checked both.
 * A cost of 0 is always allowed and charges nothing. Operations take constant time and memory,
 * unless the limiter's comment says otherwise, and none may fail. */
struct tg_limiter_ops {
    const char *name;

    /* Initializes the state of a new key. */
    void (*reset)(const struct tg_limiter *limiter, void *state);

    /* Returns the time from which the state answers like a fresh one if nothing more is charged;
     * from then on it may be forgotten. */
    tg_ms (*fresh_at)(const struct tg_limiter *limiter, const void *state);

    /* Answers what taking `cost` at `now` would answer, and changes nothing. With cost 0 it reports
     * what is available. The answer is written to where it is needed instead of being returned by
     * value, because copying it costs as much as the decision itself. */
    void (*peek)(const struct tg_limiter *limiter, const void *state, tg_ms now, int64_t cost,
                 struct tg_decision *answer);

    /* Charges `cost`. It is called only after a peek at the same `now` has allowed it. */
    void (*take)(const struct tg_limiter *limiter, void *state, tg_ms now, int64_t cost);

    /* Gives back `units` of a charge: settles it at so much less than it was. */
    void (*refund)(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t units);

    /* Replaces a charge by the actual usage. The state of a limiter that is `settled` becomes what
     * it would be had the actual usage been charged when the charge was made, or less is left,
     * never more (tests/prop/test_settlement.c). An excess becomes debt, reported as remaining 0.
     *
     *   gcra, token_bucket   unused units are given back up to the least deficit since the charge:
     *                        what has been refilled since, in spite of the charge, is kept; what
     *                        has been lost, because the bucket was full, is not given
     *   the windows          the count is corrected where the charge was counted; once that has
     *                        left the window, there is nothing to correct
     *
     * Unless it is `settled`, gcra and token_bucket give back at most what the charge would still
     * owe if it had been the only one, which is less when calls overlap. */
    void (*settle)(const struct tg_limiter *limiter, void *state, tg_ms now,
                   struct tg_charge charge, int64_t actual);

    /* Continues, as `limiter`, from what a limiter of the same table with other settings had
     * counted: what was charged stays charged, in the same units. `state` is fresh. May be null;
     * then a change of settings starts afresh. */
    void (*carry)(const struct tg_limiter *limiter, void *state, const struct tg_limiter *from,
                  const void *counted, tg_ms now);
};

/* A limiter, in your storage, filled in by tg_limiter_init(). For a limiter of your own, set ops,
 * state_bytes and context yourself. */
struct tg_limiter {
    const struct tg_limiter_ops *ops;
    size_t state_bytes;              /* size of one key's state; a multiple of 8 */
    struct tg_limiter_config config; /* your settings, with the defaults filled in */
    bool settled;                    /* set by tg_limiter_make_settled() */
    double derived[2];               /* private to the built-in strategies */
    void *context;                   /* yours; the library never reads it */
};

/* TG_ERR_INVALID: a field is out of range or belongs to another strategy; `problem` says which one
 * and what is allowed. TG_ERR_UNKNOWN: no such strategy. */
TG_API TG_MUST_CHECK enum tg_err tg_limiter_init(struct tg_limiter *limiter,
                                                 const struct tg_limiter_config *config,
                                                 struct tg_problem *problem);

/* Makes a built-in limiter one whose charges are estimates: what a call used is known later, and
 * its settlement is retroactive (see `settle` above). The state becomes larger, by 112 bytes for
 * gcra and token_bucket, by 8 for the others; a state from before must not be used any more. A
 * limiter of your own stays as it is. The store does this to limits on the cost axis. */
TG_API void tg_limiter_make_settled(struct tg_limiter *limiter);

/* ---- 6 The keyed store --------------------------------------------------------------------
 *
 * The store keeps the states of many keys within a memory bound that is set at creation. A key's
 * entry holds the states of all its limiters. One call checks and debits the limiters of several
 * keys in one critical section, if they belong to one root (a tenant with its parents and users).
 *
 * A key is identified by 96 bits of a hash with a secret seed, never by its bytes: 32 bytes per
 * entry, nothing to copy, nothing to leak, any length (docs/decisions/0005).
 *
 * When memory is used up, a new key replaces one whose state has become that of a fresh key; if
 * there is none, the new key is refused with TG_ERR_FULL. A live limit is never reset. The fewer
 * such keys there are, the longer it takes to find one: size a store so that it is seldom full. */

struct tg_store;

struct tg_store_config {
    size_t struct_size;  /* set by tg_store_config_init() */
    size_t memory_bytes; /* bound for all keys together, except for the copy of a table while it
                            is being resized; default 64 MiB */
    uint64_t seed;       /* secret, random: whoever knows it can choose colliding keys; default 0 */
    uint32_t shards; /* locks, a power of two up to 65536; 0: chosen by memory_bytes; default 0 */
};

#define tg_store_config_init(config)                                                               \
    tg_store_config_init_sized((config), sizeof(struct tg_store_config))
TG_API void tg_store_config_init_sized(struct tg_store_config *config, size_t size);

/* TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_store_new(const struct tg_store_config *config,
                                              struct tg_store **store, struct tg_problem *problem);

/* No other thread may use the store from here on. */
TG_API void tg_store_free(struct tg_store *store);

/* What is counted: calls in flight (by the gate, section 8), calls per time, and cost per time. */
enum tg_axis {
    TG_AXIS_CONCURRENCY,
    TG_AXIS_RATE, /* 1 per call */
    TG_AXIS_COST, /* the cost of each call */
    TG_AXIS_COUNT,
    TG_AXIS_NONE = TG_AXIS_COUNT
};

/* Whether a limit refuses, or only counts what it would have refused. */
enum tg_mode { TG_ENFORCE, TG_SHADOW };

/* One limit of a scope. In shadow it decides, is charged if it allows, and refuses nothing. */
struct tg_limit {
    struct tg_limiter limiter;
    enum tg_axis axis; /* TG_AXIS_RATE or TG_AXIS_COST; token_budget is for cost only */
    enum tg_mode mode; /* default TG_ENFORCE */

    /* For the cost axis under a gate, which may charge less than a call asks for (section 8): how
     * many units calls in flight together may have been charged less. 0: TG_OVERDRAFT times what
     * the limit can hold; negative: none, every call is charged at least what it asks for. */
    int64_t overdraft;
};

/* With calls that use a twentieth of what they ask for, and a limit that holds half of what it is
 * replenished by during a call, 38 times what it holds has to be in flight uncharged for the limit
 * to be used in full. */
#define TG_OVERDRAFT 40

#define TG_LIMITS_MAX 8  /* limits in one set */
#define TG_SCOPES_MAX 16 /* scopes in one debit */

/* A set of limits that was defined in a store. 0 is none. */
typedef uint32_t tg_limits;

/* Defines the limits of one kind of key. They are copied and live as long as the store. The same
 * key under two sets has two entries. Only one thread at a time may call this.
 *
 * TG_ERR_INVALID: no limits or too many, a wrong axis, a state that no entry can hold.
 * TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_store_define(struct tg_store *store,
                                                 const struct tg_limit *limits, size_t n,
                                                 tg_limits *set, struct tg_problem *problem);

/* New limits for a set. */
struct tg_redefinition {
    tg_limits set;
    const struct tg_limit *limits; /* copied */
    size_t n;
};

/* Changes the limits of sets in use, in one step for all of them and all their keys. A kind is a
 * table of operations and an axis. The first limit of a kind continues from what the first limit of
 * that kind had counted, the second from the second:
 *
 *   gcra, token_bucket            the units that are owed stay owed and are paid off at the new
 *                                 rate; what exceeds the new burst or capacity is debt
 *   fixed_window, token_budget    the count moves into the current window
 *   sliding_window                counts stay if only the limit changes; otherwise everything that
 *                                 is still in the window counts as charged now
 *   sliding_log                   every call that is in both windows stays
 *
 * Other limits start fresh. All shards stay locked for some 100 ns per key of the store, however
 * many sets there are. Only one thread at a time may call this or tg_store_define().
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

    /* Only for a gate whose store is remote, and which so does not know the limits: the least that
     * an enforced limit of this scope on the cost axis can hold, TG_NUMBER_MAX if there is none,
     * and the least of their overdrafts in units. 0: not known; such a call is charged what it asks
     * for. */
    int64_t ceiling;
    int64_t overdraft;

    /* For messages, whose limits these are: `kind` before the key, `suffix` after it, such as
     * "tenant" and null for "tenant dept", or "user" and " of tenant dept". Borrowed. A null kind:
     * the key is not named. */
    const char *kind;
    const char *suffix;
};

enum tg_charging {
    TG_CHARGE_ATOMIC,  /* every limit is checked; then all are debited, or on a refusal none */
    TG_CHARGE_PER_AXIS /* rate is checked and debited; only if it allows, cost is, too. The axis
                          that did not refuse is peeked at, for the hints of the combined decision
                          alone: after them a call that meets no other passes both */
};

/* What a call requests from the store. */
struct tg_debit {
    const struct tg_scope *scopes; /* 1 to TG_SCOPES_MAX, all different */
    size_t n_scopes;
    int64_t cost;      /* for limits on the cost axis; limits on the rate axis take 1 */
    const void *root;  /* what all scopes belong to; null: the first scope's key */
    size_t root_bytes; /* a key must always come with the same root, which selects its shard */
    enum tg_charging charging; /* default TG_CHARGE_ATOMIC */
};

/* One limit of a debit, and its own answer. */
struct tg_limit_answer {
    const struct tg_limiter *limiter; /* the store's, good for as long as that lives; null: a remote
                                         store has decided, and did not say */
    uint8_t scope;                    /* whose limit it is: index in debit.scopes */
    uint8_t limit;                    /* index in the set of that scope */
    struct tg_decision decision;
};

/* The answers by axis. An axis that was not checked or has no limit is not in `present`. */
struct tg_axes {
    struct tg_decision decision[TG_AXIS_COUNT];
    unsigned present;    /* bits 1 << axis */
    unsigned would_deny; /* bits of the axes on which a limit in shadow would have refused */

    /* For rate and cost, if they are present, the one limit to speak of: of those that refuse, the
     * one that takes longest to pass; if none refuses, the one with the least left in proportion,
     * remaining / limit. Of several alike it is the first. */
    struct tg_limit_answer named[TG_AXIS_COUNT];

    /* With TG_CHARGE_PER_AXIS, what the other axis adds to the hints of a refusal: if rate refused,
     * cost, which is not present, but is peeked at; if cost refused, the rate that this call has
     * spent, where there is none for it to come again. The combined reset_at and retry_after_ms are
     * these at least. Otherwise 0. */
    tg_ms reset_at, retry_after_ms;
};

/* Returns the first of concurrency, rate and cost that refused; TG_AXIS_NONE if none did. */
TG_API enum tg_axis tg_axes_binding(const struct tg_axes *axes);

/* Combines all axes that are present. */
TG_API struct tg_decision tg_axes_combine(const struct tg_axes *axes);

/* Returns the limit that refused: of the binding axis, the one that takes longest to pass. Null if
 * neither rate nor cost is the binding axis. */
TG_API const struct tg_limit_answer *tg_axes_refusing(const struct tg_axes *axes);

/* Returns "concurrency", "rate" or "cost"; null for TG_AXIS_NONE. Static. */
TG_API const char *tg_axis_name(enum tg_axis axis);

/* Checks the limits of every scope and combines the answers; if all allow, all are debited. `axes`,
 * unless null, gets the answers by axis. A limit that was not debited is reported as it stands; one
 * that was debited, with what is left after the debit.
 *
 * TG_ERR_INVALID: cost or time out of range. TG_ERR_UNKNOWN: no such set of limits.
 * TG_ERR_FULL, TG_ERR_MEMORY: there was no room for a new key. Nothing was charged. */
TG_API TG_MUST_CHECK enum tg_err tg_store_take(struct tg_store *store, const struct tg_debit *debit,
                                               tg_ms now, struct tg_decision *decision,
                                               struct tg_axes *axes);

/* Gives the same answer without debiting anything, and creates no key. */
TG_API TG_MUST_CHECK enum tg_err tg_store_peek(struct tg_store *store, const struct tg_debit *debit,
                                               tg_ms now, struct tg_decision *decision,
                                               struct tg_axes *axes);

/* One limit by itself, at one moment. */
struct tg_limit_metrics {
    enum tg_axis axis;
    enum tg_mode mode;
    struct tg_limiter_config config;
    struct tg_decision decision; /* for the debit; `remaining` is always what is left now */
};

/* Reports how each limit of one scope answers a debit, in the order of its set, to find out which
 * limit refuses. Returns the number of limits, at most TG_LIMITS_MAX; 0 if tg_store_peek() would
 * return an error or there is no such scope. Debits nothing and creates no key. */
#define tg_store_peek_scope(store, debit, scope, now, limits)                                      \
    tg_store_peek_scope_sized((store), (debit), (scope), (now), (limits),                          \
                              sizeof(struct tg_limit_metrics))
TG_API size_t tg_store_peek_scope_sized(struct tg_store *store, const struct tg_debit *debit,
                                        size_t scope, tg_ms now, struct tg_limit_metrics *limits,
                                        size_t size);

/* Performs many takes with one clock value, independently and in order; while one is decided, the
 * memory of the next ones is prefetched. `errs[i]` says whether `decisions[i]` is valid. */
TG_API void tg_store_take_many(struct tg_store *store, const struct tg_debit *debits, size_t n,
                               tg_ms now, struct tg_decision *decisions, enum tg_err *errs);

/* Undoes a take that was allowed at `charged_at`: all its limits get back what is still owed, those
 * on the cost axis as if it had been settled at 0.
 * Limits in shadow are left out, here and in tg_store_settle(), because the store does not know
 * whether they were charged.
 *
 * TG_ERR_INVALID, TG_ERR_UNKNOWN as above. */
TG_API TG_MUST_CHECK enum tg_err tg_store_refund(struct tg_store *store,
                                                 const struct tg_debit *debit, tg_ms now,
                                                 tg_ms charged_at);

/* Replaces, on the cost axis, the cost of a take that was allowed at `charged_at` by the actual
 * usage, retroactively: each limit becomes what it would be had the actual usage been charged at
 * `charged_at`, and never looser (struct tg_limiter_ops). Call it at most once per take: the store
 * does not remember calls, the owner of the call does.
 *
 * TG_ERR_INVALID, TG_ERR_UNKNOWN as above. TG_ERR_FULL, TG_ERR_MEMORY: there was no room for the
 * debt of a key that has been forgotten meanwhile. */
TG_API TG_MUST_CHECK enum tg_err tg_store_settle(struct tg_store *store,
                                                 const struct tg_debit *debit, tg_ms now,
                                                 tg_ms charged_at, int64_t actual);

/* Forgets every key whose state is that of a fresh one at `now`, and returns their number. It is
 * never required, because a full store does it by itself, but you can use idle moments to free
 * memory earlier. A forgotten key does not remember `now`: do not let the clock step back across a
 * sweep. */
TG_API size_t tg_store_sweep(struct tg_store *store, tg_ms now);

struct tg_store_stats {
    size_t keys;         /* current number of entries */
    size_t memory_bytes; /* memory they use now, tables included */
    uint64_t forgotten;  /* keys replaced or swept since the store was created */
    uint64_t refused;    /* debits that failed with TG_ERR_FULL */
};

/* Reads the statistics shard by shard, while other threads continue. */
#define tg_store_get_stats(store, stats)                                                           \
    tg_store_get_stats_sized((store), (stats), sizeof(struct tg_store_stats))
TG_API void tg_store_get_stats_sized(struct tg_store *store, struct tg_store_stats *stats,
                                     size_t size);

/* ---- 7 Laws -------------------------------------------------------------------------------
 *
 * A law moves the concurrency limit, based on calls: how long they took, to their end or to their
 * first byte (tg_gate_first_byte), and how many there were. It works with any clock, and
 * re-measures its baseline.
 *
 *   auto       finds the knee of throughput: raises the limit while more calls end, lowers it while
 *              no fewer do, and both only while it binds; where first bytes are told, the limit
 *              follows how many calls wait for theirs. For servers that nobody has measured
 *   vegas      compares a window's mean latency with the lowest one: (1 - lowest / mean) of the
 *              calls are waiting somewhere; with fewer than alpha the limit grows by one, with more
 *              than beta it shrinks by one, at the first event after the end of its window. For
 *              work of one kind, and a start that is about right
 *   gradient2  scales the limit by how much slower the last call was than the fastest recent one,
 *              plus the square root of the limit. For calls that all take about the same time
 *   aimd       adds one while calls are fast, and multiplies by `backoff` when one is slow or
 *              dropped. For the same, and servers that say when they are overloaded
 *   fixed      the limit is `initial`
 *   none       the limit is `max`
 */

#define TG_LAWS(X)                                                                                 \
    X(VEGAS, vegas)                                                                                \
    X(GRADIENT2, gradient2)                                                                        \
    X(AIMD, aimd)                                                                                  \
    X(FIXED, fixed)                                                                                \
    X(NONE, none)                                                                                  \
    X(AUTO, auto)

enum tg_law {
#define TG_LAW_ENUM(upper, lower) TG_LAW_##upper,
    TG_LAWS(TG_LAW_ENUM)
#undef TG_LAW_ENUM
        TG_LAW_COUNT
};

/* Returns "vegas" for TG_LAW_VEGAS and so on; null for an unknown number. Static. */
TG_API const char *tg_law_name(enum tg_law law);

struct tg_law_config {
    enum tg_law law; /* default vegas */
    int64_t initial; /* calls, within [min, max]; default 128; of auto, gradient2, aimd 20 */
    int64_t min;     /* 1 or more; default 8; of auto 1 */
    int64_t max;     /* default 1024; of gradient2 and aimd 200 */
    tg_ms window;    /* time between steps of vegas; 1 or more; default 1000 */
    struct {
        double alpha;           /* calls, above 0; default 2 */
        double beta;            /* calls, above alpha; default 8 */
        double min_utilisation; /* grow only if the peak was this fraction of the limit; 0 to 1;
                                   0: always; default 0.5 */
    } vegas;
    struct {
        double tolerance;   /* multiple of the fastest that is not yet slow, 1 or more; default 15,
                               for calls that vary among themselves */
        double smoothing;   /* weight of a new sample, above 0, at most 1; default 0.2 */
        int64_t rtt_window; /* samples over which the fastest is taken, 1 to 10000; default 1000:
                               with fewer, the fastest of an overloaded server becomes the base */
    } gradient2;
    struct {
        double tolerance;   /* the same; default 20 */
        double backoff;     /* factor of a decrease, from 0.5 to below 1; default 0.9 */
        int64_t rtt_window; /* the same; default 1000 */
    } aimd;
    uint64_t unused[8]; /* for later versions; 0 */
};

TG_API void tg_law_config_init(struct tg_law_config *config);

/* Sets the law, and initial, min and max to what this law has by default. */
TG_API void tg_law_config_choose(struct tg_law_config *config, enum tg_law law);

/* TG_ERR_INVALID: `problem` names the field and what is allowed. */
TG_API TG_MUST_CHECK enum tg_err tg_law_config_check(const struct tg_law_config *config,
                                                     struct tg_problem *problem);

/* ---- 8 The gate ---------------------------------------------------------------------------
 *
 * The gate makes one decision over all stages, in this order. What a stage took is given back when
 * a later one refuses:
 *
 *   memory       memory in use, by priority                     reason memory_pressure
 *   peers        calls of one peer at once                      reason peer_limit
 *   concurrency  calls at once; the only place to wait          reason concurrency
 *   policy       whether the call is worth admitting            reason policy
 *   rate, cost   the limits of the call's scopes                reason rate, cost
 *
 * The gate is a state machine and never blocks a thread: tg_gate_admit() returns at once, either
 * with a decision, or because the call waits for a slot, or because a remote store has to be asked.
 * The call continues when its owner calls again.
 *
 *   tg_gate_admit --> TG_DECIDED
 *             |-----> TG_WAITING -----> wake() or deadline, then tg_gate_resume --> like admit
 *             `-----> TG_NEEDS_STORE -> tg_gate_store_answered ----------------------> TG_DECIDED
 *
 * An admitted call that holds something, or will be settled, has a lease. The lease ends exactly
 * once: by tg_gate_release() or when it expires. Ending it twice does nothing.
 *
 * `now` should come from a steady clock, such as CLOCK_MONOTONIC plus an offset to the epoch. If it
 * goes back by at most TG_CLOCK_TRUST, the queue, the leases and the law stay at the latest time
 * seen. If it goes back further, it was wrong before or is wrong now: their time continues from the
 * latest time seen, and passes as fast as `now` does, so that a clock that was an hour ahead once
 * delays nothing. If `now` then returns to what it was, nothing has happened. What is due at a time
 * that was never true is over all the same: leases that a tick an hour ahead has ended stay ended.
 * Limiters, the policy, a keyring and a bank see time as given.
 *
 * A call asks for the most that it may use (debit.cost), and often uses far less. On the cost axis
 * it is charged what calls like it have used:
 *
 *     charge = asked x mean of used to asked                 at least 1 if it asks for anything
 *
 * The mean is learned from every lease that ends with an actual usage above 0, by tenant and
 * `like`; it begins at factor.start and is kept between factor.min and factor.max. The charge is
 * settled when the lease ends: what was not used is given back, what was used beyond it is a debt
 * that the next calls pay. For a bucket of `capacity` that gets `refill` units a second, every
 * moment y at which a call is admitted, and every x before it,
 *
 *     actuals of calls admitted in (x, y] <= capacity + refill x (y - x) + V(y)
 *     V(y) = sum over calls in flight at y of max(0, actual - charge)
 *
 * (tests/prop/test_charge.c). A charge that would take sum(asked - charge) over the calls in flight
 * above the overdraft of one of their limits is raised: so V(y) <= overdraft, as long as no call
 * uses more than it asks for. "Never" (TG_UNSATISFIABLE) is never said because of a learned number:
 * a call is refused so if and only if what it asks for is more than a limit can hold, and is
 * charged no more than the limit can hold otherwise. Until a lease has ended with an actual usage,
 * calls are charged asked x factor.start, which is 1 by default. */

struct tg_gate;

#define TG_CLOCK_TRUST ((tg_ms)10000)

enum tg_priority { TG_PRIORITY_HIGH, TG_PRIORITY_NORMAL, TG_PRIORITY_LOW, TG_PRIORITY_COUNT };

/* Returns "high", "normal" or "low"; null for an unknown number. Static. */
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

/* Returns the text from the list above; null for an unknown number. Static. */
TG_API const char *tg_reason_name(enum tg_reason reason);

struct tg_call;

/* A call that has ended: what was estimated when it was admitted, and what it actually used. */
struct tg_spent {
    tg_ms admitted_at;
    int64_t cost, actual; /* equal if no actual was given, also for a lease that expired */
    double hold_s;        /* what the call stated */
    double held_s;        /* time since it got its slot; without one, since it was admitted */
};

/* A policy decides which calls are worth the capacity they use: bid prices (section 9), or a
 * policy of your own with this as its first member. It is asked once a slot is held and before
 * anything is debited. Its functions are called by any thread, without the gate's lock. It can
 * only remove admissions.
 *
 * `admitted` is called once for every admitted call, in shadow too, and `released` once when its
 * lease ends; if `released` is not null, every such call has a lease. They are called in this
 * order, whatever the threads do. If another thread releases a call while it is being decided
 * (TG_ERR_STALE), `admitted` may already have been called; then `released` follows at once, with
 * an actual of 0. `released` is not called for leases that end with tg_gate_free(), nor for
 * calls judged by a policy that has since been replaced. So once tg_gate_reconfigure() has
 * replaced a policy, it can be freed as soon as no thread is in a function of the gate that it
 * entered before. */
struct tg_policy {
    /* Returns whether to admit the call. `in_flight` is the number of slots held, including this
     * call's; 0 if concurrency is off. */
    bool (*worth)(struct tg_policy *policy, const struct tg_call *call, int64_t in_flight,
                  tg_ms now);

    /* Notifications: the call has been admitted; its lease has ended. Null: not wanted. If a remote
     * store decided, `call` has priority, cost, value and hold, and defaults otherwise. */
    void (*admitted)(struct tg_policy *policy, const struct tg_call *call, tg_ms now);
    void (*released)(struct tg_policy *policy, const struct tg_spent *spent, tg_ms now);

    /* The call was refused by another stage: TG_REASON_CONCURRENCY, it found no slot and `worth`
     * was not asked; TG_REASON_RATE or TG_REASON_COST, after `worth` had said yes. `call` as for
     * `admitted`. Null: not wanted. */
    void (*refused)(struct tg_policy *policy, const struct tg_call *call, enum tg_reason reason,
                    tg_ms now);
};

/* In place of a wait: the gate derives it from the limit and from the mean time that a slot is
 * held: that of all calls, or half the mean over slot time, E[t^2] / (2 E[t]), if that is longer,
 * as it is where short and long calls meet. High waits max(2, 8 / sqrt(limit)) times the mean, the
 * others max(2 / sqrt(limit), 2 / (limit x share)) times it; each at least as long as the call is
 * expected to take, at least the fixed default of its class, and at most 30 s. Until a call has
 * ended the mean is 1 s. */
#define TG_WAIT_AUTO ((tg_ms)-1)

/* Settings of a gate. A stage that is not `on` is skipped. */
struct tg_gate_config {
    size_t struct_size; /* set by tg_gate_config_init() */
    struct {
        bool on;           /* default false */
        enum tg_mode mode; /* default TG_ENFORCE, here and below */
        double pressure;   /* above this fraction, low is refused; default 0.85 */
        double critical;   /* above this, all but high are refused; default 0.95 */
        double limit;      /* above this, all are refused; default 0.98 */
    } memory;
    struct {
        bool on;
        enum tg_mode mode;
        int64_t limit;     /* calls of one peer, waiting or running; 1 or more; default 64 */
        int64_t max_peers; /* how many are distinguished; the rest share one; default 65536 */
    } peers;
    struct {
        bool on;
        enum tg_mode mode;
        struct tg_law_config law;
        int64_t queue_size;              /* waiting calls of each priority; default 1024 */
        tg_ms wait[TG_PRIORITY_COUNT];   /* how long each may wait, or TG_WAIT_AUTO; default 100,
                                            50, 0 */
        double share[TG_PRIORITY_COUNT]; /* earned from each grant to a higher class; a class that
                                            reaches 1 goes first; [0] is not used; default 0.2
                                            and 0.05 */
        double low_ratio;                /* fraction of the limit that low may hold, 0 to 1; above 0
                                            at least one slot; default 0.5; 1: all of it */
    } concurrency;

    struct tg_policy *policy; /* borrowed; null: every call is worth it; default null */
    enum tg_mode policy_mode;

    tg_ms lease_ttl;        /* a lease that is not renewed expires so long after the call was
                               admitted; while it is decided it has 10 min, or this if it is
                               longer; default 600000 */
    int64_t max_learned;    /* kinds of calls whose mean usage is remembered, 0 to 2^24; one that is
                               new replaces one that was not used lately; default 65536 */
    struct tg_store *store; /* where rate and cost are decided; borrowed; null: none */
    bool remote_store;      /* rate and cost are decided elsewhere: TG_NEEDS_STORE; default false */
    uint64_t seed;          /* for hashing; secret, random, as for a store; default 0 */
    uint64_t chance;        /* for the law's randomness: the same events with the same number give
                               the same decisions; 0: `seed`; default 0 */

    /* Called when a waiting call should be resumed, because it got a slot or its wait is over.
     * It runs under the gate's lock, in whichever thread caused it: it may only post a message
     * and must not call the gate, whose functions do nothing then and return TG_ERR_REENTERED,
     * false or 0. After a lease has ended, it is not called for that lease. A gate in which calls
     * may wait needs one. */
    void (*wake)(void *context, void *waiter);
    void *context; /* the argument of wake() */
};

#define tg_gate_config_init(config)                                                                \
    tg_gate_config_init_sized((config), sizeof(struct tg_gate_config))
TG_API void tg_gate_config_init_sized(struct tg_gate_config *config, size_t size);

/* TG_ERR_INVALID, TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_new(const struct tg_gate_config *config,
                                             struct tg_gate **gate, struct tg_problem *problem);

/* No other thread may use the gate from here on. Leases that are still open end with it. */
TG_API void tg_gate_free(struct tg_gate *gate);

/* Changes the settings of a running gate. All state is kept: calls that are running or waiting
 * continue and count under the new limits; a lower limit revokes nothing; the law keeps its limit,
 * clamped to its new range. `store`, `remote_store` and `seed` cannot change. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_reconfigure(struct tg_gate *gate,
                                                     const struct tg_gate_config *config, tg_ms now,
                                                     struct tg_problem *problem);

/* Sets the fraction of memory in use, from 0 to 1. NaN: unknown; memory then refuses nothing. */
TG_API void tg_gate_set_memory(struct tg_gate *gate, double used);

/* A lease, or the handle of a call that does not have one yet. 0 is none. Never reused. */
typedef uint64_t tg_lease;

/* Bounds for the mean of used to asked of calls that are alike. TG_FACTOR_MIN <= min <= start <=
 * max <= TG_FACTOR_MAX; all three 0: the defaults. With 1 for all three a call is charged what it
 * asks for. */
struct tg_factor {
    double start; /* the mean before any call has ended; default 1 */
    double min;   /* default TG_FACTOR_MIN */
    double max;   /* default TG_FACTOR_MAX */
};

#define TG_FACTOR_MIN 0.05
#define TG_FACTOR_MAX 3.0

/* A call that asks to be admitted. Borrowed for the duration of each function it is passed to. */
struct tg_call {
    size_t struct_size;        /* set by tg_call_init() */
    enum tg_priority priority; /* default normal */
    const void *peer;          /* the party that fairness counts; null: not counted; default null */
    size_t peer_bytes;
    int64_t peer_limit;     /* limit of this peer; 0: the gate's, if peers are on; default 0 */
    enum tg_mode peer_mode; /* mode of that limit, if it is given; default TG_ENFORCE */
    const void *tenant;     /* waiting is fair between tenants; null: the peer; default null */
    size_t tenant_bytes;
    double weight;         /* the tenant's share among waiting tenants, 1e-6 to 1e6; default 1 */
    int64_t work;          /* what the call is expected to take, in a unit of yours (tokens), for
                              fairness between tenants: either all calls of a gate state it, or
                              none. 0: the time it will hold its slot; default 0 */
    struct tg_debit debit; /* for rate and cost; without scopes, neither is checked; default none.
                              Its cost is what the call asks for, the most it is expected to use */
    const void *like;      /* what tells which calls of a tenant use alike, such as the model; null:
                              those of the same first scope; default null */
    size_t like_bytes;
    struct tg_factor factor;
    double value;    /* for the policy; bid prices take NaN or negative as 0; default 1 */
    double hold_s;   /* seconds; to bid prices, negative or not finite is 0; default 0 */
    int64_t size;    /* what the time to a first byte depends on, such as tokens of the
                              prompt: a first byte is compared with calls of this size, to a power
                              of two; default 0 */
    tg_ms deadline;  /* the call does not wait beyond this point; 0: none; default 0 */
    tg_ms lease_ttl; /* 0: the gate's; default 0 */
    void *waiter;    /* passed to wake() */

    /* For messages: */
    const char *unit;      /* what a cost counts, such as "tokens"; null: "units"; default null */
    const char *gate_kind; /* whose concurrency limit the gate has: "model"; null: not said; */
    const char *gate_name; /* and its name; null: none; default null, both */

    /* For tg_gate_precheck() alone: */
    bool peek;                   /* it peeks at the limits of `debit`, too; default false */
    const struct tg_axes *known; /* what a remote store is known to say of it; null: nothing;
                                    default null */
};

#define tg_call_init(call) tg_call_init_sized((call), sizeof(struct tg_call))
TG_API void tg_call_init_sized(struct tg_call *call, size_t size);

enum tg_step { TG_DECIDED, TG_WAITING, TG_NEEDS_STORE };

struct tg_answer {
    enum tg_step step;
    tg_lease lease; /* pass it to the next function; 0 if nothing is held */
    tg_ms deadline; /* TG_WAITING: when to tick or resume; a lease: when it expires */
    int64_t charge; /* TG_NEEDS_STORE: what to ask the store for in place of debit.cost; an admitted
                       call: what it was charged on the cost axis */
    double factor;  /* the same: mean of used to asked of calls like it, for limits of your own */

    /* Valid with TG_DECIDED: */
    struct tg_decision decision; /* the combination of all axes that were checked */
    enum tg_reason reason;       /* TG_REASON_NONE if the call is admitted */
    bool policy_denied;          /* the policy refused; no axis is binding then */
    struct tg_axes axes;         /* tg_axes_binding() says which one refused first */
    unsigned would_deny;         /* bits 1 << reason of stages in shadow that would have refused */
    double memory_used;          /* the memory use that caused a refusal */

    /* With TG_REASON_CONCURRENCY, how long to tell a client to stay away; else 0. decision's
     * retry_after_ms is when its turn comes on average. Who comes back after client_wait_ms gets a
     * slot in 95 of 100 cases, if nobody else comes and calls take as long as they did. At least
     * retry_after_ms, and at most a minute where that is not longer. */
    tg_ms client_wait_ms;

    uint64_t unused[3]; /* for later versions; not written */
};

/* Writes a refusal's reason for people, with the limit that refused, whose it is, what is left of
 * it and when the call may pass; an empty text for an allow.
 *
 *   memory pressure: 96.0% used
 *   peer X exceeded per-peer limit: 64 calls at once
 *   server overloaded: concurrency limit of model small: 8 calls at once, try again in 1.3 s
 *   rate limit of tenant dept: 6 calls a minute, 0 left, next in 8.6 s
 *   cost limit of user bob of tenant dept: 1000 tokens in each hour, 40 left, enough in 12 min 3 s
 */
TG_API void tg_answer_describe(const struct tg_answer *answer, const struct tg_call *call,
                               char *text, size_t size);

/* Writes how much a limiter allows in what time, such as "6 calls a minute"; `unit` is what it
 * counts. */
TG_API void tg_limiter_describe(const struct tg_limiter *limiter, const char *unit, char *text,
                                size_t size);

/* Checks memory and peers only, which can be decided before a body is read. If they allow the call,
 * `answer` has a lease that counts the peer; pass it to tg_gate_admit() or release it.
 *
 * With `peek` a call is refused that its limits would refuse whatever it turns out to cost, so that
 * a tenant over its limits has no body read. `debit.cost` may be a guess: only 1 of it is asked
 * for (nothing, if it is 0), and it serves for the hints of a refusal. Nothing is charged, and
 * limits in shadow refuse nothing. A call that is refused so would be refused by tg_gate_admit() at
 * the same time, if it costs at least as much. With TG_CHARGE_PER_AXIS the rate axis alone is
 * peeked at. Where the store is remote, `known` is refused by if it refuses. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_precheck(struct tg_gate *gate, const struct tg_call *call,
                                                  tg_ms now, struct tg_answer *answer);

/* Asks for admission. `prechecked` is the lease from tg_gate_precheck(); 0: precheck here.
 *
 * TG_ERR_INVALID, TG_ERR_MEMORY, TG_ERR_FULL, TG_ERR_UNKNOWN, TG_ERR_STALE: there is no decision,
 * nothing is held and nothing was charged. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_admit(struct tg_gate *gate, const struct tg_call *call,
                                               tg_lease prechecked, tg_ms now,
                                               struct tg_answer *answer);

/* Continues a waiting call after wake() or at its deadline. Answers TG_WAITING again if it is
 * too early. `call` must not have changed. Errors as above; TG_ERR_STALE also if another thread
 * released the call while it was being decided: then nothing stays charged. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_resume(struct tg_gate *gate, tg_lease lease,
                                                const struct tg_call *call, tg_ms now,
                                                struct tg_answer *answer);

/* Reports the result of a remote store: TG_OK and the axes, or an error, which is passed on
 * unchanged. TG_ERR_STALE: the call has been released or has ended meanwhile; the caller has to
 * refund what the store has debited for it. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_store_answered(struct tg_gate *gate, tg_lease lease,
                                                        enum tg_err outcome,
                                                        const struct tg_axes *axes, tg_ms now,
                                                        struct tg_answer *answer);

enum tg_outcome {
    TG_OUTCOME_OK,        /* the call has run: a sample for the law */
    TG_OUTCOME_DROPPED,   /* the call failed because of overload: the law contracts */
    TG_OUTCOME_CANCELLED, /* the call says nothing about overload: no sample */
    TG_OUTCOME_REFUSED    /* a stage of yours after the gate refused it: like cancelled, and what
                             rate and cost took is given back */
};

struct tg_release {
    size_t struct_size;      /* set by tg_release_init() */
    enum tg_outcome outcome; /* default ok */
    double sample_ms;        /* the law's sample; negative: the time since admission; default -1 */
    int64_t actual;          /* actual usage in units of cost; negative: the estimate stands;
                                default -1 */
    int64_t work;            /* actual work of a call that stated an expected one, in the same unit;
                                negative: that stands; default -1. For a call that stated none, the
                                gate takes the time it held its slot */
};

#define tg_release_init(release) tg_release_init_sized((release), sizeof(struct tg_release))
TG_API void tg_release_init_sized(struct tg_release *release, size_t size);

/* Ends a lease, or a call that does not have one yet, in whatever state it is. Returns true to
 * exactly one caller, even if several release the same lease concurrently. `release` may be null:
 * the defaults. False also for a `release` that has a wrong struct_size; the lease stays. */
TG_API bool tg_gate_release(struct tg_gate *gate, tg_lease lease, tg_ms now,
                            const struct tg_release *release);

/* The first byte of the reply has come. It is the law's sample of this call, the time since
 * admission compared with that of other calls of its `size`, and the call leaves none at its end:
 * how long an answer is says nothing about load. True once for each lease; false: it has ended, or
 * the first byte was told before. */
TG_API bool tg_gate_first_byte(struct tg_gate *gate, tg_lease lease, tg_ms now);

/* The same for a call that was sent on later than it was admitted: its sample is `sample_ms`. */
TG_API bool tg_gate_first_byte_after(struct tg_gate *gate, tg_lease lease, tg_ms now,
                                     double sample_ms);

/* Whoever serves the calls has said that it will take no more than `room` beyond those in flight
 * now, until `until`; negative: even those are too many. The law auto takes that for a ceiling, but
 * not below its `min`; other laws do not listen. What is said later replaces it; a time that has
 * passed takes it back. */
TG_API void tg_gate_set_room(struct tg_gate *gate, int64_t room, tg_ms until, tg_ms now);

/* Renews a lease for `ttl` ms from now (0: the gate's). False: it has ended. */
TG_API bool tg_gate_renew(struct tg_gate *gate, tg_lease lease, tg_ms now, tg_ms ttl);

/* Returns the time before which no wait ends and no lease expires. It may be too early, but never
 * too late. INT64_MAX: nothing is due. */
TG_API tg_ms tg_gate_next_deadline(struct tg_gate *gate);

/* Wakes the calls whose wait is over and ends the leases that have expired. */
TG_API void tg_gate_tick(struct tg_gate *gate, tg_ms now);

struct tg_gate_stats {
    int64_t limit;     /* concurrency limit now; TG_NUMBER_MAX if that is off */
    int64_t in_flight; /* slots held */
    int64_t queued[TG_PRIORITY_COUNT];
    int64_t peers;      /* peers with a call waiting or running */
    int64_t peer_calls; /* calls of all peers together */
    int64_t leases;     /* open leases, and calls that do not have one yet */
    uint64_t admitted;  /* calls admitted since the gate was created */
    uint64_t refused[TG_REASON_COUNT];
    uint64_t would_deny[TG_REASON_COUNT];
    uint64_t expired;   /* leases that expired */
    double memory_used; /* set by tg_gate_set_memory(); NaN: unknown or never set */
    double last_ms;     /* the last sample of the law; 0: there was none */
    double slot_ms;     /* moving mean of the time that slots are held; -1: no call has ended */
};

#define tg_gate_get_stats(gate, stats)                                                             \
    tg_gate_get_stats_sized((gate), (stats), sizeof(struct tg_gate_stats))
TG_API void tg_gate_get_stats_sized(struct tg_gate *gate, struct tg_gate_stats *stats, size_t size);

/* The state of a gate's law at one moment. */
struct tg_law_metrics {
    enum tg_law law;
    int64_t limit;    /* the limit in force; a probe may hold it below what was learned */
    int64_t learned;  /* the limit that was learned; 0: the law learns nothing */
    int64_t min, max; /* the configured bounds */

    /* For vegas, from the last window in which calls ended; unknown for other laws. */
    double queue_estimate; /* calls that wait somewhere behind the gate; negative: unknown */
    double mean_ms;        /* mean of the samples; 0: none yet */
    double baseline_ms;    /* duration of a call when nothing waits; 0: unknown */
};

#define tg_gate_get_law(gate, metrics)                                                             \
    tg_gate_get_law_sized((gate), (metrics), sizeof(struct tg_law_metrics))
TG_API void tg_gate_get_law_sized(struct tg_gate *gate, struct tg_law_metrics *metrics,
                                  size_t size);

/* What a call would be charged on the cost axis now. */
struct tg_expectation {
    double factor;    /* mean of used to asked of calls like it, within the bounds of the call */
    int64_t expected; /* asked x factor, rounded up */
    int64_t charge;   /* the same, within what the limits can hold and their overdrafts */
};

/* Read-only. TG_ERR_INVALID, TG_ERR_UNKNOWN. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_expect(struct tg_gate *gate, const struct tg_call *call,
                                                struct tg_expectation *expectation);

/* What tg_gate_admit() would do with a call now, as far as memory, peers and the slot decide it:
 *
 *     TG_DECIDED    with a reason it would be refused for that; without one it would get a slot
 *     TG_WAITING    it would wait for one, until `deadline` at most; decision, axes and
 *                   client_wait_ms are what it would be told if it might not wait
 *
 * would_deny has the stages in shadow that would refuse it. Nothing is taken, counted or learned;
 * no lease is in the answer, and no axis but concurrency. TG_ERR_INVALID. */
TG_API TG_MUST_CHECK enum tg_err tg_gate_peek(struct tg_gate *gate, const struct tg_call *call,
                                              tg_ms now, struct tg_answer *answer);

/* Returns how many calls a peer has, waiting or running. 0 for a peer that shares an entry with
 * others because there are more than max_peers. */
TG_API int64_t tg_gate_peer_calls(struct tg_gate *gate, const void *peer, size_t peer_bytes);

/* ---- 9 Bid prices -------------------------------------------------------------------------
 *
 * A policy that knows what is scarce. Rate, cost and slot-seconds each have a price; a call is
 * worth admitting if
 *
 *     value >= price of a call + price of a unit x cost + price of a slot-second x hold
 *
 * with a tolerance of 1e-9 of the right-hand side, so that a call exactly at the margin is
 * admitted. The prices are the duals of the fluid program: of everything that is expected to
 * arrive, choose the fractions that fit into the budgets and are worth most together.
 * docs/bid-price.md has the reasons. */

struct tg_duals {
    double rate;        /* price of a call; finite, 0 or more, like the others */
    double cost;        /* price of a unit of cost */
    double concurrency; /* price of a slot for a second */
};

/* A kind of call. */
struct tg_type {
    double cost;   /* units; 0, or 1e-15 to 1e18, like the others; default 1 */
    double value;  /* default 1 */
    double weight; /* their number, or their share: see tg_workload; default 1 */
    double hold_s; /* seconds; TG_NO_HOLD: not given; default TG_NO_HOLD */
};

#define TG_NO_HOLD (-1.0)
#define TG_TYPES_MAX 256

/* The load that is expected to arrive, and the budgets for it. */
struct tg_workload {
    const struct tg_type *types; /* borrowed */
    size_t n_types;              /* 1 to TG_TYPES_MAX */
    double arrivals;             /* number of arrivals that the budgets cover; weights are then
                                    shares of their sum. 0: weights are counts; default 0 */
    double rate_budget;          /* calls; 1e-15 to 1e18, like the others; no default */
    double cost_budget;          /* units; no default */
    double conc_budget_s;        /* slot-seconds; then every type needs a hold. 0: there is no such
                                    budget, and no type may have a hold; default 0 */
};

TG_API void tg_type_init(struct tg_type *type);
TG_API void tg_workload_init(struct tg_workload *workload);

/* Solves   max sum(weight value x)   with sum(weight x) <= rate_budget, sum(weight cost x) <=
 * cost_budget, sum(weight hold x) <= conc_budget_s and 0 <= x <= 1, through its dual. Among several
 * optimal price vectors it takes the most selective vertex: the one that refuses most types, then
 * the one with the highest price of a slot-second, then of a unit of cost, then of a call.
 * `fractions` has room for the x of each of n_types types, or is null. `objective` may be null.
 *
 * If all prices are 0, nothing is scarce: a policy with this workload refuses nothing.
 *
 * TG_ERR_INVALID: `problem` names the field. TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_fluid_solve(const struct tg_workload *workload,
                                                struct tg_duals *duals, double *fractions,
                                                double *objective, struct tg_problem *problem);

/* Where prices come from. */
#define TG_PRICE_SOURCES(X)                                                                        \
    X(DUALS, "duals")       /* set by you */                                                       \
    X(WORKLOAD, "workload") /* solved once, for the expected load */                               \
    X(ADAPTIVE, "adaptive") /* the same, until a sample shows better ones */                       \
    X(ONLINE, "online")     /* from what is left and what is forecast, all the time */

enum tg_prices {
#define TG_PRICES_ENUM(upper, text) TG_PRICES_##upper,
    TG_PRICE_SOURCES(TG_PRICES_ENUM)
#undef TG_PRICES_ENUM
        TG_PRICES_COUNT
};

/* Returns the text from the list above; null for an unknown number. Static. */
TG_API const char *tg_prices_name(enum tg_prices prices);

struct tg_bid_config {
    size_t struct_size;          /* set by tg_bid_config_init() */
    enum tg_prices prices;       /* default workload */
    struct tg_duals duals;       /* for `duals`; default 0 */
    struct tg_workload workload; /* for `workload`. `adaptive` starts from it, or without types from
                                    `duals`, with `arrivals` and the budgets given. `online` may
                                    start from it; otherwise n_types is 0. Default none */
    int64_t sample_window;       /* for `adaptive`: calls, 1 to 1000000; default 500 */
    struct {
        tg_ms window;         /* the period that the budgets cover, 1 or more; default 60000 */
        double rate_budget;   /* calls in a window; 0: not scarce; default 0, like the others */
        double cost_budget;   /* units of cost in a window */
        double conc_budget_s; /* slot-seconds in a window */
        bool steady;          /* budgets are replenished steadily, like a bucket that holds a
                                 window's budget, instead of all at once at the start of each
                                 window; default false */
        bool guard;           /* since the start and at every moment, the value of the calls that
                                 were admitted is at least 99 % of what a run without policy would
                                 have admitted with these budgets (tests/prop/test_guard.c);
                                 default true */
    } online;                 /* for `online`: at least one budget */
};

#define tg_bid_config_init(config) tg_bid_config_init_sized((config), sizeof(struct tg_bid_config))
TG_API void tg_bid_config_init_sized(struct tg_bid_config *config, size_t size);

/* Creates a policy for tg_gate_config. Everything is copied.
 *
 * TG_ERR_INVALID: `problem` names the field. TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_bid_new(const struct tg_bid_config *config,
                                            struct tg_policy **policy, struct tg_problem *problem);

/* No gate may use it from here on. */
TG_API void tg_bid_free(struct tg_policy *policy);

/* Reads the current prices. */
TG_API void tg_bid_get_duals(struct tg_policy *policy, struct tg_duals *duals);

/* What the guard of `online` has done since the start. */
struct tg_bid_guard {
    bool on;
    uint64_t acted; /* calls that it decided differently from the prices */
    double earned;  /* value of the calls that were admitted */
    double shadow;  /* value of those that a run without policy would have admitted */
    double factor;  /* the mean of what calls used to what they asked for; 1 at the start */
};

/* Reads it; all 0, and the factor 1, for other prices than `online`. */
#define tg_bid_get_guard(policy, guard)                                                            \
    tg_bid_get_guard_sized((policy), (guard), sizeof(struct tg_bid_guard))
TG_API void tg_bid_get_guard_sized(struct tg_policy *policy, struct tg_bid_guard *guard,
                                   size_t size);

/* What `online` has learned, as bytes for tg_bid_load() on the same machine. Writes them if there
 * is room, aligned like malloc(), and returns how many they are: some 150 KB; 0 before the first
 * call, and for other prices. */
TG_API size_t tg_bid_save(struct tg_policy *policy, void *bytes, size_t room);

/* Continues from saved bytes, before the first call.
 *
 * TG_ERR_INVALID: they are damaged, of another version, of another window or other budgets, from
 * later than `now`, or the policy has already judged a call. Then nothing has changed. */
TG_API TG_MUST_CHECK enum tg_err tg_bid_load(struct tg_policy *policy, const void *bytes, size_t n,
                                             tg_ms now);

/* ---- 10 Keys ------------------------------------------------------------------------------
 *
 * Provider keys are capacity. A call leases a key before it is sent and gives it back on every
 * path; choosing a key and taking its capacity is one step. A key can serve a call if it is not
 * suspended, not cooling down after a 429, its breaker lets the call through, and its calls in
 * flight, calls in the last minute and tokens in the last minute leave room, its own and its
 * group's. Two of the keys that can serve are drawn uniformly, and the one with the lower average
 * latency is taken; ties are broken at random. "No key" is never reported while one can serve.
 *
 *     ring       provider -> model -> pool of keys
 *     key        a secret of the provider, identified here by its name, never by its bytes
 *     group      keys of one provider, in any pools, that share limits and cool down together
 *
 * A key in several pools has limits, windows, a breaker and a latency of its own in each, because
 * a provider counts by model, but it is suspended in all of them at once.
 *
 * Windows count the last 60 s in whole seconds, and the partial second at the far end counts in
 * full: a window never admits more than the limit in any 60 s, and memory is fixed.
 *
 * One lease is one attempt. All functions may be called by any number of threads. Time never goes
 * back for a ring: an earlier `now` counts as the latest that was seen. */

struct tg_keyring;
struct tg_pool;

/* Limits of a key or a group; 0: not limited. */
struct tg_key_limits {
    int64_t rpm;         /* calls in 60 s; default 0 */
    int64_t tpm;         /* tokens in 60 s, and tokens in flight; default 0 */
    int64_t concurrency; /* calls in flight; default 0 */
};

struct tg_key_spec {
    const char *name;  /* within a provider, one name is one key */
    const char *group; /* a group of the provider; null: none */
    struct tg_key_limits limits;
    void *owner; /* yours; reported in leases, probes and metrics */
};

struct tg_group_spec {
    const char *provider;
    const char *name;
    struct tg_key_limits limits;
};

struct tg_pool_spec {
    size_t struct_size; /* set by tg_pool_spec_init() */
    const char *provider;
    const char *model;
    const struct tg_key_spec *keys;
    size_t n_keys;            /* 0: a pool that never has a key */
    int64_t breaker_failures; /* consecutive failures that open it: 1 to 1000; default 5 */
    tg_ms breaker_open;       /* how long it stays open; 1 or more; default 30000 */
    tg_ms affinity_ttl;       /* how long a call's key is remembered for related calls; 0: not at
                                 all; default 600000 */
};

#define tg_pool_spec_init(spec) tg_pool_spec_init_sized((spec), sizeof(struct tg_pool_spec))
TG_API void tg_pool_spec_init_sized(struct tg_pool_spec *spec, size_t size);

struct tg_keyring_spec {
    size_t struct_size; /* set by tg_keyring_spec_init() */
    const struct tg_group_spec *groups;
    size_t n_groups;
    const struct tg_pool_spec *pools; /* all initialized by the same header */
    size_t n_pools;
    tg_ms cooldown;      /* after a 429 that does not say how long; default 60000 */
    tg_ms cooldown_max;  /* the longest cooldown that a 429 can ask for; default 3600000 */
    tg_ms probe_every;   /* time between probes of a suspended key; default 60000 */
    size_t max_affinity; /* affinities remembered in each pool; default 65536 */
    uint64_t seed;       /* for hashing; default 0 */
    uint64_t chance;     /* for the draws among keys; 0: `seed`; default 0 */
};

#define tg_keyring_spec_init(spec)                                                                 \
    tg_keyring_spec_init_sized((spec), sizeof(struct tg_keyring_spec))
TG_API void tg_keyring_spec_init_sized(struct tg_keyring_spec *spec, size_t size);

/* TG_ERR_INVALID: `problem` says what is wrong. TG_ERR_MEMORY. */
TG_API TG_MUST_CHECK enum tg_err tg_keyring_new(const struct tg_keyring_spec *spec,
                                                struct tg_keyring **ring,
                                                struct tg_problem *problem);

/* No other thread may use it from here on. Leases end with it. */
TG_API void tg_keyring_free(struct tg_keyring *ring);

/* Makes the ring match the spec. Keys, groups and pools of the same names keep their windows,
 * cooldowns, breakers, suspensions and leases under the new limits. Others end: their leases stay
 * valid and are forgotten when they are given back. `seed` cannot change. On error nothing has
 * changed. */
TG_API TG_MUST_CHECK enum tg_err tg_keyring_change(struct tg_keyring *ring,
                                                   const struct tg_keyring_spec *spec, tg_ms now,
                                                   struct tg_problem *problem);

/* Returns the pool of a model; null if there is none. The pointer stays valid until the ring is
 * freed; a pool that tg_keyring_change() removed has no keys. */
TG_API struct tg_pool *tg_keyring_pool(struct tg_keyring *ring, const char *provider,
                                       const char *model);

#define TG_TRIED_MAX 8

struct tg_key_call {
    size_t struct_size;   /* set by tg_key_call_init() */
    int64_t tokens;       /* what the windows are charged, 0 to TG_NUMBER_MAX; at most what the
                             largest key of the pool can hold, if `asked` fits there; default 0 */
    int64_t asked;        /* the most that the call may use: it alone decides `too_large`; 0: the
                             same as tokens; default 0 */
    const void *affinity; /* prefer the key that the last call with this value had; null: none */
    size_t affinity_bytes;
    void *prefer;              /* owner of the key to take if it can serve; null: none */
    void *tried[TG_TRIED_MAX]; /* owners of keys not to take; default none */
    size_t n_tried;
};

#define tg_key_call_init(call) tg_key_call_init_sized((call), sizeof(struct tg_key_call))
TG_API void tg_key_call_init_sized(struct tg_key_call *call, size_t size);

typedef uint64_t tg_key_lease; /* 0 is none; never reused */

struct tg_key_answer {
    tg_key_lease lease; /* 0: no key can serve */
    void *owner;        /* owner of the leased key */

    /* Valid if no key can serve: */
    tg_ms retry_after_ms; /* time until a key can serve if nothing else happens; a call in flight
                             is assumed to end after the pool's mean. TG_UNSATISFIABLE: never,
                             because the call is larger than every key, or all are suspended or
                             were tried. 1 if there is no memory to record a lease */
    bool all_cooling;     /* every key in use is cooling down after a 429 of the provider */
    bool too_large;       /* no key's limit can ever hold what is asked for */

    uint64_t unused[4]; /* for later versions */
};

/* Leases a key. It cannot fail: an estimate out of range is too large. */
TG_API void tg_pool_acquire(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                            struct tg_key_answer *answer);

/* When a key can serve the call: retry_after_ms is 0 if one can at once. Leases and counts nothing;
 * it looks at every key of the pool. */
TG_API void tg_pool_peek(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                         struct tg_key_answer *answer);

/* How an attempt ended, for its key. */
enum tg_key_outcome {
    TG_KEY_OK,
    TG_KEY_LIMITED,  /* 429: starts a cooldown, and ends a run of failures */
    TG_KEY_FAILED,   /* 5xx, 408, network error, timeout: counts for the breaker */
    TG_KEY_REFUSED,  /* 401, 403: makes a probe due */
    TG_KEY_REJECTED, /* any other 4xx: the call's own fault; ends a run of failures */
    TG_KEY_CANCELLED /* the caller left, or nothing was tried: says nothing about the key */
};

struct tg_key_report {
    size_t struct_size;          /* set by tg_key_report_init() */
    enum tg_key_outcome outcome; /* default ok */
    bool sent;                   /* a byte went to the provider. If not, the call and its tokens are
                                    given back to the windows; default true */
    int64_t tokens;              /* tokens used; negative: unknown, the estimate stands; more than
                                    TG_NUMBER_MAX counts as that; default -1 */
    double latency_ms;           /* time to first byte; negative: none; default -1 */
    tg_ms cool_until;            /* for limited: what the provider asked for; 0: it did not say;
                                    default 0 */
};

#define tg_key_report_init(report) tg_key_report_init_sized((report), sizeof(struct tg_key_report))
TG_API void tg_key_report_init_sized(struct tg_key_report *report, size_t size);

/* Gives a key back. The tokens in flight are released, and the window holds the actual usage
 * instead of the estimate. `report` may be null: the defaults. False: the lease had already ended,
 * or `report` has a wrong struct_size, and nothing was done. */
TG_API bool tg_keyring_release(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                               const struct tg_key_report *report);

/* Keys that are shared with other machines. A ring counts what went through it, which is never
 * more than what all machines used, so it is a correct first filter; a store that they share has
 * the last word (src/server/remote). tg_keyring_terms() says what to ask that store. After a no,
 * tg_keyring_hold_off() tells the ring, and the next tg_pool_acquire() chooses among the other
 * keys. tg_keyring_end() reports the effects of a release, so that the other machines can be
 * told. */

/* The key behind a lease. The strings are valid until the lease ends. */
struct tg_key_terms {
    const char *provider;
    const char *model;
    const char *name;
    const char *group; /* null: none */
    struct tg_key_limits limits;
    struct tg_key_limits group_limits; /* 0 without a group */
    int64_t breaker_failures;
    tg_ms breaker_open;
    int64_t tokens; /* the estimate that was requested */
};

/* False: the lease has ended. */
TG_API bool tg_keyring_terms(struct tg_keyring *ring, tg_key_lease lease,
                             struct tg_key_terms *terms);

/* The keys that could serve the call now, and what to ask about them: up to `room`, and their
 * owners. Leases and counts nothing. The strings are valid as long as the ring is not changed. */
TG_API size_t tg_pool_peek_terms(struct tg_pool *pool, const struct tg_key_call *call, tg_ms now,
                                 struct tg_key_terms *terms, void **owners, size_t room);

/* The effects of a release. */
struct tg_key_ending {
    tg_ms cool_until; /* a 429 makes the key and its group cool down until then; 0: no */
    tg_ms open_until; /* the failure has opened the breaker until then; 0: no */
};

/* Like tg_keyring_release(); `ending` is set if it returns true. */
TG_API bool tg_keyring_end(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                           const struct tg_key_report *report, struct tg_key_ending *ending);

enum tg_hold {
    TG_HOLD_COOLING, /* another machine got a 429: a cooldown like any other; the later one wins */
    TG_HOLD_BROKEN,  /* failures on other machines have opened the breaker: it opens here, too */
    TG_HOLD_BUSY     /* others use what is left of its limits, or it is suspended elsewhere */
};

struct tg_key_hold {
    enum tg_hold why;
    bool of_group; /* for cooling and busy: applies to the lease's whole group, if it has one */
    tg_ms until;   /* when it can serve again if nothing else happens */
    int64_t room;  /* for busy: calls of up to this many tokens can be served; -1: none */
};

/* Ends a lease for which nothing was sent, and keeps its key, or its group, from being chosen
 * until `until`. Because others may give back earlier, a busy key can be chosen again after a
 * second at the latest, but tg_key_answer.retry_after_ms uses `until`. False: the lease had
 * already ended, and nothing was done. */
TG_API bool tg_keyring_hold_off(struct tg_keyring *ring, tg_key_lease lease, tg_ms now,
                                const struct tg_key_hold *hold);

/* A key that the owner should test with a request of its own: after a 401 or 403, and every
 * `probe_every` while it is suspended. It is handed out once, until tg_keyring_probed(). */
struct tg_probe {
    const char *provider; /* provider and name point into the ring, until tg_keyring_probed() */
    const char *name;
    void *owner;
    uint64_t id;
};

/* False: none is due. */
TG_API bool tg_keyring_next_probe(struct tg_keyring *ring, tg_ms now, struct tg_probe *probe);

enum tg_probe_result { TG_PROBE_GOOD, TG_PROBE_BAD, TG_PROBE_UNCLEAR /* probed again later */ };
TG_API void tg_keyring_probed(struct tg_keyring *ring, const struct tg_probe *probe,
                              enum tg_probe_result result, tg_ms now);

/* Returns when the next probe is due; INT64_MAX: none is. */
TG_API tg_ms tg_keyring_next_deadline(struct tg_keyring *ring);

/* For an operator: switches a key off, whatever a probe says, or on again. False: no such key. */
TG_API bool tg_keyring_enable(struct tg_keyring *ring, const char *provider, const char *name,
                              bool enabled, tg_ms now);

/* For an operator who knows that a key works again: ends the cooldown of the key and of its group,
 * closes its breaker and lifts its suspension, in all pools that contain it. What its windows have
 * counted stays, and so does the setting of tg_keyring_enable(). False: no such key. */
TG_API bool tg_keyring_reset(struct tg_keyring *ring, const char *provider, const char *name,
                             tg_ms now);

enum tg_key_state { TG_KEY_HEALTHY, TG_KEY_SUSPENDED, TG_KEY_DISABLED };
enum tg_breaker_state { TG_BREAKER_CLOSED, TG_BREAKER_OPEN, TG_BREAKER_HALF_OPEN };

/* One key in one pool, at one moment. */
struct tg_key_metrics {
    const char *name; /* valid as long as the ring is not changed */
    const char *group;
    void *owner;
    int64_t tpm_inflight;
    int64_t tpm_limit;     /* its own, else its group's; 0: none */
    int64_t tpm_remaining; /* left in the window; TG_NUMBER_MAX without a limit */
    int64_t rpm_limit;     /* 0: none */
    int64_t rpm_remaining; /* the same */
    int64_t in_flight;
    tg_ms cool_down_until;   /* 0: not cooling down */
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

/* Reads up to `room` keys, starting at index `from`, and returns their number; the pool is locked
 * for at most 64 keys at a time. */
#define tg_pool_get_keys(pool, now, from, keys, room)                                              \
    tg_pool_get_keys_sized((pool), (now), (from), (keys), (room), sizeof(struct tg_key_metrics))
TG_API size_t tg_pool_get_keys_sized(struct tg_pool *pool, tg_ms now, size_t from,
                                     struct tg_key_metrics *keys, size_t room, size_t size);
#define tg_pool_get_metrics(pool, metrics)                                                         \
    tg_pool_get_metrics_sized((pool), (metrics), sizeof(struct tg_pool_metrics))
TG_API void tg_pool_get_metrics_sized(struct tg_pool *pool, struct tg_pool_metrics *metrics,
                                      size_t size);

/* ---- 11 Money -----------------------------------------------------------------------------
 *
 * Money is micro-dollars in int64_t, saturating at TG_MONEY_MAX, never a double. A call reserves
 * money before it is sent, in every account on its path to the top (user, tenant, its parents,
 * everyone) and in all windows of each, in one step: all or nothing. It settles once. For each
 * budget and window, at any instant,
 *
 *     used = settled + outstanding
 *
 * Windows are computed from the clock at each use; nothing has to be reset. A settlement goes to
 * the windows in which the reservation was made. */

typedef int64_t tg_micro; /* micro-dollars */

#define TG_MONEY_MAX INT64_C(9000000000000000000)

#define TG_PRICE_STEPS 4
#define TG_FACTOR_MILLI_MAX INT64_C(1000000) /* a price a thousandfold */

/* What a model costs, in micro-dollars per million tokens (so 1 is a millionth of a micro-dollar
 * per token), and in micro-dollars per call. 0 to 10^15; default 0. */
struct tg_price {
    size_t struct_size; /* set by tg_price_init() */
    int64_t input;
    int64_t cached_input; /* negative: the same as input; default -1 */
    int64_t cache_write;  /* negative: the same as input; default -1 */
    int64_t output;
    int64_t per_call;
    int64_t cache_write_long;           /* negative: the same as cache_write; default -1 */
    int64_t audio_input, image_input;   /* negative: the same as input; default -1 */
    int64_t audio_output, image_output; /* negative: the same as output; default -1 */
    int64_t per_tool_call;

    /* Long context. A call whose longest pass has more than `above` tokens of input costs these
     * many thousandths of all its token prices; of several steps the highest that it is above
     * counts. 1 to TG_FACTOR_MILLI_MAX; 0: 1000. */
    struct {
        int64_t above; /* 0: no step, and none behind it; default */
        int64_t input_milli, output_milli;
    } steps[TG_PRICE_STEPS];
};

#define tg_price_init(price) tg_price_init_sized((price), sizeof(struct tg_price))
TG_API void tg_price_init_sized(struct tg_price *price, size_t size);

/* What a call used, by kinds that exclude each other. */
struct tg_usage {
    int64_t input; /* text, neither read from nor written to a cache */
    int64_t cached_input;
    int64_t cache_write;      /* kept for 5 minutes, or as long as the provider normally does */
    int64_t output;           /* text, and reasoning that is not shown */
    int64_t cache_write_long; /* kept for an hour or longer */
    int64_t audio_input, image_input, audio_output, image_output;
    int64_t tool_calls;   /* billed calls of tools that the provider runs */
    int64_t factor_milli; /* thousandths of the token prices by tier, speed and region served,
                             multiplied; at most TG_FACTOR_MILLI_MAX; 0: 1000 */
    int64_t longest;      /* tokens of input of the longest pass, if the provider's tools made it
                             several; 0: all of its input was one */
};

/* Kinds that a call can cause beside plain input, cached input and output. */
#define TG_INPUT_WRITE 1u
#define TG_INPUT_WRITE_LONG 2u
#define TG_INPUT_AUDIO 4u
#define TG_INPUT_IMAGE 8u
#define TG_OUTPUT_AUDIO 16u
#define TG_OUTPUT_IMAGE 32u
#define TG_KINDS_ALL 63u

/* The most that a call can use. A usage is within it if the sum of its kinds of input, the sum of
 * its kinds of output, its longest pass, tool calls and factor are at most these, and no other
 * kinds are above 0. */
struct tg_usage_bound {
    int64_t input;        /* tokens of all passes together */
    int64_t longest;      /* tokens of input of the longest pass; 0: `input` */
    int64_t output;       /* tokens of all choices and passes */
    unsigned kinds;       /* TG_INPUT_WRITE and the like */
    int64_t tool_calls;   /* calls of tools that the provider runs */
    int64_t factor_milli; /* 0: 1000 */
};

/* Returns the cost of a usage:
 *
 *     (sum of input x price x step + sum of output x price x step) x factor + fees
 *
 * exactly, rounded up once to a whole micro-dollar, at most TG_MONEY_MAX. Negative counts are taken
 * as 0. Sums above 2^86 millionths of a micro-dollar before the factors are TG_MONEY_MAX. */
TG_API tg_micro tg_price_of(const struct tg_price *price, const struct tg_usage *usage);

/* Returns the most that a usage within the bound costs (tests/prop/test_money.c): each token at
 * the dearest kind that the call can cause and the dearest step that it can reach. */
TG_API tg_micro tg_price_bound(const struct tg_price *price, const struct tg_usage_bound *bound);

/* Returns how many output tokens the money affords after the rest of the bound, whose own output
 * does not count; -1: not even the rest. */
TG_API int64_t tg_price_affordable(const struct tg_price *price, const struct tg_usage_bound *bound,
                                   tg_micro money);

/* Return the tokens of all kinds of input, and of all kinds of output; negative counts are taken
 * as 0. */
TG_API int64_t tg_usage_input(const struct tg_usage *usage);
TG_API int64_t tg_usage_output(const struct tg_usage *usage);

/* Folds the kinds into the first four, by tokens: audio and images into input and output, all
 * writes into cache_write. The rest is 0 then. For books that have no more columns. */
TG_API void tg_usage_fold(struct tg_usage *usage);

/* Returns whether a usage is implausible: a count is negative or above 10^9 of one kind. */
TG_API bool tg_usage_absurd(const struct tg_usage *usage);

/* Returns whether a usage is absurd, or has more input, output or tool calls than the bound: a
 * report that cannot be. Kinds and factors are not compared. */
TG_API bool tg_usage_exceeds(const struct tg_usage *usage, const struct tg_usage_bound *bound);

/* From `at` on, local time is `offset_s` seconds east of UTC; less than 26 hours. */
struct tg_zone_change {
    tg_ms at;
    int32_t offset_s;
};

/* The changes of local time in a zone, ascending; before the first change it is `base_s`. */
struct tg_zone {
    int32_t base_s; /* seconds east of UTC */
    size_t n;
    const struct tg_zone_change *changes;
};

enum tg_per { TG_PER_DAY, TG_PER_WEEK /* from Monday */, TG_PER_MONTH, TG_PER_TOTAL, TG_PER_COUNT };

TG_API const char *tg_per_name(enum tg_per per);

/* Computes where the window that contains `at` begins, and where the next one does: at 00:00 of
 * its first day in the zone; at the first moment of that day if there is no 00:00; at the first
 * 00:00 if there are two. A null zone is UTC. TOTAL begins at 0 and ends at TG_NUMBER_MAX, and
 * so do the first and the last window of the other periods. */
TG_API void tg_window_of(enum tg_per per, const struct tg_zone *zone, tg_ms at, tg_ms *begin,
                         tg_ms *end);

struct tg_bank;

/* An account of a bank. 0 is none. Never reused. */
typedef uint64_t tg_account;

struct tg_budget {
    tg_micro amount; /* 0 to TG_MONEY_MAX */
    enum tg_per per;
    const struct tg_zone *zone; /* null: UTC; borrowed for as long as the account has it */
    enum tg_mode mode;          /* default TG_ENFORCE */
};

#define TG_BUDGETS_MAX 8 /* budgets of one account */
#define TG_LEVELS_MAX 16 /* accounts on the path from a user up to everyone */

struct tg_bank_config {
    size_t struct_size;  /* set by tg_bank_config_init() */
    size_t max_accounts; /* 1 to 2^30; default 1048576 */
    uint64_t seed;       /* secret, random; for hashing; default 0 */
};

#define tg_bank_config_init(config)                                                                \
    tg_bank_config_init_sized((config), sizeof(struct tg_bank_config))
TG_API void tg_bank_config_init_sized(struct tg_bank_config *config, size_t size);
TG_API TG_MUST_CHECK enum tg_err tg_bank_new(const struct tg_bank_config *config,
                                             struct tg_bank **bank, struct tg_problem *problem);
TG_API void tg_bank_free(struct tg_bank *bank);

/* Opens an account under `parent` (0: at the top) with its budgets, or finds the one of that name
 * there: `fresh` says which. The budgets of an account that already exists stay as they are.
 * Concurrent first calls of one user get one account. An account without budgets refuses nothing.
 *
 * If there are already max_accounts, a new one replaces one that holds nothing: no money in its
 * current windows and no accounts under it; it must not be at the top, nor nearer to it than the
 * new one. If an account's number is TG_ERR_UNKNOWN, open the account again by its name; nothing is
 * lost. If no account can be replaced: TG_ERR_FULL.
 *
 * The time of a bank never steps back: it is the latest `now` passed to any function that changes
 * something.
 *
 * TG_ERR_INVALID, TG_ERR_MEMORY, TG_ERR_FULL, TG_ERR_UNKNOWN (no such parent). */
TG_API TG_MUST_CHECK enum tg_err tg_bank_open(struct tg_bank *bank, tg_account parent,
                                              const void *name, size_t name_bytes,
                                              const struct tg_budget *budgets, size_t n, tg_ms now,
                                              tg_account *account, bool *fresh,
                                              struct tg_problem *problem);

/* Returns the account of that name; 0 if it was never opened or has been replaced. Read-only: it
 * opens nothing. */
TG_API tg_account tg_bank_find(struct tg_bank *bank, tg_account parent, const void *name,
                               size_t name_bytes);

/* Changes the budgets of an account. A budget whose current window runs from the same moment to
 * the same moment as that of an old one keeps what was spent in it, whatever its amount, mode or
 * zone. A budget with another window starts from what is outstanding, and from what the owner
 * then passes to tg_bank_restore().
 *
 * TG_ERR_INVALID, TG_ERR_MEMORY, TG_ERR_UNKNOWN. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_change(struct tg_bank *bank, tg_account account,
                                                const struct tg_budget *budgets, size_t n,
                                                tg_ms now, struct tg_problem *problem);

/* Closes an account and all accounts under it: nothing more can be reserved there. What is
 * outstanding still settles. */
TG_API void tg_bank_close(struct tg_bank *bank, tg_account account);

/* Sets what was settled in the window of one budget that contains `now`, from a ledger. What is
 * outstanding stays.
 *
 * TG_ERR_INVALID (no such budget, a sum out of range), TG_ERR_UNKNOWN. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_restore(struct tg_bank *bank, tg_account account,
                                                 size_t budget, tg_micro settled, tg_ms now);

/* A reservation. 0 is none; never reused. */
typedef uint64_t tg_reservation;

struct tg_money_answer {
    tg_reservation reservation; /* 0: refused */
    tg_micro reserved;          /* the amount: what was requested, or less with `up_to` */
    tg_ms reserved_at;          /* the bank's time then, which says to what windows it belongs */

    /* For a refusal, the first budget from the top that is spent; if there is none, the first that
     * is contended: */
    bool contended;     /* only reservations are in the way, anywhere: it may be retried */
    tg_account account; /* the account it belongs to */
    enum tg_per per;
    tg_ms reset_at; /* when its window ends */
    tg_micro amount, used;

    unsigned would_deny; /* number of budgets in shadow that would have refused */

    uint64_t unused[4]; /* for later versions */
};

/* Reserves `money` in `account` and all accounts above it. With `up_to`, which is for a call
 * whose cost has no bound: if less than `money` is left, but something is, what is left is
 * reserved, and what the call uses beyond that counts as overshoot.
 *
 * A budget refuses if used + need > amount, and is contended if settled + need <= amount, so
 * never for more than the whole amount. The need is the money, but at least 1, so that an
 * exhausted budget refuses free calls, too; with `up_to` it is 1.
 *
 * TG_ERR_INVALID (money outside 0 to TG_MONEY_MAX, now out of range), TG_ERR_UNKNOWN,
 * TG_ERR_MEMORY, TG_ERR_FULL (2^24 - 256 reservations, or more than TG_MONEY_MAX outstanding). */
TG_API TG_MUST_CHECK enum tg_err tg_bank_reserve(struct tg_bank *bank, tg_account account,
                                                 tg_micro money, bool up_to, tg_ms now,
                                                 struct tg_money_answer *answer);

/* The same in `account`, in the account `beside` it, and in all that both are under, in one step:
 * for what is counted in two ways, such as by user and by key. Of the two, `beside` is the nearer
 * to the top. 0: there is none; a settlement names `account`.
 *
 * TG_ERR_INVALID also: they are not two accounts under one parent, or both at the top. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_reserve_beside(struct tg_bank *bank, tg_account account,
                                                        tg_account beside, tg_micro money,
                                                        bool up_to, tg_ms now,
                                                        struct tg_money_answer *answer);

/* What was spent, where and when: a record for a ledger. */
struct tg_spend {
    tg_account account;
    tg_ms reserved_at;
    tg_micro reserved, settled;
};

/* Replaces a reservation by what was spent, at most TG_MONEY_MAX. -1: the amount is unknown, and
 * the reserved amount stands; below -1: the amount is implausible, the reserved amount stands,
 * and an anomaly is counted. False: the reservation had already ended, and nothing was done.
 * `spend` may be null. */
TG_API bool tg_bank_settle(struct tg_bank *bank, tg_reservation reservation, tg_micro spent,
                           struct tg_spend *spend);

/* Answers as tg_bank_reserve() would, and reserves nothing: `reservation` is 0 in any case, and
 * `account` if it would be granted. */
TG_API TG_MUST_CHECK enum tg_err tg_bank_ask(struct tg_bank *bank, tg_account account,
                                             tg_micro money, tg_ms now,
                                             struct tg_money_answer *answer);

/* Computes the least that is left in the enforced budgets of `account` and above, and the same as a
 * fraction of that budget's amount; TG_MONEY_MAX and 1 if there is no budget. Read-only.
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

/* Reads the budgets of an account, up to TG_BUDGETS_MAX, and returns their number. Read-only: it
 * locks the bank only while it reads these budgets. */
#define tg_bank_get_budgets(bank, account, now, budgets)                                           \
    tg_bank_get_budgets_sized((bank), (account), (now), (budgets), sizeof(struct tg_budget_metrics))
TG_API size_t tg_bank_get_budgets_sized(struct tg_bank *bank, tg_account account, tg_ms now,
                                        struct tg_budget_metrics *budgets, size_t size);

struct tg_bank_stats {
    size_t accounts, reservations;
    uint64_t overshoots; /* settlements above their reservation */
    tg_micro overshot;   /* the sum of their excess */
    uint64_t anomalies;  /* duplicate settlements and implausible amounts */
};

#define tg_bank_get_stats(bank, stats)                                                             \
    tg_bank_get_stats_sized((bank), (stats), sizeof(struct tg_bank_stats))
TG_API void tg_bank_get_stats_sized(struct tg_bank *bank, struct tg_bank_stats *stats, size_t size);

/* ---- 12 The allocator ---------------------------------------------------------------------
 *
 * Where all memory of the library comes from. The functions are called by any thread, also under
 * locks of the library: they must not call it. What they return is aligned as malloc() aligns; null
 * means that there is no memory, and becomes TG_ERR_MEMORY. `context` is their first argument. */

struct tg_allocator {
    size_t struct_size; /* set by tg_allocator_init() */
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t n, size_t size);
    void *(*realloc)(void *context, void *block, size_t size); /* `block` null: like malloc */
    void (*free)(void *context, void *block);                  /* `block` is never null */
    void *context;                                             /* yours; default null */
};

#define tg_allocator_init(allocator)                                                               \
    tg_allocator_init_sized((allocator), sizeof(struct tg_allocator))
TG_API void tg_allocator_init_sized(struct tg_allocator *allocator, size_t size);

/* Sets the allocator of the process: once, before the library allocates anything, so before any
 * *_new function is called. It is copied; `context` is borrowed for good.
 *
 * TG_ERR_NULL: a function is missing. TG_ERR_INVALID: it is too late, or there is one already. */
TG_API TG_MUST_CHECK enum tg_err tg_set_allocator(const struct tg_allocator *allocator,
                                                  struct tg_problem *problem);

#ifdef __cplusplus
}
#endif
#endif /* TOLLGATE_H */
