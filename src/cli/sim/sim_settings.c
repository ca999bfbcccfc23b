/* sim_settings.c - what `tollgate sim` is asked for. See sim_settings.h.
 *
 * Every option that is a number, a switch or a name is a row of one table: what it is called, what
 * it may be and where it goes. Names and bounds are those of BLIS where it has the option too.
 */
#include "cli/sim/sim_settings.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/options.h"
#include "cli/sim/sim_names.h"

enum kind {
    OPTION_TEXT,  /* const char * */
    OPTION_REAL,  /* double */
    OPTION_WHOLE, /* int64_t */
    OPTION_FLAG,  /* bool */
    OPTION_WORD,  /* one of sim_names.h, by `set` */
};

enum {
    ABOVE = 1, /* above `low`, not equal */
    LOAD = 2,  /* the workload depends on it */
};

struct sim_option {
    const char *name, *argument;
    enum kind kind;
    size_t offset; /* in struct sim_settings */
    double low, high;
    unsigned flags;
    sim_set_word *set;
};

#define AT(field) offsetof(struct sim_settings, field)
#define MANY 1e15   /* practically no bound, and whole in a double */
#define ANY DBL_MAX /* no bound, for numbers that need not be whole */
#define TOKENS_MAX ((double)LENGTH_MAX)

#define TEXT(name, argument, field, flags)                                                         \
    {                                                                                              \
        name, argument, OPTION_TEXT, AT(field), 0, 0, flags, NULL                                  \
    }
#define REAL(name, argument, field, low, high, flags)                                              \
    {                                                                                              \
        name, argument, OPTION_REAL, AT(field), low, high, flags, NULL                             \
    }
#define WHOLE(name, argument, field, low, high, flags)                                             \
    {                                                                                              \
        name, argument, OPTION_WHOLE, AT(field), low, high, flags, NULL                            \
    }
#define FLAG(name, field)                                                                          \
    {                                                                                              \
        name, NULL, OPTION_FLAG, AT(field), 0, 0, 0, NULL                                          \
    }
#define WORD(name, argument, set)                                                                  \
    {                                                                                              \
        name, argument, OPTION_WORD, 0, 0, 0, 0, set                                               \
    }

/* BLIS's older names for two of them, which it still takes. */
#define OLD_MAX_SEQS "--max-num-running-reqs"
#define OLD_MAX_TOKENS "--max-num-scheduled-tokens"

