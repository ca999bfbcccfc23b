/* test_config_routes.c - where calls go, in structs: listeners, providers, models, other ways. */
#include "config_kit.h"

#include <stdio.h>
#include <stdlib.h>

static const struct config_model *model_of(const struct read *read, const char *name)
{
    size_t found = config_model(&read->config, name, strlen(name));

    assert_true(found < read->config.n_models);
    return &read->config.models[found];
}

/* ---- The reference ---- */

static void expect_server(const struct config *config)
{
    assert_string_equal(config->listen.gateway, "127.0.0.1:8080");
    assert_string_equal(config->listen.admin, "127.0.0.1:9090");
    assert_string_equal(config->listen.probe, "127.0.0.1:8081");
    assert_string_equal(config->listen.grpc, "127.0.0.1:50051");
    assert_string_equal(config->listen.tls.cert, "examples/server.pem");
    assert_string_equal(config->listen.tls.key, "examples/server.key");
    assert_string_equal(config->listen.tls.client_ca, "examples/ca.pem");
    assert_int_equal(config->workers, 0);
    assert_true(config->ledger.present);
    assert_string_equal(config->ledger.path, "examples/tollgate.db");
    assert_int_equal(config->limits.body, 32 << 20);
    assert_int_equal(config->limits.header, 64 << 10);
    assert_int_equal(config->limits.buffered_total, 1 << 30);
    assert_int_equal(config->limits.connections, 10000);
    assert_string_equal(config->admin_token.file, "examples/admin.token");
    assert_null(config->admin_token.bytes); /* there is no such file */
    assert_int_equal(config->n_callers, 1);
    assert_string_equal(config->callers[0].name, "envoy");
    assert_int_equal(config->callers[0].token_sha256[0], 0x3f);
    assert_int_equal(config->callers[0].token_sha256[31], 0x28);
    assert_true(config->callers[0].may_tenant && config->callers[0].may_peer &&
                config->callers[0].may_priority && config->callers[0].may_value);
    assert_int_equal(config->n_trusted, 1);
    assert_int_equal(config->trusted[0].family, AF_INET);
    assert_int_equal(config->trusted[0].bits, 32);
    assert_memory_equal(config->trusted[0].address, ((uint8_t[]){127, 0, 0, 1}), 4);
    assert_int_equal(config->log_level, CONFIG_INFO);
    assert_true(config->log_json);
}

static void expect_providers(const struct config *config)
{
    assert_int_equal(config->n_providers, 2);
    const struct config_provider *openai = &config->providers[0], *demo = &config->providers[1];
    assert_string_equal(openai->name, "openai");
    assert_true(openai->base.tls);
    assert_string_equal(openai->base.host, "api.openai.com");
    assert_int_equal(openai->base.port, 443);
    assert_string_equal(openai->base.path, "");
    assert_int_equal(openai->n_keys + openai->n_groups, 0);
    assert_string_equal(demo->name, "demo");
    assert_false(demo->base.tls);
    assert_string_equal(demo->base.host, "127.0.0.1");
    assert_int_equal(demo->base.port, 9099);
    assert_int_equal(demo->api, CONFIG_OPENAI);
    assert_string_equal(demo->path_prefix, "");
    assert_string_equal(demo->auth_header, "authorization");
    assert_string_equal(demo->auth_prefix, "Bearer ");
    assert_int_equal(demo->query.n + demo->set_headers.n + demo->drop_headers.n, 0);
    assert_string_equal(demo->ca, "system");
    assert_null(demo->proxy);
    assert_true(demo->inject_usage);
    assert_int_equal(demo->on_disconnect, CONFIG_DISCONNECT_ABORT);
    assert_int_equal(demo->n_groups, 1);
    assert_string_equal(demo->groups[0].name, "acct-1");
    assert_int_equal(demo->groups[0].limits.rpm, 800);
    assert_int_equal(demo->groups[0].limits.tpm, 150000);
    assert_int_equal(demo->groups[0].limits.concurrency, 50);
    assert_int_equal(demo->n_keys, 2);
    assert_string_equal(demo->keys[0].name, "k1");
    assert_string_equal(demo->keys[0].secret.bytes, "sk-reference");
    assert_null(demo->keys[0].secret.file);
    assert_int_equal(demo->keys[0].limits.rpm, 500);
    assert_int_equal(demo->keys[0].limits.tpm, 90000);
    assert_int_equal(demo->keys[0].limits.concurrency, 0);
    assert_string_equal(demo->keys[0].group, "acct-1");
    assert_string_equal(demo->keys[1].secret.file, "examples/k2.txt");
}

