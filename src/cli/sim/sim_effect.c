/* sim_effect.c - options of `tollgate sim` that have no effect on the run that is asked for.
 *
 * Whoever gives an option wants to see what it does. A run that looks as if it did nothing, because
 * another option keeps it from being read, answers a question that was not asked, so it is refused.
 * Each row of the table names an option and a function that says what is in its way.
 */
#include "cli/sim/sim_effect.h"

#include <string.h>

/* Says why an option has no effect with these settings; null: it has. */
typedef const char *useless(const struct sim_settings *settings);

static const char *load_is_a_file(const struct sim_settings *settings)
{
    if (settings->trace != NULL)
        return "the requests are those of --trace";
    return settings->workload_spec != NULL ? "the requests are those of --workload-spec" : NULL;
}

static const char *memory_is_given(const struct sim_settings *settings)
{
    return settings->cluster.kv_blocks > 0 ? "--total-kv-blocks says how much room there is" : NULL;
}

/* ---- Admission ---- */

static const char *is_no_policy(const struct sim_settings *settings)
{
    return settings->cluster.flow.on ? "--flow-control takes the place of a policy" : NULL;
}

static const char *is_no_bucket(const struct sim_settings *settings)
{
    if (settings->cluster.flow.on)
        return is_no_policy(settings);
    return settings->cluster.admission != CLUSTER_TOKEN_BUCKET
               ? "it is for --admission-policy token-bucket"
               : NULL;
}

static const char *is_no_gate(const struct sim_settings *settings)
{
    if (settings->cluster.flow.on)
        return is_no_policy(settings);
    return settings->cluster.admission != CLUSTER_GATE ? "it is for --admission-policy gate" : NULL;
}

static const char *nobody_is_refused(const struct sim_settings *settings)
{
    const struct cluster_config *cluster = &settings->cluster;

    if (settings->n_budgets > 0)
        return NULL;
    if (cluster->flow.on)
        return cluster->flow.max_depth == 0 && cluster->flow.band_capacity == 0
                   ? "a queue without --max-gateway-queue-depth or --per-band-capacity refuses "
                     "nobody"
                   : NULL;
    return cluster->admission == CLUSTER_ALWAYS_ADMIT ? "always-admit refuses nobody" : NULL;
}

static const char *nobody_retries(const struct sim_settings *settings)
{
    return settings->cluster.retry.max_attempts <= 1 ? "it is for --retry" : NULL;
}

/* ---- The gateway queue ---- */

static const char *is_no_queue(const struct sim_settings *settings)
{
    return !settings->cluster.flow.on ? "it is for --flow-control" : NULL;
}

static const char *is_not_utilization(const struct sim_settings *settings)
{
    if (settings->cluster.flow.on && settings->cluster.flow.detector != CLUSTER_DETECT_UTILIZATION)
        return "it is for --saturation-detector utilization";
    return is_no_queue(settings);
}

static const char *is_not_concurrency(const struct sim_settings *settings)
{
    if (settings->cluster.flow.on && settings->cluster.flow.detector != CLUSTER_DETECT_CONCURRENCY)
        return "it is for --saturation-detector concurrency";
    return is_no_queue(settings);
}

static const char *queue_is_never_full(const struct sim_settings *settings)
{
    if (settings->cluster.flow.on && settings->cluster.flow.max_depth == 0)
        return "a queue is full with --max-gateway-queue-depth";
    return is_no_queue(settings);
}

static const char *is_not_by_deadline(const struct sim_settings *settings)
{
    if (settings->cluster.flow.on &&
        settings->cluster.flow.dispatch != CLUSTER_DISPATCH_SLO_DEADLINE)
        return "it is for --dispatch-order slo-deadline";
    return is_no_queue(settings);
}

/* ---- Routing ---- */

static const char *is_not_weighted(const struct sim_settings *settings)
{
    return settings->cluster.routing != CLUSTER_WEIGHTED ? "it is for --routing-policy weighted"
                                                         : NULL;
}

static const char *nobody_reads_signals(const struct sim_settings *settings)
{
    const struct cluster_config *cluster = &settings->cluster;
    bool admission = cluster->flow.on ? cluster->flow.detector == CLUSTER_DETECT_UTILIZATION
                                      : cluster->admission == CLUSTER_TIER_SHED ||
                                            cluster->admission == CLUSTER_GAIE_LEGACY;

    return cluster->routing == CLUSTER_ROUND_ROBIN && !admission
               ? "round-robin and this admission look at no instance"
               : NULL;
}