static const struct sim_option options[] = {
    /* The load */
    TEXT("--trace", "FILE", trace, LOAD),
    TEXT("--workload-spec", "FILE", workload_spec, LOAD),
    {"--workload", "NAME", OPTION_WORD, 0, 0, 0, LOAD, sim_set_workload},
    REAL("--rate", "PER_SECOND", simple.rate_per_s, 0, 1e9, ABOVE | LOAD),
    WHOLE("--num-requests", "N", num_requests, 1, 1e9, LOAD),
    WHOLE("--seed", "N", seed, 0, 9007199254740991.0, LOAD),
    WHOLE("--timeout", "SECONDS", timeout_s, 0, 1e9, LOAD),
    WHOLE("--prompt-tokens", "N", simple.prompt_mean, 1, TOKENS_MAX, LOAD),
    WHOLE("--prompt-tokens-stdev", "N", simple.prompt_deviation, 0, TOKENS_MAX, LOAD),
    WHOLE("--prompt-tokens-min", "N", simple.prompt_min, 1, TOKENS_MAX, LOAD),
    WHOLE("--prompt-tokens-max", "N", simple.prompt_max, 1, TOKENS_MAX, LOAD),
    WHOLE("--output-tokens", "N", simple.output_mean, 1, TOKENS_MAX, LOAD),
    WHOLE("--output-tokens-stdev", "N", simple.output_deviation, 0, TOKENS_MAX, LOAD),
    WHOLE("--output-tokens-min", "N", simple.output_min, 1, TOKENS_MAX, LOAD),
    WHOLE("--output-tokens-max", "N", simple.output_max, 1, TOKENS_MAX, LOAD),
    WHOLE("--prefix-tokens", "N", simple.prefix_tokens, 0, TOKENS_MAX, LOAD),
    WHOLE("--horizon", "MICROSECONDS", cluster.horizon_us, 1, MANY, LOAD),

    /* The cluster */
    WORD("--model", "NAME", sim_set_model),
    WORD("--hardware", "NAME", sim_set_hardware),
    WHOLE("--tp", "N", cluster.tensor_parallel, 1, 64, 0),
    WORD("--latency-model", "NAME", sim_set_latency),
    WHOLE("--num-instances", "N", cluster.instances, 1, CLUSTER_INSTANCES_MAX, 0),
    WHOLE("--max-num-seqs", "N", cluster.max_num_seqs, 1, 1e6, 0),
    WHOLE(OLD_MAX_SEQS, "N", cluster.max_num_seqs, 1, 1e6, 0),
    WHOLE("--max-num-batched-tokens", "N", cluster.max_batched_tokens, 1, TOKENS_MAX, 0),
    WHOLE(OLD_MAX_TOKENS, "N", cluster.max_batched_tokens, 1, TOKENS_MAX, 0),
    WHOLE("--long-prefill-token-threshold", "N", cluster.long_prefill, 0, TOKENS_MAX, 0),
    WHOLE("--block-size-in-tokens", "N", cluster.block_tokens, 1, 1e6, 0),
    WHOLE("--total-kv-blocks", "N", cluster.kv_blocks, 1, 1e8, 0),
    WHOLE("--max-model-len", "N", cluster.max_model_tokens, 0, TOKENS_MAX, 0),
    REAL("--gpu-memory-utilization", "PART", cluster.gpu_memory_share, 0, 1, ABOVE),
    WORD("--scheduler", "NAME", sim_set_scheduler),
    WORD("--preemption-policy", "NAME", sim_set_preemption),
    WORD("--routing-policy", "NAME", sim_set_routing),
    WORD("--routing-scorers", "NAME:WEIGHT,...", sim_set_scorers),
    WHOLE("--snapshot-refresh-interval", "MICROSECONDS", cluster.snapshot_us, 0, MANY, 0),
    WHOLE("--cache-signal-delay", "MICROSECONDS", cluster.cache_signal_us, 0, MANY, 0),

    /* Admission */
    WORD("--admission-policy", "NAME", sim_set_admission),
    REAL("--token-bucket-capacity", "TOKENS", cluster.bucket_capacity, 0, ANY, ABOVE),
    REAL("--token-bucket-refill-rate", "TOKENS_PER_SECOND", cluster.bucket_refill_per_s, 0, ANY,
         ABOVE),
    WHOLE("--admission-latency", "MICROSECONDS", cluster.admission_latency_us, 0, MANY, 0),
    WHOLE("--routing-latency", "MICROSECONDS", cluster.routing_latency_us, 0, MANY, 0),
    TEXT("--policy-config", "FILE", policy_config, 0),
    TEXT("-c", "FILE", gate_config, 0),
    WORD("--law-sample", "NAME", sim_set_sample),
    FLAG("--retry", retry),
    WHOLE("--max-retries", "N", max_retries, 0, 1000, 0),
    REAL("--retry-backoff", "MILLISECONDS", retry_backoff_ms, 0, 1e9, 0),
    REAL("--retry-jitter", "PART", cluster.retry.jitter, 0, 1, 0),

    /* The gateway queue */
    FLAG("--flow-control", cluster.flow.on),
    WORD("--saturation-detector", "NAME", sim_set_detector),
    REAL("--queue-depth-threshold", "N", cluster.flow.queue_threshold, 0, ANY, ABOVE),
    REAL("--kv-cache-util-threshold", "PART", cluster.flow.kv_threshold, 0, ANY, ABOVE),
    WHOLE("--max-concurrency", "N", cluster.flow.max_concurrency, 1, 1e9, 0),
    WHOLE("--max-gateway-queue-depth", "N", cluster.flow.max_depth, 0, 1e9, 0),
    WHOLE("--per-band-capacity", "N", cluster.flow.band_capacity, 0, 1e9, 0),
    FLAG("--queue-shedding", cluster.flow.shedding),
    WHOLE("--request-ttl", "MICROSECONDS", cluster.flow.ttl_us, 0, MANY, 0),
    WHOLE("--dispatch-tick-interval", "MICROSECONDS", cluster.flow.tick_us, 0, MANY, 0),
    FLAG("--in-flight-eviction", cluster.flow.in_flight_eviction),
    REAL("--usage-limit-threshold", "PART", cluster.flow.usage_limit, 0, 1, ABOVE),
    WORD("--dispatch-order", "NAME", sim_set_dispatch),
    WORD("--fairness-policy", "NAME", sim_set_fairness),
    WORD("--slo-targets", "CLASS=MICROSECONDS,...", sim_set_targets),

    /* What is good */
    WORD("--slo-ttft", "CLASS=TIME,...", sim_set_good_ttft),
    WORD("--slo-itl", "CLASS=TIME,...", sim_set_good_itl),
    WORD("--slo-e2e", "CLASS=TIME,...", sim_set_good_e2e),

    /* Output */
    FLAG("--json", json),
    TEXT("--results", "FILE", results, 0),
    TEXT("--plot", "FILE.svg", plot, 0),
    TEXT("--compare", "FILE,FILE", compare, 0),
    TEXT("--sweep", "NAME=FROM:TO:xFACTOR|+STEP", sweep, 0),
};

