/* config_presets.c - what is known of common providers, so that a file need not say it.
 *
 * A preset gives the address and the API of a provider, how it is told who calls, and in what its
 * chats differ from OpenAI's: how they call the bound of their output, which ids of tool calls they
 * take, where they want to see again what was thought, and which fields they refuse. Whatever the
 * file says itself wins. Each has a section in docs/providers.md.
 */
#include <stdio.h>
#include <string.h>

#include "server/config/config_reader.h"
#include "server/config/config_values.h"
#include "server/dialect/neutral/losses.h"

/* Bits of `refuses`, in the order of the words in the schema. */
enum {
    REFUSES_PARALLEL = 1 << 0,
    REFUSES_EFFORT = 1 << 1,
    REFUSES_VERBOSITY = 1 << 2,
    REFUSES_USER = 1 << 3,
    REFUSES_METADATA = 1 << 4,
    REFUSES_CACHE_KEY = 1 << 5,
    REFUSES_TIER = 1 << 6,
    REFUSES_STORE = 1 << 7,
};

/* What only OpenAI itself knows. Others ignore such fields, or refuse calls that have them. */
#define OPENAI_ONLY                                                                                \
    (REFUSES_VERBOSITY | REFUSES_METADATA | REFUSES_CACHE_KEY | REFUSES_TIER | REFUSES_STORE)

static const enum neutral_field refused_fields[] = {
    FIELD_PARALLEL, FIELD_REASONING, FIELD_VERBOSITY, FIELD_USER,
    FIELD_METADATA, FIELD_CACHE_KEY, FIELD_TIER,      FIELD_STORE,
};

struct preset {
    const char *base; /* null: there is no address that everybody uses */
    enum config_api api;
    enum config_output_field output_field;
    enum config_auth auth;
    enum neutral_ids tool_ids;
    enum neutral_reasoning_field reasoning_field;
    unsigned refuses;
};

/* By enum config_preset. */
static const struct preset presets[] = {
    [CONFIG_PRESET_OPENAI] = {.base = "https://api.openai.com",
                              .api = CONFIG_OPENAI,
                              .output_field = CONFIG_FIELD_MAX_COMPLETION_TOKENS},
    [CONFIG_PRESET_AZURE] = {.api = CONFIG_OPENAI,
                             .output_field = CONFIG_FIELD_MAX_COMPLETION_TOKENS},
    [CONFIG_PRESET_ANTHROPIC] = {.base = "https://api.anthropic.com",
                                 .api = CONFIG_ANTHROPIC,
                                 .output_field = CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_GEMINI] = {.base = "https://generativelanguage.googleapis.com",
                              .api = CONFIG_GEMINI,
                              .output_field = CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_VERTEX] = {.api = CONFIG_GEMINI,
                              .output_field = CONFIG_FIELD_MAX_TOKENS,
                              .auth = CONFIG_AUTH_GCP},
    [CONFIG_PRESET_BEDROCK] = {.api = CONFIG_ANTHROPIC,
                               .output_field = CONFIG_FIELD_MAX_COMPLETION_TOKENS,
                               .auth = CONFIG_AUTH_AWS,
                               .refuses = OPENAI_ONLY},
    [CONFIG_PRESET_MISTRAL] = {.base = "https://api.mistral.ai",
                               .api = CONFIG_OPENAI_CHAT,
                               .output_field = CONFIG_FIELD_MAX_TOKENS,
                               .tool_ids = IDS_ALNUM9,
                               .refuses = OPENAI_ONLY | REFUSES_USER | REFUSES_EFFORT},
    [CONFIG_PRESET_GROQ] = {.base = "https://api.groq.com/openai",
                            .api = CONFIG_OPENAI,
                            .output_field = CONFIG_FIELD_MAX_COMPLETION_TOKENS,
                            .reasoning_field = REASONING_FIELD_BARE,
                            .refuses = OPENAI_ONLY},
    [CONFIG_PRESET_DEEPSEEK] = {.base = "https://api.deepseek.com",
                                .api = CONFIG_OPENAI_CHAT,
                                .output_field = CONFIG_FIELD_MAX_TOKENS,
                                .reasoning_field = REASONING_FIELD_CONTENT,
                                .refuses = OPENAI_ONLY | REFUSES_USER},
    [CONFIG_PRESET_TOGETHER] = {.base = "https://api.together.ai",
                                .api = CONFIG_OPENAI_CHAT,
                                .output_field = CONFIG_FIELD_MAX_TOKENS,
                                .refuses = OPENAI_ONLY},
    [CONFIG_PRESET_FIREWORKS] = {.base = "https://api.fireworks.ai/inference",
                                 .api = CONFIG_OPENAI_CHAT,
                                 .output_field = CONFIG_FIELD_MAX_TOKENS,
                                 .reasoning_field = REASONING_FIELD_CONTENT,
                                 .refuses = OPENAI_ONLY},
    [CONFIG_PRESET_OPENROUTER] = {.base = "https://openrouter.ai/api",
                                  .api = CONFIG_OPENAI,
                                  .output_field = CONFIG_FIELD_MAX_TOKENS,
                                  .reasoning_field = REASONING_FIELD_BARE},
    [CONFIG_PRESET_VLLM] = {.api = CONFIG_OPENAI,
                            .output_field = CONFIG_FIELD_MAX_TOKENS,
                            .reasoning_field = REASONING_FIELD_CONTENT,
                            .refuses = OPENAI_ONLY},
    [CONFIG_PRESET_OLLAMA] = {.api = CONFIG_OPENAI,
                              .output_field = CONFIG_FIELD_MAX_TOKENS,
                              .refuses = OPENAI_ONLY | REFUSES_PARALLEL},
};

