/* config_extras.c - tenants, keys and top-ups that stand in no file, read as if they did.
 *
 * A tenant that was made by way of the administration goes through the same schema, the same
 * references and the same warnings as one in a file, because it becomes the same struct: its text
 * is wrapped into a document `tenants: [...]` of its own, whose name is the extra's. Keys and
 * top-ups are numbers, and are added to what has been read.
 *
 * An extra was right when it was made. Files change under it afterwards, and nobody should have to
 * clean up a database before a file can be loaded: so what a file has taken over, or what belongs
 * to a tenant that is gone, is passed over with a warning. A tenant that is wrong, say because its
 * parent has gone, is an error: without the parent's limits it must not run.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/config/config_index.h"
#include "server/config/config_reader.h"
#include "server/config/config_values.h"

/* Stands for an extra as a whole in messages: it has no lines. */
static const struct yaml_node whole = {.kind = YAML_TEXT};

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* ---- Documents ---- */

static struct yaml_node *new_node(struct reader *reader, enum yaml_kind kind, const char *text)
{
    struct yaml_node *node = config_scratch(reader, sizeof *node);

    if (node == NULL)
        return NULL;
    *node = (struct yaml_node){.kind = kind, .line = 1, .column = 1, .text = text, .written = text};
    node->bytes = text != NULL ? strlen(text) : 0;
    return node;
}

static struct yaml_node *new_key(struct reader *reader, struct yaml_node *value, const char *name)
{
    if (value != NULL)
        value->key = new_node(reader, YAML_TEXT, name);
    return value != NULL && value->key != NULL ? value : NULL;
}

/* The name stands where the tenant or key is kept; in its text it need not. */
static void check_name(struct reader *reader, const struct yaml_node *given, const char *what,
                       const char *name)
{
    if (given->kind == YAML_TEXT && strcmp(given->text, name) != 0)
        config_error(reader, given, "%s is \"%.60s\"; it must be \"%.60s\", or absent", what,
                     given->text, name);
}

static void complete_name(struct reader *reader, struct yaml_node *tenant, const char *name)
{
    const struct yaml_node *given = yaml_tree_get(tenant, "name");
    struct yaml_node *added;

    if (tenant->kind != YAML_MAP)
        return;
    if (given != NULL) {
        check_name(reader, given, "tenant.name", name);
        return;
    }
    added = new_key(reader, new_node(reader, YAML_TEXT, name), "name");
    if (added == NULL)
        return;
    added->quoted = true;
    added->next = tenant->first;
    tenant->first = added;
    tenant->last = tenant->last != NULL ? tenant->last : added;
    tenant->n++;
}

/* `tenants: [...]` around what is the root. */
static void wrap(struct reader *reader, struct document *document)
{
    struct yaml_node *map = new_node(reader, YAML_MAP, NULL);
    struct yaml_node *list = new_key(reader, new_node(reader, YAML_LIST, NULL), "tenants");

    if (map == NULL || list == NULL)
        return;
    list->first = list->last = document->root;
    map->first = map->last = list;
    list->n = map->n = 1;
    document->root = map;
}

static void leave_out(struct yaml_node *map, const char *name)
{
    struct yaml_node **next = &map->first, *last = NULL;

    while (*next != NULL)
        if (strcmp((*next)->key->text, name) == 0) {
            *next = (*next)->next;
            map->n--;
        } else {
            last = *next;
            next = &last->next;
        }
    map->last = last;
}

/* `key: {...}`: see config_extra_key_node(). Its end stands where it is kept, like its name. */
static void wrap_key(struct reader *reader, struct document *document, const char *name)
{
    struct yaml_node *map = new_node(reader, YAML_MAP, NULL);
    const struct yaml_node *given = yaml_tree_get(document->root, "name");

    if (map == NULL || new_key(reader, document->root, "key") == NULL)
        return;
    if (given != NULL)
        check_name(reader, given, "name", name);
    if (document->root->kind == YAML_MAP) {
        leave_out(document->root, "name");
        leave_out(document->root, "not_after");
    }
    map->first = map->last = document->root;
    map->n = 1;
    document->root = map;
}

