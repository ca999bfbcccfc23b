/* admin_keys.c - virtual keys that the API makes, and keys of providers that it has used again, or
 * takes out of use. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "io/text/json_member.h"
#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_change.h"
#include "server/admin/admin_internal.h"
#include "server/config/config_values.h"
#include "server/explain/explain.h"
#include "server/runtime/gateway.h"
#include "server/runtime/recorder.h"

/* ---- virtual keys ---- */

/* What a body says of a key. From LIMITS on it is for the reader of the configuration, which is
 * given the body as it is, so that what is wrong has its place in it. */
enum { NAME, NOT_AFTER, LIMITS, BUDGETS, MODELS, ENDPOINTS, TAGS, KEY_MEMBERS };

struct key_body {
    char name[ADMIN_TEXT_MAX];
    tg_ms not_after;
    bool has_settings;
};

/* False: it has been answered. */
static bool read_key_body(struct admin_call *call, const char *named, struct key_body *body)
{
    const struct admin_member members[KEY_MEMBERS] = {
        [NAME] = {"name", JSON_STRING, named == NULL},
        [NOT_AFTER] = {"not_after", JSON_STRING, false},
        [LIMITS] = {"limits", JSON_NULL, false},
        [BUDGETS] = {"budgets", JSON_NULL, false},
        [MODELS] = {"models", JSON_NULL, false},
        [ENDPOINTS] = {"endpoints", JSON_NULL, false},
        [TAGS] = {"tags", JSON_NULL, false}};
    struct admin_value values[KEY_MEMBERS];
    const struct admin_value *name = &values[NAME], *not_after = &values[NOT_AFTER];

    *body = (struct key_body){.not_after = CONFIG_NEVER};
    if (!admin_body_read(call, members, KEY_MEMBERS, values))
        return false;
    for (size_t i = LIMITS; i < KEY_MEMBERS; i++)
        body->has_settings |= values[i].given;
    memcpy(body->name, name->text, sizeof body->name);
    if (named == NULL && !value_is_name(name->text))
        admin_body_wrong(call, name->offset, "name must be 1 to 128 printable characters");
    else if (named != NULL && name->given && strcmp(name->text, named) != 0)
        admin_body_wrong(call, name->offset, "name is \"%.60s\"; it must be \"%.60s\", or absent",
                         name->text, named);
    else if (not_after->given && !value_time(not_after->text, &body->not_after))
        admin_body_wrong(call, not_after->offset,
                         "not_after is \"%.40s\"; it must be a time such as 2027-12-31T00:00:00Z",
                         not_after->text);
    else if (body->has_settings && call->body_n > LEDGER_ADMIN_SETTINGS_MAX)
        admin_body_wrong(call, 0, "the settings of a key have %zu bytes; at most %zu are kept",
                         call->body_n, LEDGER_ADMIN_SETTINGS_MAX);
    else
        return true;
    return false;
}

/* Null: it has been answered. */
static struct admin_change *new_change(struct admin_call *call, enum admin_change_kind kind,
                                       const char *name, const struct key_body *body)
{
    struct admin_change *change = admin_change_new(call, kind);

    if (change == NULL)
        return NULL;
    snprintf(change->name, sizeof change->name, "%s", name);
    change->not_after = body->not_after;
    return !body->has_settings || admin_change_take_body(change) ? change : NULL;
}

void admin_keys_make(struct admin_call *call)
{
    struct key_body body;

    if (!read_key_body(call, NULL, &body))
        return;
    struct admin_change *change = new_change(call, ADMIN_MAKE_KEY, body.name, &body);
    if (change == NULL)
        return;
    if (virtual_key_make(change->secret) &&
        virtual_key_hash(slice_of(change->secret), change->sha256)) {
        admin_change_start(change);
        return;
    }
    admin_change_free(change);
    admin_reply_error(call->in, 503, "busy", "the system provides no random numbers");
}

