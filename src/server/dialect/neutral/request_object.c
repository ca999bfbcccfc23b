/* request_object.c - the members of an object of a request, as a table. */
#include "server/dialect/neutral/request_object.h"

#include <string.h>

static const struct body_field *find_field(const struct body_field *fields, struct json_text key)
{
    while (fields->key != NULL &&
           (fields->n != key.size || memcmp(fields->key, key.bytes, key.size) != 0))
        fields++;
    return fields;
}

/* A value that is read by its form alone. */
static void read_plain(struct request_walk *walk, const struct body_field *field,
                       const struct json_value *value, char *to)
{
    switch (field->form) {
    case BODY_TEXT:
        *(struct slice *)(void *)to = body_text(walk, field->key, value);
        break;
    case BODY_RAW:
        *(struct slice *)(void *)to = body_raw(walk, value);
        break;
    case BODY_TRI:
        *(enum neutral_tri *)(void *)to = body_tri(walk, field->key, value);
        break;
    case BODY_TRUE:
        *(bool *)(void *)to = body_is_true(walk, field->key, value);
        break;
    case BODY_REAL:
        *(double *)(void *)to = body_real(walk, field->key, value, field->least, field->most);
        break;
    case BODY_WHOLE:
        *(int64_t *)(void *)to =
            body_integer(walk, field->key, value, (int64_t)field->least, (int64_t)field->most);
        break;
    default:
        break;
    }
}

void body_members(struct request_walk *walk, const char *param, const struct body_field *fields,
                  void *into)
{
    struct json_text key;
    struct json_value value;

    while (body_next(walk, &key, &value)) {
        const struct body_field *field = find_field(fields, key);
        if (field->form == BODY_READ) {
            field->read(walk, &value, into);
        } else if (field->form == BODY_OBJECT) {
            body_object(walk, field->name, &value, field->inner, into);
        } else if (field->form == BODY_LIST) {
            body_list(walk, field->name, &value, field->read, into);
        } else if (field->form == BODY_UNKNOWN) {
            body_unknown(walk, key, &value);
        } else if (field->form == BODY_FOREIGN) {
            body_foreign(walk, field->foreign);
            if (into == walk->request && param[0] == '\0')
                body_extra(walk, (struct slice){key.bytes, key.size}, body_raw(walk, &value));
        } else {
            walk->within = param;
            read_plain(walk, field, &value, (char *)into + field->at);
            walk->within = "";
        }
    }
}

void body_object(struct request_walk *walk, const char *param, const struct json_value *value,
                 const struct body_field *fields, void *into)
{
    if (body_enter(walk, param, value, JSON_OBJECT))
        body_members(walk, param, fields, into);
}

void body_list(struct request_walk *walk, const char *param, const struct json_value *value,
               body_reader *read, void *into)
{
    struct json_text key;
    struct json_value item;

    if (body_enter(walk, param, value, JSON_ARRAY))
        while (body_next(walk, &key, &item))
            read(walk, &item, into);
}

/* ---- Values that several APIs have ----------------------------------------------------------- */

void body_content(struct request_walk *walk, const char *param, const struct json_value *value,
                  body_reader *read, void *into)
{
    if (value->kind != JSON_STRING) {
        body_list(walk, param, value, read, into);
        return;
    }
    struct neutral_part *part = body_part(walk, PART_TEXT);
    if (part != NULL)
        part->text = body_text(walk, param, value);
}

enum neutral_choice body_choice_word(struct request_walk *walk, const struct json_value *value)
{
    static const char *const list[] = {"auto", "none", "required", NULL};
    static const enum neutral_choice choices[] = {CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED};

    return choices[body_word(walk, "tool_choice", value, list)];
}

enum neutral_format body_format_type(struct request_walk *walk, const char *param,
                                     const struct json_value *value)
{
    static const char *const list[] = {"text", "json_object", "json_schema", NULL};

    return (enum neutral_format)body_word(walk, param, value, list);
}

void body_user(struct request_walk *walk, const struct json_value *value, void *into)
{
    struct slice user = body_text(walk, "user", value);

    (void)into;
    if (walk->request->user.n == 0)
        walk->request->user = user;
}

void body_tier(struct request_walk *walk, const struct json_value *value, void *into)
{
    (void)into;
    walk->request->tier = neutral_tier_of(body_text(walk, "service_tier", value));
}
