/* admin_blocks.c - /api/v1/blocks: what other processes hold of budgets, and what the dead held.
 *
 * A block of money does not end by time. Of a gateway that never comes back on its disk, only an
 * operator knows that it is dead: who says so gives back what it held, with a reason.
 */
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_body_internal.h"
#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_query.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"

enum { PROCESS, REASON, MEMBERS };

static const struct admin_member members[MEMBERS] = {{"process", JSON_STRING, true},
                                                     {"reason", JSON_STRING, true}};

static struct remote_money *money_of(const struct admin_call *call)
{
    struct gateway *gateway = call->admin->options.gateway;

    return gateway->remote ? gateway->remote->money : NULL;
}

static void write_block(void *context, struct slice window, struct slice process, tg_micro micro,
                        tg_ms asked_at)
{
    struct json_writer *out = context;

    json_write_object(out);
    json_write_key(out, "process");
    json_write_string(out, process.at, process.n);
    json_write_key(out, "window");
    json_write_string(out, window.at, window.n);
    json_member_number(out, "micro_usd", micro);
    json_member_number(out, "asked_at", asked_at);
    json_write_object_end(out);
}

void admin_blocks_list(struct admin_call *call)
{
    struct remote_money *money = money_of(call);
    struct json_writer out;

    json_writer_init(&out);
    json_write_object(&out);
    json_write_key(&out, "blocks");
    json_write_array(&out);
    if (money)
        remote_money_each_block(money, write_block, &out);
    json_write_array_end(&out);
    json_write_object_end(&out);
    admin_reply(call->in, 200, &out);
}

void admin_blocks_write_off(struct admin_call *call)
{
    struct admin_value values[MEMBERS];
    struct remote_money *money = money_of(call);
    struct json_writer out;
    tg_micro micro = 0;
    char who[64], what[700];

    if (!admin_body_read(call, members, MEMBERS, values))
        return;
    const char *reason = values[REASON].text;
    if (reason[strspn(reason, " \t")] == '\0') {
        admin_body_wrong(call, values[REASON].offset, "reason is empty; it must say something");
        return;
    }
    size_t n = money ? remote_money_write_off(money, slice_of(values[PROCESS].text), &micro) : 0;
    if (n == 0) {
        admin_reply_error(call->in, 404, "not_found",
                          "no process \"%.80s\" holds anything that this gateway has heard of",
                          values[PROCESS].text);
        return;
    }
    admin_peer(call->in, who);
    snprintf(what, sizeof what, "%.100s: %.500s", values[PROCESS].text, reason);
    admin_audit(call->admin, who, "write_off", what, "done");
    json_writer_init(&out);
    json_write_object(&out);
    json_member_number(&out, "windows", (int64_t)n);
    json_member_number(&out, "micro_usd", micro);
    json_write_object_end(&out);
    admin_reply(call->in, 200, &out);
}