static void expect_models(const struct read *read)
{
    const struct config_model *small = model_of(read, "demo-small");
    const struct config_model *large = model_of(read, "demo-large");

    assert_int_equal(read->config.n_models, 3);
    assert_ptr_equal(small, &read->config.models[0]);
    assert_int_equal(small->provider, 1);
    assert_string_equal(small->upstream_model, "demo-small");
    assert_true(small->has_price);
    assert_int_equal(small->price.input, 150000);
    assert_int_equal(small->price.cached_input, 75000);
    assert_int_equal(small->price.cache_write, 187500);
    assert_int_equal(small->price.output, 600000);
    assert_int_equal(small->price.per_call, 0);
    assert_int_equal(small->concurrency.law.law, TG_LAW_NONE);
    assert_int_equal(small->concurrency.law.max, 512);
    assert_int_equal(small->retries, 2);
    assert_int_equal(small->timeouts.connect, 5000);
    assert_int_equal(small->timeouts.first_byte, 120000);
    assert_int_equal(small->timeouts.reply, 600000);
    assert_int_equal(small->timeouts.idle, 60000);
    assert_int_equal(small->timeouts.total, 1800000);
    assert_int_equal(small->max_output_tokens, 4096);
    assert_int_equal(small->on_unbounded, CONFIG_ALLOW);
    assert_true(equal(small->bytes_per_token, 4));
    assert_int_equal(small->image_tokens, 1500);
    assert_true(equal(small->overbook.start, 1) && equal(small->overbook.min, 0.05) &&
                equal(small->overbook.max, 3));
    assert_int_equal(small->breaker_failures, 5);
    assert_int_equal(small->breaker_open, 30000);
    assert_int_equal(small->affinity_by, CONFIG_BY_PREVIOUS_RESPONSE | CONFIG_BY_PROMPT_CACHE_KEY);
    assert_int_equal(small->affinity_ttl, 600000);
    assert_int_equal(small->n_fallback, 1);
    assert_int_equal(small->fallback[0], 1);
    assert_int_equal(small->cheaper, 2);
    assert_int_equal(small->n_keys, 0);
    assert_int_equal(large->price.cached_input, 1250000);
    assert_int_equal(large->price.cache_write, -1);
    assert_int_equal(large->cheaper, CONFIG_NONE);
    assert_ptr_equal(model_of(read, "fast"), small);
    assert_int_equal(config_model(&read->config, "fas", 3), CONFIG_NONE);
}

static void the_reference_arrives(void **state)
{
    struct read read;
    const struct config *config = &read.config;

    (void)state;
    setenv("DEMO_KEY_1", "sk-reference", 1);
    assert_int_equal(config_load("examples/reference.yaml", &read.config, &read.problems),
                     CONFIG_READ);
    expect_server(config);
    expect_providers(config);
    expect_models(&read);
    assert_false(config->unknown_model_allowed);
    assert_true(equal(config->retry_ratio, 0.2));
    assert_int_equal(config->retry_min_per_s, 10);
    assert_int_equal(config->n_passthrough, 2);
    assert_string_equal(config->passthrough[0].path, "/v1/moderations");
    assert_int_equal(config->passthrough[0].provider, 0);
    assert_int_equal(config->passthrough[0].per_call, 0);
    assert_int_equal(config->n_protect, 1);
    assert_string_equal(config->protect[0].prefix, "/api");
    assert_string_equal(config->protect[0].upstream.host, "127.0.0.1");
    assert_int_equal(config->protect[0].upstream.port, 9098);
    assert_int_equal(config->protect[0].n_priorities, 1);
    assert_string_equal(config->protect[0].priorities[0].method, "GET");
    assert_string_equal(config->protect[0].priorities[0].path, "/api/read");
    assert_int_equal(config->protect[0].priorities[0].priority, CONFIG_HIGH);
    assert_int_equal(config->n_tenants, 2 + 4); /* those of tenants.d beside it */
    assert_string_equal(config->tenants[1].name, "team-a");
    assert_string_equal(config->tenants[5].file, "examples/tenants.d/trial.yaml");
    assert_int_equal(config->n_budgets, 1);
    assert_null(config->otlp.host);
    done(&read);
}

