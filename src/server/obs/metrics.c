/* metrics.c - counting requests. See metrics.h.
 *
 * The path of a request: one hash and one search for each name, one search for each combination,
 * then additions. About 100 ns (bench/bench_metrics.c). Every counter is an atomic that one thread
 * writes, by a load and a store: on this machine the same as a plain addition.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/obs/metrics_internal.h"
#include "server/obs/metrics_shapes.h"

enum { CACHE_LINE_BYTES = 64, REASONS = 64, FALLBACKS = 200, COARSE = 300 };

/* An absurd count must not spoil a sum for ever. */
#define TOKENS_MAX INT64_C(1000000000)

/* ---- making ---- */

void metrics_config_init(struct metrics_config *config)
{
    *config = (struct metrics_config){.tenants = 200,
                                      .models = 100,
                                      .providers = 50,
                                      .peers = 100,
                                      .limits = 200,
                                      .requests = 3000,
                                      .uses = 1000,
                                      .routes = 150};
}

static void *carve(char *block, size_t *used, size_t n, size_t size)
{
    char *at = block != NULL ? block + *used : NULL;

    *used += (n * size + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    return at;
}

/* Lays a shard out in a block; null: only says how large it has to be. */
static size_t metrics_lay_out(const struct metrics *metrics, char *block)
{
    struct metrics_shard none, *shard;
    uint32_t tenants = names_numbers(&metrics->names[LABEL_TENANT]);
    uint32_t models = names_numbers(&metrics->names[LABEL_MODEL]);
    size_t used = 0;

    shard = carve(block, &used, 1, sizeof *shard);
    if (shard == NULL)
        shard = &none;
    shard->requests = carve(block, &used, metrics->requests.capacity, sizeof(counter));
    shard->uses = carve(block, &used, metrics->uses.capacity, sizeof *shard->uses);
    shard->routes = carve(block, &used, metrics->routes.capacity, sizeof *shard->routes);
    shard->fallbacks = carve(block, &used, metrics->fallbacks.capacity, sizeof(counter));
    shard->limits = carve(block, &used, metrics->limits.capacity, sizeof(counter));
    shard->tenants = carve(block, &used, tenants, sizeof *shard->tenants);
    shard->models = carve(block, &used, models, sizeof *shard->models);
    return used;
}

static struct metrics_shard *shard_new(struct metrics *metrics)
{
    size_t size = metrics_lay_out(metrics, NULL);
    struct metrics_shard *shard = aligned_alloc(CACHE_LINE_BYTES, size);

    if (shard == NULL)
        return NULL;
    memset(shard, 0, size);
    metrics_lay_out(metrics, (char *)shard);
    shard->metrics = metrics;
    return shard;
}

static bool init_names(struct metrics *metrics, const struct metrics_config *config)
{
    const uint32_t all[LABEL_COUNT] = {
        [LABEL_TENANT] = config->tenants,     [LABEL_MODEL] = config->models,
        [LABEL_PROVIDER] = config->providers, [LABEL_PEER] = config->peers,
        [LABEL_LIMIT] = config->limits,       [LABEL_REASON] = REASONS};
    bool fine = true;

    /* Providers and reasons are few, and known to the configuration and to us. */
    for (int i = 0; i < LABEL_COUNT; i++) {
        bool few = i == LABEL_PROVIDER || i == LABEL_REASON;
        fine = names_init(&metrics->names[i], all[i], few ? 0 : all[i] / 4, config->seed) && fine;
    }
    return fine;
}

/* A refusal is then known by its number, and not compared with ten texts. */
static bool init_rejections(struct metrics *metrics)
{
#define REASON(reply, name) SLICE(reply),
    const struct slice reasons[] = {METRICS_REJECTIONS(REASON)};
#undef REASON
    struct names *names = &metrics->names[LABEL_REASON];
    bool fine = true;

    for (int i = 0; i < METRICS_REJECTIONS_COUNT; i++) {
        metrics->rejections[i] = names_add(names, reasons[i], names_hash(names, reasons[i]), false);
        fine = metrics->rejections[i] != NAME_OTHER && fine;
    }
    return fine;
}

/* What all that finds no place is counted under. It has a place from the start. */
static const struct request_labels ALL_OTHERS = {.tenant = NAME_OTHER,
                                                 .model = NAME_OTHER,
                                                 .provider = NAME_OTHER,
                                                 .code = CODE_CLASS_MAX + 1,
                                                 .reason = NAME_OTHER};

static bool init_series(struct metrics *metrics, const struct metrics_config *config)
{
    uint64_t others = triple_pack(NAME_OTHER, NAME_OTHER, NAME_OTHER);

    if (!series_init(&metrics->requests, config->requests, COARSE) ||
        !series_init(&metrics->uses, config->uses, COARSE) ||
        !series_init(&metrics->routes, config->routes, COARSE) ||
        !series_init(&metrics->fallbacks, FALLBACKS, 1) ||
        !series_init(&metrics->limits, 2 * config->limits, COARSE))
        return false;
    series_number(&metrics->requests, request_pack(ALL_OTHERS), true);
    series_number(&metrics->uses, others, true);
    series_number(&metrics->routes, others, true);
    series_number(&metrics->fallbacks, others, true);
    series_number(&metrics->limits, others, true);
    return true;
}

struct metrics *metrics_new(const struct metrics_config *config)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    bool fine = metrics != NULL && init_names(metrics, config) && init_rejections(metrics) &&
                init_series(metrics, config);

    if (fine)
        metrics->shards = calloc(config->shards, sizeof metrics->shards[0]);
    fine = fine && metrics->shards != NULL;
    for (size_t i = 0; fine && i < config->shards; i++) {
        metrics->shards[i] = shard_new(metrics);
        fine = metrics->shards[i] != NULL;
        metrics->n_shards += fine;
    }
    if (fine)
        return metrics;
    metrics_free(metrics);
    return NULL;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (size_t i = 0; i < metrics->n_shards; i++)
        free(metrics->shards[i]);
    free(metrics->shards);
    series_fini(&metrics->requests);
    series_fini(&metrics->uses);
    series_fini(&metrics->routes);
    series_fini(&metrics->fallbacks);
    series_fini(&metrics->limits);
    for (int i = 0; i < LABEL_COUNT; i++)
        names_fini(&metrics->names[i]);
    free(metrics);
}

