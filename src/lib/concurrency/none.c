/* none.c - no law: the limit is `max`, the ceiling of what the process can hold. */
#include "lib/concurrency/law.h"

static bool none_begin(struct law *law, int64_t limit)
{
    (void)limit;
    law_set_limit(law, 0);
    law->limit = law->config.max;
    return true;
}

static bool none_adapt(struct law *law, const struct tg_law_config *config)
{
    law->limit = config->max;
    return true;
}

const struct law_ops law_none = {
    .name = "none",
    .begin = none_begin,
    .adapt = none_adapt,
};
