/* envoy_rls_metadata.c - dynamic metadata of the rate limit service. See envoy_rls_metadata.h.
 *
 * Made once, as the message that goes over the wire; JSON is written from that. Metadata are off
 * unless they are asked for, so memory is taken for them here and nowhere else.
 *
 * A value may be any bytes, but a string of a message must be UTF-8: Envoy discards an answer that
 * has another, and would then admit the call. So a byte that is not part of a character is replaced
 * by `?`.
 */
#include "server/envoy/envoy_rls_metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "io/text/utf8.h"

typedef Envoy__Service__Ratelimit__V3__Struct md_struct;
typedef Envoy__Service__Ratelimit__V3__Struct__FieldsEntry md_field;
typedef Envoy__Service__Ratelimit__V3__Value md_value;
typedef Envoy__Service__Ratelimit__V3__ListValue md_list;
#define MD(name) envoy__service__ratelimit__v3__##name
#define KIND(name) ENVOY__SERVICE__RATELIMIT__V3__VALUE__KIND_##name

enum { FIELDS_MAX = 5 };

struct making {
    struct arena *arena;
    bool failed; /* there was no memory: what was made must not be used */
};

static void *envoy_rls_metadata_take(struct making *making, size_t bytes)
{
    void *at = arena_alloc(making->arena, bytes);

    making->failed |= at == NULL;
    return at;
}

/* ---- values; null where there was no memory ---- */

static md_value *new_value(struct making *making,
                           Envoy__Service__Ratelimit__V3__Value__KindCase kind)
{
    md_value *value = envoy_rls_metadata_take(making, sizeof *value);

    if (value != NULL) {
        MD(value__init)(value);
        value->kind_case = kind;
    }
    return value;
}

static md_value *new_number(struct making *making, double number)
{
    md_value *value = new_value(making, KIND(NUMBER_VALUE));

    if (value != NULL)
        value->number_value = number;
    return value;
}

static char *envoy_rls_metadata_put(char *to, struct slice text)
{
    size_t i = 0;

    while (i < text.n) {
        size_t n = text.at[i] != '\0' ? utf8_bytes(text.at + i, text.n - i) : 0;
        if (n > 0)
            memcpy(to, text.at + i, n);
        else
            *to = '?';
        n += n == 0;
        to += n;
        i += n;
    }
    *to = '\0';
    return to;
}

/* `first`, or both with `=` between. */
static md_value *new_text(struct making *making, struct slice first, const struct slice *second)
{
    md_value *value = new_value(making, KIND(STRING_VALUE));
    char *text = envoy_rls_metadata_take(making, first.n + (second != NULL ? second->n : 0) + 2);

    if (value == NULL || text == NULL)
        return NULL;
    value->string_value = text;
    text = envoy_rls_metadata_put(text, first);
    if (second != NULL) {
        *text++ = '=';
        (void)envoy_rls_metadata_put(text, *second);
    }
    return value;
}

static md_value *new_list(struct making *making, size_t room)
{
    md_value *value = new_value(making, KIND(LIST_VALUE));
    md_list *list = envoy_rls_metadata_take(making, sizeof *list);
    md_value **values = envoy_rls_metadata_take(making, (room + 1) * sizeof(md_value *));

    if (value == NULL || list == NULL || values == NULL)
        return NULL;
    MD(list_value__init)(list);
    list->values = values;
    value->list_value = list;
    return value;
}

static void add_item(md_value *list, md_value *item)
{
    if (list != NULL && item != NULL)
        list->list_value->values[list->list_value->n_values++] = item;
}

static md_struct *new_struct(struct making *making)
{
    md_struct *made = envoy_rls_metadata_take(making, sizeof *made);
    md_field **fields = envoy_rls_metadata_take(making, FIELDS_MAX * sizeof(md_field *));

    if (made == NULL || fields == NULL)
        return NULL;
    MD(struct__init)(made);
    made->fields = fields;
    return made;
}

static void add_field(struct making *making, md_struct *to, const char *key, md_value *value)
{
    md_field *field = envoy_rls_metadata_take(making, sizeof *field);

    if (to == NULL || value == NULL || field == NULL)
        return;
    MD(struct__fields_entry__init)(field);
    field->key = (char *)(uintptr_t)key; /* only read */
    field->value = value;
    to->fields[to->n_fields++] = field;
}

/* ---- what was asked ---- */