_Static_assert(sizeof presets / sizeof presets[0] == CONFIG_PRESET_OLLAMA + 1,
               "each preset has a row");

static bool provider_says(const struct yaml_node *node, const char *key)
{
    return yaml_tree_get(node, key) != NULL;
}

/* ---- The address ---- */

static void take_base(struct reader *reader, const char *base, struct config_url *into)
{
    struct value_url url;

    if (value_url(base, &url))
        *into = (struct config_url){.tls = url.tls,
                                    .host = config_bytes(reader, url.host, url.host_bytes),
                                    .port = url.port,
                                    .path = config_bytes(reader, url.path, url.path_bytes)};
}

/* What becomes a part of a host or a path. */
static bool is_plain(const char *text)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= 64 &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:") ==
               strlen(text);
}

static bool need_plain(struct reader *reader, const struct yaml_node *node, const char *key,
                       const char *value, const char *why)
{
    if (is_plain(value))
        return true;
    if (value == NULL && !provider_says(node, key))
        config_error(reader, node, "%s: %s is missing; %s needs it", reader->path, key, why);
    else if (value != NULL)
        config_error(reader, yaml_tree_get(node, key),
                     "%s.%s is \"%.60s\"; it must be letters, digits, and any of - _ . :",
                     reader->path, key, value);
    return false;
}

static void take_vertex_base(struct reader *reader, const char *location, struct config_url *into)
{
    char base[160];

    if (strcmp(location, "global") == 0)
        snprintf(base, sizeof base, "https://aiplatform.googleapis.com");
    else if (strcmp(location, "us") == 0 || strcmp(location, "eu") == 0)
        snprintf(base, sizeof base, "https://aiplatform.%s.rep.googleapis.com", location);
    else
        snprintf(base, sizeof base, "https://%s-aiplatform.googleapis.com", location);
    take_base(reader, base, into);
}

static void take_bedrock_base(struct reader *reader, const struct config_provider *provider,
                              struct config_url *into)
{
    char base[160];

    snprintf(base, sizeof base, "https://bedrock-runtime.%s.amazonaws.com/%s", provider->region,
             provider->api == CONFIG_ANTHROPIC ? "anthropic" : "openai");
    take_base(reader, base, into);
}

/* The address of the first key that has one of its own, where the provider has none. */
static bool take_base_of_key(struct config_provider *provider)
{
    for (size_t i = 0; i < provider->n_keys; i++)
        if (provider->keys[i].base.host != NULL) {
            provider->base = provider->keys[i].base;
            return true;
        }
    return false;
}

static bool all_keys_say(const struct yaml_node *node, const char *name)
{
    const struct yaml_node *keys = yaml_tree_get(node, "keys");

    if (keys == NULL || keys->kind != YAML_LIST || keys->n == 0)
        return false;
    for (const struct yaml_node *key = keys->first; key != NULL; key = key->next)
        if (yaml_tree_get(key, name) == NULL)
            return false;
    return true;
}

static void finish_base(struct reader *reader, const struct yaml_node *node,
                        struct config_provider *provider)
{
    const struct preset *preset = &presets[provider->preset];
    bool known = preset->base != NULL;

    if (provider->vertex && need_plain(reader, node, "project", provider->project, "vertex") &&
        need_plain(reader, node, "location", provider->location, "vertex") &&
        !provider_says(node, "base_url"))
        take_vertex_base(reader, provider->location, &provider->base);
    if (provider->preset == CONFIG_PRESET_BEDROCK &&
        need_plain(reader, node, "region", provider->region, "bedrock") &&
        !provider_says(node, "base_url"))
        take_bedrock_base(reader, provider, &provider->base);
    known |= provider->vertex || provider->preset == CONFIG_PRESET_BEDROCK;
    if (preset->base != NULL && !provider_says(node, "base_url"))
        take_base(reader, preset->base, &provider->base);
    if (known || provider_says(node, "base_url"))
        return;
    if (all_keys_say(node, "base_url"))
        (void)take_base_of_key(provider);
    else
        config_error(reader, node,
                     "%s: base_url is missing; it must be given, here or at each key, or a preset "
                     "that has one",
                     reader->path);
}

