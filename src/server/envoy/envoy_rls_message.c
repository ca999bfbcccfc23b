/* envoy_rls_message.c - requests and replies of the rate limit service as JSON. See
 * envoy_rls_message.h.
 *
 * Texts are copied: the reader keeps them until the next document, and a request may have to wait
 * for its answer longer than that. Unescaped they are never longer than the body, so that one block
 * has room for them all.
 */
#include "server/envoy/envoy_rls_message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_member.h"
#include "server/envoy/envoy_rls_metadata.h"

/* ---- reading ---- */

struct reading {
    struct json_reader *reader;
    struct envoy_rls_message *to;
    struct envoy_rls_descriptor *descriptor; /* the one that is being read */
    char *problem;
};

/* How a field of an object is read. */
struct field {
    const char *name, *camel; /* camel null: the same */
    bool (*read)(struct reading *reading, const struct json_value *value);
    const char *what; /* what its value must be */
};

__attribute__((format(printf, 2, 3))) static bool envoy_rls_message_say(struct reading *reading,
                                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reading->problem, ENVOY_RLS_MESSAGE_MAX, format, args);
    va_end(args);
    return false;
}

/* A name that the client made up, for a message: printable, and not too long. */
static const char *envoy_rls_message_shown(struct json_text name, char text[44])
{
    size_t n = name.size < 40 ? name.size : 40;

    for (size_t i = 0; i < n; i++)
        text[i] = name.bytes[i] >= ' ' && name.bytes[i] < 127 ? name.bytes[i] : '?';
    text[n] = '\0';
    return text;
}

/* Reads the fields of the object that the reader has just entered; null means absent. */
static bool read_object(struct reading *reading, const struct field *fields)
{
    struct json_text key;
    struct json_value value;
    char name[44];

    if (!json_enter(reading->reader))
        return true; /* json_end() will say why */
    while (json_next(reading->reader, &key, &value)) {
        const struct field *field = fields;
        while (field->name != NULL && !json_text_is(key, field->name) &&
               !(field->camel != NULL && json_text_is(key, field->camel)))
            field++;
        if (field->name == NULL)
            return envoy_rls_message_say(reading, "there is no field '%s' here",
                                         envoy_rls_message_shown(key, name));
        if (value.kind == JSON_NULL)
            continue;
        if (!field->read(reading, &value))
            return reading->problem[0] == '\0'
                       ? envoy_rls_message_say(reading, "%s must be %s", field->name, field->what)
                       : false;
    }
    return true;
}

static bool read_array(struct reading *reading, const struct json_value *value,
                       bool (*read_item)(struct reading *reading))
{
    struct json_text key;
    struct json_value item;

    if (value->kind != JSON_ARRAY)
        return false;
    if (!json_enter(reading->reader))
        return true;
    while (json_next(reading->reader, &key, &item))
        if (item.kind != JSON_OBJECT || !read_item(reading))
            return false;
    return true;
}

static bool envoy_rls_message_read_text(struct reading *reading, const struct json_value *value,
                                        struct slice *to)
{
    struct envoy_rls_message *message = reading->to;

    if (value->kind != JSON_STRING)
        return false;
    *to = (struct slice){message->text + message->used, value->string.size};
    if (to->n > 0)
        memcpy(message->text + message->used, value->string.bytes, to->n);
    message->used += to->n;
    return true;
}

/* Digits, perhaps in quotes: protobuf writes numbers of 64 bits so. */
static bool envoy_rls_message_read_number(const struct json_value *value, uint64_t most,
                                          uint64_t *to)
{
    uint64_t number = 0;

    if (value->kind == JSON_INTEGER) {
        number = (uint64_t)value->integer;
        *to = number;
        return value->integer >= 0 && number <= most;
    }
    if (value->kind != JSON_STRING || value->string.size == 0)
        return false;
    for (size_t i = 0; i < value->string.size; i++) {
        char digit = value->string.bytes[i];
        uint64_t units = (uint64_t)(digit - '0');
        if (digit < '0' || digit > '9' || number > (UINT64_MAX - units) / 10)
            return false;
        number = number * 10 + units;
    }
    *to = number;
    return number <= most;
}

static bool read_uint32(const struct json_value *value, uint32_t *to)
{
    uint64_t number;

    if (!envoy_rls_message_read_number(value, UINT32_MAX, &number))
        return false;
    *to = (uint32_t)number;
    return true;
}

/* ---- its parts ---- */

static struct envoy_rls_entry *last_entry(struct reading *reading)
{
    return &reading->to->entries[reading->to->n_entries - 1];
}

