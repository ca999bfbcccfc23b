/* envoy_rules.h - rules of Envoy's rate limit service: which limit holds for a descriptor.
 *
 * A file has one domain and a tree of rules, in the format of envoyproxy/ratelimit:
 *
 *     domain: messaging
 *     descriptors:
 *       - key: message_type
 *         value: marketing
 *         descriptors:
 *           - key: to_number
 *             rate_limit: {unit: day, requests_per_unit: 5}
 *
 * A descriptor of a request is a list of entries. The first one is searched for at the top of the
 * tree, the next one below the rule that was found, and so on; the limit is that of the rule at
 * which the last entry arrives. At each level the most specific rule is taken, and there is no way
 * back from it:
 *
 *   1 the same key and the same value
 *   2 the same key and a value such as `foo*`, where the entry's begins with `foo`; or no value and
 *     a key such as `foo*`, where the entry's begins with `foo`: the first such
 *   3 the same key and no value
 *
 * Made by envoy_rules_read.c, written once, then only read: part of a configuration, in its memory.
 */
#ifndef TG_CONFIG_ENVOY_RULES_H
#define TG_CONFIG_ENVOY_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/slice.h"

struct config_index;
struct yaml_node;

/* One entry of a descriptor. */
struct envoy_rls_entry {
    struct slice key, value; /* any bytes, any length */
};

/* The numbers are those on the wire. */
enum envoy_unit {
    ENVOY_UNIT_NONE,
    ENVOY_SECOND,
    ENVOY_MINUTE,
    ENVOY_HOUR,
    ENVOY_DAY,
    ENVOY_MONTH, /* 30 days, as theirs counts */
    ENVOY_YEAR,  /* 365 days */
    ENVOY_WEEK,
    ENVOY_UNITS,
};

#define ENVOY_NO_NAME SIZE_MAX

struct envoy_replaced {
    const char *name;
    size_t number; /* name_number of the limits that have it */
};

/* `rate_limit` of a rule. */
struct envoy_limit {
    bool present;
    bool unlimited;
    enum envoy_unit unit;      /* ENVOY_UNIT_NONE if unlimited */
    int64_t requests_per_unit; /* a uint32_t; 0: refuses all; negative: not given */
    const char *unit_text;
    const char *name;                /* null: it has none */
    size_t name_number;              /* the same for the same name; ENVOY_NO_NAME: it has none */
    struct envoy_replaced *replaces; /* names whose limits do not apply beside this one */
    size_t n_replaces;
    size_t number; /* among all limits there are, from 0 */
};

/* The rules of one level, by key. */
struct envoy_level {
    struct config_index *keys; /* null: there are none */
    struct envoy_key *list;
    struct envoy_rule **stems; /* those without a value whose key ends with a star */
    size_t n_stems;
};

struct envoy_rule {
    const char *key;
    const char *value;        /* null: any */
    struct envoy_limit limit; /* not present, and nothing below: a free pass */
    bool shadow;              /* decides and counts, refuses nothing */
    bool quota;               /* the same, and named where the answer has metadata */
    bool share_threshold;     /* all values that `foo*` stands for have one count, not one each */
    size_t order;             /* among those of its level, as they are written */
    struct envoy_rule *rules; /* below it, as they are written */
    size_t n_rules;
    struct envoy_level below;       /* the same, to be found */
    const struct envoy_rule *above; /* null: it is at the top */
    const char *domain;
    const char *path;             /* for people: "message_type_marketing.to_number" */
    struct slice name;            /* for programs: unambiguous, with the domain */
    const struct yaml_node *node; /* for as long as it is being read */
};

/* The rules of one level that have the same key. */
struct envoy_key {
    struct config_index *values; /* numbers of `list`, by value; `foo*` is among them */
    struct envoy_rule **list;    /* those with a value */
    struct envoy_rule **stems;   /* those of them whose value ends with a star */
    size_t n, n_stems;
    struct envoy_rule *any; /* without a value; null: there is none */
};

struct envoy_domain {
    const char *name;
    struct envoy_level top;
};

struct envoy_rules {
    struct config_index *index; /* numbers of domains, by name */
    struct envoy_domain *domains;
    size_t n_domains;
    struct envoy_rule **limits; /* every rule that has a limit, by the limit's number */
    size_t n_limits;
};

/* Ms; 0: it is no unit. */
int64_t envoy_unit_ms(uint32_t unit);

/* "SECOND"; null: it is no unit. Static. */
const char *envoy_unit_name(uint32_t unit);

/* By its name, in whatever case; ENVOY_UNIT_NONE: it is none. */
enum envoy_unit envoy_unit_find(const char *name);

/* Null: there is none of that name. `rules` may be null, too. */
const struct envoy_domain *envoy_rules_domain(const struct envoy_rules *rules, struct slice name);

/* The rule at which the last of a descriptor's entries arrives; null: none. The rule above it is
 * that of the entry before, and so on. */
const struct envoy_rule *envoy_rules_match(const struct envoy_domain *domain,
                                           const struct envoy_rls_entry *entries, size_t n);

#endif
