/* config_schema_routes.c - the keys of `providers`, `models` and what else says where calls go. */
#include "server/config/config_schema_rows.h"

/* ---- Providers ---- */

static const struct schema_key auth_keys[] = {
    VALUE("header", SCHEMA_FIELD, false, NULL, NULL, AT(config_provider, auth_header),
          "the header that carries the key; if left out, `authorization`, `x-api-key` for the API "
          "anthropic, or `x-goog-api-key` for gemini"),
    VALUE("prefix", SCHEMA_LINE, false, NULL, NULL, AT(config_provider, auth_prefix),
          "text before the key; if left out, `\"Bearer \"` in `authorization` and nothing "
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
          "the CA that signs the provider's certificate"),
    END,
};

static const struct schema_key group_keys[] = {
    COUNT("rpm", 1, NUMBER_MAX, NULL, AT(config_group, limits.rpm),
          "calls a minute, for all its keys together"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, AT(config_group, limits.tpm),
          "tokens a minute, for all its keys together"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, AT(config_group, limits.concurrency),
          "calls in flight, for all its keys together"),
    END,
};

static const struct schema_key secret_keys[] = {
    VALUE("name", SCHEMA_NAME, true, NULL, NULL, AT(config_provider_key, name), "its name"),
    VALUE("secret", SCHEMA_SECRET, false, NULL, NULL, AT(config_provider_key, secret),
          "the provider's API key; with `auth: aws` the secret access key. Required, unless "
          "`auth: gcp`"),
    VALUE("base_url", SCHEMA_BASE, false, NULL, NULL, AT(config_provider_key, base),
          "an address of its own: another resource, or a replica; if left out, the provider's"),
    VALUE("access_key", SCHEMA_NAME, false, NULL, NULL, AT(config_provider_key, access_key),
          "with `auth: aws`, and required there: the id of the access key"),
    VALUE("session_token", SCHEMA_SECRET, false, NULL, NULL, AT(config_provider_key, session_token),
          "with `auth: aws`: of temporary credentials"),
    VALUE("service_account", SCHEMA_DOCUMENT, false, NULL, NULL,
          AT(config_provider_key, account_text),
          "with `auth: gcp`, and required there: the JSON of a service account's key"),
    COUNT("rpm", 1, NUMBER_MAX, NULL, AT(config_provider_key, limits.rpm),
          "calls a minute, of each model apart unless `per: key`"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, AT(config_provider_key, limits.tpm),
          "tokens a minute, likewise"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, AT(config_provider_key, limits.concurrency),
          "calls in flight, likewise"),
    SWITCH("per", "model|key", "model", AT(config_provider_key, per_key),
           "whether its limits hold for each model apart, or for all models together"),
    VALUE("group", SCHEMA_NAME, false, NULL, NULL, AT(config_provider_key, group),
          "the group of its provider with which it shares a quota"),
    END,
};

