/* ledger_problem.c - saying what is wrong with a ledger. */
#include "server/ledger/ledger_problem.h"

#include <stdarg.h>
#include <stdio.h>

bool ledger_fail(struct ledger_problem *problem, const char *format, ...)
{
    va_list args;

    if (problem != NULL) {
        va_start(args, format);
        vsnprintf(problem->text, sizeof problem->text, format, args);
        va_end(args);
    }
    return false;
}
