/* error.c - error texts and messages, and the version they come from. */
#include "lib/core/problem.h"

#include <stdarg.h>
#include <stdio.h>

const char *tg_version(void)
{
    return TG_VERSION;
}

const char *tg_strerror(enum tg_err err)
{
    switch (err) {
#define ERROR_TEXT(name, value, text)                                                              \
    case TG_##name:                                                                                \
        return text;
        TG_ERRORS(ERROR_TEXT)
#undef ERROR_TEXT
    }
    return "not an error of this library";
}

static void error_write_text(struct tg_problem *problem, const char *format, va_list args)
{
    if (problem)
        vsnprintf(problem->text, sizeof problem->text, format, args);
}

enum tg_err problem_say(struct tg_problem *problem, enum tg_err err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_write_text(problem, format, args);
    va_end(args);
    return err;
}

bool problem_fail(struct tg_problem *problem, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_write_text(problem, format, args);
    va_end(args);
    return false;
}
