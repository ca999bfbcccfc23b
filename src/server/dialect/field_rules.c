/* field_rules.c - rules for the fields and headers of a call. See field_rules.h. */
#include "server/dialect/field_rules.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"

/* ---- What a call has ------------------------------------------------------------------------- */

/* One value or several of a field or a header. */
struct have {
    size_t n;
    uint64_t values;
    unsigned kinds;
    double low, high;
    struct slice other; /* the first that no rule names, as it was sent */
};

/* The next element of a header that is a list with commas. */
static bool next_element(struct slice *rest, struct slice *element)
{
    while (rest->n > 0) {
        const char *comma = memchr(rest->at, ',', rest->n);
        size_t n = comma != NULL ? (size_t)(comma - rest->at) : rest->n;
        *element = (struct slice){rest->at, n};
        rest->at += n + (comma != NULL);
        rest->n -= n + (comma != NULL);
        while (element->n > 0 && (*element->at == ' ' || *element->at == '\t'))
            element->at++, element->n--;
        while (element->n > 0 &&
               (element->at[element->n - 1] == ' ' || element->at[element->n - 1] == '\t'))
            element->n--;
        if (element->n > 0)
            return true;
    }
    return false;
}

static void have_of_header(const struct rule_call *call, size_t field, struct have *have)
{
    struct slice name = slice_of(call->watch->fields[field].name), value, element;
    unsigned bit;

    for (size_t i = 0; http_next(call->head, name, &i, &value);)
        for (have->n++; next_element(&value, &element);) {
            struct watch_value found = {.kind = JSON_STRING, .text = element};
            have->kinds |= 1u << JSON_STRING;
            if (ask_watch_find(call->watch, field, &found, &bit))
                have->values |= UINT64_C(1) << bit;
            else if (have->other.n == 0)
                have->other = element;
        }
}

/* The change of a field or header; null: it stays as it is. */
static const struct rule_change *rule_change_of(const struct rule_changes *changes, size_t field)
{
    for (size_t i = 0; i < changes->n; i++)
        if (changes->list[i].rule->field == field)
            return &changes->list[i];
    return NULL;
}

