/* config_rules.c - rules for fields and headers: read, and held against each other.
 *
 * A rule is compiled when it is read: its field gets a number among those that the walk over a body
 * watches, and each value that it names a bit (server/dialect/ask_watch.h). What two rules say
 * against each other is an error where it can be seen in a file: within one owner, and between a
 * tenant and its parents. A tenant and a model meet in calls alone; there the model's `set` comes
 * last, and what is then refused says by whose rule.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/text/text_out.h"
#include "server/config/config_reader.h"
#include "server/config/config_values.h"

/* ---- One rule ---- */

static struct ask_watch *watch_of(struct reader *reader)
{
    struct config *config = reader->config;

    if (config->watch == NULL) {
        config->watch = config_alloc(reader, sizeof *config->watch);
        if (config->watch != NULL)
            ask_watch_init(config->watch);
    }
    return config->watch;
}

/* What bounds and prices depend on, or the gateway writes itself, is not for a rule to put in. */
static bool may_be_set(const char *name)
{
    static const char *const never[] = {"model",
                                        "models",
                                        "messages",
                                        "input",
                                        "prompt",
                                        "system",
                                        "instructions",
                                        "tools",
                                        "functions",
                                        "stream",
                                        "stream_options",
                                        "background",
                                        "best_of",
                                        "prediction",
                                        "previous_response_id",
                                        "conversation",
                                        "fallbacks",
                                        "mcp_servers",
                                        "context_management",
                                        "max_tool_calls",
                                        "modalities",
                                        "audio",
                                        "container",
                                        "thread",
                                        "cache_control",
                                        "prompt_cache_options",
                                        "reasoning.mode",
                                        "format",
                                        "stop",
                                        "suffix"};

    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        size_t n = strlen(never[i]);
        if (strncmp(name, never[i], n) == 0 && (name[n] == '\0' || name[n] == '.'))
            return false;
    }
    for (enum endpoint i = ENDPOINT_NONE; i < ENDPOINT_COUNT; i++) {
        const char *path = ask_watch_spelling(name, i);
        const char *dot = path != NULL ? strchr(path, '.') : NULL;
        if (dot != NULL && strchr(dot + 1, '.') != NULL)
            return false;
    }
    return true;
}

/* In quotes it is a text, else a number, true or false, if it can be. */
static void read_rule_value(struct reader *reader, const struct yaml_node *node, bool is_header,
                            struct watch_value *value)
{
    *value = (struct watch_value){.kind = JSON_STRING};
    if (!node->quoted && !is_header && value_number(node->text, &value->number))
        value->kind = JSON_DOUBLE;
    else if (!node->quoted && !is_header &&
             (strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0))
        value->kind = JSON_BOOL, value->boolean = node->text[0] == 't';
    else
        value->text = slice_of(config_text(reader, node->text));
}

static bool is_value(const struct yaml_node *node)
{
    return node->kind == YAML_TEXT && !node->unknown;
}

static bool take_value(struct reader *reader, const struct yaml_node *node,
                       const struct field_rule *rule, struct watch_value *value, unsigned *bit)
{
    struct ask_watch *watch = watch_of(reader);

    read_rule_value(reader, node, rule->is_header, value);
    if (reader->no_memory || watch == NULL)
        return false;
    if (ask_watch_value(watch, rule->field, value, bit))
        return true;
    config_error(reader, node, "%s: rules name too many values of %s; at most %d are allowed",
                 reader->path, rule->name, ASK_WATCH_VALUES_MAX);
    return false;
}

static uint64_t take_values(struct reader *reader, const struct yaml_node *list,
                            const struct field_rule *rule)
{
    uint64_t bits = 0;
    struct watch_value value;
    unsigned bit;

    for (const struct yaml_node *child = list->first; child != NULL; child = child->next)
        if (is_value(child) && take_value(reader, child, rule, &value, &bit))
            bits |= UINT64_C(1) << bit;
    return bits;
}

static const char *join_values(struct reader *reader, const struct yaml_node *list)
{
    char text[200];
    struct text_out out;

    text_out_fixed(&out, text, sizeof text - 1);
    for (const struct yaml_node *child = list->first; child != NULL; child = child->next)
        if (is_value(child)) {
            if (out.size > 0)
                text_out_text(&out, ", ");
            text_out_put(&out, child->text, child->bytes);
        }
    return config_bytes(reader, text, out.size);
}

