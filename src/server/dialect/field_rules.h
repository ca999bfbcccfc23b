/* field_rules.h - rules for the fields and headers of a call: what may be in them, what is put in.
 *
 *     struct rule_owner owners[] = {{"tenant", "team-a", &tenant->rules}, ..., {"model", ...}};
 *     struct rule_call call = {.watch = watch, .endpoint = ..., .seen = seen, .body = ...};
 *     if (!field_rules_apply(owners, n, &call, &changes, &problem))
 *         ... 400, problem.param and problem.text
 *     field_rules_edit(&changes, ..., &edit)             the body, when it is sent
 *
 * All rules of all owners hold. First values are put in, by the owners in their order, of which a
 * later `set` replaces an earlier one; then everything is checked, what was put in too. Pure
 * functions; the rules belong to the configuration.
 */
#ifndef TG_DIALECT_FIELD_RULES_H
#define TG_DIALECT_FIELD_RULES_H

#include "server/dialect/ask_watch.h"
#include "server/dialect/body_edit.h"

enum rule_change_kind { RULE_KEEPS, RULE_DEFAULT, RULE_SET };

struct field_rule {
    const char *name; /* a neutral field, or a header in lower case */
    bool is_header;
    size_t field;         /* its number in the watch */
    bool require;         /* a call without it is refused */
    bool deny_all;        /* a call with it is refused */
    bool has_allow;       /* values other than these are refused: */
    uint64_t allow, deny; /* bits of the field's values */
    bool has_min, has_max;
    double min, max;
    enum rule_change_kind change;
    struct watch_value value; /* what is put in */
    unsigned bit;             /* the bit of that value */
    const char *text;         /* the same as JSON, or of a header as it is sent */
    const char *allowed;      /* the values of `allow`, for messages */
};

struct field_rules {
    struct field_rule *list;
    size_t n;
};

/* Whose rules they are. */
struct rule_owner {
    const char *kind, *name; /* "tenant", "team-a" */
    const struct field_rules *rules;
};

#define RULE_OWNERS_MAX 8
#define RULE_CHANGES_MAX 16 /* fields and headers of one call that are changed */
#define RULE_TEXT_MAX 64    /* bytes of a value as JSON */

/* A value that is put in. */
struct rule_change {
    const struct field_rule *rule;
    struct ask_span span;   /* a value that is replaced; n is 0: a new key */
    const char *path;       /* how the new key is written, or null: a header */
    struct ask_span object; /* the object that it goes into: its "{", or null; n is 0: none there */
    bool filled;            /* there are keys in it */
};

struct rule_changes {
    struct rule_change list[RULE_CHANGES_MAX];
    size_t n;
};

/* What rules are asked about. */
struct rule_call {
    const struct ask_watch *watch;
    enum endpoint endpoint;
    const struct ask_seen *seen; /* null: the body is not read, and rules of fields do not hold */
    const char *body;
    const struct http_head *head;
};

/* Fills in what is put in. False: a rule refuses the call. */
bool field_rules_apply(const struct rule_owner *owners, size_t n, const struct rule_call *call,
                       struct rule_changes *changes, struct ask_problem *problem);

/* Whether all values of a field, what was put in included, are among `good` or are allowed by a
 * rule. False: `value` is the first that is not, quoted, for messages. */
bool field_rules_cover(const struct rule_owner *owners, size_t n, const struct rule_call *call,
                       const struct rule_changes *changes, size_t field, uint64_t good,
                       char value[RULE_TEXT_MAX]);

/* Puts the changes of fields into an edit, but for bounds of the output: see body_edit_bound(). */
void field_rules_edit(const struct rule_changes *changes, const struct ask *ask,
                      struct body_edit *edit);

/* Sets what was read of a body to what will be sent. */
void field_rules_put_in(const struct rule_changes *changes, struct ask *ask);

/* Names of what is changed, with commas between; how long. What finds no room is "...". */
size_t field_rules_names(const struct rule_changes *changes, char *text, size_t size);

#endif