static struct have have_of(const struct rule_call *call, const struct rule_changes *changes,
                           size_t field)
{
    const struct rule_change *change = rule_change_of(changes, field);
    struct have have = {0};

    if (change != NULL) {
        const struct watch_value *value = &change->rule->value;
        have = (struct have){.n = 1,
                             .values = UINT64_C(1) << change->rule->bit,
                             .kinds = 1u << value->kind,
                             .low = value->number,
                             .high = value->number};
    } else if (call->watch->fields[field].is_header) {
        have_of_header(call, field, &have);
    } else if (call->seen != NULL) {
        const struct ask_seen *seen = &call->seen[field];
        have = (struct have){.n = seen->n,
                             .values = seen->values,
                             .kinds = seen->kinds,
                             .low = seen->low,
                             .high = seen->high,
                             .other = {call->body + seen->other.at, seen->other.n}};
    }
    return have;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* What is shown of a client's value: printable, and not much of it. */
static void show_value(struct slice from, char text[RULE_TEXT_MAX])
{
    size_t n = from.n < 40 ? from.n : 37;

    for (size_t i = 0; i < n; i++)
        text[i] = from.at[i] >= ' ' && from.at[i] <= '~' ? from.at[i] : '?';
    snprintf(text + n, RULE_TEXT_MAX - n, "%s", from.n < 40 ? "" : "...");
}

/* The first of `bits`, or what no rule names. */
static void show_have(const struct rule_call *call, size_t field, const struct have *have,
                      uint64_t bits, char text[RULE_TEXT_MAX])
{
    size_t at = call->watch->fields[field].values;

    if (bits == 0) {
        show_value(have->other, text);
        return;
    }
    for (; (bits & 1) == 0; bits >>= 1)
        at = call->watch->values[at].next;
    const struct watch_value *value = &call->watch->values[at];
    if (value->kind == JSON_STRING)
        show_value(value->text, text);
    else if (value->kind == JSON_BOOL)
        snprintf(text, RULE_TEXT_MAX, "%s", value->boolean ? "true" : "false");
    else
        snprintf(text, RULE_TEXT_MAX, "%.15g", value->number);
}

__attribute__((format(printf, 4, 5))) static bool rule_refuses(struct ask_problem *problem,
                                                               const struct rule_owner *owner,
                                                               const struct field_rule *rule,
                                                               const char *format, ...)
{
    va_list arguments;
    int n = snprintf(problem->text, sizeof problem->text, "%s'%.64s' ",
                     rule->is_header ? "the header " : "", rule->name);

    snprintf(problem->param, sizeof problem->param, "%.63s", rule->name);
    va_start(arguments, format);
    n += vsnprintf(problem->text + n, sizeof problem->text - (size_t)n, format, arguments);
    va_end(arguments);
    if ((size_t)n < sizeof problem->text)
        snprintf(problem->text + n, sizeof problem->text - (size_t)n, " (rule of %s %.60s)",
                 owner->kind, owner->name);
    return false;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_numbers(const struct rule_owner *owner, const struct field_rule *rule,
                          const struct have *have, struct ask_problem *problem)
{
    unsigned others = have->kinds & ~(1u << JSON_DOUBLE | 1u << JSON_ARRAY);

    if (others != 0)
        return rule_refuses(problem, owner, rule, "must be a number");
    if ((have->kinds >> JSON_DOUBLE & 1) == 0)
        return true;
    if (rule->has_max && have->high > rule->max)
        return rule_refuses(problem, owner, rule, "is %.15g; at most %.15g is allowed", have->high,
                            rule->max);
    if (rule->has_min && have->low < rule->min)
        return rule_refuses(problem, owner, rule, "is %.15g; at least %.15g is allowed", have->low,
                            rule->min);
    return true;
}

static bool check_rule(const struct rule_owner *owner, const struct field_rule *rule,
                       const struct rule_call *call, const struct rule_changes *changes,
                       struct ask_problem *problem)
{
    const struct have have = have_of(call, changes, rule->field);
    char value[RULE_TEXT_MAX];

    if (have.n == 0) {
        /* What a call of this kind cannot have is not asked of it. */
        if (!rule->require ||
            (!rule->is_header && ask_watch_spelling(rule->name, call->endpoint) == NULL))
            return true;
        return rule_refuses(problem, owner, rule, "is missing; it must be given");
    }
    if (rule->deny_all)
        return rule_refuses(problem, owner, rule, "is not allowed");
    if ((have.values & rule->deny) != 0) {
        show_have(call, rule->field, &have, have.values & rule->deny, value);
        return rule_refuses(problem, owner, rule, "is %s, which is not allowed", value);
    }
    if (rule->has_allow && ((have.values & ~rule->allow) != 0 || have.other.n > 0)) {
        show_have(call, rule->field, &have, have.values & ~rule->allow, value);
        return rule_refuses(problem, owner, rule, "is %s; allowed: %.100s", value, rule->allowed);
    }
    return (!rule->has_min && !rule->has_max) || check_numbers(owner, rule, &have, problem);
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* Where a new key goes. False: something else is there. */
static bool find_place(const struct rule_call *call, struct rule_change *change)
{
    const char *dot = strchr(change->path, '.');

    if (dot == NULL)
        return true;
    size_t field = ask_watch_field(
        call->watch, (struct slice){change->path, (size_t)(dot - change->path)}, false);
    assert(field != ASK_WATCH_NONE); /* whoever made the rule watches it */
    const struct ask_seen *seen = &call->seen[field];
    if (seen->n > 0 && seen->kinds != 1u << JSON_OBJECT)
        return false;
    change->object = seen->span;
    change->filled = seen->filled;
    return true;
}

static bool change_field(const struct rule_owner *owner, const struct field_rule *rule,
                         const struct rule_call *call, struct rule_change *change,
                         struct ask_problem *problem)
{
    const struct ask_seen *seen = &call->seen[rule->field];

    if ((seen->kinds & (1u << JSON_OBJECT | 1u << JSON_ARRAY)) != 0)
        return rule_refuses(problem, owner, rule,
                            "is set to %s here; it must not be a list or an object", rule->text);
    if (seen->places > 1 && strcmp(rule->name, "max_tokens") != 0)
        return rule_refuses(problem, owner, rule, "is set to %s here; it must be given once",
                            rule->text);
    change->path = ask_watch_spelling(rule->name, call->endpoint);
    change->span = seen->span;
    if (seen->span.n == 0 && !find_place(call, change))
        return rule_refuses(problem, owner, rule,
                            "is set here; what is around it must be an object");
    return true;
}

static bool put_in(const struct rule_owner *owner, const struct field_rule *rule,
                   const struct rule_call *call, struct rule_changes *changes,
                   struct ask_problem *problem)
{
    struct rule_change change = {.rule = rule};
    const struct rule_change *before = rule_change_of(changes, rule->field);

    if (!rule->is_header &&
        (call->seen == NULL || ask_watch_spelling(rule->name, call->endpoint) == NULL))
        return true;
    if (before != NULL) {
        if (rule->change == RULE_SET)
            changes->list[before - changes->list].rule = rule;
        return true;
    }
    const struct have have = have_of(call, changes, rule->field);
    bool same = have.values == UINT64_C(1) << rule->bit && have.other.n == 0 &&
                have.kinds == 1u << rule->value.kind;
    if (have.n > 0 && (rule->change == RULE_DEFAULT || same))
        return true;
    if (!rule->is_header && !change_field(owner, rule, call, &change, problem))
        return false;
    assert(changes->n < RULE_CHANGES_MAX); /* the configuration has no more of them */
    changes->list[changes->n++] = change;
    return true;
}

bool field_rules_apply(const struct rule_owner *owners, size_t n, const struct rule_call *call,
                       struct rule_changes *changes, struct ask_problem *problem)
{
    changes->n = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < owners[i].rules->n; k++) {
            const struct field_rule *rule = &owners[i].rules->list[k];
            if (rule->change != RULE_KEEPS && !put_in(&owners[i], rule, call, changes, problem))
                return false;
        }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < owners[i].rules->n; k++)
            if (!check_rule(&owners[i], &owners[i].rules->list[k], call, changes, problem))
                return false;
    return true;
}

bool field_rules_cover(const struct rule_owner *owners, size_t n, const struct rule_call *call,
                       const struct rule_changes *changes, size_t field, uint64_t good,
                       char value[RULE_TEXT_MAX])
{
    const struct have have = have_of(call, changes, field);

    if (have.n == 0 || rule_change_of(changes, field) != NULL)
        return true;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < owners[i].rules->n; k++)
            if (owners[i].rules->list[k].field == field && owners[i].rules->list[k].has_allow)
                good |= owners[i].rules->list[k].allow;
    if ((have.values & ~good) == 0 && have.other.n == 0)
        return true;
    show_have(call, field, &have, have.values & ~good, value);
    return false;
}