static const struct schema_key key_limit_keys[] = {
    COUNT("rpm", 1, NUMBER_MAX, NULL, AT(config_group, limits.rpm),
          "calls a minute of this model; if left out, as at the key"),
    COUNT("tpm", 1, NUMBER_MAX, NULL, AT(config_group, limits.tpm),
          "tokens a minute of this model; if left out, as at the key"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, AT(config_group, limits.concurrency),
          "calls of this model in flight; if left out, as at the key"),
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
static const struct schema_section key_limits = {key_limit_keys, sizeof(struct config_group),
                                                 NOWHERE, NULL};
static const struct schema_section secrets = {secret_keys, sizeof(struct config_provider_key),
                                              NOWHERE, NULL};

static const struct schema_key provider_keys[] = {
    WORD("preset",
         "none|openai|azure|anthropic|gemini|vertex|bedrock|mistral|groq|deepseek|together|"
         "fireworks|openrouter|vllm|ollama",
         "none", AT(config_provider, preset),
         "a provider of which this is known: `base_url`, `api`, `auth`, `output_field`, "
         "`tool_ids`, `reasoning_field`, `refuses`; what is given wins. azure, vllm and ollama "
         "have no `base_url`"),
    VALUE("base_url", SCHEMA_BASE, false, NULL, NULL, AT(config_provider, base),
          "its address; required without a preset that has one"),
    {.name = "api",
     .kind = SCHEMA_WORD,
     .words = "openai|openai-chat|openai-responses|anthropic|gemini",
     .offset = AT(config_provider, api),
     .help =
         "the API it speaks; openai: chat and responses, one of the others: that alone. Required "
         "without a preset"},
    VALUE("path_prefix", SCHEMA_PATH, false, NULL, "\"\"", AT(config_provider, path_prefix),
          "a prefix for every path"),
    {.name = "auth",
     .kind = SCHEMA_SECTION,
     .words = "header|gcp|aws",
     .section = &auth,
     .count_offset = AT(config_provider, auth),
     .help = "how a key is sent: in a header, which this section names; or, in place of the "
             "section, `gcp`: as a token for a service account, `aws`: by a signature (SigV4)"},
    VALUE("region", SCHEMA_NAME, false, NULL, NULL, AT(config_provider, region),
          "with `auth: aws`, and required there, and for `preset: bedrock`: such as us-east-1"),
    VALUE("service", SCHEMA_NAME, false, NULL, NULL, AT(config_provider, service),
          "with `auth: aws`: what signatures are for; if left out, bedrock"),
    VALUE("project", SCHEMA_NAME, false, NULL, NULL, AT(config_provider, project),
          "for `preset: vertex`, and required there: the id of the project"),
    VALUE("location", SCHEMA_NAME, false, NULL, NULL, AT(config_provider, location),
          "for `preset: vertex`, and required there: such as us-central1, or global"),
    NAMED("query", SCHEMA_LINE, NULL, AT(config_provider, query),
          "parameters added to the query of every call"),
    SECTION("headers", &headers, 0, "changes to the forwarded headers"),
    SECTION("tls", &tls, 0, "how the connection is secured"),
    VALUE("proxy", SCHEMA_URL, false, "none", "none", AT(config_provider, proxy),
          "an HTTP proxy to use: http://HOST:PORT"),
    SWITCH("stream_usage", "never|inject", "inject", AT(config_provider, inject_usage),
           "whether to request usage in streams whose client does not"),
    WORD("on_disconnect", "auto|abort|drain", "auto", AT(config_provider, on_disconnect),
         "what happens upstream when a client hangs up: it ends, or is read to its end for its "
         "usage; auto: drain for models that `cut: runs`"),
    WORD("output_field", "auto|max_tokens|max_completion_tokens", "auto",
         AT(config_provider, output_field),
         "the field that `on_unbounded: clamp` sets in chats that have none; auto: "
         "max_completion_tokens for api.openai.com, max_tokens for others. max_tokens also says "
         "that it reads no other: chats that state max_completion_tokens alone are reserved "
         "without it"),
    WORD("tool_ids", "any|alnum9", "any", AT(config_provider, tool_ids),
         "ids of tool calls that it takes; alnum9: 9 letters and digits. Others are replaced when "
         "a call is translated"),
    WORD("reasoning_field", "none|reasoning_content|reasoning", "none",
         AT(config_provider, reasoning_field),
         "where chats send back what the model thought, when a call is translated"),
    LIST_OF("refuses", SCHEMA_WORD,
            "parallel_tool_calls|reasoning_effort|verbosity|user|metadata|prompt_cache_key|"
            "service_tier|store",
            AT(config_provider, refuses),
            "fields that its chats refuse, and that are left out when a call is translated; "
            "`parallel_tool_calls: false` and `verbosity` are refused under `strict`"),
    SWITCH("tpm_counts", "used|asked", "used", AT(config_provider, counts_asked),
           "what it counts against the tpm of its keys"),
    FACTOR("price_factor", "1.0", AT(config_provider, price_factor),
           "what multiplies the token prices of its models: a region, a discount"),
    VALUE("catalogue", SCHEMA_NAME, false, NULL, NULL, AT(config_provider, catalogue),
          "whose rows of the catalogue its models take; if left out, by its host"),
    NAMED_SECTIONS("groups", &groups, AT(config_provider, groups), AT(config_provider, n_groups),
                   "keys that share one quota"),
    SECTIONS("keys", &secrets, AT(config_provider, keys), AT(config_provider, n_keys),
             "its API keys"),
    END,
};

const struct schema_section schema_providers = {provider_keys, sizeof(struct config_provider),
                                                NOWHERE, config_finish_provider};

/* ---- Models ---- */

static const struct schema_key factor_keys[] = {
    FACTORS("service_tier", AT(config_model, service_tier),
            "by the tier: {priority: 2.0, flex: 0.5}; `auto` is for calls that name none"),
    FACTORS("speed", AT(config_model, speed), "by the field `speed`: {fast: 2.0}"),
    FACTORS("inference_geo", AT(config_model, inference_geo),
            "by the field `inference_geo`: {us: 1.1}"),
    FACTORS("above_tokens", NOWHERE,
            "for the whole of a call with more input tokens: {200000: 2.0}; at most 4"),
    FACTORS("above_tokens_output", NOWHERE,
            "the same for its output, where that differs: {200000: 1.5}"),
    END,
};

static const struct schema_section factors = {
    .keys = factor_keys, .bytes = sizeof(struct config_model), .present = NOWHERE};

static const struct schema_key price_keys[] = {
    USD("input", false, "0", AT(config_model, price.input), "USD per million input tokens"),
    USD("cached_input", false, NULL, AT(config_model, price.cached_input),
        "USD per million input tokens read from a cache; if left out, as input"),
    USD("cache_write", false, NULL, AT(config_model, price.cache_write),
        "USD per million input tokens written to a cache; if left out, as input"),
    USD("cache_write_1h", false, NULL, AT(config_model, price.cache_write_long),
        "the same, if the cache keeps them for an hour or longer; if left out, as cache_write"),
    USD("output", false, "0", AT(config_model, price.output), "USD per million output tokens"),
    USD("audio_input", false, NULL, AT(config_model, price.audio_input),
        "USD per million input tokens of audio; if left out, as input"),
    USD("image_input", false, NULL, AT(config_model, price.image_input),
        "USD per million input tokens of images; if left out, as input"),
    USD("audio_output", false, NULL, AT(config_model, price.audio_output),
        "USD per million output tokens of audio; if left out, as output"),
    USD("image_output", false, NULL, AT(config_model, price.image_output),
        "USD per million output tokens of images; if left out, as output"),
    USD("per_call", false, "0", AT(config_model, price.per_call), "USD per call"),
    USD("per_tool_call", false, "0", AT(config_model, price.per_tool_call),
        "USD per call of a tool that the provider runs"),
    SECTION("factors", &factors, 0, "what multiplies its token prices, all of them together"),
    END,
};

static const struct schema_key timeout_keys[] = {
    DURATION("connect", 1, "5s", AT(config_model, timeouts.connect),
             "time to establish a connection"),
    DURATION("first_byte", 1, "120s", AT(config_model, timeouts.first_byte),
             "time from then to the first byte of a stream"),
    DURATION("reply", 1, "10m", AT(config_model, timeouts.reply),
             "the same for a reply that comes whole"),
    DURATION("idle", 1, "60s", AT(config_model, timeouts.idle), "time between two bytes"),
    DURATION("total", 1, "30m", AT(config_model, timeouts.total), "time for the whole call"),
    END,
};

static const struct schema_key estimate_keys[] = {
    POSITIVE("bytes_per_token", 0, 1000, "4", AT(config_model, bytes_per_token),
             "bytes of text per token"),
    COUNT("image", 0, NUMBER_MAX, "1500", AT(config_model, image_tokens), "tokens per image"),
    END,
};

static const struct schema_key overbook_keys[] = {
    NUMBER("start", TG_FACTOR_MIN, TG_FACTOR_MAX, "1.0", AT(config_model, overbook.start),
           "the factor before any call has ended"),
    NUMBER("min", TG_FACTOR_MIN, TG_FACTOR_MAX, "0.05", AT(config_model, overbook.min),
           "the smallest factor"),
    NUMBER("max", TG_FACTOR_MIN, TG_FACTOR_MAX, "3.0", AT(config_model, overbook.max),
           "the largest factor; with 1 for all three, calls are charged what they ask for"),
    END,
};

static const struct schema_key breaker_keys[] = {
    COUNT("failures", 1, 1000, "5", AT(config_model, breaker_failures),
          "consecutive failures that open it"),
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
     .help = "fields that bind a call to the key of an earlier one; the first one present counts. "
             "[]: none"},
    DURATION("ttl", 1, "10m", AT(config_model, affinity_ttl), "how long an affinity is remembered"),
    END,
};