/* ---- The rest ---- */

/* What says where calls are signed for, or what is in their paths, has no meaning elsewhere. */
static void check_useless(struct reader *reader, const struct yaml_node *node,
                          const struct config_provider *provider)
{
    static const char *const of_vertex[] = {"project", "location"};
    static const char *const of_aws[] = {"region", "service"};
    bool aws = provider->auth == CONFIG_AUTH_AWS || provider->preset == CONFIG_PRESET_BEDROCK;

    for (size_t i = 0; i < 2; i++) {
        if (!provider->vertex && provider_says(node, of_vertex[i]))
            config_error(reader, yaml_tree_get(node, of_vertex[i]),
                         "%s.%s is for preset: vertex alone", reader->path, of_vertex[i]);
        if (!aws && provider_says(node, of_aws[i]))
            config_error(reader, yaml_tree_get(node, of_aws[i]),
                         "%s.%s is for auth: aws and preset: bedrock alone", reader->path,
                         of_aws[i]);
    }
}

/* What is written into chats alone. */
static void check_chats(struct reader *reader, const struct yaml_node *node,
                        const struct config_provider *provider)
{
    static const char *const of_chats[] = {"refuses", "reasoning_field"};

    for (size_t i = 0; i < 2; i++)
        if (provider->api != CONFIG_OPENAI && provider->api != CONFIG_OPENAI_CHAT &&
            provider_says(node, of_chats[i]))
            config_error(reader, yaml_tree_get(node, of_chats[i]),
                         "%s.%s is for api: openai and openai-chat alone", reader->path,
                         of_chats[i]);
}

static void finish_signatures(struct reader *reader, const struct yaml_node *node,
                              struct config_provider *provider)
{
    if (provider->auth != CONFIG_AUTH_AWS)
        return;
    if (provider->service == NULL)
        provider->service = "bedrock";
    if (provider->preset != CONFIG_PRESET_BEDROCK)
        (void)need_plain(reader, node, "region", provider->region, "auth: aws");
    (void)need_plain(reader, node, "service", provider->service, "auth: aws");
}

static void check_api(struct reader *reader, const struct yaml_node *node,
                      const struct config_provider *provider)
{
    if (provider->vertex && provider->api != CONFIG_GEMINI && provider->api != CONFIG_ANTHROPIC)
        config_error(reader, yaml_tree_get(node, "api"),
                     "%s.api: preset: vertex is known to speak gemini and anthropic", reader->path);
    else if (provider->preset == CONFIG_PRESET_BEDROCK && provider->api == CONFIG_GEMINI)
        config_error(reader, yaml_tree_get(node, "api"),
                     "%s.api: preset: bedrock does not speak gemini", reader->path);
}

void config_finish_preset(struct reader *reader, const struct yaml_node *node,
                          struct config_provider *provider)
{
    const struct preset *preset = &presets[provider->preset];
    bool has = provider->preset != CONFIG_PRESET_NONE;

    if (!has && !provider_says(node, "api"))
        config_error(reader, node, "%s: api is missing; it must be given, or a preset that has one",
                     reader->path);
    provider->vertex = provider->preset == CONFIG_PRESET_VERTEX;
    if (has && !provider_says(node, "api"))
        provider->api = preset->api;
    if (has && !provider_says(node, "output_field"))
        provider->output_field = preset->output_field;
    if (has && !provider_says(node, "auth"))
        provider->auth = preset->auth;
    if (has && !provider_says(node, "tool_ids"))
        provider->tool_ids = preset->tool_ids;
    if (has && !provider_says(node, "reasoning_field"))
        provider->reasoning_field = preset->reasoning_field;
    if (has && !provider_says(node, "refuses"))
        provider->refuses = preset->refuses;
    for (size_t i = 0; i < sizeof refused_fields / sizeof refused_fields[0]; i++)
        if ((provider->refuses >> i & 1) != 0 &&
            (provider->api == CONFIG_OPENAI || provider->api == CONFIG_OPENAI_CHAT))
            provider->refused_fields |= UINT64_C(1) << refused_fields[i];
    /* Names of regions are in its hosts. */
    if (provider->vertex && provider->catalogue == NULL)
        provider->catalogue = provider->api == CONFIG_ANTHROPIC ? "anthropic" : "vertex";
    finish_base(reader, node, provider);
    finish_signatures(reader, node, provider);
    check_useless(reader, node, provider);
    check_chats(reader, node, provider);
    check_api(reader, node, provider);
}
