/* config_schema_routes.c - the keys of `providers`, `models` and what else says where calls go. */
#include "server/config/config_schema_rows.h"

/* ---- Providers ---- */

static const struct schema_key auth_keys[] = {
    VALUE("header", SCHEMA_FIELD, false, NULL, NULL, AT(config_provider, auth_header),
          "the header that carries the key; left out: `authorization`, or `x-api-key` with the API "
          "anthropic"),
    VALUE("prefix", SCHEMA_LINE, false, NULL, NULL, AT(config_provider, auth_prefix),
          "what stands before the key; left out: `\"Bearer \"` in `authorization`, nothing "
          "elsewhere"),
    END,
};

static const struct schema_key header_keys[] = {
    NAMED("set", SCHEMA_LINE, NULL, AT(config_provider, set_headers),
          "headers that are added or replaced"),
    LIST_OF("drop", SCHEMA_FIELD, NULL, AT(config_provider, drop_headers),
            "headers that are not forwarded"),
    END,
};

static const struct schema_key tls_keys[] = {
    VALUE("ca", SCHEMA_FILE, false, "system", "system", AT(config_provider, ca),
          "who may sign the provider's certificate"),
    END,
};

static const struct schema_key group_keys[] = {
    COUNT("rpm", 1, NUMBER_MAX, NULL, AT(config_group, limits.rpm),
          "calls a minute, all its keys together"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, AT(config_group, limits.tpm),
          "tokens a minute, all its keys together"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, AT(config_group, limits.concurrency),
          "calls at once, all its keys together"),
    END,
};

static const struct schema_key secret_keys[] = {
    VALUE("name", SCHEMA_NAME, true, NULL, NULL, AT(config_provider_key, name),
          "what it is called"),
    VALUE("secret", SCHEMA_SECRET, true, NULL, NULL, AT(config_provider_key, secret),
          "the provider's API key"),
    COUNT("rpm", 1, NUMBER_MAX, NULL, AT(config_provider_key, limits.rpm), "calls a minute"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, AT(config_provider_key, limits.tpm), "tokens a minute"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, AT(config_provider_key, limits.concurrency),
          "calls at once"),
    VALUE("group", SCHEMA_NAME, false, NULL, NULL, AT(config_provider_key, group),
          "the group of its provider with which it shares a quota"),
    END,
};

/* The parts of a provider lie in its struct. */
#define OF_PROVIDER(table)                                                                         \
    {                                                                                              \
        .keys = table, .bytes = sizeof(struct config_provider), .present = NOWHERE                 \
    }

static const struct schema_section auth = OF_PROVIDER(auth_keys);
static const struct schema_section headers = OF_PROVIDER(header_keys);
static const struct schema_section tls = OF_PROVIDER(tls_keys);
static const struct schema_section groups = {group_keys, sizeof(struct config_group), NOWHERE,
                                             NULL};
static const struct schema_section secrets = {secret_keys, sizeof(struct config_provider_key),
                                              NOWHERE, NULL};

static const struct schema_key provider_keys[] = {
    VALUE("base_url", SCHEMA_BASE, true, NULL, NULL, AT(config_provider, base), "where it is"),
    {.name = "api",
     .kind = SCHEMA_WORD,
     .required = true,
     .words = "openai|anthropic",
     .offset = AT(config_provider, api),
     .help = "what it speaks"},
    VALUE("path_prefix", SCHEMA_PATH, false, NULL, "\"\"", AT(config_provider, path_prefix),
          "what stands before every path"),
    SECTION("auth", &auth, 0, "how a key is sent"),
    NAMED("query", SCHEMA_LINE, NULL, AT(config_provider, query),
          "what is added to the query of every call"),
    SECTION("headers", &headers, 0, "changes to what is forwarded"),
    SECTION("tls", &tls, 0, "how the connection is secured"),
    VALUE("proxy", SCHEMA_URL, false, "none", "none", AT(config_provider, proxy),
          "a proxy on the way: http://HOST:PORT"),
    SWITCH("stream_usage", "never|inject", "inject", AT(config_provider, inject_usage),
           "whether usage is asked for in streams that do not ask"),
    SWITCH("on_disconnect", "abort|drain", "abort", AT(config_provider, drain),
           "what happens upstream when a client hangs up"),
    NAMED_SECTIONS("groups", &groups, AT(config_provider, groups), AT(config_provider, n_groups),
                   "keys that share one quota"),
    SECTIONS("keys", &secrets, AT(config_provider, keys), AT(config_provider, n_keys),
             "its API keys"),
    END,
};

