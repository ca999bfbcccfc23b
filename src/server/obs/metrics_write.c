/* metrics_write.c - what was counted, added up over the shards: for the page of metrics, and for
 * others. See metrics.h.
 *
 * A page walks over the names and combinations that have a number, which are bounded: so it is
 * bounded in length and in time, whatever came. Combinations that were never counted have no line;
 * what has no labels, or a fixed set of them, always has its lines, so that a rate over them begins
 * at 0.
 *
 * A shard is one block that is laid out as every other: an offset into the first finds the counter
 * in all of them.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/obs/metrics_internal.h"
#include "server/obs/metrics_shapes.h"

/* ---- adding up ---- */

static const char *in_shard(const struct metrics *metrics, size_t shard, const void *of_first)
{
    ptrdiff_t offset = (const char *)of_first - (const char *)metrics->shards[0];

    assert(offset >= 0 && shard < metrics->n_shards);
    return (const char *)metrics->shards[shard] + offset;
}

static uint64_t sum_of(const struct metrics *metrics, const counter *of_first)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < metrics->n_shards; i++)
        sum += counter_read((const counter *)in_shard(metrics, i, of_first));
    return sum;
}

/* Returns how many values there are. */
static uint64_t total_of(const struct metrics *metrics, const struct histogram *of_first,
                         struct histogram_total *total)
{
    uint64_t n = 0;

    *total = (struct histogram_total){.sum = 0};
    for (size_t i = 0; i < metrics->n_shards; i++)
        histogram_read((const struct histogram *)in_shard(metrics, i, of_first), total);
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS_MAX; i++)
        n += total->counts[i];
    return n;
}

static const char *name_of(const struct metrics *metrics, enum metrics_label label, uint32_t number)
{
    return names_text(&metrics->names[label], number);
}

/* One line of a counter, if it was ever counted. */
static void line_of(const struct metrics *metrics, struct exposition *text,
                    const struct expose_labels *labels, const counter *of_first, int64_t scale)
{
    uint64_t sum = sum_of(metrics, of_first);

    if (sum > 0)
        expose_decimal(text, labels, sum, scale);
}

/* ---- admission, in the words of its metrics ---- */

static void write_admission(const struct metrics *metrics, struct exposition *text)
{
#define REASON(reply, name) name,
    static const char *const reasons[] = {METRICS_REJECTIONS(REASON)};
#undef REASON
    const struct metrics_shard *first = metrics->shards[0];
    uint64_t rejected[METRICS_REJECTIONS_COUNT], all = 0;

    for (int i = 0; i < METRICS_REJECTIONS_COUNT; i++)
        all += rejected[i] = sum_of(metrics, &first->rejected[i]);
    expose_begin(text, "admission_total", "counter",
                 "Requests that were admitted, and that a stage of admission refused.");
    expose_decimal(text, &(struct expose_labels){{{"result", "admitted"}}},
                   sum_of(metrics, &first->admitted), 1);
    expose_decimal(text, &(struct expose_labels){{{"result", "rejected"}}}, all, 1);
    expose_begin(text, "admission_rejected_reason", "counter", "Refused requests, by reason.");
    for (int i = 0; i < METRICS_REJECTIONS_COUNT; i++)
        expose_decimal(text, &(struct expose_labels){{{"reason", reasons[i]}}}, rejected[i], 1);
    expose_begin(text, "tollgate_denied_by_axis_total", "counter",
                 "Refused requests, by the axis that was binding.");
    for (int i = 0; i < TG_AXIS_COUNT; i++)
        expose_decimal(text, &(struct expose_labels){{{"axis", tg_axis_name((enum tg_axis)i)}}},
                       sum_of(metrics, &first->axes[i]), 1);
}

static void write_waits(const struct metrics *metrics, struct exposition *text, const char *name,
                        const char *help, const struct histogram_shape *shape)
{
    struct histogram_total total;

    expose_begin(text, name, "histogram", help);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++) {
        total_of(metrics, &metrics->shards[0]->waits[p], &total);
        expose_histogram(
            text, &(struct expose_labels){{{"priority", tg_priority_name((enum tg_priority)p)}}},
            shape, &total);
    }
}

static void write_times(const struct metrics *metrics, struct exposition *text)
{
    struct histogram_total total;

    write_waits(metrics, text, "admission_queue_wait_ms", "Time waiting for a slot, in ms.",
                &SHAPE_WAIT_MS);
    write_waits(metrics, text, "tollgate_queue_wait_seconds", "Time waiting for a slot.",
                &SHAPE_WAIT_SECONDS);
    expose_begin(
        text, "tollgate_overhead_seconds", "histogram",
        "Our own time from the end of a body to the first byte upstream, without waiting.");
    total_of(metrics, &metrics->shards[0]->overhead, &total);
    expose_histogram(text, NULL, &SHAPE_OVERHEAD, &total);
}