struct metrics_shard *metrics_shard(struct metrics *metrics, size_t number)
{
    assert(number < metrics->n_shards);
    return metrics->shards[number];
}

/* ---- numbers ---- */

static uint32_t number_of(struct metrics_shard *shard, enum metrics_label label, struct slice name)
{
    struct names *names = &shard->metrics->names[label];
    uint64_t hash;
    int32_t found;

    if (name.n == 0)
        return NAME_NONE;
    hash = names_hash(names, name);
    found = names_find(names, name, hash);
    if (found != NAME_MISSING)
        return (uint32_t)found;
    uint32_t number = names_add(names, name, hash, false);
    if (number != NAME_OTHER || atomic_load_explicit(&names->heavy, memory_order_relaxed) <= 0 ||
        !heavy_add(&shard->heavy[label], hash))
        return number;
    return names_add(names, name, hash, true);
}

/* Codes that occur. Others are shown by their class, for an upstream can make up hundreds. */
static uint32_t code_number(int status)
{
    static const uint32_t known[5] = {
        /* by class: bits of the last two digits, as far as 31 */
        [1] = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 4 | 1u << 6 | 1u << 7,
        [2] = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 7 | 1u << 8,
        [3] = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 8 |
              1u << 9 | 1u << 10 | 1u << 11 | 1u << 12 | 1u << 13 | 1u << 14 | 1u << 15 | 1u << 21 |
              1u << 22 | 1u << 23 | 1u << 24 | 1u << 25 | 1u << 26 | 1u << 28 | 1u << 29 | 1u << 31,
        [4] = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 8 |
              1u << 20 | 1u << 22 | 1u << 29,
    };

    if (status < 100 || status > 599)
        return status == 0 ? 0 : CODE_CLASS_MAX + 1;
    uint32_t class = (uint32_t)status / 100, rest = (uint32_t)status % 100;
    if (rest < 32 && (known[class - 1] >> rest & 1))
        return (uint32_t)status;
    return class;
}

