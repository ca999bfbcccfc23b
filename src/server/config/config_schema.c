/* config_schema.c - the keys of the whole file, and those of the server itself. */
#include "server/config/config_schema_rows.h"

static const struct schema_key tls_keys[] = {
    VALUE("cert", SCHEMA_FILE, true, NULL, NULL, AT(config_tls, cert),
          "the certificate and its chain, PEM"),
    VALUE("key", SCHEMA_FILE, true, NULL, NULL, AT(config_tls, key), "its key, PEM"),
    VALUE("client_ca", SCHEMA_FILE, false, NULL, NULL, AT(config_tls, client_ca),
          "the CA that signs client certificates; if left out, none are requested"),
    END,
};

static const struct schema_section tls = {tls_keys, sizeof(struct config_tls), NOWHERE, NULL};

static const struct schema_key listen_keys[] = {
    VALUE("gateway", SCHEMA_ADDRESS, false, NULL, NULL, AT(config_listen, gateway),
          "calls to models"),
    VALUE("admin", SCHEMA_ADDRESS, false, NULL, NULL, AT(config_listen, admin),
          "the dashboard and the admin API"),
    VALUE("probe", SCHEMA_ADDRESS, false, NULL, NULL, AT(config_listen, probe),
          "only `/healthz`, `/readyz` and `/metrics`"),
    VALUE("grpc", SCHEMA_ADDRESS, false, NULL, NULL, AT(config_listen, grpc),
          "decisions for other gateways"),
    SECTION("tls", &tls, AT(config_listen, tls), "TLS for clients; if left out, no TLS"),
    SECTION("admin_tls", &tls, AT(config_listen, admin_tls),
            "TLS for the dashboard and the admin API; if left out, no TLS"),
    END,
};

static const struct schema_key failure_keys[] = {
    WORD("limits", "local|open|closed", "local", AT(config_store, limits),
         "limits and keys while the store is down; local: this node's share of each"),
    WORD("budget", "local|open|closed", "local", AT(config_store, budget),
         "money while the store is down; local: what this node has leased, strict nothing"),
    END,
};

static const struct schema_key store_tls_keys[] = {
    VALUE("ca", SCHEMA_FILE, false, "system", "system", AT(config_store, ca),
          "the CA that signs the store's certificate, PEM"),
    VALUE("cert", SCHEMA_FILE, false, NULL, NULL, AT(config_store, cert),
          "the client certificate, PEM; if left out, none is presented"),
    VALUE("key", SCHEMA_FILE, false, NULL, NULL, AT(config_store, key), "its key, PEM"),
    END,
};

static const struct schema_key ledger_keys[] = {
    VALUE("path", SCHEMA_TEXT, false, NULL, "tollgate.db", AT(config_ledger, path),
          "where spend is kept; `:memory:` keeps nothing across a restart"),
    WORD("failure", "open|closed", "closed", AT(config_ledger, failure),
         "what happens to calls while it cannot be written"),
    DURATION("detail", 0, "30d", AT(config_ledger, detail),
             "how long entries of single calls are kept"),
    VALUE("export", SCHEMA_TEXT, false, NULL, NULL, AT(config_ledger, export),
          "a folder for days that are over, each as a CSV file"),
    END,
};

static const struct schema_key limit_keys[] = {
    SIZE("body", 1, "32MiB", AT(config_server_limits, body), "largest body of a request"),
    {.name = "header",
     .kind = SCHEMA_SIZE,
     .min = 1024,
     .max = 1048576,
     .otherwise = "64KiB",
     .offset = AT(config_server_limits, header),
     .help = "largest size of all headers of a request"},
    SIZE("buffered_total", 1, "1GiB", AT(config_server_limits, buffered_total),
         "bodies of all requests in memory; at least `body`. A tenant may take more while it has "
         "no more than what is free. Reading long bodies takes up to a quarter of it more"),
    COUNT("connections", 1, 10000000, "10000", AT(config_server_limits, connections),
          "client connections at once. Beyond, idle ones give way, the unauthenticated first"),
    COUNT("connections_per_address", 0, 10000000, "0",
          AT(config_server_limits, connections_per_address),
          "the same from one address (IPv6: one /64), unless it is in `trust_headers_from`; 0: a "
          "quarter of `connections`, at least 16"),
    END,
};

static const struct schema_key admin_keys[] = {
    VALUE("token", SCHEMA_SECRET, true, NULL, NULL, AT(config, admin_token),
          "the token of the administrator"),
    END,
};