/* ---- requests ---- */

static const char *code_text(uint32_t code, char text[16])
{
    if (code == 0)
        return "none";
    if (code > CODE_CLASS_MAX && code < 100)
        return "other";
    snprintf(text, 16, code > CODE_CLASS_MAX ? "%u" : "%uxx", (unsigned)code);
    return text;
}

static void write_requests(const struct metrics *metrics, struct exposition *text)
{
    expose_begin(text, "tollgate_requests_total", "counter", "Requests that have ended.");
    for (uint32_t at = 0, i; series_next(&metrics->requests, &at, &i);) {
        struct request_labels is = request_unpack(series_key(&metrics->requests, i));
        const char *reason = name_of(metrics, LABEL_REASON, is.reason);
        char code[16];
        struct expose_labels labels = {{{"tenant", name_of(metrics, LABEL_TENANT, is.tenant)},
                                        {"model", name_of(metrics, LABEL_MODEL, is.model)},
                                        {"provider", name_of(metrics, LABEL_PROVIDER, is.provider)},
                                        {"code", code_text(is.code, code)},
                                        {"reason", reason != NULL ? reason : "none"}}};
        line_of(metrics, text, &labels, &metrics->shards[0]->requests[i], 1);
    }
}

static void write_limits(const struct metrics *metrics, struct exposition *text)
{
    expose_begin(text, "tollgate_denied_by_limit_total", "counter",
                 "Refused requests, by whose limit refused them.");
    for (uint32_t at = 0, i; series_next(&metrics->limits, &at, &i);) {
        uint64_t key = series_key(&metrics->limits, i);
        struct expose_labels labels = {
            {{"limit_of", name_of(metrics, LABEL_LIMIT, triple_at(key, 0))},
             {"reason", name_of(metrics, LABEL_REASON, triple_at(key, 1))}}};
        line_of(metrics, text, &labels, &metrics->shards[0]->limits[i], 1);
    }
}

static void write_fallbacks(const struct metrics *metrics, struct exposition *text)
{
    expose_begin(text, "tollgate_fallback_total", "counter",
                 "Requests that another model than the one asked for has served.");
    for (uint32_t at = 0, i; series_next(&metrics->fallbacks, &at, &i);) {
        uint64_t key = series_key(&metrics->fallbacks, i);
        struct expose_labels labels = {
            {{"from", name_of(metrics, LABEL_MODEL, triple_at(key, 0))},
             {"to", name_of(metrics, LABEL_MODEL, triple_at(key, 1))},
             {"why", name_of(metrics, LABEL_REASON, triple_at(key, 2))}}};
        line_of(metrics, text, &labels, &metrics->shards[0]->fallbacks[i], 1);
    }
}

/* ---- by tenant ---- */

static void write_tenants(const struct metrics *metrics, struct exposition *text)
{
    const struct tenant_counts *tenants = metrics->shards[0]->tenants;
    const struct names *names = &metrics->names[LABEL_TENANT];

    expose_begin(text, "tollgate_shadow_denied_total", "counter",
                 "Requests that a limit in shadow would have refused.");
    for (uint32_t at = 0, i; names_next(names, &at, &i);)
        for (int stage = 0; stage < REPORT_STAGES; stage++)
            line_of(
                metrics, text,
                &(struct expose_labels){{{"tenant", name_of(metrics, LABEL_TENANT, i)},
                                         {"reason", report_stage_name((enum report_stage)stage)}}},
                &tenants[i].shadow[stage], 1);
    expose_begin(text, "tollgate_client_retries_total", "counter",
                 "Requests that said they were a retry of the client's own.");
    for (uint32_t at = 0, i; names_next(names, &at, &i);)
        line_of(metrics, text,
                &(struct expose_labels){{{"tenant", name_of(metrics, LABEL_TENANT, i)}}},
                &tenants[i].client_retries, 1);
}

/* What was used, of one kind; `scale` is that of the counter. */
static void write_kind(const struct metrics *metrics, struct exposition *text, const char *kind,
                       size_t offset, int64_t scale)
{
    for (uint32_t at = 0, i; series_next(&metrics->uses, &at, &i);) {
        uint64_t key = series_key(&metrics->uses, i);
        struct expose_labels labels = {
            {{"tenant", name_of(metrics, LABEL_TENANT, triple_at(key, 0))},
             {"model", name_of(metrics, LABEL_MODEL, triple_at(key, 1))},
             {"kind", kind}}};
        const char *use = (const char *)&metrics->shards[0]->uses[i];
        line_of(metrics, text, &labels, (const counter *)(use + offset), scale);
    }
}