/* The finest number that is left for it. */
static uint32_t request_number(struct series *series, struct request_labels labels)
{
    int32_t number = series_number(series, request_pack(labels), false);

    if (number == SERIES_FULL) {
        labels.tenant = labels.tenant != NAME_NONE ? NAME_OTHER : NAME_NONE;
        labels.model = labels.model != NAME_NONE ? NAME_OTHER : NAME_NONE;
        labels.provider = labels.provider != NAME_NONE ? NAME_OTHER : NAME_NONE;
        number = series_number(series, request_pack(labels), true);
    }
    if (number == SERIES_FULL)
        number = series_number(series, request_pack(ALL_OTHERS), true);
    assert(number != SERIES_FULL); /* the last one has had a place from the start */
    return (uint32_t)number;
}

/* The number of a pair: when it finds no place, its first name becomes `other`, then both. */
static uint32_t pair_number(struct series *series, uint32_t first, uint32_t second)
{
    int32_t number = series_number(series, triple_pack(first, second, NAME_OTHER), false);

    if (number == SERIES_FULL)
        number = series_number(series, triple_pack(NAME_OTHER, second, NAME_OTHER), true);
    if (number == SERIES_FULL)
        number = series_number(series, triple_pack(NAME_OTHER, NAME_OTHER, NAME_OTHER), true);
    assert(number != SERIES_FULL);
    return (uint32_t)number;
}

/* ---- counting ---- */

void metrics_note_peer(struct metrics_shard *shard, struct slice peer)
{
    if (peer.n > 0)
        (void)number_of(shard, LABEL_PEER, peer);
}

void metrics_admitted(struct metrics_shard *shard, enum tg_priority priority, int64_t waited_ms)
{
    counter_add(&shard->admitted, 1);
    if (waited_ms >= 0 && (unsigned)priority < TG_PRIORITY_COUNT)
        histogram_add(&shard->waits[priority], &SHAPE_WAIT_MS, waited_ms);
}

void metrics_attempt(struct metrics_shard *shard, const struct metrics_attempt *attempt)
{
    uint32_t provider = number_of(shard, LABEL_PROVIDER, attempt->provider);
    uint32_t model = number_of(shard, LABEL_MODEL, attempt->model);
    struct route_counts *route =
        &shard->routes[pair_number(&shard->metrics->routes, provider, model)];

    if ((unsigned)attempt->outcome < METRICS_OUTCOMES)
        counter_add(&route->outcomes[attempt->outcome], 1);
    if (attempt->cause != HTTP_CAUSE_NONE)
        counter_add(&route->causes[attempt->cause], 1);
    if (attempt->ttfb_ms >= 0)
        histogram_add(&route->ttfb, &SHAPE_FIRST_BYTE, attempt->ttfb_ms);
}

static enum tg_priority metrics_priority_of(const char *name)
{
    for (int p = 0; name != NULL && p < TG_PRIORITY_COUNT; p++)
        if (strcmp(tg_priority_name((enum tg_priority)p), name) == 0)
            return (enum tg_priority)p;
    return TG_PRIORITY_COUNT;
}

/* Counts a request that never went upstream. The others were counted by metrics_admitted(). */
static void count_rejection(struct metrics_shard *shard, const struct report *report,
                            uint32_t reason)
{
    int rejection = 0;

    while (rejection < METRICS_REJECTIONS_COUNT && shard->metrics->rejections[rejection] != reason)
        rejection++;
    if (rejection == METRICS_REJECTIONS_COUNT)
        return;
    enum tg_priority priority = metrics_priority_of(report->priority);
    counter_add(&shard->rejected[rejection], 1);
    if (report->waited_ms >= 0 && priority < TG_PRIORITY_COUNT)
        histogram_add(&shard->waits[priority], &SHAPE_WAIT_MS, report->waited_ms);
}

static uint64_t clamp_tokens(int64_t tokens)
{
    return tokens < 0 ? 0 : tokens < TOKENS_MAX ? (uint64_t)tokens : (uint64_t)TOKENS_MAX;
}

static void count_estimate(struct model_counts *model, const struct report *report, uint64_t used)
{
    uint64_t estimated = clamp_tokens(report->estimated_input) + clamp_tokens(report->max_output);

    if (!report->usage_reported || report->estimated_input < 0 || estimated == 0)
        return;
    histogram_add(&model->ratio, &SHAPE_RATIO, (int64_t)(used * 1000 / estimated));
    counter_add(&model->estimated, estimated);
    counter_add(&model->off, used > estimated ? used - estimated : estimated - used);
}