static bool envoy_rls_message_read_key(struct reading *reading, const struct json_value *value)
{
    return envoy_rls_message_read_text(reading, value, &last_entry(reading)->key);
}

static bool read_entry_value(struct reading *reading, const struct json_value *value)
{
    return envoy_rls_message_read_text(reading, value, &last_entry(reading)->value);
}

static const struct field entry_fields[] = {{"key", NULL, envoy_rls_message_read_key, "a string"},
                                            {"value", NULL, read_entry_value, "a string"},
                                            {NULL, NULL, NULL, NULL}};

static bool read_entry(struct reading *reading)
{
    struct envoy_rls_message *to = reading->to;

    if (to->n_entries == ENVOY_RLS_ENTRIES_MAX)
        return envoy_rls_message_say(reading, "the descriptors have more than %d entries",
                                     ENVOY_RLS_ENTRIES_MAX);
    to->entries[to->n_entries++] = (struct envoy_rls_entry){{"", 0}, {"", 0}};
    reading->descriptor->n_entries++;
    return read_object(reading, entry_fields);
}

static bool read_entries(struct reading *reading, const struct json_value *value)
{
    return read_array(reading, value, read_entry);
}

static bool read_requests_per_unit(struct reading *reading, const struct json_value *value)
{
    return read_uint32(value, &reading->descriptor->requests_per_unit);
}

static bool read_unit(struct reading *reading, const struct json_value *value)
{
    char word[16] = "";

    if (value->kind == JSON_STRING && value->string.size < sizeof word)
        memcpy(word, value->string.bytes, value->string.size);
    reading->descriptor->unit = envoy_unit_find(word);
    return reading->descriptor->unit != ENVOY_UNIT_NONE ||
           (value->kind == JSON_INTEGER && read_uint32(value, &reading->descriptor->unit));
}

static bool read_unit_multiplier(struct reading *reading, const struct json_value *value)
{
    return read_uint32(value, &reading->descriptor->unit_multiplier);
}

static const struct field limit_fields[] = {
    {"requests_per_unit", "requestsPerUnit", read_requests_per_unit, "a number below 2^32"},
    {"unit", NULL, read_unit, "SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"},
    {"unit_multiplier", "unitMultiplier", read_unit_multiplier, "a number below 2^32"},
    {NULL, NULL, NULL, NULL}};

static bool read_limit(struct reading *reading, const struct json_value *value)
{
    reading->descriptor->has_limit = true;
    return value->kind == JSON_OBJECT && read_object(reading, limit_fields);
}

static bool read_own_hits(struct reading *reading, const struct json_value *value)
{
    reading->descriptor->has_hits = true;
    return envoy_rls_message_read_number(value, UINT64_MAX, &reading->descriptor->hits);
}

static bool read_negative(struct reading *reading, const struct json_value *value)
{
    reading->descriptor->negative = value->kind == JSON_BOOL && value->boolean;
    return value->kind == JSON_BOOL;
}

static const struct field descriptor_fields[] = {
    {"entries", NULL, read_entries, "a list of objects"},
    {"limit", NULL, read_limit, "an object"},
    {"hits_addend", "hitsAddend", read_own_hits, "a number from 0 on"},
    {"is_negative_hits", "isNegativeHits", read_negative, "true or false"},
    {NULL, NULL, NULL, NULL}};

static bool read_descriptor(struct reading *reading)
{
    struct envoy_rls_message *to = reading->to;

    if (to->n_descriptors == ENVOY_RLS_DESCRIPTORS_MAX)
        return envoy_rls_message_say(reading, "descriptors has more than %d items",
                                     ENVOY_RLS_DESCRIPTORS_MAX);
    reading->descriptor = &to->descriptors[to->n_descriptors++];
    *reading->descriptor = (struct envoy_rls_descriptor){.entries = &to->entries[to->n_entries]};
    return read_object(reading, descriptor_fields);
}

static bool read_descriptors(struct reading *reading, const struct json_value *value)
{
    return read_array(reading, value, read_descriptor);
}

static bool read_domain(struct reading *reading, const struct json_value *value)
{
    return envoy_rls_message_read_text(reading, value, &reading->to->request.domain);
}

static bool read_hits(struct reading *reading, const struct json_value *value)
{
    return envoy_rls_message_read_number(value, UINT32_MAX, &reading->to->request.hits);
}

static const struct field request_fields[] = {
    {"domain", NULL, read_domain, "a string"},
    {"descriptors", NULL, read_descriptors, "a list of objects"},
    {"hits_addend", "hitsAddend", read_hits, "a number below 2^32"},
    {NULL, NULL, NULL, NULL}};

