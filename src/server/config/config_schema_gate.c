/* config_schema_gate.c - the keys of `gate`: the stages that a call has to clear. */
#include "server/config/config_schema_rows.h"

#define LAW_WORD(upper, lower) #lower "|"
#define LAW_WORDS TG_LAWS(LAW_WORD)
#define PRICES_WORD(upper, text) text "|"
#define PRICES_WORDS TG_PRICE_SOURCES(PRICES_WORD)

static const struct schema_key vegas_keys[] = {
    POSITIVE("alpha", 0, NUMBER_MAX, "2", AT(tg_law_config, vegas.alpha),
             "fewer calls than this are waiting somewhere: one more may run"),
    POSITIVE("beta", 0, NUMBER_MAX, "8", AT(tg_law_config, vegas.beta),
             "more calls than this are waiting: one less may run; above alpha"),
    NUMBER("min_utilisation", 0, 1, "0.5", AT(tg_law_config, vegas.min_utilisation),
           "the limit grows only if this part of it was in use; 0: always"),
    END,
};

static const struct schema_key gradient2_keys[] = {
    NUMBER("tolerance", 1, NUMBER_MAX, "2.0", AT(tg_law_config, gradient2.tolerance),
           "how much slower than the fastest is not yet slow"),
    POSITIVE("smoothing", 0, 1, "0.2", AT(tg_law_config, gradient2.smoothing),
             "weight of a new sample"),
    COUNT("rtt_window", 1, 10000, "100", AT(tg_law_config, gradient2.rtt_window),
          "samples that the fastest is taken of"),
    END,
};

static const struct schema_key aimd_keys[] = {
    NUMBER("tolerance", 1, NUMBER_MAX, "2.0", AT(tg_law_config, aimd.tolerance),
           "how much slower than the fastest is not yet slow"),
    NUMBER("backoff", 0.5, 1, "0.9", AT(tg_law_config, aimd.backoff),
           "factor of a decrease; below 1"),
    COUNT("rtt_window", 1, 10000, "100", AT(tg_law_config, aimd.rtt_window),
          "samples that the fastest is taken of"),
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
     .later = "auto",                                                                              \
     .otherwise = normal_law,                                                                      \
     .offset = AT(config_concurrency, law.law),                                                    \
     .help = "what moves the limit; fixed: it is `initial`; none: it is `max`"},                   \
        COUNT("initial", 1, NUMBER_MAX, "128", AT(config_concurrency, law.initial),                \
              "the limit at the start, within min and max; left out, the nearest to the default "  \
              "that is"),                                                                          \
        COUNT("min", 1, NUMBER_MAX, "8", AT(config_concurrency, law.min),                          \
              "the limit never falls below; left out, at most initial and max"),                   \
        COUNT("max", 1, NUMBER_MAX, normal_max, AT(config_concurrency, law.max),                   \
              "the limit never rises above; left out, at least initial and min"),                  \
        DURATION("window", 1, "1s", AT(config_concurrency, law.window),                            \
                 "time between steps of vegas"),                                                   \
        {.name = "divide",                                                                         \
         .kind = SCHEMA_BOOL,                                                                      \
         .otherwise = "false",                                                                     \
         .offset = AT(config_concurrency, divide),                                                 \
         .help = "with Redis as the store: the limit is of all gateways together, and each that "  \
                 "lives has its share"},                                                           \
        MODE(AT(config_concurrency, mode)),                                                        \
        SECTION("vegas", &vegas, AT(config_concurrency, law), "settings of the law vegas"),        \
        SECTION("gradient2", &gradient2, AT(config_concurrency, law),                              \
                "settings of the law gradient2"),                                                  \
        SECTION("aimd", &aimd, AT(config_concurrency, law), "settings of the law aimd"), END

static const struct schema_key concurrency_keys[] = {CONCURRENCY_KEYS("vegas", "1024")};
static const struct schema_key model_concurrency_keys[] = {CONCURRENCY_KEYS("none", "512")};

