/* test_recent_refusals.c - a tenant's last refusals: the newest, whole, its own pace, and by user.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "server/obs/recent_refusals.h"

static struct watch_entry entries[REFUSALS_KEPT];

static struct watch_entry refusal(int number, size_t text)
{
    struct watch_entry entry;

    watch_entry_init(&entry);
    entry.at = 1000 + number;
    entry.id = (uint64_t)number;
    entry.status = 429;
    entry.limit = 6;
    entry.remaining = number;
    snprintf(entry.reason, sizeof entry.reason, "rate");
    snprintf(entry.axis, sizeof entry.axis, "rate");
    snprintf(entry.tenant, sizeof entry.tenant, "not to be kept");
    snprintf(entry.model, sizeof entry.model, "model-%d", number);
    snprintf(entry.user, sizeof entry.user, "%s", number % 3 == 0 ? "bob" : "");
    snprintf(entry.limit_of, sizeof entry.limit_of, "tenant dept");
    snprintf(entry.limit_rule, sizeof entry.limit_rule, "6 calls a minute");
    memset(entry.text, 'a' + number % 26, text < sizeof entry.text ? text : sizeof entry.text - 1);
    return entry;
}

static void expect_same(const struct watch_entry *have, const struct watch_entry *want)
{
    assert_int_equal(have->at, want->at);
    assert_int_equal(have->id, want->id);
    assert_int_equal(have->status, want->status);
    assert_int_equal(have->limit, want->limit);
    assert_int_equal(have->remaining, want->remaining);
    assert_int_equal(have->retry_after_ms, want->retry_after_ms);
    assert_string_equal(have->reason, want->reason);
    assert_string_equal(have->axis, want->axis);
    assert_string_equal(have->model, want->model);
    assert_string_equal(have->user, want->user);
    assert_string_equal(have->limit_of, want->limit_of);
    assert_string_equal(have->limit_rule, want->limit_rule);
    assert_string_equal(have->text, want->text);
    assert_string_equal(have->tenant, "");
}

static void the_newest_come_first_and_the_oldest_make_room(void **state)
{
    struct recent_refusals refusals = {.left_out = 0};
    struct draw draw = draw_stream(draw_seed("test_recent_refusals"), 1);
    struct watch_entry put[400];
    (void)state;

    assert_int_equal(refusals_read(&refusals, NULL, entries), 0);
    for (int i = 0; i < 400; i++) {
        put[i] = refusal(i, i < 200 ? 1 : (size_t)draw_between(&draw, 0, WATCH_TEXT_MAX));
        refusals_put(&refusals, &put[i]);
        size_t n = refusals_read(&refusals, NULL, entries);
        assert_true(n >= 1 && n <= REFUSALS_KEPT);
        if (i < 200) /* short ones: as many as there may be */
            assert_int_equal(n, i + 1 < REFUSALS_KEPT ? i + 1 : REFUSALS_KEPT);
        else /* 4 KiB of the longest */
            assert_true(n >= 8);
        for (size_t k = 0; k < n; k++)
            expect_same(&entries[k], &put[(size_t)i - k]);
    }
    refusals_fini(&refusals);
}

static void a_user_is_told_of_his_own_alone(void **state)
{
    struct recent_refusals refusals = {.left_out = 0};
    char longer[2 * WATCH_NAME_MAX];
    (void)state;

    for (int i = 0; i < 9; i++) {
        struct watch_entry entry = refusal(i, 3);
        refusals_put(&refusals, &entry);
    }
    assert_int_equal(refusals_read(&refusals, "bob", entries), 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(entries[i].user, "bob");
    assert_int_equal(entries[0].id, 6);
    assert_int_equal(refusals_read(&refusals, "bo", entries), 0);
    /* The name of one is kept cut: whose that is nobody can tell. */
    struct watch_entry entry = refusal(9, 3);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    watch_text(entry.user, sizeof entry.user, slice_of(longer));
    refusals_put(&refusals, &entry);
    assert_int_equal(refusals_read(&refusals, longer, entries), 0);
    assert_int_equal(refusals_read(&refusals, entry.user, entries), 0);
    refusals_fini(&refusals);
}

static void ten_a_second_are_kept(void **state)
{
    struct recent_refusals refusals = {.left_out = 0};
    (void)state;

    for (tg_ms second = 0; second < 3; second++)
        for (int i = 0; i < 25; i++)
            assert_int_equal(refusals_may_put(&refusals, 1000 * second + i), i < REFUSALS_A_SECOND);
    assert_int_equal(atomic_load(&refusals.left_out), 45);
}

static struct recent_refusals shared;

static void *put_and_read(void *arg)
{
    static _Thread_local struct watch_entry seen[REFUSALS_KEPT];

    for (int i = 0; i < 2000; i++) {
        struct watch_entry entry = refusal((int)(intptr_t)arg, (size_t)i % WATCH_TEXT_MAX);
        if (refusals_may_put(&shared, i))
            refusals_put(&shared, &entry);
        size_t n = refusals_read(&shared, NULL, seen);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(seen[k].limit_of, "tenant dept");
    }
    return NULL;
}

static void threads_may_put_and_read(void **state)
{
    pthread_t threads[4];
    (void)state;

    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_read, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(refusals_read(&shared, NULL, entries) > 0);
    refusals_fini(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_come_first_and_the_oldest_make_room),
        cmocka_unit_test(a_user_is_told_of_his_own_alone),
        cmocka_unit_test(ten_a_second_are_kept),
        cmocka_unit_test(threads_may_put_and_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
