/* call.h - one request of a client to a model, from its head to its settlement.
 *
 * A call is a state machine. call_step() is the only function that takes an event, and call_move()
 * the only one that writes the state. What a call needs from the world around it (time, timers, a
 * request to the provider, the remote store) is a table of functions, call_env.h, so that a
 * test can drive a call without a network: tests/unit/server/proxy/test_call_step.c tries every
 * event in every state, and counts afterwards that nothing is held any more.
 *
 *   NEW        the head of the request has come
 *   READING    the body arrives; memory and fairness have been checked (call_in.c)
 *   PARSING    a thread of the pool reads the body, which is too long for a turn of the loop
 *   AT_OBJECTS waits for the remote store to say whose objects it names (call_objects.c)
 *   TRANSLATING
 *              a thread of the pool writes the body in the provider's dialect (call_translate.c)
 *   AT_SLOT    waits for a slot of its route (call_admit.c)
 *   AT_GATE    waits for a slot of the gateway's gate, which also decides policy, rate and cost
 *   AT_LIMITS  waits for the remote store to decide rate and cost
 *   AT_MONEY   waits for the remote store to reserve money (call_attempt.c)
 *   AT_KEY     waits for the remote store to say whether the key has room
 *   AT_TOKEN   waits for the access token of a service account (call_token.c)
 *   ASKING     an attempt is under way; nothing has gone to the client
 *   PAUSING    waits between two attempts
 *   ANSWERING  the reply goes to the client while it comes from the provider (call_answer.c)
 *   DRAINING   the client has left; the reply is read on for what it will be charged
 *   OVER       the client has its whole reply; waits for the client's side to end
 *   FREED      the struct is free to become another call
 *
 * With `store: memory` no call is ever in AT_OBJECTS, AT_LIMITS, AT_MONEY or AT_KEY.
 *
 * The machine is drawn in CALL_STATES of call_state.h, and call_step() asserts it. What a call
 * holds in which state is asserted at the end of every step, too. Each thing is given back in one
 * place in call_settle.c, which may be called in every state: whatever goes wrong, that is the way
 * out.
 *
 * A call belongs to its worker's thread. Other threads only wake its `waiter`.
 */
#ifndef TG_PROXY_CALL_H
#define TG_PROXY_CALL_H

#include <sys/queue.h>

#include "io/net/work_pool.h"
#include "lib/admission/admission_run.h"
#include "lib/core/container_of.h"
#include "server/dialect/ask.h"
#include "server/dialect/body_edit.h"
#include "server/dialect/meter.h"
#include "server/dialect/object_scan.h"
#include "server/dialect/replies.h"
#include "server/dialect/sse.h"
#include "server/dialect/usage.h"
#include "server/proxy/call_env.h"
#include "server/proxy/call_report.h"
#include "server/proxy/call_state.h"
#include "server/remote/remote.h"
#include "server/runtime/body_buffer.h"
#include "server/runtime/gateway.h"
#include "server/runtime/recorder.h"
#include "server/runtime/tenant_share.h"
#include "server/runtime/worker.h"
#include "server/upstream/access_token.h"

/* What became of a stage on the way to the provider. */
enum call_verdict {
    CALL_PASSES,      /* the next stage is due */
    CALL_WAITS,       /* an event will tell */
    CALL_FALLS_BACK,  /* the call has left its route, and takes the next one from its slot on */
    CALL_TRIES_AGAIN, /* nothing was sent with its key, and there is another: money is next */
    CALL_ANSWERED,    /* the client has been answered, and the call is over */
};

