/* call_translation.h - a call whose provider speaks another dialect than its client.
 *
 * It exists from the choice of such a route until the call leaves that route or ends. The request
 * is translated once for a route, before its slot is asked for; the reply anew for each attempt. A
 * whole reply is kept until its end, a stream is passed on event by event.
 */
#ifndef TG_PROXY_CALL_TRANSLATION_H
#define TG_PROXY_CALL_TRANSLATION_H

#include "server/dialect/translate/translation.h"
#include "server/proxy/call.h"
#include "server/upstream/route_way.h"

struct call_translation {
    const struct dialect_ops *client, *provider;
    int64_t now_s;           /* by the wall clock, for a thread of the pool */
    struct body_buffer body; /* the request for the provider */
    size_t escapes;          /* bytes of escapes in it */
    int64_t bound;           /* what money bounds its output by; -1: nothing */
    struct json_writer out;  /* what is being written: the request, then pieces of the reply */
    struct neutral_dropped dropped;
    struct reply_terms terms;
    struct body_buffer reply; /* a whole reply, as far as it has come */
    bool lost;                /* there was no room for all of it */
    bool replying;            /* `translation` is there */
    struct translation translation;
};

#define CALL_FALLBACKS_CHECKED 64 /* bits of call.uncarried */

/* ---- call_way.c ---- */

enum route_way call_way(const struct call *call, const struct route *route, enum dialect *to);

/* Ends what is known of a reply, for another attempt or route. */
void call_translated_forget(struct call *call);

/* ---- call_translated.c: the reply ---- */

/* The head of a reply has come, which is no error. */
void call_translated_head(struct call *call);
enum call_failure call_translated_data(struct call *call, struct slice bytes);

/* The reply has ended, and its usage is known. */
enum call_failure call_translated_end(struct call *call);

/* The reply broke off after it had begun. */
void call_translated_broken(struct call *call);

/* Whether the client's reply has ended in an error, or cannot be completed for want of memory. */
bool call_translated_is_lost(const struct call *call);

/* The error that is kept back, in the client's form. False: there is no memory for it. */
bool call_translated_error(struct call *call, const struct neutral_error *error);

/* ---- call_answer.c, for the above ---- */

void call_answer_begin(struct call *call, const struct http_head *from);
void call_answer_pass(struct call *call, struct slice bytes);

#endif