static const struct schema_key caller_keys[] = {
    VALUE("name", SCHEMA_NAME, true, NULL, NULL, AT(config_caller, name), "its name"),
    VALUE("token_sha256", SCHEMA_SHA256, true, NULL, NULL, AT(config_caller, token_sha256),
          "the hash of its token"),
    LIST_OF("may", SCHEMA_WORD, "tenant|peer|priority|value", AT(config_caller, may),
            "the fields it is trusted to state"),
    SECTION(
        "concurrency", &schema_own_concurrency, AT(config_caller, concurrency),
        "how many calls of this caller run at once; if left out, `gate.concurrency` alone says"),
    END,
};

static const struct schema_key callers_jwt_keys[] = {
    VALUE("issuer", SCHEMA_NAME, true, NULL, NULL, AT(config_callers_jwt, issuer),
          "the issuer that tokens must name (`iss`), to the letter"),
    {.name = "jwks",
     .kind = SCHEMA_BASE,
     .required = true,
     .offset = AT(config_callers_jwt, jwks),
     .help = "where the issuer publishes the keys that sign its tokens"},
    VALUE("audience", SCHEMA_NAME, true, NULL, NULL, AT(config_callers_jwt, audience),
          "the audience that tokens must name (`aud`)"),
    VALUE("tenant", SCHEMA_CLAIM, true, NULL, NULL, AT(config_callers_jwt, tenant),
          "the claim with the name of the tenant, such as `claim:team`"),
    VALUE("user", SCHEMA_CLAIM, false, NULL, NULL, AT(config_callers_jwt, user),
          "the claim with the name of the user, such as `claim:sub`: it counts instead of the "
          "header that `users.from` names. If left out, tokens name no user"),
    LIST_OF("algorithms", SCHEMA_WORD, "RS256|RS384|RS512|PS256|PS384|PS512|ES256|ES384|EdDSA",
            AT(config_callers_jwt, algorithms),
            "the algorithms that may sign a token; if left out, RS256 and ES256"),
    DURATION("leeway", 0, "60s", AT(config_callers_jwt, leeway),
             "by how much the clock of the issuer may differ"),
    DURATION("refresh", 1000, "5m", AT(config_callers_jwt, refresh),
             "how often the keys are fetched; a token with an unknown key makes it be done at "
             "once, every 10 s at most"),
    DURATION("stale", 1000, "24h", AT(config_callers_jwt, stale),
             "how long keys are used while newer ones cannot be fetched"),
    VALUE("ca", SCHEMA_FILE, false, "system", "system", AT(config_callers_jwt, ca),
          "the CA that signs the certificate of the issuer's server, PEM"),
    END,
};

static const struct schema_key log_keys[] = {
    WORD("level", "debug|info|warn|error", "info", AT(config, log_level),
         "the lowest level that is logged"),
    SWITCH("format", "text|json", "json", AT(config, log_json), "the format of a line"),
    END,
};

static const struct schema_key retry_keys[] = {
    NUMBER("ratio", 0, 1, "0.2", AT(config, retry_ratio),
           "retries of a tenant as a fraction of its calls"),
    COUNT("min_per_s", 0, 1000000000, "10", AT(config, retry_min_per_s),
          "retries a second that are always allowed, shared out evenly among the tenants"),
    END,
};

static const struct schema_key two_tier_keys[] = {
    {.name = "enabled",
     .kind = SCHEMA_BOOL,
     .otherwise = "true",
     .offset = AT(config_store, two_tier),
     .help = "lease blocks of units and money from the store and decide locally"},
    DURATION(
        "block", 1, "100ms", AT(config_store, block),
        "size of the first block, as a span of the limit's rate; later blocks adapt to demand"),
    END,
};

static const struct schema_key envoy_keys[] = {
    VALUE("config", SCHEMA_FILE, true, NULL, NULL, AT(config_envoy, path),
          "a file of rules, or a folder: all files in it that end in `.yaml` or `.yml`"),
    MODE(AT(config_envoy, mode)),
    WORD("auth", "none|callers", "none", AT(config_envoy, auth),
         "who may ask: everyone who reaches the listener, or `callers` with their token"),
    VALUE("merge_domains", SCHEMA_BOOL, false, NULL, "false", AT(config_envoy, merge_domains),
          "whether several files may have rules for one domain"),
    VALUE("metadata", SCHEMA_BOOL, false, NULL, "false", AT(config_envoy, metadata),
          "whether Envoy gets dynamic metadata: its request, and which rules with `quota_mode` are "
          "over their limit"),
    VALUE("headers", SCHEMA_BOOL, false, NULL, "false", AT(config_envoy, headers),
          "whether Envoy is told to add headers to its clients' responses"),
    VALUE("limit_header", SCHEMA_FIELD, false, NULL, "ratelimit-limit",
          AT(config_envoy, limit_header), "name of the header with the limit"),
    VALUE("remaining_header", SCHEMA_FIELD, false, NULL, "ratelimit-remaining",
          AT(config_envoy, remaining_header), "name of the header with what is left"),
    VALUE("reset_header", SCHEMA_FIELD, false, NULL, "ratelimit-reset",
          AT(config_envoy, reset_header),
          "name of the header with the seconds until more is available"),
    END,
};

