/* ask_watch.c - fields that rules name: their spelling in each API, and what was seen of them.
 *
 * The fields are a tree of keys, so that the walk over a body compares a key with those alone that
 * rules name in the object that it is in. Rejected: a hash of every path of the body, which costs
 * calls that no rule is about; and a second walk for the rules, which a body of 30 MB pays twice.
 */
#include "server/dialect/ask_watch.h"

#include <assert.h>
#include <stdio.h>

#define ON_CHAT (1u << ENDPOINT_CHAT)
#define ON_COMPLETIONS (1u << ENDPOINT_COMPLETIONS)
#define ON_RESPONSES (1u << ENDPOINT_RESPONSES)
#define ON_MESSAGES (1u << ENDPOINT_MESSAGES)
#define ON_WRITING (ON_CHAT | ON_COMPLETIONS | ON_RESPONSES | ON_MESSAGES)
#define ON_ALL (ON_WRITING | 1u << ENDPOINT_EMBEDDINGS | 1u << ENDPOINT_COUNT_TOKENS)

/* ---- Names ----------------------------------------------------------------------------------- */

/* The first row of an endpoint is how the field is written where a call has none. Fields that are
 * not here have one spelling everywhere, which is their name. */
static const struct spelling {
    const char *neutral;
    unsigned endpoints;
    const char *path;
} spellings[] = {
    {"max_tokens", ON_CHAT, "max_completion_tokens"},
    {"max_tokens", ON_CHAT | ON_COMPLETIONS | ON_MESSAGES, "max_tokens"},
    {"max_tokens", ON_RESPONSES, "max_output_tokens"},
    {"n", ON_CHAT | ON_COMPLETIONS, "n"},
    {"stop", ON_CHAT | ON_COMPLETIONS, "stop"},
    {"stop", ON_MESSAGES, "stop_sequences"},
    {"user", ON_ALL & ~ON_MESSAGES, "user"},
    {"user", ON_ALL, "safety_identifier"},
    {"user", ON_MESSAGES, "metadata.user_id"},
    {"instructions", ON_RESPONSES, "instructions"},
    {"instructions", ON_MESSAGES, "system"},
    {"reasoning_effort", ON_CHAT, "reasoning_effort"},
    {"reasoning_effort", ON_RESPONSES, "reasoning.effort"},
    {"reasoning_effort", ON_MESSAGES, "output_config.effort"},
    {"reasoning_budget", ON_MESSAGES, "thinking.budget_tokens"},
    {"verbosity", ON_CHAT, "verbosity"},
    {"verbosity", ON_RESPONSES, "text.verbosity"},
    {"format", ON_CHAT, "response_format.type"},
    {"format", ON_RESPONSES, "text.format.type"},
    {"format", ON_MESSAGES, "output_config.format.type"},
};

enum { SPELLINGS = sizeof spellings / sizeof spellings[0] };

const char *ask_watch_neutral(const char *name)
{
    static const char *const others[] = {"max_completion_tokens", "max_output_tokens"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i]) == 0)
            return "max_tokens";
    return name;
}

const char *ask_watch_spelling(const char *name, enum endpoint endpoint)
{
    bool listed = false;

    for (size_t i = 0; i < SPELLINGS; i++)
        if (strcmp(spellings[i].neutral, name) == 0) {
            listed = true;
            /* A user is not identified for safety by a rule: that is for the caller to do. */
            if ((spellings[i].endpoints >> endpoint & 1) != 0 &&
                strcmp(spellings[i].path, "safety_identifier") != 0)
                return spellings[i].path;
        }
    return listed || (ON_WRITING >> endpoint & 1) == 0 ? NULL : name;
}

/* ---- The tree -------------------------------------------------------------------------------- */

void ask_watch_init(struct ask_watch *watch)
{
    watch->n_fields = 0;
    watch->n_values = 1;
    watch->n_nodes = 1;
    watch->nodes[0] = (struct watch_node){.field = ASK_WATCH_NONE};
}

size_t ask_watch_field(const struct ask_watch *watch, struct slice name, bool is_header)
{
    for (size_t i = 0; i < watch->n_fields; i++)
        if (watch->fields[i].is_header == is_header &&
            slice_equal(slice_of(watch->fields[i].name), name))
            return i;
    return ASK_WATCH_NONE;
}

