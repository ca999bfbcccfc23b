/* config_vars.c - ${NAME} in a configuration file: variables of the environment, put in place.
 *
 * This is done before anything else reads the tree, so that a value from a variable is checked
 * like any other. Messages show what stands in the file, never what the variable holds: it may be a
 * secret.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/text_out.h"
#include "server/config/config_reader.h"

enum { EXPANDED_BYTES_MAX = 65536 };

static size_t name_length(const char *text)
{
    size_t n = 0;

    while (text[n] == '_' || isalpha((unsigned char)text[n]) ||
           (n > 0 && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

/* Puts the value of the variable at `text`, which begins "${". Returns what stands after it. */
static const char *expand_one(struct reader *reader, struct yaml_node *node, bool unread,
                              const char *text, struct text_out *to)
{
    size_t bytes = name_length(text + 2);
    char name[128];

    if (bytes == 0 || bytes >= sizeof name || text[2 + bytes] != '}') {
        to->failed = true;
        return text + strlen(text);
    }
    memcpy(name, text + 2, bytes);
    name[bytes] = '\0';
    const char *value = getenv(name);
    if (value != NULL) {
        text_out_text(to, value);
    } else {
        config_missing(reader, node, unread, "the environment variable %s is not set", name);
        node->unknown = true;
    }
    return text + 2 + bytes + 1;
}

static void expand_text(struct reader *reader, struct yaml_node *node, bool unread)
{
    struct text_out to;
    char *buffer;

    if (strstr(node->text, "${") == NULL)
        return;
    buffer = malloc(EXPANDED_BYTES_MAX);
    if (buffer == NULL) {
        reader->no_memory = true;
        return;
    }
    text_out_fixed(&to, buffer, EXPANDED_BYTES_MAX);
    for (const char *at = node->text; *at != '\0' && !to.failed;) {
        const char *next = strstr(at, "${");
        text_out_put(&to, at, next != NULL ? (size_t)(next - at) : strlen(at));
        at = next != NULL ? expand_one(reader, node, unread, next, &to) : at + strlen(at);
    }
    if (to.failed)
        config_error(reader, node,
                     "\"%.60s\" has a variable without a name, or with one that is too long; it "
                     "must be ${NAME}",
                     node->written);
    node->unknown |= to.failed;
    const char *copy = node->unknown ? NULL : config_scratch_text(reader, buffer, to.size);
    if (copy != NULL) {
        node->text = copy;
        node->bytes = to.size;
        config_wipe_later(reader, copy, to.size);
    }
    config_wipe(buffer, to.size);
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
