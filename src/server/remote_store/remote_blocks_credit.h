/* remote_blocks_credit.h - what this node has leased of one limit, and how much it should.
 *
 * A credit is some blocks of units, each with the moment (of this node's clock) after which it must
 * not be spent, the earliest first; what Redis said last; and what was asked for here lately. All
 * of it is arithmetic: nothing here knows of Redis or of calls. Not synchronised.
 */
#ifndef TG_REMOTE_STORE_REMOTE_BLOCKS_CREDIT_H
#define TG_REMOTE_STORE_REMOTE_BLOCKS_CREDIT_H

#include "tollgate.h"

enum { CREDIT_BLOCKS = 4 };

struct credit_block {
    int64_t units;
    tg_ms ends; /* this node's clock: from then on it is void */
    tg_ms at;   /* Redis' clock: when it was charged */
};

struct credit {
    /* What it is of: see credit_init(). */
    tg_ms life;     /* life of a block; 0: until its window ends */
    tg_ms period;   /* length of a window; 0: there is none */
    double rate;    /* units a ms that the limit allows */
    int64_t limit;  /* the number that decisions show */
    int64_t most;   /* what can be leased at once; a call that needs more is decided by Redis */
    int64_t first;  /* units of the first block */
    bool meter;     /* token_budget: no call is too large */
    bool slides;    /* its window does: units come free all the time */
    bool by_moment; /* sliding_log: what is given back has to name the very ms */

    int64_t units; /* sum over all blocks */
    struct credit_block blocks[CREDIT_BLOCKS];
    unsigned n;

    /* What Redis said last. */
    int64_t left;       /* for others, and for us */
    tg_ms reset_at;     /* Redis' clock */
    tg_ms denied_until; /* calls for which units and left are not enough are refused until then */
    tg_ms retry_at;     /* and told to come again then */
    int64_t granted;    /* with the last block, */
    tg_ms granted_at;   /* by our clock */
    bool is_known, fell_short;
    bool is_scarce; /* then what is left does not count */

    /* What was asked for. */
    double demand; /* units a ms */
    int64_t asked; /* since measured_at */
    tg_ms measured_at;
    tg_ms asked_at; /* last */

    /* What Redis has to be told. */
    int64_t back, debt;
    tg_ms back_at, debt_at;
    tg_ms unsent_since;
};

/* The limit as it is leased, which differs from the given one where its window has to be longer.
 * `block` is the first block in ms of its rate, `life` the longest life of a block. */
void credit_init(struct credit *credit, const struct tg_limit *given, tg_ms block, tg_ms life,
                 struct tg_limit *leased, tg_ms now);

/* Forgets blocks that are void. */
void credit_expire(struct credit *credit, tg_ms now);

/* For a call of so many units; after credit_expire(). With `final`, what Redis could not give just
 * now is a no. */
enum credit_verdict { CREDIT_YES, CREDIT_NO, CREDIT_UNKNOWN };
enum credit_verdict credit_peek(const struct credit *credit, int64_t units, tg_ms now, bool final);

/* What is said of it: with `units` taken, or 0: as it stands; or refused. */
void credit_answer(const struct credit *credit, int64_t units, bool refused, tg_ms now,
                   struct tg_decision *answer);

/* Not more than there are. Returns when the earliest of the blocks that they come from was charged,
 * by Redis' clock; INT64_MAX if none was touched. */
tg_ms credit_spend(struct credit *credit, int64_t units);

/* A call asked for so many, whatever the answer. */
void credit_note(struct credit *credit, int64_t units, tg_ms now);

/* Units that should be here to last for a while. */
int64_t credit_target(struct credit *credit, tg_ms now);

/* So few are left that more should be asked for before they are used up. */
bool credit_is_low(const struct credit *credit, tg_ms now);

/* What Redis answered to an ask for `want`, sent at `sent_at`, of which calls needed `need`. */
struct credit_reply {
    tg_ms time; /* Redis' clock */
    int64_t granted, left;
    tg_ms reset_at, wait;
};
struct credit_pace {
    double worth; /* ms in which so many decisions are made as are worth an ask */
    int64_t holders;
};
void credit_learn(struct credit *credit, const struct credit_reply *reply, tg_ms sent_at, tg_ms now,
                  int64_t want, int64_t need, const struct credit_pace *pace);

/* Units that were spent at `at`, of blocks charged at `leased_at` or later (of Redis' clock), come
 * back; or more was used than spent. */
void credit_refund(struct credit *credit, int64_t units, tg_ms at, tg_ms leased_at, tg_ms now);
void credit_add_debt(struct credit *credit, int64_t units, tg_ms at, tg_ms now);

/* What was to be told has not been: it still is. */
void credit_restore(struct credit *credit, int64_t back, tg_ms back_at, int64_t debt, tg_ms debt_at,
                    tg_ms now);

/* Returns so many units to Redis with the next command: the latest first, of a sliding window the
 * earliest, which end unspent. Says how many. */
int64_t credit_return(struct credit *credit, int64_t units, tg_ms now);

/* Units that are here and will not be needed. */
int64_t credit_surplus(struct credit *credit, tg_ms now);

#endif
