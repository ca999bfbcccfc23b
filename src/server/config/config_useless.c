/* config_useless.c - settings that have no effect, because what they are for is not there.
 *
 * They are warnings: a file may be on its way to what it will be, and an alternative that is not
 * chosen (the settings of another law) may wait for its day. But who writes `two_tier` believes
 * that he has it. A setting that says what holds anyway (`divide: false`) is no claim, and gets
 * none.
 */
#include <string.h>

#include "server/config/config_reader.h"

/* ---- The store ---- */

static void check_store(struct reader *reader, const struct yaml_node *root)
{
    const struct config_store *store = &reader->config->store;
    const struct yaml_node *two_tier = yaml_tree_get(root, "two_tier");
    const struct yaml_node *tls = yaml_tree_get(root, "store_tls");
    const struct yaml_node *timeout = yaml_tree_get(root, "store_timeout");
    const struct yaml_node *gate = yaml_tree_get(root, "gate");
    const struct yaml_node *concurrency = gate != NULL ? yaml_tree_get(gate, "concurrency") : NULL;
    bool remote = config_store_is_remote(store);

    if (!remote && two_tier != NULL && store->two_tier)
        config_warning(reader, config_child_or_self(two_tier, "enabled"),
                       "two_tier has no effect with store: memory; it is for gateways that share "
                       "their limits in Redis");
    if (!remote && timeout != NULL)
        config_warning(reader, timeout, "store_timeout has no effect with store: memory");
    if (tls != NULL && strncmp(store->url, "rediss", 6) != 0)
        config_warning(reader, tls, "store_tls has no effect: the store is not a rediss:// one");
    if (!remote && concurrency != NULL && reader->config->gate.concurrency.divide)
        config_warning(reader, config_child_or_self(concurrency, "divide"),
                       "divide has no effect with store: memory: there is one gateway");
}

/* ---- Providers ---- */

static bool has_group(const struct config_provider_key *keys, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (keys[i].group != NULL && strcmp(keys[i].group, name) == 0)
            return true;
    return false;
}

/* A group is for the provider's own keys and for those of its models. */
static bool is_group_used(const struct config *config, size_t provider, const char *name)
{
    if (has_group(config->providers[provider].keys, config->providers[provider].n_keys, name))
        return true;
    for (size_t i = 0; i < config->n_models; i++)
        if (config->models[i].provider == provider &&
            has_group(config->models[i].keys, config->models[i].n_keys, name))
            return true;
    return false;
}

static bool is_provider_used(const struct config *config, size_t provider)
{
    for (size_t i = 0; i < config->n_models; i++)
        if (config->models[i].provider == provider)
            return true;
    for (size_t i = 0; i < config->n_passthrough; i++)
        if (config->passthrough[i].provider == provider)
            return true;
    return false;
}

static void check_providers(struct reader *reader)
{
    const struct config *config = reader->config;
    bool serves = config->n_models > 0 || config->n_passthrough > 0;
    const struct yaml_node *node;

    for (struct config_walk walk = CONFIG_MAP("providers");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        size_t i = walk.n - 1;
        const struct yaml_node *groups = yaml_tree_get(node, "groups");
        if (i >= config->n_providers)
            return;
        if (serves && !is_provider_used(config, i))
            config_warning(
                reader, node->key,
                "no model and no passthrough uses the provider \"%.60s\": nobody can use it",
                config->providers[i].name);
        for (const struct yaml_node *group = groups != NULL ? groups->first : NULL; group != NULL;
             group = group->next)
            if (!is_group_used(config, i, group->key->text))
                config_warning(reader, group->key,
                               "no key is in the group \"%.60s\": its limits have no effect",
                               group->key->text);
    }
}

/* ---- Retries, cheaper models ---- */

static void check_models(struct reader *reader)
{
    const struct config *config = reader->config;
    bool may_retry = config->retry_ratio > 0 || config->retry_min_per_s > 0, allows = false;
    const struct yaml_node *node;

    for (size_t i = 0; i < config->n_tenants; i++)
        allows = allows || config->tenants[i].allow_cheaper > 0;
    for (struct config_walk walk = CONFIG_MAP("models");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        const struct yaml_node *retries = yaml_tree_get(node, "retries");
        const struct yaml_node *cheaper = yaml_tree_get(node, "cheaper");
        if (walk.n > config->n_models)
            return;
        if (retries != NULL && !may_retry && config->models[walk.n - 1].retries > 0)
            config_warning(reader, retries,
                           "retries has no effect: retry_budget allows none (ratio and min_per_s "
                           "are 0)");
        if (cheaper != NULL && !allows && config->n_tenants > 0)
            config_warning(reader, cheaper, "cheaper has no effect: no tenant has allow_cheaper");
    }
}

static void check_listeners(struct reader *reader, const struct yaml_node *root)
{
    const struct yaml_node *auth = yaml_tree_get(root, "admin_auth");

    if (auth != NULL && reader->config->listen.gateway != NULL &&
        reader->config->listen.admin == NULL)
        config_warning(reader, auth, "admin_auth has no effect without listen.admin");
}

void config_warn_of_useless(struct reader *reader)
{
    for (size_t i = 0; i < reader->first_extra; i++) {
        reader->current = i;
        check_store(reader, reader->documents[i].root);
        check_listeners(reader, reader->documents[i].root);
    }
    check_providers(reader);
    check_models(reader);
}
