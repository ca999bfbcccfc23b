/* config_routes.h - where calls go, read: listeners, providers, models and what is before them.
 *
 * Part of config.h. Strings live as long as the configuration; what was not given is null, unless a
 * default is said. Indices are into the arrays of struct config.
 */
#ifndef TG_CONFIG_CONFIG_ROUTES_H
#define TG_CONFIG_CONFIG_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "server/dialect/field_rules.h"
#include "server/dialect/neutral/neutral.h"
#include "tollgate.h"

#define CONFIG_NONE SIZE_MAX /* an index of nothing */

/* Bytes that are wiped when the configuration is freed, and printed nowhere. */
struct config_secret {
    const char *bytes; /* null: not given, or missing */
    size_t size;
    const char *file; /* where it was read from, to be read again when that changes; or null */
};

/* `http://host:port/path`, taken apart. The host is null if a variable in it is missing. */
struct config_url {
    bool tls;
    const char *host; /* IPv6 without brackets */
    int port;
    const char *path; /* without a slash at its end: "" or "/x" */
};

struct config_tls {
    const char *cert, *key; /* null: no TLS */
    const char *client_ca;  /* null: clients need no certificate */
};

struct config_listen {
    const char *gateway, *admin, *probe, *grpc; /* "host:port"; null: not listened on */
    struct config_tls tls;                      /* for gateway and grpc */
    struct config_tls admin_tls;
};

struct config_server_limits {
    int64_t body, header, buffered_total; /* bytes */
    int64_t connections;
    int64_t connections_per_address; /* 0: a quarter of them, at least 16 */
};

/* An address range. */
struct config_range {
    int family; /* AF_INET or AF_INET6 */
    uint8_t address[16];
    int bits;
};

/* Who may ask for decisions, and state these. */
struct config_caller {
    const char *name;
    uint8_t token_sha256[32];
    bool may_tenant, may_peer, may_priority, may_value;
    unsigned may;                          /* private: the same, a bit each */
    struct config_concurrency concurrency; /* its own; law vegas by default; queue as below */
};

/* What a provider speaks. CONFIG_OPENAI has both of OpenAI's, chat and responses. */
enum config_api {
    CONFIG_OPENAI,
    CONFIG_OPENAI_CHAT,
    CONFIG_OPENAI_RESPONSES,
    CONFIG_ANTHROPIC,
    CONFIG_GEMINI
};

/* Providers of which the program knows the address and the API. */
enum config_preset {
    CONFIG_PRESET_NONE,
    CONFIG_PRESET_OPENAI,
    CONFIG_PRESET_AZURE,
    CONFIG_PRESET_ANTHROPIC,
    CONFIG_PRESET_GEMINI,
    CONFIG_PRESET_VERTEX,
    CONFIG_PRESET_BEDROCK,
    CONFIG_PRESET_MISTRAL,
    CONFIG_PRESET_GROQ,
    CONFIG_PRESET_DEEPSEEK,
    CONFIG_PRESET_TOGETHER,
    CONFIG_PRESET_FIREWORKS,
    CONFIG_PRESET_OPENROUTER,
    CONFIG_PRESET_VLLM,
    CONFIG_PRESET_OLLAMA
};

/* The limits of a group of keys; or those of one key, for one model. */
struct config_group {
    const char *name;
    struct tg_key_limits limits;
};

/* How a provider is told who calls. In the order of the words in the schema. */
enum config_auth {
    CONFIG_AUTH_HEADER, /* the key's secret stands in a header */
    CONFIG_AUTH_GCP,    /* a token that a service account is given */
    CONFIG_AUTH_AWS,    /* each request is signed: SigV4 */
};

/* A service account of Google's, as the file of its key says. */
struct config_account {
    const char *email, *key_id;
    struct config_secret private_key; /* PEM */
    const char *token_uri;            /* where tokens are given, */
    struct config_url token_url;      /* and the same taken apart; host null: not known */
};

struct config_provider_key {
    const char *name;
    struct config_secret secret;
    struct config_url base;               /* its own address; host null: its provider's */
    const char *access_key;               /* AWS: the public half of the key; or null */
    struct config_secret session_token;   /* AWS: of a key that is lent */
    struct config_secret account_text;    /* GCP: the file of the account */
    const struct config_account *account; /* the same, read; null: not given, or missing */
    struct tg_key_limits limits;
    bool per_key;      /* the limits hold for all models together, not for each apart */
    const char *group; /* null: none; with per_key "key:NAME", a group of its own */
};

