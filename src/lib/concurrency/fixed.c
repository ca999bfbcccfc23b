/* fixed.c - a limit that does not move: `initial`. */
#include "lib/concurrency/law.h"

static bool fixed_begin(struct law *law, int64_t limit)
{
    (void)limit;
    law_set_limit(law, law->config.initial);
    return true;
}

static bool fixed_adapt(struct law *law, const struct tg_law_config *config)
{
    law_set_limit(law, config->initial);
    return true;
}

const struct law_ops law_fixed = {
    .name = "fixed",
    .begin = fixed_begin,
    .adapt = fixed_adapt,
};