static const struct schema_key authz_keys[] = {
    WORD("auth", "none|callers", "none", AT(config_authz, auth),
         "who may ask: everyone who reaches the listener, or `callers` with their token"),
    WORD(
        "known_by", "key|address|header", "key", AT(config_authz, known_by),
        "how it is known who sends a request: by a virtual key, by the client's address, or by the "
        "header `tenant`, which the proxy has to set itself"),
    VALUE("tenant", SCHEMA_HEADER, false, NULL, NULL, AT(config_authz, tenant_header),
          "where the name of the tenant is found, with `known_by: header`"),
    VALUE("user", SCHEMA_HEADER, false, NULL, NULL, AT(config_authz, user_header),
          "where the name of the user is found; if left out, where the tenant's `users` say"),
    VALUE("model", SCHEMA_HEADER, false, NULL, NULL, AT(config_authz, model_header),
          "where the name of the model is found"),
    COUNT("cost", 0, NUMBER_MAX, "1", AT(config_authz, cost),
          "units of a request on the cost axis"),
    END,
};

static const struct schema_key otlp_keys[] = {
    {.name = "endpoint",
     .kind = SCHEMA_BASE,
     .words = "none",
     .otherwise = "none",
     .offset = AT(config, otlp),
     .help = "where traces are sent, by OTLP over HTTP in JSON; without a path, to `/v1/traces`"},
    END,
};

/* Sections whose keys lie in the struct of the whole file. */
#define OF_CONFIG(table)                                                                           \
    {                                                                                              \
        .keys = table, .bytes = sizeof(struct config), .present = NOWHERE                          \
    }

#define OF_STORE(table)                                                                            \
    {                                                                                              \
        .keys = table, .bytes = sizeof(struct config_store), .present = NOWHERE                    \
    }

static const struct schema_section listeners = {listen_keys, sizeof(struct config_listen), NOWHERE,
                                                config_finish_listen};
static const struct schema_section store_failure = OF_STORE(failure_keys);
static const struct schema_section store_tls = OF_STORE(store_tls_keys);
static const struct schema_section ledger = {ledger_keys, sizeof(struct config_ledger),
                                             AT(config_ledger, present), config_finish_ledger};
static const struct schema_section sizes = {limit_keys, sizeof(struct config_server_limits),
                                            NOWHERE, config_finish_sizes};
static const struct schema_section admin_auth = OF_CONFIG(admin_keys);
static const struct schema_section callers = {caller_keys, sizeof(struct config_caller), NOWHERE,
                                              config_finish_caller};
static const struct schema_section logging = OF_CONFIG(log_keys);
static const struct schema_section retry_budget = OF_CONFIG(retry_keys);
static const struct schema_section two_tier = OF_STORE(two_tier_keys);
static const struct schema_section envoy_rls = {envoy_keys, sizeof(struct config_envoy),
                                                AT(config_envoy, present), config_finish_envoy};
static const struct schema_section ext_authz = {authz_keys, sizeof(struct config_authz),
                                                AT(config_authz, present), config_finish_authz};
static const struct schema_section otlp = OF_CONFIG(otlp_keys);
static const struct schema_section callers_jwt = {
    callers_jwt_keys, sizeof(struct config_callers_jwt), AT(config_callers_jwt, present),
    config_finish_callers_jwt};