static void count_use(struct metrics_shard *shard, const struct report *report, uint32_t tenant,
                      uint32_t model)
{
    struct use_counts *use = &shard->uses[pair_number(&shard->metrics->uses, tenant, model)];
    const uint64_t tokens[TOKENS_KINDS] = {
        [TOKENS_INPUT] = clamp_tokens(report->usage.input),
        [TOKENS_CACHED_INPUT] = clamp_tokens(report->usage.cached_input),
        [TOKENS_CACHE_WRITE] = clamp_tokens(report->usage.cache_write),
        [TOKENS_OUTPUT] = clamp_tokens(report->usage.output),
    };
    uint64_t used = 0;

    for (int i = 0; i < TOKENS_KINDS; i++) {
        counter_add(&use->tokens[i], tokens[i]);
        used += tokens[i];
    }
    counter_add(&use->reasoning, clamp_tokens(report->reasoning_tokens));
    if (report->spent > 0)
        counter_add(&use->micro, (uint64_t)report->spent);
    if (report->uncertain > 0)
        counter_add(&use->uncertain, (uint64_t)report->uncertain);
    count_estimate(&shard->models[model], report, used);
}

static void count_fallback(struct metrics_shard *shard, const struct report *report, uint32_t from,
                           uint32_t to)
{
    struct series *series = &shard->metrics->fallbacks;
    uint32_t why = number_of(shard, LABEL_REASON, slice_of(report->fallback_why));
    int32_t number = series_number(series, triple_pack(from, to, why), false);

    if (number == SERIES_FULL)
        number = series_number(series, triple_pack(NAME_OTHER, NAME_OTHER, NAME_OTHER), true);
    assert(number != SERIES_FULL);
    counter_add(&shard->fallbacks[number], 1);
}

void metrics_request(struct metrics_shard *shard, const struct report *report)
{
    struct slice asked = report->model.n > 0 ? report->model : report->model_served;
    struct request_labels labels = {
        .tenant = number_of(shard, LABEL_TENANT, report->tenant),
        .model = number_of(shard, LABEL_MODEL, asked),
        .provider = number_of(shard, LABEL_PROVIDER, report->provider),
        .code = code_number(report->status),
    };
    bool is_same = report->model_served.at == asked.at && report->model_served.n == asked.n;
    uint32_t served = is_same ? labels.model : number_of(shard, LABEL_MODEL, report->model_served);

    if (report->reason != NULL)
        labels.reason = number_of(shard, LABEL_REASON, slice_of(report->reason));
    counter_add(&shard->requests[request_number(&shard->metrics->requests, labels)], 1);
    if (report->attempts <= 0)
        count_rejection(shard, report, labels.reason);
    for (int i = 0; report->axis != NULL && i < TG_AXIS_COUNT; i++)
        if (strcmp(tg_axis_name((enum tg_axis)i), report->axis) == 0)
            counter_add(&shard->axes[i], 1);
    for (int i = 0; report->would_deny != 0 && i < REPORT_STAGES; i++)
        if (report->would_deny & REPORT_WOULD(i))
            counter_add(&shard->tenants[labels.tenant].shadow[i], 1);
    if (report->limit_group.n > 0)
        counter_add(&shard->limits[pair_number(&shard->metrics->limits,
                                               number_of(shard, LABEL_LIMIT, report->limit_group),
                                               labels.reason)],
                    1);
    if (report->client_retry)
        counter_add(&shard->tenants[labels.tenant].client_retries, 1);
    if (report->fallback_why != NULL)
        count_fallback(shard, report, labels.model, served);
    if (report->overhead_us >= 0)
        histogram_add(&shard->overhead, &SHAPE_OVERHEAD, report->overhead_us);
    if (report->ttfb_ms >= 0)
        histogram_add(&shard->models[served].ttft, &SHAPE_FIRST_BYTE, report->ttfb_ms);
    if (report->has_usage)
        count_use(shard, report, labels.tenant, served);
    if (report->peer.n > 0 && !slice_equal(report->peer, report->tenant))
        (void)number_of(shard, LABEL_PEER, report->peer);
}
