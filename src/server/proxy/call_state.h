/* call_state.h - the states of a call, the events that it may find there, and the table of both.
 *
 * What a state means is said in call.h. call_state.c asserts the table, and what a call holds in
 * each state; tests/unit/server/proxy/test_call_step.c tries every event in every state.
 */
#ifndef TG_PROXY_CALL_STATE_H
#define TG_PROXY_CALL_STATE_H

#include <stdbool.h>

struct call;

/* clang-format off */
#define CALL_EVENTS(X)                                                                             \
    X(HEAD)         /* the head of the client's request has come */                                \
    X(BODY)         /* bytes of its body */                                                        \
    X(BODY_END)     /* its body is complete */                                                     \
    X(PARSED)       /* a thread of the pool has read it */                                         \
    X(WOKEN)        /* the gate at which it waits has woken it */                                  \
    X(TIMER)        /* a wait, a pause or the time for draining is over */                         \
    X(LIMITS)       /* the remote store has decided rate and cost */                               \
    X(MONEY)        /* the remote store has reserved money, or refused to */                       \
    X(KEY)          /* the remote store has granted the key, or refused it */                      \
    X(OBJECTS)      /* the remote store has said whose objects are whose */                        \
    X(REQUEST_ROOM) /* the provider takes more of the request */                                   \
    X(REPLY_HEAD)   /* the head of the provider's reply */                                         \
    X(REPLY_DATA)   /* bytes of the reply's body */                                                \
    X(REPLY_END)    /* the reply is complete */                                                    \
    X(REPLY_FAILED) /* there will be no reply, or no more of it */                                 \
    X(ROOM)         /* the client takes bytes again */                                             \
    X(GONE)         /* the client's side has ended */                                              \
    X(WORKER_END)   /* the worker ends */

/* The machine. For each state its letter, and for each event, in the order above, the states that
 * the call may be in afterwards, in cells of four characters. "-" is an event that cannot come in
 * this state. "+" stands for "tsmkceao": the call goes on with its next attempt as far as nothing
 * has to be waited for (thread, slot, money, key, token, request), or it is answered on the way.
 * "*" stands for "+gl", and j: it begins.
 *
 *                    HEAD
 *                    |   BODY
 *                    |   |   BODY_END
 *                    |   |   |   PARSED
 *                    |   |   |   |   WOKEN
 *                    |   |   |   |   |   TIMER
 *                    |   |   |   |   |   |   LIMITS
 *                    |   |   |   |   |   |   |   MONEY
 *                    |   |   |   |   |   |   |   |   KEY
 *                    |   |   |   |   |   |   |   |   |   OBJECTS
 *                    |   |   |   |   |   |   |   |   |   |   REQUEST_ROOM
 *                    |   |   |   |   |   |   |   |   |   |   |   REPLY_HEAD
 *                    |   |   |   |   |   |   |   |   |   |   |   |   REPLY_DATA
 *                    |   |   |   |   |   |   |   |   |   |   |   |   |   REPLY_END
 *                    |   |   |   |   |   |   |   |   |   |   |   |   |   |   REPLY_FAILED
 *                    |   |   |   |   |   |   |   |   |   |   |   |   |   |   |   ROOM
 *                    |   |   |   |   |   |   |   |   |   |   |   |   |   |   |   |   GONE
 *                    |   |   |   |   |   |   |   |   |   |   |   |   |   |   |   |   |   WORKER_END
 */
#define CALL_STATES(X)                                                                             \
    X(NEW,        n, "ro  -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   ")   \
    X(READING,    r, "-   ro  *b  -   -   -   -   -   -   -   -   -   -   -   -   -   f   -   ")   \
    X(PARSING,    b, "-   -   -   *f  -   -   -   -   -   -   -   -   -   -   -   -   bf  f   ")   \
    X(AT_OBJECTS, j, "-   -   -   -   -   -   -   -   -   +gl -   -   -   -   -   -   f   -   ")   \
    X(TRANSLATING,t, "-   -   -   +glf-   -   -   -   -   -   -   -   -   -   -   -   tf  f   ")   \
    X(AT_SLOT,    s, "-   -   -   -   +gl +gl -   -   -   -   -   -   -   -   -   -   f   -   ")   \
    X(AT_GATE,    g, "-   -   -   -   +gl +gl -   -   -   -   -   -   -   -   -   -   f   -   ")   \
    X(AT_LIMITS,  l, "-   -   -   -   -   -   +   -   -   -   -   -   -   -   -   -   f   -   ")   \
    X(AT_MONEY,   m, "-   -   -   -   -   -   -   +   -   -   -   -   -   -   -   -   f   -   ")   \
    X(AT_KEY,     k, "-   -   -   -   -   -   -   -   +   -   -   -   -   -   -   -   f   -   ")   \
    X(AT_TOKEN,   c, "-   -   -   -   +   +   -   -   -   -   -   -   -   -   -   -   f   -   ")   \
    X(BOUNDING,   e, "-   -   -   aof -   -   -   -   -   -   -   -   -   -   -   -   ef  f   ")   \
    X(ASKING,     a, "-   -   -   -   -   -   -   -   -   -   a   aw  +pw +p  +p  -   df  -   ")   \
    X(PAUSING,    p, "-   -   -   -   -   +   -   -   -   -   -   -   -   -   -   -   f   -   ")   \
    X(ANSWERING,  w, "-   -   -   -   -   -   -   -   -   -   w   -   wo  o   o   w   df  -   ")   \
    X(DRAINING,   d, "-   -   -   -   -   f   -   -   -   -   d   d   d   f   f   -   -   f   ")   \
    X(OVER,       o, "-   o   o   -   -   -   -   -   -   -   -   -   -   -   -   o   f   -   ")   \
    X(FREED,      f, "-   -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   -   ")
/* clang-format on */

enum call_state {
#define CALL_STATE_ENUM(name, letter, next) CALL_##name,
    CALL_STATES(CALL_STATE_ENUM)
#undef CALL_STATE_ENUM
        CALL_STATE_COUNT
};

enum call_event {
#define CALL_EVENT_ENUM(name) CALL_ON_##name,
    CALL_EVENTS(CALL_EVENT_ENUM)
#undef CALL_EVENT_ENUM
        CALL_EVENT_COUNT
};

/* Writes the state. */
void call_move(struct call *call, enum call_state to);

/* Asserts what the call holds in its state; call_step() leaves it so. */
void call_check(const struct call *call);

/* Whether CALL_STATES has `to` among the states after `event` in `from`. */
bool call_may_follow(enum call_state from, enum call_event event, enum call_state to);

/* Whether the event can come in that state at all. */
bool call_may_come(enum call_state state, enum call_event event);

const char *call_state_name(enum call_state state); /* "AT_SLOT" */
const char *call_event_name(enum call_event event); /* "REPLY_END" */

#endif
