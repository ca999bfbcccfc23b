/* recording.h - what `serve --record` wrote: calls, and the operations of gates, keys and money.
 *
 * A recording is read whole, one run of `serve` at a time, because the line of a call comes at its
 * end: some 2 KiB of memory for a call. docs/recordings.md has the format.
 */
#ifndef TG_REPLAY_RECORDING_H
#define TG_REPLAY_RECORDING_H

#include "cli/replay/replay_input.h"
#include "tollgate.h"

/* X(name, word) */
#define RECORDED_KINDS(X)                                                                          \
    X(CHECK, "check")           /* memory and peers, before the body is read */                    \
    X(ADMIT, "admit")           /* at the gate of all calls, or for a slot of a model */           \
    X(RESUME, "resume")         /* after a wait */                                                 \
    X(STORE, "store")           /* what the remote store said */                                   \
    X(RELEASE, "release")       /* the place is given back */                                      \
    X(FIRST_BYTE, "first_byte") /* what a law learns of a stream */                                \
    X(ROOM, "room")             /* what a provider said of its own limits */                       \
    X(RESERVE, "reserve")       /* money */                                                        \
    X(SETTLE, "settle")                                                                            \
    X(KEY, "key")           /* a provider's key is drawn */                                        \
    X(KEY_END, "key_end")   /* and given back */                                                   \
    X(KEY_HELD, "key_held") /* other gateways left no room in it */                                \
    X(MEMORY, "memory")     /* what follows belongs to no call: memory in use */                   \
    X(TICK, "tick")         /* waits and leases that are over */                                   \
    X(PROBE, "probe")       /* a key is tried by the gateway itself */                             \
    X(PROBED, "probed")                                                                            \
    X(LEASE_END, "lease_end")     /* a caller of Admit has released it, or it expired */           \
    X(LEASE_RENEW, "lease_renew") /* a caller of Admit has renewed it */                           \
    X(CHANGE, "change")           /* a reload, or a change by the API */                           \
    X(END, "end")                 /* the process has ended */

#define RECORDED_RESULTS(X)                                                                        \
    X(NOTHING, "")                                                                                 \
    X(PASSED, "passed")                                                                            \
    X(WAITING, "waiting")                                                                          \
    X(ASKING, "asking")                                                                            \
    X(ADMITTED, "admitted")                                                                        \
    X(REFUSED, "refused")                                                                          \
    X(FAILED, "failed")                                                                            \
    X(RESERVED, "reserved")                                                                        \
    X(KEY, "key")                                                                                  \
    X(DUE, "due")                                                                                  \
    X(NONE, "none")                                                                                \
    X(GOOD, "good")                                                                                \
    X(BAD, "bad")                                                                                  \
    X(UNCLEAR, "unclear")

enum recorded_kind {
#define RECORDED_ENUM(name, word) RECORDED_##name,
    RECORDED_KINDS(RECORDED_ENUM) RECORDED_KIND_COUNT
#undef RECORDED_ENUM
};

enum recorded_result {
#define RECORDED_ENUM(name, word) RESULT_##name,
    RECORDED_RESULTS(RECORDED_ENUM) RESULT_COUNT
#undef RECORDED_ENUM
};

const char *recorded_kind_word(enum recorded_kind kind);
const char *recorded_result_word(enum recorded_result result);

enum recorded_place { PLACE_NONE, PLACE_GATE, PLACE_SLOT, PLACE_MONEY, PLACE_KEY, PLACE_LIMITS };

/* What came of an operation. Numbers that do not apply are -1, texts null. */
struct recorded_outcome {
    enum recorded_result to;
    const char *reason;
    int64_t charge, limit, remaining, reset_at, retry_after; /* the numbers of a decision */
    int64_t reserved;
    const char *key;
};

struct recorded_call;

/* One operation. Of the arguments, those that its kind has; others are -1 or null. */
struct recorded_op {
    uint64_t number;            /* its place in the order of all */
    tg_ms t;                    /* the time that it was given */
    struct recorded_call *call; /* null: it belongs to none */
    enum recorded_kind kind;
    enum recorded_place place;
    int outcome; /* enum tg_outcome, tg_key_outcome or tg_hold; -1: none */
    bool up_to, sent, of_group;
    bool hint;                          /* it was only asked how long to wait for a key */
    const char *model, *route, *caller; /* whose slots */
    const char *who;                    /* whose limits; null: those of the tenant */
    const char *provider, *affinity, *prefer, *what, *detail;
    const char *tried; /* so many names, each with a 0 behind it; "": of a key that is gone */
    size_t n_tried;
    int64_t cost, work, size, by, ttl, peek, actual, money, most, spent, uncertain, tokens, asked,
        until, room, cool_until;
    int64_t lease;      /* what the lease was called that was handed over; -1: none */
    int64_t unrecorded; /* END: decisions that are not in it */
    double hold, sample, latency, used;
    uint64_t generation;        /* TICK: of the configuration whose slots were told; 0: not said */
    const struct tg_axes *axes; /* what the remote store said of rate and cost; null: nothing */
    bool store_failed;          /* it did not decide, and nobody else did */
    struct recorded_outcome came; /* what came of it then */
};

struct recorded_call {
    size_t number; /* among the calls of the recording */
    uint64_t line; /* its number in the file */
    tg_ms t;       /* when it arrived */
    const char *id, *tenant, *user, *peer, *model, *kind;
    const char *virtual_key; /* null: none whose use is counted */
    uint64_t generation;     /* the configuration that it ran under: a number of the run's */
    enum tg_priority priority;
    double value; /* negative: not stated */
    int64_t input_tokens, max_output_tokens;
    struct recorded_op *ops; /* in their order */
    size_t n_ops;
    void *actor; /* belongs to the replay */
};

/* What was spent before it began. */
struct recorded_spend {
    const char *tenant;             /* null: everyone */
    const char *user, *virtual_key; /* those of the tenant; null: none */
    int64_t settled[TG_BUDGETS_MAX];
    size_t n;
    struct recorded_spend *next;
};

/* One run of `serve`. */
struct recording {
    int64_t version;
    tg_ms t, ahead_ms;
    uint64_t chance;
    int64_t workers;
    const char *store, *config;
    uint64_t generation; /* the number of the configuration that it began with */
    bool inherited;
    bool policy_learned;
    struct recorded_spend *spends;
    struct recorded_call **calls; /* in the order of their lines */
    size_t n_calls, calls_room;
    struct recorded_op **ops; /* in the order of their numbers */
    size_t n_ops, ops_room;
    uint64_t missing;       /* numbers that no line has */
    uint64_t first_missing; /* the least of them; 0: there is none */
    uint64_t cut;           /* lines that are broken: the process was killed, or its disk full */
    bool ended;             /* it has its last line */
    uint64_t unrecorded;    /* decisions that are not in it; known if it has its last line */
    struct recording_block *blocks;
};

/* Whether a line is the first of a recording. */
bool recording_is_first(struct json_reader *reader, const struct line *line);

/* Reads the run that begins with `first`, which is valid until the next line. `more`: the line
 * after it is the first of another run, and `first` then. False: `status` is what to end with. */
bool recording_read(struct replay_input *input, struct line *first, struct recording *recording,
                    bool *more, int *status);
void recording_free(struct recording *recording);

#endif
