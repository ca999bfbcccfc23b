/* config_vars.c - ${NAME} in a configuration file: variables of the environment, put in place.
 *
 * This is done before anything else looks at the tree, so that a value from a variable is checked
 * like any other. Messages show what stands in the file, never what the variable holds: it may be a
 * secret.
 */
#include "server/config/config_reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { EXPANDED_BYTES_MAX = 65536 };

struct expansion {
    char *text;
    size_t bytes, room;
    bool missing, malformed;
};

static void config_vars_append(struct expansion *to, const char *text, size_t bytes)
{
    if (bytes > to->room - to->bytes) {
        to->malformed = true;
        return;
    }
    memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
}

static size_t name_length(const char *text)
{
    size_t n = 0;

    while (text[n] == '_' || isalpha((unsigned char)text[n]) ||
           (n > 0 && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

/* Takes the variable at `text`, which begins "${". Returns what stands after it. */
static const char *expand_one(struct reader *reader, const struct yaml_node *node, bool unread,
                              const char *text, struct expansion *to)
{
    size_t bytes = name_length(text + 2);
    char name[128];

    if (bytes == 0 || bytes >= sizeof name || text[2 + bytes] != '}') {
        to->malformed = true;
        return text + strlen(text);
    }
    memcpy(name, text + 2, bytes);
    name[bytes] = '\0';
    const char *value = getenv(name);
    if (value != NULL) {
        config_vars_append(to, value, strlen(value));
    } else {
        config_missing(reader, node, unread, "the environment variable %s is not set", name);
        to->missing = true;
    }
    return text + 2 + bytes + 1;
}

static void expand_text(struct reader *reader, struct yaml_node *node, bool unread)
{
    char *buffer;
    struct expansion to = {0};

    if (strstr(node->text, "${") == NULL)
        return;
    buffer = malloc(EXPANDED_BYTES_MAX);
    if (buffer == NULL) {
        reader->no_memory = true;
        return;
    }
    to.text = buffer;
    to.room = EXPANDED_BYTES_MAX;
    for (const char *at = node->text; *at != '\0' && !to.malformed;) {
        const char *next = strstr(at, "${");
        config_vars_append(&to, at, next != NULL ? (size_t)(next - at) : strlen(at));
        at = next != NULL ? expand_one(reader, node, unread, next, &to) : at + strlen(at);
    }
    if (to.malformed)
        config_error(reader, node,
                     "\"%.60s\" has a variable that is none, or is too long; it must be ${NAME}",
                     node->written);
    node->unknown = to.missing || to.malformed;
    const char *copy = node->unknown ? node->text : arena_text(reader->scratch, buffer, to.bytes);
    if (copy == NULL) {
        reader->no_memory = true;
    } else if (!node->unknown) {
        node->text = copy;
        node->bytes = to.bytes;
        config_wipe_later(reader, copy, to.bytes);
    }
    config_wipe(buffer, to.bytes);
    free(buffer);
}

/* The tree is at most YAML_TREE_DEPTH_MAX deep. */
static void expand_tree(struct reader *reader, struct yaml_node *node, bool unread)
{
    if (node->kind == YAML_TEXT)
        expand_text(reader, node, unread);
    for (struct yaml_node *child = node->first; child != NULL; child = child->next)
        expand_tree(reader, child, unread);
}

void config_put_variables(struct reader *reader, struct yaml_node *root)
{
    for (struct yaml_node *child = root->first; child != NULL; child = child->next) {
        const char *name = child->key != NULL ? child->key->text : "";
        expand_tree(reader, child, strcmp(name, "gate") == 0 || strcmp(name, "tenants") == 0);
    }
}