static md_value *make_descriptor(struct making *making, const struct envoy_rls_descriptor *from)
{
    md_value *value = new_value(making, KIND(STRUCT_VALUE));
    md_value *entries = new_list(making, from->n_entries);
    md_struct *made = new_struct(making);
    char limit[64];

    for (size_t i = 0; i < from->n_entries; i++)
        add_item(entries, new_text(making, from->entries[i].key, &from->entries[i].value));
    add_field(making, made, "entries", entries);
    if (from->has_limit) {
        int n = snprintf(limit, sizeof limit, "requests_per_unit:%" PRIu32 " unit:%s",
                         from->requests_per_unit, envoy_unit_name(from->unit));
        add_field(making, made, "limit", new_text(making, (struct slice){limit, (size_t)n}, NULL));
    }
    if (from->has_hits)
        add_field(making, made, "hitsAddend", new_number(making, (double)from->hits));
    if (value != NULL)
        value->struct_value = made;
    return value;
}

/* Null: there are none. */
static md_value *make_violations(struct making *making, const struct envoy_rls_reply *reply)
{
    md_value *list = NULL;

    for (size_t i = 0; i < reply->n_statuses; i++) {
        if (!reply->statuses[i].quota_over)
            continue;
        if (list == NULL)
            list = new_list(making, reply->n_statuses);
        add_item(list, new_number(making, (double)i));
    }
    return list;
}

static md_value *make_enabled(struct making *making, const struct envoy_rls_reply *reply)
{
    md_value *value = new_value(making, KIND(BOOL_VALUE));

    for (size_t i = 0; i < reply->n_statuses && value != NULL; i++)
        value->bool_value |= reply->statuses[i].quota;
    return value;
}

md_struct *envoy_metadata_make(struct arena *arena, const struct envoy_rls_reply *reply)
{
    const struct envoy_rls_request *request = reply->metadata;
    struct making making = {.arena = arena};

    if (request == NULL)
        return NULL;
    md_struct *made = new_struct(&making);
    md_value *descriptors = new_list(&making, request->n_descriptors);
    for (size_t i = 0; i < request->n_descriptors; i++)
        add_item(descriptors, make_descriptor(&making, &request->descriptors[i]));
    add_field(&making, made, "domain", new_text(&making, request->domain, NULL));
    add_field(&making, made, "descriptors", descriptors);
    if (request->hits > 0)
        add_field(&making, made, "hitsAddend", new_number(&making, (double)request->hits));
    md_value *violations = make_violations(&making, reply);
    if (violations != NULL)
        add_field(&making, made, "quotaModeViolations", violations);
    add_field(&making, made, "quotaModeEnabled", make_enabled(&making, reply));
    return making.failed ? NULL : made;
}

/* ---- JSON ---- */

static void write_struct(struct json_writer *out, const md_struct *from);

/* Recursion ends: what was made above is three deep. */
static void write_value(struct json_writer *out, const md_value *value)
{
    switch (value->kind_case) {
    case KIND(NUMBER_VALUE):
        json_write_double(out, value->number_value);
        break;
    case KIND(STRING_VALUE):
        json_write_string(out, value->string_value, strlen(value->string_value));
        break;
    case KIND(BOOL_VALUE):
        json_write_bool(out, value->bool_value);
        break;
    case KIND(STRUCT_VALUE):
        write_struct(out, value->struct_value);
        break;
    case KIND(LIST_VALUE):
        json_write_array(out);
        for (size_t i = 0; i < value->list_value->n_values; i++)
            write_value(out, value->list_value->values[i]);
        json_write_array_end(out);
        break;
    default:
        json_write_null(out);
    }
}

static void write_struct(struct json_writer *out, const md_struct *from)
{
    json_write_object(out);
    for (size_t i = 0; i < from->n_fields; i++) {
        json_write_key(out, from->fields[i]->key);
        write_value(out, from->fields[i]->value);
    }
    json_write_object_end(out);
}

void envoy_metadata_write(struct json_writer *out, const struct envoy_rls_reply *reply)
{
    if (reply->metadata == NULL)
        return;
    struct arena *arena = arena_new();
    const md_struct *made = arena != NULL ? envoy_metadata_make(arena, reply) : NULL;
    if (made != NULL) {
        json_write_key(out, "dynamicMetadata");
        write_struct(out, made);
    }
    arena_free(arena);
}