/* What is put in, as it is sent. */
static void take_change(struct reader *reader, const struct yaml_node *node,
                        enum rule_change_kind change, struct field_rule *rule)
{
    char text[RULE_TEXT_MAX + 1];
    struct text_out out;

    if (!is_value(node) || !take_value(reader, node, rule, &rule->value, &rule->bit))
        return;
    rule->change = change;
    text_out_fixed(&out, text, RULE_TEXT_MAX);
    if (rule->is_header)
        text_out_put(&out, node->text, node->bytes);
    else if (rule->value.kind == JSON_STRING)
        text_out_json_cut(&out, rule->value.text, RULE_TEXT_MAX);
    else if (rule->value.kind == JSON_BOOL)
        text_out_put(&out, node->text, node->bytes);
    else
        text_out_double(&out, rule->value.number);
    if (out.failed || node->bytes > RULE_TEXT_MAX - 4)
        config_error(reader, node, "%s is too long; it must have at most %d bytes", reader->path,
                     RULE_TEXT_MAX - 4);
    rule->text = config_bytes(reader, text, out.size);
    if (!rule->is_header && !may_be_set(rule->name))
        config_error(reader, node,
                     "%s: %.40s cannot be put into a call; it can be allowed, denied and bounded",
                     reader->path, rule->name);
    if (strcmp(rule->name, "max_tokens") == 0 && !rule->is_header &&
        (rule->value.kind != JSON_DOUBLE || rule->value.number < 1 ||
         rule->value.number > (double)TG_NUMBER_MAX ||
         rule->value.number != floor(rule->value.number)))
        config_error(reader, node, "%s: max_tokens must be a whole number from 1 up", reader->path);
}

/* The object around a field that may have to be made is watched, too. */
static bool watch_objects(struct ask_watch *watch, const char *name, struct reader *reader)
{
    for (enum endpoint i = ENDPOINT_NONE; i < ENDPOINT_COUNT; i++) {
        const char *path = ask_watch_spelling(name, i);
        const char *dot = path != NULL ? strchr(path, '.') : NULL;
        size_t field;
        if (dot == NULL)
            continue;
        const char *around = config_bytes(reader, path, (size_t)(dot - path));
        if (around == NULL || !ask_watch_add(watch, around, false, &field))
            return false;
    }
    return true;
}

