/* test_me_spend.c - what a tenant is told of its spend: days, this month, models and keys. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/me/me_internal.h"

#define NOW INT64_C(1790000000000) /* 2026-09-21T14:13:20Z */
#define TODAY (NOW - NOW % ME_DAY_MS)

static struct ledger *ledger;
static uint32_t tenant, key, other;
static struct me_spend spend;

static struct ledger_text text(const char *of)
{
    return (struct ledger_text){of, strlen(of)};
}

static uint32_t number(const char *name, const char *key_name, uint32_t under)
{
    struct ledger_tenant_spec spec = {
        .name = name, .parent = LEDGER_NO_PARENT, .under = under, .key = key_name};
    struct tg_problem problem;

    assert_true(ledger_add_tenants(ledger, &spec, 1, &problem));
    return spec.number;
}

static void open_ledger(void)
{
    struct ledger_config config;
    struct tg_problem problem;

    ledger_config_init(&config);
    config.path = ":memory:";
    assert_true(ledger_open(&config, &ledger, &problem));
    tenant = number("a", NULL, 0);
    key = number("a", "ci", tenant);
    other = number("b", NULL, tenant);
}

static void close_ledger(void)
{
    struct tg_problem problem;

    assert_true(ledger_close(ledger, &problem));
}

static void add(uint32_t whose, const char *model, tg_ms at, tg_micro micro)
{
    struct tg_problem problem;
    const struct ledger_entry entry = {.reserved_at = at,
                                       .settled_at = at,
                                       .tenant = whose,
                                       .usage = {.input = 3, .output = 5},
                                       .micro = micro,
                                       .uncertain = 1,
                                       .model = text(model)};

    assert_true(ledger_take_room(ledger));
    ledger_append(ledger, &entry);
    assert_true(ledger_flush(ledger, &problem));
}

static void read_spend(void)
{
    memset(&spend, 0, sizeof spend);
    me_spend_read(&spend, ledger, "a", NOW);
    assert_false(spend.failed);
}

static void days_and_months_begin_at_their_midnight(void **state)
{
    const tg_ms month = TODAY - 20 * ME_DAY_MS; /* the first of September */
    (void)state;

    open_ledger();
    add(tenant, "m", TODAY - 30 * ME_DAY_MS - 1, 1000); /* too old */
    add(tenant, "m", TODAY - 30 * ME_DAY_MS, 200);
    add(tenant, "m", month - 1, 30);
    add(tenant, "m", month, 4);
    add(tenant, "m", NOW, 5);
    add(other, "m", NOW, 100000); /* below it, and not its own */
    read_spend();
    assert_int_equal(spend.since, TODAY - 30 * ME_DAY_MS);
    assert_int_equal(spend.until, TODAY + ME_DAY_MS);
    assert_int_equal(spend.month, month);
    assert_int_equal(spend.in_month.micro, 9);
    assert_int_equal(spend.in_month.calls, 2);
    assert_int_equal(spend.days[0].micro, 200);
    assert_int_equal(spend.days[9].micro, 30);
    assert_int_equal(spend.days[10].micro, 4);
    assert_int_equal(spend.days[30].micro, 5);
    assert_int_equal(spend.days[30].uncertain, 1);
    assert_int_equal(spend.days[30].usage.input, 3);
    assert_int_equal(spend.days[30].usage.output, 5);
    close_ledger();
}

static void models_and_keys_have_rows_and_the_rest_has_one(void **state)
{
    struct json_writer out;
    char model[32];
    (void)state;

    open_ledger();
    for (int i = 0; i < ME_ROWS_MAX + 7; i++) {
        snprintf(model, sizeof model, "model-%d", i);
        add(i % 2 == 0 ? key : tenant, model, NOW, 1);
    }
    read_spend();
    assert_int_equal(spend.models.n, ME_ROWS_MAX);
    assert_true(spend.models.has_rest);
    assert_int_equal(spend.models.rest.calls, 7);
    assert_int_equal(spend.keys.n, 1);
    assert_string_equal(spend.keys.rows[0].name, "ci");
    assert_int_equal(spend.keys.rows[0].calls, (ME_ROWS_MAX + 8) / 2);
    assert_int_equal(spend.in_month.calls, ME_ROWS_MAX + 7);
    json_writer_init(&out);
    json_write_object(&out);
    me_spend_write(&out, &spend);
    json_write_object_end(&out);
    text_out_char(&out.text, '\0');
    assert_false(out.text.failed);
    assert_non_null(strstr(out.text.bytes, "{\"model\":null,\"calls\":7,"));
    assert_non_null(strstr(out.text.bytes, "\"by_key\":[{\"key\":\"ci\","));
    json_writer_fini(&out);
    close_ledger();
}

static void one_who_never_called_has_spent_nothing(void **state)
{
    (void)state;
    open_ledger();
    read_spend();
    assert_int_equal(spend.in_month.calls, 0);
    assert_int_equal(spend.models.n, 0);
    assert_int_equal(spend.keys.n, 0);
    close_ledger();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_and_months_begin_at_their_midnight),
        cmocka_unit_test(models_and_keys_have_rows_and_the_rest_has_one),
        cmocka_unit_test(one_who_never_called_has_spent_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
