/* metrics_store.c - where limits are kept, on the page of metrics: memory, and Redis if there is.
 * */
#include "server/admin/metrics_parts.h"
#include "server/remote/shared.h"

/* A store in this process is there as long as the process is; it can only be full. */
static void write_memory(struct exposition *text, struct gateway *gateway)
{
    struct tg_store_stats stats;

    tg_store_get_stats(gateway->store, &stats);
    expose_single(text, "tollgate_store_keys", "gauge", "Whose limits are kept in memory.",
                  (int64_t)stats.keys);
    expose_single(text, "tollgate_store_bytes", "gauge", "What they take.",
                  (int64_t)stats.memory_bytes);
    expose_single(text, "tollgate_store_refused_total", "counter",
                  "Debits that failed because there was no room for a new key.",
                  (int64_t)stats.refused);
}

static int64_t count_of(const atomic_ullong *count)
{
    return (int64_t)atomic_load_explicit(count, memory_order_relaxed);
}

static void write_redis(struct exposition *text, const struct shared *shared)
{
    expose_single(text, "tollgate_nodes", "gauge", "Gateways that live and share this store.",
                  (int64_t)atomic_load_explicit(&shared->nodes, memory_order_relaxed));
    expose_begin(text, "tollgate_store_decisions_total", "counter",
                 "What was decided, and by whom: redis, blocks leased from it, or, while it is "
                 "away, the local share, open or closed.");
    for (int what = 0; what < SHARED_WHAT_COUNT; what++)
        for (int way = 0; way < SHARED_WAY_COUNT; way++)
            expose_line(text,
                        &(struct expose_labels){{{"what", shared_what_name((enum shared_what)what)},
                                                 {"by", shared_way_name((enum shared_way)way)}}},
                        count_of(&shared->decided[what][way]));
    expose_single(text, "tollgate_store_commands_total", "counter", "Commands sent to Redis.",
                  count_of(&shared->commands));
    expose_begin(text, "tollgate_store_errors_total", "counter",
                 "Answers of Redis that came after their time, that never came, or that were an "
                 "error.");
    expose_line(text, &(struct expose_labels){{{"kind", "late"}}}, count_of(&shared->late));
    expose_line(text, &(struct expose_labels){{{"kind", "lost"}}}, count_of(&shared->lost));
    expose_line(text, &(struct expose_labels){{{"kind", "error"}}}, count_of(&shared->errors));
    expose_single(text, "tollgate_store_untold", "gauge",
                  "Refunds, settlements and debts of limits that Redis is told of when it is back.",
                  count_of(&shared->waiting));
    expose_single(text, "tollgate_store_untold_dropped_total", "counter",
                  "Of these, what was dropped: too many waited, or it was in doubt for too long.",
                  count_of(&shared->dropped));
}

void metrics_write_store(struct exposition *text, struct gateway *gateway)
{
    enum shared_state now = shared_state_of(gateway->shared);

    expose_begin(text, "tollgate_store_state", "gauge",
                 "1 for the state of the store in which limits are kept.");
    for (int i = 0; i < SHARED_STATE_COUNT; i++)
        expose_line(text,
                    &(struct expose_labels){{{"state", shared_state_name((enum shared_state)i)}}},
                    i == (int)now);
    write_memory(text, gateway);
    if (gateway->shared)
        write_redis(text, gateway->shared);
}