static bool envoy_rls_message_read_all(struct reading *reading, struct slice body, size_t readable)
{
    struct json_value root;

    if (json_begin(reading->reader, body.at, body.n, readable, &root) && root.kind != JSON_OBJECT)
        return envoy_rls_message_say(reading, "the body must be an object, not %s",
                                     json_kind_name(root.kind));
    if (root.kind == JSON_OBJECT && !read_object(reading, request_fields) &&
        json_reader_problem(reading->reader) == NULL)
        return false;
    if (json_end(reading->reader))
        return true;
    const struct json_problem *problem = json_reader_problem(reading->reader);
    return envoy_rls_message_say(reading, "the body is not JSON: %.90s (at byte %zu)",
                                 problem->text, problem->offset);
}

struct envoy_rls_message *envoy_rls_read(struct json_reader *reader, struct slice body,
                                         size_t readable, char problem[ENVOY_RLS_MESSAGE_MAX])
{
    struct envoy_rls_message *to = malloc(sizeof *to + body.n);
    struct reading reading = {.reader = reader, .to = to, .problem = problem};

    problem[0] = '\0';
    if (to == NULL)
        return NULL;
    to->request = (struct envoy_rls_request){.domain = {"", 0}, .descriptors = to->descriptors};
    to->n_descriptors = to->n_entries = to->used = 0;
    to->text = (char *)(to + 1);
    if (!envoy_rls_message_read_all(&reading, body, readable)) {
        free(to);
        return NULL;
    }
    to->request.n_descriptors = to->n_descriptors;
    return to;
}

/* ---- writing ---- */

static void write_code(struct json_writer *out, const char *key, enum envoy_rls_code code)
{
    const char *name = code == ENVOY_RLS_OVER_LIMIT ? "OVER_LIMIT" : "OK";

    json_member_text(out, key, name);
}

static void write_number(struct json_writer *out, const char *key, int64_t number)
{
    if (number == 0)
        return;
    json_member_number(out, key, number);
}

static void envoy_rls_message_write_text(struct json_writer *out, const char *key,
                                         struct slice text)
{
    if (text.n == 0)
        return;
    json_write_key(out, key);
    json_write_string(out, text.at, text.n);
}

/* "60s", "0.250s": protobuf's form of a duration, in steps of three digits. */
static void write_duration(struct json_writer *out, tg_ms ms)
{
    char text[40];
    int n = ms % 1000 == 0
                ? snprintf(text, sizeof text, "%" PRId64 "s", ms / 1000)
                : snprintf(text, sizeof text, "%" PRId64 ".%03" PRId64 "s", ms / 1000, ms % 1000);

    envoy_rls_message_write_text(out, "durationUntilReset", (struct slice){text, (size_t)n});
}

static void write_limit(struct json_writer *out, const struct envoy_rls_status *status)
{
    json_write_key(out, "currentLimit");
    json_write_object(out);
    write_number(out, "requestsPerUnit", status->requests_per_unit);
    envoy_rls_message_write_text(out, "unit", slice_of(envoy_unit_name(status->unit)));
    envoy_rls_message_write_text(out, "name", status->name);
    json_write_object_end(out);
}

static void write_status(struct json_writer *out, const struct envoy_rls_status *status)
{
    json_write_object(out);
    write_code(out, "code", status->code);
    if (status->has_limit)
        write_limit(out, status);
    write_number(out, "limitRemaining", status->limit_remaining);
    if (status->has_limit)
        write_duration(out, status->until_reset);
    json_write_object_end(out);
}

static void write_headers(struct json_writer *out, const struct envoy_rls_reply *reply)
{
    if (reply->n_headers == 0)
        return;
    json_write_key(out, "responseHeadersToAdd");
    json_write_array(out);
    for (size_t i = 0; i < reply->n_headers; i++) {
        json_write_object(out);
        envoy_rls_message_write_text(out, "key", reply->headers[i].name);
        envoy_rls_message_write_text(out, "value", reply->headers[i].value);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

void envoy_rls_write(struct json_writer *out, const struct envoy_rls_reply *reply)
{
    json_write_object(out);
    write_code(out, "overallCode", reply->overall);
    json_write_key(out, "statuses");
    json_write_array(out);
    for (size_t i = 0; i < reply->n_statuses; i++)
        write_status(out, &reply->statuses[i]);
    json_write_array_end(out);
    write_headers(out, reply);
    envoy_metadata_write(out, reply);
    json_write_object_end(out);
    json_write_line_end(out);
}