/* Why an attempt has failed. */
enum call_failure {
    FAILURE_NONE,
    FAILURE_LIMITED,     /* 429, or a rate limit within a 200 */
    FAILURE_LARGE,       /* a 429 that no wait cures: the account takes no call of this size */
    FAILURE_CREDENTIALS, /* 401, 403 */
    FAILURE_SERVER,      /* 5xx, 408, or an error within a 200 that may pass */
    FAILURE_NETWORK,     /* no connection, or it broke */
    FAILURE_TIMEOUT,     /* one of our own time-outs */
    FAILURE_DEADLINE,    /* the caller's own deadline: says nothing about the provider */
    FAILURE_MEMORY,      /* our own want of memory: neither does that */
    FAILURE_LATE_REPLY,  /* a reply that comes whole did not in time: it may be on its way still,
                            and would be billed a second time if it were tried again */
};

/* What an attempt is charged. */
enum call_charge {
    CHARGE_NOTHING,   /* the provider says that it did not run, or nothing was sent */
    CHARGE_UNCERTAIN, /* it failed without saying whether it ran: nothing is booked, and what it may
                         have billed is held */
    CHARGE_USED,      /* the usage that the reply reports, or what it may have been */
};

/* One try at a provider. It holds money and a key from its beginning to call_settle(). */
struct attempt {
    tg_key_lease key;             /* the lease of the provider's key; 0: none is held */
    struct route_key *owner;      /* the key; the call holds its generation */
    struct spending_ticket money; /* reserved in the gateway's own books; 0: nothing is */
    struct remote_reservation remote_reservation; /* the same money, at the remote store */
    struct remote_key_claim remote_key_claim;     /* the same key, at the remote store */
    unsigned key_rounds;         /* how many keys other gateways had no room left in */
    struct http_outbound *out;   /* the request on its way; null: none is */
    int64_t prompt, output;      /* estimated tokens */
    int64_t tokens;              /* how many tokens the key was asked for */
    struct tg_usage_bound bound; /* what it can use at most */
    tg_micro most;               /* what that costs */
    uint64_t pair;               /* `reserve: expected`: see expected_cost.h; 0: `bound` */
    int64_t share;               /* thousandths of `most` that are asked for */
    tg_micro asked;              /* what they are */
    tg_micro reserved;           /* how much of that is reserved */
    const char *clamped;   /* the field that we have bounded its output by; null: none. Static */
    int64_t most_output;   /* the bound that we put on what it may write; -1: none */
    tg_ms began_at;        /* when it was sent; 0: not yet */
    tg_ms first_at;        /* when the first byte of the reply's body came; 0: not yet */
    int status;            /* the status of the reply; 0: there is none yet */
    bool events;           /* the reply is a stream of events */
    bool packed;           /* the reply is encoded, and nobody here can read it */
    bool injected;         /* the usage in the reply was asked for by us, not by the client */
    bool ended;            /* the whole of the reply has come */
    bool passes;           /* the reply is for the client: there is no further attempt */
    bool paused;           /* the client is slower than the provider */
    bool slowed;           /* it was, at some time of this reply */
    bool asked_less;       /* money was asked for a second time, for a shorter reply */
    bool unsent;           /* no byte has gone to the provider */
    bool gave_up;          /* the reply is an error which says that the provider has run out of
                              time: it may have run the call, and bill it */
    enum http_cause cause; /* why its connection failed; none: it did not */
    tg_ms cool_until;      /* until when the provider wants its key to rest; 0: it does not */
    const struct http_head *head; /* the head of a reply that is kept back; valid while `out` is */
    struct call_sending *sending; /* what is not written yet of the request; null: nothing */
};

/* A body that is read or translated on a thread of the pool. While `out` is true, what it reads and
 * writes (the body, the ask, what was seen, the translation, and this) is that thread's. */
struct call_parse {
    struct net_job job;
    bool out;  /* the job waits or runs, or its PARSED is on its way */
    bool good; /* the body was read; else `problem` says what is wrong */
    struct ask_problem problem;
};

/* What the body asks for, before rules put something in. */
struct call_asked {
    bool kept; /* else nothing was put in */
    int64_t max_output, choices;
    struct ask_word service_tier, speed, inference_geo;
};

/* An object that the call names, and that nobody is known here to have made. */
struct object_unknown {
    size_t n;
    bool in_path;
    char id[OBJECT_ID_MAX];
};

