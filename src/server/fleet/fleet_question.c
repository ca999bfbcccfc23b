/* fleet_question.c - asks all gateways, and has this one answer. See fleet_question.h. */
#include "server/fleet/fleet_question.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/text/json_read.h"
#include "lib/core/array.h"
#include "lib/core/container_of.h"
#include "server/fleet/fleet_internal.h"

enum { COLLECT_MS = 50, READ_MS = 250, ANSWERS_MAX = 128, SENDS_MAX = 64 };

struct fleet_question {
    LIST_ENTRY(fleet_question) link; /* among those of the fleet */
    struct fleet *fleet;
    fleet_question_done *done; /* null: it has come, or whoever asked has gone */
    void *context;
    bool ended;     /* its owner has gone: it is freed when nothing is in flight */
    bool over;      /* done() has come */
    int64_t number; /* 0: the store has not given it one yet */
    tg_ms until;    /* no answer is waited for any longer */
    bool asking;    /* a command is in flight */
    char hash[33];  /* the hash of its text */
    struct redis_ask ask;
    struct net_timer timer;
    struct fleet_reply *list;
    size_t n, room;
};

/* An answer on its way to the store. */
struct fleet_send {
    LIST_ENTRY(fleet_send) link;
    struct fleet *fleet;
    struct redis_ask ask;
};

static void hash_text(struct slice text, char hash[33])
{
    XXH128_hash_t of = XXH3_128bits(text.at, text.n);

    snprintf(hash, 33, "%016llx%016llx", (unsigned long long)of.high64,
             (unsigned long long)of.low64);
}

/* The two hashes of answers to a text. */
struct answer_keys {
    char text[2][FLEET_KEY_BYTES + 48];
    struct slice keys[2];
};

static void name_answers(const struct fleet *fleet, const char *hash, struct answer_keys *names)
{
    static const char *const PARTS[] = {"answered", "answers"};

    for (int i = 0; i < 2; i++) {
        snprintf(names->text[i], sizeof names->text[i], "%s:fleet:{fleet}:%s:%s", fleet->prefix,
                 PARTS[i], hash);
        names->keys[i] = slice_of(names->text[i]);
    }
}

/* ---- Asking ---- */

bool fleet_can_answer(const struct fleet_report *report)
{
    return report->answers && report->silent <= FLEET_SILENT_MS;
}

static void fleet_question_free(struct fleet_question *question)
{
    assert(!question->asking || question->fleet->ended);
    LIST_REMOVE(question, link);
    net_timer_stop(question->fleet->options.loop, &question->timer);
    for (size_t i = 0; i < question->n; i++)
        free((void *)(uintptr_t)question->list[i].text.at);
    free(question->list);
    free(question);
}

static void finish(struct fleet_question *question, bool away, bool busy)
{
    struct fleet_replies answers = {
        .away = away, .busy = busy, .list = question->list, .n = question->n};

    net_timer_stop(question->fleet->options.loop, &question->timer);
    question->over = true;
    if (!question->ended)
        question->done(question->context, &answers);
    else if (!question->asking)
        fleet_question_free(question);
}

/* Processes of gateways that are expected to answer, and have not; this one is none of them. */
static int64_t count_missing(const struct fleet_question *question)
{
    const struct fleet *fleet = question->fleet;
    int64_t missing = 0;

    for (size_t i = 0; i < fleet->n_reports; i++) {
        const struct fleet_report *report = &fleet->reports[i];
        int64_t wanted = report->processes;
        if (strcmp(report->id, fleet->id) == 0)
            wanted = fleet->processes - 1;
        else if (!fleet_can_answer(report))
            wanted = 0;
        for (size_t k = 0; k < question->n && wanted > 0; k++)
            wanted -= strcmp(question->list[k].id, report->id) == 0;
        missing += wanted;
    }
    return missing;
}

static bool take_answer(struct fleet_question *question, struct slice process, struct slice text)
{
    struct fleet_reply answer;
    const char *dot = process.n > 0 ? memchr(process.at, '.', process.n) : NULL;
    size_t id = dot != NULL ? (size_t)(dot - process.at) : process.n;

    if (process.n >= sizeof answer.process || id >= sizeof answer.id || text.n > FLEET_ANSWER_MAX ||
        question->n == ANSWERS_MAX)
        return false;
    snprintf(answer.id, sizeof answer.id, "%.*s", (int)id, process.n > 0 ? process.at : "");
    snprintf(answer.process, sizeof answer.process, "%.*s", (int)process.n,
             process.n > 0 ? process.at : "");
    char *copy = calloc(1, text.n + JSON_PADDING);
    if (copy == NULL || !array_reserve(&question->list, &question->room, question->n + 1)) {
        free(copy);
        return false;
    }
    if (text.n > 0)
        memcpy(copy, text.at, text.n);
    answer.text = (struct slice){copy, text.n};
    question->list[question->n++] = answer;
    return true;
}