static const struct schema_key image_keys[] = {
    WORD("rule", "most|tiles|patches|claude|gemini", "most", AT(config_image, rule),
         "tiles of 512 pixels, patches of 32 (OpenAI), or as the family counts; most: each is "
         "`image_most`"),
    COUNT("base", 0, NUMBER_MAX, "0", AT(config_image, base),
          "tokens of an image before its tiles"),
    COUNT("tile", 0, NUMBER_MAX, "0", AT(config_image, tile), "tokens of a tile"),
    COUNT("budget", 0, NUMBER_MAX, "0", AT(config_image, budget),
          "patches that an image is shrunk to; 0: it is not"),
    FACTOR("factor", "1.0", AT(config_image, factor_milli), "tokens of a patch"),
    END,
};

/* So do those of a model. */
#define OF_MODEL(table, given)                                                                     \
    {                                                                                              \
        .keys = table, .bytes = sizeof(struct config_model), .present = given                      \
    }

const struct schema_section schema_price = OF_MODEL(price_keys, AT(config_model, has_price));
const struct schema_section schema_image = {image_keys, sizeof(struct config_image), NOWHERE, NULL};
static const struct schema_section timeouts = OF_MODEL(timeout_keys, NOWHERE);
static const struct schema_section estimate = OF_MODEL(estimate_keys, NOWHERE);
static const struct schema_section overbook = OF_MODEL(overbook_keys, NOWHERE);
static const struct schema_section breaker = OF_MODEL(breaker_keys, NOWHERE);
static const struct schema_section affinity = OF_MODEL(affinity_keys, NOWHERE);