/* How a model is asked to think, and whether it takes what says how it samples. In the order of the
 * words in the schema. */
enum config_thinking {
    CONFIG_THINKING_AUTO,
    CONFIG_THINKING_ADAPTIVE,
    CONFIG_THINKING_BUDGET,
    CONFIG_THINKING_NONE
};
enum config_sampling { CONFIG_SAMPLING_AUTO, CONFIG_SAMPLING_FULL, CONFIG_SAMPLING_FIXED };

/* What the provider counts against the tokens a minute of its keys: what calls ask for, or what
 * they use. */
enum config_tpm_counts { CONFIG_TPM_AS_PROVIDER, CONFIG_TPM_ASKED, CONFIG_TPM_USED };

/* What happens upstream when a client hangs up. By default, what its models' `cut` says. */
enum config_disconnect {
    CONFIG_DISCONNECT_AS_CUT,
    CONFIG_DISCONNECT_ABORT,
    CONFIG_DISCONNECT_DRAIN
};

/* The key that bounds the output of a chat, where the client has sent none: OpenAI's own models
 * want the newer one, others know the older one alone. */
enum config_output_field {
    CONFIG_FIELD_BY_HOST,
    CONFIG_FIELD_MAX_TOKENS,
    CONFIG_FIELD_MAX_COMPLETION_TOKENS
};

/* The price of a model whose passes a reply may report beside those of the model that was asked. */
struct config_pass_price {
    struct config_names names; /* what the provider may call it */
    struct tg_price price;     /* the provider's price_factor is in it; nothing for the call */
};

struct config_provider {
    const char *name;
    enum config_preset preset;
    struct config_url base;
    enum config_api api;
    enum config_auth auth;
    const char *region, *service;   /* AWS: the scope of signatures; null with another auth */
    const char *project, *location; /* Vertex AI: they are in every path; else null */
    bool vertex;                    /* its paths and bodies are those of Vertex AI */
    enum neutral_ids tool_ids;      /* what it takes for the id of a tool call */
    enum neutral_reasoning_field reasoning_field; /* where chats send reasoning back */
    unsigned refuses;                             /* private: a bit for each word in the schema */
    uint64_t refused_fields;         /* bits: enum neutral_field, which its chats do not take */
    const char *path_prefix;         /* "" by default */
    const char *auth_header;         /* lower case; by default what the API wants */
    const char *auth_prefix;         /* "Bearer ", or "" */
    struct config_pairs query;       /* escaped, as they are sent */
    struct config_pairs set_headers; /* names in lower case */
    struct config_names drop_headers;
    const char *ca;    /* "system" or a file */
    const char *proxy; /* null: none */
    bool inject_usage; /* stream_usage: inject */
    enum config_disconnect on_disconnect;
    enum config_output_field output_field;
    bool counts_asked;     /* tpm_counts: asked */
    const char *catalogue; /* whose rows its models take; null: by its host */
    int64_t price_factor;  /* multiplies the token prices of its models; thousandths */
    struct config_pass_price *pass_prices; /* prices of its models, the configuration's first; only
                                              where its API reports passes by their models */
    size_t n_pass_prices;
    struct config_group *groups;
    size_t n_groups;
    struct config_provider_key *keys;
    size_t n_keys;
};

enum config_unbounded { CONFIG_ALLOW, CONFIG_CLAMP, CONFIG_REFUSE };

/* What the tokenizer does to a text before it splits it: the most tokens of a byte depend on that.
 */
enum config_tokenizer { CONFIG_TOK_BYTE, CONFIG_TOK_NFC, CONFIG_TOK_NFKC };

/* What a provider does when its client hangs up: it bills what it made until then, or the whole. */
enum config_cut { CONFIG_CUT_STOPS, CONFIG_CUT_RUNS };

/* How many tokens an image is, by its size. */
enum config_image_rule {
    CONFIG_IMAGE_MOST,    /* each at `image_most` */
    CONFIG_IMAGE_TILES,   /* base + tile for each 512 x 512 */
    CONFIG_IMAGE_PATCHES, /* 32 x 32, up to a budget, times a factor */
    CONFIG_IMAGE_CLAUDE,  /* 28 x 28 */
    CONFIG_IMAGE_GEMINI,  /* 258 for each tile */
};

struct config_image {
    enum config_image_rule rule;
    int64_t base, tile;
    int64_t budget;       /* patches; 0: as many as the largest image has */
    int64_t factor_milli; /* multiplies patches; thousandths */
};

