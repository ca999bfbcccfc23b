/* problem.h - saying what is wrong with a setting. */
#ifndef TG_CORE_PROBLEM_H
#define TG_CORE_PROBLEM_H

#include "tollgate.h"

/* Writes the message, if there is a place for it, and returns `err`, so that a check can end with
 * `return problem_say(problem, TG_ERR_INVALID, ...)`. A message that does not fit is cut. */
enum tg_err problem_say(struct tg_problem *problem, enum tg_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for functions that say by false that they failed. */
bool problem_fail(struct tg_problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