static void write_uses(const struct metrics *metrics, struct exposition *text)
{
    static const char *const kinds[TOKENS_KINDS] = {[TOKENS_INPUT] = "input",
                                                    [TOKENS_CACHED_INPUT] = "cached_input",
                                                    [TOKENS_CACHE_WRITE] = "cache_write",
                                                    [TOKENS_OUTPUT] = "output"};

    expose_begin(text, "tollgate_tokens_total", "counter",
                 "Tokens of requests that have ended. The kinds exclude each other.");
    for (int i = 0; i < TOKENS_KINDS; i++)
        write_kind(metrics, text, kinds[i],
                   offsetof(struct use_counts, tokens) + (size_t)i * sizeof(counter), 1);
    expose_begin(text, "tollgate_reasoning_tokens_total", "counter",
                 "The part of the output tokens that was thought and not shown.");
    write_kind(metrics, text, NULL, offsetof(struct use_counts, reasoning), 1);
    expose_begin(text, "tollgate_spend_usd_total", "counter",
                 "What requests that have ended cost, in dollars.");
    write_kind(metrics, text, NULL, offsetof(struct use_counts, micro), 1000000);
    expose_begin(text, "tollgate_uncertain_usd_total", "counter",
                 "What they may have cost besides, without a provider's word, in dollars.");
    write_kind(metrics, text, NULL, offsetof(struct use_counts, uncertain), 1000000);
}

/* ---- by model ---- */

static void write_models(const struct metrics *metrics, struct exposition *text)
{
    const struct model_counts *models = metrics->shards[0]->models;
    const struct names *names = &metrics->names[LABEL_MODEL];
    struct histogram_total total;

    expose_begin(text, "tollgate_ttft_seconds", "histogram",
                 "From the head of a request to the first byte of its reply's body.");
    for (uint32_t at = 0, i; names_next(names, &at, &i);)
        if (total_of(metrics, &models[i].ttft, &total) > 0)
            expose_histogram(text,
                             &(struct expose_labels){{{"model", name_of(metrics, LABEL_MODEL, i)}}},
                             &SHAPE_FIRST_BYTE, &total);
    expose_begin(text, "tollgate_estimate_ratio", "histogram",
                 "Tokens used to tokens estimated, of requests whose usage was reported.");
    for (uint32_t at = 0, i; names_next(names, &at, &i);)
        if (total_of(metrics, &models[i].ratio, &total) > 0)
            expose_histogram(text,
                             &(struct expose_labels){{{"model", name_of(metrics, LABEL_MODEL, i)}}},
                             &SHAPE_RATIO, &total);
    expose_begin(text, "tollgate_estimate_error_ratio", "gauge",
                 "Tokens by which estimates were off, to tokens estimated, since the start.");
    for (uint32_t at = 0, i; names_next(names, &at, &i);) {
        uint64_t estimated = sum_of(metrics, &models[i].estimated);
        if (estimated > 0)
            expose_real(text,
                        &(struct expose_labels){{{"model", name_of(metrics, LABEL_MODEL, i)}}},
                        (double)sum_of(metrics, &models[i].off) / (double)estimated);
    }
}

static struct expose_labels route_labels(const struct metrics *metrics, uint64_t key,
                                         const char *class)
{
    return (struct expose_labels){
        {{"provider", name_of(metrics, LABEL_PROVIDER, triple_at(key, 0))},
         {"model", name_of(metrics, LABEL_MODEL, triple_at(key, 1))},
         {"class", class}}};
}

