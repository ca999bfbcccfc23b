/* fleet_internal.h - the struct of a fleet, for fleet.c and fleet_ask.c. */
#ifndef TG_FLEET_FLEET_INTERNAL_H
#define TG_FLEET_FLEET_INTERNAL_H

#include "server/fleet/fleet.h"
#include "server/remote_store/scripts.h"

struct json_reader;

enum fleet_key {
    FLEET_HEAD,
    FLEET_ENTRIES,
    FLEET_LOG,
    FLEET_REPORTS,
    FLEET_REGRESSED_KEY,
    FLEET_KEYS
};

struct fleet {
    struct fleet_options options;
    char keys[FLEET_KEYS][224];
    char id[40], name[FLEET_NAME_MAX], program[24];
    void (*behind)(void *context);
    void (*changed)(void *context);
    void *context;
    bool ended;

    /* What is known. */
    enum fleet_state state;
    enum fleet_event seen;
    struct ledger_fleet_mark mark;
    int64_t stored_version;
    char stored_epoch[LEDGER_FLEET_ID + 1]; /* "-": it is empty */
    char lineage[1024];                     /* the lineage of the store that was last followed */
    bool met;                               /* the store has answered since the start */
    bool was_read;                          /* a state of it has been applied since the start */
    bool flagged;
    char policy[40], problem[200];
    tg_ms answered_at; /* when the store last answered; the start, until it has */
    tg_ms behind_since, failed_at, report_at, policy_at, since;
    struct fleet_report *reports;
    size_t n_reports, reports_room;
    tg_ms reported_at;
    struct json_reader *reader;

    struct net_timer timer;
    struct redis_ask head_ask, report_ask, policy_ask;
    bool head_asked, report_asked, policy_asked;

    /* fleet_ask.c: one question of the owner's at a time. */
    struct redis_ask read_ask, store_ask;
    bool reading, storing;
    fleet_read_done *read_done;
    fleet_store_done *store_done;
    void *read_context, *store_context;
    struct net_timer again; /* a change that is sent once more */
    int tries;
    bool was_sent; /* by one of them: it may have been stored */
    const char *mode;
    struct ledger_fleet_mark made_for, made;
    char made_lineage[1024];
    struct slice *args;
    size_t n_args;
};

void fleet_asks_init(struct fleet *fleet);

#endif
