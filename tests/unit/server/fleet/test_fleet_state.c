/* test_fleet_state.c - a store is followed where it goes on from the copy, and never else. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/fleet/fleet_state.h"

static struct ledger_fleet_mark copy_of(const char *epoch, int64_t version, const char *change)
{
    struct ledger_fleet_mark mark = {.version = version};

    snprintf(mark.epoch, sizeof mark.epoch, "%s", epoch);
    snprintf(mark.change, sizeof mark.change, "%s", change);
    return mark;
}

static struct fleet_head head_of(const char *epoch, int64_t version, const char *change)
{
    return (struct fleet_head){.present = true,
                               .schema = LEDGER_FLEET_SCHEMA,
                               .version = version,
                               .epoch = slice_of(epoch),
                               .change = slice_of(change),
                               .lineage = {"", 0}};
}

/* What a store is to a copy of epoch e at version 7, whose last change is c. */
static void what_a_store_is_to_a_copy(void **state)
{
    static const struct {
        const char *what, *epoch, *change, *lineage;
        int64_t version, schema;
        bool absent, flagged;
        enum fleet_event event;
    } rows[] = {
        {"the same", "e", "c", "", 7, 1, false, false, FLEET_SAW_SAME},
        {"newer", "e", "d", "", 8, 1, false, false, FLEET_SAW_NEWER},
        {"older", "e", "b", "", 6, 1, false, false, FLEET_SAW_OLDER},
        {"never used", "e", "", "", 0, 1, false, false, FLEET_SAW_OLDER},
        {"forked", "e", "x", "", 7, 1, false, false, FLEET_SAW_FORKED},
        {"empty", "", "", "", 0, 0, true, false, FLEET_SAW_EMPTY},
        {"another", "f", "c", "", 7, 1, false, false, FLEET_SAW_FOREIGN},
        {"another, newer", "f", "c", "", 99, 1, false, false, FLEET_SAW_FOREIGN},
        {"another whose name begins alike", "ee", "c", "ee:9", 7, 1, false, false,
         FLEET_SAW_FOREIGN},
        {"restored from this", "f", "x", "e:7", 8, 1, false, false, FLEET_SAW_NEWER},
        {"restored from a later one", "f", "x", "e:8", 9, 1, false, false, FLEET_SAW_NEWER},
        {"restored from an earlier one", "f", "x", "e:6", 9, 1, false, false, FLEET_SAW_FOREIGN},
        {"restored twice", "g", "x", "f:9 e:7", 12, 1, false, false, FLEET_SAW_NEWER},
        {"restored from others", "g", "x", "f:9 h:7", 12, 1, false, false, FLEET_SAW_FOREIGN},
        {"no version in the lineage", "g", "x", "e:", 12, 1, false, false, FLEET_SAW_FOREIGN},
        {"of the next schema", "e", "d", "", 8, 2, false, false, FLEET_SAW_NEWER},
        {"of a later schema", "e", "d", "", 8, 3, false, false, FLEET_SAW_INCOMPATIBLE},
        {"the same, flagged by another", "e", "c", "", 7, 1, false, true, FLEET_SAW_SAME},
    };
    const struct ledger_fleet_mark mark = copy_of("e", 7, "c");

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fleet_head head = head_of(rows[i].epoch, rows[i].version, rows[i].change);
        head.present = !rows[i].absent;
        head.schema = rows[i].schema;
        head.lineage = slice_of(rows[i].lineage);
        head.flagged = rows[i].flagged;
        if (fleet_state_judge(&mark, &head) != rows[i].event)
            fail_msg("%s: %d", rows[i].what, (int)fleet_state_judge(&mark, &head));
    }
}

static void a_gateway_without_a_copy_takes_what_nobody_contradicts(void **state)
{
    const struct ledger_fleet_mark none = {.version = 0};
    struct fleet_head head = head_of("e", 7, "c"), empty = {.present = false};

    (void)state;
    assert_int_equal(fleet_state_judge(&none, &head), FLEET_SAW_NEWER);
    assert_int_equal(fleet_state_judge(&none, &empty), FLEET_SAW_NOTHING);
    head.flagged = empty.flagged = true;
    assert_int_equal(fleet_state_judge(&none, &head), FLEET_SAW_FLAGGED);
    assert_int_equal(fleet_state_judge(&none, &empty), FLEET_SAW_FLAGGED);
}

/* Each event in each state: what the store says decides, whatever was believed before. */
static void every_event_in_every_state(void **state)
{
    for (int from = 0; from < FLEET_STATE_COUNT; from++)
        for (int event = 0; event < FLEET_EVENT_COUNT; event++) {
            enum fleet_state before = (enum fleet_state)from, want = before;
            switch ((enum fleet_event)event) {
            case FLEET_SAW_SAME:
                want = FLEET_CURRENT;
                break;
            case FLEET_SAW_NOTHING:
            case FLEET_SAW_NEWER:
                want = FLEET_BEHIND;
                break;
            case FLEET_SAW_EMPTY:
            case FLEET_SAW_OLDER:
            case FLEET_SAW_FOREIGN:
            case FLEET_SAW_FORKED:
            case FLEET_SAW_FLAGGED:
                want = FLEET_REGRESSED;
                break;
            case FLEET_SAW_INCOMPATIBLE:
                want = FLEET_INCOMPATIBLE;
                break;
            case FLEET_LOST:
                if (before != FLEET_REGRESSED && before != FLEET_INCOMPATIBLE)
                    want = FLEET_AWAY;
                break;
            case FLEET_APPLIED:
                if (before == FLEET_BEHIND)
                    want = FLEET_CURRENT;
                break;
            case FLEET_FAILED:
            case FLEET_EVENT_COUNT:
                break;
            }
            if (fleet_state_after(before, (enum fleet_event)event) != want)
                fail_msg("state %s, event %d", fleet_state_name(before), event);
        }
    (void)state;
}

static void only_a_store_that_is_followed_takes_changes(void **state)
{
    (void)state;
    for (int i = 0; i < FLEET_STATE_COUNT; i++)
        assert_int_equal(fleet_state_takes_changes((enum fleet_state)i),
                         i == FLEET_CURRENT || i == FLEET_BEHIND);
}

static void what_is_not_followed_is_explained(void **state)
{
    (void)state;
    for (int i = 0; i < FLEET_EVENT_COUNT; i++) {
        enum fleet_state after = fleet_state_after(FLEET_CURRENT, (enum fleet_event)i);
        bool told = fleet_event_text((enum fleet_event)i)[0] != '\0';
        assert_int_equal(told, after == FLEET_REGRESSED || after == FLEET_INCOMPATIBLE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_store_is_to_a_copy),
        cmocka_unit_test(a_gateway_without_a_copy_takes_what_nobody_contradicts),
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(only_a_store_that_is_followed_takes_changes),
        cmocka_unit_test(what_is_not_followed_is_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
