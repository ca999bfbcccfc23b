/* remote_money_sums.h - what this node knows of the windows that Redis keeps. Private to
 * remote_money*.c.
 *
 * One entry for each window of each account that a call came to. The total that Redis is sent is
 * what was ever settled in that window through this node's ledger:
 *
 *     total = lost + max(own, seen)
 *
 * own    what the bank had when the entry was made, and every settlement since. Whoever holds a
 *        ticket in the window has its entry pinned, so no settlement can fall between the two.
 * seen   the most that the bank was seen to have: also that of calls without a ticket here.
 * lost   what Redis knew of this ledger when it was asked, beyond what the ledger knows: a
 *        database that was put back from a copy, or lost its last moments. While another process
 *        settles through the same ledger, which is being taken over from, what Redis has beyond the
 *        total is that one's: the bank here hears of it by itself.
 *
 * It falls by a credit alone: then it is `lowering` until Redis has heard of that, and what Redis
 * says of it meanwhile, or in answer to what was sent before, is no news. `acked` is what Redis has
 * acknowledged. An entry goes when its window has been over for a while; when there are `max`, one
 * that Redis knows is evicted.
 *
 * The lock of struct remote_money covers everything here.
 */
#ifndef TG_REMOTE_STORE_REMOTE_MONEY_SUMS_H
#define TG_REMOTE_STORE_REMOTE_MONEY_SUMS_H

#include <sys/queue.h>

#include "io/text/slice.h"
#include "lib/core/hash_table.h"
#include "lib/core/num.h"

#define SUM_GRACE_MS INT64_C(3600000) /* a window is kept so long: calls still settle */

/* What this process may spend of a window without asking: remote_money_blocks.c. Numbers are
 * those of asks, counted over all windows. */
struct sum_block {
    TAILQ_ENTRY(sum) list; /* windows that have blocks, or want some */
    bool is_active;        /* it is in that list, and pinned for it */
    bool is_heard;         /* what follows was heard at all, and no script without blocks since */
    bool is_short;         /* the last answer gave less than was needed */
    bool gives_back;       /* an ask that lowers `leased` is in flight, and no other */
    bool is_watched;       /* a call was refused by what is known here */
    bool by_script;        /* calls are decided by Redis itself: nothing is leased */
    bool takes_over;       /* what earlier processes of this ledger held is to be dropped */
    unsigned in_flight;    /* asks */
    tg_micro amount;       /* the least that is enforced; TG_NUMBER_MAX: nothing is */
    tg_micro leased;       /* all that may be used here in this window, settled or not */
    tg_micro e;            /* the block as Redis has it */
    tg_micro held;         /* by claims that took it from the block */
    tg_micro granted;      /* what was to spare when that was heard */
    tg_ms split_until;     /* its slot is half-moved: it is asked for alone */
    tg_ms short_until;     /* money is short: nothing is kept that is not needed */
    tg_micro others_used, others_settled;
    int64_t asked, heard, failed; /* the last of each kind */
    int64_t wait_mark;            /* asks from this number on have what is needed by all who wait */
    tg_micro waiting;             /* needed by claims that wait */
    tg_micro taken;               /* since `rated_at` */
    double rate;                  /* micro-dollars a ms that are taken */
    tg_ms rated_at, touched_at, asked_at;
    tg_micro largest, recent; /* reservations: the largest of the last two spans */
    tg_ms recent_at;
    int64_t epoch, version; /* what Redis said of its hash last */
    uint64_t retold;        /* remote_money.retell, when it was last told what is remembered */
    char *memory;           /* what others have, to be told if Redis forgets it; or null */
    char *written_off;      /* those that an operator says are dead; or null */
};

struct sum {
    TAILQ_ENTRY(sum) ring;
    uint64_t hash;
    tg_ms end; /* when the window ends */

    tg_micro own, seen, lost;
    tg_micro acked;
    tg_micro held;                 /* by tickets of this process */
    tg_micro settled, outstanding; /* all nodes together, as heard last */
    bool known;                    /* heard at all */
    bool updating;                 /* an update of its own is in flight */
    bool lowering;                 /* Redis has more than the total */
    uint32_t lowered;              /* how often the total has fallen */
    tg_micro credited;             /* by how much, in all */
    uint32_t pins;

    struct sum_block block;

    size_t key_n;
    char key[]; /* name of the hash; with SUM_SET_BYTES more, of the set */
};

#define SUM_SET ":e"
#define SUM_SET_BYTES 2

static inline struct slice sum_hash_key(const struct sum *sum)
{
    return (struct slice){sum->key, sum->key_n};
}

static inline struct slice sum_set_key(const struct sum *sum)
{
    return (struct slice){sum->key, sum->key_n + SUM_SET_BYTES};
}

static inline tg_micro sum_total(const struct sum *sum)
{
    return num_add(sum->lost, num_max(sum->own, sum->seen));
}

static inline bool sum_is_unacked(const struct sum *sum)
{
    return sum_total(sum) > sum->acked;
}

/* What this process uses of a window, as far as blocks are concerned: what is reserved without them
 * is known to Redis by itself. */
static inline tg_micro sum_used(const struct sum *sum)
{
    return num_add(sum_total(sum), sum->block.held);
}

/* How long Redis is to keep it, from now on. */
tg_ms money_sum_keep(const struct sum *sum, tg_ms now);

struct sums {
    struct hash_table table;
    TAILQ_HEAD(, sum) ring; /* all of them: money_sums_next() moves the first to the end */
    size_t max;
    bool shared; /* another process settles through the same ledger */
    uint64_t seed;
    size_t unacked;         /* sums that Redis does not know yet */
    uint64_t unacked_micro; /* modulo 2^64: it comes down as it went up */
};

/* The seed of hashing is secret: users choose their names. */
void money_sums_init(struct sums *sums, size_t max, uint64_t seed);
void money_sums_fini(struct sums *sums);

/* Null: there is none. */
struct sum *money_sums_find(const struct sums *sums, struct slice key);

/* The entry of a key, made if there is none, with what the bank has settled there. Null: no memory,
 * or there are `max` and none can go. */
struct sum *money_sums_get(struct sums *sums, struct slice key, tg_ms end, tg_micro settled);

/* A settlement in the window. */
void money_sums_spend(struct sums *sums, struct sum *sum, tg_micro spent);

/* What was told to Redis of a sum, and what was known when it was sent. */
struct sum_told {
    tg_micro sent, acked; /* the total that was sent; what was acknowledged then */
    uint32_t lowered;
};

static inline struct sum_told sum_tell(const struct sum *sum)
{
    return (struct sum_told){sum_total(sum), sum->acked, sum->lowered};
}

/* What Redis says of this ledger's sum: what it was `before` it was told. True: Redis has forgotten
 * some. */
bool money_sums_hear(struct sums *sums, struct sum *sum, tg_micro before,
                     const struct sum_told *told);

/* A credit: the total falls, and Redis has to hear of it. */
void money_sums_lower(struct sums *sums, struct sum *sum, tg_micro micro);

/* It has. */
void money_sums_lowered(struct sums *sums, struct sum *sum, const struct sum_told *told);

/* The sum whose turn it is, in rounds over all of them; null: there is none. */
struct sum *money_sums_next(struct sums *sums);

/* Nothing may have it pinned. */
void money_sums_remove(struct sums *sums, struct sum *sum);

#endif
