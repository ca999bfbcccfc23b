/* me_spend.c - what a tenant has spent in the last 31 days, as its ledger says. See me_service.c.
 *
 * By day, by model and by key, each by itself: all together would be rows by the thousand. A day is
 * one of UTC, as in `tollgate spend`. The calls of the tenant's children are not its own; what they
 * have spent of its budgets is among the budgets.
 */
#include <string.h>
#include <time.h>

#include "lib/budget/money.h"
#include "lib/core/num.h"
#include "server/me/me_internal.h"

/* ---- adding up ---- */

static void add_sum(struct me_sum *to, const struct ledger_sum *sum)
{
    to->calls = num_add(to->calls, sum->calls);
    to->usage.input = num_add(to->usage.input, sum->usage.input);
    to->usage.cached_input = num_add(to->usage.cached_input, sum->usage.cached_input);
    to->usage.cache_write = num_add(to->usage.cache_write, sum->usage.cache_write);
    to->usage.output = num_add(to->usage.output, sum->usage.output);
    to->micro = money_add(to->micro, sum->micro);
    to->uncertain = money_add(to->uncertain, sum->uncertain);
}

static struct me_sum *me_row(struct me_sums *sums, const char *name, size_t bytes)
{
    bytes = bytes < LEDGER_NAME_MAX ? bytes : LEDGER_NAME_MAX;
    for (size_t i = 0; i < sums->n; i++)
        if (strlen(sums->rows[i].name) == bytes && memcmp(sums->rows[i].name, name, bytes) == 0)
            return &sums->rows[i];
    if (sums->n == ME_ROWS_MAX) {
        sums->has_rest = true;
        return &sums->rest;
    }
    struct me_sum *row = &sums->rows[sums->n++];
    if (bytes > 0)
        memcpy(row->name, name, bytes);
    return row;
}

struct me_reading {
    struct me_spend *spend;
    struct ledger *ledger;
};

static void read_sum(void *context, const struct ledger_sum *sum)
{
    const struct me_reading *reading = context;
    struct me_spend *spend = reading->spend;
    const char *key = ledger_tenant_key(reading->ledger, sum->tenant);
    int64_t day = (sum->day - spend->since) / ME_DAY_MS;

    if (sum->day < spend->since || day >= ME_DAYS)
        return;
    add_sum(&spend->days[day], sum);
    if (sum->day >= spend->month)
        add_sum(&spend->in_month, sum);
    add_sum(me_row(&spend->models, sum->model.bytes, sum->model.size), sum);
    if (key != NULL) /* calls of keys without a name are nobody's */
        add_sum(me_row(&spend->keys, key, strlen(key)), sum);
}

/* When the month of a time began, in UTC. */
static tg_ms month_of(tg_ms at)
{
    time_t seconds = (time_t)(at / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    return at - at % ME_DAY_MS - (tm.tm_mday - 1) * ME_DAY_MS;
}

void me_spend_read(struct me_spend *spend, struct ledger *ledger, const char *tenant, tg_ms now)
{
    struct me_reading reading = {spend, ledger};
    struct tg_problem problem;

    spend->until = now - now % ME_DAY_MS + ME_DAY_MS;
    spend->since = spend->until - ME_DAYS * ME_DAY_MS;
    spend->month = month_of(now);
    spend->failed = !ledger_tenant_scan(ledger, tenant, spend->since, spend->until, read_sum,
                                        &reading, &problem);
}

/* ---- JSON ---- */

static void write_sum(struct json_writer *out, const struct me_sum *sum)
{
    json_member_number(out, "calls", sum->calls);
    json_member_number(out, "input_tokens", sum->usage.input);
    json_member_number(out, "cached_input_tokens", sum->usage.cached_input);
    json_member_number(out, "cache_write_tokens", sum->usage.cache_write);
    json_member_number(out, "output_tokens", sum->usage.output);
    json_member_number(out, "micro_usd", sum->micro);
    json_member_number(out, "uncertain_micro_usd", sum->uncertain);
}

static void me_write_row(struct json_writer *out, const char *what, const char *name,
                         const struct me_sum *sum)
{
    json_write_object(out);
    json_member_text(out, what, name);
    write_sum(out, sum);
    json_write_object_end(out);
}

static void write_sums(struct json_writer *out, const char *list, const char *what,
                       const struct me_sums *sums)
{
    json_write_key(out, list);
    json_write_array(out);
    for (size_t i = 0; i < sums->n; i++)
        me_write_row(out, what, sums->rows[i].name, &sums->rows[i]);
    if (sums->has_rest)
        me_write_row(out, what, NULL, &sums->rest);
    json_write_array_end(out);
}

void me_spend_write(struct json_writer *out, const struct me_spend *spend)
{
    json_member_text(out, "scope", "gateway"); /* other gateways have ledgers of their own */
    json_member_number(out, "since", spend->since);
    json_member_number(out, "until", spend->until);
    json_write_key(out, "month");
    json_write_object(out);
    json_member_number(out, "since", spend->month);
    write_sum(out, &spend->in_month);
    json_write_object_end(out);
    json_write_key(out, "by_day");
    json_write_array(out);
    for (size_t i = 0; i < ME_DAYS; i++) {
        if (spend->days[i].calls == 0)
            continue;
        json_write_object(out);
        json_member_number(out, "day", spend->since + (tg_ms)i * ME_DAY_MS);
        write_sum(out, &spend->days[i]);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    write_sums(out, "by_model", "model", &spend->models);
    write_sums(out, "by_key", "key", &spend->keys);
}
