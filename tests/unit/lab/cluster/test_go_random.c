/* test_go_random.c - Go's math/rand: the numbers that rand.New(rand.NewSource(seed)) draws. */
#include "check.h"
#include "lab/cluster/go_random.h"

/* seed ^ FNV-1a of "router", r.Intn(i%37 + 1), for i from 0: the first, and a sum over 2000. */
static void numbers_are_those_of_go(void **state)
{
    static const int32_t first[] = {0, 0, 2, 2, 2, 5, 5, 3, 2, 8, 8, 4, 1, 0,
                                    8, 4, 0, 13, 16, 0, 1, 14, 16, 10, 11, 19, 18, 13,
                                    27, 1, 3, 0, 31, 0, 32, 8, 20, 0, 0, 1};
    struct go_random random;
    uint64_t hash = UINT64_C(14695981039346656037);

    (void)state;
    go_random_init(&random, go_random_part(42, "router"));
    for (int i = 0; i < 2000; i++) {
        int32_t drawn = go_random_below(&random, i % 37 + 1);
        if ((size_t)i < COUNT_OF(first))
            assert_int_equal(drawn, first[i]);
        hash = (hash ^ (uint64_t)drawn) * UINT64_C(1099511628211);
    }
    assert_true(hash == UINT64_C(0x13634c8d264f5782));
}

static void any_seed_will_do(void **state)
{
    static const int32_t below_0[] = {421815508, 30939084, 43810917, 866272638, 117524694};
    static const int32_t at_0[] = {526058514, 408655346, 116702506, 789387515, 621654496};
    struct go_random random;

    (void)state;
    go_random_init(&random, -5);
    for (size_t i = 0; i < COUNT_OF(below_0); i++)
        assert_int_equal(go_random_below(&random, 1000000007), below_0[i]);
    go_random_init(&random, 0);
    for (size_t i = 0; i < COUNT_OF(at_0); i++)
        assert_int_equal(go_random_below(&random, 1000000007), at_0[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_go),
        cmocka_unit_test(any_seed_will_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
