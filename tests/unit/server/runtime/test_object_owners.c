/* test_object_owners.c - whose objects are whose, for how long, and over a restart. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "draw.h"
#include "server/runtime/object_owners.h"

#define NOW INT64_C(1700000000000)

static struct object_owners *owners;

static void add(const char *id, enum object_kind kind, const char *tenant, tg_ms at)
{
    object_owners_add(owners, slice_of(id), kind, tenant, "p", "k1", at);
}

static enum object_claim find(const char *id, const char *tenant, tg_ms at)
{
    return object_owners_find(owners, slice_of(id), tenant, at, NULL);
}

static void the_first_owner_stays(void **state)
{
    struct object_place place;

    (void)state;
    owners = object_owners_new(100);
    assert_int_equal(find("f1", "a", NOW), OBJECT_UNKNOWN);
    add("f1", OBJECT_OTHER, "a", NOW);
    add("f1", OBJECT_OTHER, "b", NOW);
    assert_int_equal(find("f1", "a", NOW), OBJECT_MINE);
    assert_int_equal(find("f1", "b", NOW), OBJECT_OTHERS);
    assert_int_equal(find("f1", "nobody", NOW), OBJECT_OTHERS);
    assert_int_equal(find("F1", "b", NOW), OBJECT_UNKNOWN);
    object_owners_remove(owners, SLICE("f1"), "b", "p");
    assert_int_equal(find("f1", "a", NOW), OBJECT_MINE);
    /* The same id at another provider is another object. */
    object_owners_add(owners, SLICE("f1"), OBJECT_OTHER, "b", "q", "k2", NOW);
    assert_int_equal(object_owners_find(owners, SLICE("f1"), "b", NOW, &place), OBJECT_MINE);
    assert_string_equal(place.provider, "q");
    assert_string_equal(place.key, "k2");
    assert_int_equal(object_owners_find(owners, SLICE("f1"), "a", NOW, &place), OBJECT_MINE);
    assert_string_equal(place.provider, "p");
    object_owners_remove(owners, SLICE("f1"), "a", "p");
    assert_int_equal(find("f1", "a", NOW), OBJECT_OTHERS);
    assert_int_equal(object_owners_count(owners), 1);
    object_owners_free(owners);
}

static void no_number_of_objects_costs_another_its_own(void **state)
{
    char id[32];

    (void)state;
    owners = object_owners_new(1000);
    add("b-response", OBJECT_RESPONSE, "b", NOW);
    add("b-file", OBJECT_OTHER, "b", NOW);
    add("a-file", OBJECT_OTHER, "a", NOW);
    for (int i = 0; i < 5000; i++) {
        snprintf(id, sizeof id, "resp_%d", i);
        add(id, OBJECT_RESPONSE, "a", NOW + i);
        assert_true(object_owners_count(owners) <= 1000);
    }
    assert_int_equal(find("b-response", "b", NOW), OBJECT_MINE);
    assert_int_equal(find("b-file", "b", NOW), OBJECT_MINE);
    assert_int_equal(find("a-file", "a", NOW), OBJECT_MINE);
    assert_int_equal(find("resp_0", "a", NOW), OBJECT_UNKNOWN);
    assert_int_equal(find("resp_4999", "a", NOW), OBJECT_MINE);
    object_owners_free(owners);
}

static void responses_end_and_what_is_used_stays(void **state)
{
    const tg_ms day = 86400000;

    (void)state;
    owners = object_owners_new(100);
    add("r", OBJECT_RESPONSE, "a", NOW);
    add("f", OBJECT_OTHER, "a", NOW);
    add("g", OBJECT_OTHER, "a", NOW);
    assert_int_equal(find("r", "a", NOW + OBJECT_RESPONSE_MS), OBJECT_MINE);
    assert_int_equal(find("r", "a", NOW + OBJECT_RESPONSE_MS + 1), OBJECT_UNKNOWN);
    assert_int_equal(find("f", "a", NOW + 2 * day), OBJECT_MINE);
    assert_int_equal(find("f", "a", NOW + OBJECT_OTHER_MS + 1), OBJECT_MINE);
    assert_int_equal(find("g", "a", NOW + OBJECT_OTHER_MS + 1), OBJECT_UNKNOWN);
    object_owners_free(owners);
}

