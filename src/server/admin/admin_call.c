/* admin_call.c - who makes a request to the admin API, and the line that is logged of it.
 *
 * A wrong token is compared as hashes, in a time that depends on neither: the hash of what was sent
 * takes as long as what was sent is long, which its sender knows.
 */
#include "server/admin/admin_call.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "server/admin/admin_routes.h"
#include "server/obs/log.h"
#include "server/tenancy/virtual_key.h"

static struct slice token_of(const struct http_head *head)
{
    struct slice value = http_find(head, SLICE("authorization"));
    struct slice none = {"", 0};

    if (!slice_begins_nocase(value, SLICE("bearer ")))
        return none;
    value.at += 7;
    value.n -= 7;
    while (value.n > 0 && *value.at == ' ') {
        value.at++;
        value.n--;
    }
    return http_count(head, SLICE("authorization")) == 1 ? value : none;
}

/* An empty token is none: it is what somebody without one has. */
static bool token_is_right(const struct config_secret *right, struct slice token)
{
    uint8_t want[VIRTUAL_KEY_HASH], have[VIRTUAL_KEY_HASH];
    bool hashed = virtual_key_hash((struct slice){right->bytes, right->size}, want) &&
                  virtual_key_hash(token, have);

    return hashed && virtual_key_equal(want, have) && token.n > 0;
}

void admin_peer(const struct http_inbound *in, char who[64])
{
    const struct sockaddr *peer = http_inbound_peer(in);
    const void *address = NULL;

    snprintf(who, 64, "local");
    if (peer != NULL && peer->sa_family == AF_INET)
        address = &((const struct sockaddr_in *)(const void *)peer)->sin_addr;
    if (peer != NULL && peer->sa_family == AF_INET6)
        address = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
    if (address != NULL)
        inet_ntop(peer->sa_family, address, who, 64);
}

void admin_audit(const struct admin *admin, const char *who, const char *action, const char *object,
                 const char *outcome)
{
    if (admin->options.log != NULL)
        log_audit(admin->options.log, who, action, object, outcome);
}

void admin_audit_refused(const struct http_inbound *in, const char *why)
{
    struct admin_call *call = in->owner;
    char who[64], object[2 * ADMIN_NAME_MAX + 2], outcome[600];

    if (call == NULL || call->route->action == NULL || call->audited)
        return;
    call->audited = true;
    admin_peer(in, who);
    snprintf(object, sizeof object, "%s%s%s",
             call->names[0][0] != '\0' ? call->names[0] : call->route->path,
             call->names[1][0] != '\0' ? "/" : "", call->names[1]);
    snprintf(outcome, sizeof outcome, "refused: %.580s", why);
    admin_audit(call->admin, who, call->route->action, object, outcome);
}

enum admin_access admin_access(const struct config *config, const struct http_head *head)
{
    const struct config_secret *right = &config->admin_token;

    if (right->bytes == NULL || right->size == 0)
        return ADMIN_CLOSED;
    return token_is_right(right, token_of(head)) ? ADMIN_MAY : ADMIN_WRONG_TOKEN;
}
