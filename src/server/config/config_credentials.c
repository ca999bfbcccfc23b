/* config_credentials.c - what each way to authenticate needs of the keys of a provider.
 *
 *     header   secret
 *     aws      access_key, secret, and perhaps session_token
 *     gcp      service_account: the JSON that Google gives out for one
 *
 * The private key in it is taken apart here, once, and is wiped with the configuration. Nothing of
 * it is in any message.
 */
#include <stdlib.h>
#include <string.h>

#include "io/sign/jwt.h"
#include "io/text/json_read.h"
#include "server/config/config_reader.h"
#include "server/config/config_values.h"

/* ---- A service account ---- */

static void take_url(struct reader *reader, const char *text, struct config_url *into)
{
    struct value_url url;

    if (text != NULL && value_url(text, &url) && !url.has_query)
        *into = (struct config_url){.tls = url.tls,
                                    .host = config_bytes(reader, url.host, url.host_bytes),
                                    .port = url.port,
                                    .path = config_bytes(reader, url.path, url.path_bytes)};
}

static void take_member(struct reader *reader, struct json_text key, struct json_text text,
                        struct config_account *account)
{
    if (json_text_is(key, "client_email"))
        account->email = config_bytes(reader, text.bytes, text.size);
    else if (json_text_is(key, "private_key_id"))
        account->key_id = config_bytes(reader, text.bytes, text.size);
    else if (json_text_is(key, "private_key"))
        (void)config_keep_secret(reader, text.bytes, text.size, &account->private_key);
    else if (json_text_is(key, "token_uri"))
        take_url(reader, account->token_uri = config_bytes(reader, text.bytes, text.size),
                 &account->token_url);
}

/* Null: what is wrong with it. */
static const char *read_account_json(struct reader *reader, const struct config_secret *text,
                                     struct config_account *account)
{
    struct json_reader *json = json_reader_new();
    struct json_text key;
    struct json_value value;

    if (json == NULL) {
        reader->no_memory = true;
        return NULL;
    }
    if (json_begin(json, text->bytes, text->size, text->size, &value) &&
        value.kind == JSON_OBJECT && json_enter(json))
        while (json_next(json, &key, &value))
            if (value.kind == JSON_STRING)
                take_member(reader, key, value.string, account);
    bool good = json_end(json);
    json_reader_free(json);
    if (!good)
        return "is not JSON";
    if (account->email == NULL || account->email[0] == '\0')
        return "has no client_email";
    if (account->private_key.bytes == NULL ||
        !jwt_is_key((struct slice){account->private_key.bytes, account->private_key.size}))
        return "has no private_key that is an RSA key of at least 2048 bits, in PEM";
    if (account->token_url.host == NULL)
        return "has no token_uri that is a URL";
    return NULL;
}

static void finish_account(struct reader *reader, const struct yaml_node *node, size_t i,
                           struct config_provider_key *key)
{
    const struct yaml_node *given = yaml_tree_get(node, "service_account");

    if (given == NULL) {
        config_error(reader, node, "%s.keys[%zu]: service_account is missing; auth: gcp needs it",
                     reader->path, i);
        return;
    }
    if (key->account_text.bytes == NULL)
        return; /* it is missing, which has been said, or not known */
    struct config_account *account = config_alloc(reader, sizeof *account);
    if (account == NULL)
        return;
    const char *wrong = read_account_json(reader, &key->account_text, account);
    if (wrong != NULL)
        config_error(reader, given,
                     "%s.keys[%zu].service_account %s; it must be the JSON of a "
                     "service account's key",
                     reader->path, i, wrong);
    else
        key->account = account;
}

/* ---- All keys ---- */

static void need(struct reader *reader, const struct yaml_node *node, size_t i, const char *name,
                 const char *why)
{
    if (yaml_tree_get(node, name) == NULL)
        config_error(reader, node, "%s.keys[%zu]: %s is missing; %s", reader->path, i, name, why);
}

static void refuse(struct reader *reader, const struct yaml_node *node, size_t i, const char *name,
                   const char *of)
{
    const struct yaml_node *given = yaml_tree_get(node, name);

    if (given != NULL)
        config_error(reader, given, "%s.keys[%zu].%s is for auth: %s alone", reader->path, i, name,
                     of);
}

void config_finish_credentials(struct reader *reader, const struct yaml_node *node,
                               const struct config_provider *provider,
                               struct config_provider_key *keys, size_t n)
{
    const struct yaml_node *item = node != NULL && node->kind == YAML_LIST ? node->first : NULL;

    for (size_t i = 0; i < n && item != NULL; i++, item = item->next) {
        if (item->kind != YAML_MAP)
            continue;
        if (provider->auth == CONFIG_AUTH_GCP)
            finish_account(reader, item, i, &keys[i]);
        else
            need(reader, item, i, "secret", "it must be given");
        if (provider->auth == CONFIG_AUTH_AWS)
            need(reader, item, i, "access_key",
                 "auth: aws needs it. An API key of Bedrock's is sent as it is, with "
                 "`auth: {header: authorization}`");
        if (provider->auth != CONFIG_AUTH_GCP)
            refuse(reader, item, i, "service_account", "gcp");
        else
            refuse(reader, item, i, "secret", "header and aws");
        if (provider->auth != CONFIG_AUTH_AWS) {
            refuse(reader, item, i, "access_key", "aws");
            refuse(reader, item, i, "session_token", "aws");
        }
    }
}
