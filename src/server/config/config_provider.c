/* config_provider.c - what several keys of a provider say together.
 *
 * A provider is data: what is written here is put into requests as it stands. So everything that
 * could end a header or a request line early, or carry a call elsewhere, is refused here, and a
 * query is escaped once rather than in each call.
 */
#include "server/config/config_index.h"
#include "server/config/config_reader.h"
#include "server/config/config_values.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- Headers ---- */

/* Where a message ends, how it is packed and to whom it goes is not for a configuration to say. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"host",
                                       "content-length",
                                       "transfer-encoding",
                                       "connection",
                                       "proxy-connection",
                                       "keep-alive",
                                       "upgrade",
                                       "te",
                                       "trailer",
                                       "expect",
                                       "accept-encoding"};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strcasecmp(name, ours[i]) == 0)
            return true;
    return strncasecmp(name, "x-tollgate-", strlen("x-tollgate-")) == 0;
}

static bool is_above(const struct yaml_node *map, const struct yaml_node *below)
{
    for (const struct yaml_node *child = map->first; child != below; child = child->next)
        if (strcasecmp(child->key->text, below->key->text) == 0)
            return true;
    return false;
}

static void check_set_header(struct reader *reader, const struct yaml_node *set,
                             const struct yaml_node *node, const char *auth_header)
{
    const char *name = node->key->text;

    if (!value_is_field(name))
        config_error(reader, node->key,
                     "%s.headers.set: \"%.60s\" is not the name of a header; it must be a token",
                     reader->path, name);
    else if (is_ours(name))
        config_error(reader, node->key,
                     "%s.headers.set: the header %.60s is the gateway's own; it cannot be set",
                     reader->path, name);
    else if (auth_header != NULL && strcasecmp(name, auth_header) == 0)
        config_error(reader, node->key,
                     "%s.headers.set: the header %.60s carries the key; it must not be set",
                     reader->path, name);
    else if (is_above(set, node))
        config_error(reader, node->key,
                     "%s.headers.set: the header %.60s is given twice; each is allowed once",
                     reader->path, name);
}

enum { SET_HEADERS_MAX = 64 };

static void finish_headers(struct reader *reader, const struct yaml_node *node,
                           struct config_provider *provider)
{
    const struct yaml_node *set = yaml_tree_get(yaml_tree_get(node, "headers"), "set");

    if (set != NULL && set->kind == YAML_MAP && set->n > SET_HEADERS_MAX)
        config_error(reader, set, "%s.headers.set has %zu headers; at most %d are allowed",
                     reader->path, set->n, SET_HEADERS_MAX);
    else if (set != NULL && set->kind == YAML_MAP)
        for (const struct yaml_node *child = set->first; child != NULL; child = child->next)
            check_set_header(reader, set, child, provider->auth_header);
    for (size_t i = 0; i < provider->set_headers.n; i++)
        provider->set_headers.list[i].name =
            config_lower(reader, provider->set_headers.list[i].name);
}

/* A prefix of its own is for the header that is called so everywhere. */
static void finish_auth(struct reader *reader, const struct yaml_node *node,
                        struct config_provider *provider)
{
    const struct yaml_node *header = yaml_tree_get(yaml_tree_get(node, "auth"), "header");

    if (provider->auth_header == NULL)
        provider->auth_header = provider->api == CONFIG_ANTHROPIC ? "x-api-key" : "authorization";
    if (provider->auth_prefix == NULL)
        provider->auth_prefix =
            strcmp(provider->auth_header, "authorization") == 0 ? "Bearer " : "";
    if (is_ours(provider->auth_header))
        config_error(reader, header,
                     "%s.auth.header is %.60s, the gateway's own; it must be another one",
                     reader->path, provider->auth_header);
    if (strlen(provider->auth_prefix) > 64)
        config_error(reader, yaml_tree_get(yaml_tree_get(node, "auth"), "prefix"),
                     "%s.auth.prefix is too long; it must be at most 64 characters", reader->path);
}

/* ---- Where ---- */

static const char *escape(struct reader *reader, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    char *escaped = config_alloc(reader, strlen(text) * 3 + 1);
    size_t n = 0;

    for (; escaped != NULL && *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            escaped[n++] = *text;
        else
            n += (size_t)snprintf(escaped + n, 4, "%%%02X", (unsigned)(unsigned char)*text);
    }
    return escaped;
}

static void finish_query(struct reader *reader, struct config_provider *provider)
{
    for (size_t i = 0; i < provider->query.n; i++) {
        struct config_pair *pair = &provider->query.list[i];
        pair->name = escape(reader, pair->name);
        pair->value = escape(reader, pair->value);
    }
}

static bool ends_in_v1(const char *path)
{
    size_t bytes = path != NULL ? strlen(path) : 0;

    return bytes >= 3 && strcmp(path + bytes - 3, "/v1") == 0;
}

/* What SDKs call a base URL ends in /v1; here calls bring that themselves. */
static void finish_path(struct reader *reader, const struct yaml_node *node,
                        struct config_provider *provider)
{
    const struct yaml_node *prefix = yaml_tree_get(node, "path_prefix");

    if (provider->path_prefix != NULL && strcmp(provider->path_prefix, "/") == 0)
        provider->path_prefix = "";
    if (prefix != NULL && ends_in_v1(provider->path_prefix))
        config_warning(reader, prefix, "%s.path_prefix ends in /v1, and so every path has it twice",
                       reader->path);
    else if (ends_in_v1(provider->base.path) && provider->path_prefix[0] == '\0')
        config_warning(reader, yaml_tree_get(node, "base_url"),
                       "%s.base_url ends in /v1, and so every path has it twice", reader->path);
}

static void finish_proxy(struct reader *reader, const struct yaml_node *node,
                         struct config_provider *provider)
{
    struct value_url url;

    if (provider->proxy == NULL || strcmp(provider->proxy, "none") == 0) {
        provider->proxy = NULL;
        return;
    }
    if (value_url(provider->proxy, &url) && (url.tls || url.path_bytes > 0 || url.has_query))
        config_error(reader, yaml_tree_get(node, "proxy"),
                     "%s.proxy is no address of a proxy; it must be none or http://HOST:PORT",
                     reader->path);
}

/* ---- Keys ---- */

void config_check_key_names(struct reader *reader, const struct yaml_node *keys)
{
    struct config_index *index;
    size_t i = 0;

    if (keys == NULL || keys->kind != YAML_LIST || keys->n < 2)
        return;
    index = config_index_new(reader->scratch, keys->n);
    if (index == NULL) {
        reader->no_memory = true;
        return;
    }
    for (const struct yaml_node *key = keys->first; key != NULL; key = key->next, i++) {
        const struct yaml_node *name = yaml_tree_get(key, "name");
        if (name == NULL || name->kind != YAML_TEXT || name->unknown)
            continue;
        size_t first = config_index_put(index, name->text, i);
        if (first != CONFIG_INDEX_NONE)
            config_error(reader, name,
                         "%s.keys[%zu].name is \"%.60s\", as that of keys[%zu]; each name is "
                         "allowed once",
                         reader->path, i, name->written, first);
    }
}

/* ---- All of it ---- */

void config_finish_provider(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_provider *provider = into;

    finish_auth(reader, node, provider);
    finish_headers(reader, node, provider);
    finish_query(reader, provider);
    finish_path(reader, node, provider);
    finish_proxy(reader, node, provider);
    config_check_key_names(reader, yaml_tree_get(node, "keys"));
}
