/* admin_credits.c - /api/v1/credits: uncertain money that is given back.
 *
 * What stands against a budget without a provider's word may never have been billed. Whoever knows
 * that from an invoice gives it back, with a reason; it holds at once and over a restart. Nothing
 * but what is uncertain can be given back: whoever wants a tenant to have more tops up its budget.
 */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/config/config_values.h"
#include "server/remote_store/remote_money.h"
#include "server/runtime/gateway.h"

#define USD_MAX INT64_C(1000000000)
#define DAY_MS INT64_C(86400000)

/* ---- what is asked ---- */

enum { TENANT, USER, USD, MICRO_USD, REASON, PER, DAY, MEMBERS };

static const struct admin_member credit_members[MEMBERS] = {
    {"tenant", JSON_STRING, true},     {"user", JSON_STRING, false},  {"usd", JSON_DOUBLE, false},
    {"micro_usd", JSON_DOUBLE, false}, {"reason", JSON_STRING, true}, {"per", JSON_STRING, false},
    {"day", JSON_STRING, false}};

static bool read_money(struct admin_call *call, const struct admin_value *values, tg_micro *micro)
{
    const struct admin_value *usd = &values[USD], *in_micro = &values[MICRO_USD];
    const struct admin_value *given = usd->given ? usd : in_micro;

    if (usd->given == in_micro->given) {
        admin_body_wrong(call, given->offset, "%s; give one of them",
                         usd->given ? "usd and micro_usd are given"
                                    : "usd or micro_usd is missing");
        return false;
    }
    if (!(usd->given ? value_usd(usd->text, micro) : value_count(in_micro->text, micro)) ||
        *micro < 1 || *micro > USD_MAX * 1000000) {
        admin_body_wrong(call, given->offset,
                         "%s is %.40s; it must be above 0 and at most %lld USD, exact to the "
                         "micro-dollar and without an exponent",
                         usd->given ? "usd" : "micro_usd", given->text, (long long)USD_MAX);
        return false;
    }
    return true;
}

/* Names that the ledger keeps whole. */
static bool read_name(struct admin_call *call, const struct admin_value *value, const char *name,
                      char to[LEDGER_NAME_MAX + 1])
{
    if (strlen(value->text) > LEDGER_NAME_MAX || (value->given && value->text[0] == '\0')) {
        admin_body_wrong(call, value->offset, "%s has %zu bytes; it must have 1 to %d", name,
                         strlen(value->text), LEDGER_NAME_MAX);
        return false;
    }
    memcpy(to, value->text, strlen(value->text) + 1);
    return true;
}

/* A UTC day, or the window of now of a kind of budget; by default the month. */
static bool read_window(struct admin_call *call, const struct admin_value *values,
                        struct ledger_credit *credit)
{
    const struct admin_value *day = &values[DAY], *per = &values[PER];
    struct gateway *gateway = call->admin->options.gateway;
    tg_ms now = spending_time(gateway->spending, admin_now(call->admin));
    char text[40];

    if (day->given && per->given) {
        admin_body_wrong(call, day->offset, "day and per are given; give one of them");
        return false;
    }
    if (day->given) {
        snprintf(text, sizeof text, "%.20sT00:00:00Z", day->text);
        if (strlen(day->text) != strlen("2026-01-31") || !value_time(text, &credit->since)) {
            admin_body_wrong(call, day->offset, "day is \"%.40s\"; it must be like 2026-01-31",
                             day->text);
            return false;
        }
        credit->until = credit->since + DAY_MS;
        return true;
    }
    for (int i = 0; i < TG_PER_COUNT; i++)
        if (strcmp(per->given ? per->text : "month", tg_per_name((enum tg_per)i)) == 0) {
            tg_window_of((enum tg_per)i, NULL, now, &credit->since, &credit->until);
            return true;
        }
    admin_body_wrong(call, per->offset, "per is \"%.40s\"; it must be day, week, month or total",
                     per->text);
    return false;
}

static bool read_reason(struct admin_call *call, const struct admin_value *reason,
                        char to[LEDGER_REASON_MAX + 1])
{
    size_t bytes = strlen(reason->text);

    if (bytes == 0 || bytes > LEDGER_REASON_MAX || strspn(reason->text, " \t") == bytes) {
        admin_body_wrong(call, reason->offset,
                         "reason has %zu bytes; it must say something, in at most %d", bytes,
                         LEDGER_REASON_MAX);
        return false;
    }
    memcpy(to, reason->text, bytes + 1);
    return true;
}

