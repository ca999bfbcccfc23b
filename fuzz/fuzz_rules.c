/* fuzz_rules.c - any bytes as the body of a call that rules are for.
 *
 * The first byte chooses the endpoint, the second the rules. What was seen lies within the body. A
 * body that rules have changed is one that is read again, and that they leave as it is and accept.
 */
#include <stdlib.h>

#include "insist.h"
#include "server/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char yaml[] =
    "tenants:\n"
    "  - {name: checks, rules: [{field: service_tier, allow: [default, auto]}, {field: n, max: "
    "1},\n"
    "      {field: tools.type, deny: [web_search]}, {field: metadata.team, require: true},\n"
    "      {field: max_tokens, min: 1, max: 8000}, {field: store, allow: [false]}]}\n"
    "  - {name: changes, rules: [{field: max_tokens, set: 7}, {field: metadata.team, set: a},\n"
    "      {field: metadata.x, default: \"b\\\"\"}, {field: user, default: u},\n"
    "      {field: temperature, set: 0.5}, {field: store, set: false},\n"
    "      {field: reasoning_effort, default: low}]}\n"
    "  - {name: both, parent: changes, rules: [{field: temperature, max: 1}]}\n";

struct reading {
    struct ask ask;
    struct ask_seen seen[ASK_WATCH_FIELDS_MAX];
    struct rule_changes changes;
    struct ask_problem problem;
};

static struct json_reader *reader;
static struct config config;

static bool read_body(enum endpoint endpoint, const char *body, size_t n, struct reading *reading)
{
    return ask_read_watching(reader, ASK_VALUES_MAX, endpoint, body, n, n, config.watch,
                             reading->seen, &reading->ask, &reading->problem);
}

static bool apply(const struct config_tenant *tenant, const char *body, struct reading *reading)
{
    const struct http_head head = {.status = 0};
    const struct rule_call call = {.watch = config.watch,
                                   .endpoint = reading->ask.endpoint,
                                   .seen = reading->seen,
                                   .body = body,
                                   .head = &head};
    struct rule_owner owners[RULE_OWNERS_MAX];
    size_t n = 0;

    for (;; tenant = &config.tenants[tenant->parent]) {
        owners[n++] = (struct rule_owner){"tenant", tenant->name, &tenant->rules};
        if (tenant->parent == CONFIG_NO_PARENT)
            break;
    }
    return field_rules_apply(owners, n, &call, &reading->changes, &reading->problem);
}

static void check_seen(const struct reading *reading)
{
    for (size_t i = 0; i < config.watch->n_fields; i++) {
        const struct ask_seen *seen = &reading->seen[i];
        insist(seen->span.at + seen->span.n <= reading->ask.body_bytes);
        insist(seen->other.at + seen->other.n <= reading->ask.body_bytes);
        insist((seen->kinds == 0) == (seen->n == 0) && seen->low <= seen->high);
    }
}

static void check_changed(const struct config_tenant *tenant, const char *body,
                          const struct reading *before)
{
    static struct reading after;
    struct slice slices[BODY_SLICES_MAX];
    struct body_edit edit;
    size_t total, used = 0;

    body_edit_init(&edit);
    for (size_t i = 0; i < before->changes.n; i++)
        if (strcmp(before->changes.list[i].rule->name, "max_tokens") == 0)
            insist(body_edit_set_bound(&edit, &before->ask, 7, "max_tokens"));
    field_rules_edit(&before->changes, &before->ask, &edit);
    size_t n = body_edit_slices(&edit, body, before->ask.body_bytes, slices, &total);
    char *edited = malloc(total);
    for (size_t i = 0; i < n; used += slices[i++].n)
        memcpy(edited + used, slices[i].at, slices[i].n);
    insist(read_body(before->ask.endpoint, edited, total, &after));
    insist(apply(tenant, edited, &after) && after.changes.n == 0);
    insist(before->changes.n > 0 || total == before->ask.body_bytes);
    free(edited);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct reading reading;
    struct config_problems problems;

    if (reader == NULL) {
        reader = json_reader_new();
        insist(config_parse(NULL, yaml, sizeof yaml - 1, &config, &problems) == CONFIG_READ);
        config_problems_free(&problems);
    }
    if (size < 2 || reader == NULL)
        return 0;
    enum endpoint endpoint = (enum endpoint)(data[0] % ENDPOINT_COUNT);
    const struct config_tenant *tenant = &config.tenants[data[1] % config.n_tenants];
    char *body = malloc(size);
    memcpy(body, data + 2, size - 2);
    if (read_body(endpoint, body, size - 2, &reading)) {
        check_seen(&reading);
        if (apply(tenant, body, &reading))
            check_changed(tenant, body, &reading);
        else
            for (const char *at = reading.problem.text; *at != '\0'; at++)
                insist(*at >= ' ' && *at <= '~');
    }
    free(body);
    return 0;
}