const struct schema_section schema_providers = {provider_keys, sizeof(struct config_provider),
                                                NOWHERE, config_finish_provider};

/* ---- Models ---- */

static const struct schema_key price_keys[] = {
    USD("input", false, "0", AT(config_model, price.input), "USD for a million tokens of input"),
    USD("cached_input", false, NULL, AT(config_model, price.cached_input),
        "the same, from a cache; left out: as input"),
    USD("cache_write", false, NULL, AT(config_model, price.cache_write),
        "the same, into a cache; left out: as input"),
    USD("output", false, "0", AT(config_model, price.output), "USD for a million tokens of output"),
    USD("per_call", false, "0", AT(config_model, price.per_call), "USD for each call"),
    END,
};

static const struct schema_key timeout_keys[] = {
    DURATION("connect", 1, "5s", AT(config_model, timeouts.connect), "to be connected"),
    DURATION("first_byte", 1, "120s", AT(config_model, timeouts.first_byte),
             "from there to the first byte"),
    DURATION("idle", 1, "60s", AT(config_model, timeouts.idle), "between bytes"),
    DURATION("total", 1, "30m", AT(config_model, timeouts.total), "for all of it"),
    END,
};

static const struct schema_key estimate_keys[] = {
    POSITIVE("bytes_per_token", 0, 1000, "4", AT(config_model, bytes_per_token),
             "how text becomes tokens"),
    COUNT("image", 0, NUMBER_MAX, "1500", AT(config_model, image_tokens), "tokens of an image"),
    END,
};

static const struct schema_key overbook_keys[] = {
    NUMBER("start", 1, 3, "1.0", AT(config_model, overbook_start), "the factor at the start"),
    NUMBER("max", 1, 3, "3.0", AT(config_model, overbook_max), "and at most"),
    END,
};

static const struct schema_key breaker_keys[] = {
    COUNT("failures", 1, 1000, "5", AT(config_model, breaker_failures),
          "failed attempts in a row that open it"),
    DURATION("open", 1, "30s", AT(config_model, breaker_open), "how long it stays open"),
    END,
};

static const struct schema_key affinity_keys[] = {
    {.name = "by",
     .kind = SCHEMA_WORD,
     .shape = SCHEMA_LIST,
     .words = "previous_response_id|prompt_cache_key|user",
     .later = "session",
     .otherwise = "[previous_response_id, prompt_cache_key]",
     .offset = AT(config_model, affinity_by),
     .help =
         "fields that bind a call to the key of an earlier one, the first that it has; []: none"},
    DURATION("ttl", 1, "10m", AT(config_model, affinity_ttl), "for how long"),
    END,
};

/* So do those of a model. */
#define OF_MODEL(table, given)                                                                     \
    {                                                                                              \
        .keys = table, .bytes = sizeof(struct config_model), .present = given                      \
    }

static const struct schema_section price = OF_MODEL(price_keys, AT(config_model, has_price));
static const struct schema_section timeouts = OF_MODEL(timeout_keys, NOWHERE);
static const struct schema_section estimate = OF_MODEL(estimate_keys, NOWHERE);
static const struct schema_section overbook = OF_MODEL(overbook_keys, NOWHERE);
static const struct schema_section breaker = OF_MODEL(breaker_keys, NOWHERE);
static const struct schema_section affinity = OF_MODEL(affinity_keys, NOWHERE);

