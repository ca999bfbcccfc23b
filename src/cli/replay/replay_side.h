/* replay_side.h - the gate of one configuration, told the events of a trace.
 *
 * A replay has one side, a comparison two. Time, order and waiting are those of sim/gate_run.h,
 * what a call has to clear is what gateway/scopes.h says; here ids become leases.
 */
#ifndef TG_REPLAY_REPLAY_SIDE_H
#define TG_REPLAY_REPLAY_SIDE_H

#include "cli/common/command.h"
#include "cli/replay/replay_ids.h"
#include "cli/replay/replay_remote.h"
#include "cli/replay/trace.h"
#include "lab/regret/gate_run.h"
#include "server/config/config.h"
#include "server/tenancy/scopes.h"
#include "tollgate.h"

struct replay_call {
    struct gate_run_call run; /* first: the run knows the call by it */
    struct tg_scope room[TG_SCOPES_MAX];
    struct scopes_who who;
    struct json_text id; /* null bytes: it has none */
    int64_t id_number;
    bool id_is_number;
    uint64_t line; /* line number in the trace */
    void *tag;     /* belongs to the owner of the side */
    char *texts;   /* copies for a call that waits: the line that its texts were in is gone */
    struct replay_call *next_spare, *next_made;
};

/* A call is decided; `answer` null: it was released while it waited, and never will be. */
typedef void replay_side_decided(void *context, const struct replay_call *call,
                                 const struct tg_answer *answer, tg_ms at);

struct replay_side {
    struct config config;
    struct tg_store *store;
    struct limit_book *book;
    struct limit_listing *listing; /* set for a side whose limits are in Redis; else null */
    struct replay_remote remote;
    struct tg_policy *policy; /* null: every call is worth it */
    struct scopes *scopes;
    struct gate_run run;
    struct replay_ids ids;
    struct replay_call *spare, *made;
    replay_side_decided *decided;
    void *context;
    bool ids_may_repeat; /* a call may take over the id of one that has not ended; default false */

    /* Why the replay has to stop: */
    int status; /* STATUS_DONE: it can */
    uint64_t line;
    struct tg_problem problem;
};

/* `remote`, borrowed, has rate and cost; null: they are kept here. False after saying what is
 * wrong; `status` has what to end with. */
bool replay_side_init(struct replay_side *side, const struct command *command, const char *path,
                      uint64_t seed, struct replay_store *remote, replay_side_decided *decided,
                      void *context);
void replay_side_fini(struct replay_side *side);

/* What a line says. For a limits line, `stats` is filled. False: see above. */
bool replay_side_event(struct replay_side *side, const struct trace_event *event, uint64_t line,
                       void *tag, struct tg_gate_stats *stats);

/* After the last line: until every call that waits is decided. */
bool replay_side_finish(struct replay_side *side);

#endif
