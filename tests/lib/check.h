/* check.h - what every test includes: cmocka, and decisions compared field by field.
 *
 * A failed comparison prints both decisions whole: one field that is off is seldom the only one,
 * and the others tell why.
 */
#ifndef CHECK_H
#define CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tollgate.h"

/* A test whose title is a sentence: "S4 a model's retries are further attempts". */
#define unit_test_titled(title, function)                                                          \
    {                                                                                              \
        title, function, NULL, NULL, NULL                                                          \
    }

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Decisions as the tables write them. */
#define ALLOWED(limit, remaining, reset_at)                                                        \
    ((struct tg_decision){true, limit, remaining, reset_at, 0})
#define DENIED(limit, remaining, reset_at, retry_after)                                            \
    ((struct tg_decision){false, limit, remaining, reset_at, retry_after})

/* Room for one decision as text. */
struct decision_text {
    char text[160];
};

struct decision_text decision_text(struct tg_decision decision);

bool decision_equal(struct tg_decision a, struct tg_decision b);

/* Whether every field is an integer that a decision may hold. */
bool decision_in_range(struct tg_decision decision);

/* Fails the test, with both decisions and `what`, unless they are equal. */
#define expect_decision(what, got, want) expect_decision_at(what, got, want, __FILE__, __LINE__)

void expect_decision_at(const char *what, struct tg_decision got, struct tg_decision want,
                        const char *file, int line);

/* The limiter of a spec; a spec that makes none fails the test. */
struct tg_limiter limiter_of(const char *spec);

#endif /* CHECK_H */
