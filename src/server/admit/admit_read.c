/* admit_read.c - parses what a caller asks, in JSON or in a query. See admit_read.h.
 *
 * One table has all fields; what is read goes to a place in the message by its offset. The service
 * checks its own ranges; here a number only has to be a number, and not negative where negative
 * stands for "not given".
 */
#include "server/admit/admit_read.h"
#include "io/text/hex.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { TEXT, COUNT, REAL, FLAG, CLASS, OUTCOME, LEASES };

struct field {
    const char *name;
    enum type type;
    size_t at; /* its offset in struct admit_message */
    bool in_query;
};

#define AT(member) offsetof(struct admit_message, member)

static const struct field ask_fields[] = {
    {"tenant", TEXT, AT(ask.tenant), true},
    {"model", TEXT, AT(ask.model), true},
    {"user", TEXT, AT(ask.user), true},
    {"peer", TEXT, AT(ask.peer), true},
    {"priority", CLASS, AT(ask.priority), true},
    {"cost", COUNT, AT(ask.cost), true},
    {"value", REAL, AT(ask.value), true},
    {"hold_s", REAL, AT(ask.hold_s), false},
    {"ttl_ms", COUNT, AT(ask.ttl_ms), false},
    {"timeout_ms", COUNT, AT(timeout_ms), false},
    {"end_with_connection", FLAG, AT(end_with_connection), false},
    {"limits_only", FLAG, AT(ask.limits_only), false},
    {NULL, TEXT, 0, false}};
static const struct field release_fields[] = {{"lease_id", TEXT, AT(lease), false},
                                              {"outcome", OUTCOME, AT(release.outcome), false},
                                              {"actual", COUNT, AT(release.actual), false},
                                              {"sample_ms", REAL, AT(release.sample_ms), false},
                                              {NULL, TEXT, 0, false}};
static const struct field heartbeat_fields[] = {{"lease_ids", LEASES, AT(leases), false},
                                                {NULL, TEXT, 0, false}};

static const struct field *const kinds[] = {[ADMIT_ASK] = ask_fields,
                                            [ADMIT_RELEASE] = release_fields,
                                            [ADMIT_HEARTBEAT] = heartbeat_fields};

static const char *const outcomes[] = {
    [TG_OUTCOME_OK] = "ok", [TG_OUTCOME_DROPPED] = "dropped", [TG_OUTCOME_CANCELLED] = "cancelled"};

static void clear(struct admit_message *message)
{
    admit_ask_init(&message->ask);
    message->timeout_ms = 0;
    message->end_with_connection = false;
    message->lease = (struct slice){NULL, 0};
    tg_release_init(&message->release);
    message->n_leases = 0;
    message->used = 0;
}

/* ---- errors ---- */

/* A field's name that the client made up, for a message: printable, and not too long. */
static void printable_name(struct slice name, char text[48])
{
    size_t n = name.n < 40 ? name.n : 40;

    for (size_t i = 0; i < n; i++)
        text[i] = name.at[i] > ' ' && name.at[i] < 127 && name.at[i] != '"' ? name.at[i] : '?';
    memcpy(text + n, name.n > n ? "..." : "", name.n > n ? 4 : 1);
}

static bool unknown(const struct field *fields, bool query, struct slice name, struct refusal *why)
{
    char list[200] = "", text[48];
    size_t used = 0;

    for (const struct field *field = fields; field->name != NULL; field++)
        if ((!query || field->in_query) && used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "",
                                     field->name);
    printable_name(name, text);
    refusal_init(why, REPLY_INVALID_REQUEST, "there is no %s '%s'; there are %s",
                 query ? "parameter" : "field", text, list);
    snprintf(why->param, sizeof why->param, "%s", text);
    return false;
}

static bool must_be(const struct field *field, struct refusal *why, const char *what)
{
    refusal_init(why, REPLY_INVALID_REQUEST, "`%s` must be %s", field->name, what);
    snprintf(why->param, sizeof why->param, "%s", field->name);
    return false;
}

static const char *what_is(enum type type)
{
    switch (type) {
    case TEXT:
        return "a string";
    case COUNT:
        return "an integer from 0 to 9007199254740991";
    case REAL:
        return "a number from 0 on";
    case FLAG:
        return "true or false";
    case CLASS:
        return "\"high\", \"normal\" or \"low\"";
    case OUTCOME:
        return "\"ok\", \"dropped\" or \"cancelled\"";
    case LEASES:
        break;
    }
    return "an array of strings";
}

/* ---- values ---- */

/* -1: no priority has that name. */
static int class_of(struct slice word)
{
    for (int i = 0; i < TG_PRIORITY_COUNT; i++)
        if (slice_equal(word, slice_of(tg_priority_name((enum tg_priority)i))))
            return i;
    return -1;
}

