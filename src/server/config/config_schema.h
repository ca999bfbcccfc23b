/* config_schema.h - every key of a configuration file, as tables.
 *
 * One row says all there is to a key: its name, what it takes, the range, the default, where in the
 * structs of config.h it goes, what it means. The reader (config_sections.c) reads by these tables,
 * takes the defaults from them, and makes its messages of them; docs/config.md is compared with
 * them by a test. A key that nobody interprets yet goes nowhere and is checked all the same.
 */
#ifndef TG_CONFIG_CONFIG_SCHEMA_H
#define TG_CONFIG_CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

/* What one value is, and in brackets as what it is kept. */
enum schema_kind {
    SCHEMA_COUNT,    /* a whole number [int64_t] */
    SCHEMA_NUMBER,   /* a decimal number [double] */
    SCHEMA_DURATION, /* 10ms, 5s, 2m, 1h, 30d [tg_ms] */
    SCHEMA_WAIT,     /* the same, or auto [tg_ms, or TG_WAIT_AUTO; absent CONFIG_WAIT_ABSENT] */
    SCHEMA_SIZE,     /* 64KiB, 32MiB, 1GiB [int64_t, bytes] */
    SCHEMA_USD,      /* dollars with up to six decimals [int64_t, micro-dollars] */
    SCHEMA_FACTOR,   /* a number with up to three decimals [int64_t, thousandths]; by name, they are
                        kept as struct config_factors */
    SCHEMA_BOOL,     /* true, false [bool] */
    SCHEMA_WORD,     /* one of `words` [int, the index among them] */
    SCHEMA_SWITCH,   /* one of two `words` [bool: whether it is the second] */
    SCHEMA_TEXT,     /* [const char *], and so are all below unless they say otherwise */
    SCHEMA_NAME,     /* 1 to 128 printable characters */
    SCHEMA_LINE,     /* a text without control characters, perhaps empty */
    SCHEMA_SECRET,   /* a text, or file:PATH; never shown [struct config_secret] */
    SCHEMA_DOCUMENT, /* the same, of many lines, of which file:PATH is the whole */
    SCHEMA_FILE,     /* a file that should be there, kept as this process finds it; one of `words`
                        instead, if there are any */
    SCHEMA_SHA256,   /* 64 hexadecimal digits [uint8_t[32]] */
    SCHEMA_TIME,     /* RFC 3339 [tg_ms] */
    SCHEMA_ZONE,     /* a time zone */
    SCHEMA_ADDRESS,  /* HOST:PORT */
    SCHEMA_NETWORK,  /* 10.0.0.0/8, ::1 [struct config_range] */
    SCHEMA_URL,      /* http or https; or one of `words` */
    SCHEMA_BASE,     /* the same without a query, taken apart [struct config_url]; of one of `words`
                        the host is null */
    SCHEMA_PATH,     /* /v1/x, kept without a slash at its end; or empty, if that is the default */
    SCHEMA_STORE,    /* memory or the address of Redis */
    SCHEMA_PATTERN,  /* demo-*, !demo-large */
    SCHEMA_ENDPOINT, /* a pattern of paths, perhaps with "!" before it: path_pattern.h */
    SCHEMA_HEADER,   /* header:NAME, kept as the name in lower case */
    SCHEMA_FIELD,    /* the name of a header, kept in lower case */
    SCHEMA_CLAIM,    /* claim:NAME, kept as the name */
    SCHEMA_VALUE,    /* a text, a number, true or false, as a rule compares it [nothing] */
    SCHEMA_DENY,     /* true, or a list of such values [nothing] */
    SCHEMA_SECTION,  /* a map with the keys of `section` [a struct]; or one of `words`, if there are
                        any [int at count_offset of the struct] */
    SCHEMA_LIMITER,  /* a strategy and its settings [struct config_limiter] */
};

enum schema_shape {
    SCHEMA_ONE,
    SCHEMA_LIST,  /* a list of such values; texts are kept as struct config_names, words as unsigned
                     with a bit for each, sections and networks as pointer and count */
    SCHEMA_NAMED, /* a map whose keys are free names; texts are kept as struct config_pairs,
                     sections as pointer and count, and each begins with a pointer to its name */
};

#define SCHEMA_NOWHERE ((size_t)-1)

struct schema_key {
    const char *name; /* null ends a table */
    enum schema_kind kind;
    enum schema_shape shape;
    bool required;
    bool above;            /* min itself is not allowed */
    double min, max;       /* for numbers, in the unit they are kept in */
    const char *otherwise; /* the default, as it would be written; null: none */
    const char *words;     /* "enforce|shadow" */
    const char *later;     /* what will be allowed one day, and the message says so: a word */
    const struct schema_section *section;
    size_t offset;       /* in the struct of the section, or SCHEMA_NOWHERE */
    size_t count_offset; /* where the count is, if pointer and count are kept */
    const char *help;
};

struct reader;
struct yaml_node;

struct schema_section {
    const struct schema_key *keys;
    size_t bytes;   /* size of its struct; 0: nothing is kept */
    size_t present; /* offset of a bool that says that it was given, or SCHEMA_NOWHERE */

    /* Checks what several keys say together, and fills in what follows from them. May be null. */
    void (*finish)(struct reader *reader, const struct yaml_node *node, void *into);
};

/* The whole file; its struct is struct config. */
extern const struct schema_section config_schema;

/* Its parts, one file each: config_schema_gate.c, _routes.c, _tenants.c. */
extern const struct schema_section schema_gate, schema_concurrency, schema_model_concurrency,
    schema_own_concurrency, schema_providers, schema_models, schema_passthrough, schema_protect,
    schema_tenants, schema_own, schema_budgets, schema_price, schema_rules, schema_image;

/* Functions that check a section as a whole, once its keys have been read: see config_finish.c,
 * config_policy.c, config_tenants.c, config_own.c and envoy_rules_read.c. */
void config_finish_concurrency(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_type(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_memory(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_limits(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_each(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_key(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_own(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_tenant(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_rule(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_listen(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_ledger(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_sizes(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_caller(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_callers_jwt(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_authz(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_envoy(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_root(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_preset(struct reader *reader, const struct yaml_node *node,
                          struct config_provider *provider);
void config_finish_provider(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_model(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_passthrough(struct reader *reader, const struct yaml_node *node, void *into);
void config_finish_protect(struct reader *reader, const struct yaml_node *node, void *into);

/* ---- config_schema_text.c ---- */

/* The key of a section by its name; null: there is none. */
const struct schema_key *schema_find_key(const struct schema_section *section, const char *name);

/* What a key takes, in words that stand after "it must be": "a whole number from 1 to 1024". */
void schema_describe(const struct schema_key *key, char *text, size_t bytes);

/* The number of a word in "a|b|c"; false if it is not among them. */
bool schema_find_word(const char *words, const char *text, int *number);

#endif
