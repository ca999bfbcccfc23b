/* solve_input.h - a workload written as JSON. */
#ifndef TG_CLI_SOLVE_INPUT_H
#define TG_CLI_SOLVE_INPUT_H

#include "io/text/json_read.h"
#include "tollgate.h"

struct solve_input {
    struct tg_type types[TG_TYPES_MAX];
    struct tg_workload workload; /* points to the types below, so the struct must not be moved */
};

/* What is wrong, and where: `offset` bytes into the text. */
struct solve_problem {
    size_t offset;
    char text[240];
};

/* Reads `bytes` bytes, of which `readable` may be read (see json_begin()). Sees to it that fields
 * are known, there, and numbers; whether they make a workload, tg_fluid_solve() says. */
bool solve_read(struct json_reader *reader, const char *text, size_t bytes, size_t readable,
                struct solve_input *input, struct solve_problem *problem);

#endif