static void write_routes(const struct metrics *metrics, struct exposition *text)
{
    static const char *const outcomes[METRICS_OUTCOMES] = {[TG_KEY_OK] = "ok",
                                                           [TG_KEY_LIMITED] = "limited",
                                                           [TG_KEY_FAILED] = "failed",
                                                           [TG_KEY_REFUSED] = "refused",
                                                           [TG_KEY_REJECTED] = "rejected",
                                                           [TG_KEY_CANCELLED] = "cancelled"};
    const struct route_counts *routes = metrics->shards[0]->routes;
    struct histogram_total total;

    expose_begin(text, "tollgate_upstream_total", "counter",
                 "Attempts at providers, by how they ended.");
    for (uint32_t at = 0, i; series_next(&metrics->routes, &at, &i);) {
        uint64_t key = series_key(&metrics->routes, i);
        for (int outcome = 0; outcome < METRICS_OUTCOMES; outcome++) {
            struct expose_labels labels = route_labels(metrics, key, outcomes[outcome]);
            line_of(metrics, text, &labels, &routes[i].outcomes[outcome], 1);
        }
    }
    expose_begin(text, "tollgate_upstream_failures_total", "counter",
                 "Attempts whose connection to the provider failed, by the cause.");
    for (uint32_t at = 0, i; series_next(&metrics->routes, &at, &i);)
        for (int cause = HTTP_CAUSE_NONE + 1; cause < HTTP_CAUSES; cause++) {
            struct expose_labels labels = route_labels(metrics, series_key(&metrics->routes, i),
                                                       http_cause_name((enum http_cause)cause));
            labels.list[2].name = "cause";
            line_of(metrics, text, &labels, &routes[i].causes[cause], 1);
        }
    expose_begin(text, "tollgate_upstream_ttfb_seconds", "histogram",
                 "From the beginning of an attempt to the first byte of its reply.");
    for (uint32_t at = 0, i; series_next(&metrics->routes, &at, &i);) {
        uint64_t key = series_key(&metrics->routes, i);
        struct expose_labels labels = route_labels(metrics, key, NULL);
        if (total_of(metrics, &routes[i].ttfb, &total) > 0)
            expose_histogram(text, &labels, &SHAPE_FIRST_BYTE, &total);
    }
}

void metrics_write(struct metrics *metrics, struct exposition *text)
{
    write_admission(metrics, text);
    write_times(metrics, text);
    write_requests(metrics, text);
    write_limits(metrics, text);
    write_fallbacks(metrics, text);
    write_tenants(metrics, text);
    write_uses(metrics, text);
    write_models(metrics, text);
    write_routes(metrics, text);
}

/* ---- for other pages ---- */

/* Whether a stage of admission says no in these words. */
static bool is_refusal(const char *reason)
{
#define IS(reply, name) || strcmp(reason, reply) == 0
    return reason != NULL && (false METRICS_REJECTIONS(IS));
#undef IS
}

/* Tenants are summed from the combinations of requests, a few thousand at most: for pages that are
 * asked for about once a second. */
size_t metrics_get_tenants(struct metrics *metrics, struct metrics_tenant *tenants, size_t room)
{
    const struct names *names = &metrics->names[LABEL_TENANT];
    struct metrics_tenant *by_number = calloc(names_numbers(names), sizeof *by_number);
    const struct metrics_shard *first = metrics->shards[0];
    size_t n = 0;

    if (by_number == NULL)
        return 0;
    for (uint32_t at = 0, i; series_next(&metrics->requests, &at, &i);) {
        struct request_labels is = request_unpack(series_key(&metrics->requests, i));
        uint64_t sum = sum_of(metrics, &first->requests[i]);
        by_number[is.tenant].requests += sum;
        if (is_refusal(name_of(metrics, LABEL_REASON, is.reason)))
            by_number[is.tenant].refused += sum;
    }
    for (uint32_t at = 0, i; series_next(&metrics->uses, &at, &i);) {
        struct metrics_tenant *tenant = &by_number[triple_at(series_key(&metrics->uses, i), 0)];
        for (int k = 0; k < TOKENS_KINDS; k++)
            tenant->tokens += sum_of(metrics, &first->uses[i].tokens[k]);
        tenant->micro_usd += sum_of(metrics, &first->uses[i].micro);
    }
    for (uint32_t at = 0, i; names_next(names, &at, &i);) {
        by_number[i].name = names_text(names, i);
        assert(by_number[i].refused <= by_number[i].requests);
        if (by_number[i].name == NULL || by_number[i].requests == 0)
            continue;
        if (n < room)
            tenants[n] = by_number[i];
        n++;
    }
    free(by_number);
    return n;
}

void metrics_get_totals(struct metrics *metrics, struct metrics_totals *totals)
{
    const struct metrics_shard *first = metrics->shards[0];

    *totals = (struct metrics_totals){.admitted = sum_of(metrics, &first->admitted)};
    for (int i = 0; i < METRICS_REJECTIONS_COUNT; i++)
        totals->rejected += sum_of(metrics, &first->rejected[i]);
    for (uint32_t at = 0, i; names_next(&metrics->names[LABEL_TENANT], &at, &i);)
        for (int stage = 0; stage < REPORT_STAGES; stage++)
            totals->would_deny[stage] += sum_of(metrics, &first->tenants[i].shadow[stage]);
}

void metrics_each_peer(struct metrics *metrics, void (*fn)(void *context, const char *peer),
                       void *context)
{
    const struct names *names = &metrics->names[LABEL_PEER];

    for (uint32_t at = NAME_OTHER + 1, i; names_next(names, &at, &i);)
        fn(context, names_text(names, i));
}
