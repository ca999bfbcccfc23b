/* call_state.c - the states of a call: which may follow which, and what is held in each.
 *
 * The table is CALL_STATES in call.h. This file only reads it, for the asserts of call_step() and
 * for the tests, and has the one function that writes a call's state.
 */
#include <assert.h>
#include <string.h>

#include "server/proxy/call.h"

/* ---- the table ---- */

enum { CELL = 4 }; /* characters in the row of a state for each event */

static const char *call_cell(enum call_state state, enum call_event event)
{
#define CALL_STATE_ROW(name, letter, row) row,
#define CALL_ROW_FITS(name, letter, row)                                                           \
    _Static_assert(sizeof row == CELL * CALL_EVENT_COUNT + 1, "a cell for each event");
    static const char *const rows[] = {CALL_STATES(CALL_STATE_ROW)};
    CALL_STATES(CALL_ROW_FITS)
#undef CALL_STATE_ROW
#undef CALL_ROW_FITS

    return &rows[state][CELL * event];
}

bool call_may_come(enum call_state state, enum call_event event)
{
    return *call_cell(state, event) != '-';
}

bool call_may_follow(enum call_state from, enum call_event event, enum call_state to)
{
#define CALL_STATE_LETTER(name, letter, row) #letter[0],
    static const char letters[] = {CALL_STATES(CALL_STATE_LETTER)};
#undef CALL_STATE_LETTER
    const char *cell = call_cell(from, event);

    return memchr(cell, letters[to], CELL) != NULL ||
           (memchr(cell, '+', CELL) != NULL && strchr("tsmkceao", letters[to]) != NULL) ||
           (memchr(cell, '*', CELL) != NULL && strchr("tsmkceaoglj", letters[to]) != NULL);
}

const char *call_state_name(enum call_state state)
{
#define CALL_STATE_NAME(name, letter, next) #name,
    static const char *const names[] = {CALL_STATES(CALL_STATE_NAME)};
#undef CALL_STATE_NAME

    return names[state];
}

const char *call_event_name(enum call_event event)
{
#define CALL_EVENT_NAME(name) #name,
    static const char *const names[] = {CALL_EVENTS(CALL_EVENT_NAME)};
#undef CALL_EVENT_NAME

    return names[event];
}

/* ---- what is held ---- */

void call_check(const struct call *call)
{
    const struct attempt *attempt = &call->attempt;
    const enum admission_state slot = call->slot.state, gate = call->gate.state;
    const bool at_store = call->state == CALL_AT_OBJECTS ||
                          (call->state >= CALL_AT_LIMITS && call->state <= CALL_AT_KEY);
    const bool waits = call->state == CALL_AT_SLOT || call->state == CALL_AT_GATE ||
                       call->state == CALL_PAUSING || call->state == CALL_DRAINING ||
                       call->state == CALL_AT_TOKEN;
    const bool attempts =
        call->state == CALL_ASKING || call->state == CALL_ANSWERING || call->state == CALL_DRAINING;

    const bool on_thread = call->state == CALL_PARSING || call->state == CALL_TRANSLATING ||
                           call->state == CALL_BOUNDING;

    assert(call->in != NULL || call->state == CALL_DRAINING || on_thread);
    assert(call->parse.out == on_thread);
    assert(call->in == NULL || call->in->owner == call);
    assert(!at_store || call->gateway->remote != NULL);
    assert((slot == ADMISSION_WAITING) == (call->state == CALL_AT_SLOT));
    assert((gate == ADMISSION_WAITING) == (call->state == CALL_AT_GATE));
    assert((gate == ADMISSION_ASKING) == (call->state == CALL_AT_LIMITS));
    assert(net_timer_is_set(&call->timer) == waits);
    assert((attempt->out != NULL) == attempts);
    assert(attempt->out == NULL || attempt->out->owner == call);
    assert((call->objects.ask != NULL) == (call->state == CALL_AT_OBJECTS));
    assert(attempt->key == 0 || attempt->money.reservation != 0); /* money comes first */
    assert(attempt->key == 0 || attempt->owner == call->last_key);
    assert(!attempt->paused || attempt->out != NULL);
    assert(attempt->sending == NULL || attempt->out != NULL);
    assert((call->token_wait.token != NULL) == (call->state == CALL_AT_TOKEN));
    assert(call->held_n <= call->held_room && (call->held_room == 0) == (call->held == NULL));
    (void)waits, (void)attempts, (void)at_store, (void)slot, (void)gate;
    switch (call->state) {
    case CALL_READING:
    case CALL_PARSING:
    case CALL_AT_OBJECTS:
        assert(gate == ADMISSION_CHECKED && slot == ADMISSION_IDLE);
        assert(call->attempts == 0 && call->status == 0);
        break;
    case CALL_TRANSLATING:
        assert(call->route != NULL && attempt->money.reservation == 0 && attempt->key == 0);
        assert(slot == ADMISSION_IDLE);
        break;
    case CALL_AT_SLOT:
        assert(call->route != NULL && attempt->money.reservation == 0);
        assert(gate == ADMISSION_CHECKED || gate == ADMISSION_ADMITTED);
        break;
    case CALL_AT_GATE:
    case CALL_AT_LIMITS:
        assert(call->attempts == 0 && attempt->money.reservation == 0);
        assert(slot == (call->route ? ADMISSION_ADMITTED : ADMISSION_IDLE));
        break;
    case CALL_AT_MONEY:
        assert(attempt->money.reservation != 0 && attempt->key == 0);
        assert(gate == ADMISSION_ADMITTED);
        break;
    case CALL_AT_KEY:
    case CALL_AT_TOKEN:
        assert(attempt->money.reservation != 0 && attempt->key != 0);
        assert(gate == ADMISSION_ADMITTED);
        break;
    case CALL_BOUNDING: /* whoever has left has no money and no key, and the thread its body */
        assert(call->translation != NULL);
        assert((attempt->money.reservation != 0 && attempt->key != 0) == (call->in != NULL));
        assert(gate == ADMISSION_ADMITTED);
        break;
    case CALL_ASKING:
    case CALL_ANSWERING:
    case CALL_DRAINING:
        assert(attempt->money.reservation != 0 && attempt->key != 0);
        assert(gate == ADMISSION_ADMITTED);
        assert(call->attempts > 0 && attempt->began_at > 0);
        assert(call->state != CALL_ANSWERING ||
               (call->body.bytes == NULL || attempt->sending != NULL));
        assert(call->state != CALL_ANSWERING || call->status != 0);
        assert(call->state != CALL_ASKING || (call->status == 0 && call->bytes_out == 0));
        break;
    case CALL_PAUSING:
        assert(attempt->money.reservation == 0 && call->attempts > 0);
        assert(gate == ADMISSION_ADMITTED && call->status == 0);
        break;
    case CALL_OVER:
        assert(slot == ADMISSION_IDLE && gate == ADMISSION_IDLE);
        assert(attempt->money.reservation == 0 && call->body.bytes == NULL && call->held == NULL);
        break;
    default:
        assert(false && "a state that no step ends in");
    }
}

void call_move(struct call *call, enum call_state to)
{
    assert(call->state != CALL_FREED);
    assert(call->state != CALL_OVER || to == CALL_FREED); /* nothing comes after a reply */
    assert(to != CALL_NEW && (to != CALL_READING || call->state == CALL_NEW));
    assert(to != CALL_ANSWERING || call->state == CALL_ASKING);
    assert(to != CALL_DRAINING || call->in == NULL);
    call->state = to;
}
