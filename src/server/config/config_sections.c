/* config_sections.c - reads a tree by the schema: keys, shapes, sections, defaults.
 *
 * One walk over the tables does everything that can be said of a key by itself. A wrong value is
 * reported and its default stays, so that the walk continues and finds the next mistake.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/config/config_reader.h"
#include "server/config/config_values.h"

static size_t push_number(struct reader *reader, size_t number)
{
    char text[32];

    snprintf(text, sizeof text, "[%zu]", number);
    return config_path_push(reader, text);
}

/* ---- Shapes ---- */

static void *place_of(const struct schema_key *key, void *into)
{
    return into != NULL && key->offset != SCHEMA_NOWHERE ? (char *)into + key->offset : NULL;
}

/* Values that nobody keeps here: config_rules.c reads them when the rule is complete. */
static void read_denied(struct reader *reader, const struct yaml_node *node)
{
    static const struct schema_key value = {.name = "deny", .kind = SCHEMA_VALUE};
    size_t i = 0;

    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        config_read_value(reader, &value, child, NULL);
        config_path_pop(reader, path);
    }
}

/* A word in place of a section. */
static void read_section_word(struct reader *reader, const struct schema_key *key,
                              const struct yaml_node *node, void *place)
{
    const struct schema_key word = {
        .name = key->name, .kind = SCHEMA_WORD, .words = key->words, .help = key->help};
    int number;

    if (config_read_value(reader, &word, node, &number) && place != NULL)
        memcpy((char *)place + key->count_offset, &number, sizeof number);
}

static void read_one(struct reader *reader, const struct schema_key *key,
                     const struct yaml_node *node, void *place)
{
    if (key->kind == SCHEMA_SECTION && key->words != NULL && node->kind == YAML_TEXT)
        read_section_word(reader, key, node, place);
    else if (key->kind == SCHEMA_SECTION)
        config_read_section(reader, key->section, node, place);
    else if (key->kind == SCHEMA_LIMITER)
        config_read_limiter(reader, key, node, place);
    else if (key->kind == SCHEMA_DENY && node->kind == YAML_LIST)
        read_denied(reader, node);
    else
        config_read_value(reader, key, node, place);
}

/* What is kept as pointer and count has room for a power of two, so that a thousand files that add
 * to one list do not copy it a thousand times. */
static size_t room_for(size_t n)
{
    size_t room = 1;

    while (room < n)
        room *= 2;
    return room;
}

/* Room for `n` more of `bytes` bytes, behind what an earlier file has put there. */
static char *grow_array(struct reader *reader, const struct schema_key *key, size_t n, size_t bytes,
                        void *into)
{
    char *items, *place = (char *)into + key->offset;
    size_t had;

    memcpy(&items, place, sizeof items);
    memcpy(&had, (char *)into + key->count_offset, sizeof had);
    assert((had == 0) == (items == NULL));
    if (had == 0 || room_for(had) < had + n) {
        char *larger = config_alloc(reader, room_for(had + n) * bytes);
        if (larger == NULL)
            return NULL;
        if (had > 0)
            memcpy(larger, items, had * bytes);
        memcpy(place, &larger, sizeof larger);
        items = larger;
    }
    return items + had * bytes;
}

static void add_count(const struct schema_key *key, size_t n, void *into)
{
    char *count = (char *)into + key->count_offset;
    size_t had;

    memcpy(&had, count, sizeof had);
    had += n;
    memcpy(count, &had, sizeof had);
}

/* Room for the sections of a list or map; they count from now on, whatever is wrong with them. */
static char *grow_sections(struct reader *reader, const struct schema_key *key, size_t n,
                           void *into)
{
    char *items;

    if (into == NULL || key->offset == SCHEMA_NOWHERE || n == 0)
        return NULL;
    assert(key->section->bytes > 0);
    items = grow_array(reader, key, n, key->section->bytes, into);
    if (items != NULL)
        add_count(key, n, into);
    return items;
}

static void read_sections(struct reader *reader, const struct schema_key *key,
                          const struct yaml_node *node, void *into)
{
    char *item = grow_sections(reader, key, node->n, into);
    size_t i = 0;

    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        if (item != NULL)
            config_set_defaults(reader, key->section, item);
        config_read_section(reader, key->section, child, item);
        config_path_pop(reader, path);
        if (item != NULL)
            item += key->section->bytes;
    }
}

