/* test_config_presets.c - what is known of common providers: addresses, headers, differences. */
#include "config_kit.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/dialect/neutral/losses.h"

static void read_provider(struct read *read, const char *settings)
{
    char text[1000];

    snprintf(text, sizeof text, "providers: {p: {%s}}\n", settings);
    must_read(read, text);
}

static void presets_know_their_addresses(void **state)
{
    static const struct {
        const char *settings, *host, *path, *header, *prefix;
        enum config_api api;
    } rows[] = {
        {"preset: openai", "api.openai.com", "", "authorization", "Bearer ", CONFIG_OPENAI},
        {"preset: anthropic", "api.anthropic.com", "", "x-api-key", "", CONFIG_ANTHROPIC},
        {"preset: gemini", "generativelanguage.googleapis.com", "", "x-goog-api-key", "",
         CONFIG_GEMINI},
        {"preset: azure, base_url: \"https://r.openai.azure.com/openai\"", "r.openai.azure.com",
         "/openai", "api-key", "", CONFIG_OPENAI},
        {"preset: azure, auth: {header: authorization}, base_url: \"https://h/openai\"", "h",
         "/openai", "authorization", "Bearer ", CONFIG_OPENAI},
        {"preset: vertex, project: p, location: us-central1",
         "us-central1-aiplatform.googleapis.com", "", "authorization", "Bearer ", CONFIG_GEMINI},
        {"preset: vertex, api: anthropic, project: p, location: global",
         "aiplatform.googleapis.com", "", "authorization", "Bearer ", CONFIG_ANTHROPIC},
        {"preset: vertex, project: p, location: eu", "aiplatform.eu.rep.googleapis.com", "",
         "authorization", "Bearer ", CONFIG_GEMINI},
        {"preset: bedrock, region: eu-west-1", "bedrock-runtime.eu-west-1.amazonaws.com",
         "/anthropic", "authorization", "Bearer ", CONFIG_ANTHROPIC},
        {"preset: bedrock, region: eu-west-1, api: openai",
         "bedrock-runtime.eu-west-1.amazonaws.com", "/openai", "authorization", "Bearer ",
         CONFIG_OPENAI},
        {"preset: mistral", "api.mistral.ai", "", "authorization", "Bearer ", CONFIG_OPENAI_CHAT},
        {"preset: groq", "api.groq.com", "/openai", "authorization", "Bearer ", CONFIG_OPENAI},
        {"preset: deepseek", "api.deepseek.com", "", "authorization", "Bearer ",
         CONFIG_OPENAI_CHAT},
        {"preset: together", "api.together.ai", "", "authorization", "Bearer ",
         CONFIG_OPENAI_CHAT},
        {"preset: fireworks", "api.fireworks.ai", "/inference", "authorization", "Bearer ",
         CONFIG_OPENAI_CHAT},
        {"preset: openrouter", "openrouter.ai", "/api", "authorization", "Bearer ", CONFIG_OPENAI},
        {"preset: groq, base_url: \"https://mine/x\", api: openai-chat", "mine", "/x",
         "authorization", "Bearer ", CONFIG_OPENAI_CHAT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct read read;
        read_provider(&read, rows[i].settings);
        const struct config_provider *provider = &read.config.providers[0];
        print_message("%s\n", rows[i].settings);
        assert_string_equal(provider->base.host, rows[i].host);
        assert_string_equal(provider->base.path, rows[i].path);
        assert_true(provider->base.tls && provider->base.port == 443);
        assert_string_equal(provider->auth_header, rows[i].header);
        assert_string_equal(provider->auth_prefix, rows[i].prefix);
        assert_int_equal(provider->api, rows[i].api);
        done(&read);
    }
}

static void a_file_overrules_what_a_preset_knows(void **state)
{
    struct read read;

    (void)state;
    read_provider(&read, "preset: mistral");
    assert_int_equal(read.config.providers[0].tool_ids, IDS_ALNUM9);
    assert_true(read.config.providers[0].refused_fields >> FIELD_USER & 1);
    assert_false(read.config.providers[0].refused_fields >> FIELD_PARALLEL & 1);
    done(&read);
    read_provider(&read, "preset: mistral, tool_ids: any, refuses: [parallel_tool_calls]");
    assert_int_equal(read.config.providers[0].tool_ids, IDS_ANY);
    assert_int_equal(read.config.providers[0].refused_fields, UINT64_C(1) << FIELD_PARALLEL);
    done(&read);
    read_provider(&read, "preset: deepseek");
    assert_int_equal(read.config.providers[0].reasoning_field, REASONING_FIELD_CONTENT);
    done(&read);
    read_provider(&read, "preset: bedrock, region: r");
    assert_int_equal(read.config.providers[0].auth, CONFIG_AUTH_AWS);
    assert_string_equal(read.config.providers[0].service, "bedrock");
    assert_int_equal(read.config.providers[0].refused_fields, 0); /* it speaks Anthropic's API */
    done(&read);
    read_provider(&read, "api: openai, base_url: \"https://h\", auth: aws, region: r, service: s");
    assert_int_equal(read.config.providers[0].auth, CONFIG_AUTH_AWS);
    assert_string_equal(read.config.providers[0].service, "s");
    done(&read);
}

static void a_provider_without_an_address_is_where_its_keys_are(void **state)
{
    struct read read;

    (void)state;
    setenv("CONFIG_KIT_SECRET", "s", 1);
    read_provider(&read, "preset: vllm, keys: [{name: a, secret: \"${CONFIG_KIT_SECRET}\", "
                         "base_url: \"http://a:1/x\"}, {name: b, secret: "
                         "\"${CONFIG_KIT_SECRET}\", base_url: \"http://b:2\"}]");
    const struct config_provider *provider = &read.config.providers[0];
    assert_string_equal(provider->base.host, "a");
    assert_string_equal(provider->keys[0].base.path, "/x");
    assert_string_equal(provider->keys[1].base.host, "b");
    assert_int_equal(provider->keys[1].base.port, 2);
    done(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_know_their_addresses),
        cmocka_unit_test(a_file_overrules_what_a_preset_knows),
        cmocka_unit_test(a_provider_without_an_address_is_where_its_keys_are),
    };

    return cmocka_run_group_tests_name("config presets", tests, NULL, NULL);
}
