/* test_cluster_latency.c - how long a step takes, and how many KV blocks fit: BLIS's numbers. */
#include "check.h"
#include "lab/cluster/cluster_latency.h"

struct part {
    int64_t n; /* how many like it */
    int64_t prefill, progress, input;
};

/* Steps of qwen/qwen3-14b on one H100, as BLIS's own code has them. */
static const struct {
    struct part prefill, decode;
    int64_t trained_us, roofline_us;
} steps[] = {
    {{1, 185, 0, 185}, {0}, 12919, 8047},
    {{1, 2048, 0, 2048}, {0}, 21274, 92635},
    {{1, 1000, 2048, 4096}, {0}, 16802, 48063},
    {{0}, {1, 0, 185, 0}, 12179, 5768},
    {{0}, {256, 0, 1000, 0}, 37690, 18323},
    {{1, 512, 0, 512}, {100, 0, 700, 0}, 21408, 29123},
    {{0}, {0}, 1, 1},
};

static int64_t time_of(const struct latency *latency, const struct part *prefill,
                       const struct part *decode)
{
    struct latency_batch batch = {0};

    for (int64_t i = 0; i < prefill->n; i++)
        latency_add_prefill(latency, &batch, prefill->prefill, prefill->progress, prefill->input);
    if (latency->kind == CLUSTER_TRAINED_PHYSICS)
        latency_add_decodes(&batch, decode->n, decode->n * decode->progress);
    else
        for (int64_t i = 0; i < decode->n; i++)
            latency_add_decode(latency, &batch, decode->progress);
    return latency_step(latency, &batch);
}

static void steps_take_as_long_as_in_blis(void **state)
{
    struct cluster_config config;
    struct latency trained, roofline;

    (void)state;
    cluster_config_init(&config);
    latency_init(&trained, &config);
    config.latency = CLUSTER_ROOFLINE;
    latency_init(&roofline, &config);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        assert_int_equal(time_of(&trained, &steps[i].prefill, &steps[i].decode),
                         steps[i].trained_us);
        assert_int_equal(time_of(&roofline, &steps[i].prefill, &steps[i].decode),
                         steps[i].roofline_us);
    }
}

static void what_comes_around_a_step_is_whole_microseconds(void **state)
{
    struct cluster_config config;
    struct latency latency;

    (void)state;
    cluster_config_init(&config);
    latency_init(&latency, &config);
    assert_int_equal(latency_queueing(&latency, 1000), 15563);
    assert_int_equal(latency.after_us, 777);
    assert_int_equal(latency.token_us, 45);
    config.latency = CLUSTER_ROOFLINE;
    latency_init(&latency, &config);
    assert_int_equal(latency_queueing(&latency, 1000), 0);
    assert_int_equal(latency.token_us, 0);
    config.own_coefficients = true;
    config.alpha[0] = 100.9;
    config.alpha[1] = 0.5;
    latency_init(&latency, &config);
    assert_int_equal(latency_queueing(&latency, 3), 102);
}

/* A model that is split has to exchange what its parts have computed; each part reads less. */
static void a_split_model_is_faster_where_it_reads_and_slower_where_it_talks(void **state)
{
    const struct part none = {0}, decode = {256, 0, 1000, 0};
    struct cluster_config config;
    struct latency one, two;

    (void)state;
    cluster_config_init(&config);
    latency_init(&one, &config);
    config.tensor_parallel = 2;
    latency_init(&two, &config);
    int64_t alone = time_of(&one, &none, &decode), split = time_of(&two, &none, &decode);
    assert_true(split < alone);
    assert_true(2 * split > alone);
}

static void blocks_that_fit_are_those_of_blis(void **state)
{
    struct cluster_config config;

    (void)state;
    cluster_config_init(&config);
    assert_int_equal(cluster_config_blocks(&config), 15909);
    assert_int_equal(cluster_config_max_tokens(&config), 40960);
    config.kv_blocks = 100;
    assert_int_equal(cluster_config_max_tokens(&config), 1600);
    config.max_model_tokens = 1000;
    assert_int_equal(cluster_config_max_tokens(&config), 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_as_long_as_in_blis),
        cmocka_unit_test(what_comes_around_a_step_is_whole_microseconds),
        cmocka_unit_test(a_split_model_is_faster_where_it_reads_and_slower_where_it_talks),
        cmocka_unit_test(blocks_that_fit_are_those_of_blis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
