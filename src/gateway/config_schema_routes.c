/* config_schema_routes.c - the keys of `providers`, `models` and what else says where calls go. */
#include "gateway/config_schema_rows.h"

/* ---- Providers ---- */

static const struct schema_key auth_keys[] = {
    VALUE("header", SCHEMA_TEXT, false, NULL, "authorization", NOWHERE,
          "the header that carries the key"),
    VALUE("prefix", SCHEMA_TEXT, false, NULL, "Bearer ", NOWHERE, "what stands before the key"),
    END,
};

static const struct schema_key header_keys[] = {
    NAMED("set", SCHEMA_TEXT, NULL, "headers that are added or replaced"),
    LIST_OF("drop", SCHEMA_TEXT, NULL, NOWHERE, "headers that are not forwarded"),
    END,
};

static const struct schema_key tls_keys[] = {
    VALUE("ca", SCHEMA_FILE, false, "system", "system", NOWHERE,
          "who may sign the provider's certificate"),
    END,
};

static const struct schema_key group_keys[] = {
    COUNT("rpm", 1, NUMBER_MAX, NULL, NOWHERE, "calls a minute, all its keys together"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, NOWHERE, "tokens a minute, all its keys together"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, NOWHERE, "calls at once, all its keys together"),
    END,
};

static const struct schema_key secret_keys[] = {
    VALUE("name", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "what it is called"),
    VALUE("secret", SCHEMA_SECRET, true, NULL, NULL, NOWHERE, "the provider's API key"),
    COUNT("rpm", 1, NUMBER_MAX, NULL, NOWHERE, "calls a minute"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, NOWHERE, "tokens a minute"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, NOWHERE, "calls at once"),
    VALUE("group", SCHEMA_NAME, false, NULL, NULL, NOWHERE,
          "the group of its provider with which it shares a quota"),
    END,
};

static const struct schema_section auth = CHECKED_ONLY(auth_keys);
static const struct schema_section headers = CHECKED_ONLY(header_keys);
static const struct schema_section tls = CHECKED_ONLY(tls_keys);
static const struct schema_section groups = CHECKED_ONLY(group_keys);
static const struct schema_section secrets = CHECKED_ONLY(secret_keys);

static const struct schema_key provider_keys[] = {
    VALUE("base_url", SCHEMA_URL, true, NULL, NULL, NOWHERE, "where it is"),
    {.name = "api",
     .kind = SCHEMA_WORD,
     .required = true,
     .words = "openai|anthropic",
     .offset = NOWHERE,
     .help = "what it speaks"},
    VALUE("path_prefix", SCHEMA_TEXT, false, NULL, "\"\"", NOWHERE,
          "what stands before every path"),
    SECTION("auth", &auth, NOWHERE, "how a key is sent"),
    NAMED("query", SCHEMA_TEXT, NULL, "what is added to the query of every call"),
    SECTION("headers", &headers, NOWHERE, "changes to what is forwarded"),
    SECTION("tls", &tls, NOWHERE, "how the connection is secured"),
    VALUE("proxy", SCHEMA_URL, false, "none", "none", NOWHERE, "a proxy on the way"),
    WORD("stream_usage", "inject|never", "inject", NOWHERE,
         "whether usage is asked for in streams that do not ask"),
    WORD("on_disconnect", "abort|drain", "abort", NOWHERE,
         "what happens upstream when a client hangs up"),
    NAMED_SECTIONS("groups", &groups, "keys that share one quota"),
    SECTIONS("keys", &secrets, NOWHERE, NOWHERE, "its API keys"),
    END,
};

const struct schema_section schema_providers = CHECKED_ONLY(provider_keys);

/* ---- Models ---- */

static const struct schema_key price_keys[] = {
    USD("input", false, "0", NOWHERE, "USD for a million tokens of input"),
    USD("cached_input", false, NULL, NOWHERE, "the same, from a cache; left out: as input"),
    USD("cache_write", false, NULL, NOWHERE, "the same, into a cache; left out: as input"),
    USD("output", false, "0", NOWHERE, "USD for a million tokens of output"),
    USD("per_call", false, "0", NOWHERE, "USD for each call"),
    END,
};

static const struct schema_key timeout_keys[] = {
    DURATION("connect", 1, "5s", NOWHERE, "to be connected"),
    DURATION("first_byte", 1, "120s", NOWHERE, "from there to the first byte"),
    DURATION("idle", 1, "60s", NOWHERE, "between bytes"),
    DURATION("total", 1, "30m", NOWHERE, "for all of it"),
    END,
};

