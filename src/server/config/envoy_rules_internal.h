/* envoy_rules_internal.h - files of rules on their way into tables. For envoy_rules_read.c,
 * envoy_rules_yaml.c and envoy_rules_build.c.
 */
#ifndef TG_CONFIG_ENVOY_RULES_INTERNAL_H
#define TG_CONFIG_ENVOY_RULES_INTERNAL_H

#include <string.h>

#include "server/config/config_reader.h"
#include "server/config/envoy_rules.h"

/* What one file holds. */
struct envoy_file {
    const char *domain; /* null or empty: there is none, which has been reported */
    struct envoy_rule *rules;
    size_t n_rules;
    size_t document;
    const struct yaml_node *node;
    struct envoy_file *next; /* another file of the same domain */
};

struct envoy_files {
    struct envoy_file *list;
    size_t n;
};

static inline bool envoy_is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static inline bool envoy_has_star(const char *value)
{
    return envoy_is_given(value) && value[strlen(value) - 1] == '*';
}

/* Puts what the file may write in several ways into the one that the reader takes. */
void envoy_rules_normalize(struct reader *reader, struct yaml_node *node);

/* Sets to->rules. What is wrong with several rules together is said. */
void envoy_rules_build(struct reader *reader, struct config_envoy *to, struct envoy_files *all);

#endif
