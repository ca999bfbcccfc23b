/* gate_kit.h - gates, calls and answers, short.
 *
 * Functions that begin with must_ fail the test if the gate answers with an error, or otherwise
 * than the name says. Every decided answer is also held against what is true of all of them: see
 * check_answer().
 */
#ifndef GATE_KIT_H
#define GATE_KIT_H

#include "keyed.h"

/* What a gate has told its owner and its policy, and what the policy is to say. A call's waiter is
 * a number. */
enum { GATE_LOG_MAX = 4096 };

struct gate_log {
    struct tg_policy policy; /* first: the policy's functions find the log by it */
    int woken[GATE_LOG_MAX]; /* the waiters, in order */
    size_t n_woken;
    size_t n_read;  /* by next_woken() */
    bool worthless; /* the policy refuses */
    int asked;      /* how often the policy was asked, and what it was told */
    int admitted;
    int released;
    int refused; /* by other stages, and for what the last one was */
    enum tg_reason refused_for;
    int64_t in_flight;     /* what the last question said was in flight */
    struct tg_call call;   /* the last one that was admitted */
    struct tg_spent spent; /* the last one that was released, and when */
    tg_ms told_at;
};

/* ---- making ---- */

/* Defaults, with the log to be woken through. Every stage is off. */
struct tg_gate_config gate_config(struct gate_log *log);

/* The same with a fixed concurrency limit. */
struct tg_gate_config gate_config_slots(struct gate_log *log, int64_t limit);

/* Puts the log's policy in. The second one also hears what becomes of the calls. */
void gate_config_policy(struct tg_gate_config *config);
void gate_config_hearing_policy(struct tg_gate_config *config);

struct tg_gate *must_gate(const struct tg_gate_config *config);

/* New settings, accepted. */
void must_reconfigure(struct tg_gate *gate, const struct tg_gate_config *config, tg_ms now);

/* A gate with a fixed limit gets another one. */
void must_set_limit(struct tg_gate *gate, struct tg_gate_config *config, int64_t limit, tg_ms now);

/* ---- calls ---- */

struct tg_call call_of(enum tg_priority priority);
struct tg_call call_from(enum tg_priority priority, const char *peer);
struct tg_call call_waiting(enum tg_priority priority, int waiter);

/* Sets the tenant by name. */
void call_set_tenant(struct tg_call *call, const char *tenant, double weight);

/* ---- asking ---- */

/* Fails the test unless the answer keeps what is promised of every decided one: allowed without
 * a reason, or refused with one; the reason that of the binding axis; the decision the
 * combination of the axes, but for memory and peers, which are none, and the policy, which
 * changes three fields. */
void check_answer(const struct tg_answer *answer);

struct tg_answer must_admit(struct tg_gate *gate, const struct tg_call *call, tg_ms now);
struct tg_answer must_precheck(struct tg_gate *gate, const struct tg_call *call, tg_ms now);
struct tg_answer must_admit_checked(struct tg_gate *gate, const struct tg_call *call,
                                    tg_lease prechecked, tg_ms now);
struct tg_answer must_resume(struct tg_gate *gate, tg_lease lease, const struct tg_call *call,
                             tg_ms now);

/* Decided, with this outcome. */
tg_lease must_allow(struct tg_gate *gate, const struct tg_call *call, tg_ms now);
struct tg_answer must_refuse(struct tg_gate *gate, const struct tg_call *call, tg_ms now,
                             enum tg_reason reason);

/* Queued. */
tg_lease must_queue(struct tg_gate *gate, const struct tg_call *call, tg_ms now);

/* The calls admitted at once, until one is not, or `most` of them are: how many. Their leases go to
 * `leases`, unless that is null. Whoever is queued is cancelled again. */
int64_t fill_gate(struct tg_gate *gate, const struct tg_call *call, tg_ms now, tg_lease *leases,
                  int64_t most);

/* ---- ending ---- */

bool finish(struct tg_gate *gate, tg_lease lease, tg_ms now);
bool finish_as(struct tg_gate *gate, tg_lease lease, tg_ms now, enum tg_outcome outcome);
bool finish_sampled(struct tg_gate *gate, tg_lease lease, tg_ms now, double sample_ms);
bool finish_settled(struct tg_gate *gate, tg_lease lease, tg_ms now, int64_t actual);

/* ---- looking ---- */

struct tg_gate_stats stats_of_gate(struct tg_gate *gate);

/* The next waiter that was woken; -1: none. */
int next_woken(struct gate_log *log);

/* Nothing is held and nobody waits. */
void expect_idle(struct tg_gate *gate);

/* What is held is the same in both: slots, queues, peers, leases. */
void expect_same_holdings(const char *what, const struct tg_gate_stats *got,
                          const struct tg_gate_stats *want);

/* The axis that refuses for a reason; TG_AXIS_NONE for reasons that are no axis. */
enum tg_axis axis_of_reason(enum tg_reason reason);

#endif /* GATE_KIT_H */
