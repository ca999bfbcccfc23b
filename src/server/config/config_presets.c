/* config_presets.c - what is known of common providers, so that a file need not say it.
 *
 * A preset gives the address and the API of a provider, and how chats there call the bound of their
 * output. Whatever the file says itself wins.
 */
#include <string.h>

#include "server/config/config_reader.h"
#include "server/config/config_values.h"

struct preset {
    const char *base; /* null: there is no address that everybody uses */
    enum config_api api;
    enum config_output_field output_field;
};

/* By enum config_preset. */
static const struct preset presets[] = {
    [CONFIG_PRESET_OPENAI] = {"https://api.openai.com", CONFIG_OPENAI,
                              CONFIG_FIELD_MAX_COMPLETION_TOKENS},
    [CONFIG_PRESET_ANTHROPIC] = {"https://api.anthropic.com", CONFIG_ANTHROPIC,
                                 CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_GEMINI] = {"https://generativelanguage.googleapis.com", CONFIG_GEMINI,
                              CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_GROQ] = {"https://api.groq.com/openai", CONFIG_OPENAI,
                            CONFIG_FIELD_MAX_COMPLETION_TOKENS},
    [CONFIG_PRESET_DEEPSEEK] = {"https://api.deepseek.com", CONFIG_OPENAI_CHAT,
                                CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_TOGETHER] = {"https://api.together.ai", CONFIG_OPENAI_CHAT,
                                CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_FIREWORKS] = {"https://api.fireworks.ai/inference", CONFIG_OPENAI_CHAT,
                                 CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_OPENROUTER] = {"https://openrouter.ai/api", CONFIG_OPENAI,
                                  CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_VLLM] = {NULL, CONFIG_OPENAI, CONFIG_FIELD_MAX_TOKENS},
    [CONFIG_PRESET_OLLAMA] = {NULL, CONFIG_OPENAI, CONFIG_FIELD_MAX_TOKENS},
};

static bool provider_says(const struct yaml_node *node, const char *key)
{
    return yaml_tree_get(node, key) != NULL;
}

static void check_given(struct reader *reader, const struct yaml_node *node, const char *key,
                        bool by_preset)
{
    if (!by_preset && !provider_says(node, key))
        config_error(reader, node, "%s: %s is missing; it must be given, or a preset that has one",
                     reader->path, key);
}

static void take_base(struct reader *reader, const char *base, struct config_url *into)
{
    struct value_url url;

    if (value_url(base, &url))
        *into = (struct config_url){.tls = url.tls,
                                    .host = config_bytes(reader, url.host, url.host_bytes),
                                    .port = url.port,
                                    .path = config_bytes(reader, url.path, url.path_bytes)};
}

void config_finish_preset(struct reader *reader, const struct yaml_node *node,
                          struct config_provider *provider)
{
    const struct preset *preset = &presets[provider->preset];
    bool has = provider->preset != CONFIG_PRESET_NONE;

    check_given(reader, node, "base_url", has && preset->base != NULL);
    check_given(reader, node, "api", has);
    if (has && preset->base != NULL && !provider_says(node, "base_url"))
        take_base(reader, preset->base, &provider->base);
    if (has && !provider_says(node, "api"))
        provider->api = preset->api;
    if (has && !provider_says(node, "output_field"))
        provider->output_field = preset->output_field;
}
