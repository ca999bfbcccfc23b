/* remote_limits_codec.h - a debit in the words of the scripts, and the answer read back.
 *
 *     limits_codec_set(&words, "tg", &debit)                 keys and limiters, copied
 *     limits_codec_take(&words, clock, "", &call)            what take.lua is called with
 *     limits_codec_read(&words, reply, ..., &axes, &charge)  what it said
 *     limits_codec_undo(&words, ...), limits_codec_settle(&words, ...), limits_codec_debt(...)
 *
 * All text and no I/O: here is what lua/take.lua promises about its arguments and its
 * reply, seen from this side. Words keep their memory from one debit to the next.
 */
#ifndef TG_REMOTE_STORE_REMOTE_LIMITS_CODEC_H
#define TG_REMOTE_STORE_REMOTE_LIMITS_CODEC_H

#include "server/remote_store/remote_limits.h"

enum {
    LIMITS_WORDS_MAX = TG_SCOPES_MAX * TG_LIMITS_MAX, /* limiters of one debit */
    LIMITS_WORDS_EACH = 5,                            /* arguments of one limiter */
    LIMITS_WORDS_FIXED = 7,                           /* arguments before them, at most */
    LIMITS_DOUBT_WITHIN = 300000, /* ms, half of what the scripts remember for: see once.lua */
};

/* What is known here of a limiter that Redis has. */
struct limits_mark {
    uint8_t scope, limit; /* which of the debit */
    bool on_cost, shadow;
    bool charged;    /* by the take that was read last: its state has changed */
    bool fades;      /* what is charged is made good little by little, not when a window ends */
    int64_t ceiling; /* the `limit` of its decisions */
    tg_ms lifetime;  /* so long a charge is, if no other follows */
};

struct limits_codec {
    char *text; /* all words, one after the other */
    size_t text_capacity;
    uint32_t *ends; /* where each word ends; a limiter has six: its key, then its arguments */
    struct limits_mark *marks;
    size_t n; /* limiters */
    size_t ends_capacity, marks_capacity;
    int64_t cost;
    enum tg_charging charging;
};

void limits_codec_init(struct limits_codec *words);
void limits_codec_fini(struct limits_codec *words);

/* TG_ERR_INVALID: it cannot be a debit, or has a limiter that is none of ours. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err limits_codec_set(struct limits_codec *words, const char *prefix,
                                           const struct remote_debit *debit);

/* Whether both would have one key, if it did not say which of them it is of, in their order. */
bool limits_same_shape(const struct tg_limit *a, const struct tg_limit *b);

/* The key of limiter i, good until the words are set again. */
struct slice limits_codec_key(const struct limits_codec *words, size_t i);

/* "{root}", as it is in all of them: what else is of their slot has it in its name. */
struct slice limits_codec_tag(const struct limits_codec *words, const char *prefix);

/* Whose time counts. */
struct limits_clock {
    bool callers;
    tg_ms now;       /* the caller's time */
    tg_ms ttl_floor; /* for states under the caller's clock */
};

/* A script's keys and arguments. They lie in the words, and in here: it must not be moved. */
struct limits_call {
    struct slice keys[LIMITS_WORDS_MAX + 1];
    size_t n_keys;
    struct slice args[LIMITS_WORDS_FIXED + LIMITS_WORDS_MAX * LIMITS_WORDS_EACH];
    size_t n_args;
    char numbers[LIMITS_WORDS_FIXED][24];
};

/* `flags` as in take.lua, but for the time, which is wanted if it is the server's. */
void limits_codec_take(const struct limits_codec *words, const struct limits_clock *clock,
                       const char *flags, struct limits_call *call);

/* The reply to a take: the answers by axis, and what was charged when. False: it makes no sense. */
TG_MUST_CHECK bool limits_codec_read(struct limits_codec *words, const struct limits_clock *clock,
                                     const struct redisReply *reply, struct tg_axes *axes,
                                     struct remote_charge *charge);

/* Under what a thing that is told is marked as done, so that it may be told again: once.lua. */
struct limits_once {
    struct slice key; /* in the slot of the other keys */
    unsigned bit;
};

/* What the last take that was read has charged, all of it: so also the rate of a call that cost
 * refused. False: nothing. `once` may be null, here and below: it is told but once. */
bool limits_codec_undo(const struct limits_codec *words, const struct limits_clock *clock,
                       const struct limits_once *once, tg_ms charged_at, struct limits_call *call);

/* Marks what a take has charged whose reply was not read by this codec. */
void limits_codec_charged(struct limits_codec *words, const struct remote_charge *charge);

/* For a take that was allowed. False: there is nothing to do. */
bool limits_codec_settle(const struct limits_codec *words, const struct limits_clock *clock,
                         const struct limits_once *once, const struct remote_charge *charge,
                         int64_t actual, struct limits_call *call);

/* Charges what the last take that was read has not, or everything, to a call that was admitted
 * `age` ms ago: of limits that fade not what is older than `fades_within`. False: nothing. */
bool limits_codec_debt(const struct limits_codec *words, const struct limits_clock *clock,
                       const struct limits_once *once, tg_ms age, tg_ms fades_within,
                       struct limits_call *call);

/* When a change of the charges has no effect any more, in ms. */
tg_ms limits_codec_lifetime(const struct limits_codec *words);

#endif
