/* ledger_problem.h - saying what is wrong with a ledger. Private to src/ledger. */
#ifndef TG_LEDGER_LEDGER_PROBLEM_H
#define TG_LEDGER_LEDGER_PROBLEM_H

#include "server/ledger/ledger.h"

/* Writes the message, if there is a place for it, and returns false. */
bool ledger_fail(struct ledger_problem *problem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
