/* admin_internal.h - what carries out each route of the admin API, and what they answer with.
 * Private to admin_*.c. */
#ifndef TG_ADMIN_ADMIN_INTERNAL_H
#define TG_ADMIN_ADMIN_INTERNAL_H

#include "io/http/http_server.h"
#include "io/text/json_member.h"
#include "server/config/config.h"

struct admin_call;

/* ---- One for each route. They answer, or see to it that an answer will come. ---- */

void admin_page(struct admin_call *call);
void admin_healthz(struct admin_call *call);
void admin_readyz(struct admin_call *call);
void admin_metrics(struct admin_call *call);
void admin_snapshot(struct admin_call *call);
void admin_explain(struct admin_call *call);
void admin_watch(struct admin_call *call);
void admin_reload(struct admin_call *call);
void admin_tenants_list(struct admin_call *call);
void admin_tenants_get(struct admin_call *call);
void admin_tenants_put(struct admin_call *call);
void admin_tenants_drop(struct admin_call *call);
void admin_keys_make(struct admin_call *call);
void admin_keys_put(struct admin_call *call);
void admin_keys_drop(struct admin_call *call);
void admin_topups_list(struct admin_call *call);
void admin_topups_make(struct admin_call *call);
void admin_topups_drop(struct admin_call *call);
void admin_topups_list_all(
    struct admin_call *call); /* the top-ups of everyone's budgets; so does the next */
void admin_topups_drop_all(struct admin_call *call);
void admin_credits_list(struct admin_call *call);
void admin_credits_make(struct admin_call *call);
void admin_blocks_list(struct admin_call *call);
void admin_blocks_write_off(struct admin_call *call);
void admin_keys_reset(struct admin_call *call);
void admin_keys_reset_one(struct admin_call *call);
void admin_keys_disable(struct admin_call *call);
void admin_keys_enable(struct admin_call *call);

void admin_overrides_list(struct admin_call *call);
void admin_overrides_make(struct admin_call *call);
void admin_overrides_drop(struct admin_call *call);
void admin_fleet_get(struct admin_call *call);
void admin_fleet_restore(struct admin_call *call);

/* The exchange is gone before the configuration was read. */
void admin_reload_gone(struct admin_call *call);

/* The tenant that the path names. False: there is none, and that has been answered. */
bool admin_find_tenant(struct admin_call *call, const struct config_tenant **tenant);

/* A further file of the page. False: there is none, and nothing was answered. */
bool admin_page_file(struct http_inbound *in, struct slice path);

/* ---- admin_reply.c: answers ---- */

/* The document, and a newline; 500 if there was no memory for it. Frees the writer. */
void admin_reply(struct http_inbound *in, int status, struct json_writer *body);

/* The same of a document that holds a secret: it is wiped. */
void admin_reply_secret(struct http_inbound *in, int status, struct json_writer *body);

/* {"error":{"code","message"}}, the message as by printf. */
void admin_reply_error(struct http_inbound *in, int status, const char *code, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

/* The same of a method that the path does not have. */
void admin_reply_method(struct http_inbound *in, const char *allow);

/* A place in a body or a configuration. */
struct admin_problem {
    const char *file;
    size_t line, column;
    const char *text;
};

/* 400 with the places; of a configuration, its errors. */
void admin_reply_problem(struct http_inbound *in, const struct admin_problem *problem);
void admin_reply_problems(struct http_inbound *in, const struct config_problems *problems);

/* 400 for what is wrong with a request as a whole, in the form that its route documents. */
void admin_reply_invalid(struct admin_call *call, const char *where, const char *text);

/* The document of such a reply; `failure`, if there is one, is what else is wrong. */
void admin_write_problems(struct json_writer *out, const struct config_problems *problems,
                          const char *failure);

/* "warnings": [...], those of one `file`; null: all. At most some hundred. */
void admin_write_warnings(struct json_writer *out, const struct config_problems *problems,
                          const char *file);

struct ledger_admin_override;
void admin_write_override(struct json_writer *out, const struct ledger_admin_override *override);

struct ledger_admin_topup;
void admin_write_topup(struct json_writer *out, const struct ledger_admin_topup *topup);

/* "topups": [...], those of a tenant, or of everyone (""), that have not ended. */
struct admin;
void admin_write_topups(struct json_writer *out, const struct admin *admin, const char *tenant);

#define ADMIN_TAKEN_OVER "another process takes over from this one; ask again in a second"

#endif
