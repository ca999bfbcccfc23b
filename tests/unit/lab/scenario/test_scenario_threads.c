/* test_scenario_threads.c - several threads run scenarios, and the table is that of one. */
#include <string.h>

#include "check.h"
#include "lab/scenario/scenario.h"

static struct scenario_law law_of(const char *text)
{
    struct scenario_law law;
    struct tg_problem problem;

    assert_int_equal(scenario_law_parse(text, strlen(text), &law, &problem), TG_OK);
    return law;
}

static void a_table_is_the_same_by_any_number_of_threads(void **state)
{
    const struct scenario *list[2] = {scenario_find("mix.7"), scenario_find("LLM1.5x")};
    struct scenario_law laws[2] = {law_of("fixed:initial=64"), law_of("vegas:initial=20")};
    struct scenario_table table = {.scenarios = list,
                                   .n_scenarios = 2,
                                   .laws = laws,
                                   .n_laws = 2,
                                   .options = {.deadline_ms = 100},
                                   .seed = 3,
                                   .seeds = 3};
    struct scenario_cell one[4], two[4];
    struct tg_problem problem;

    (void)state;
    assert_int_equal(scenario_run_table(&table, one, &problem), TG_OK);
    table.threads = 3;
    assert_int_equal(scenario_run_table(&table, two, &problem), TG_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_memory_equal(&one[i].goodput, &two[i].goodput, sizeof one[i].goodput);
        assert_ptr_equal(one[i].scenario, list[i / 2]);
        assert_ptr_equal(one[i].law, &laws[i % 2]);
        assert_true(one[i].goodput.lowest <= one[i].goodput.mean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_the_same_by_any_number_of_threads),
    };

    return cmocka_run_group_tests_name("scenario threads", tests, NULL, NULL);
}