static const struct schema_key root_keys[] = {
    COUNT("version", 1, 1, "1", AT(config, version), "version of this format"),
    SECTION("listen", &listeners, AT(config, listen), "addresses to listen on"),
    COUNT("workers", 0, 1024, "0", AT(config, workers), "worker threads; 0: one per core"),
    DURATION(
        "drain", 1, "10m", AT(config, drain),
        "how long calls may continue after SIGTERM; what is left then is cut off, and charged"),
    LIST_OF("include", SCHEMA_TEXT, NULL, NOWHERE,
            "further files; `*` is allowed, and a pattern may match nothing"),
    {.name = "store",
     .kind = SCHEMA_STORE,
     .otherwise = "memory",
     .offset = AT(config, store.url),
     .help = "where counters are kept"},
    VALUE("store_prefix", SCHEMA_NAME, false, NULL, "tg", AT(config, store.prefix),
          "prefix of every key in Redis"),
    {.name = "store_timeout",
     .kind = SCHEMA_DURATION,
     .min = 1,
     .max = 10000,
     .otherwise = "200ms",
     .offset = AT(config, store.timeout),
     .help = "timeout for a request to the store; after that `store_failure` applies"},
    SECTION("store_tls", &store_tls, AT(config, store), "TLS settings for `rediss://`"),
    SECTION("store_failure", &store_failure, AT(config, store),
            "how to decide while the store is down"),
    SECTION("ledger", &ledger, AT(config, ledger), "spend, kept on disk"),
    SECTION("limits", &sizes, AT(config, limits), "the largest requests that are accepted"),
    SECTION("admin_auth", &admin_auth, 0, "the administrator's credentials"),
    SECTIONS("callers", &callers, AT(config, callers), AT(config, n_callers),
             "other gateways that may ask for decisions"),
    SECTION("callers_jwt", &callers_jwt, AT(config, callers_jwt),
            "tenants that are known by a signed token, beside their virtual keys"),
    {.name = "trust_headers_from",
     .kind = SCHEMA_NETWORK,
     .shape = SCHEMA_LIST,
     .offset = AT(config, trusted),
     .count_offset = AT(config, n_trusted),
     .help = "clients whose `x-tollgate-*` headers are trusted"},
    SECTION("log", &logging, 0, "what is logged, and in which format"),
    SECTION("gate", &schema_gate, AT(config, gate),
            "the stages that a call has to clear; a stage whose section is absent is off, but for "
            "`concurrency` in serve"),
    NAMED_SECTIONS("providers", &schema_providers, AT(config, providers), AT(config, n_providers),
                   "the providers that serve models"),
    NAMED_SECTIONS("models", &schema_models, AT(config, models), AT(config, n_models),
                   "the models that can be called"),
    NAMED("aliases", SCHEMA_NAME, NULL, NOWHERE, "additional names for models"),
    SWITCH("unknown_model", "refuse|allow", "refuse", AT(config, unknown_model_allowed),
           "what happens to a call for a model that is not listed"),
    WORD("unknown_objects", "auto|refuse|allow", "auto", AT(config, unknown_objects),
         "what happens to a call that names a file, a response or another object of the provider "
         "that nobody is known to have made, at this gateway or, with Redis, at any other of its "
         "store; those of other tenants are refused in any case. auto: refuse"),
    LIST_OF("shared_objects", SCHEMA_PATTERN, NULL, AT(config, shared_objects),
            "ids of objects of the provider that every tenant may name and read"),
    LIST_OF("catalogue", SCHEMA_FILE, "builtin", AT(config, catalogue),
            "prices and limits of models that do not give their own; the later wins. If left out, "
            "`[builtin]`; []: none"),
    SECTION("retry_budget", &retry_budget, 0,
            "how many retries are allowed, for each tenant apart; fallbacks need none"),
    SECTIONS("passthrough", &schema_passthrough, AT(config, passthrough), AT(config, n_passthrough),
             "paths that are forwarded without being parsed"),
    SECTION("two_tier", &two_tier, AT(config, store), "fewer round trips to the store"),
    SECTION("envoy_rls", &envoy_rls, AT(config, envoy), "Envoy's rate limit service"),
    SECTION("ext_authz", &ext_authz, AT(config, authz),
            "requests that a proxy asks about: Envoy's external authorization, forward auth"),
    SECTION("otlp", &otlp, 0, "where traces go"),
    SECTIONS("protect", &schema_protect, AT(config, protect), AT(config, n_protect),
             "servers of your own behind the gate"),
    SECTIONS("budgets", &schema_budgets, AT(config, budgets), AT(config, n_budgets),
             "budgets of all tenants together"),
    SECTIONS("tenants", &schema_tenants, AT(config, tenants), AT(config, n_tenants),
             "the tenants that may call"),
    END,
};

const struct schema_section config_schema = {root_keys, sizeof(struct config), NOWHERE,
                                             config_finish_root};