/* A key that a file defines is refused without reading all files again, as for tenants. */
static bool in_file(struct admin_call *call)
{
    const struct config *config = &admin_generation(call->admin)->config;
    const struct config_tenant *tenant =
        config_tenant(config, call->names[0], strlen(call->names[0]));
    const struct config_key *key = tenant != NULL ? config_find_key(tenant, call->names[1]) : NULL;
    char place[EXPLAIN_PLACE_MAX];

    if (key == NULL || key->extra)
        return false;
    explain_place(tenant, place);
    admin_reply_error(
        call->in, 409, "in_file",
        "key \"%.128s\" is defined in %s, and the file wins; change it there, and reload",
        call->names[1], place);
    return true;
}

/* What it has is replaced by what the body says; its secret stays. */
void admin_keys_put(struct admin_call *call)
{
    struct key_body body;

    if (!read_key_body(call, call->names[1], &body) || in_file(call))
        return;
    struct admin_change *change = new_change(call, ADMIN_PUT_KEY, call->names[1], &body);
    if (change != NULL)
        admin_change_start(change);
}

void admin_keys_drop(struct admin_call *call)
{
    struct admin_change *change = admin_change_new(call, ADMIN_DROP_KEY);

    if (change == NULL)
        return;
    memcpy(change->name, call->names[1], sizeof change->name);
    admin_change_start(change);
}

/* ---- keys of providers ---- */

/* One name may stand in several lists of keys: of the provider, and of its models. */
static void reset_in(struct admin_call *call, const struct config_provider *provider,
                     const char *name, struct json_writer *out, size_t *n)
{
    struct tg_keyring *ring = call->admin->options.gateway->ring;
    char who[64], object[2 * ADMIN_NAME_MAX + 2];

    if (!tg_keyring_reset(ring, provider->name, name, admin_now(call->admin)))
        return;
    ++*n;
    recorder_change(call->admin->options.gateway, "key_reset", name);
    json_write_object(out);
    json_member_text(out, "provider", provider->name);
    json_member_text(out, "name", name);
    json_write_object_end(out);
    admin_peer(call->in, who);
    snprintf(object, sizeof object, "%s/%s", provider->name, name);
    admin_audit(call->admin, who, "reset_key", object, "done");
}

/* `provider` null: of all. */
static void reset(struct admin_call *call, const char *provider, const char *name)
{
    const struct config *config = &admin_generation(call->admin)->config;
    struct json_writer out;
    size_t n = 0;

    json_writer_init(&out);
    json_write_object(&out);
    json_write_key(&out, "reset");
    json_write_array(&out);
    for (size_t i = 0; i < config->n_providers; i++)
        if (provider == NULL || strcmp(config->providers[i].name, provider) == 0)
            reset_in(call, &config->providers[i], name, &out, &n);
    json_write_array_end(&out);
    json_write_object_end(&out);
    if (n > 0) {
        admin_reply(call->in, 200, &out);
        return;
    }
    json_writer_fini(&out);
    if (provider != NULL)
        admin_reply_error(call->in, 404, "not_found",
                          "there is no provider \"%.128s\" with a key \"%.128s\"", provider, name);
    else
        admin_reply_error(call->in, 404, "not_found", "no provider has a key \"%.128s\"", name);
}

/* provider/name may also come as one segment, its slash encoded. A key whose own name has a slash
 * is found by both segments, each by itself. */
void admin_keys_reset(struct admin_call *call)
{
    const struct config *config = &admin_generation(call->admin)->config;
    char *slash = strchr(call->names[0], '/');

    for (size_t i = 0; slash != NULL && i < config->n_providers; i++) {
        size_t n = strlen(config->providers[i].name);
        if (strncmp(call->names[0], config->providers[i].name, n) == 0 &&
            call->names[0][n] == '/') {
            reset(call, config->providers[i].name, call->names[0] + n + 1);
            return;
        }
    }
    reset(call, NULL, call->names[0]);
}

