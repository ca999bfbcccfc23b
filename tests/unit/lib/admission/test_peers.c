/* test_peers.c - the table of peers, held against a plain list of names and what each has.
 *
 * Names come and go; the hashes of some begin in the first slot of any table, or in the last, so
 * that entries move around its end.
 */
#include "check.h"
#include "draw.h"
#include "lib/admission/peers.h"

enum { NAMES = 240 };

struct town {
    struct peers peers;
    int64_t calls[NAMES], others;
    bool is_in[NAMES]; /* has an entry, maybe without calls */
};

static struct table_id name_of(int i)
{
    uint64_t hash = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);

    return table_id(i % 8 == 0 ? 0 : i % 8 == 1 ? UINT64_MAX
                                                : hash,
                    (uint32_t)i, 1);
}

static int64_t known(const struct town *town, bool with_calls)
{
    int64_t n = 0;

    for (int i = 0; i < NAMES; i++)
        n += town->is_in[i] && (!with_calls || town->calls[i] > 0);
    return n;
}

static void check_town(const struct town *town)
{
    int64_t n, calls, all = town->others;

    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(peers_calls(&town->peers, name_of(i)), town->calls[i]);
        all += town->calls[i];
    }
    peers_sum(&town->peers, &n, &calls);
    assert_int_equal(n, known(town, true) + (town->others > 0));
    assert_int_equal(calls, all);
    assert_int_equal(town->peers.table.n - town->peers.idle, known(town, true));
}

/* Who had no call when the table was tidied has no entry any more. */
static void note_tidied(struct town *town)
{
    for (int i = 0; i < NAMES; i++)
        town->is_in[i] = town->calls[i] > 0;
}

/* A call of this name comes. True: it is counted under the common name. */
static bool come(struct town *town, int i, int64_t max)
{
    struct table_id id = name_of(i);
    int64_t count = peers_count(&town->peers, &id, max);

    if (!town->is_in[i] && known(town, false) >= max)
        note_tidied(town);
    bool is_other = !town->is_in[i] && known(town, false) >= max;
    assert_int_equal(count, is_other ? town->others : town->calls[i]);
    assert_int_equal(table_id_equal(id, name_of(i)), !is_other);
    assert_true(peers_add(&town->peers, id));
    if (is_other) {
        town->others++;
        return true;
    }
    /* The table may have tidied itself to make room. */
    if (town->peers.table.n == known(town, true) + (town->calls[i] == 0))
        note_tidied(town);
    town->is_in[i] = true;
    town->calls[i]++;
    return false;
}

static void peers_are_what_a_list_says(void **state)
{
    struct draw draw = draw_stream(draw_seed("peers"), 1);
    static struct town town;
    (void)state;

    for (int life = 0; life < 20; life++) {
        int64_t max = draw_between(&draw, 1, NAMES + 20);
        int names = (int)draw_between(&draw, 1, NAMES);
        town = (struct town){.others = 0};
        peers_init(&town.peers);
        for (int step = 0; step < 4000; step++) {
            int i = (int)draw_between(&draw, 0, names - 1);
            if (draw_chance(&draw, 1)) {
                peers_tidy(&town.peers);
                note_tidied(&town);
                assert_int_equal(town.peers.table.n, known(&town, true));
                assert_int_equal(town.peers.idle, 0);
                assert_true(table_capacity(&town.peers.table) <= 4 * town.peers.table.n + 64);
            } else if (draw_chance(&draw, step % 1000 < 500 ? 60 : 40)) {
                (void)come(&town, i, max);
            } else if (town.calls[i] > 0) {
                peers_drop(&town.peers, name_of(i));
                town.calls[i]--;
            } else if (town.others > 0) {
                struct table_id other = table_id(0, 12345, 1);
                (void)peers_count(&town.peers, &other, 0);
                peers_drop(&town.peers, other);
                town.others--;
            }
            check_town(&town);
        }
        peers_fini(&town.peers);
    }
}

/* Each name has one call, and none comes back: the table does not grow with their number. */
static void names_that_come_once_do_not_fill_memory(void **state)
{
    struct peers peers;
    (void)state;

    peers_init(&peers);
    for (int i = 0; i < 100000; i++) {
        assert_true(peers_add(&peers, name_of(i)));
        peers_drop(&peers, name_of(i));
        assert_in_range(table_capacity(&peers.table), 1, 32);
    }
    peers_fini(&peers);
}

/* All of many stay, then all but one go: the memory goes, too, once the table is tidied. */
static void what_many_needed_is_given_back(void **state)
{
    struct peers peers;
    (void)state;

    peers_init(&peers);
    for (int i = 0; i < 5000; i++)
        assert_true(peers_add(&peers, name_of(i)));
    assert_true(table_capacity(&peers.table) > 5000);
    for (int i = 1; i < 5000; i++)
        peers_drop(&peers, name_of(i));
    peers_tidy(&peers);
    assert_in_range(table_capacity(&peers.table), 2, 32);
    assert_int_equal(peers_calls(&peers, name_of(0)), 1);
    peers_fini(&peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_are_what_a_list_says),
        cmocka_unit_test(names_that_come_once_do_not_fill_memory),
        cmocka_unit_test(what_many_needed_is_given_back),
    };
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
