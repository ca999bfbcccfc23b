/* key_probe.c - tries a key that a provider has refused: see key_probe.h. */
#include "server/runtime/key_probe.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "server/remote/remote.h"
#include "server/runtime/control.h"
#include "server/runtime/recorder.h"

static const struct http_timeouts TIMEOUTS = {
    .connect = 5000, .first_byte = 10000, .idle = 10000, .total = 20000};

static const char *const WORDS[] = {
    [TG_PROBE_GOOD] = "good", [TG_PROBE_BAD] = "bad", [TG_PROBE_UNCLEAR] = "unclear"};

static void record_probe(struct control *control, uint64_t number, const char *op, const char *to)
{
    struct record_trail trail = {.at = 0};

    if (number == 0)
        return;
    record_op(&trail, number, control_now(control), op);
    record_word(&trail, "to", to);
    record_op_end(&trail);
    recorder_write(control->gateway, &trail);
}

/* Redis has a credential with its group, or where it stands without one. */
static void tell_gateways(struct control *control, const struct tg_probe *probe, bool is_bad)
{
    const struct config *config = &gateway_newest(control->gateway)->config;
    struct remote_keys *keys = control->port->keys;

    remote_keys_suspend(keys, probe->provider, probe->name, NULL, is_bad);
    for (size_t i = 0; i < config->n_providers; i++) {
        const struct config_provider *provider = &config->providers[i];
        for (size_t k = 0; strcmp(provider->name, probe->provider) == 0 && k < provider->n_groups;
             k++)
            remote_keys_suspend(keys, probe->provider, probe->name, provider->groups[k].name,
                                is_bad);
    }
}

static void key_probe_finish(struct key_probe *probe, enum tg_probe_result result)
{
    struct control *control = probe->control;

    assert(control_is_mine(control));
    if (control->port != NULL && result != TG_PROBE_UNCLEAR)
        tell_gateways(control, &probe->probe, result == TG_PROBE_BAD);
    uint64_t number = recorder_enter(control->gateway->recorder);
    tg_keyring_probed(control->gateway->ring, &probe->probe, result, control_now(control));
    recorder_leave(control->gateway->recorder);
    record_probe(control, number, "probed", WORDS[result]);
}

static void key_probe_on_done(struct http_fetch *fetch)
{
    bool bad = fetch->status == 401 || fetch->status == 403;

    key_probe_finish(fetch->owner, !fetch->answered      ? TG_PROBE_UNCLEAR
                                   : bad                 ? TG_PROBE_BAD
                                   : fetch->status < 500 ? TG_PROBE_GOOD
                                                         : TG_PROBE_UNCLEAR);
}

static const struct provider *find_provider(const struct generation *generation, const char *name)
{
    for (size_t i = 0; i < generation->config.n_providers; i++)
        if (strcmp(generation->providers[i].config->name, name) == 0)
            return &generation->providers[i];
    return NULL;
}

static bool send_probe(struct key_probe *probe, const struct provider *provider)
{
    const struct config_provider *config = provider->config;
    const struct route_key *owner = probe->probe.owner;
    const struct config_provider_key *key = owner->config;
    char target[1024], credential[8192 + 64];
    struct http_fields fields;
    int n = snprintf(target, sizeof target, "%s%s%s/models", owner->place->base->path,
                     config->path_prefix, config->api == CONFIG_GEMINI ? "/v1beta" : "/v1");
    int m = snprintf(credential, sizeof credential, "%s%.*s", config->auth_prefix,
                     (int)key->secret.size, key->secret.bytes ? key->secret.bytes : "");

    for (size_t i = 0; i < config->query.n && n > 0 && (size_t)n < sizeof target; i++)
        n += snprintf(target + n, sizeof target - (size_t)n, "%c%s=%s", i > 0 ? '&' : '?',
                      config->query.list[i].name, config->query.list[i].value);
    if (n < 0 || (size_t)n >= sizeof target || m < 0 || (size_t)m >= sizeof credential)
        return false;
    http_fields_init(&fields);
    http_fields_add(&fields, slice_of(config->auth_header), (struct slice){credential, (size_t)m});
    if (config->api == CONFIG_ANTHROPIC)
        http_fields_add(&fields, SLICE("anthropic-version"), SLICE("2023-06-01"));
    for (size_t i = 0; i < config->set_headers.n; i++)
        http_fields_add(&fields, slice_of(config->set_headers.list[i].name),
                        slice_of(config->set_headers.list[i].value));
    struct http_head head = {.method = SLICE("GET"),
                             .target = {target, (size_t)n},
                             .fields = fields.list,
                             .n_fields = fields.n};
    bool sent = http_fetch_send(&probe->fetch, probe->control->client, owner->place->origin, &head,
                                (struct slice){"", 0}, &TIMEOUTS);
    OPENSSL_cleanse(credential, sizeof credential);
    return sent;
}

void key_probe_init(struct key_probe *probe)
{
    memset(probe, 0, sizeof *probe);
    http_fetch_init(&probe->fetch, key_probe_on_done, probe, NULL, 0);
}

void key_probe_tick(struct key_probe *probe, struct control *control)
{
    probe->control = control;
    if (http_fetch_is_busy(&probe->fetch) ||
        tg_keyring_next_deadline(control->gateway->ring) > control_now(control))
        return;
    uint64_t number = recorder_enter(control->gateway->recorder);
    bool due = tg_keyring_next_probe(control->gateway->ring, control_now(control), &probe->probe);
    recorder_leave(control->gateway->recorder);
    record_probe(control, number, "probe", due ? "due" : "none");
    if (!due)
        return;
    const struct provider *provider = find_provider(control->generation, probe->probe.provider);
    /* There is nothing to ask of every account, so one call that is turned away says nothing of
     * the others. */
    if (provider != NULL && provider->config->auth != CONFIG_AUTH_HEADER)
        key_probe_finish(probe, TG_PROBE_GOOD);
    else if (provider == NULL || !send_probe(probe, provider))
        key_probe_finish(probe, TG_PROBE_UNCLEAR);
}

void key_probe_fini(struct key_probe *probe)
{
    http_fetch_cancel(&probe->fetch);
}