void admin_keys_reset_one(struct admin_call *call)
{
    reset(call, call->names[0], call->names[1]);
}

/* ---- keys of providers that are out of use ---- */

static bool has_name(const struct config_provider_key *keys, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(keys[i].name, name) == 0)
            return true;
    return false;
}

/* Whether the provider, or one of its models, has a key of that name. */
static bool is_configured(const struct config *config, const char *provider, const char *name)
{
    for (size_t i = 0; i < config->n_providers; i++)
        if (strcmp(config->providers[i].name, provider) == 0 &&
            has_name(config->providers[i].keys, config->providers[i].n_keys, name))
            return true;
    for (size_t i = 0; i < config->n_models; i++)
        if (strcmp(config->providers[config->models[i].provider].name, provider) == 0 &&
            has_name(config->models[i].keys, config->models[i].n_keys, name))
            return true;
    return false;
}

static void begin_switch(struct admin_call *call, enum admin_change_kind kind)
{
    struct admin_change *change = admin_change_new(call, kind);

    if (change == NULL)
        return;
    memcpy(change->name, call->names[1], sizeof change->name);
    if (is_configured(&admin_generation(call->admin)->config, change->tenant, change->name)) {
        admin_change_start(change);
        return;
    }
    admin_reply_error(call->in, 404, "not_found",
                      "there is no provider \"%.128s\" with a key \"%.128s\"", change->tenant,
                      change->name);
    admin_change_free(change);
}

void admin_keys_disable(struct admin_call *call)
{
    begin_switch(call, ADMIN_DISABLE_KEY);
}

void admin_keys_enable(struct admin_call *call)
{
    begin_switch(call, ADMIN_ENABLE_KEY);
}

/* By the thread: on the disk first, so that what is answered holds over a restart. */
void admin_key_store(struct admin_change *change)
{
    struct ledger *ledger = change->all->admin->options.gateway->ledger;
    struct tg_problem problem = {"there is no ledger to keep it in"};
    const struct ledger_admin_disabled key = {change->tenant, change->name, change->now};

    if (admin_fleet_shares(change)) {
        admin_fleet_add(change, &(struct ledger_fleet_row){.kind = LEDGER_FLEET_DISABLED,
                                                           .gone = change->kind == ADMIN_ENABLE_KEY,
                                                           .disabled = key});
        return;
    }
    if (ledger != NULL && (change->kind == ADMIN_DISABLE_KEY
                               ? ledger_admin_disable(ledger, &key, &problem)
                               : ledger_admin_enable(ledger, key.provider, key.name, &problem)))
        return;
    admin_change_say(change, 503, "ledger", "%s", problem.text);
}

/* By the control thread. Should there be no memory to remember it here, the ring has it as long as
 * the configuration has the key, and the ledger from the next start on. */
void admin_key_switch(struct admin *admin, const char *provider, const char *name, bool disabled)
{
    struct gateway *gateway = admin->options.gateway;

    pthread_mutex_lock(&gateway->ring_changes);
    (void)disabled_keys_set(&gateway->disabled, provider, name, disabled);
    recorder_change(gateway, disabled ? "key_disabled" : "key_enabled", name);
    (void)tg_keyring_enable(gateway->ring, provider, name, !disabled, admin_now(admin));
    pthread_mutex_unlock(&gateway->ring_changes);
}

void admin_key_apply(struct admin_change *change)
{
    bool disabled = change->kind == ADMIN_DISABLE_KEY;

    admin_key_switch(change->all->admin, change->tenant, change->name, disabled);
    json_write_object(&change->reply);
    json_member_text(&change->reply, "provider", change->tenant);
    json_member_text(&change->reply, "name", change->name);
    json_member_flag(&change->reply, "disabled", disabled);
    json_write_object_end(&change->reply);
}
