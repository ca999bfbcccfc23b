/* test_mock_quota.c - requests a minute: a key's minute begins with its first request. */
#include "check.h"

#include "lab/mock/mock_quota.h"

static void a_minute_allows_so_many(void **state)
{
    static const struct {
        tg_ms now;
        uint64_t key;
        bool allowed;
        int64_t remaining;
        tg_ms reset_ms;
    } rows[] = {
        {1000, 7, true, 1, 60000},
        {2000, 7, true, 0, 59000},
        {2000, 7, false, 0, 59000},
        {2000, 8, true, 1, 60000}, /* another key has a minute of its own */
        {60999, 7, false, 0, 1},
        {61000, 7, true, 1, 60000},
        {61001, 8, true, 0, 999},
        {62000, 0, true, 1, 60000}, /* any hash will do */
    };
    struct mock_quota quota;

    (void)state;
    mock_quota_init(&quota, 2);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct mock_quota_answer answer = mock_quota_take(&quota, rows[i].key, rows[i].now);

        if (answer.allowed != rows[i].allowed || answer.remaining != rows[i].remaining ||
            answer.reset_ms != rows[i].reset_ms)
            fail_msg("row %zu: %d, %lld left, %lld ms", i, answer.allowed,
                     (long long)answer.remaining, (long long)answer.reset_ms);
    }
    mock_quota_reset(&quota);
    assert_int_equal(mock_quota_take(&quota, 7, 62000).remaining, 1);
    mock_quota_fini(&quota);
}

static void the_oldest_minute_makes_room(void **state)
{
    struct mock_quota quota;

    (void)state;
    mock_quota_init(&quota, 1);
    for (uint64_t key = 1; key <= MOCK_QUOTA_KEYS + 1; key++)
        assert_true(mock_quota_take(&quota, key, 1000 + (tg_ms)key).allowed);
    assert_false(mock_quota_take(&quota, 2, 2000).allowed);
    assert_true(mock_quota_take(&quota, 1, 2000).allowed); /* forgotten */
    mock_quota_fini(&quota);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minute_allows_so_many),
        cmocka_unit_test(the_oldest_minute_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