static int outcome_of(struct slice word)
{
    for (int i = 0; i <= TG_OUTCOME_CANCELLED; i++)
        if (slice_equal(word, slice_of(outcomes[i])))
            return i;
    return -1;
}

static bool put_count(void *to, int64_t number)
{
    if (number < 0 || number > TG_NUMBER_MAX)
        return false;
    memcpy(to, &number, sizeof number);
    return true;
}

static bool put_real(void *to, double number)
{
    if (!(number >= 0) || !isfinite(number))
        return false;
    memcpy(to, &number, sizeof number);
    return true;
}

static bool put_word(const struct field *field, void *to, struct slice word)
{
    int number = field->type == CLASS ? class_of(word) : outcome_of(word);

    assert(field->type == CLASS || field->type == OUTCOME);
    if (number < 0)
        return false;
    if (field->type == CLASS)
        *(enum tg_priority *)to = (enum tg_priority)number;
    else
        *(enum tg_outcome *)to = (enum tg_outcome)number;
    return true;
}

static bool read_leases(struct json_reader *reader, struct admit_message *message)
{
    struct json_text key;
    struct json_value value;
    bool fine = json_enter(reader);

    while (fine && json_next(reader, &key, &value)) {
        fine = value.kind == JSON_STRING && message->n_leases < ADMIT_HEARTBEAT_MAX;
        if (fine)
            message->leases[message->n_leases++] =
                (struct slice){value.string.bytes, value.string.size};
    }
    return fine;
}

static bool read_value(struct json_reader *reader, const struct field *field,
                       const struct json_value *value, struct admit_message *message)
{
    void *to = (char *)message + field->at;
    struct slice text = {NULL, 0};

    if (value->kind == JSON_STRING)
        text = (struct slice){value->string.bytes, value->string.size};
    switch (field->type) {
    case TEXT:
        memcpy(to, &text, sizeof text);
        return value->kind == JSON_STRING;
    case COUNT:
        return value->kind == JSON_INTEGER && put_count(to, value->integer);
    case REAL:
        if (value->kind == JSON_INTEGER)
            return put_real(to, (double)value->integer);
        return value->kind == JSON_DOUBLE && put_real(to, value->real);
    case FLAG:
        *(bool *)to = value->kind == JSON_BOOL && value->boolean;
        return value->kind == JSON_BOOL;
    case CLASS:
    case OUTCOME:
        return value->kind == JSON_STRING && put_word(field, to, text);
    case LEASES:
        break;
    }
    return value->kind == JSON_ARRAY && read_leases(reader, message);
}

static const struct field *find_field(const struct field *fields, struct slice name)
{
    for (; fields->name != NULL; fields++)
        if (slice_equal(name, slice_of(fields->name)))
            return fields;
    return NULL;
}

/* ---- JSON ---- */

static bool read_fields(struct json_reader *reader, const struct field *fields,
                        struct admit_message *message, struct refusal *why)
{
    struct json_text key;
    struct json_value value;
    char what[80];

    while (json_next(reader, &key, &value)) {
        struct slice name = {key.bytes, key.size};
        const struct field *field = find_field(fields, name);
        if (field == NULL)
            return unknown(fields, false, name, why);
        if (value.kind == JSON_NULL)
            continue; /* null means that the field is absent */
        if (!read_value(reader, field, &value, message)) {
            if (field->type == LEASES && message->n_leases == ADMIT_HEARTBEAT_MAX)
                snprintf(what, sizeof what, "%s, at most %d", what_is(field->type),
                         ADMIT_HEARTBEAT_MAX);
            else
                snprintf(what, sizeof what, "%s", what_is(field->type));
            return json_reader_problem(reader) != NULL || must_be(field, why, what);
        }
        message->ask.has_value |= field->at == AT(ask.value);
    }
    return true;
}

bool admit_read(struct json_reader *reader, struct slice body, size_t readable,
                enum admit_kind kind, struct admit_message *message, struct refusal *why)
{
    struct json_value root;

    clear(message);
    if (json_begin(reader, body.at, body.n, readable, &root) && root.kind != JSON_OBJECT) {
        refusal_init(why, REPLY_INVALID_REQUEST, "the body must be an object, not %s",
                     json_kind_name(root.kind));
        return false;
    }
    assert((size_t)kind < sizeof kinds / sizeof kinds[0]);
    if (json_enter(reader) && !read_fields(reader, kinds[kind], message, why))
        return false;
    if (!json_end(reader)) {
        const struct json_problem *problem = json_reader_problem(reader);
        refusal_init(why, REPLY_INVALID_REQUEST, "the body is not JSON: %.120s (at byte %zu)",
                     problem->text, problem->offset);
        return false;
    }
    if (kind == ADMIT_RELEASE && message->lease.n == 0)
        return must_be(&release_fields[0], why, "there: it names what is to be released");
    return true;
}