/* ---- The body -------------------------------------------------------------------------------- */

/* Several new keys of one object are put into it together: where there is none, it is made once. */
static bool is_first_of(const struct rule_changes *changes, size_t at)
{
    const char *path = changes->list[at].path;
    size_t n = strcspn(path, ".") + 1;

    for (size_t i = 0; i < at; i++)
        if (changes->list[i].path != NULL && changes->list[i].span.n == 0 &&
            strncmp(changes->list[i].path, path, n) == 0)
            return false;
    return true;
}

static void edit_object(const struct rule_changes *changes, size_t at, const struct ask *ask,
                        struct body_edit *edit)
{
    const struct rule_change *first = &changes->list[at];
    size_t n = strcspn(first->path, ".");
    const char *comma = "";

    body_edit_begin(edit);
    if (first->object.n == 0)
        body_edit_text(edit, "\"%.*s\":", (int)n, first->path);
    if (!(first->object.n == 1))
        body_edit_text(edit, "{");
    for (size_t i = at; i < changes->n; i++) {
        const struct rule_change *change = &changes->list[i];
        if (change->path == NULL || change->span.n > 0 ||
            strncmp(change->path, first->path, n + 1) != 0)
            continue;
        body_edit_text(edit, "%s\"%s\":%s", comma, change->path + n + 1, change->rule->text);
        comma = ",";
    }
    if (first->object.n != 1)
        body_edit_text(edit, "}");
    if (first->object.n == 0)
        body_edit_end(edit, ask->root_at + 1, 0, ",");
    else if (first->object.n == 1)
        body_edit_end(edit, first->object.at + 1, 0, first->filled ? "," : "");
    else
        body_edit_end(edit, first->object.at, first->object.n, "");
}

