/* fleet_internal.h - the struct of a fleet, for fleet.c, fleet_ask.c and fleet_question.c. */
#ifndef TG_FLEET_FLEET_INTERNAL_H
#define TG_FLEET_FLEET_INTERNAL_H

#include <sys/queue.h>

#include "server/fleet/fleet_question.h"
#include "server/remote_store/scripts.h"

struct json_reader;

enum fleet_key {
    FLEET_HEAD,
    FLEET_ENTRIES,
    FLEET_LOG,
    FLEET_REPORTS,
    FLEET_REGRESSED_KEY,
    FLEET_QUESTIONS,
    FLEET_KEYS
};

enum { FLEET_KEY_BYTES = 224 };

struct fleet {
    struct fleet_options options;
    char keys[FLEET_KEYS][FLEET_KEY_BYTES];
    char prefix[FLEET_KEY_BYTES - 32];
    char id[40], process[FLEET_PROCESS_MAX], name[FLEET_NAME_MAX], program[24];
    void (*behind)(void *context);
    void (*changed)(void *context);
    void *context;
    int64_t processes;
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
    char replaced[LEDGER_FLEET_ID + 1]; /* a restore: the `stored_epoch` that it is meant for */
    struct slice *args;
    size_t n_args;

    /* fleet_question.c */
    LIST_HEAD(, fleet_question) questions; /* this gateway's own */
    LIST_HEAD(, fleet_send) sends;         /* answers on their way */
    size_t n_sends;
    void (*asked)(void *context, const struct fleet_asked *asked, struct slice text);
    void *asked_context;
    struct redis_ask questions_ask;
    bool questions_asked;
    int64_t seen_asked; /* the number in the head when questions were read last */
    int64_t answered;   /* the highest number that was told */
    tg_ms questions_at; /* when they were read last */
};

void fleet_asks_init(struct fleet *fleet);

/* fleet_question.c */
void fleet_questions_init(struct fleet *fleet);
void fleet_questions_free(struct fleet *fleet);
void fleet_saw_asked(struct fleet *fleet, int64_t number, tg_ms now);

#endif