static const struct schema_key model_keys[] = {
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "the provider that serves it"),
    SECTIONS("keys", &secrets, AT(config_model, keys), AT(config_model, n_keys),
             "API keys of its own; if left out, the provider's"),
    NAMED_SECTIONS("key_limits", &key_limits, AT(config_model, key_limits),
                   AT(config_model, n_key_limits), "limits of one key for this model, by its name"),
    VALUE("upstream_model", SCHEMA_NAME, false, NULL, NULL, AT(config_model, upstream_model),
          "the provider's name for it; if left out, the same name"),
    SECTION("price", &schema_price, 0,
            "what it costs; if left out, what the catalogue says, else nothing, with a warning"),
    SECTION("concurrency", &schema_model_concurrency, AT(config_model, concurrency),
            "how many calls to it run at once; its queue is like the gate's"),
    COUNT("retries", 0, 100, "2", AT(config_model, retries),
          "further attempts after a failed one, each after a longer pause"),
    SECTION("timeouts", &timeouts, 0, "how long a call may take"),
    COUNT("context", 1, NUMBER_MAX, NULL, AT(config_model, context),
          "tokens of the largest call, prompt and output; `check` warns about limits below it"),
    COUNT("max_output_tokens", 1, NUMBER_MAX, NULL, AT(config_model, max_output_tokens),
          "the most it writes for one choice; if left out, the catalogue's, else `context`"),
    COUNT("most_tokens_per_s", 1, NUMBER_MAX, "20000", AT(config_model, most_tokens_per_s),
          "output tokens a second of one choice, at most"),
    WORD("tokenizer", "byte|nfc|nfkc", "nfkc", AT(config_model, tokenizer),
         "what its tokenizer does to a text first: nothing, or a normalisation that may lengthen "
         "it"),
    WORD("cut", "stops|runs", "stops", AT(config_model, cut),
         "whether the provider stops when its client hangs up, or bills the whole answer"),
    COUNT("image_most", 1, NUMBER_MAX, NULL, AT(config_model, image_most),
          "tokens of the largest image"),
    SECTION("image", &schema_image, AT(config_model, image), "tokens of an image by its size"),
    {.name = "cache_write_implicit",
     .kind = SCHEMA_BOOL,
     .otherwise = "false",
     .offset = AT(config_model, cache_write_implicit),
     .help = "whether prompts are written to a cache, and billed so, unasked"},
    COUNT("tool_prompt", 0, NUMBER_MAX, "0", AT(config_model, tool_prompt),
          "input tokens that the provider adds to a call with tools"),
    COUNT("rounds", 1, 1000, "10", AT(config_model, rounds),
          "passes over the input of a call with tools that the provider runs, at most"),
    SWITCH("translate", "strict|lossy", "strict", AT(config_model, lossy),
           "what becomes of a field of a call in another API for which its provider has none: the "
           "call is refused, or the field is left out and named"),
    WORD("thinking", "auto|adaptive|budget|none", "auto", AT(config_model, thinking),
         "how a translated call asks it to think: by an effort, by a budget of tokens, or not at "
         "all; auto: as its name is known for, else adaptive"),
    WORD("sampling", "auto|full|fixed", "auto", AT(config_model, sampling),
         "fixed: it refuses `temperature`, `top_p` and `top_k`, which a translated call is then "
         "refused for, or loses; auto: as its name is known for, else full"),
    WORD("on_unbounded", "allow|clamp|refuse", "allow", AT(config_model, on_unbounded),
         "what happens to a call that does not bound its output"),
    COUNT("clamp_to", 1, NUMBER_MAX, NULL, AT(config_model, clamp_to),
          "output tokens that `clamp` bounds each choice by; if left out, the most it writes"),
    SECTION("estimate", &estimate, 0, "how the cost of a call is estimated"),
    SECTION("overbook", &overbook, 0,
            "bounds of the learned mean of tokens used to tokens asked for, by which calls are "
            "charged"),
    WORD("tpm_counts", "provider|asked|used", "provider", AT(config_model, tpm_counts),
         "what the provider counts against the tpm of its keys; provider: as it says"),
    SECTION("breaker", &breaker, 0, "when a failing key is taken out of use"),
    SECTION("affinity", &affinity, 0, "calls that belong together use one key"),
    LIST_OF("fallback", SCHEMA_NAME, NULL, NOWHERE,
            "models to use when this one cannot serve, in this order; of any provider"),
    VALUE("cheaper", SCHEMA_NAME, false, NULL, NULL, NOWHERE,
          "a model to use when a budget runs low; of any provider"),
    SECTIONS("rules", &schema_rules, AT(config_model, rules.list), AT(config_model, rules.n),
             "rules for the fields and headers of its calls"),
    END,
};