static void traces_go_where_they_are_told(void **state)
{
    struct read read;

    (void)state;
    must_read(&read, "otlp: {endpoint: \"https://collector.example:4318/v1/traces/\"}\n");
    assert_true(read.config.otlp.tls);
    assert_string_equal(read.config.otlp.host, "collector.example");
    assert_int_equal(read.config.otlp.port, 4318);
    assert_string_equal(read.config.otlp.path, "/v1/traces");
    done(&read);
    must_read(&read, "otlp: {}\n");
    assert_null(read.config.otlp.host);
    done(&read);
}

/* The last pattern that means a model decides, and an alias that is listed means its model. */
static void a_tenant_may_use_what_its_patterns_say(void **state)
{
    static const struct {
        const char *models;
        bool small, large;
    } rows[] = {
        {"[]", true, true},
        {"[\"demo-*\"]", true, true},
        {"[demo-small]", true, false},
        {"[\"!demo-large\"]", true, false},
        {"[\"demo-*\", \"!demo-large\"]", true, false},
        {"[fast]", true, false},
        {"[\"f*\"]", false, false}, /* a star is not for aliases */
        {"[fast, \"!demo-small\"]", false, false},
        {"[demo-small, \"!demo-*\"]", false, false},
        {"[\"!demo-*\", fast]", true, false},
        {"[\"*\", \"!fast\"]", false, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[512];
        struct read read;
        snprintf(text, sizeof text,
                 "providers: {p: {base_url: \"http://h\", api: openai}}\n"
                 "models: {demo-small: {provider: p}, demo-large: {provider: p}}\n"
                 "aliases: {fast: demo-small}\n"
                 "tenants: [{name: a, models: %s}]\n",
                 rows[i].models);
        must_read(&read, text);
        const struct config *config = &read.config;
        assert_int_equal(config_may_use(config, &config->tenants[0], NULL, &config->models[0]),
                         rows[i].small);
        assert_int_equal(config_may_use(config, &config->tenants[0], NULL, &config->models[1]),
                         rows[i].large);
        done(&read);
    }
}

/* ---- Defaults ---- */

static void what_is_left_out_has_its_default(void **state)
{
    struct read read;
    const struct config *config = &read.config;

    (void)state;
    must_read(&read, "version: 1\n");
    assert_null(config->listen.gateway);
    assert_null(config->listen.tls.cert);
    assert_int_equal(config->limits.body, 32 << 20);
    assert_int_equal(config->limits.header, 64 << 10);
    assert_int_equal(config->limits.buffered_total, 1 << 30);
    assert_int_equal(config->limits.connections, 10000);
    assert_int_equal(config->log_level, CONFIG_INFO);
    assert_true(config->log_json);
    assert_false(config->unknown_model_allowed);
    assert_true(equal(config->retry_ratio, 0.2));
    assert_int_equal(config->retry_min_per_s, 10);
    assert_int_equal(config->n_providers + config->n_models + config->n_passthrough +
                         config->n_protect + config->n_callers + config->n_trusted,
                     0);
    assert_int_equal(config_model(config, "m", 1), CONFIG_NONE);
    done(&read);
}

/* The form in which the reference writes them out. */
static void a_model_has_the_defaults_of_the_reference(void **state)
{
    struct read read, reference;

    (void)state;
    must_read(&read, "providers: {p: {base_url: \"http://h\", api: openai}}\n"
                     "models: {demo-small: {provider: p}}\n");
    assert_int_equal(config_load("examples/reference.yaml", &reference.config, &reference.problems),
                     CONFIG_READ);
    const struct config_model *got = &read.config.models[0];
    const struct config_model *want = &reference.config.models[0];
    assert_string_equal(got->upstream_model, "demo-small");
    assert_false(got->has_price);
    assert_int_equal(got->price.input + got->price.output + got->price.per_call, 0);
    assert_int_equal(got->price.cached_input, -1);
    assert_true(got->concurrency.present);
    assert_int_equal(got->concurrency.law.law, want->concurrency.law.law);
    assert_int_equal(got->concurrency.law.max, want->concurrency.law.max);
    assert_int_equal(tg_law_config_check(&got->concurrency.law, NULL), TG_OK);
    assert_int_equal(got->retries, want->retries);
    assert_int_equal(got->timeouts.connect, want->timeouts.connect);
    assert_int_equal(got->timeouts.first_byte, want->timeouts.first_byte);
    assert_int_equal(got->timeouts.reply, want->timeouts.reply);
    assert_int_equal(got->timeouts.idle, want->timeouts.idle);
    assert_int_equal(got->timeouts.total, want->timeouts.total);
    assert_int_equal(got->max_output_tokens, 0);
    assert_int_equal(config_assumed_output(got), want->max_output_tokens);
    assert_int_equal(got->most_tokens_per_s, 20000);
    assert_int_equal(got->tokenizer, CONFIG_TOK_NFKC);
    assert_int_equal(got->cut, CONFIG_CUT_STOPS);
    assert_int_equal(got->rounds, 10);
    assert_int_equal(got->on_unbounded, want->on_unbounded);
    assert_true(equal(got->bytes_per_token, want->bytes_per_token));
    assert_int_equal(got->image_tokens, want->image_tokens);
    assert_true(equal(got->overbook.start, want->overbook.start));
    assert_true(equal(got->overbook.min, want->overbook.min));
    assert_true(equal(got->overbook.max, want->overbook.max));
    assert_int_equal(got->tpm_counts, want->tpm_counts);
    assert_int_equal(got->breaker_failures, want->breaker_failures);
    assert_int_equal(got->breaker_open, want->breaker_open);
    assert_int_equal(got->affinity_by, want->affinity_by);
    assert_int_equal(got->affinity_ttl, want->affinity_ttl);
    assert_int_equal(got->n_fallback, 0);
    done(&reference);
    done(&read);
}

/* ---- Every key ---- */

static void every_key_of_the_server_arrives(void **state)
{
    struct read read;
    const struct config *config = &read.config;

    (void)state;
    must_read(&read,
              "listen: {gateway: \"*:80\", admin: \"[::1]:1\", probe: \"unix:/run/p\",\n"
              "  tls: {cert: c, key: /k}}\n"
              "workers: 3\n"
              "limits: {body: 1KiB, header: 2KiB, buffered_total: 3KiB, connections: 4}\n"
              "callers:\n"
              "  - {name: a, token_sha256: "
              "3f0a377ba0a4a460ecb616f6507ce0d8cfa3e704025d4fda3ed0c5ca05468728, may: [peer]}\n"
              "  - {name: b, token_sha256: "
              "5e0c7ed5e3b5ef5a3c4c2f4f7f6b3a2a1d0e9c8b7a6f5e4d3c2b1a0f9e8d7c6b}\n"
              "trust_headers_from: [10.0.0.0/8, \"fd00::/8\"]\n"
              "log: {level: error, format: text}\n"
              "unknown_model: allow\n"
              "retry_budget: {ratio: 1, min_per_s: 0}\n");
    assert_string_equal(config->listen.gateway, "*:80");
    assert_string_equal(config->listen.admin, "[::1]:1");
    assert_string_equal(config->listen.probe, "unix:/run/p");
    assert_null(config->listen.grpc);
    assert_string_equal(config->listen.tls.cert, "c");
    assert_string_equal(config->listen.tls.key, "/k");
    assert_null(config->listen.tls.client_ca);
    assert_int_equal(config->workers, 3);
    assert_int_equal(config->limits.body, 1024);
    assert_int_equal(config->limits.header, 2048);
    assert_int_equal(config->limits.buffered_total, 3072);
    assert_int_equal(config->limits.connections, 4);
    assert_int_equal(config->n_callers, 2);
    assert_true(config->callers[0].may_peer && !config->callers[0].may_tenant &&
                !config->callers[0].may_priority && !config->callers[0].may_value);
    assert_false(config->callers[1].may_peer || config->callers[1].may_tenant);
    assert_int_equal(config->n_trusted, 2);
    assert_int_equal(config->trusted[1].family, AF_INET6);
    assert_int_equal(config->log_level, CONFIG_ERROR);
    assert_false(config->log_json);
    assert_true(config->unknown_model_allowed);
    assert_true(equal(config->retry_ratio, 1));
    assert_int_equal(config->retry_min_per_s, 0);
    done(&read);
}

static void every_key_of_a_provider_arrives(void **state)
{
    struct read read;
    const struct config_provider *provider;

    (void)state;
    must_read(&read,
              "providers:\n"
              "  p:\n"
              "    base_url: \"https://[::1]:8443/base/\"\n"
              "    api: anthropic\n"
              "    path_prefix: /x/\n"
              "    auth: {header: API-Key, prefix: \"Key \"}\n"
              "    query: {api-version: 2024-06-01, \"a b\": \"c&d=\xc3\xbc\"}\n"
              "    headers: {set: {X-One: \"1 \", x-two: \"\"}, drop: [User-Agent, x-b]}\n"
              "    tls: {ca: /ca.pem}\n"
              "    proxy: \"http://proxy:3128\"\n"
              "    stream_usage: never\n"
              "    on_disconnect: drain\n"
              "    groups: {g: {rpm: 1}, h: {tpm: 2, concurrency: 3}}\n"
              "    keys: [{name: k, secret: \"file:s\", rpm: 4, tpm: 5, concurrency: 6}]\n");
    provider = &read.config.providers[0];
    assert_string_equal(provider->base.host, "::1");
    assert_int_equal(provider->base.port, 8443);
    assert_string_equal(provider->base.path, "/base");
    assert_int_equal(provider->api, CONFIG_ANTHROPIC);
    assert_string_equal(provider->path_prefix, "/x");
    assert_string_equal(provider->auth_header, "api-key");
    assert_string_equal(provider->auth_prefix, "Key ");
    assert_int_equal(provider->query.n, 2);
    assert_string_equal(provider->query.list[0].name, "api-version");
    assert_string_equal(provider->query.list[0].value, "2024-06-01");
    assert_string_equal(provider->query.list[1].name, "a%20b");
    assert_string_equal(provider->query.list[1].value, "c%26d%3D%C3%BC");
    assert_int_equal(provider->set_headers.n, 2);
    assert_string_equal(provider->set_headers.list[0].name, "x-one");
    assert_string_equal(provider->set_headers.list[0].value, "1 ");
    assert_string_equal(provider->set_headers.list[1].value, "");
    assert_int_equal(provider->drop_headers.n, 2);
    assert_string_equal(provider->drop_headers.names[0], "user-agent");
    assert_string_equal(provider->ca, "/ca.pem");
    assert_string_equal(provider->proxy, "http://proxy:3128");
    assert_false(provider->inject_usage);
    assert_int_equal(provider->on_disconnect, CONFIG_DISCONNECT_DRAIN);
    assert_int_equal(provider->n_groups, 2);
    assert_string_equal(provider->groups[1].name, "h");
    assert_int_equal(provider->groups[1].limits.concurrency, 3);
    assert_int_equal(provider->keys[0].limits.concurrency, 6);
    assert_null(provider->keys[0].group);
    done(&read);
}

static void a_key_is_sent_as_its_api_wants_it(void **state)
{
    static const struct {
        const char *yaml, *header, *prefix;
    } rows[] = {
        {"api: openai", "authorization", "Bearer "},
        {"api: anthropic", "x-api-key", ""},
        {"api: openai, auth: {header: api-key}", "api-key", ""},
        {"api: anthropic, auth: {header: Authorization}", "authorization", "Bearer "},
        {"api: openai, auth: {prefix: \"\"}", "authorization", ""},
        {"api: anthropic, auth: {prefix: \"K \"}", "x-api-key", "K "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        char text[200];
        snprintf(text, sizeof text, "providers: {p: {base_url: \"http://h\", %s}}\n", rows[i].yaml);
        must_read(&read, text);
        assert_string_equal(read.config.providers[0].auth_header, rows[i].header);
        assert_string_equal(read.config.providers[0].auth_prefix, rows[i].prefix);
        done(&read);
    }
}

static void every_key_of_a_model_arrives(void **state)
{
    struct read read;
    const struct config_model *model;

    (void)state;
    must_read(&read,
              "gate: {concurrency: {}, queue: {size: 7, wait: {low: 9ms}},\n"
              "  low_priority_shed_ratio: 0.25}\n"
              "providers: {o: {base_url: \"http://h\", api: openai}, p: {base_url: \"http://i\", "
              "api: openai, groups: {g: {}}}}\n"
              "models:\n"
              "  n: {provider: o, price: {}}\n"
              "  m:\n"
              "    provider: p\n"
              "    upstream_model: u\n"
              "    price: {input: 1, output: 2.5, per_call: 0.000001}\n"
              "    concurrency: {law: aimd, initial: 3, min: 2, max: 4, mode: shadow}\n"
              "    retries: 0\n"
              "    timeouts: {connect: 1ms, first_byte: 2ms, reply: 5ms, idle: 3ms, total: 4ms}\n"
              "    max_output_tokens: 5\n"
              "    on_unbounded: allow\n"
              "    estimate: {bytes_per_token: 2.5, image: 0}\n"
              "    overbook: {start: 1.5, min: 0.5, max: 2}\n"
              "    tpm_counts: asked\n"
              "    breaker: {failures: 1, open: 6ms}\n"
              "    affinity: {by: [user], ttl: 7ms}\n"
              "    fallback: [o2, n]\n"
              "    cheaper: n\n"
              "    keys: [{name: k, secret: \"file:s\", group: g}]\n"
              "  o2: {provider: o, price: {}, affinity: {by: []}}\n"
              "aliases: {x: m, y: m}\n");
    model = model_of(&read, "y");
    assert_ptr_equal(model, model_of(&read, "m"));
    assert_string_equal(model->name, "m");
    assert_int_equal(model->provider, 1);
    assert_string_equal(model->upstream_model, "u");
    assert_true(model->has_price);
    assert_int_equal(model->price.input, 1000000);
    assert_int_equal(model->price.output, 2500000);
    assert_int_equal(model->price.per_call, 1);
    assert_int_equal(model->concurrency.law.law, TG_LAW_AIMD);
    assert_int_equal(model->concurrency.law.max, 4);
    assert_int_equal(model->concurrency.mode, CONFIG_SHADOW);
    assert_int_equal(model->concurrency.queue.size, 7);
    assert_int_equal(model->concurrency.queue.wait[CONFIG_LOW], 9);
    assert_true(equal(model->concurrency.low_priority_shed_ratio, 0.25));
    assert_int_equal(model->retries, 0);
    assert_int_equal(model->timeouts.connect, 1);
    assert_int_equal(model->timeouts.first_byte, 2);
    assert_int_equal(model->timeouts.reply, 5);
    assert_int_equal(model->timeouts.idle, 3);
    assert_int_equal(model->timeouts.total, 4);
    assert_int_equal(model->max_output_tokens, 5);
    assert_int_equal(model->on_unbounded, CONFIG_ALLOW);
    assert_true(equal(model->bytes_per_token, 2.5));
    assert_int_equal(model->image_tokens, 0);
    assert_true(equal(model->overbook.start, 1.5) && equal(model->overbook.min, 0.5) &&
                equal(model->overbook.max, 2) && model->tpm_counts == CONFIG_TPM_ASKED);
    assert_int_equal(model->breaker_failures, 1);
    assert_int_equal(model->breaker_open, 6);
    assert_int_equal(model->affinity_by, CONFIG_BY_USER);
    assert_int_equal(model->affinity_ttl, 7);
    assert_int_equal(model->n_fallback, 2);
    assert_int_equal(model->fallback[0], 2);
    assert_int_equal(model->fallback[1], 0);
    assert_int_equal(model->cheaper, 0);
    assert_int_equal(model->n_keys, 1);
    assert_string_equal(model->keys[0].group, "g");
    assert_int_equal(model_of(&read, "o2")->affinity_by, 0);
    done(&read);
}

/* What bills are made of, and the provider's factor on the prices of tokens, not on fees. */
static void every_key_of_a_price_arrives(void **state)
{
    struct read read;

    (void)state;
    must_read(&read, "providers: {p: {base_url: \"http://h\", api: openai, price_factor: 1.1}}\n"
                     "models:\n"
                     "  m:\n"
                     "    provider: p\n"
                     "    price: {input: 1, cached_input: 0.1, cache_write: 1.25, output: 4,\n"
                     "      cache_write_1h: 2, audio_input: 32, image_input: 8, audio_output: 64,\n"
                     "      image_output: 40, per_call: 0.01, per_tool_call: 0.025,\n"
                     "      factors: {service_tier: {priority: 2.0, flex: 0.5}, speed: {fast: 6},\n"
                     "        inference_geo: {us: 1.1}, above_tokens: {200000: 2.0, 500000: 3},\n"
                     "        above_tokens_output: {200000: 1.5}}}\n"
                     "    context: 128000\n"
                     "    most_tokens_per_s: 300\n"
                     "    tokenizer: byte\n"
                     "    cut: runs\n"
                     "    image_most: 1445\n"
                     "    image: {rule: tiles, base: 85, tile: 170, budget: 3, factor: 1.62}\n"
                     "    cache_write_implicit: true\n"
                     "    tool_prompt: 900\n"
                     "    rounds: 3\n"
                     "    on_unbounded: clamp\n"
                     "    clamp_to: 77\n"
                     "  n: {provider: p, price: {input: 0.000001}}\n");
    const struct config_model *model = model_of(&read, "m");
    const struct tg_price *price = &model->price;
    assert_int_equal(price->input, 1100000);
    assert_int_equal(price->cached_input, 110000);
    assert_int_equal(price->cache_write, 1375000);
    assert_int_equal(price->cache_write_long, 2200000);
    assert_int_equal(price->output, 4400000);
    assert_int_equal(price->audio_input, 35200000);
    assert_int_equal(price->image_input, 8800000);
    assert_int_equal(price->audio_output, 70400000);
    assert_int_equal(price->image_output, 44000000);
    assert_int_equal(price->per_call, 10000);
    assert_int_equal(price->per_tool_call, 25000);
    assert_int_equal(price->steps[0].above, 200000);
    assert_int_equal(price->steps[0].input_milli, 2000);
    assert_int_equal(price->steps[0].output_milli, 1500);
    assert_int_equal(price->steps[1].above, 500000);
    assert_int_equal(price->steps[1].output_milli, 3000);
    assert_int_equal(price->steps[2].above, 0);
    assert_int_equal(config_factor(&model->service_tier, "priority", 8), 2000);
    assert_int_equal(config_factor(&model->service_tier, "flex", 4), 500);
    assert_int_equal(config_factor(&model->service_tier, "flexible", 8), 0);
    assert_int_equal(config_factor(&model->speed, "fast", 4), 6000);
    assert_int_equal(config_factor(&model->inference_geo, "us", 2), 1100);
    assert_int_equal(config_served_factor(model, "", "", "", 7000), 7000);
    assert_int_equal(config_served_factor(model, "default", "", "", 7000), 1000);
    assert_int_equal(config_served_factor(model, "priority", "", "", 7000), 2000);
    assert_int_equal(config_served_factor(model, "flex", "fast", "us", 7000), 3300);
    assert_int_equal(config_served_factor(model, "standard", "", "us", 7000), 1100);
    assert_int_equal(config_served_factor(model, "ultrafast", "", "us", 7000), 7000);
    assert_int_equal(model->context, 128000);
    assert_int_equal(model->max_output_tokens, 128000);
    assert_int_equal(model->most_tokens_per_s, 300);
    assert_int_equal(model->tokenizer, CONFIG_TOK_BYTE);
    assert_int_equal(model->cut, CONFIG_CUT_RUNS);
    assert_int_equal(model->image_most, 1445);
    assert_int_equal(model->image.rule, CONFIG_IMAGE_TILES);
    assert_int_equal(model->image.base, 85);
    assert_int_equal(model->image.tile, 170);
    assert_int_equal(model->image.budget, 3);
    assert_int_equal(model->image.factor_milli, 1620);
    assert_true(model->cache_write_implicit);
    assert_int_equal(model->tool_prompt, 900);
    assert_int_equal(model->rounds, 3);
    assert_int_equal(model->on_unbounded, CONFIG_CLAMP);
    assert_int_equal(model->clamp_to, 77);

    price = &model_of(&read, "n")->price; /* rounded up; what is not given stays so */
    assert_int_equal(price->input, 2);
    assert_int_equal(price->cache_write_long, -1);
    assert_int_equal(price->audio_input, -1);
    assert_int_equal(price->image_input, -1);
    assert_int_equal(price->audio_output, -1);
    assert_int_equal(price->image_output, -1);
    done(&read);
}

static void every_key_of_a_protected_server_arrives(void **state)
{
    struct read read;
    const struct config_protect *protect;

    (void)state;
    must_read(&read, "protect:\n"
                     "  - {prefix: /, upstream: \"https://a/b\"}\n"
                     "  - {prefix: /c/, upstream: \"http://d\", priorities: {\"GET /c\": low, "
                     "\"M-SEARCH /c/x\": normal}, tls: {ca: /ca, cert: /c, key: /k}}\n");
    assert_int_equal(read.config.n_protect, 2);
    protect = read.config.protect;
    assert_string_equal(protect[0].prefix, "/");
    assert_true(protect[0].upstream.tls);
    assert_string_equal(protect[0].upstream.path, "/b");
    assert_int_equal(protect[0].n_priorities, 0);
    assert_string_equal(protect[0].ca, "system");
    assert_null(protect[0].cert);
    assert_null(protect[0].key);
    assert_string_equal(protect[1].ca, "/ca");
    assert_string_equal(protect[1].cert, "/c");
    assert_string_equal(protect[1].key, "/k");
    assert_string_equal(protect[1].prefix, "/c");
    assert_int_equal(protect[1].n_priorities, 2);
    assert_int_equal(protect[1].priorities[0].priority, CONFIG_LOW);
    assert_string_equal(protect[1].priorities[1].method, "M-SEARCH");
    assert_string_equal(protect[1].priorities[1].path, "/c/x");
    assert_int_equal(protect[1].priorities[1].priority, CONFIG_NORMAL);
    done(&read);
}

/* ---- Variables that are missing ---- */

static void a_missing_variable_leaves_no_number(void **state)
{
    struct read read;

    (void)state;
    unsetenv("TG_TEST_NONE");
    must_read(&read,
              "providers: {p: {base_url: \"${TG_TEST_NONE}\", api: openai,\n"
              "  keys: [{name: k, secret: \"${TG_TEST_NONE}\"}]}}\n"
              "models: {m: {provider: \"${TG_TEST_NONE}\", price: {}, fallback: [n, "
              "\"${TG_TEST_NONE}\"]}, n: {provider: p, price: {}, cheaper: \"${TG_TEST_NONE}\"}}\n"
              "aliases: {a: \"${TG_TEST_NONE}\"}\n"
              "passthrough: [{path: /x, provider: \"${TG_TEST_NONE}\"}]\n"
              "trust_headers_from: [\"${TG_TEST_NONE}\", 10.0.0.1]\n");
    for (size_t i = 0; i < read.problems.n; i++)
        assert_true(read.problems.list[i].missing);
    assert_null(read.config.providers[0].base.host);
    assert_null(read.config.providers[0].keys[0].secret.bytes);
    assert_int_equal(read.config.models[0].provider, CONFIG_NONE);
    assert_int_equal(read.config.models[0].n_fallback, 1);
    assert_int_equal(read.config.models[1].provider, 0);
    assert_int_equal(read.config.models[1].cheaper, CONFIG_NONE);
    assert_int_equal(config_model(&read.config, "a", 1), CONFIG_NONE);
    assert_int_equal(read.config.passthrough[0].provider, CONFIG_NONE);
    assert_int_equal(read.config.n_trusted, 1);
    assert_int_equal(read.config.trusted[0].bits, 32);
    done(&read);
}

/* ---- Many ---- */

static void ten_thousand_models_are_found_by_name(void **state)
{
    enum { MODELS = 10000 };
    char *text = malloc(MODELS * 80 + 200), name[16];
    struct read read;
    size_t used;

    (void)state;
    assert_non_null(text);
    used = (size_t)sprintf(text, "providers: {p: {base_url: \"http://h\", api: openai}}\n"
                                 "models:\n");
    for (int i = 0; i < MODELS; i++)
        used += (size_t)sprintf(text + used, "  m%d: {provider: p, price: {}, cheaper: m%d}\n", i,
                                (i + 1) % MODELS);
    must_read(&read, text);
    for (size_t i = 0; i < MODELS; i++) {
        sprintf(name, "m%zu", i);
        assert_int_equal(config_model(&read.config, name, strlen(name)), i);
        assert_int_equal(read.config.models[i].cheaper, (i + 1) % MODELS);
    }
    done(&read);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_arrives),
        cmocka_unit_test(traces_go_where_they_are_told),
        cmocka_unit_test(a_tenant_may_use_what_its_patterns_say),
        cmocka_unit_test(what_is_left_out_has_its_default),
        cmocka_unit_test(a_model_has_the_defaults_of_the_reference),
        cmocka_unit_test(every_key_of_the_server_arrives),
        cmocka_unit_test(every_key_of_a_provider_arrives),
        cmocka_unit_test(a_key_is_sent_as_its_api_wants_it),
        cmocka_unit_test(every_key_of_a_model_arrives),
        cmocka_unit_test(every_key_of_a_price_arrives),
        cmocka_unit_test(every_key_of_a_protected_server_arrives),
        cmocka_unit_test(a_missing_variable_leaves_no_number),
        cmocka_unit_test(ten_thousand_models_are_found_by_name),
    };

    return cmocka_run_group_tests_name("config routes", tests, NULL, NULL);
}