static void collect(void *arg)
{
    struct fleet_question *question = arg;
    struct fleet *fleet = question->fleet;
    tg_ms now = net_loop_now(fleet->options.loop);
    struct slice args[2 + ANSWERS_MAX];
    struct answer_keys names;
    char number[24];

    if (now >= question->until || (question->asking && question->number == 0)) {
        finish(question, question->number == 0, false);
        return;
    }
    net_timer_set(fleet->options.loop, &question->timer, COLLECT_MS);
    if (question->asking)
        return;
    name_answers(fleet, question->hash, &names);
    snprintf(number, sizeof number, "%lld", (long long)question->number);
    args[0] = slice_of(number);
    args[1] = slice_of(fleet->process); /* what it has answered others is no answer to itself */
    for (size_t i = 0; i < question->n; i++)
        args[2 + i] = slice_of(question->list[i].process);
    question->asking = true;
    redis_eval(fleet->options.redis, &question->ask, &script_fleet_collect, names.keys, 2, args,
               2 + question->n);
}

static void take_question_number(struct fleet_question *question, const struct redisReply *reply)
{
    question->number = redis_reply_integer(reply, 0);
    if (question->number <= 0)
        finish(question, false, true);
    else
        net_timer_set(question->fleet->options.loop, &question->timer, COLLECT_MS);
}

static void question_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct fleet_question *question = container_of(ask, struct fleet_question, ask);
    struct fleet *fleet = question->fleet;

    question->asking = false;
    if (question->over || question->ended || fleet->ended) {
        if (question->ended)
            fleet_question_free(question);
        return;
    }
    if (redis_reply_is_error(reply)) {
        finish(question, true, false);
        return;
    }
    if (question->number == 0) {
        take_question_number(question, reply);
        return;
    }
    for (size_t i = 0; i + 1 < redis_reply_n(reply); i += 2)
        if (!take_answer(question, redis_reply_text(redis_reply_at(reply, i)),
                         redis_reply_text(redis_reply_at(reply, i + 1))))
            break;
    if (count_missing(question) == 0 || question->n == ANSWERS_MAX)
        finish(question, false, false);
}

/* Nobody else is there. */
static void finish_alone(void *arg)
{
    finish(arg, false, false);
}

struct fleet_question *fleet_question_new(struct fleet *fleet, struct slice text,
                                          fleet_question_done *done, void *context)
{
    const struct slice keys[] = {slice_of(fleet->keys[FLEET_HEAD]),
                                 slice_of(fleet->keys[FLEET_QUESTIONS])};
    struct fleet_question *question = text.n <= FLEET_TEXT_MAX ? calloc(1, sizeof *question) : NULL;

    assert(!fleet->ended);
    if (question == NULL)
        return NULL;
    question->fleet = fleet;
    question->done = done;
    question->context = context;
    question->until = net_loop_now(fleet->options.loop) + FLEET_WAIT_MS;
    hash_text(text, question->hash);
    LIST_INSERT_HEAD(&fleet->questions, question, link);
    redis_ask_init(&question->ask, question_answered, NULL);
    if (fleet->reported_at != 0 && count_missing(question) == 0) {
        net_timer_init(&question->timer, finish_alone, question);
        net_timer_set(fleet->options.loop, &question->timer, 1);
        return question;
    }
    const struct slice args[] = {slice_of(fleet->process), text};
    net_timer_init(&question->timer, collect, question);
    net_timer_set(fleet->options.loop, &question->timer, FLEET_WAIT_MS);
    question->asking = true;
    redis_eval(fleet->options.redis, &question->ask, &script_fleet_ask, keys, 2, args, 2);
    return question;
}

void fleet_question_end(struct fleet_question *question)
{
    if (question == NULL)
        return;
    question->ended = true;
    net_timer_stop(question->fleet->options.loop, &question->timer);
    if (!question->asking)
        fleet_question_free(question);
}

/* ---- Answering ---- */

void fleet_on_question(struct fleet *fleet,
                       void (*asked)(void *context, const struct fleet_asked *asked,
                                     struct slice text),
                       void *context)
{
    fleet->asked = asked;
    fleet->asked_context = context;
}