static void add_extra(struct reader *reader, const struct config_extra *extra)
{
    char line[120];

    if (!config_add_document(reader, extra->name))
        return;
    snprintf(line, sizeof line, "\n%d %" PRId64 " %" PRId64 " %d ", (int)extra->kind,
             extra->not_after, extra->micro_usd, (int)extra->per);
    config_digest_add(reader, line, strlen(line));
    const char *const texts[] = {extra->tenant, extra->key, extra->sha256, extra->tz};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        config_digest_add(reader, or_empty(texts[i]), strlen(or_empty(texts[i])) + 1);
    if (extra->kind != CONFIG_EXTRA_TENANT && (extra->kind != CONFIG_EXTRA_KEY || !extra->text))
        return;
    config_digest_add(reader, extra->text, extra->bytes);
    if (!config_read_tree(reader, extra->text, extra->bytes))
        return;
    if (extra->kind == CONFIG_EXTRA_KEY) {
        wrap_key(reader, &reader->documents[reader->current], or_empty(extra->key));
        return;
    }
    complete_name(reader, reader->documents[reader->current].root, extra->tenant);
    wrap(reader, &reader->documents[reader->current]);
}

void config_add_extras(struct reader *reader)
{
    reader->first_extra = reader->n_documents;
    for (size_t i = 0; i < reader->n_extras && !reader->no_memory; i++)
        add_extra(reader, &reader->extras[i]);
    assert(reader->no_memory || reader->n_documents == reader->first_extra + reader->n_extras);
}

/* ---- Tenants ---- */

static struct config_index *index_names(struct reader *reader)
{
    const struct config *config = reader->config;
    struct config_index *names = config_scratch_index(reader, config->n_tenants);

    for (size_t i = 0; names != NULL && i < config->n_tenants; i++)
        if (config->tenants[i].name != NULL)
            (void)config_index_put(names, config->tenants[i].name, i);
    return names;
}

void config_read_extra_tenants(struct reader *reader)
{
    struct config *config = reader->config;
    const struct schema_key *key = schema_find_key(&config_schema, "tenants");
    const struct config_index *names = reader->n_extras > 0 ? index_names(reader) : NULL;

    for (size_t i = 0; i < reader->n_extras && !reader->no_memory; i++) {
        const struct config_extra *extra = &reader->extras[i];
        struct document *document = &reader->documents[reader->first_extra + i];
        reader->current = reader->first_extra + i;
        if (extra->kind != CONFIG_EXTRA_TENANT || document->root == NULL)
            continue;
        size_t found = config_index_get(names, extra->tenant, strlen(extra->tenant));
        if (found == CONFIG_INDEX_NONE) {
            config_append_section(reader, key, "tenant", document->root->first->first, config);
            continue;
        }
        config_warning(reader, &whole,
                       "the tenant \"%.60s\" is also defined in %s:%zu; the file wins, and this "
                       "one is ignored",
                       extra->tenant, config->tenants[found].file, config->tenants[found].line);
        document->root = NULL;
    }
}

/* ---- Keys ---- */

/* The tenant that an extra belongs to. CONFIG_INDEX_NONE, with a warning, if there is none. */
static size_t owner_of(struct reader *reader, const struct config_extra *extra)
{
    size_t found = config_index_get(reader->config->index, extra->tenant, strlen(extra->tenant));

    if (found == CONFIG_INDEX_NONE)
        config_warning(reader, &whole, "the tenant \"%.60s\" does not exist; this is ignored",
                       extra->tenant);
    return found;
}

/* Names of keys are each tenant's own: so they are distinguished by its number. */
static bool put_name(struct reader *reader, struct config_index *names, size_t tenant,
                     const char *name)
{
    char text[160];
    const char *kept;

    if (name == NULL)
        return true;
    snprintf(text, sizeof text, "%zu/%.130s", tenant, name);
    kept = config_scratch_text(reader, text, strlen(text));
    return kept != NULL && config_index_put(names, kept, 0) == CONFIG_INDEX_NONE;
}