/* Objects of the provider that the call names or makes: call_objects.c. */
struct call_objects {
    const char *provider, *key; /* where those that it names are, and the key that made the first;
                                   null: it names none that is known */
    struct provider *home;      /* the same of what a passthrough names in its path */
    bool in_path;               /* one of them is in its path */
    bool shared;                /* one that is everyone's was named */
    bool lists;                 /* the reply is a list, of which the tenant sees its own */
    bool learns;                /* the reply may have made something */
    bool learned;               /* it has */
    struct slice last;          /* the end of the path, where that names an object; n 0: not so */
    tg_ms at;                   /* the time by the wall clock, for a thread of the pool */
    char type[256];             /* the request's content type, likewise */
    char missing[OBJECT_ID_MAX + 1]; /* what it may not name */
    size_t made_n;                   /* bytes of `made`: the response; 0: none yet */
    char made[OBJECT_ID_MAX];
    struct object_scan *scan; /* null: none yet */

    /* With a remote store: those not known here, which it is asked for before the call goes
     * on. They do not change after that. */
    struct object_unknown *unknown; /* null: none */
    size_t n_unknown, unknown_room;
    struct remote_objects_ask *ask; /* on its way; null: not */
    bool asked;                     /* it was asked: what is unknown now is nobody's */
};

#define CALL_TRIED_MAX TG_TRIED_MAX
#define CALL_READING_SHARE 4 /* a quarter of `buffered_total` more, for reading bodies */
#define CALL_CAUSE_MAX 64
#define CALL_PATH_MAX 129

struct call {
    const struct service *service; /* the first member: see service.h */
    const struct call_env *env;
    struct worker *worker;
    struct gateway *gateway;
    struct generation *generation;     /* the configuration it began under: held */
    struct generation *key_generation; /* its last key's, held; null: the same */
    struct http_inbound *in;           /* the client's side; null: it has ended */
    enum call_state state;
    tg_ms began_at;
    tg_ms asked_at; /* when the remote store was last asked */
    tg_ms store_ms; /* how long this attempt, and all before the first, has waited for the store */
    uint64_t id;

    enum endpoint endpoint;
    enum wire_api api;
    size_t tenant; /* CONFIG_NONE until the key is known */
    const struct config_key *virtual_key;
    const struct config_passthrough *passthrough; /* null: the path is one of our endpoints */
    struct slice user;                            /* points into user_name */
    bool user_is_signed; /* the user is known by a token, whatever headers say */
    bool is_retry;       /* the client says that it repeats a request */

    struct body_buffer body; /* the request's body, until the reply begins */
    struct call_parse parse;
    struct call_asked asked;
    struct call_objects objects;

    size_t model;        /* the model asked for, after aliases; CONFIG_NONE: it is not listed */
    struct route *route; /* the route that serves it now; null: a passthrough */
    size_t next_fallback;
    struct call_translation *translation; /* null: the route speaks the client's dialect */
    bool carries;                         /* the body may have signatures of other providers */
    bool checked;                         /* it is known to which fallbacks it can be carried */
    uint64_t uncarried;                   /* those that it cannot: a bit each, in their order */
    tg_ms deadline;                       /* when its reply has to have begun; 0: no such time */
    tg_ms ends_at;                        /* when its reply has to have ended; 0: no such time */
    tg_ms total_at;                       /* the same by our own time-out alone */

    struct tg_call gate_call, slot_call;
    struct admission_run slot; /* at the gate of the route: one route at a time */
    struct admission_run gate; /* at the gateway's gate: once in a call, whatever the routes */
    struct remote_claim debit; /* rate and cost at the remote store, for `gate` */
    struct tg_axes axes;

