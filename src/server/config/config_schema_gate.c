/* config_schema_gate.c - the keys of `gate`: the stages that a call has to clear. */
#include "server/config/config_schema_rows.h"

#define LAW_WORD(upper, lower) #lower "|"
#define LAW_WORDS TG_LAWS(LAW_WORD)
#define PRICES_WORD(upper, text) text "|"
#define PRICES_WORDS TG_PRICE_SOURCES(PRICES_WORD)

static const struct schema_key vegas_keys[] = {
    POSITIVE("alpha", 0, NUMBER_MAX, "2", AT(tg_law_config, vegas.alpha),
             "if vegas estimates fewer calls than this waiting behind the gate, the limit grows"),
    POSITIVE("beta", 0, NUMBER_MAX, "8", AT(tg_law_config, vegas.beta),
             "if it estimates more than this, the limit shrinks; above alpha"),
    NUMBER("min_utilisation", 0, 1, "0.5", AT(tg_law_config, vegas.min_utilisation),
           "the limit grows only if this fraction of it was in use; 0: always"),
    END,
};

static const struct schema_key gradient2_keys[] = {
    NUMBER("tolerance", 1, NUMBER_MAX, "15", AT(tg_law_config, gradient2.tolerance),
           "latency above this multiple of the fastest counts as slow"),
    POSITIVE("smoothing", 0, 1, "0.2", AT(tg_law_config, gradient2.smoothing),
             "weight of a new sample"),
    COUNT("rtt_window", 1, 10000, "1000", AT(tg_law_config, gradient2.rtt_window),
          "number of samples over which the fastest is taken"),
    END,
};

static const struct schema_key aimd_keys[] = {
    NUMBER("tolerance", 1, NUMBER_MAX, "20", AT(tg_law_config, aimd.tolerance),
           "latency above this multiple of the fastest counts as slow"),
    NUMBER("backoff", 0.5, 1, "0.9", AT(tg_law_config, aimd.backoff),
           "factor of a decrease; below 1"),
    COUNT("rtt_window", 1, 10000, "1000", AT(tg_law_config, aimd.rtt_window),
          "number of samples over which the fastest is taken"),
    END,
};

static const struct schema_section vegas = {vegas_keys, sizeof(struct tg_law_config), NOWHERE, 0};
static const struct schema_section gradient2 = {gradient2_keys, sizeof(struct tg_law_config),
                                                NOWHERE, 0};
static const struct schema_section aimd = {aimd_keys, sizeof(struct tg_law_config), NOWHERE, 0};

/* The settings of the laws lie in one struct with the law, hence one place for all three. */
#define CONCURRENCY_KEYS(normal_law, normal_max)                                                   \
    {.name = "law",                                                                                \
     .kind = SCHEMA_WORD,                                                                          \
     .words = LAW_WORDS,                                                                           \
     .otherwise = normal_law,                                                                      \
     .offset = AT(config_concurrency, law.law),                                                    \
     .help = "the law that moves the limit; auto: it finds out by itself; fixed: it stays at "     \
             "`initial`; none: it is `max`"},                                                      \
        COUNT("initial", 1, NUMBER_MAX, "128", AT(config_concurrency, law.initial),                \
              "the limit at the start; 20 for auto, gradient2 and aimd; if left out, the value "   \
              "within min and max nearest to the default"),                                        \
        COUNT("min", 1, NUMBER_MAX, "8", AT(config_concurrency, law.min),                          \
              "lower bound of the limit; 1 for auto; if left out, at most initial and max"),       \
        COUNT("max", 1, NUMBER_MAX, normal_max, AT(config_concurrency, law.max),                   \
              "upper bound of the limit; 200 for gradient2 and aimd; if left out, at least "       \
              "initial and min"),                                                                  \
        DURATION("window", 1, "1s", AT(config_concurrency, law.window),                            \
                 "time between two steps of vegas"),                                               \
        {.name = "divide",                                                                         \
         .kind = SCHEMA_BOOL,                                                                      \
         .otherwise = "false",                                                                     \
         .offset = AT(config_concurrency, divide),                                                 \
         .help = "with Redis as the store: the limit is shared by all gateways that are "          \
                 "alive, each with its part"},                                                     \
        MODE(AT(config_concurrency, mode)),                                                        \
        SECTION("vegas", &vegas, AT(config_concurrency, law), "settings of the law vegas"),        \
        SECTION("gradient2", &gradient2, AT(config_concurrency, law),                              \
                "settings of the law gradient2"),                                                  \
        SECTION("aimd", &aimd, AT(config_concurrency, law), "settings of the law aimd"), END

static const struct schema_key concurrency_keys[] = {CONCURRENCY_KEYS("none", "1024")};
static const struct schema_key model_concurrency_keys[] = {CONCURRENCY_KEYS("none", "512")};
static const struct schema_key own_concurrency_keys[] = {CONCURRENCY_KEYS("vegas", "1024")};