static bool is_good_key(struct reader *reader, const struct config_extra *extra, uint8_t hash[32])
{
    if (!value_sha256(or_empty(extra->sha256), hash))
        config_error(reader, &whole, "the hash of the key must be 64 hexadecimal digits");
    else if (extra->key != NULL && !value_is_name(extra->key))
        config_error(reader, &whole, "the name of the key must be 1 to 128 printable characters");
    else
        return true;
    return false;
}

/* Room for the `more` keys of each tenant behind those it has: all at once, since one after the
 * other would copy them again and again. */
static bool make_room_for_keys(struct reader *reader, const size_t *more)
{
    struct config *config = reader->config;

    for (size_t i = 0; i < config->n_tenants; i++) {
        struct config_tenant *tenant = &config->tenants[i];
        if (more[i] == 0)
            continue;
        struct config_key *keys = config_alloc(reader, (tenant->n_keys + more[i]) * sizeof *keys);
        if (keys == NULL)
            return false;
        if (tenant->n_keys > 0)
            memcpy(keys, tenant->keys, tenant->n_keys * sizeof *keys);
        tenant->keys = keys;
    }
    return true;
}

static void add_key(struct reader *reader, struct config_index *names, size_t owner,
                    const struct config_extra *extra)
{
    struct config_tenant *tenant = &reader->config->tenants[owner];
    struct config_key key = {.extra = true};
    const struct yaml_node *own = yaml_tree_get(reader->documents[reader->current].root, "key");

    if (!is_good_key(reader, extra, key.sha256))
        return;
    if (!put_name(reader, names, owner, extra->key)) {
        config_warning(reader, &whole,
                       "the tenant \"%.60s\" has a key \"%.60s\" already; this one is ignored",
                       extra->tenant, extra->key);
        return;
    }
    config_set_defaults(reader, &schema_own, &key);
    key.not_after = extra->not_after;
    if (extra->key != NULL)
        key.name = config_text(reader, extra->key);
    if (own != NULL)
        config_read_section(reader, &schema_own, own, &key);
    assert(reader->n_keys < reader->n_extras);
    reader->keys[reader->n_keys++] = (struct extra_key){owner, tenant->n_keys, reader->current};
    tenant->keys[tenant->n_keys++] = key;
}

static size_t count_keys(const struct reader *reader)
{
    size_t n = 0;

    for (size_t i = 0; i < reader->n_extras; i++)
        n += reader->extras[i].kind == CONFIG_EXTRA_KEY;
    for (size_t i = 0; i < reader->config->n_tenants && n > 0; i++)
        n += reader->config->tenants[i].n_keys;
    return n;
}

static void apply_keys(struct reader *reader)
{
    size_t n = count_keys(reader);
    size_t *owners = config_scratch(reader, (reader->n_extras + 1) * sizeof *owners);
    size_t *more = config_scratch(reader, (reader->config->n_tenants + 1) * sizeof *more);
    struct config_index *names = config_scratch_index(reader, n);

    if (n == 0)
        return;
    reader->keys = config_scratch(reader, (reader->n_extras + 1) * sizeof *reader->keys);
    if (reader->no_memory)
        return;
    for (size_t i = 0; i < reader->n_extras; i++) {
        reader->current = reader->first_extra + i;
        owners[i] = CONFIG_INDEX_NONE;
        if (reader->extras[i].kind == CONFIG_EXTRA_KEY)
            owners[i] = owner_of(reader, &reader->extras[i]);
        if (owners[i] != CONFIG_INDEX_NONE)
            more[owners[i]]++;
    }
    for (size_t i = 0; i < reader->config->n_tenants; i++)
        for (size_t k = 0; k < reader->config->tenants[i].n_keys; k++)
            (void)put_name(reader, names, i, reader->config->tenants[i].keys[k].name);
    if (!make_room_for_keys(reader, more))
        return;
    for (size_t i = 0; i < reader->n_extras && !reader->no_memory; i++) {
        reader->current = reader->first_extra + i;
        if (owners[i] != CONFIG_INDEX_NONE)
            add_key(reader, names, owners[i], &reader->extras[i]);
    }
}