static const struct schema_key model_keys[] = {
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "who serves it"),
    SECTIONS("keys", &secrets, AT(config_model, keys), AT(config_model, n_keys),
             "its own API keys; left out: the provider's"),
    VALUE("upstream_model", SCHEMA_NAME, false, NULL, NULL, AT(config_model, upstream_model),
          "what the provider calls it; left out: the same name"),
    SECTION("price", &price, 0, "what it costs; left out, nothing, with a warning"),
    SECTION("concurrency", &schema_model_concurrency, AT(config_model, concurrency),
            "how many calls to it run at once; queue as the gate's"),
    COUNT("retries", 0, 100, "2", AT(config_model, retries), "further attempts after a failed one"),
    SECTION("timeouts", &timeouts, 0, "how long a call may take"),
    COUNT("max_output_tokens", 1, NUMBER_MAX, "4096", AT(config_model, max_output_tokens),
          "assumed when a call does not say"),
    COUNT("context", 1, NUMBER_MAX, NULL, AT(config_model, context),
          "tokens of the largest call, prompt and output; `check` warns of limits below it"),
    WORD("on_unbounded", "clamp|refuse|allow", "clamp", AT(config_model, on_unbounded),
         "what happens to a call that does not say how much it may produce"),
    SECTION("estimate", &estimate, 0, "how the cost of a call is guessed"),
    SECTION("overbook", &overbook, 0, "how far estimates may add up above a limit"),
    SECTION("breaker", &breaker, 0, "when a failing key is left alone"),
    SECTION("affinity", &affinity, 0, "calls that belong together use one key"),
    LIST_OF("fallback", SCHEMA_NAME, NULL, NOWHERE,
            "models of the same API that serve when this one cannot, in this order"),
    VALUE("cheaper", SCHEMA_NAME, false, NULL, NULL, NOWHERE,
          "a model that may serve when a budget runs low"),
    END,
};

const struct schema_section schema_models = {model_keys, sizeof(struct config_model), NOWHERE,
                                             config_finish_model};

/* ---- Other ways ---- */

static const struct schema_key passthrough_keys[] = {
    VALUE("path", SCHEMA_PATH, true, NULL, NULL, AT(config_passthrough, path),
          "a path that is forwarded as it is"),
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "to whom"),
    USD("per_call", false, "0", AT(config_passthrough, per_call), "USD for each call"),
    END,
};

static const struct schema_key protect_tls_keys[] = {
    VALUE("ca", SCHEMA_FILE, false, "system", "system", AT(config_protect, ca),
          "who signs the server's certificate, PEM"),
    VALUE("cert", SCHEMA_FILE, false, NULL, NULL, AT(config_protect, cert),
          "our own certificate, PEM; left out: none is shown"),
    VALUE("key", SCHEMA_FILE, false, NULL, NULL, AT(config_protect, key), "its key, PEM"),
    END,
};

static const struct schema_section protect_tls = {
    .keys = protect_tls_keys, .bytes = sizeof(struct config_protect), .present = NOWHERE};

static const struct schema_key protect_keys[] = {
    VALUE("prefix", SCHEMA_PATH, true, NULL, NULL, AT(config_protect, prefix),
          "paths that begin so"),
    VALUE("upstream", SCHEMA_BASE, true, NULL, NULL, AT(config_protect, upstream),
          "the server that is protected"),
    {.name = "http2",
     .kind = SCHEMA_BOOL,
     .otherwise = "false",
     .offset = AT(config_protect, http2),
     .help = "it speaks HTTP/2, at once: a server of gRPC"},
    SECTION("tls", &protect_tls, 0, "of `https://`"),
    NAMED("priorities", SCHEMA_WORD, "high|normal|low", NOWHERE,
          "the class of \"METHOD /path\", or of \"/package.Service/Method\"; the others are "
          "normal"),
    END,
};

const struct schema_section schema_passthrough = {
    passthrough_keys, sizeof(struct config_passthrough), NOWHERE, config_finish_passthrough};
const struct schema_section schema_protect = {protect_keys, sizeof(struct config_protect), NOWHERE,
                                              config_finish_protect};
