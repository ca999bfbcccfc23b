/* subject.h - a limiter and one state of it, to be tried out. */
#ifndef SUBJECT_H
#define SUBJECT_H

#include "check.h"
#include "draw.h"

struct subject {
    struct tg_limiter limiter;
    void *state;
    bool exact;  /* its arithmetic does not round: promises hold to the unit and the millisecond */
    tg_ms scale; /* about how long an exhausted one takes to be fresh again */
};

/* A fresh state of a limiter, or of a copy of another subject's. */
struct subject subject_new(const struct tg_limiter *limiter);
struct subject subject_copy(const struct subject *subject);
void subject_free(struct subject *subject);

/* A limiter with random parameters, at most a few thousand units and minutes, in a fresh state. */
struct subject subject_random(struct draw *draw, enum tg_strategy strategy);

/* The same limiter with a larger state, whose settlements are retroactive, in a fresh state. */
void subject_make_settled(struct subject *subject);

/* A random cost: mostly small, now and then 0, the ceiling, and above. */
int64_t subject_cost(const struct subject *subject, struct draw *draw);

/* Sets `to` to what `from` has counted; both have the same limiter. */
void subject_assign(struct subject *to, const struct subject *from);
bool subject_same_state(const struct subject *a, const struct subject *b);

/* The operations, short. A take charges only if it is allowed; the balance is a peek of cost 0. */
struct tg_decision subject_peek(const struct subject *subject, tg_ms now, int64_t cost);
struct tg_decision subject_balance(const struct subject *subject, tg_ms now);
struct tg_decision subject_take(struct subject *subject, tg_ms now, int64_t cost);
void subject_refund(struct subject *subject, tg_ms now, struct tg_charge charge, int64_t units);
void subject_settle(struct subject *subject, tg_ms now, struct tg_charge charge, int64_t actual);
tg_ms subject_fresh_at(const struct subject *subject);

/* The subject's settings as one line, for messages. */
struct subject_text {
    char text[200];
};

struct subject_text subject_text(const struct subject *subject);

#endif /* SUBJECT_H */
