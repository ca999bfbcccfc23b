/* fleet_state.h - whether a gateway follows what is in the store. No I/O, no clock: decided by what
 * it has and what it sees.
 *
 *                 same                      newer
 *     STARTING ---------> CURRENT <-----------------> BEHIND      it knows of a newer state
 *        |      \            |    applied              |
 *        |       \ away      | away                    | away
 *        |        '--------> AWAY <--------------------'          the store does not answer
 *        |                   |
 *        | regressed         | regressed                          empty, older, forked, another:
 *        '--------------> REGRESSED                               the copy is served, not that
 *                 INCOMPATIBLE                                    a schema of a later program
 *
 * From every state an answer leads to the state that it means, so that nothing but the answer has
 * to be right: see fleet_state_after(). Only CURRENT and BEHIND take changes.
 *
 * The copy is followed by a store of the same epoch with a version at least as high, whose change
 * of that number is the copy's. A store that was restored from a copy has a new epoch, and its
 * lineage says which epochs it goes on from, each up to which version.
 */
#ifndef TG_FLEET_FLEET_STATE_H
#define TG_FLEET_FLEET_STATE_H

#include "io/text/slice.h"
#include "server/ledger/ledger_fleet.h"

#define FLEET_STATES(X)                                                                            \
    X(STARTING, starting)                                                                          \
    X(AWAY, away)                                                                                  \
    X(CURRENT, current)                                                                            \
    X(BEHIND, behind)                                                                              \
    X(REGRESSED, store_regressed)                                                                  \
    X(INCOMPATIBLE, incompatible)

enum fleet_state {
#define FLEET_STATE_ENUM(upper, lower) FLEET_##upper,
    FLEET_STATES(FLEET_STATE_ENUM)
#undef FLEET_STATE_ENUM
        FLEET_STATE_COUNT
};

/* "starting", "away", ...; static. */
const char *fleet_state_name(enum fleet_state state);

/* What the store says of itself. */
struct fleet_head {
    bool present; /* false: there is nothing in it */
    int64_t schema, version;
    struct slice epoch, change;
    struct slice lineage; /* "EPOCH:VERSION EPOCH:VERSION": what a restored store goes on from */
    bool flagged;         /* another gateway has seen it go back */
};

/* What it is to a gateway. */
enum fleet_event {
    FLEET_SAW_NOTHING, /* empty, and so is the copy: it can begin here */
    FLEET_SAW_SAME,    /* the copy's own state */
    FLEET_SAW_NEWER,   /* one that follows the copy's, or the first that is seen */
    FLEET_SAW_EMPTY,   /* empty, and the copy is not */
    FLEET_SAW_OLDER,   /* a version below the copy's */
    FLEET_SAW_FOREIGN, /* another epoch, which does not go on from the copy's */
    FLEET_SAW_FORKED,  /* the copy's version, by another change */
    FLEET_SAW_FLAGGED, /* nothing to compare with, and another gateway says that it went back */
    FLEET_SAW_INCOMPATIBLE, /* a later schema than this program knows */
    FLEET_LOST,             /* no answer */
    FLEET_APPLIED,          /* the newer state is in force here */
    FLEET_FAILED,           /* it could not be put in force here */
    FLEET_EVENT_COUNT
};

/* `mark` is the copy's. */
enum fleet_event fleet_state_judge(const struct ledger_fleet_mark *mark,
                                   const struct fleet_head *head);

enum fleet_state fleet_state_after(enum fleet_state state, enum fleet_event event);

/* Whether a change of an administrator may be stored. */
bool fleet_state_takes_changes(enum fleet_state state);

/* Why the store is not followed: for messages. Static; "" if it is. */
const char *fleet_event_text(enum fleet_event event);

#endif
