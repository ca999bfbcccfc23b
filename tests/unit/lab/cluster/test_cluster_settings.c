/* test_cluster_settings.c - settings of a cluster: what is wrong is told, and names are known. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "lab/cluster/cluster.h"

static void wrong_settings_are_told(void **state)
{
    struct cluster_config config;
    struct tg_problem problem;

    (void)state;
#define WRONG(field, value, says)                                                  \
    do {                                                                           \
        cluster_config_init(&config);                                              \
        config.admission = CLUSTER_TOKEN_BUCKET;                                   \
        config.routing = CLUSTER_WEIGHTED;                                         \
        config.field = value;                                                      \
        assert_int_equal(cluster_config_check(&config, &problem), TG_ERR_INVALID); \
        if (strstr(problem.text, says) == NULL)                                    \
            fail_msg("%s does not say %s", problem.text, says);                    \
    } while (0)
    WRONG(bucket_capacity, 0, "--token-bucket-capacity must be a finite value > 0, got 0");
    WRONG(bucket_capacity, NAN, "--token-bucket-capacity must be a finite value > 0");
    WRONG(bucket_refill_per_s, -5, "--token-bucket-refill-rate must be a finite value > 0, got -5");
    WRONG(bucket_refill_per_s, INFINITY, "--token-bucket-refill-rate must be a finite value > 0");
    WRONG(admission_latency_us, -1, "--admission-latency");
    WRONG(tier_shed_threshold, -1, "tier_shed_threshold");
    WRONG(gaie_kv_threshold, 1.5, "gaie_kv_threshold");
    WRONG(instances, 0, "--num-instances is 0; it must be from 1 to 1024");
    WRONG(instances, CLUSTER_INSTANCES_MAX + 1, "--num-instances");
    WRONG(max_num_seqs, 0, "--max-num-seqs");
    WRONG(max_model_tokens, 1, "--max-model-len is 1; it must be from 2 to");
    WRONG(block_tokens, 0, "--block-size-in-tokens");
    WRONG(gpu_memory_share, 1.01, "--gpu-memory-utilization");
    WRONG(hardware.memory_gib, 20, "does not fit");
    WRONG(tensor_parallel, 3, "--tp");
    WRONG(retry.max_attempts, 0, "attempts");
    WRONG(retry.jitter, 2, "jitter");
    WRONG(flow.usage_limit, 0, "--usage-limit-threshold");
    WRONG(weights[0].weight, 0, "weight");
    WRONG(n_weights, 0, "scorers");
    WRONG(horizon_us, -1, "--horizon");
    WRONG(classes[0].priority, 101, "priority");
    WRONG(admission, CLUSTER_GATE, "gate");
#undef WRONG
    cluster_config_init(&config);
    config.own_coefficients = true;
    config.alpha[0] = -1;
    assert_int_equal(cluster_config_check(&config, &problem), TG_ERR_INVALID);
    config.alpha[0] = 0;
    config.bucket_capacity = 0; /* nobody asks for it */
    assert_int_equal(cluster_config_check(&config, &problem), TG_OK);
}

static void classes_have_their_priorities(void **state)
{
    static const struct {
        const char *name;
        int32_t priority;
    } known[] = {
        {"", 3},
        {"critical", 4},
        {"standard", 3},
        {"batch", -1},
        {"gold", 3},
        {"sheddable", -2},
        {"background", -3},
        {"gold", 3},
    };
    struct cluster_config config;
    uint32_t number;
    char name[80];

    (void)state;
    cluster_config_init(&config);
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        assert_true(cluster_config_class(&config, known[i].name, strlen(known[i].name), &number));
        assert_string_equal(config.classes[number].name, known[i].name);
        assert_int_equal(config.classes[number].priority, known[i].priority);
    }
    assert_int_equal(config.n_classes, 7);
    memset(name, 'x', sizeof name);
    assert_false(cluster_config_class(&config, name, sizeof name, &number));
    for (int i = 7; i < CLUSTER_CLASSES_MAX; i++) {
        int size = snprintf(name, sizeof name, "class %d", i);
        assert_true(cluster_config_class(&config, name, (size_t)size, &number));
    }
    assert_false(cluster_config_class(&config, "one more", 8, &number));
}

static void names_lead_back_to_their_numbers(void **state)
{
    enum cluster_admission admission;
    enum cluster_scorer scorer;

    (void)state;
    for (int i = 0; i < CLUSTER_ADMISSION_COUNT; i++) {
        assert_true(cluster_admission_find(cluster_admission_name((enum cluster_admission)i),
                                           &admission));
        assert_int_equal(admission, i);
    }
    for (int i = 0; i < CLUSTER_SCORER_COUNT; i++) {
        assert_true(cluster_scorer_find(cluster_scorer_name((enum cluster_scorer)i), &scorer));
        assert_int_equal(scorer, i);
    }
    for (int i = 0; i < CLUSTER_STATUS_COUNT; i++)
        assert_non_null(cluster_status_name((enum cluster_status)i));
    assert_null(cluster_admission_name(CLUSTER_ADMISSION_COUNT));
    assert_false(cluster_admission_find("none", &admission));
    assert_non_null(cluster_model_find("Qwen/Qwen3-14B"));
    assert_null(cluster_model_find("gpt"));
    assert_non_null(cluster_hardware_find("h100"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_settings_are_told),
        cmocka_unit_test(classes_have_their_priorities),
        cmocka_unit_test(names_lead_back_to_their_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
