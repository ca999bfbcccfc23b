/* model_list.c - what `GET /v1/models` and `GET /v1/models/NAME` answer. See model_list.h. */
#include "server/proxy/model_list.h"
#include "io/text/json_member.h"

#include <string.h>

static bool model_is_listed(const struct model_list *list, const struct config_model *model)
{
    return config_may_use(list->config, list->tenant, list->key, model);
}

/* By the name that a client knows it by, which may be an alias. */
static void write_model(const struct model_list *list, const struct config_model *model,
                        const char *name, struct json_writer *out)
{
    const char *owner = list->config->providers[model->provider].name;

    json_write_object(out);
    json_member_text(out, "id", name);
    if (list->api == WIRE_ANTHROPIC) {
        json_write_key(out, "type");
        json_write_string(out, "model", 5);
        json_member_text(out, "display_name", name);
        json_write_key(out, "created_at");
        json_write_string(out, "1970-01-01T00:00:00Z", 20);
    } else {
        json_write_key(out, "object");
        json_write_string(out, "model", 5);
        json_member_number(out, "created", 0);
        json_member_text(out, "owned_by", owner);
    }
    json_write_object_end(out);
}

/* Anthropic's clients page by these. */
static void write_bound(const char *key, const char *name, struct json_writer *out)
{
    json_write_key(out, key);
    if (name != NULL)
        json_write_string(out, name, strlen(name));
    else
        json_write_null(out);
}

void model_list_write(const struct model_list *list, struct json_writer *out)
{
    const char *first = NULL, *last = NULL;

    json_write_object(out);
    if (list->api == WIRE_OPENAI) {
        json_write_key(out, "object");
        json_write_string(out, "list", 4);
    } else {
        json_member_flag(out, "has_more", false);
    }
    json_write_key(out, "data");
    json_write_array(out);
    for (size_t i = 0; i < list->config->n_models; i++)
        if (model_is_listed(list, &list->config->models[i])) {
            last = list->config->models[i].name;
            first = first != NULL ? first : last;
            write_model(list, &list->config->models[i], last, out);
        }
    for (size_t i = 0; i < list->config->n_aliases; i++) {
        const struct config_alias *alias = &list->config->aliases[i];
        if (model_is_listed(list, &list->config->models[alias->model])) {
            last = alias->name;
            first = first != NULL ? first : last;
            write_model(list, &list->config->models[alias->model], last, out);
        }
    }
    json_write_array_end(out);
    if (list->api == WIRE_ANTHROPIC) {
        write_bound("first_id", first, out);
        write_bound("last_id", last, out);
    }
    json_write_object_end(out);
}

void model_list_write_one(const struct model_list *list, struct slice name, struct json_writer *out)
{
    char plain[ASK_TEXT_MAX];
    size_t n = 0, model = CONFIG_NONE;

    if (endpoint_unescape(name, plain, sizeof plain, &n))
        model = config_model(list->config, plain, n);
    if (model == CONFIG_NONE || !model_is_listed(list, &list->config->models[model]))
        return;
    const char *known = list->config->models[model].name;
    for (size_t i = 0; i < list->config->n_aliases; i++)
        if (slice_equal(slice_of(list->config->aliases[i].name), (struct slice){plain, n}))
            known = list->config->aliases[i].name;
    write_model(list, &list->config->models[model], known, out);
}