/* ---- Top-ups ---- */

static void top_up(struct reader *reader, const struct config_extra *extra,
                   struct config_budget *budgets, size_t n)
{
    static const char *const periods[] = {"day", "week", "month", "total"};
    struct config_budget *budget = NULL;

    for (size_t i = 0; i < n && budget == NULL; i++)
        if (budgets[i].per == extra->per &&
            (extra->tz == NULL || (budgets[i].tz != NULL && strcmp(budgets[i].tz, extra->tz) == 0)))
            budget = &budgets[i];
    if (extra->micro_usd < 0 || extra->micro_usd > TG_NUMBER_MAX || (int)extra->per < 0 ||
        (size_t)extra->per >= sizeof periods / sizeof periods[0]) {
        config_error(reader, &whole,
                     "the top-up must be an amount from 0 up, and the period of a budget");
        return;
    }
    if (budget == NULL) {
        config_warning(reader, &whole, "there is no budget of a %s%s%s to top up; this is ignored",
                       periods[extra->per], extra->tz != NULL ? " in " : "", or_empty(extra->tz));
        return;
    }
    int64_t added = num_min(extra->micro_usd, TG_NUMBER_MAX - budget->micro_usd);
    budget->micro_usd += added;
    budget->topped_up += added;
    assert(budget->topped_up >= 0 && budget->topped_up <= budget->micro_usd);
}

static void apply_topup(struct reader *reader, const struct config_extra *extra)
{
    struct config *config = reader->config;
    size_t owner;

    if (extra->tenant == NULL) {
        top_up(reader, extra, config->budgets, config->n_budgets);
        return;
    }
    owner = owner_of(reader, extra);
    if (owner != CONFIG_INDEX_NONE)
        top_up(reader, extra, config->tenants[owner].budgets, config->tenants[owner].n_budgets);
}

/* ---- Overrides ---- */

static void block_tenant(struct reader *reader, const struct config_extra *extra,
                         struct config_tenant *tenant)
{
    bool found = extra->key == NULL;

    for (size_t i = 0; i < tenant->n_keys; i++)
        if (extra->key == NULL ||
            (tenant->keys[i].name != NULL && strcmp(tenant->keys[i].name, extra->key) == 0)) {
            tenant->keys[i].not_after = 0;
            tenant->keys[i].blocked = true;
            found = true;
        }
    tenant->blocked |= extra->key == NULL;
    if (!found)
        config_warning(reader, &whole,
                       "the tenant \"%.60s\" has no key \"%.60s\"; nothing is blocked",
                       extra->tenant, extra->key);
}

/* After all keys are there. */
static void apply_override(struct reader *reader, const struct config_extra *extra)
{
    size_t owner = owner_of(reader, extra);

    if (owner == CONFIG_INDEX_NONE)
        return;
    if (extra->kind == CONFIG_EXTRA_SHADOW)
        reader->config->tenants[owner].mode = CONFIG_SHADOW;
    else
        block_tenant(reader, extra, &reader->config->tenants[owner]);
}

void config_apply_extras(struct reader *reader)
{
    if (reader->n_extras == 0)
        return;
    apply_keys(reader);
    for (size_t i = 0; i < reader->n_extras && !reader->no_memory; i++) {
        reader->current = reader->first_extra + i;
        if (reader->extras[i].kind == CONFIG_EXTRA_TOPUP)
            apply_topup(reader, &reader->extras[i]);
        else if (reader->extras[i].kind == CONFIG_EXTRA_BLOCK ||
                 reader->extras[i].kind == CONFIG_EXTRA_SHADOW)
            apply_override(reader, &reader->extras[i]);
    }
}
