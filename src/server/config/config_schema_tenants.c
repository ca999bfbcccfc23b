/* config_schema_tenants.c - the keys of `tenants` and `budgets`: who asks, and for how much. */
#include "server/config/config_schema_rows.h"

static const struct schema_key budget_keys[] = {
    USD("usd", true, NULL, AT(config_budget, micro_usd), "the amount"),
    {.name = "per",
     .kind = SCHEMA_WORD,
     .required = true,
     .words = "day|week|month|total",
     .offset = AT(config_budget, per),
     .help = "the period it covers"},
    VALUE("tz", SCHEMA_ZONE, false, NULL, "UTC", AT(config_budget, tz),
          "the time zone in which a day, week or month begins"),
    WORD("reserve", "bound|expected", "bound", AT(config_budget, reserve),
         "what is reserved for a call: bound: the most it can cost, so that the budget holds; "
         "expected: what 95 % of the tenant's last calls of that model cost, where all budgets of "
         "a call say so"),
    MODE(AT(config_budget, mode)),
    END,
};

const struct schema_section schema_budgets = {budget_keys, sizeof(struct config_budget), NOWHERE,
                                              NULL};

static const struct schema_key rule_keys[] = {
    VALUE("field", SCHEMA_NAME, false, NULL, NULL, AT(field_rule, name),
          "the field of the body it is for, in the neutral form, such as max_tokens or "
          "metadata.team"),
    VALUE("header", SCHEMA_FIELD, false, NULL, NULL, AT(field_rule, name),
          "the header it is for, instead"),
    LIST_OF("allow", SCHEMA_VALUE, NULL, NOWHERE, "no other value is allowed"),
    VALUE("deny", SCHEMA_DENY, false, NULL, NULL, NOWHERE,
          "these values are not allowed; true: none is"),
    NUMBER("min", -NUMBER_MAX, NUMBER_MAX, NULL, AT(field_rule, min), "it must not be below this"),
    NUMBER("max", -NUMBER_MAX, NUMBER_MAX, NULL, AT(field_rule, max), "it must not be above this"),
    {.name = "require",
     .kind = SCHEMA_BOOL,
     .otherwise = "false",
     .offset = AT(field_rule, require),
     .help = "a call without it is refused"},
    VALUE("set", SCHEMA_VALUE, false, NULL, NULL, NOWHERE, "what it is set to, whatever it was"),
    VALUE("default", SCHEMA_VALUE, false, NULL, NULL, NOWHERE,
          "what it is set to where a call has none"),
    END,
};

const struct schema_section schema_rules = {rule_keys, sizeof(struct field_rule), NOWHERE,
                                            config_finish_rule};

#define LIMIT(key, text) COUNT(key, 1, NUMBER_MAX, NULL, NOWHERE, text)
#define LIMITS                                                                                     \
    LIMIT("rpm", "calls a minute (gcra)"), LIMIT("rph", "calls an hour (gcra)"),                   \
        LIMIT("rpd", "calls a day (gcra)"), LIMIT("tpm", "tokens a minute (token_bucket)"),        \
        LIMIT("tph", "tokens an hour (token_bucket)"), LIMIT("tpd", "tokens a day (token_bucket)")
#define OVERDRAFT(place)                                                                           \
    COUNT("overdraft", 0, NUMBER_MAX, NULL, place,                                                 \
          "how many tokens calls in flight may use above what the token limits of this line "      \
          "charged them; if left out, 40 times each")

static const struct schema_key limit_keys[] = {
    LIST_OF("models", SCHEMA_PATTERN, NULL, AT(config_limits, models),
            "the limit applies only to calls of these models; if left out, to all"),
    LIMITS,
    OVERDRAFT(AT(config_limits, overdraft)),
    MODE(AT(config_limits, mode)),
    END,
};

static const struct schema_key each_keys[] = {
    LIMITS,
    OVERDRAFT(AT(config_users, each.overdraft)),
    SECTIONS("budgets", &schema_budgets, AT(config_users, budgets), AT(config_users, n_budgets),
             "budgets of each user"),
    MODE(AT(config_users, each.mode)),
    END,
};

static const struct schema_section limits = {limit_keys, sizeof(struct config_limits), NOWHERE,
                                             config_finish_limits};
static const struct schema_section each = {each_keys, sizeof(struct config_users), NOWHERE,
                                           config_finish_each};