static void read_texts(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node, void *into)
{
    struct config_names *names = place_of(key, into);
    const char **list = NULL;
    size_t i = 0;

    if (names != NULL && node->n > 0) {
        list = config_alloc(reader, node->n * sizeof *list);
        *names = (struct config_names){list, 0};
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        bool good = config_read_value(reader, key, child, list != NULL ? &list[names->n] : NULL);
        if (good && list != NULL)
            names->n++;
        config_path_pop(reader, path);
    }
}

/* Keeps a bit for each word. */
static void read_choices(struct reader *reader, const struct schema_key *key,
                         const struct yaml_node *node, void *into)
{
    unsigned *place = place_of(key, into), words = 0;
    size_t i = 0;

    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        int word;
        if (config_read_value(reader, key, child, &word)) {
            assert(word >= 0 && word < 32);
            words |= 1U << word;
        }
        config_path_pop(reader, path);
    }
    if (place != NULL)
        *place = words;
}

static void read_networks(struct reader *reader, const struct schema_key *key,
                          const struct yaml_node *node, void *into)
{
    struct config_range *range =
        node->n > 0 ? (void *)grow_array(reader, key, node->n, sizeof *range, into) : NULL;
    size_t i = 0, good = 0;

    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t path = push_number(reader, i++);
        good += config_read_value(reader, key, child, range != NULL ? &range[good] : NULL);
        config_path_pop(reader, path);
    }
    if (range != NULL)
        add_count(key, good, into);
}

static void read_list(struct reader *reader, const struct schema_key *key,
                      const struct yaml_node *node, void *into)
{
    if (key->kind == SCHEMA_SECTION)
        read_sections(reader, key, node, into);
    else if (key->kind == SCHEMA_WORD)
        read_choices(reader, key, node, into);
    else if (key->kind == SCHEMA_NETWORK)
        read_networks(reader, key, node, into);
    else
        read_texts(reader, key, node, into);
}

static void read_named_section(struct reader *reader, const struct schema_key *key,
                               const struct yaml_node *node, void *item)
{
    if (item != NULL) {
        const char *name = config_text(reader, node->key->text);
        config_set_defaults(reader, key->section, item);
        memcpy(item, &name, sizeof name);
    }
    config_read_section(reader, key->section, node, item);
}

static void read_named_text(struct reader *reader, const struct schema_key *key,
                            const struct yaml_node *node, struct config_pairs *into)
{
    struct config_pair *pair = into != NULL ? &into->list[into->n] : NULL;

    if (!config_read_value(reader, key, node, pair != NULL ? &pair->value : NULL) || pair == NULL)
        return;
    pair->name = config_text(reader, node->key->text);
    into->n++;
}

static void read_named_factor(struct reader *reader, const struct schema_key *key,
                              const struct yaml_node *node, struct config_factors *into)
{
    struct config_factor *factor = into != NULL ? &into->list[into->n] : NULL;

    if (!config_read_value(reader, key, node, factor != NULL ? &factor->milli : NULL) ||
        factor == NULL)
        return;
    factor->name = config_text(reader, node->key->text);
    into->n++;
}

static struct config_factors *place_for_factors(struct reader *reader, const struct schema_key *key,
                                                const struct yaml_node *node, void *into)
{
    struct config_factors *factors = place_of(key, into);

    if (factors == NULL)
        return NULL;
    *factors =
        (struct config_factors){config_alloc(reader, (node->n + 1) * sizeof *factors->list), 0};
    return factors->list != NULL ? factors : NULL;
}

static void read_named(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node, void *into)
{
    bool sections = key->kind == SCHEMA_SECTION;
    char *item = sections ? grow_sections(reader, key, node->n, into) : NULL;
    bool factor = key->kind == SCHEMA_FACTOR;
    struct config_factors *factors = factor ? place_for_factors(reader, key, node, into) : NULL;
    struct config_pairs *pairs = sections || factor ? NULL : place_of(key, into);

    if (pairs != NULL)
        *pairs = (struct config_pairs){
            config_alloc(reader, (node->n + 1) * sizeof(struct config_pair)), 0};
    if (pairs != NULL && pairs->list == NULL)
        pairs = NULL;
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        if (!value_is_name(child->key->text))
            config_error(
                reader, child->key,
                "%s has a name that is not allowed; it must be 1 to 128 printable characters",
                reader->path);
        size_t path = config_path_push(reader, child->key->text);
        if (sections)
            read_named_section(reader, key, child, item);
        else if (factor)
            read_named_factor(reader, key, child, factors);
        else
            read_named_text(reader, key, child, pairs);
        item = item != NULL ? item + key->section->bytes : NULL;
        config_path_pop(reader, path);
    }
}