const struct schema_section schema_models = {model_keys, sizeof(struct config_model), NOWHERE,
                                             config_finish_model};

/* ---- Other ways ---- */

static const struct schema_key passthrough_keys[] = {
    VALUE("path", SCHEMA_PATH, true, NULL, NULL, AT(config_passthrough, path),
          "a path that is forwarded unchanged; with `/*` at its end, everything below it, too; a "
          "`*` in another place is one segment"),
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, NOWHERE, "the provider it is forwarded to"),
    USD("per_call", false, "0", AT(config_passthrough, per_call),
        "USD for each call; GET, HEAD, DELETE and /cancel are free. Tenants with a budget may use "
        "only what "
        "states a price"),
    {.name = "shared",
     .kind = SCHEMA_BOOL,
     .otherwise = "false",
     .offset = AT(config_passthrough, shared),
     .help = "what it makes and shows belongs to no tenant alone: nothing is refused or left out"},
    END,
};

static const struct schema_key protect_tls_keys[] = {
    VALUE("ca", SCHEMA_FILE, false, "system", "system", AT(config_protect, ca),
          "the CA that signs the server's certificate, PEM"),
    VALUE("cert", SCHEMA_FILE, false, NULL, NULL, AT(config_protect, cert),
          "the client certificate, PEM; if left out, none is presented"),
    VALUE("key", SCHEMA_FILE, false, NULL, NULL, AT(config_protect, key), "its key, PEM"),
    END,
};

static const struct schema_section protect_tls = {
    .keys = protect_tls_keys, .bytes = sizeof(struct config_protect), .present = NOWHERE};

static const struct schema_key protect_keys[] = {
    VALUE("prefix", SCHEMA_PATH, true, NULL, NULL, AT(config_protect, prefix),
          "the prefix of the paths it serves"),
    VALUE("upstream", SCHEMA_BASE, true, NULL, NULL, AT(config_protect, upstream),
          "the server that is protected"),
    {.name = "http2",
     .kind = SCHEMA_BOOL,
     .otherwise = "false",
     .offset = AT(config_protect, http2),
     .help = "speak HTTP/2 to it from the first byte, as for a gRPC server"},
    SECTION("tls", &protect_tls, 0, "TLS settings for `https://`"),
    NAMED("priorities", SCHEMA_WORD, "high|normal|low", NOWHERE,
          "the class of \"METHOD /path\" or \"/package.Service/Method\"; all others are normal"),
    SECTION("concurrency", &schema_own_concurrency, AT(config_protect, concurrency),
            "how many of its calls run at once, learned from the time that they take"),
    END,
};

const struct schema_section schema_passthrough = {
    passthrough_keys, sizeof(struct config_passthrough), NOWHERE, config_finish_passthrough};
const struct schema_section schema_protect = {protect_keys, sizeof(struct config_protect), NOWHERE,
                                              config_finish_protect};