#define N_OPTIONS (sizeof options / sizeof options[0])

_Static_assert(N_OPTIONS <= SIM_OPTIONS_MAX, "struct sim_asked is too small");

/* ---- Looking options up ---------------------------------------------------------------------- */

int sim_option_find(const char *name)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return (int)i;
    return -1;
}

int sim_option_number(const char *name, size_t bytes, bool *whole)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *own = options[i].name + 2;
        if ((options[i].kind == OPTION_REAL || options[i].kind == OPTION_WHOLE) &&
            strlen(own) == bytes && memcmp(own, name, bytes) == 0) {
            *whole = options[i].kind == OPTION_WHOLE;
            return (int)i;
        }
    }
    return -1;
}

const char *sim_option_name(int option)
{
    return options[option].name;
}

bool sim_option_makes_load(int option)
{
    return (options[option].flags & LOAD) != 0;
}

bool sim_asked_read(const struct command *command, int argc, char **argv, struct sim_asked *asked)
{
    struct cli_option list[N_OPTIONS];

    *asked = (struct sim_asked){.texts = {NULL}};
    for (size_t i = 0; i < N_OPTIONS; i++)
        list[i] = (struct cli_option){options[i].name, options[i].argument, &asked->texts[i],
                                      &asked->given[i]};
    int rest = options_read(command, list, N_OPTIONS, argc, argv);
    if (rest > 0)
        command_say(command, "unexpected argument '%s'; `tollgate help sim` says what it takes",
                    argv[1]);
    return rest == 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool say_range(const struct command *command, const struct sim_option *option,
                      const char *text, double value)
{
    const char *what = option->kind == OPTION_WHOLE ? "whole number" : "finite number";

    if (isfinite(value) && value > option->high)
        command_say(command, "%s is '%s'; it may be at most %.16g", option->name, text,
                    option->high);
    else if (option->flags & ABOVE && option->high >= MANY)
        command_say(command, "%s is '%s'; it must be a %s above %.10g", option->name, text, what,
                    option->low);
    else if (option->flags & ABOVE)
        command_say(command, "%s is '%s'; it must be a %s above %.10g and at most %.10g",
                    option->name, text, what, option->low, option->high);
    else if (option->high >= MANY)
        command_say(command, "%s is '%s'; it must be a %s from %.10g on", option->name, text, what,
                    option->low);
    else
        command_say(command, "%s is '%s'; it must be a %s from %.10g to %.10g", option->name, text,
                    what, option->low, option->high);
    return false;
}

static bool set_number(const struct command *command, const struct sim_option *option,
                       const char *text, void *to)
{
    char *end;

    /* strtod() also takes "0x10", "inf" and blanks. */
    double value = strtod(text, &end);
    bool good = text[0] != '\0' && strspn(text, "+-.0123456789eE") == strlen(text) &&
                *end == '\0' && isfinite(value) && value <= option->high &&
                (option->flags & ABOVE ? value > option->low : value >= option->low) &&
                (option->kind != OPTION_WHOLE || value == floor(value));
    if (!good)
        return say_range(command, option, text, value);
    if (option->kind == OPTION_WHOLE)
        *(int64_t *)to = (int64_t)value;
    else
        *(double *)to = value;
    return true;
}

static bool set_option(const struct command *command, const struct sim_option *option,
                       const char *text, struct sim_settings *settings)
{
    void *to = (char *)settings + option->offset;

    switch (option->kind) {
    case OPTION_TEXT:
        *(const char **)to = text;
        return true;
    case OPTION_REAL:
    case OPTION_WHOLE:
        return set_number(command, option, text, to);
    case OPTION_WORD:
        return option->set(command, option->name, text, settings);
    case OPTION_FLAG:
        *(bool *)to = true;
        return true;
    }
    return false;
}

static bool set_one(const struct command *command, const struct sim_asked *asked, size_t i,
                    struct sim_settings *settings)
{
    if (options[i].kind == OPTION_FLAG)
        return !asked->given[i] || set_option(command, &options[i], NULL, settings);
    return asked->texts[i] == NULL || set_option(command, &options[i], asked->texts[i], settings);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void set_defaults(struct sim_settings *settings)
{
    *settings = (struct sim_settings){
        .timeout_s = -1, .seed = -1, .max_retries = -1, .retry_backoff_ms = 1000};
    cluster_config_init(&settings->cluster);
    settings->cluster.flow.detector = CLUSTER_DETECT_NEVER;
    workload_preset("distribution", &settings->simple);
    settings->simple.rate_per_s = 1;
}

/* One thing by both of its names, which could differ. */
static bool said_twice(const struct command *command, const struct sim_asked *asked,
                       const char *name, const char *old)
{
    if (asked->texts[sim_option_find(name)] == NULL || asked->texts[sim_option_find(old)] == NULL)
        return false;
    command_say(command, "%s and %s are the same: give one of them", name, old);
    return true;
}

/* What is wrong only together. */
static bool check_all(const struct command *command, const struct sim_settings *settings)
{
    const struct workload_simple *simple = &settings->simple;

    if (settings->trace != NULL && settings->workload_spec != NULL)
        command_say(command, "the load comes from --trace or from --workload-spec, not both");
    else if (simple->prompt_min > simple->prompt_max)
        command_say(command, "--prompt-tokens-min is above --prompt-tokens-max");
    else if (simple->output_min > simple->output_max)
        command_say(command, "--output-tokens-min is above --output-tokens-max");
    else if (settings->cluster.admission == CLUSTER_GATE && settings->gate_config == NULL &&
             settings->compare == NULL)
        command_say(command, "--admission-policy gate needs -c FILE, a gate's configuration");
    else if (settings->cluster.admission != CLUSTER_GATE && settings->gate_config != NULL)
        command_say(command, "-c FILE is the configuration of --admission-policy gate");
    else if (settings->compare != NULL && settings->sweep != NULL)
        command_say(command, "--compare or --sweep, not both");
    else if (settings->results != NULL && (settings->compare != NULL || settings->sweep != NULL))
        command_say(command, "--results is of one run, not of a comparison or a sweep");
    else
        return true;
    return false;
}

/* What follows from several options. */
static void sim_settings_settle(struct sim_settings *settings)
{
    struct cluster_config *cluster = &settings->cluster;

    cluster->seed = settings->seed >= 0 ? (uint64_t)settings->seed : 42;
    if (settings->retry || settings->max_retries > 0)
        cluster->retry.max_attempts =
            1 + (int32_t)(settings->max_retries >= 0 ? settings->max_retries : 2);
    cluster->retry.backoff_us = (int64_t)(settings->retry_backoff_ms * 1000);
    /* Like in BLIS, the policy file has the default, and the reason of a refusal shows it. */
    if (cluster->admission == CLUSTER_TIER_SHED && !settings->tier_shed_by_file &&
        !settings->min_priority_given)
        cluster->tier_shed_min_priority = 0;
    if (cluster->flow.tick_us == 0)
        cluster->flow.tick_us = 1000;
}

bool sim_settings_make(const struct command *command, const struct sim_asked *asked,
                       struct sim_settings *settings)
{
    int bundle = sim_option_find("--policy-config"), preset = sim_option_find("--workload");
    struct tg_problem problem;

    set_defaults(settings);
    if (said_twice(command, asked, "--max-num-seqs", OLD_MAX_SEQS) ||
        said_twice(command, asked, "--max-num-batched-tokens", OLD_MAX_TOKENS))
        return false;
    if (asked->texts[bundle] != NULL && !sim_bundle_read(command, asked->texts[bundle], settings))
        return false;
    /* A preset first: single lengths change it. */
    if (!set_one(command, asked, (size_t)preset, settings))
        return false;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if ((int)i != preset && !set_one(command, asked, i, settings))
            return false;
    if (!check_all(command, settings))
        return false;
    sim_settings_settle(settings);
    if (settings->cluster.admission == CLUSTER_GATE ||
        cluster_config_check(&settings->cluster, &problem) == TG_OK)
        return true;
    command_say(command, "%s", problem.text);
    return false;
}

void sim_settings_fini(struct sim_settings *settings)
{
    arena_free(settings->arena);
    settings->arena = NULL;
}