const struct schema_section schema_concurrency = {
    concurrency_keys, sizeof(struct config_concurrency), AT(config_concurrency, present),
    config_finish_concurrency};

const struct schema_section schema_model_concurrency = {
    model_concurrency_keys, sizeof(struct config_concurrency), AT(config_concurrency, present),
    config_finish_concurrency};

static const struct schema_key wait_keys[] = {
    DURATION("high", 0, "100ms", AT(config_concurrency, queue.wait[CONFIG_HIGH]),
             "longest wait of a high call"),
    DURATION("normal", 0, "50ms", AT(config_concurrency, queue.wait[CONFIG_NORMAL]),
             "longest wait of a normal call"),
    DURATION("low", 0, "0ms", AT(config_concurrency, queue.wait[CONFIG_LOW]),
             "longest wait of a low call; 0ms: it never waits"),
    END,
};

static const struct schema_key share_keys[] = {
    NUMBER("normal", 0, 1, "0.2", AT(config_concurrency, queue.shares[0]),
           "what normal earns of each grant made above it"),
    NUMBER("low", 0, 1, "0.05", AT(config_concurrency, queue.shares[1]),
           "what low earns of each grant made above it"),
    END,
};

static const struct schema_section wait = {wait_keys, sizeof(struct config_concurrency), NOWHERE,
                                           0};
static const struct schema_section shares = {share_keys, sizeof(struct config_concurrency), NOWHERE,
                                             0};

/* The queue belongs to the stage concurrency and lies in its struct. */
static const struct schema_key queue_keys[] = {
    COUNT("size", 0, 1000000, "1024", AT(config_concurrency, queue.size),
          "calls that may wait, of each class; 0: none"),
    SECTION("wait", &wait, 0, "how long a call may wait, by class"),
    SECTION("shares", &shares, 0, "what a class earns while a higher one is served"),
    END,
};

static const struct schema_section queue = {queue_keys, sizeof(struct config_concurrency), NOWHERE,
                                            0};

static const struct schema_key peers_keys[] = {
    COUNT("limit", 1, NUMBER_MAX, "64", AT(config_peers, limit), "calls of one peer at once"),
    COUNT("max_peers", 1, 16777216, "65536", AT(config_peers, max_peers),
          "peers that are counted at once"),
    MODE(AT(config_peers, mode)),
    END,
};

static const struct schema_section peers = {peers_keys, sizeof(struct config_peers),
                                            AT(config_peers, present), NULL};

static const struct schema_key memory_keys[] = {
    POSITIVE("pressure", 0, 1, "0.85", AT(config_memory, pressure),
             "used fraction above which low is refused"),
    POSITIVE("critical", 0, 1, "0.95", AT(config_memory, critical),
             "used fraction above which all but high is refused"),
    POSITIVE("limit", 0, 1, "0.98", AT(config_memory, limit),
             "used fraction above which all is refused"),
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
    NUMBER("cost", 0, NUMBER_MAX, "1", AT(config_type, cost), "units of a call of this type"),
    NUMBER("value", 0, NUMBER_MAX, "1", AT(config_type, value), "what it is worth"),
    NUMBER("weight", 0, NUMBER_MAX, "1", AT(config_type, weight),
           "its share of the arrivals; without `arrivals`, how many there are"),
    DURATION("hold", 0, NULL, AT(config_type, hold),
             "how long it holds a slot; needed with conc_budget"),
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
          "how many arrivals the budgets are for: weights are shares of them; left out, weights "
          "are used as they are"),
    SECTIONS("types", &types, AT(config_policy, workload.types),
             AT(config_policy, workload.n_types), "the kinds of calls, 1 to 256"),
    POSITIVE("rate_budget", 0, NUMBER_MAX, NULL, AT(config_policy, workload.rate_budget), "calls"),
    POSITIVE("cost_budget", 0, NUMBER_MAX, NULL, AT(config_policy, workload.cost_budget),
             "units of cost"),
    DURATION("conc_budget", 1, NULL, AT(config_policy, workload.conc_budget),
             "slot-seconds; without it no hold is needed"),
    END,
};