static void read_key(struct reader *reader, const struct schema_key *key,
                     const struct yaml_node *node, void *into)
{
    size_t path = config_path_push(reader, key->name);

    if (key->shape == SCHEMA_LIST && node->kind != YAML_LIST)
        config_error(reader, node, "%s is not a list; it must be one, such as [a, b] or []",
                     reader->path);
    else if (key->shape == SCHEMA_NAMED && node->kind != YAML_MAP)
        config_error(reader, node, "%s is not a map; it must map names to values, or be {}",
                     reader->path);
    else if (key->shape == SCHEMA_LIST)
        read_list(reader, key, node, into);
    else if (key->shape == SCHEMA_NAMED)
        read_named(reader, key, node, into);
    else
        read_one(reader, key, node, place_of(key, into));
    config_path_pop(reader, path);
}

/* ---- Sections ---- */

static void unknown_key(struct reader *reader, const struct schema_section *section,
                        const struct yaml_node *name)
{
    char known[420] = "";

    for (const struct schema_key *key = section->keys; key->name != NULL; key++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", key->name);
    }
    if (reader->path_bytes > 0)
        config_error(reader, name, "%s has no key \"%.40s\"; it takes %s", reader->path, name->text,
                     known);
    else
        config_error(reader, name, "there is no key \"%.40s\"; there are %s", name->text, known);
}

/* Written as in a file: [a, b]. */
static void set_default_choices(const struct schema_key *key, unsigned *words)
{
    for (const char *at = key->otherwise; at != NULL && *at != '\0'; at += strspn(at, "[], ")) {
        size_t bytes = strcspn(at, "[], ");
        char word[64];
        int number;

        snprintf(word, sizeof word, "%.*s", (int)bytes, at);
        if (schema_find_word(key->words, word, &number))
            *words |= 1U << number;
        at += bytes;
    }
}

void config_set_defaults(struct reader *reader, const struct schema_section *section, void *into)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++) {
        void *place = place_of(key, into);
        if (place != NULL && key->shape == SCHEMA_LIST && key->kind == SCHEMA_WORD)
            set_default_choices(key, place);
        if (place == NULL || key->shape != SCHEMA_ONE)
            continue;
        if (key->kind == SCHEMA_SECTION)
            config_set_defaults(reader, key->section, place);
        else
            config_set_default(reader, key, place);
    }
}

/* A section that is checked as a whole needs its struct, even if nobody keeps it. */
static void *scratch_for(struct reader *reader, const struct schema_section *section)
{
    void *scratch;

    if (section->finish == NULL || section->bytes == 0)
        return NULL;
    scratch = config_scratch(reader, section->bytes);
    if (scratch != NULL)
        config_set_defaults(reader, section, scratch);
    return scratch;
}

void config_read_section(struct reader *reader, const struct schema_section *section,
                         const struct yaml_node *node, void *into)
{
    const bool present = true;

    if (into == NULL)
        into = scratch_for(reader, section);
    if (node->kind != YAML_MAP) {
        config_error(reader, node, "%s is %s; it must be a section of keys, or {} for its defaults",
                     reader->path_bytes > 0 ? reader->path : "the file",
                     node->kind == YAML_LIST ? "a list"
                     : node->bytes > 0       ? "a text"
                                             : "empty");
        return;
    }
    if (into != NULL && section->present != SCHEMA_NOWHERE)
        memcpy((char *)into + section->present, &present, sizeof present);
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        const struct schema_key *key = schema_find_key(section, child->key->text);
        if (key != NULL)
            read_key(reader, key, child, into);
        else
            unknown_key(reader, section, child->key);
    }
    for (const struct schema_key *key = section->keys; key->name != NULL; key++)
        if (key->required && yaml_tree_get(node, key->name) == NULL)
            config_error(reader, node, "%s: %s is missing; it must be given", reader->path,
                         key->name);
    if (section->finish != NULL && into != NULL)
        section->finish(reader, node, into);
}

void config_append_section(struct reader *reader, const struct schema_key *key, const char *path,
                           const struct yaml_node *node, void *into)
{
    char *item = grow_sections(reader, key, 1, into);
    size_t pushed = config_path_push(reader, path);

    if (item != NULL) {
        config_set_defaults(reader, key->section, item);
        config_read_section(reader, key->section, node, item);
    }
    config_path_pop(reader, pushed);
}
