/* regret_output.h - a table of regret as JSON, as text and as a picture. */
#ifndef TG_CLI_REGRET_OUTPUT_H
#define TG_CLI_REGRET_OUTPUT_H

#include <math.h>

#include "io/text/json_write.h"
#include "io/text/svg.h"
#include "lab/regret/regret.h"

struct regret_result {
    const struct regret_suite *suite;
    const struct regret_options *options;
    const struct regret_table *table;
};

void regret_write_json(struct json_writer *out, const struct regret_result *result);

/* On stdout. */
void regret_print(const struct regret_result *result);

/* Between svg_begin() and svg_end(), both included. */
void regret_draw(struct svg *svg, const struct regret_result *result);

/* Whether two rows stand in one table and in one picture. */
static inline bool regret_same_panel(const struct regret_row *a, const struct regret_row *b)
{
    return a->set == b->set && a->prior == b->prior && (a->world == b->world || isnan(a->rho));
}

#endif