void field_rules_edit(const struct rule_changes *changes, const struct ask *ask,
                      struct body_edit *edit)
{
    for (size_t i = 0; i < changes->n; i++) {
        const struct rule_change *change = &changes->list[i];
        if (change->path == NULL || strcmp(change->rule->name, "max_tokens") == 0)
            continue;
        if (change->span.n > 0) {
            body_edit_begin(edit);
            body_edit_text(edit, "%s", change->rule->text);
            body_edit_end(edit, change->span.at, change->span.n, "");
        } else if (strchr(change->path, '.') == NULL) {
            body_edit_begin(edit);
            body_edit_text(edit, "\"%s\":%s", change->path, change->rule->text);
            body_edit_end(edit, ask->root_at + 1, 0, ",");
        } else if (is_first_of(changes, i)) {
            edit_object(changes, i, ask, edit);
        }
    }
}

size_t field_rules_names(const struct rule_changes *changes, char *text, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < changes->n; i++) {
        const char *name = changes->list[i].rule->name;
        size_t more = strlen(name) + (n > 0 ? 2 : 0);
        if (n + more + 5 > size) { /* room for the dots, always */
            n += (size_t)snprintf(text + n, size - n, "%s...", n > 0 ? ", " : "");
            break;
        }
        n += (size_t)snprintf(text + n, size - n, "%s%s", n > 0 ? ", " : "", name);
    }
    return n;
}

/* ---- what was read of the body ---- */

/* The word of the ask that prices depend on, if the field is one. */
static struct ask_word *priced_word(struct ask *ask, const char *name)
{
    if (strcmp(name, "service_tier") == 0)
        return &ask->service_tier;
    if (strcmp(name, "speed") == 0)
        return &ask->speed;
    return strcmp(name, "inference_geo") == 0 ? &ask->inference_geo : NULL;
}

void field_rules_put_in(const struct rule_changes *changes, struct ask *ask)
{
    for (size_t i = 0; i < changes->n; i++) {
        const struct field_rule *rule = changes->list[i].rule;
        struct ask_word *word = rule->is_header ? NULL : priced_word(ask, rule->name);
        if (word != NULL) {
            bool fits = rule->value.kind == JSON_STRING && rule->value.text.n < sizeof word->at;
            snprintf(word->at, sizeof word->at, "%.*s", fits ? (int)rule->value.text.n : 1,
                     fits ? rule->value.text.at : "?");
        }
        if (rule->is_header || rule->value.kind != JSON_DOUBLE)
            continue;
        int64_t number = (int64_t)rule->value.number;
        if (strcmp(rule->name, "max_tokens") == 0)
            ask->max_output = number;
        else if (strcmp(rule->name, "n") == 0) /* best_of may ask for more */
            ask->choices = num_max(
                1, ask->endpoint == ENDPOINT_COMPLETIONS ? num_max(number, ask->choices) : number);
    }
}
