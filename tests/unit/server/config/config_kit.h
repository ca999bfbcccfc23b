/* config_kit.h - a configuration read from a text, for tests of what stands in the structs. */
#ifndef CONFIG_KIT_H
#define CONFIG_KIT_H

#include <string.h>

#include "check.h"
#include "server/config/config.h"

struct read {
    struct config config;
    struct config_problems problems;
};

static inline enum config_result parse(struct read *read, const char *text)
{
    return config_parse(NULL, text, strlen(text), &read->config, &read->problems);
}

static inline void must_read(struct read *read, const char *text)
{
    if (parse(read, text) != CONFIG_READ)
        fail_msg("%s: %zu:%zu %s", text, read->problems.list[0].line,
                 read->problems.list[0].column, read->problems.list[0].text);
}

static inline void done(struct read *read)
{
    config_free(&read->config);
    config_problems_free(&read->problems);
}

static inline bool equal(double a, double b)
{
    return a >= b && a <= b;
}

#endif