/* The key of `part` within a node; `field`: one that has this meaning, or none yet. */
static struct watch_node *watch_child(struct ask_watch *watch, struct watch_node *around,
                                      struct slice part, size_t field)
{
    size_t *link = &around->below;

    for (; *link != 0; link = &watch->nodes[*link].next) {
        struct watch_node *node = &watch->nodes[*link];
        if (slice_equal((struct slice){node->name, node->n}, part) &&
            (field == ASK_WATCH_NONE || node->field == ASK_WATCH_NONE || node->field == field))
            return node;
    }
    if (watch->n_nodes == ASK_WATCH_NODES_MAX)
        return NULL;
    struct watch_node *node = &watch->nodes[watch->n_nodes];
    *node = (struct watch_node){.n = part.n, .field = ASK_WATCH_NONE};
    memcpy(node->name, part.at, part.n);
    *link = watch->n_nodes++;
    return node;
}

static bool watch_new_field(struct ask_watch *watch, const char *name, bool is_header,
                            size_t *field)
{
    if (watch->n_fields == ASK_WATCH_FIELDS_MAX)
        return false;
    *field = watch->n_fields++;
    watch->fields[*field] = (struct watch_field){.name = name, .is_header = is_header};
    return true;
}

static bool watch_path(struct ask_watch *watch, const char *path, unsigned endpoints, size_t field)
{
    struct watch_node *node = &watch->nodes[0];
    const char *part = path;

    for (unsigned depth = 1;; depth++) {
        size_t n = strcspn(part, ".");
        bool last = part[n] == '\0';
        if (n == 0 || depth > ASK_WATCH_DEPTH_MAX)
            return false;
        node = watch_child(watch, node, (struct slice){part, n}, last ? field : ASK_WATCH_NONE);
        if (node == NULL)
            return false;
        if (last)
            break;
        part += n + 1;
    }
    node->field = field;
    node->endpoints |= endpoints;
    return true;
}

bool ask_watch_add(struct ask_watch *watch, const char *name, bool is_header, size_t *field)
{
    bool listed = false, good = true;

    name = is_header ? name : ask_watch_neutral(name);
    *field = ask_watch_field(watch, slice_of(name), is_header);
    if (*field != ASK_WATCH_NONE)
        return true;
    if (*name == '\0' || strlen(name) >= ASK_WATCH_NAME_MAX ||
        !watch_new_field(watch, name, is_header, field))
        return false;
    if (is_header)
        return true;
    for (size_t i = 0; i < SPELLINGS; i++)
        if (strcmp(spellings[i].neutral, name) == 0) {
            listed = true;
            good = good && watch_path(watch, spellings[i].path, spellings[i].endpoints, *field);
        }
    return good && (listed || watch_path(watch, name, ON_ALL, *field));
}

/* ---- Values ---------------------------------------------------------------------------------- */

static bool watch_same(const struct watch_value *a, const struct watch_value *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == JSON_BOOL)
        return a->boolean == b->boolean;
    return a->kind == JSON_STRING ? slice_equal(a->text, b->text) : a->number == b->number;
}

bool ask_watch_find(const struct ask_watch *watch, size_t field, const struct watch_value *value,
                    unsigned *bit)
{
    *bit = 0;
    for (size_t at = watch->fields[field].values; at != 0; at = watch->values[at].next, ++*bit)
        if (watch_same(&watch->values[at], value))
            return true;
    return false;
}

bool ask_watch_value(struct ask_watch *watch, size_t field, const struct watch_value *value,
                     unsigned *bit)
{
    struct watch_field *of = &watch->fields[field];
    size_t *link = &of->values;

    assert(value->kind == JSON_BOOL || value->kind == JSON_DOUBLE || value->kind == JSON_STRING);
    if (ask_watch_find(watch, field, value, bit))
        return true;
    if (of->n_values == ASK_WATCH_VALUES_MAX || watch->n_values == ASK_WATCH_ALL_VALUES)
        return false;
    while (*link != 0)
        link = &watch->values[*link].next;
    *link = watch->n_values++;
    watch->values[*link] = *value;
    watch->values[*link].next = 0;
    *bit = (unsigned)of->n_values++;
    return true;
}

/* ---- What a body has ------------------------------------------------------------------------- */

static bool node_is(const struct watch_node *node, struct json_text key)
{
    return node->n == key.size && node->name[0] == key.bytes[0] &&
           memcmp(node->name, key.bytes, key.size) == 0;
}

