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

enum tg_err problem_say(struct tg_problem *problem, enum tg_err err, const char *format, ...)
{
    if (problem) {
        va_list args;
        va_start(args, format);
        vsnprintf(problem->text, sizeof problem->text, format, args);
        va_end(args);
    }
    return err;
}