    struct attempt attempt;
    unsigned attempts, route_attempts;
    bool no_memory;              /* its request could not be made for want of memory */
    bool same_key;               /* the next attempt is to take the key of the last */
    bool replaced;               /* a kept connection was found closed, and another one used */
    struct route_key *last_key;  /* the key of the last attempt; its generation is held */
    void *tried[CALL_TRIED_MAX]; /* keys to avoid: first those that the provider turned away, ... */
    size_t n_refused;            /* ... which are not tried again, ... */
    size_t n_tried;             /* ... then the others, which are as long as there is a fresh one */
    enum call_failure failure;  /* why the last attempt failed */
    char cause[CALL_CAUSE_MAX]; /* the same of its connection: "certificate: expired"; "": none */
    int failed_status;          /* the status of its reply; 0: there was none */
    int64_t used;               /* tokens that all attempts so far are charged with */
    int64_t used_before;        /* those before it got its slot */

    char *held; /* bytes of a reply that must not go out yet */
    size_t held_n, held_room;
    bool held_foreign; /* they are in another dialect than the client's */
    struct sse sse;
    struct usage_scan *scan; /* the reading of a reply that comes whole; null: none has come, or
                                there was no memory */

    struct access_wait token_wait; /* its place among those who wait for a token */
    struct net_timer timer;        /* the end of a wait, a pause or draining */
    struct waiter waiter;          /* what a gate wakes */
    struct call *next_spare;
    LIST_ENTRY(call) among; /* the calls of its worker */

    /* What only its report needs, but for `notes`: */
    struct record_trail trail;       /* what is recorded of it; with --record alone */
    char missed_path[CALL_PATH_MAX]; /* where it looked for something, if nothing is there; or "" */
    enum http_why ended;             /* how the client's side ended */
    enum call_state left_in;         /* the state at that moment */
    int status;                      /* the status that the client was sent; 0: none */
    enum reply_reason reason;
    struct tg_usage usage;
    bool usage_reported;
    tg_micro spent;     /* by all its attempts; -1: none was charged */
    tg_micro uncertain; /* what their providers may have billed besides */
    bool usage_absurd;  /* a report of usage could not be believed: the reservation was charged */
    int64_t bytes_in, bytes_out;

    /* From the arrays of `ask` on, a new call is not cleared: what is read there was written
     * before. Half of its struct would be touched for nothing. */
    struct ask ask;
    struct meter meter; /* from the head of a reply on */
    struct report_notes notes;
    struct tg_scope scopes[TG_SCOPES_MAX];
    char user_name[LEDGER_NAME_MAX];
    struct rule_changes changes; /* what rules put into the request */
    size_t n_seen;               /* entries of `seen`: at least as many as its generation watches */
    struct ask_seen seen[];      /* what the body has of the fields of rules */
};

/* ---- proxy.c: the calls of a worker ---- */

/* Makes a call in the state NEW, which owns `in` from here on. Null: there is no memory. */
struct call *call_new(struct worker *worker, struct http_inbound *in, const struct call_env *env);

/* Nobody waits for the call any more: reports it and makes its struct free. */
void call_free(struct call *call);

/* Frees what is kept for calls to come. */
void call_free_spares(struct proxy_worker *proxy);

/* ---- call_scan.c: what reads the usage of whole replies ---- */

/* Makes `scan` ready for a reply. Without memory it stays null. */
void call_take_scan(struct call *call);

/* It is needed no more. */
void call_give_scan(struct call *call);

void call_free_scans(struct proxy_worker *proxy);

/* ---- call_step.c: the machine ---- */

/* Takes an event, and does everything that can be done without waiting. The call may be freed
 * afterwards. `with` may be null where the event comes alone. */
void call_step(struct call *call, enum call_event event, const struct call_input *with);

extern const struct http_client_ops
    call_client_ops; /* the events of a reply; its owner is the call */

/* The functions of its timer, its waiter and its job. */
void call_timer_fires(void *call);
void call_woken(void *call);
void call_parsed(void *call);

/* The answers of the remote store. */
void call_limits_decided(struct remote_claim *debit, enum tg_err err, const struct tg_axes *axes);
extern const struct remote_objects_ops call_objects_ops;
void call_money_decided(struct remote_reservation *money, enum tg_err err,
                        const struct tg_money_answer *answer);
