/* route_way.c - see route_way.h, which has the table. */
#include "server/upstream/route_way.h"

#include <assert.h>
#include <string.h>

bool route_way_client(enum endpoint endpoint, enum dialect *client)
{
    switch (endpoint) {
    case ENDPOINT_CHAT:
        *client = DIALECT_CHAT;
        break;
    case ENDPOINT_RESPONSES:
        *client = DIALECT_RESPONSES;
        break;
    case ENDPOINT_MESSAGES:
    case ENDPOINT_COUNT_TOKENS:
        *client = DIALECT_ANTHROPIC;
        break;
    default:
        return false;
    }
    return dialect_find(*client)->read_request != NULL;
}

static bool speaks(enum config_api api, enum endpoint endpoint)
{
    switch (endpoint) {
    case ENDPOINT_CHAT:
        return api == CONFIG_OPENAI || api == CONFIG_OPENAI_CHAT;
    case ENDPOINT_RESPONSES:
        return api == CONFIG_OPENAI || api == CONFIG_OPENAI_RESPONSES;
    case ENDPOINT_MESSAGES:
    case ENDPOINT_COUNT_TOKENS:
        return api == CONFIG_ANTHROPIC;
    default: /* completions and embeddings, which only OpenAI's kind has */
        return api != CONFIG_ANTHROPIC && api != CONFIG_GEMINI;
    }
}

static enum dialect dialect_of(enum config_api api)
{
    switch (api) {
    case CONFIG_OPENAI_RESPONSES:
        return DIALECT_RESPONSES;
    case CONFIG_ANTHROPIC:
        return DIALECT_ANTHROPIC;
    case CONFIG_GEMINI:
        return DIALECT_GEMINI;
    default:
        return DIALECT_CHAT;
    }
}

enum route_way route_way(const struct config_provider *provider, enum endpoint endpoint,
                         enum dialect *to)
{
    enum dialect client;

    if (speaks(provider->api, endpoint))
        return WAY_SAME;
    if (endpoint == ENDPOINT_COUNT_TOKENS && provider->api != CONFIG_GEMINI)
        return WAY_ESTIMATED;
    *to = dialect_of(provider->api);
    return route_way_client(endpoint, &client) && dialect_find(*to)->write_request != NULL
               ? WAY_TRANSLATED
               : WAY_NONE;
}

static bool is_openai_itself(const struct config_provider *provider)
{
    return provider->base.host != NULL && strcmp(provider->base.host, "api.openai.com") == 0;
}

const char *route_way_chat_bound(const struct config_provider *provider)
{
    bool newer = provider->output_field == CONFIG_FIELD_MAX_COMPLETION_TOKENS ||
                 (provider->output_field == CONFIG_FIELD_BY_HOST && is_openai_itself(provider));

    return newer ? "max_completion_tokens" : "max_tokens";
}

void route_way_target(const struct config_provider *provider, const struct config_model *model,
                      struct neutral_target *target)
{
    neutral_target_init(target);
    if (model->upstream_model != NULL) /* else it keeps the name that it was asked for by */
        target->model = slice_of(model->upstream_model);
    target->provider = slice_of(provider->name);
    target->max_output = config_most_output(model);
    target->strict = !model->lossy;
    target->max_tokens = strcmp(route_way_chat_bound(provider), "max_tokens") == 0;
    target->developer = is_openai_itself(provider);
    target->ids = provider->tool_ids;
    target->reasoning_field = provider->reasoning_field;
    target->refused = provider->refused_fields;
    target->vertex = provider->vertex;
    target->fixed_sampling = model->sampling == CONFIG_SAMPLING_FIXED;
    target->thinking = model->thinking == CONFIG_THINKING_NONE     ? THINKING_NONE
                       : model->thinking == CONFIG_THINKING_BUDGET ? THINKING_BUDGET
                                                                   : THINKING_ADAPTIVE;
    assert(target->max_output > 0);
}
