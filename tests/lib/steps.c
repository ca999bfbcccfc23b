/* steps.c - plays a table of steps on a limiter. */
#include "steps.h"

#include <inttypes.h>
#include <stdio.h>

#include "subject.h"

/* Where in which table we are. */
struct place {
    const char *spec;
    const char *file;
    int line;
    size_t row;
};

static void expect_at(const struct place *place, const char *what, struct tg_decision got,
                      struct tg_decision want)
{
    char text[240];

    (void)snprintf(text, sizeof(text), "%s, row %zu: %s", place->spec, place->row, what);
    expect_decision_at(text, got, want, place->file, place->line);
}

static void expect_unchanged(const struct place *place, const struct subject *subject,
                             const struct subject *before)
{
    if (subject_same_state(subject, before))
        return;
    print_error("%s, row %zu: the state has changed\n", place->spec, place->row);
    _fail(place->file, place->line);
}

static void play_take(const struct place *place, struct subject *subject, const struct step *step)
{
    struct subject before = subject_copy(subject);
    struct tg_decision got = subject_take(subject, step->now, step->charge.cost);

    expect_at(place, "take", got, step->want);
    if (got.allowed)
        expect_at(place, "a take leaves what it said", subject_balance(subject, step->now), got);
    else
        expect_unchanged(place, subject, &before);
    subject_free(&before);
}

static void play_peek(const struct place *place, struct subject *subject, const struct step *step)
{
    struct subject before = subject_copy(subject);

    expect_at(place, "peek", subject_balance(subject, step->now), step->want);
    expect_unchanged(place, subject, &before);
    subject_free(&before);
}

static void play_fresh_at(const struct place *place, const struct subject *subject,
                          const struct step *step)
{
    tg_ms got = subject_fresh_at(subject);

    if (got == step->want.reset_at)
        return;
    print_error("%s, row %zu: fresh at %" PRId64 ", wanted %" PRId64 "\n", place->spec, place->row,
                got, step->want.reset_at);
    _fail(place->file, place->line);
}

static void play_step(const struct place *place, struct subject *subject, const struct step *step)
{
    switch (step->op) {
    case STEP_TAKE:
        play_take(place, subject, step);
        break;
    case STEP_PEEK:
        play_peek(place, subject, step);
        break;
    case STEP_REFUND:
        subject_refund(subject, step->now, step->charge, step->units);
        expect_at(place, "refund", subject_balance(subject, step->now), step->want);
        break;
    case STEP_SETTLE:
        subject_settle(subject, step->now, step->charge, step->units);
        expect_at(place, "settle", subject_balance(subject, step->now), step->want);
        break;
    case STEP_FRESH_AT:
        play_fresh_at(place, subject, step);
        break;
    }
}

void play_steps(const char *spec, const struct step *steps, size_t n, const char *file, int line)
{
    struct tg_limiter limiter = limiter_of(spec);
    struct subject subject = subject_new(&limiter);

    for (size_t i = 0; i < n; i++) {
        struct place place = {spec, file, line, i};
        play_step(&place, &subject, &steps[i]);
    }
    subject_free(&subject);
}
