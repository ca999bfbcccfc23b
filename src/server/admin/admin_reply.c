/* admin_reply.c - what the admin API answers: documents, errors, places in a file. See
 * admin_internal.h. */
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/admin/admin_call.h"
#include "server/admin/admin_internal.h"
#include "server/admin/admin_routes.h"
#include "server/fleet/fleet.h"
#include "server/runtime/gateway.h"

enum { PROBLEMS_MAX = 200 }; /* in one reply */

/* ---- sending ---- */

/* The version of what gateways share that holds at this one. */
static void add_version(struct http_fields *fields, const struct http_inbound *in, char text[24])
{
    const struct admin_call *call = in->owner;
    struct fleet *fleet = call != NULL ? call->admin->options.gateway->fleet : NULL;
    struct fleet_view view;

    if (fleet == NULL)
        return;
    fleet_get_view(fleet, &view);
    int n = snprintf(text, 24, "%lld", (long long)view.mark.version);
    http_fields_add(fields, SLICE("x-tollgate-version"), (struct slice){text, (size_t)n});
}

static void send_json(struct http_inbound *in, int status, struct slice body, const char *allow)
{
    struct http_fields fields;
    char version[24];

    http_fields_init(&fields);
    http_fields_add(&fields, SLICE("content-type"), SLICE("application/json"));
    http_fields_add(&fields, SLICE("cache-control"), SLICE("no-store"));
    http_fields_add(&fields, SLICE("x-content-type-options"), SLICE("nosniff"));
    add_version(&fields, in, version);
    if (status == 401)
        http_fields_add(&fields, SLICE("www-authenticate"), SLICE("Bearer realm=\"tollgate\""));
    if (status == 503)
        http_fields_add(&fields, SLICE("retry-after"), SLICE("1"));
    if (allow != NULL)
        http_fields_add(&fields, SLICE("allow"), slice_of(allow));
    struct http_head head = {.status = status, .fields = fields.list, .n_fields = fields.n};
    http_inbound_send(in, &head, body);
}

void admin_reply(struct http_inbound *in, int status, struct json_writer *body)
{
    json_write_line_end(body);
    if (body->text.failed)
        send_json(in, 500,
                  SLICE("{\"error\":{\"code\":\"no_memory\",\"message\":\"no memory\"}}\n"), NULL);
    else
        send_json(in, status, (struct slice){body->text.bytes, body->text.size}, NULL);
    json_writer_fini(body);
}

void admin_reply_secret(struct http_inbound *in, int status, struct json_writer *body)
{
    json_write_line_end(body);
    if (!body->text.failed)
        send_json(in, status, (struct slice){body->text.bytes, body->text.size}, NULL);
    if (body->text.bytes != NULL)
        OPENSSL_cleanse(body->text.bytes, body->text.size);
    if (body->text.failed)
        admin_reply(in, status, body);
    else
        json_writer_fini(body);
}

/* ---- errors ---- */

static void write_error(struct json_writer *out, const char *code, const char *message)
{
    json_write_key(out, "error");
    json_write_object(out);
    json_member_text(out, "code", code);
    json_member_text(out, "message", message);
    json_write_object_end(out);
}

static void reply_error(struct http_inbound *in, int status, const char *code, const char *message,
                        const char *allow)
{
    struct json_writer out;

    json_writer_init(&out);
    json_write_object(&out);
    write_error(&out, code, message);
    json_write_object_end(&out);
    json_write_line_end(&out);
    send_json(in, status, (struct slice){out.text.bytes, out.text.failed ? 0 : out.text.size},
              allow);
    json_writer_fini(&out);
}

void admin_reply_error(struct http_inbound *in, int status, const char *code, const char *format,
                       ...)
{
    char message[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    admin_audit_refused(in, message);
    reply_error(in, status, code, message, NULL);
}

void admin_reply_method(struct http_inbound *in, const char *allow)
{
    char message[128];

    snprintf(message, sizeof message, "this path takes %s", allow);
    reply_error(in, 405, "method_not_allowed", message, allow);
}

/* ---- problems ---- */

static void write_problem(struct json_writer *out, const struct admin_problem *problem)
{
    json_write_object(out);
    json_member_text(out, "file", problem->file != NULL ? problem->file : "");
    json_member_number(out, "line", (int64_t)problem->line);
    json_member_number(out, "column", (int64_t)problem->column);
    json_member_text(out, "message", problem->text);
    json_write_object_end(out);
}

static void write_config_problem(struct json_writer *out, const struct config_problem *problem)
{
    write_problem(
        out, &(struct admin_problem){problem->file, problem->line, problem->column, problem->text});
}

void admin_reply_problem(struct http_inbound *in, const struct admin_problem *problem)
{
    struct json_writer out;
    char message[600];

    snprintf(message, sizeof message, "%.64s:%zu:%zu: %.500s", problem->file, problem->line,
             problem->column, problem->text);
    admin_audit_refused(in, message);
    json_writer_init(&out);
    json_write_object(&out);
    write_error(&out, "invalid", message);
    json_write_key(&out, "errors");
    json_write_array(&out);
    write_problem(&out, problem);
    json_write_array_end(&out);
    json_write_object_end(&out);
    admin_reply(in, 400, &out);
}

void admin_reply_invalid(struct admin_call *call, const char *where, const char *text)
{
    if (call->route->action != NULL)
        admin_reply_problem(call->in, &(struct admin_problem){where, 0, 0, text});
    else
        admin_reply_error(call->in, 400, "invalid", "%s", text);
}

/* What `check` lets pass with a warning, but who runs may not. */
static bool is_error(const struct config_problem *problem)
{
    return !problem->warning || problem->missing;
}

void admin_write_problems(struct json_writer *out, const struct config_problems *problems,
                          const char *failure)
{
    char message[800];
    size_t written = 0, errors = failure != NULL;

    for (size_t i = 0; i < problems->n; i++)
        errors += is_error(&problems->list[i]);
    snprintf(message, sizeof message, "nothing was changed, because of %zu error%s%s%s", errors,
             errors == 1 ? "" : "s", failure != NULL ? ": " : "", failure != NULL ? failure : "");
    json_write_object(out);
    write_error(out, "invalid", message);
    json_write_key(out, "errors");
    json_write_array(out);
    for (size_t i = 0; i < problems->n && written < PROBLEMS_MAX; i++)
        if (is_error(&problems->list[i])) {
            write_config_problem(out, &problems->list[i]);
            written++;
        }
    if (failure != NULL)
        write_problem(out, &(struct admin_problem){"", 0, 0, failure});
    json_write_array_end(out);
    json_write_object_end(out);
}

void admin_reply_problems(struct http_inbound *in, const struct config_problems *problems)
{
    struct json_writer out;

    json_writer_init(&out);
    admin_write_problems(&out, problems, NULL);
    admin_reply(in, 400, &out);
}

void admin_write_warnings(struct json_writer *out, const struct config_problems *problems,
                          const char *file)
{
    size_t written = 0;

    json_write_key(out, "warnings");
    json_write_array(out);
    for (size_t i = 0; i < problems->n && written < PROBLEMS_MAX; i++) {
        const struct config_problem *problem = &problems->list[i];
        if (is_error(problem) ||
            (file != NULL && (problem->file == NULL || strcmp(problem->file, file) != 0)))
            continue;
        write_config_problem(out, problem);
        written++;
    }
    json_write_array_end(out);
}