void call_key_decided(struct remote_key_claim *key, enum tg_err err,
                      const struct tg_key_hold *hold);

/* ---- call_in.c: the client's request ---- */

void call_in_head(struct call *call);
void call_in_body(struct call *call, struct slice bytes);

/* Reads the body, and finds the route; or has a thread of the pool read it: then PARSED comes. */
enum call_verdict call_in_read(struct call *call);
enum call_verdict call_in_parsed(struct call *call);

/* Answers a call that counts tokens where its provider does not: by our estimate, marked as one. */
enum call_verdict call_answer_estimate(struct call *call);

/* ---- call_rules.c: rules for fields and headers ---- */

/* Asks the rules of the tenant and of the model of `route`; null: a passthrough, whose body is not
 * read. False: they refuse the call. Sets `changes`, and the ask to what will be sent. */
bool call_rules_apply(struct call *call, const struct route *route, struct ask_problem *problem);

/* The bound of one choice's output that a rule has put in. False: none has. */
bool call_rules_bound(const struct call *call, int64_t *bound);

/* ---- call_objects.c: objects that a provider keeps ---- */

/* What the target of a passthrough names. False: `why` says what is wrong. */
bool call_objects_head(struct call *call, struct refusal *why);

/* What the body names; of a passthrough's nothing else is read. By a thread of the pool, or the
 * worker's own. False: `problem` says why. */
bool call_objects_body(struct call *call, struct json_reader *reader, size_t values,
                       struct ask_problem *problem);

/* Whether what the call names is at this provider. */
bool call_objects_at(const struct call *call, const struct provider *provider);

/* The stage after the reading: asks the remote store about those that are not known here, and what
 * it has said. */
enum call_verdict call_objects_ask(struct call *call);
enum call_verdict call_objects_answered(struct call *call, bool known);

/* The head of a reply has come. pass() is for bytes to the client. */
void call_objects_reply(struct call *call, int status,
                        void (*pass)(void *call, struct slice bytes));

/* Bytes of the reply. True: what is for the client has been passed on. */
bool call_objects_data(struct call *call, struct slice bytes);

/* An event of it has been read. */
void call_objects_event(struct call *call);

void call_objects_free(struct call *call);

/* ---- call_way.c: which way it takes to a route ---- */

/* Whether the call can go to the route at all. */
bool call_is_reached(const struct call *call, const struct route *route);

/* Whether it would have to be translated for the route. */
bool call_is_foreign(const struct call *call, const struct route *route);

/* Whether it counts tokens at a provider that does not. */
bool call_is_estimated(const struct call *call);

/* Whether the fallback with that number takes what the call says. */
bool call_is_carried(const struct call *call, size_t fallback);

/* Gives back the body alone; or all that is known of the translation. */
void call_translation_forget_body(struct call *call);
void call_translation_free(struct call *call);

/* ---- call_translate.c: the request in the provider's dialect ---- */

/* Writes the body for its route, where that speaks another dialect than the client; or has a thread
 * of the pool write it: then PARSED comes. */
enum call_verdict call_translate(struct call *call);
enum call_verdict call_translated(struct call *call);

/* The same once more, if money has put another bound on its output; and what came of it. */
enum call_verdict call_bound(struct call *call);
enum call_verdict call_bounded(struct call *call);

/* The provider's name for that bound. Static. */
const char *call_translated_bound(const struct call *call);

/* Where it goes at its provider, with a query. */
void call_model_path(const struct call *call, struct text_out *out);

/* Whether a header of the client's goes along. */
bool call_translated_forwards(struct slice name);

/* ---- call_admit.c: places ---- */

/* Before the body is read: memory and fairness; and if it is large, whether limits or budgets are
 * used up. False: the call has been refused. */
bool call_precheck(struct call *call);

/* What the call will cost, in tokens, before anybody knows. */
void call_estimate(struct call *call);

