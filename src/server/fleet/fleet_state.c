/* fleet_state.c - whether a gateway follows what is in the store. See fleet_state.h. */
#include "server/fleet/fleet_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *fleet_state_name(enum fleet_state state)
{
    static const char *const NAMES[] = {
#define FLEET_STATE_NAME(upper, lower) #lower,
        FLEET_STATES(FLEET_STATE_NAME)
#undef FLEET_STATE_NAME
    };

    assert(state < FLEET_STATE_COUNT);
    return NAMES[state];
}

/* Whether a store of this lineage goes on from the copy: its epoch is named, with a version that is
 * not below the copy's. */
static bool descends_from(struct slice lineage, const struct ledger_fleet_mark *mark)
{
    size_t epoch = strlen(mark->epoch);

    while (lineage.n > 0) {
        const char *end = memchr(lineage.at, ' ', lineage.n);
        size_t n = end != NULL ? (size_t)(end - lineage.at) : lineage.n;
        int64_t version = 0;
        if (n > epoch + 1 && memcmp(lineage.at, mark->epoch, epoch) == 0 &&
            lineage.at[epoch] == ':') {
            for (size_t i = epoch + 1; i < n && lineage.at[i] >= '0' && lineage.at[i] <= '9' &&
                                       version < TG_NUMBER_MAX / 10;
                 i++)
                version = version * 10 + (lineage.at[i] - '0');
            if (version >= mark->version)
                return true;
        }
        n += end != NULL;
        lineage.at += n;
        lineage.n -= n;
    }
    return false;
}

enum fleet_event fleet_state_judge(const struct ledger_fleet_mark *mark,
                                   const struct fleet_head *head)
{
    bool copied = mark->epoch[0] != '\0';

    if (!head->present)
        return copied ? FLEET_SAW_EMPTY : head->flagged ? FLEET_SAW_FLAGGED : FLEET_SAW_NOTHING;
    if (head->schema > LEDGER_FLEET_SCHEMA + 1)
        return FLEET_SAW_INCOMPATIBLE;
    if (!copied)
        return head->flagged ? FLEET_SAW_FLAGGED : FLEET_SAW_NEWER;
    if (!slice_equal(head->epoch, slice_of(mark->epoch)))
        return descends_from(head->lineage, mark) ? FLEET_SAW_NEWER : FLEET_SAW_FOREIGN;
    if (head->version < mark->version)
        return FLEET_SAW_OLDER;
    if (head->version > mark->version)
        return FLEET_SAW_NEWER;
    return slice_equal(head->change, slice_of(mark->change)) ? FLEET_SAW_SAME : FLEET_SAW_FORKED;
}

/* An answer of the store says where the gateway stands, whatever it believed before. What comes
 * from within, applied or failed, says nothing about a store that has answered otherwise since. */
enum fleet_state fleet_state_after(enum fleet_state state, enum fleet_event event)
{
    switch (event) {
    case FLEET_SAW_SAME:
        return FLEET_CURRENT;
    case FLEET_SAW_NOTHING:
    case FLEET_SAW_NEWER:
        return FLEET_BEHIND;
    case FLEET_SAW_EMPTY:
    case FLEET_SAW_OLDER:
    case FLEET_SAW_FOREIGN:
    case FLEET_SAW_FORKED:
    case FLEET_SAW_FLAGGED:
        return FLEET_REGRESSED;
    case FLEET_SAW_INCOMPATIBLE:
        return FLEET_INCOMPATIBLE;
    case FLEET_LOST:
        /* A store that went back is not forgotten because it is away, too. */
        return state == FLEET_REGRESSED || state == FLEET_INCOMPATIBLE ? state : FLEET_AWAY;
    case FLEET_APPLIED:
        return state == FLEET_BEHIND ? FLEET_CURRENT : state;
    case FLEET_FAILED:
    case FLEET_EVENT_COUNT:
        break;
    }
    return state;
}

bool fleet_state_takes_changes(enum fleet_state state)
{
    return state == FLEET_CURRENT || state == FLEET_BEHIND;
}

const char *fleet_event_text(enum fleet_event event)
{
    switch (event) {
    case FLEET_SAW_EMPTY:
        return "it is empty";
    case FLEET_SAW_OLDER:
        return "it has an older state than this gateway";
    case FLEET_SAW_FOREIGN:
        return "it is another one than this gateway has followed";
    case FLEET_SAW_FORKED:
        return "its changes are others than those this gateway has";
    case FLEET_SAW_FLAGGED:
        return "another gateway has a later state of it";
    case FLEET_SAW_INCOMPATIBLE:
        return "its schema is that of a later program";
    default:
        return "";
    }
}