static bool take_field(struct reader *reader, const struct yaml_node *node, struct field_rule *rule)
{
    const struct yaml_node *field = yaml_tree_get(node, "field");
    const struct yaml_node *header = yaml_tree_get(node, "header");
    const struct yaml_node *at = header != NULL ? header : config_child_or_self(node, "field");
    struct ask_watch *watch = watch_of(reader);

    if ((field == NULL) == (header == NULL)) {
        config_error(reader, node, "%s has %s; it must have one of field and header", reader->path,
                     field != NULL ? "a field and a header" : "no field");
        return false;
    }
    if (!is_value(at) || rule->name == NULL || watch == NULL)
        return false;
    rule->is_header = header != NULL;
    if (!rule->is_header)
        rule->name = ask_watch_neutral(rule->name);
    /* Only the letters of keys: dots are between them. */
    if (!rule->is_header &&
        strspn(rule->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") !=
            strlen(rule->name)) {
        config_error(reader, at,
                     "%s.field is \"%.60s\"; it must be a key such as service_tier, or "
                     "keys with dots between, such as metadata.team",
                     reader->path, at->written);
        return false;
    }
    if (ask_watch_add(watch, rule->name, rule->is_header, &rule->field) &&
        (rule->is_header || watch_objects(watch, rule->name, reader)))
        return true;
    config_error(reader, at,
                 "%s: there can be no rule for \"%.60s\"; it must have at most %d keys and %d "
                 "bytes, and all rules together name at most %d fields and headers",
                 reader->path, at->written, ASK_WATCH_DEPTH_MAX, ASK_WATCH_NAME_MAX - 1,
                 ASK_WATCH_FIELDS_MAX);
    return false;
}

/* Whether what is put in is what the rule itself would refuse. */
static bool refuses_own(const struct field_rule *rule)
{
    uint64_t bit = UINT64_C(1) << rule->bit;
    bool number = rule->value.kind == JSON_DOUBLE;

    return (rule->has_allow && (rule->allow & bit) == 0) || (rule->deny & bit) != 0 ||
           ((rule->has_min || rule->has_max) && !number) ||
           (rule->has_min && rule->value.number < rule->min) ||
           (rule->has_max && rule->value.number > rule->max);
}

static void check_own(struct reader *reader, const struct yaml_node *node,
                      const struct field_rule *rule)
{
    bool checks = rule->has_allow || rule->deny != 0 || rule->has_min || rule->has_max;

    if (!checks && !rule->require && !rule->deny_all && rule->change == RULE_KEEPS && node->n == 1)
        /* Else what it has has been reported. */
        config_error(reader, node,
                     "%s says nothing of %.60s; it must have one of allow, deny, min, max, "
                     "require, set, default",
                     reader->path, rule->name);
    else if (rule->deny_all && (checks || rule->require || rule->change != RULE_KEEPS))
        config_error(
            reader, yaml_tree_get(node, "deny"),
            "%s denies %.60s whatever it is, and says more of it; it must do one or the other",
            reader->path, rule->name);
    else if (rule->require && rule->change != RULE_KEEPS)
        config_error(reader, yaml_tree_get(node, "require"),
                     "%s requires %.60s, and puts it in; it must do one or the other", reader->path,
                     rule->name);
    else if (rule->has_allow && (rule->allow & ~rule->deny) == 0)
        config_error(reader, yaml_tree_get(node, "allow"),
                     "%s allows no value of %.60s; deny: true if that is meant", reader->path,
                     rule->name);
    else if ((rule->allow & rule->deny) != 0)
        config_error(reader, yaml_tree_get(node, "deny"),
                     "%s allows and denies the same value of %.60s", reader->path, rule->name);
    else if (rule->has_min && rule->has_max && rule->min > rule->max)
        config_error(reader, yaml_tree_get(node, "min"),
                     "%s: min is %.15g and max %.15g; min must not be above max", reader->path,
                     rule->min, rule->max);
    else if (rule->is_header && (rule->has_min || rule->has_max))
        config_error(reader, node, "%s: a header has no min and max; it must have allow or deny",
                     reader->path);
    else if (rule->change != RULE_KEEPS && refuses_own(rule))
        config_error(
            reader, config_child_or_self(node, rule->change == RULE_SET ? "set" : "default"),
            "%s puts in a value of %.60s that it does not allow", reader->path, rule->name);
}

void config_finish_rule(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct yaml_node *allow = yaml_tree_get(node, "allow");
    const struct yaml_node *deny = yaml_tree_get(node, "deny");
    const struct yaml_node *set = yaml_tree_get(node, "set");
    const struct yaml_node *otherwise = yaml_tree_get(node, "default");
    struct field_rule *rule = into;

    if (!take_field(reader, node, rule))
        return;
    rule->has_min = yaml_tree_get(node, "min") != NULL;
    rule->has_max = yaml_tree_get(node, "max") != NULL;
    rule->deny_all = deny != NULL && deny->kind == YAML_TEXT;
    rule->has_allow = allow != NULL;
    if (allow != NULL && allow->kind == YAML_LIST) {
        rule->allow = take_values(reader, allow, rule);
        rule->allowed = join_values(reader, allow);
    }
    if (deny != NULL && deny->kind == YAML_LIST)
        rule->deny = take_values(reader, deny, rule);
    if (set != NULL && otherwise != NULL) {
        config_error(reader, otherwise, "%s has set and default; it must have one or the other",
                     reader->path);
        return;
    }
    if (set != NULL)
        take_change(reader, set, RULE_SET, rule);
    else if (otherwise != NULL)
        take_change(reader, otherwise, RULE_DEFAULT, rule);
    if (!reader->no_memory)
        check_own(reader, node, rule);
}

/* ---- Several rules ---- */

/* Whether no value passes both; null: some may. */
static const char *contradiction(const struct field_rule *a, const struct field_rule *b)
{
    if (a->change != RULE_KEEPS && a->change == b->change && a->bit != b->bit)
        return "puts in another value";
    if (a->has_allow && b->has_allow && (a->allow & b->allow) == 0)
        return "allows none of the same values";
    if ((a->deny_all && (b->require || b->change == RULE_SET)) ||
        (b->deny_all && (a->require || a->change == RULE_SET)))
        return "says the opposite";
    if ((a->has_min && b->has_max && a->min > b->max) ||
        (a->has_max && b->has_min && a->max < b->min))
        return "leaves no number between min and max";
    if ((a->change == RULE_SET && b->has_allow && (b->allow >> a->bit & 1) == 0) ||
        (b->change == RULE_SET && a->has_allow && (a->allow >> b->bit & 1) == 0) ||
        (a->change == RULE_SET && (b->deny >> a->bit & 1) != 0) ||
        (b->change == RULE_SET && (a->deny >> b->bit & 1) != 0))
        return "does not allow what is set";
    return NULL;
}

/* Rules of one list against those of another, or of the same one before them. */
static void check_lists(struct reader *reader, const struct yaml_node *list,
                        const struct field_rules *rules, const struct field_rules *others,
                        const char *whose)
{
    const struct yaml_node *node = list != NULL ? list->first : NULL;

    for (size_t i = 0; i < rules->n && node != NULL; i++, node = node->next)
        for (size_t k = 0; k < (rules == others ? i : others->n); k++) {
            const struct field_rule *a = &rules->list[i], *b = &others->list[k];
            const char *why = a->field == b->field ? contradiction(a, b) : NULL;
            if (a->name == NULL || b->name == NULL || why == NULL)
                continue;
            config_error(reader, node,
                         "the rule for %.60s contradicts rules[%zu] of %s%.60s: it %s", a->name, k,
                         whose != NULL ? "the tenant " : "the same list",
                         whose != NULL ? whose : "", why);
        }
}

static size_t count_changes(const struct field_rules *rules)
{
    size_t n = 0;

    for (size_t i = 0; i < rules->n; i++)
        n += rules->list[i].change != RULE_KEEPS;
    return n;
}

/* Half of what one call may have changed is for its model, half for its tenant and parents. */
static void check_changes(struct reader *reader, const struct yaml_node *list, size_t n)
{
    if (n > RULE_CHANGES_MAX / 2)
        config_error(reader, list,
                     "%zu rules put something into a call; at most %d may, a "
                     "tenant's with those of its parents",
                     n, RULE_CHANGES_MAX / 2);
}

static void check_tenant_rules(struct reader *reader, size_t at)
{
    const struct config *config = reader->config;
    const struct config_tenant *tenant = &config->tenants[at];
    const struct yaml_node *list = yaml_tree_get(reader->places[at].node, "rules");
    size_t n = 0;

    reader->current = reader->places[at].document;
    check_lists(reader, list, &tenant->rules, &tenant->rules, NULL);
    for (size_t i = at; i != CONFIG_NO_PARENT; i = config->tenants[i].parent) {
        if (i != at)
            check_lists(reader, list, &tenant->rules, &config->tenants[i].rules,
                        config->tenants[i].name);
        n += count_changes(&config->tenants[i].rules);
    }
    if (list != NULL)
        check_changes(reader, list, n);
}

/* ---- What changes prices ---- */

/* Values that cost what no value does. */
static const struct plain {
    const char *field, *value;
} plain[] = {
    {"service_tier", "default"},  {"service_tier", "auto"}, {"service_tier", "standard_only"},
    {"service_tier", "standard"}, {"speed", "standard"},    {"inference_geo", "global"},
};

static const char *const tiers[CONFIG_TIERS] = {"service_tier", "speed", "inference_geo"};

/* Betas that change no price, or whose price is read from the body. */
static const struct plain plain_betas[] = {
    {"anthropic-beta", "claude-code-20250219"},
    {"anthropic-beta", "extended-cache-ttl-2025-04-11"},
    {"anthropic-beta", "fine-grained-tool-streaming-2025-05-14"},
    {"anthropic-beta", "interleaved-thinking-2025-05-14"},
    {"anthropic-beta", "output-128k-2025-02-19"},
    {"anthropic-beta", "pdfs-2024-09-25"},
    {"anthropic-beta", "prompt-caching-2024-07-31"},
    {"anthropic-beta", "token-counting-2024-11-01"},
    {"anthropic-beta", "token-efficient-tools-2025-02-19"},
    {"openai-beta", "assistants=v2"},
};

static const char *const betas[CONFIG_BETAS] = {"anthropic-beta", "openai-beta"};

static bool add_plain(struct ask_watch *watch, const struct plain *row, bool is_header,
                      size_t *field, uint64_t *bits)
{
    struct watch_value value = {.kind = JSON_STRING, .text = slice_of(row->value)};
    unsigned bit;

    if (!ask_watch_add(watch, row->field, is_header, field) ||
        !ask_watch_value(watch, *field, &value, &bit))
        return false;
    *bits |= UINT64_C(1) << bit;
    return true;
}

/* Before anything is read: there is room for these whatever rules say. */
void config_watch_prices(struct reader *reader)
{
    struct ask_watch *watch = watch_of(reader);
    struct config *config = reader->config;
    bool good = watch != NULL;

    for (size_t i = 0; i < sizeof plain / sizeof plain[0] && good; i++)
        for (size_t k = 0; k < CONFIG_TIERS; k++)
            if (strcmp(plain[i].field, tiers[k]) == 0)
                good = add_plain(watch, &plain[i], false, &config->tiers[k].field,
                                 &config->tiers[k].plain);
    for (size_t i = 0; i < sizeof plain_betas / sizeof plain_betas[0] && good; i++)
        for (size_t k = 0; k < CONFIG_BETAS; k++)
            if (strcmp(plain_betas[i].field, betas[k]) == 0)
                good = add_plain(watch, &plain_betas[i], true, &config->betas[k].field,
                                 &config->betas[k].plain);
    assert(good || reader->no_memory);
}

/* ---- All of it ---- */

static void add_hard_budgets(const struct config_budget *budgets, size_t n, bool *hard, bool *bound)
{
    for (size_t i = 0; i < n; i++)
        if (budgets[i].mode == CONFIG_ENFORCE) {
            *hard = true;
            *bound |= budgets[i].reserve == CONFIG_RESERVE_BOUND;
        }
}

/* Its keys' own come on top. */
static void find_hard_keys(struct config_tenant *tenant)
{
    for (size_t k = 0; k < tenant->n_keys; k++) {
        struct config_own *own = &tenant->keys[k].own;
        own->hard_budget = own->bound_budget = false;
        if (tenant->mode == CONFIG_ENFORCE)
            add_hard_budgets(own->budgets, own->n_budgets, &own->hard_budget, &own->bound_budget);
    }
}

/* A tenant in shadow is refused nothing by budgets of its own. */
static void find_hard_budgets(struct config *config)
{
    for (size_t i = 0; i < config->n_tenants; i++) {
        struct config_tenant *tenant = &config->tenants[i];
        bool hard = false, bound = false;
        add_hard_budgets(config->budgets, config->n_budgets, &hard, &bound);
        for (size_t k = i; k != CONFIG_NO_PARENT; k = config->tenants[k].parent) {
            const struct config_tenant *at = &config->tenants[k];
            if (at->mode != CONFIG_ENFORCE)
                continue;
            add_hard_budgets(at->budgets, at->n_budgets, &hard, &bound);
            if (k == i && at->users.each.mode == CONFIG_ENFORCE)
                add_hard_budgets(at->users.budgets, at->users.n_budgets, &hard, &bound);
        }
        tenant->hard_budget = hard;
        tenant->bound_budget = bound;
        find_hard_keys(tenant);
    }
}

/* What has a factor has a price. A name that finds no room among the values has none. */
static uint64_t find_priced(struct ask_watch *watch, size_t field,
                            const struct config_factors *factors)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < factors->n; i++) {
        struct watch_value value = {.kind = JSON_STRING, .text = slice_of(factors->list[i].name)};
        unsigned bit;
        if (ask_watch_value(watch, field, &value, &bit))
            bits |= UINT64_C(1) << bit;
    }
    return bits;
}

static void find_prices(struct config *config)
{
    for (size_t i = 0; i < config->n_models; i++) {
        struct config_model *model = &config->models[i];
        const struct config_factors *factors[CONFIG_TIERS] = {&model->service_tier, &model->speed,
                                                              &model->inference_geo};
        for (size_t k = 0; k < CONFIG_TIERS; k++)
            model->priced[k] = find_priced(config->watch, config->tiers[k].field, factors[k]);
    }
}

void config_check_rules(struct reader *reader)
{
    struct config_walk walk = CONFIG_MAP("models");
    struct config *config = reader->config;
    const struct yaml_node *node;

    while ((node = config_walk_next(reader, &walk)) != NULL) {
        const struct yaml_node *list = yaml_tree_get(node, "rules");
        const struct field_rules *rules = &config->models[walk.n - 1].rules;
        assert(walk.n <= config->n_models);
        check_lists(reader, list, rules, rules, NULL);
        if (list != NULL)
            check_changes(reader, list, count_changes(rules));
    }
    for (size_t i = 0; i < config->n_tenants; i++)
        check_tenant_rules(reader, i);
    find_hard_budgets(config);
    find_prices(config);
}