/* Each of these asks, or goes on with an answer: the route's gate, then the gateway's. */
enum call_verdict call_take_slot(struct call *call);
enum call_verdict call_slot_woken(struct call *call);
enum call_verdict call_enter_gate(struct call *call);
enum call_verdict call_gate_woken(struct call *call);
enum call_verdict call_limits_answered(struct call *call, const struct call_input *with);

/* Leaves the route for the next fallback, whose slot has not been asked for. False: there is none.
 * `why` is for the report; static. */
bool call_fall_back(struct call *call, const char *why);

/* ---- call_money.c: the most that an attempt can cost ---- */

/* Whose money the call spends. */
void call_describe_money(const struct call *call, struct spending_call *spending);

/* Answers with what the budgets said. */
void call_refuse_money(struct call *call, enum tg_err err, const struct tg_money_answer *answer);

enum call_verdict call_reserve_money(struct call *call);
enum call_verdict call_money_answered(struct call *call, const struct call_input *with);

/* The provider has counted this: the next turn of this conversation is reserved
 * with that. */
void call_remember_counts(const struct call *call, const struct tg_usage *usage);

/* ---- call_token.c ---- */

enum call_verdict call_take_token(struct call *call);
enum call_verdict call_token_woken(struct call *call);

/* ---- call_token_wait.c ---- */

/* The token of its key; null: the key is a secret. */
struct access_token *call_token(const struct call *call);

/* It waits for no token any more; nothing happens where it does not wait. */
void call_token_leave(struct call *call);

/* The provider has turned the call away: its token may have been revoked. */
void call_token_doubt(struct call *call);

/* ---- call_attempt.c: a key, the request, and what happens after a failure ---- */

enum call_verdict call_take_key(struct call *call);

/* The key of the last attempt is not taken again for this call. Whether another one can serve. */
bool call_avoid_key(struct call *call);
enum call_verdict call_key_answered(struct call *call, const struct call_input *with);

/* Money and a key are there: sends the request. */
enum call_verdict call_send(struct call *call);

/* The attempt, which has been settled, failed: the call pauses before it tries again, or falls
 * back, or is answered. */
enum call_verdict call_after_failure(struct call *call, enum call_failure failure);

/* The least money that is left of the call's budgets, for all gateways together as far as is known
 * here; of its user's too, if `user` names one. As tg_bank_left(). False: not known. */
bool call_money_left(const struct call *call, struct slice user, tg_micro *left, double *part);

/* ---- call_report.c ---- */

/* "limited", "server", ...: in reports. Null for none. Static. */
const char *call_failure_name(enum call_failure failure);

/* ---- call_request.c: the request to the provider ---- */

/* Makes attempt.out. False: it cannot be made. */
bool call_request_send(struct call *call);

/* Writes more of its body, as much as the provider takes now. */
void call_request_write(struct call *call);

/* Nothing more of it is to be written. */
void call_request_forget(struct call *call);

/* ---- call_answer.c: the provider's reply ---- */

void call_answer_head(struct call *call, const struct http_head *head);

/* A failure: the attempt has failed, and nothing of it has gone to the client. */
enum call_failure call_answer_data(struct call *call, struct slice bytes);
enum call_failure call_answer_end(struct call *call);

/* The reply broke off after it had begun. `outcome` is for the laws. */
void call_answer_broken(struct call *call, enum tg_outcome outcome);

/* The client takes bytes again. */
void call_answer_room(struct call *call);

/* Answers with the error that the provider gave last. False: there is none. */
bool call_answer_held(struct call *call);

/* What a failed attempt says of its key. */
enum tg_key_outcome call_answer_outcome(enum call_failure failure);

/* ---- call_bill.c: what an attempt is charged ---- */

struct call_bill {
    struct tg_usage usage;
    tg_micro spent;     /* -1: the reservation stands */
    tg_micro uncertain; /* besides, what the provider may bill, but has not said */
    int64_t reasoning;  /* the part of the output that was thought and not shown */
    bool reported;      /* by the provider */
    bool counted;       /* its input is the provider's own count, too */
    uint32_t flags;     /* the ledger's */
};

