/* fleet_heard.h - who of a fleet has answered a question, and who has not: one entry a gateway that
 * was heard of in the last day, or that has answered. The one that asked comes first. */
#ifndef TG_ADMIN_FLEET_HEARD_H
#define TG_ADMIN_FLEET_HEARD_H

#include "io/text/json_write.h"
#include "server/fleet/fleet_question.h"

struct gateway;
struct merge;

struct heard {
    const struct fleet_report *report; /* null: it has answered, and has said nothing else yet */
    const char *id, *name;
    bool is_self, has_answered;
    bool is_unreadable;     /* it has answered something else */
    struct slice text;      /* its answer; of two processes, the first's */
    struct merge *snapshot; /* whoever asks for snapshots keeps one here */
};

struct fleet_heard {
    struct heard *list;
    size_t n;
    bool away, busy; /* nobody could be asked */
    tg_ms since;     /* how old reports are */
    char alone[40];  /* the id of a gateway that shares no store */
};

/* Copies nothing: good as long as the replies are, and until the next turn of the loop. False: no
 * memory. */
bool fleet_heard_init(struct fleet_heard *heard, const struct gateway *gateway,
                      const struct fleet_replies *replies, tg_ms now);
void fleet_heard_fini(struct fleet_heard *heard);

/* The one of that id. */
struct heard *fleet_heard_find(const struct fleet_heard *heard, const char *id);

/* Whether all that live have answered. */
bool fleet_heard_is_complete(const struct fleet_heard *heard);

/* id, name, program, answer, silent_ms. */
void fleet_heard_write(struct json_writer *out, const struct fleet_heard *heard,
                       const struct heard *one);

#endif