/* "1794700800000 LEDGER.PROCESS text": the text of another's question; empty: it is none. */
static struct slice others_text(const struct fleet *fleet, struct slice value)
{
    size_t own = strlen(fleet->process);
    const char *at = value.n > 0 ? memchr(value.at, ' ', value.n) : NULL;
    size_t left = at != NULL ? value.n - (size_t)(at + 1 - value.at) : 0;
    const char *process = at != NULL ? at + 1 : NULL;
    const char *end = left > 0 ? memchr(process, ' ', left) : NULL;

    if (end == NULL ||
        ((size_t)(end - process) == own && memcmp(process, fleet->process, own) == 0))
        return (struct slice){NULL, 0};
    return (struct slice){end + 1, left - (size_t)(end + 1 - process)};
}

/* Each text once, by the highest number that it was asked under. */
static void questions_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct fleet *fleet = container_of(ask, struct fleet, questions_ask);
    size_t n = redis_reply_n(reply);

    fleet->questions_asked = false;
    if (fleet->ended || redis_reply_is_error(reply) || fleet->asked == NULL)
        return;
    int64_t before = fleet->answered;
    for (size_t i = 0; i + 1 < n; i += 2) {
        int64_t number = redis_reply_number(redis_reply_at(reply, i));
        struct slice text = others_text(fleet, redis_reply_text(redis_reply_at(reply, i + 1)));
        bool later = number <= before || text.n == 0;
        for (size_t k = 0; k + 1 < n && !later; k += 2)
            later = redis_reply_number(redis_reply_at(reply, k)) > number &&
                    slice_equal(others_text(fleet, redis_reply_text(redis_reply_at(reply, k + 1))),
                                text);
        if (number > fleet->answered)
            fleet->answered = number;
        if (later)
            continue;
        struct fleet_asked asked = {.number = number};
        hash_text(text, asked.hash);
        fleet->asked(fleet->asked_context, &asked, text);
    }
}

/* With each look at the head: `number` is that of the last question. A number that is lower than
 * before is of a store that was emptied. */
void fleet_saw_asked(struct fleet *fleet, int64_t number, tg_ms now)
{
    const struct slice words[] = {SLICE("HGETALL"), slice_of(fleet->keys[FLEET_QUESTIONS])};

    if (number < fleet->answered)
        fleet->answered = 0;
    if (number == 0 || number == fleet->seen_asked || fleet->asked == NULL ||
        fleet->questions_asked || now - fleet->questions_at < READ_MS)
        return;
    fleet->seen_asked = number;
    fleet->questions_at = now;
    fleet->questions_asked = true;
    redis_command(fleet->options.redis, &fleet->questions_ask, words, 2, 1);
}

static void free_send(struct fleet_send *sent)
{
    LIST_REMOVE(sent, link);
    sent->fleet->n_sends--;
    free(sent);
}

static void send_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    (void)reply;
    free_send(container_of(ask, struct fleet_send, ask));
}

void fleet_answer(struct fleet *fleet, const struct fleet_asked *asked, struct slice text)
{
    struct answer_keys names;
    char number[24];

    if (fleet->ended || text.n > FLEET_ANSWER_MAX || fleet->n_sends == SENDS_MAX)
        return;
    struct fleet_send *sent = calloc(1, sizeof *sent);
    if (sent == NULL)
        return;
    sent->fleet = fleet;
    LIST_INSERT_HEAD(&fleet->sends, sent, link);
    fleet->n_sends++;
    redis_ask_init(&sent->ask, send_answered, NULL);
    name_answers(fleet, asked->hash, &names);
    snprintf(number, sizeof number, "%lld", (long long)asked->number);
    const struct slice args[] = {slice_of(fleet->process), slice_of(number), text};
    redis_eval(fleet->options.redis, &sent->ask, &script_fleet_answer, names.keys, 2, args, 3);
}

/* ---- life ---- */

void fleet_questions_init(struct fleet *fleet)
{
    LIST_INIT(&fleet->questions);
    LIST_INIT(&fleet->sends);
    redis_ask_init(&fleet->questions_ask, questions_answered, NULL);
}

/* The client is gone, and with it whatever was in flight. */
void fleet_questions_free(struct fleet *fleet)
{
    while (!LIST_EMPTY(&fleet->questions))
        fleet_question_free(LIST_FIRST(&fleet->questions));
    while (!LIST_EMPTY(&fleet->sends))
        free_send(LIST_FIRST(&fleet->sends));
}