void admin_credits_make(struct admin_call *call)
{
    struct admin_value values[MEMBERS];
    struct ledger_credit credit = {0};

    if (!admin_body_read(call, credit_members, MEMBERS, values) ||
        !read_name(call, &values[TENANT], "tenant", credit.tenant) ||
        !read_name(call, &values[USER], "user", credit.user) ||
        !read_money(call, values, &credit.micro) ||
        !read_reason(call, &values[REASON], credit.reason) || !read_window(call, values, &credit))
        return;
    struct admin_change *change = admin_change_new(call, ADMIN_ADD_CREDIT);
    if (change == NULL)
        return;
    change->credit = credit;
    snprintf(change->tenant, sizeof change->tenant, "%.*s", ADMIN_NAME_MAX, credit.tenant);
    snprintf(change->credit.actor, sizeof change->credit.actor, "%s", change->who);
    admin_change_start(change);
}

void admin_credits_list(struct admin_call *call)
{
    char tenant[ADMIN_NAME_MAX + 1] = "";

    (void)admin_query_get(call->query, "tenant", tenant, sizeof tenant);
    struct admin_change *change = admin_change_new(call, ADMIN_LIST_CREDITS);
    if (change == NULL)
        return;
    snprintf(change->tenant, sizeof change->tenant, "%s", tenant);
    admin_change_start(change);
}

/* ---- by the thread ---- */

static void write_credit(void *context, const struct ledger_credit *credit)
{
    struct json_writer *out = context;

    json_write_object(out);
    json_member_number(out, "id", credit->id);
    json_member_number(out, "made_at", credit->made_at);
    json_member_text(out, "tenant", credit->tenant);
    json_member_text(out, "user", credit->user[0] != '\0' ? credit->user : NULL);
    json_member_number(out, "since", credit->since);
    json_member_unless(out, "until", credit->until, TG_NUMBER_MAX);
    json_member_number(out, "micro_usd", credit->micro);
    json_member_text(out, "reason", credit->reason);
    json_member_text(out, "actor", credit->actor);
    json_write_object_end(out);
}

static void list_credits(struct admin_change *change, struct ledger *ledger)
{
    const char *tenant = change->tenant[0] != '\0' ? change->tenant : NULL;
    struct tg_problem problem = {""};

    json_write_object(&change->reply);
    json_write_key(&change->reply, "credits");
    json_write_array(&change->reply);
    if (!ledger_credits_list(ledger, tenant, write_credit, &change->reply, &problem))
        admin_change_say(change, 503, "ledger", "%s", problem.text);
    json_write_array_end(&change->reply);
    json_write_object_end(&change->reply);
}

static void make_credit(struct admin_change *change, struct gateway *gateway)
{
    struct ledger_credit *credit = &change->credit;
    struct tg_problem problem = {""};
    tg_micro uncertain = 0;
    char text[640];

    credit->made_at = spending_time(gateway->spending, change->now);
    switch (spending_credit(gateway->spending, credit, &uncertain,
                            gateway->remote ? remote_money_lower : NULL,
                            gateway->remote ? gateway->remote->money : NULL, &problem)) {
    case LEDGER_CREDITED:
        json_write_object(&change->reply);
        json_write_key(&change->reply, "credit");
        write_credit(&change->reply, credit);
        json_member_number(&change->reply, "uncertain_micro_usd", uncertain - credit->micro);
        json_write_object_end(&change->reply);
        break;
    case LEDGER_CREDIT_TOO_MUCH:
        snprintf(text, sizeof text,
                 "of tenant \"%.200s\"%s%.200s, %lld.%06lld USD are uncertain in this window at "
                 "this gateway: not more can be credited",
                 credit->tenant, credit->user[0] != '\0' ? ", user " : "", credit->user,
                 (long long)(uncertain / 1000000), (long long)(uncertain % 1000000));
        admin_change_say(change, 409, "too_much", "%s", text);
        break;
    case LEDGER_CREDIT_FAILED:
        admin_change_say(change, 503, "ledger", "%s", problem.text);
        break;
    }
}

void admin_credit_store(struct admin_change *change)
{
    struct gateway *gateway = change->all->admin->options.gateway;

    if (gateway->ledger == NULL)
        admin_change_say(change, 503, "busy", "there is no ledger to keep it in");
    else if (change->kind == ADMIN_LIST_CREDITS)
        list_credits(change, gateway->ledger);
    else
        make_credit(change, gateway);
}