static const char *nobody_scores_prefixes(const struct sim_settings *settings)
{
    const struct cluster_config *cluster = &settings->cluster;

    if (cluster->routing != CLUSTER_WEIGHTED)
        return is_not_weighted(settings);
    for (size_t i = 0; i < cluster->n_weights; i++)
        if (cluster->weights[i].scorer == CLUSTER_SCORE_PRECISE_PREFIX_CACHE)
            return NULL;
    return "it is for the scorer precise-prefix-cache";
}

static const struct {
    const char *option;
    useless *why;
} effects[] = {
    {"--workload", load_is_a_file},
    {"--rate", load_is_a_file},
    {"--prompt-tokens", load_is_a_file},
    {"--prompt-tokens-stdev", load_is_a_file},
    {"--prompt-tokens-min", load_is_a_file},
    {"--prompt-tokens-max", load_is_a_file},
    {"--output-tokens", load_is_a_file},
    {"--output-tokens-stdev", load_is_a_file},
    {"--output-tokens-min", load_is_a_file},
    {"--output-tokens-max", load_is_a_file},
    {"--prefix-tokens", load_is_a_file},
    {"--gpu-memory-utilization", memory_is_given},
    {"--admission-policy", is_no_policy},
    {"-c", is_no_policy},
    {"--token-bucket-capacity", is_no_bucket},
    {"--token-bucket-refill-rate", is_no_bucket},
    {"--law-sample", is_no_gate},
    {"--retry", nobody_is_refused},
    {"--max-retries", nobody_is_refused},
    {"--retry-backoff", nobody_retries},
    {"--retry-jitter", nobody_retries},
    {"--saturation-detector", is_no_queue},
    {"--queue-depth-threshold", is_not_utilization},
    {"--kv-cache-util-threshold", is_not_utilization},
    {"--max-concurrency", is_not_concurrency},
    {"--max-gateway-queue-depth", is_no_queue},
    {"--per-band-capacity", is_no_queue},
    {"--queue-shedding", queue_is_never_full},
    {"--request-ttl", is_no_queue},
    {"--dispatch-tick-interval", is_no_queue},
    {"--in-flight-eviction", is_no_queue},
    {"--usage-limit-threshold", is_no_queue},
    {"--dispatch-order", is_no_queue},
    {"--fairness-policy", is_no_queue},
    {"--slo-targets", is_not_by_deadline},
    {"--routing-scorers", is_not_weighted},
    {"--snapshot-refresh-interval", nobody_reads_signals},
    {"--cache-signal-delay", nobody_scores_prefixes},
};

#define N_EFFECTS (sizeof effects / sizeof effects[0])

_Static_assert(N_EFFECTS <= SIM_EFFECTS_MAX, "struct sim_effects is too small");

void sim_effects_collect(struct sim_effects *all, const struct sim_asked *asked,
                         const struct sim_settings *settings)
{
    for (size_t i = 0; i < N_EFFECTS; i++) {
        int option = sim_option_find(effects[i].option);
        if (asked->texts[option] == NULL && !asked->given[option])
            continue;
        const char *why = effects[i].why(settings);
        if (why == NULL)
            all->some[i] = true;
        else if (all->why[i] == NULL)
            all->why[i] = why;
    }
}

bool sim_effects_check(const struct sim_effects *all, const struct command *command)
{
    for (size_t i = 0; i < N_EFFECTS; i++)
        if (all->why[i] != NULL && !all->some[i]) {
            command_say(command, "%s has no effect here: %s", effects[i].option, all->why[i]);
            return false;
        }
    return true;
}

/* ---- What only the load shows ---------------------------------------------------------------- */

static bool is_in_load(const struct workload *workload, size_t class)
{
    for (size_t i = 0; i < workload->load.n; i++)
        if (workload->load.requests[i].slo_class == class)
            return true;
    return false;
}

/* The option that has set a time of the class; null: none. */
static const char *option_of(const struct cluster_class *class)
{
    return class->good_ttft_us > 0    ? "--slo-ttft"
           : class->good_itl_us > 0   ? "--slo-itl"
           : class->good_e2e_us > 0   ? "--slo-e2e"
           : class->slo_target_us > 0 ? "--slo-targets"
                                      : NULL;
}

bool sim_classes_check(const struct command *command, const struct cluster_config *config,
                       const struct workload *workload)
{
    for (size_t i = 0; i < config->n_classes; i++) {
        const char *option = option_of(&config->classes[i]);
        if (option != NULL && !is_in_load(workload, i)) {
            command_say(command, "%s has no effect here: no request is of the class '%s'", option,
                        config->classes[i].name);
            return false;
        }
    }
    return true;
}
