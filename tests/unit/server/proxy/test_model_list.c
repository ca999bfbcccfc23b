/* test_model_list.c - a tenant sees the models that it may use, in the form of its API. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "server/proxy/model_list.h"

#define KEYS "keys: [{name: k, secret: \"${MODEL_LIST_KEY}\"}]"

static const char YAML[] =
    "providers:\n"
    "  openai: {api: openai, base_url: \"http://127.0.0.1:1\", " KEYS "}\n"
    "  claude: {api: anthropic, base_url: \"http://127.0.0.1:1\", " KEYS "}\n"
    "models:\n"
    "  gpt: {provider: openai, price: {}}\n"
    "  tiny: {provider: openai, price: {}}\n"
    "  opus: {provider: claude, price: {}}\n"
    "aliases: {g/4: gpt, t: tiny}\n"
    "tenants:\n"
    "  - {name: all}\n"
    "  - {name: some, models: [tiny]}\n";

static void expect_list(enum wire_api api, const char *tenant, const char *one,
                        const char *expected)
{
    struct config_problems problems;
    struct config config;
    struct json_writer out;

    assert_int_equal(setenv("MODEL_LIST_KEY", "secret", 1), 0);
    if (config_parse(NULL, YAML, strlen(YAML), &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    const struct model_list list = {
        .config = &config,
        .tenant = config_tenant(&config, tenant, strlen(tenant)),
        .api = api};
    json_writer_init(&out);
    if (one != NULL)
        model_list_write_one(&list, slice_of(one), &out);
    else
        model_list_write(&list, &out);
    assert_false(out.text.failed);
    assert_int_equal(out.text.size, strlen(expected));
    assert_memory_equal(out.text.size > 0 ? out.text.bytes : "", expected, out.text.size);
    json_writer_fini(&out);
    config_free(&config);
    config_problems_free(&problems);
}

static void a_list_has_the_form_of_its_client_and_all_models(void **state)
{
    (void)state;
    expect_list(WIRE_OPENAI, "all", NULL,
                "{\"object\":\"list\",\"data\":["
                "{\"id\":\"gpt\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"},"
                "{\"id\":\"tiny\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"},"
                "{\"id\":\"opus\",\"object\":\"model\",\"created\":0,\"owned_by\":\"claude\"},"
                "{\"id\":\"g/4\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"},"
                "{\"id\":\"t\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"}]}");
    expect_list(WIRE_ANTHROPIC, "all", NULL,
                "{\"has_more\":false,\"data\":["
                "{\"id\":\"gpt\",\"type\":\"model\",\"display_name\":\"gpt\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"},"
                "{\"id\":\"tiny\",\"type\":\"model\",\"display_name\":\"tiny\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"},"
                "{\"id\":\"opus\",\"type\":\"model\",\"display_name\":\"opus\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"},"
                "{\"id\":\"g/4\",\"type\":\"model\",\"display_name\":\"g/4\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"},"
                "{\"id\":\"t\",\"type\":\"model\",\"display_name\":\"t\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"}],"
                "\"first_id\":\"gpt\",\"last_id\":\"t\"}");
}

static void a_tenant_sees_what_it_may_use(void **state)
{
    (void)state;
    expect_list(WIRE_OPENAI, "some", NULL,
                "{\"object\":\"list\",\"data\":["
                "{\"id\":\"tiny\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"},"
                "{\"id\":\"t\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"}]}");
    expect_list(WIRE_ANTHROPIC, "some", NULL,
                "{\"has_more\":false,\"data\":["
                "{\"id\":\"tiny\",\"type\":\"model\",\"display_name\":\"tiny\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"},"
                "{\"id\":\"t\",\"type\":\"model\",\"display_name\":\"t\","
                "\"created_at\":\"1970-01-01T00:00:00Z\"}],"
                "\"first_id\":\"tiny\",\"last_id\":\"t\"}");
}

static void one_model_is_found_by_name_and_alias(void **state)
{
    (void)state;
    expect_list(WIRE_OPENAI, "all", "gpt",
                "{\"id\":\"gpt\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"}");
    expect_list(WIRE_OPENAI, "all", "g%2F4",
                "{\"id\":\"g/4\",\"object\":\"model\",\"created\":0,\"owned_by\":\"openai\"}");
    expect_list(WIRE_OPENAI, "some", "g%2F4", "");
}

static void what_is_not_listed_is_not_written(void **state)
{
    (void)state;
    expect_list(WIRE_OPENAI, "some", "gpt", "");  /* not for this tenant */
    expect_list(WIRE_OPENAI, "all", "other", ""); /* nobody's */
    expect_list(WIRE_OPENAI, "all", "g%2", "");   /* not percent-encoded */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_has_the_form_of_its_client_and_all_models),
        cmocka_unit_test(a_tenant_sees_what_it_may_use),
        cmocka_unit_test(one_model_is_found_by_name_and_alias),
        cmocka_unit_test(what_is_not_listed_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