#define OWN                                                                                        \
    SECTIONS("limits", &limits, AT(config_key, own.limits), AT(config_key, own.n_limits),          \
             "limits of its own, beside those of its tenant; they need a name"),                   \
        SECTIONS("budgets", &schema_budgets, AT(config_key, own.budgets),                          \
                 AT(config_key, own.n_budgets),                                                    \
                 "budgets of its own, below those of its tenant; they need a name"),               \
        LIST_OF("models", SCHEMA_PATTERN, NULL, AT(config_key, own.models),                        \
                "models it may use of those that its tenant may; if left out, all of these"),      \
        LIST_OF("endpoints", SCHEMA_ENDPOINT, NULL, AT(config_key, own.endpoints),                 \
                "paths of `passthrough` it may use of those that its tenant may, like `models`; "  \
                "if left out, all of these"),                                                      \
        NAMED("tags", SCHEMA_LINE, NULL, AT(config_key, own.tags),                                 \
              "what the ledger notes of its calls, such as `cost_centre`; they need a "            \
              "name")

static const struct schema_key key_keys[] = {
    VALUE("name", SCHEMA_NAME, false, NULL, NULL, AT(config_key, name),
          "its name: what it uses is counted under it. Keys of one name are one, with several "
          "secrets: one of them may say what follows `not_after`, and it holds for all"),
    VALUE("sha256", SCHEMA_SHA256, true, NULL, NULL, AT(config_key, sha256),
          "the hash of the virtual key; the key itself is not stored"),
    {.name = "not_after",
     .kind = SCHEMA_TIME,
     .offset = AT(config_key, not_after),
     .help = "the key is refused from then on; if left out, it does not expire"},
    OWN,
    END,
};

/* What a key that is an extra has: the rest stands beside it. */
static const struct schema_key own_keys[] = {OWN, END};

static const struct schema_section keys = {key_keys, sizeof(struct config_key), NOWHERE,
                                           config_finish_key};
const struct schema_section schema_own = {own_keys, sizeof(struct config_key), NOWHERE,
                                          config_finish_own};

static const struct schema_key user_keys[] = {
    VALUE("from", SCHEMA_HEADER, true, NULL, NULL, AT(config_users, header),
          "where the name of a user is found"),
    COUNT("max", 1, NUMBER_MAX, "10000", AT(config_users, max),
          "number of users that are distinguished in a day (UTC); a further one is refused"),
    {.name = "required",
     .kind = SCHEMA_BOOL,
     .otherwise = "false",
     .offset = AT(config_users, required),
     .help = "a call that does not name its user is refused"},
    SECTION("each", &each, 0, "limits and budgets of each user"),
    END,
};

static const struct schema_section users = {user_keys, sizeof(struct config_users),
                                            AT(config_users, present), NULL};

static const struct schema_key tenant_keys[] = {
    VALUE("name", SCHEMA_NAME, true, NULL, NULL, AT(config_tenant, name), "its name"),
    {.name = "parent",
     .kind = SCHEMA_NAME,
     .offset = NOWHERE,
     .help = "a tenant whose limits and budgets also apply to this one; up to four levels"},
    SECTIONS("keys", &keys, AT(config_tenant, keys), AT(config_tenant, n_keys), "its virtual keys"),
    LIST_OF(
        "models", SCHEMA_PATTERN, NULL, AT(config_tenant, models),
        "models it may use; `!` excludes, and the last pattern that matches decides; if left out, "
        "all"),
    LIST_OF("endpoints", SCHEMA_ENDPOINT, NULL, AT(config_tenant, endpoints),
            "paths of `passthrough` it may use, like `models`; if left out, none"),
    WORD("priority", "high|normal|low", "normal", AT(config_tenant, priority),
         "the highest class it may request"),
    NUMBER("weight", 0.000001, 1000000, "1", AT(config_tenant, weight),
           "its share of the slots while other tenants of its class wait"),
    NUMBER("value", 0, NUMBER_MAX, "1", AT(config_tenant, value), "what a call is worth"),
    COUNT("concurrency", 1, NUMBER_MAX, NULL, AT(config_tenant, concurrency),
          "its calls in flight or waiting; if left out, `gate.peers.limit`"),
    LIMITER("rate", AT(config_tenant, rate), "calls per time; if left out, the gate's applies"),
    LIMITER("cost", AT(config_tenant, cost), "tokens per time; if left out, the gate's applies"),
    SECTIONS("limits", &limits, AT(config_tenant, limits), AT(config_tenant, n_limits),
             "further limits; all of them apply"),
    SECTION("users", &users, AT(config_tenant, users), "limits for each of its users"),
    SECTIONS("budgets", &schema_budgets, AT(config_tenant, budgets), AT(config_tenant, n_budgets),
             "its budgets; all of them apply"),
    NUMBER(
        "allow_cheaper", 0, 1, "0", AT(config_tenant, allow_cheaper),
        "when less than this fraction of its budget is left, a cheaper model may serve; 0: never"),
    SECTIONS("rules", &schema_rules, AT(config_tenant, rules.list), AT(config_tenant, rules.n),
             "rules for the fields and headers of its calls; those of its parents also apply"),
    MODE(AT(config_tenant, mode)),
    END,
};

const struct schema_section schema_tenants = {tenant_keys, sizeof(struct config_tenant), NOWHERE,
                                              config_finish_tenant};