static const struct schema_key adaptive_keys[] = {
    COUNT("sample_window", 1, 1000000, "500", AT(config_policy, sample_window),
          "calls that the prices are learned from"),
    END,
};

static const struct schema_key online_keys[] = {
    DURATION("window", 1, "60s", AT(config_policy, online.window), "what the budgets are for"),
    POSITIVE("rate_budget", 0, NUMBER_MAX, NULL, AT(config_policy, online.rate_budget),
             "calls in a window; left out, they are not scarce"),
    POSITIVE("cost_budget", 0, NUMBER_MAX, NULL, AT(config_policy, online.cost_budget),
             "units of cost in a window; left out, they are not scarce"),
    DURATION("conc_budget", 1, NULL, AT(config_policy, online.conc_budget),
             "slot-seconds in a window; left out, they are not scarce"),
    WORD("replenish", "window|steady", "window", AT(config_policy, online.replenish),
         "window: budgets are whole again when a window begins; steady: they come back all the "
         "time, as in a bucket"),
    END,
};

static const struct schema_section workload =
    OF_POLICY(workload_keys, AT(config_policy, workload.present));
static const struct schema_section adaptive = OF_POLICY(adaptive_keys, NOWHERE);
static const struct schema_section online = OF_POLICY(online_keys, NOWHERE);

static const struct schema_key policy_keys[] = {
    WORD("kind", "none|bid-price", "none", AT(config_policy, kind),
         "which calls are worth it when not all fit; bid-price needs a cost axis"),
    WORD("prices", PRICES_WORDS, "workload", AT(config_policy, prices),
         "where the prices come from"),
    MODE(AT(config_policy, mode)),
    SECTION("duals", &duals, 0, "prices as given; what adaptive starts from without types"),
    SECTION("workload", &workload, 0,
            "what is expected: prices are computed at the start; adaptive starts from them, and so "
            "does online if it is there"),
    SECTION("adaptive", &adaptive, 0, "prices learned from a sample"),
    SECTION("online", &online, 0, "prices computed again all the time"),
    END,
};

static const struct schema_section policy = OF_POLICY(policy_keys, NOWHERE);

static const struct schema_key gate_keys[] = {
    WORD("charging", "atomic|per-axis", "atomic", AT(config_gate, charging),
         "atomic: a refused call is charged nothing; per-axis: what rate took stays spent when "
         "cost refuses"),
    DURATION("lease_ttl", 1, "600s", AT(config_gate, lease_ttl),
             "a lease that is not released or renewed ends after this"),
    SECTION("concurrency", &schema_concurrency, AT(config_gate, concurrency),
            "how many calls run at once, all tenants together"),
    SECTION("queue", &queue, AT(config_gate, concurrency), "calls that wait for a slot"),
    NUMBER("low_priority_shed_ratio", 0, 1, "0.5",
           AT(config_gate, concurrency.low_priority_shed_ratio),
           "share of the limit that low calls may hold; 1: all of it"),
    SECTION("peers", &peers, AT(config_gate, peers), "how many calls of one peer at once"),
    SECTION("memory", &memory, AT(config_gate, memory), "refuse when memory runs out"),
    LIMITER("rate", AT(config_gate, rate),
            "calls per time, for each tenant without a rate of its own"),
    LIMITER("cost", AT(config_gate, cost),
            "tokens per time, for each tenant without a cost of its own"),
    SECTION("policy", &policy, AT(config_gate, policy), "which calls are worth it"),
    END,
};

const struct schema_section schema_gate = {gate_keys, sizeof(struct config_gate), NOWHERE,
                                           config_finish_gate};