const struct schema_section schema_concurrency = {
    concurrency_keys, sizeof(struct config_concurrency), AT(config_concurrency, present),
    config_finish_concurrency};

const struct schema_section schema_model_concurrency = {
    model_concurrency_keys, sizeof(struct config_concurrency), AT(config_concurrency, present),
    config_finish_concurrency};

const struct schema_section schema_own_concurrency = {
    own_concurrency_keys, sizeof(struct config_concurrency), AT(config_concurrency, present),
    config_finish_concurrency};

#define WAIT(class, place, text)                                                                   \
    {                                                                                              \
        .name = class, .kind = SCHEMA_WAIT, .min = 0, .max = NUMBER_MAX, .words = "auto",          \
        .otherwise = "auto", .offset = AT(config_concurrency, queue.wait[place]), .help = text     \
    }

static const struct schema_key wait_keys[] = {
    WAIT("high", CONFIG_HIGH,
         "longest wait of a high-priority call; auto: it follows the time that slots are held, up "
         "to 30s. In a replay of a plain trace the default is 100ms"),
    WAIT("normal", CONFIG_NORMAL,
         "the same for normal priority; in a replay of a plain trace 50ms"),
    WAIT("low", CONFIG_LOW,
         "the same for low priority; 0ms: it never waits, the default in a replay of a plain "
         "trace"),
    END,
};

static const struct schema_key share_keys[] = {
    NUMBER("normal", 0, 1, "0.2", AT(config_concurrency, queue.shares[0]),
           "what normal earns from each grant to a higher class"),
    NUMBER("low", 0, 1, "0.05", AT(config_concurrency, queue.shares[1]),
           "what low earns from each grant to a higher class"),
    END,
};

static const struct schema_section wait = {wait_keys, sizeof(struct config_concurrency), NOWHERE,
                                           0};
static const struct schema_section shares = {share_keys, sizeof(struct config_concurrency), NOWHERE,
                                             0};

/* The queue belongs to the stage concurrency and lies in its struct. */
static const struct schema_key queue_keys[] = {
    COUNT("size", 0, 1000000, "1024", AT(config_concurrency, queue.size),
          "calls of each class that may wait; 0: none"),
    SECTION("wait", &wait, 0, "how long a call may wait, by class"),
    SECTION("shares", &shares, 0, "what a class earns while a higher one is served"),
    END,
};

static const struct schema_section queue = {queue_keys, sizeof(struct config_concurrency), NOWHERE,
                                            0};

static const struct schema_key peers_keys[] = {
    COUNT("limit", 1, NUMBER_MAX, "64", AT(config_peers, limit),
          "calls of one peer in flight or waiting"),
    COUNT("max_peers", 1, 16777216, "65536", AT(config_peers, max_peers),
          "number of peers that can be counted at once"),
    MODE(AT(config_peers, mode)),
    END,
};

static const struct schema_section peers = {peers_keys, sizeof(struct config_peers),
                                            AT(config_peers, present), NULL};

static const struct schema_key memory_keys[] = {
    POSITIVE("pressure", 0, 1, "0.85", AT(config_memory, pressure),
             "fraction in use above which low priority is refused"),
    POSITIVE("critical", 0, 1, "0.95", AT(config_memory, critical),
             "fraction in use above which all but high priority is refused"),
    POSITIVE("limit", 0, 1, "0.98", AT(config_memory, limit),
             "fraction in use above which everything is refused"),
    DURATION("poll", 10, "500ms", AT(config_memory, poll), "how often memory is read"),
    MODE(AT(config_memory, mode)),
    END,
};

static const struct schema_section memory = {memory_keys, sizeof(struct config_memory),
                                             AT(config_memory, present), config_finish_memory};

static const struct schema_key dual_keys[] = {
    NUMBER("rate", 0, NUMBER_MAX, "0", AT(config_policy, duals.rate), "price of a call"),
    NUMBER("cost", 0, NUMBER_MAX, "0", AT(config_policy, duals.cost), "price of a unit of cost"),
    NUMBER("concurrency", 0, NUMBER_MAX, "0", AT(config_policy, duals.concurrency),
           "price of a slot for a second"),
    END,
};

static const struct schema_key type_keys[] = {
    NUMBER("cost", 0, NUMBER_MAX, "1", AT(config_type, cost),
           "cost of a call of this type, in units"),
    NUMBER("value", 0, NUMBER_MAX, "1", AT(config_type, value), "what such a call is worth"),
    NUMBER("weight", 0, NUMBER_MAX, "1", AT(config_type, weight),
           "its share of the arrivals; without `arrivals`, their number"),
    DURATION("hold", 0, NULL, AT(config_type, hold),
             "how long it holds a slot; required with `conc_budget`"),
    END,
};

/* All sections of the policy lie in its struct. */
#define OF_POLICY(table, member)                                                                   \
    {                                                                                              \
        .keys = table, .bytes = sizeof(struct config_policy), .present = member                    \
    }