/* ---- The ledger ---- */

static struct ledger *open_ledger(const char *path)
{
    struct ledger_config config;
    struct tg_problem problem;
    struct ledger *ledger;

    ledger_config_init(&config);
    config.path = path;
    if (!ledger_open(&config, &ledger, &problem))
        fail_msg("%s", problem.text);
    return ledger;
}

static void restart(const char *path, tg_ms now)
{
    struct tg_problem problem;
    struct ledger *ledger = open_ledger(path);

    object_owners_flush(owners, ledger);
    object_owners_free(owners);
    owners = object_owners_new(100);
    assert_true(object_owners_load(owners, ledger, now, &problem));
    assert_true(ledger_close(ledger, &problem));
}

static void owners_survive_a_restart(void **state)
{
    char folder[64], path[96], command[128];

    (void)state;
    int bytes = snprintf(folder, sizeof folder, "/tmp/tollgate-owners-");
    memset(folder + bytes, 'X', 6); /* to be replaced */
    folder[bytes + 6] = '\0';
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    owners = object_owners_new(100);
    restart(path, NOW); /* a ledger without the table */
    assert_int_equal(object_owners_count(owners), 0);
    add("f", OBJECT_OTHER, "a", NOW);
    add("g", OBJECT_OTHER, "b", NOW);
    add("r", OBJECT_RESPONSE, "a", NOW);
    restart(path, NOW);
    assert_int_equal(find("f", "a", NOW), OBJECT_MINE);
    assert_int_equal(find("f", "b", NOW), OBJECT_OTHERS);
    assert_int_equal(find("r", "a", NOW), OBJECT_MINE);
    object_owners_remove(owners, SLICE("f"), "a", "p");
    restart(path, NOW + OBJECT_RESPONSE_MS + 1);
    assert_int_equal(object_owners_count(owners), 1);
    assert_int_equal(find("g", "b", NOW), OBJECT_MINE);
    object_owners_free(owners);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---- Against a simple list ---- */

enum { IDS = 40,
       TENANTS = 3,
       STEPS = 20000 };

static void drawn_changes_give_what_a_list_gives(void **state)
{
    struct draw draw = draw_stream(draw_seed("object_owners"), 0);
    int owner[IDS];
    char id[16], tenant[2][16];

    (void)state;
    for (int i = 0; i < IDS; i++)
        owner[i] = -1;
    owners = object_owners_new(1000);
    for (int i = 0; i < STEPS; i++) {
        int which = (int)draw_between(&draw, 0, IDS - 1);
        int who = (int)draw_between(&draw, 0, TENANTS - 1);
        snprintf(id, sizeof id, "id%d", which);
        snprintf(tenant[0], sizeof tenant[0], "t%d", who);
        switch (draw_between(&draw, 0, 2)) {
        case 0:
            add(id, which % 2 ? OBJECT_RESPONSE : OBJECT_OTHER, tenant[0], NOW + i);
            owner[which] = owner[which] < 0 ? who : owner[which];
            break;
        case 1:
            object_owners_remove(owners, slice_of(id), tenant[0], "p");
            owner[which] = owner[which] == who ? -1 : owner[which];
            break;
        default:
            assert_int_equal(find(id, tenant[0], NOW + i), owner[which] == who ? OBJECT_MINE
                                                           : owner[which] < 0  ? OBJECT_UNKNOWN
                                                                               : OBJECT_OTHERS);
        }
    }
    object_owners_free(owners);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_owner_stays),
        cmocka_unit_test(no_number_of_objects_costs_another_its_own),
        cmocka_unit_test(responses_end_and_what_is_used_stays),
        cmocka_unit_test(owners_survive_a_restart),
        cmocka_unit_test(drawn_changes_give_what_a_list_gives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
