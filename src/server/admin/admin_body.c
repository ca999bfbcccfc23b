/* admin_body.c - reading bodies of the admin API. See admin_body_internal.h. */
#include "server/admin/admin_body_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/text/utf8.h"
#include "server/admin/admin_internal.h"

/* ---- places ---- */

/* From 1, columns in characters. */
static void admin_body_place_of(const struct admin_call *call, size_t offset, size_t *line,
                                size_t *column)
{
    size_t at = 0;

    *line = *column = 1;
    while (at < offset && at < call->body_n) {
        size_t bytes = utf8_bytes(call->body + at, call->body_n - at);
        if (call->body[at] == '\n') {
            ++*line;
            *column = 0;
        }
        ++*column;
        at += bytes > 0 ? bytes : 1;
    }
}

void admin_body_wrong(struct admin_call *call, size_t offset, const char *format, ...)
{
    struct admin_problem problem = {.file = "body"};
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    problem.text = text;
    admin_body_place_of(call, offset, &problem.line, &problem.column);
    admin_reply_problem(call->in, &problem);
}

static bool admin_body_begin(struct admin_call *call, struct json_value *root)
{
    struct json_reader *reader = call->admin->reader;

    json_begin(reader, call->body, call->body_n, call->body_n + JSON_PADDING, root);
    if (json_reader_problem(reader) == NULL && root->kind != JSON_OBJECT) {
        admin_body_wrong(call, root->offset, "the body is %s; it must be an object",
                         json_kind_name(root->kind));
        return false;
    }
    return true;
}

/* Whether all of it was JSON; if not it has been answered. */
static bool is_json(struct admin_call *call)
{
    if (json_end(call->admin->reader))
        return true;
    const struct json_problem *problem = json_reader_problem(call->admin->reader);
    admin_body_wrong(call, problem->offset, "not JSON: %s", problem->text);
    return false;
}

bool admin_body_is_object(struct admin_call *call)
{
    struct json_value root;
    struct json_value value;
    struct json_text key;

    if (!admin_body_begin(call, &root))
        return false;
    /* Only in an object that was entered are members that come twice seen. */
    if (json_enter(call->admin->reader))
        while (json_next(call->admin->reader, &key, &value))
            continue;
    return is_json(call);
}

/* ---- members ---- */

static void list_members(const struct admin_member *members, size_t n, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < n && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", members[i].name);
}

static const struct admin_member *admin_body_find(const struct admin_member *members, size_t n,
                                                  struct json_text key)
{
    for (size_t i = 0; i < n; i++)
        if (json_text_is(key, members[i].name))
            return &members[i];
    return NULL;
}

static bool take_text(struct admin_call *call, const struct admin_member *member,
                      const struct json_value *value, struct admin_value *to)
{
    struct json_text text = value->string;

    if (text.size >= sizeof to->text || memchr(text.bytes, '\0', text.size) != NULL) {
        admin_body_wrong(call, value->offset, "%s has %zu bytes; at most %d are allowed, none 0",
                         member->name, text.size, ADMIN_TEXT_MAX - 1);
        return false;
    }
    memcpy(to->text, text.bytes, text.size);
    to->text[text.size] = '\0';
    return true;
}

/* The number as it is written: a double has lost its exact digits. */
static bool take_number(struct admin_call *call, const struct json_value *value,
                        struct admin_value *to)
{
    size_t n = 0;

    while (value->offset + n < call->body_n && n + 1 < sizeof to->text &&
           strchr("+-.0123456789eE", call->body[value->offset + n]) != NULL)
        n++;
    memcpy(to->text, call->body + value->offset, n);
    to->text[n] = '\0';
    return true;
}

static bool admin_body_take(struct admin_call *call, const struct admin_member *member,
                            const struct json_value *value, struct admin_value *to)
{
    bool number =
        value->kind == JSON_INTEGER || value->kind == JSON_DOUBLE || value->kind == JSON_HUGE;

    to->given = true;
    to->offset = value->offset;
    if (member->kind == JSON_NULL)
        return true;
    if (member->kind == JSON_STRING && value->kind == JSON_STRING)
        return take_text(call, member, value, to);
    if (member->kind == JSON_DOUBLE && number)
        return take_number(call, value, to);
    admin_body_wrong(call, value->offset, "%s is %s; it must be %s", member->name,
                     json_kind_name(value->kind),
                     member->kind == JSON_STRING ? "a string" : "a number");
    return false;
}

static bool read_members(struct admin_call *call, const struct admin_member *members, size_t n,
                         struct admin_value *values)
{
    struct json_reader *reader = call->admin->reader;
    struct json_value value;
    struct json_text key;
    char allowed[200];

    if (!json_enter(reader))
        return true;
    while (json_next(reader, &key, &value)) {
        const struct admin_member *member = admin_body_find(members, n, key);
        if (member == NULL) {
            list_members(members, n, allowed, sizeof allowed);
            admin_body_wrong(call, value.offset, "\"%.*s\" is not known; there are %s",
                             key.size < 64 ? (int)key.size : 64, key.bytes, allowed);
            return false;
        }
        if (!admin_body_take(call, member, &value, &values[member - members]))
            return false;
    }
    return true;
}

bool admin_body_read(struct admin_call *call, const struct admin_member *members, size_t n,
                     struct admin_value *values)
{
    struct json_value root;

    memset(values, 0, n * sizeof *values);
    if (!admin_body_begin(call, &root) || !read_members(call, members, n, values) || !is_json(call))
        return false;
    for (size_t i = 0; i < n; i++)
        if (members[i].required && !values[i].given) {
            admin_body_wrong(call, root.offset, "%s is missing", members[i].name);
            return false;
        }
    return true;
}

/* ---- copying ---- */

static void copy_value(struct json_reader *reader, const struct json_value *value,
                       struct json_writer *out);

static void copy_members(struct json_reader *reader, bool is_object, struct json_writer *out)
{
    struct json_value value;
    struct json_text key;
    char name[ADMIN_TEXT_MAX];

    if (!json_enter(reader))
        return;
    while (json_next(reader, &key, &value)) {
        if (is_object) {
            snprintf(name, sizeof name, "%.*s",
                     key.size < sizeof name ? (int)key.size : (int)sizeof name - 1, key.bytes);
            json_write_key(out, name);
        }
        copy_value(reader, &value, out);
    }
}

static void copy_value(struct json_reader *reader, const struct json_value *value,
                       struct json_writer *out)
{
    switch (value->kind) {
    case JSON_BOOL:
        json_write_bool(out, value->boolean);
        break;
    case JSON_INTEGER:
        json_write_integer(out, value->integer);
        break;
    case JSON_DOUBLE:
        json_write_double(out, value->real);
        break;
    case JSON_STRING:
        json_write_string(out, value->string.bytes, value->string.size);
        break;
    case JSON_OBJECT:
        json_write_object(out);
        copy_members(reader, true, out);
        json_write_object_end(out);
        break;
    case JSON_ARRAY:
        json_write_array(out);
        copy_members(reader, false, out);
        json_write_array_end(out);
        break;
    default:
        json_write_null(out);
    }
}

void admin_body_copy(struct json_reader *reader, const char *text, size_t bytes,
                     struct json_writer *out)
{
    struct json_value root;

    if (json_begin(reader, text, bytes, bytes, &root))
        copy_value(reader, &root, out);
    else
        json_write_null(out);
    json_end(reader);
}