/* ---- a query ---- */

/* Percent-decodes a text into the message's room. False: a bad escape, or it is too long. */
static bool unescape(struct admit_message *message, struct slice *text)
{
    char *room = message->room + message->used;
    size_t n = 0, left = sizeof message->room - message->used;

    for (size_t i = 0; i < text->n; i++) {
        char c = text->at[i] == '+' ? ' ' : text->at[i];
        if (c == '%') {
            int high = text->n - i > 2 ? hex_digit(text->at[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text->at[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (n == left || n == ADMIT_NAME_MAX)
            return false;
        room[n++] = c;
    }
    *text = (struct slice){room, n};
    message->used += n;
    assert(message->used <= sizeof message->room);
    return true;
}

static bool read_count(struct slice text, void *to)
{
    int64_t number = 0;

    if (text.n == 0 || text.n > 16)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        number = 10 * number + (text.at[i] - '0');
    }
    return put_count(to, number);
}

static bool read_real(struct slice text, void *to)
{
    char copy[40], *end;

    if (text.n == 0 || text.n >= sizeof copy || memchr(text.at, 0, text.n) != NULL)
        return false;
    memcpy(copy, text.at, text.n);
    copy[text.n] = 0;
    double number = strtod(copy, &end);
    return *end == 0 && put_real(to, number);
}

static bool read_text(const struct field *field, struct slice text, struct admit_message *message,
                      struct refusal *why)
{
    void *to = (char *)message + field->at;
    bool fine = true;

    if (field->type == TEXT)
        memcpy(to, &text, sizeof text);
    else if (field->type == COUNT)
        fine = read_count(text, to);
    else if (field->type == REAL)
        fine = read_real(text, to);
    else
        fine = put_word(field, to, text);
    message->ask.has_value |= field->at == AT(ask.value);
    return fine || must_be(field, why, what_is(field->type));
}

/* Whoever puts a name into a query without escaping it lets the name's owner add parameters: so a
 * parameter that comes twice is an error, and the last one does not win. */
static bool read_parameter(struct slice part, unsigned *seen, struct admit_message *message,
                           struct refusal *why)
{
    const char *equals = part.n > 0 ? memchr(part.at, '=', part.n) : NULL;
    struct slice name = {part.at, equals != NULL ? (size_t)(equals - part.at) : part.n};
    struct slice value = {part.at + part.n, 0};
    const struct field *field = find_field(ask_fields, name);

    if (equals != NULL)
        value = (struct slice){equals + 1, part.n - name.n - 1};
    if (field == NULL || !field->in_query)
        return unknown(ask_fields, true, name, why);
    if (*seen & 1u << (field - ask_fields))
        return must_be(field, why, "there once");
    *seen |= 1u << (field - ask_fields);
    if (!unescape(message, &value))
        return must_be(field, why, "escaped as %XX, with at most 256 bytes");
    return read_text(field, value, message, why);
}

static bool read_headers(const struct http_head *head, unsigned seen, struct admit_message *message,
                         struct refusal *why)
{
    static const struct {
        const char *header, *field;
    } said[] = {{"x-tollgate-tenant", "tenant"},
                {"x-tollgate-user", "user"},
                {"x-tollgate-model", "model"},
                {"x-tollgate-cost", "cost"}};

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        struct slice value = http_find(head, slice_of(said[i].header));
        const struct field *field = find_field(ask_fields, slice_of(said[i].field));
        assert(field != NULL && field->in_query);
        if (value.n == 0)
            continue;
        if (seen & 1u << (field - ask_fields))
            return must_be(field, why, "in the query or in a header, not in both");
        if (!read_text(field, value, message, why))
            return false;
    }
    return true;
}

bool admit_read_query(const struct http_head *head, struct admit_message *message,
                      struct refusal *why)
{
    const char *end = head->target.at + head->target.n;
    const char *at = memchr(head->target.at, '?', head->target.n);
    unsigned seen = 0;

    clear(message);
    message->ask.limits_only = message->ask.is_verdict = true;
    for (at = at != NULL ? at + 1 : end; at < end;) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        struct slice part = {at, (size_t)((next != NULL ? next : end) - at)};
        if (part.n > 0 && !read_parameter(part, &seen, message, why))
            return false;
        at = next != NULL ? next + 1 : end;
    }
    return read_headers(head, seen, message, why);
}