/* What multiplies token prices, by what a field of the call says. */
struct config_factor {
    const char *name;
    int64_t milli; /* thousandths */
};

struct config_factors {
    struct config_factor *list;
    size_t n;
};

/* Tokens that a call may write which does not say, where nothing is known: for estimates alone. */
#define CONFIG_OUTPUT_ASSUMED 4096

/* What makes two calls prefer one key. */
enum config_affinity_by {
    CONFIG_BY_PREVIOUS_RESPONSE = 1,
    CONFIG_BY_PROMPT_CACHE_KEY = 2,
    CONFIG_BY_USER = 4,
};

struct config_model {
    const char *name;
    size_t provider;            /* CONFIG_NONE: a variable in its name is missing */
    const char *upstream_model; /* by default the name */
    bool has_price;
    const char *price_from; /* "the configuration", or which catalogue and row; null without one */
    struct tg_price price;  /* 0 without one; the provider's price_factor is in it */
    struct config_factors service_tier, speed, inference_geo; /* factors of the price */
    struct config_concurrency concurrency; /* always present; law none, max 512 by default; queue
                                              and low_priority_shed_ratio are the gate's */
    int64_t retries;
    struct {
        tg_ms connect, first_byte, reply, idle, total;
    } timeouts;
    int64_t context;           /* tokens of the largest call; 0: not known */
    int64_t max_output_tokens; /* the most it writes; by default `context`; 0: not known */
    int64_t stated_context, stated_output; /* the same as the configuration says it itself; or 0 */
    int64_t most_tokens_per_s;             /* output of one choice; 20000 by default */
    enum config_tokenizer tokenizer;       /* NFKC by default, the longest */
    enum config_cut cut;
    int64_t image_most; /* tokens of the largest image; 0: not known */
    struct config_image image;
    bool cache_write_implicit;     /* prompts are written to a cache unasked */
    int64_t tool_prompt;           /* tokens that the provider adds to a call with tools */
    int64_t rounds;                /* passes of a call with tools that the provider runs, at most */
    bool lossy;                    /* translate: lossy */
    enum config_thinking thinking; /* how a translated call asks it to think; what the file says, or
                                      what is known by its name */
    enum config_sampling sampling; /* the same of temperature, top_p and top_k */
    enum config_unbounded on_unbounded;
    int64_t clamp_to; /* 0: the most it writes */
    double bytes_per_token;
    int64_t image_tokens;
    struct tg_factor overbook;
    enum config_tpm_counts tpm_counts;
    int64_t breaker_failures;
    tg_ms breaker_open;
    unsigned affinity_by; /* bits of enum config_affinity_by; by default the first two */
    tg_ms affinity_ttl;
    size_t *fallback; /* models, in their order */
    size_t n_fallback;
    size_t cheaper;           /* model, or CONFIG_NONE */
    struct field_rules rules; /* for fields and headers of its calls */
    uint64_t priced[3];       /* values of config.tiers that its price has a factor for: bits */
    struct config_provider_key *keys;
    size_t n_keys;                   /* 0: those of the provider */
    struct config_group *key_limits; /* by name of a key: its limits for this model */
    size_t n_key_limits;
};

/* Another name of a model. */
struct config_alias {
    const char *name;
    size_t model;
};

struct config_passthrough {
    const char *path; /* a path, or a pattern of path_pattern.h */
    size_t provider;  /* CONFIG_NONE: a variable in its name is missing */
    int64_t per_call; /* micro-dollars for what neither reads nor deletes */
    bool priced;      /* the file says what it costs, be it nothing */
    bool shared;      /* what it makes and shows belongs to nobody alone */
};

/* "GET /api/read": high */
struct config_protect_priority {
    const char *method, *path;
    int priority; /* enum config_priority */
};

struct config_protect {
    const char *prefix; /* "/" or "/x", without a slash at its end */
    struct config_url upstream;
    bool http2;                  /* spoken by the upstream */
    const char *ca, *cert, *key; /* ca: "system" or a path; the others: null if there are none */
    struct config_protect_priority *priorities;
    size_t n_priorities;
    struct config_concurrency concurrency; /* always present; law vegas by default; queue and
                                              low_priority_shed_ratio are the gate's */
};

enum config_log_level { CONFIG_DEBUG, CONFIG_INFO, CONFIG_WARN, CONFIG_ERROR };

#endif