/* For an attempt that was sent, and is charged something: UNCERTAIN or USED. */
void call_bill(struct call *call, enum call_charge charge, struct call_bill *bill);

/* ---- call_record.c: --record ---- */

/* `before` and `after` of a run. */
void call_record_before(struct admission_run *run, const struct admission_event *event);
void call_record_after(struct admission_run *run, const struct admission_event *event,
                       const struct tg_answer *answer);

/* Before an operation; one of the functions below has to follow it, with what this returns. They do
 * nothing if that is 0: nothing is recorded. */
uint64_t call_record_enter(const struct call *call);

void call_record_first_byte(struct call *call, const struct admission_run *run, uint64_t number,
                            tg_ms at, double sample_ms);
void call_record_room(struct call *call, uint64_t number, int64_t room, tg_ms until);
void call_record_reserve(struct call *call, uint64_t number, const struct spending_call *spending,
                         enum tg_err err, const struct tg_money_answer *answer);
void call_record_store_key(struct call *call); /* it is refused: nobody knows */
void call_record_settle(struct call *call, uint64_t number, const struct spending_use *use);
void call_record_key(struct call *call, uint64_t number, const struct tg_key_call *key,
                     const struct tg_key_answer *answer, bool hint);
void call_record_key_end(struct call *call, uint64_t number, const struct tg_key_report *report);
void call_record_key_held(struct call *call, uint64_t number, const struct tg_key_hold *hold);

/* The remote store has answered about money. */
void call_record_store_money(struct call *call, enum tg_err err,
                             const struct tg_money_answer *answer);

/* ---- call_settle.c: every way out ---- */

/* The request is about to go out: what is reserved for it is journalled. */
void call_note_sending(struct call *call);

/* Ends the attempt, if there is one: its request, its key, its money. */
void call_settle(struct call *call, enum tg_key_outcome outcome, enum call_charge charge);

/* Gives back what the call holds besides: its places at the gate and the route, and memory. */
void call_release(struct call *call, enum tg_outcome outcome);

/* The place at the route alone, for another one: `cancelled`, or `dropped` if it was overloaded. */
void call_leave_route(struct call *call);

/* The leases that it holds get their whole time to live again. */
void call_renew(struct call *call);

/* No further attempt will be made: the memory is for others, once all of the body is written. */
void call_forget_body(struct call *call);

/* Answers with a refusal; everything is given back. Nothing may have gone to the client. */
void call_refuse(struct call *call, const struct refusal *why);

/* For limits of our own that refused after the gate had admitted: the gate is given everything
 * back. */
void call_refuse_admitted(struct call *call, const struct refusal *why);

/* Whose run it is, be it at the gate or at the slots. */
static inline struct call *call_of_run(const struct admission_run *run)
{
    struct waiter *waiter = run->call->waiter;

    return container_of(waiter, struct call, waiter);
}

static inline tg_ms call_now(const struct call *call)
{
    return call->env->now(call->worker->loop);
}

/* The same by the wall clock. */
static inline tg_ms call_wall(const struct call *call)
{
    return clock_wall_of(&call->gateway->clock, call_now(call));
}

static inline const struct config_tenant *call_tenant(const struct call *call)
{
    return &call->generation->config.tenants[call->tenant];
}

static inline struct provider *call_provider(const struct call *call)
{
    if (call->route != NULL)
        return call->route->provider;
    if (call->objects.home != NULL)
        return call->objects.home;
    return &call->generation->providers[call->passthrough->provider];
}

/* Whose keys serve the call. */
static inline struct tg_pool *call_pool(const struct call *call)
{
    return call->route != NULL ? call->route->pool : call_provider(call)->pool;
}

/* Whether a passthrough has a price: what only reads, deletes or cancels has none. */
bool call_costs(const struct call *call);

static inline bool call_is_admitted(const struct call *call)
{
    return call->gate.state == ADMISSION_ADMITTED;
}

#endif
