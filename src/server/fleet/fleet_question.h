/* fleet_question.h - one gateway asks all of its fleet, and they answer through the store: a
 * snapshot, or what a call would be told.
 *
 *     asker                        the store                       every other gateway
 *     fleet_question_new() ----->  question 7, head: asked = 7
 *                                       '----- the next look ------> asked()
 *                                  answer of gw2 to 7  <------------ fleet_answer()
 *     done()  <-- collects -----'
 *
 * Gateways see a question with the look at the head that they take anyway, ten times a second
 * (fleet.h): while nobody asks, it costs one field of a reply that was read before. A gateway reads
 * questions four times a second at most, and answers all that are of one text with one answer: what
 * is asked costs it no more, however many look.
 *
 *     <prefix>:fleet:{fleet}:head            its field `asked` is the number of the last question
 *     <prefix>:fleet:{fleet}:questions       number -> when, who, what
 *     <prefix>:fleet:{fleet}:answered:HASH   process -> the last question that it has answered
 *     <prefix>:fleet:{fleet}:answers:HASH    process -> its answer; HASH is of what was asked
 *
 * A process is named LEDGER.PROCESS, so that two that share a ledger for a moment, one taking over
 * from the other, both answer, and are waited for: the report of their gateway says how many they
 * are. Nothing is kept for longer than five seconds. An answer says something of the moment at
 * which it was made, after the question was asked. Whoever does not answer is waited for a second
 * at most.
 *
 * Everything here belongs to the thread of the loop, and has nothing to do with calls.
 */
#ifndef TG_FLEET_FLEET_QUESTION_H
#define TG_FLEET_FLEET_QUESTION_H

#include "server/fleet/fleet.h"

#define FLEET_TEXT_MAX ((size_t)16 << 10)    /* bytes of a question */
#define FLEET_ANSWER_MAX ((size_t)256 << 10) /* bytes of an answer */
#define FLEET_WAIT_MS 1000                   /* for answers, together */
#define FLEET_PROCESS_MAX 64

struct fleet_question;

/* ---- Asking ---- */

struct fleet_reply {
    char id[40];                     /* the gateway's, as in its report */
    char process[FLEET_PROCESS_MAX]; /* LEDGER.PROCESS */
    struct slice text;               /* JSON_PADDING bytes after it may be read */
};

struct fleet_replies {
    bool away; /* the store did not answer: nobody could be asked */
    bool busy; /* too many questions are open */
    const struct fleet_reply *list;
    size_t n;
};

typedef void fleet_question_done(void *context, const struct fleet_replies *answers);

/* Asks all others; the answer of this gateway is its own affair. done() comes later, from the loop,
 * once, unless it is ended first; what it is given is good until it is ended. Null: no memory, or
 * the text is too long. */
struct fleet_question *fleet_question_new(struct fleet *fleet, struct slice text,
                                          fleet_question_done *done, void *context);

/* In whatever state; null is allowed. */
void fleet_question_end(struct fleet_question *question);

/* Whether a gateway is expected to answer: it was heard of lately, and its program can. */
bool fleet_can_answer(const struct fleet_report *report);

/* ---- Answering ---- */

struct fleet_asked {
    int64_t number;
    char hash[33];
};

/* Whoever answers: each text that was asked is told once, and is good during the call alone.
 * Null: nobody. */
void fleet_on_question(struct fleet *fleet,
                       void (*asked)(void *context, const struct fleet_asked *asked,
                                     struct slice text),
                       void *context);

/* Now or later: what comes after three seconds nobody waits for. Longer ones than FLEET_ANSWER_MAX
 * are not sent. */
void fleet_answer(struct fleet *fleet, const struct fleet_asked *asked, struct slice text);

#endif
