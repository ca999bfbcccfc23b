/* metrics_store.c - where limits are kept, on the page of metrics: memory, and Redis if there is.
 * */
#include "server/probe/metrics_page_internal.h"
#include "server/remote/remote.h"

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

static void write_redis(struct exposition *text, const struct remote *remote)
{
    expose_single(text, "tollgate_nodes", "gauge", "Gateways that live and share this store.",
                  (int64_t)atomic_load_explicit(&remote->nodes, memory_order_relaxed));
    expose_begin(text, "tollgate_store_decisions_total", "counter",
                 "What was decided, and by whom: redis, blocks leased from it, or, while it is "
                 "away, the local share, open or closed.");
    for (int what = 0; what < REMOTE_KIND_COUNT; what++)
        for (int way = 0; way < REMOTE_MODE_COUNT; way++)
            expose_line(text,
                        &(struct expose_labels){{{"what", remote_kind_name((enum remote_kind)what)},
                                                 {"by", remote_mode_name((enum remote_mode)way)}}},
                        count_of(&remote->decided[what][way]));
    expose_single(text, "tollgate_store_commands_total", "counter", "Commands sent to Redis.",
                  count_of(&remote->commands));
    expose_begin(text, "tollgate_store_errors_total", "counter",
                 "Answers of Redis that came after their time, that never came, or that were an "
                 "error.");
    expose_line(text, &(struct expose_labels){{{"kind", "late"}}}, count_of(&remote->late));
    expose_line(text, &(struct expose_labels){{{"kind", "lost"}}}, count_of(&remote->lost));
    expose_line(text, &(struct expose_labels){{{"kind", "error"}}}, count_of(&remote->errors));
    expose_single(
        text, "tollgate_store_untold", "gauge",
        "Refunds, settlements and debts of limits that are sent to Redis when it is back.",
        count_of(&remote->waiting));
    expose_single(text, "tollgate_store_untold_dropped_total", "counter",
                  "Of these, what was dropped: too many waited, or it was in doubt for too long.",
                  count_of(&remote->dropped));
}

void metrics_write_store(struct exposition *text, struct gateway *gateway)
{
    enum remote_health now = remote_health_of(gateway->remote);

    expose_begin(text, "tollgate_store_state", "gauge",
                 "1 for the state of the store in which limits are kept.");
    for (int i = 0; i < REMOTE_STATE_COUNT; i++)
        expose_line(text,
                    &(struct expose_labels){{{"state", remote_health_name((enum remote_health)i)}}},
                    i == (int)now);
    write_memory(text, gateway);
    if (gateway->remote)
        write_redis(text, gateway->remote);
}