static const struct schema_key estimate_keys[] = {
    POSITIVE("bytes_per_token", 0, 1000, "4", NOWHERE, "how text becomes tokens"),
    COUNT("image", 0, NUMBER_MAX, "1500", NOWHERE, "tokens of an image"),
    END,
};

static const struct schema_key overbook_keys[] = {
    NUMBER("start", 1, 3, "1.0", NOWHERE, "the factor at the start"),
    NUMBER("max", 1, 3, "3.0", NOWHERE, "and at most"),
    END,
};

static const struct schema_key breaker_keys[] = {
    COUNT("failures", 1, 1000000, "5", NOWHERE, "failed attempts in a row that open it"),
    DURATION("open", 1, "30s", NOWHERE, "how long it stays open"),
    END,
};

static const struct schema_key affinity_keys[] = {
    LIST_OF("by", SCHEMA_WORD, "previous_response_id|prompt_cache_key|session", NOWHERE,
            "what binds a call to the key of an earlier one"),
    DURATION("ttl", 1, "10m", NOWHERE, "for how long"),
    END,
};

static const struct schema_section price = CHECKED_ONLY(price_keys);
static const struct schema_section timeouts = CHECKED_ONLY(timeout_keys);
static const struct schema_section estimate = CHECKED_ONLY(estimate_keys);
static const struct schema_section overbook = CHECKED_ONLY(overbook_keys);
static const struct schema_section breaker = CHECKED_ONLY(breaker_keys);
static const struct schema_section affinity = CHECKED_ONLY(affinity_keys);

static const struct schema_key model_keys[] = {
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "who serves it"),
    SECTIONS("keys", &secrets, NOWHERE, NOWHERE, "its own API keys; left out: the provider's"),
    VALUE("upstream_model", SCHEMA_NAME, false, NULL, NULL, NOWHERE,
          "what the provider calls it; left out: the same name"),
    SECTION("price", &price, NOWHERE, "what it costs"),
    SECTION("concurrency", &schema_concurrency, NOWHERE, "how many calls to it run at once"),
    COUNT("retries", 0, 100, "2", NOWHERE, "further attempts after a failed one"),
    SECTION("timeouts", &timeouts, NOWHERE, "how long a call may take"),
    COUNT("max_output_tokens", 1, NUMBER_MAX, "4096", NOWHERE, "assumed when a call does not say"),
    WORD("on_unbounded", "clamp|refuse|allow", "clamp", NOWHERE,
         "what happens to a call that does not say how much it may produce"),
    SECTION("estimate", &estimate, NOWHERE, "how the cost of a call is guessed"),
    SECTION("overbook", &overbook, NOWHERE, "how far estimates may add up above a limit"),
    SECTION("breaker", &breaker, NOWHERE, "when a failing key is left alone"),
    SECTION("affinity", &affinity, NOWHERE, "calls that belong together use one key"),
    LIST_OF("fallback", SCHEMA_NAME, NULL, NOWHERE,
            "models of the same API that serve when this one cannot, in this order"),
    VALUE("cheaper", SCHEMA_NAME, false, NULL, NULL, NOWHERE,
          "a model that may serve when a budget runs low"),
    END,
};

const struct schema_section schema_models = CHECKED_ONLY(model_keys);

/* ---- Other ways ---- */

static const struct schema_key passthrough_keys[] = {
    VALUE("path", SCHEMA_TEXT, true, NULL, NULL, NOWHERE, "a path that is forwarded as it is"),
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "to whom"),
    USD("per_call", false, "0", NOWHERE, "USD for each call"),
    END,
};

static const struct schema_key protect_keys[] = {
    VALUE("prefix", SCHEMA_TEXT, true, NULL, NULL, NOWHERE, "paths that begin so"),
    VALUE("upstream", SCHEMA_URL, true, NULL, NULL, NOWHERE, "the server that is protected"),
    NAMED("priorities", SCHEMA_WORD, "high|normal|low",
          "the class of \"METHOD /path\"; the others are normal"),
    END,
};

const struct schema_section schema_passthrough = CHECKED_ONLY(passthrough_keys);
const struct schema_section schema_protect = CHECKED_ONLY(protect_keys);
