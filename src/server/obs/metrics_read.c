/* metrics_read.c - what other pages ask of the metrics. See metrics.h.
 *
 * Tenants are summed from the combinations of requests, a few thousand at most: for pages that are
 * asked for about once a second.
 */
#include <stdlib.h>
#include <string.h>

#include "server/obs/metrics_internal.h"

static uint64_t sum_requests(const struct metrics *metrics, uint32_t number)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < metrics->n_shards; i++)
        sum += counter_read(&metrics->shards[i]->requests[number]);
    return sum;
}

/* Whether a stage of admission says no in these words. */
static bool is_refusal(const char *reason)
{
#define IS(reply, name) || strcmp(reason, reply) == 0
    return reason != NULL && (false METRICS_REJECTIONS(IS));
#undef IS
}

static void add_requests(const struct metrics *metrics, struct metrics_tenant *by_number)
{
    for (uint32_t i = 0; i < metrics->requests.capacity; i++) {
        uint64_t key = series_key(&metrics->requests, i);
        struct request_labels is = request_unpack(key);
        if (key == 0)
            continue;
        uint64_t sum = sum_requests(metrics, i);
        by_number[is.tenant].requests += sum;
        if (is_refusal(names_text(&metrics->names[LABEL_REASON], is.reason)))
            by_number[is.tenant].refused += sum;
    }
}

static void add_uses(const struct metrics *metrics, struct metrics_tenant *by_number)
{
    for (uint32_t i = 0; i < metrics->uses.capacity; i++) {
        uint64_t key = series_key(&metrics->uses, i);
        struct metrics_tenant *tenant = &by_number[triple_at(key, 0)];
        for (size_t s = 0; key != 0 && s < metrics->n_shards; s++) {
            const struct use_counts *use = &metrics->shards[s]->uses[i];
            for (int k = 0; k < TOKENS_KINDS; k++)
                tenant->tokens += counter_read(&use->tokens[k]);
            tenant->micro_usd += counter_read(&use->micro);
        }
    }
}

size_t metrics_get_tenants(struct metrics *metrics, struct metrics_tenant *tenants, size_t room)
{
    uint32_t numbers = names_numbers(&metrics->names[LABEL_TENANT]);
    struct metrics_tenant *by_number = calloc(numbers, sizeof *by_number);
    size_t n = 0;

    if (by_number == NULL)
        return 0;
    add_requests(metrics, by_number);
    add_uses(metrics, by_number);
    for (uint32_t i = 0; i < numbers; i++) {
        by_number[i].name = names_text(&metrics->names[LABEL_TENANT], i);
        if (by_number[i].name == NULL || by_number[i].requests == 0)
            continue;
        if (n < room)
            tenants[n] = by_number[i];
        n++;
    }
    free(by_number);
    return n;
}

static void add_shadow(const struct metrics *metrics, const struct metrics_shard *shard,
                       uint64_t *would_deny)
{
    for (uint32_t i = 0; i < names_numbers(&metrics->names[LABEL_TENANT]); i++)
        for (int stage = 0; stage < REPORT_STAGES; stage++)
            would_deny[stage] += counter_read(&shard->tenants[i].shadow[stage]);
}

void metrics_get_totals(struct metrics *metrics, struct metrics_totals *totals)
{
    *totals = (struct metrics_totals){0};
    for (size_t s = 0; s < metrics->n_shards; s++) {
        const struct metrics_shard *shard = metrics->shards[s];
        totals->admitted += counter_read(&shard->admitted);
        for (int i = 0; i < METRICS_REJECTIONS_COUNT; i++)
            totals->rejected += counter_read(&shard->rejected[i]);
        add_shadow(metrics, shard, totals->would_deny);
    }
}

void metrics_each_peer(struct metrics *metrics, void (*fn)(void *context, const char *peer),
                       void *context)
{
    const struct names *names = &metrics->names[LABEL_PEER];

    for (uint32_t i = NAME_OTHER + 1; i < names_numbers(names); i++)
        if (names_text(names, i) != NULL)
            fn(context, names_text(names, i));
}
