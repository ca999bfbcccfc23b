/* test_cluster_progress.c - who waits for a long run is told how far it is. */
#include "check.h"
#include "lab/cluster/cluster.h"

#define REQUESTS 50000

struct told {
    int times;
    double part;
};

static void tell(void *context, double part)
{
    struct told *told = context;

    assert_true(part >= told->part && part <= 1);
    told->times++;
    told->part = part;
}

static void run(enum cluster_admission admission, struct told *told)
{
    struct cluster_config config;
    struct cluster_workload load;
    struct cluster_result result;
    struct tg_problem problem;

    cluster_config_init(&config);
    config.admission = admission;
    config.progress = tell;
    config.progress_context = told;
    assert_int_equal(cluster_workload_init(&load), TG_OK);
    for (int i = 0; i < REQUESTS; i++) {
        struct cluster_request *request = cluster_workload_add(&load);
        assert_non_null(request);
        request->arrival_us = i;
        request->input_tokens = 8;
        request->output_tokens = request->max_output_tokens = 1;
    }
    if (cluster_run(&config, &load, &result, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    cluster_result_fini(&result);
    cluster_workload_fini(&load);
}

static void a_long_run_says_how_far_it_is(void **state)
{
    struct told told = {0};

    (void)state;
    run(CLUSTER_REJECT_ALL, &told);
    assert_true(told.times > 1 && told.part > 0.5);
    told = (struct told){0};
    run(CLUSTER_ALWAYS_ADMIT, &told);
    assert_true(told.times > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_run_says_how_far_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