const struct watch_node *ask_watch_key(const struct ask_watch *watch,
                                       const struct watch_node *around, struct json_text key)
{
    for (size_t at = around->below; at != 0 && key.size > 0; at = watch->nodes[at].next)
        if (node_is(&watch->nodes[at], key))
            return &watch->nodes[at];
    return NULL;
}

static void see(const struct ask_watch *watch, size_t field, const struct json_value *value,
                struct ask_span span, bool in_array, struct ask_seen *seen)
{
    struct watch_value found = {.kind = value->kind};
    unsigned bit;

    if (!in_array) {
        seen->span = span;
        seen->places++;
    }
    if (value->kind == JSON_NULL)
        return;
    if (value->kind == JSON_INTEGER || value->kind == JSON_DOUBLE) {
        found.kind = JSON_DOUBLE;
        found.number = value->kind == JSON_DOUBLE ? value->real : (double)value->integer;
        if ((seen->kinds >> JSON_DOUBLE & 1) == 0)
            seen->low = seen->high = found.number;
        seen->low = found.number < seen->low ? found.number : seen->low;
        seen->high = found.number > seen->high ? found.number : seen->high;
    } else if (value->kind == JSON_STRING) {
        found.text = (struct slice){value->string.bytes, value->string.size};
    } else if (value->kind == JSON_BOOL) {
        found.boolean = value->boolean;
    }
    seen->n++;
    seen->kinds |= 1u << found.kind;
    if (value->kind == JSON_ARRAY)
        return; /* what is in it will be seen */
    if (value->kind != JSON_OBJECT && value->kind != JSON_HUGE &&
        ask_watch_find(watch, field, &found, &bit))
        seen->values |= UINT64_C(1) << bit;
    else if (seen->other.n == 0)
        seen->other = span;
}

/* Several fields may have one key, on different endpoints or as an object around another. */
void ask_watch_note(const struct ask_watch *watch, const struct watch_node *node,
                    enum endpoint endpoint, const struct json_value *value, struct ask_span span,
                    bool in_array, struct ask_seen *seen)
{
    const struct json_text key = {node->name, node->n};

    for (;;) {
        if (node->field != ASK_WATCH_NONE && (node->endpoints >> endpoint & 1) != 0)
            see(watch, node->field, value, span, in_array, &seen[node->field]);
        do {
            if (node->next == 0)
                return;
            node = &watch->nodes[node->next];
        } while (!node_is(node, key));
    }
}

/* ---- Case ------------------------------------------------------------------------------------ */

/* The next letter of a key in lower case; 0: its end. Bytes that are no letter of ASCII's stay. */
static unsigned char fold(struct json_text *key)
{
    static const struct {
        const char *bytes;
        size_t n;
        unsigned char letter;
    } others[] = {
        {"\xc5\xbf", 2, 's'}, {"\xe2\x84\xaa", 3, 'k'}, {"\xc4\xb0", 2, 'i'}, {"\xc4\xb1", 2, 'i'}};
    unsigned char byte;

    if (key->size == 0)
        return 0;
    byte = (unsigned char)*key->bytes;
    size_t n = 1;
    for (size_t i = 0; i < sizeof others / sizeof others[0] && byte >= 0x80; i++)
        if (key->size >= others[i].n && memcmp(key->bytes, others[i].bytes, others[i].n) == 0) {
            byte = others[i].letter;
            n = others[i].n;
        }
    key->bytes += n;
    key->size -= n;
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte + 'a' - 'A') : byte;
}

bool ask_key_is_variant(struct json_text key, struct slice name)
{
    struct json_text wanted = {name.at, name.n};

    if (key.size == name.n && memcmp(key.bytes, name.at, name.n) == 0)
        return false;
    while (key.size > 0 && wanted.size > 0)
        if (fold(&key) != fold(&wanted))
            return false;
    return key.size == 0 && wanted.size == 0;
}

const char *ask_watch_variant(const struct ask_watch *watch, const struct watch_node *around,
                              struct json_text key)
{
    for (size_t at = around->below; at != 0; at = watch->nodes[at].next)
        if (ask_key_is_variant(key, (struct slice){watch->nodes[at].name, watch->nodes[at].n}))
            return watch->nodes[at].name;
    return NULL;
}