static const struct schema_section duals = OF_POLICY(dual_keys, AT(config_policy, has_duals));
static const struct schema_section types = {type_keys, sizeof(struct config_type), NOWHERE,
                                            config_finish_type};

static const struct schema_key workload_keys[] = {
    COUNT("arrivals", 1, NUMBER_MAX, NULL, AT(config_policy, workload.arrivals),
          "number of arrivals that the budgets cover; weights are shares of it. If left out, "
          "weights are counts"),
    SECTIONS("types", &types, AT(config_policy, workload.types),
             AT(config_policy, workload.n_types), "the kinds of calls, 1 to 256"),
    POSITIVE("rate_budget", 0, NUMBER_MAX, NULL, AT(config_policy, workload.rate_budget),
             "budget of calls"),
    POSITIVE("cost_budget", 0, NUMBER_MAX, NULL, AT(config_policy, workload.cost_budget),
             "budget of cost, in units"),
    DURATION("conc_budget", 1, NULL, AT(config_policy, workload.conc_budget),
             "budget of slot-seconds; without it no `hold` is required"),
    END,
};

static const struct schema_key adaptive_keys[] = {
    COUNT("sample_window", 1, 1000000, "500", AT(config_policy, sample_window),
          "number of calls that the prices are learned from"),
    END,
};

static const struct schema_key online_keys[] = {
    DURATION("window", 1, "60s", AT(config_policy, online.window),
             "the period that the budgets cover"),
    POSITIVE(
        "rate_budget", 0, NUMBER_MAX, NULL, AT(config_policy, online.rate_budget),
        "calls in a window; if left out, they are not scarce; if all budgets are, those of the "
        "limits hold"),
    POSITIVE("cost_budget", 0, NUMBER_MAX, NULL, AT(config_policy, online.cost_budget),
             "units of cost in a window; likewise"),
    DURATION("conc_budget", 1, NULL, AT(config_policy, online.conc_budget),
             "slot-seconds in a window; if left out, they are not scarce"),
    WORD("replenish", "window|steady", "window", AT(config_policy, online.replenish),
         "window: budgets are replenished when a window begins; steady: continuously, as in a "
         "token bucket"),
    VALUE("guard", SCHEMA_BOOL, false, NULL, "true", AT(config_policy, online.guard),
          "keep 99 % of what would be earned without a policy, since the start, if the budgets are "
          "right"),
    END,
};

static const struct schema_section workload =
    OF_POLICY(workload_keys, AT(config_policy, workload.present));
static const struct schema_section adaptive = OF_POLICY(adaptive_keys, NOWHERE);
static const struct schema_section online = OF_POLICY(online_keys, NOWHERE);

static const struct schema_key policy_keys[] = {
    WORD("kind", "none|bid-price", "none", AT(config_policy, kind),
         "how calls are selected when not all fit; bid-price needs a cost axis"),
    WORD("prices", PRICES_WORDS, "workload", AT(config_policy, prices),
         "where the prices come from"),
    MODE(AT(config_policy, mode)),
    SECTION("duals", &duals, 0, "prices that you set; without types, adaptive starts from them"),
    SECTION("workload", &workload, 0,
            "the expected load; prices are computed from it at the start; adaptive starts from "
            "them, and so does online if it is given"),
    SECTION("adaptive", &adaptive, 0, "prices learned from a sample"),
    SECTION("online", &online, 0, "prices that are recomputed all the time"),
    END,
};

static const struct schema_section policy = OF_POLICY(policy_keys, NOWHERE);

static const struct schema_key gate_keys[] = {
    WORD("charging", "atomic|per-axis", "atomic", AT(config_gate, charging),
         "atomic: a refused call is charged nothing; per-axis: if cost refuses, what rate took "
         "stays spent"),
    DURATION("lease_ttl", 1, "600s", AT(config_gate, lease_ttl),
             "a lease that is neither released nor renewed expires after this"),
    SECTION("concurrency", &schema_concurrency, AT(config_gate, concurrency),
            "how many calls run at once, all tenants together"),
    SECTION("queue", &queue, AT(config_gate, concurrency), "calls that wait for a slot"),
    NUMBER("low_priority_shed_ratio", 0, 1, "0.5",
           AT(config_gate, concurrency.low_priority_shed_ratio),
           "fraction of the limit that low-priority calls may hold; 1: all of it"),
    SECTION("peers", &peers, AT(config_gate, peers), "how many calls one peer may have at once"),
    SECTION("memory", &memory, AT(config_gate, memory), "refuse calls when memory runs out"),
    LIMITER("rate", AT(config_gate, rate),
            "calls per time, for each tenant without a rate of its own"),
    LIMITER("cost", AT(config_gate, cost),
            "tokens per time, for each tenant without a cost of its own"),
    SECTION("policy", &policy, AT(config_gate, policy), "which calls to admit when not all fit"),
    END,
};

const struct schema_section schema_gate = {gate_keys, sizeof(struct config_gate), NOWHERE, NULL};
