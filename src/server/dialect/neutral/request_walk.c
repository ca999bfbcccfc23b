/* request_walk.c - what the readers of requests have in common. */
#include "server/dialect/neutral/request_walk.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/array.h"
#include "server/dialect/neutral/opaque_pack.h"

/* ---- Beginning, failing, ending -------------------------------------------------------------- */

bool body_begin(struct request_walk *walk, struct json_reader *json, enum dialect from,
                const char *body, size_t n, size_t readable, struct neutral_request *request,
                struct ask_problem *problem)
{
    struct json_value root;

    *walk =
        (struct request_walk){.json = json, .request = request, .problem = problem, .within = ""};
    *problem = (struct ask_problem){.no_memory = false};
    request->from = from;
    request->body = (struct slice){body, n};
    if (!json_begin(json, body, n, readable, &root))
        return false;
    if (root.kind != JSON_OBJECT)
        body_fail(walk, "", "The body must be a JSON object.");
    return !walk->failed && json_enter(json);
}

bool body_end(struct request_walk *walk)
{
    if (!walk->failed && !json_end(walk->json)) {
        const struct json_problem *why = json_reader_problem(walk->json);
        if (why->no_memory)
            body_no_memory(walk);
        else
            body_fail(walk, "", "The body is not valid JSON: %s (byte %zu).", why->text,
                      why->offset);
    }
    return !walk->failed;
}

void body_fail(struct request_walk *walk, const char *param, const char *format, ...)
{
    va_list list;

    if (walk->failed)
        return;
    walk->failed = true;
    snprintf(walk->problem->param, sizeof walk->problem->param, "%s", param);
    va_start(list, format);
    vsnprintf(walk->problem->text, sizeof walk->problem->text, format, list);
    va_end(list);
}

/* A value of the wrong form. */
static void body_wrong(struct request_walk *walk, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void body_wrong(struct request_walk *walk, const char *param, const char *format, ...)
{
    char name[sizeof walk->problem->param], what[128];
    va_list list;

    snprintf(name, sizeof name, "%s%s%s", walk->within, walk->within[0] != '\0' ? "." : "", param);
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    body_fail(walk, name, "'%s' %s", name, what);
}

void body_no_memory(struct request_walk *walk)
{
    body_fail(walk, "", "There is no memory to read the body.");
    walk->problem->no_memory = true;
}

bool body_next(struct request_walk *walk, struct json_text *key, struct json_value *value)
{
    do {
        if (walk->failed || !json_next(walk->json, key, value))
            return false;
    } while (value->kind == JSON_NULL && key->size > 0);
    return true;
}

bool body_enter(struct request_walk *walk, const char *param, const struct json_value *value,
                enum json_kind kind)
{
    if (value->kind == kind)
        return !walk->failed && json_enter(walk->json);
    body_wrong(walk, param, "must be %s.", json_kind_name(kind));
    return false;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* A string without escapes is in the body as it is: then nothing is copied. If the bytes behind the
 * opening quote are those of the text and the closing quote follows, there was no escape: the first
 * one would have to be a backslash that stands for itself, whose second half would stand where the
 * text has its next character. */
static struct slice body_keep(struct request_walk *walk, struct json_text text, size_t offset)
{
    struct slice body = walk->request->body;

    if (text.size == 0)
        return (struct slice){"", 0};
    if (text.size + 1 < body.n - offset && body.at[offset + 1 + text.size] == '"' &&
        memcmp(body.at + offset + 1, text.bytes, text.size) == 0)
        return (struct slice){body.at + offset + 1, text.size};
    char *copy = neutral_room(walk->request, text.size);
    if (copy == NULL) {
        body_no_memory(walk);
        return (struct slice){"", 0};
    }
    memcpy(copy, text.bytes, text.size);
    return (struct slice){copy, text.size};
}

struct slice body_text(struct request_walk *walk, const char *param, const struct json_value *value)
{
    if (value->kind == JSON_STRING)
        return body_keep(walk, value->string, value->offset);
    body_wrong(walk, param, "must be a string.");
    return (struct slice){"", 0};
}

struct slice body_since(struct request_walk *walk, const struct json_value *value)
{
    struct slice body = walk->request->body;
    size_t end = walk->failed ? 0 : json_here(walk->json);

    while (end > value->offset && strchr(" \t\r\n", body.at[end - 1]) != NULL)
        end--;
    assert(end <= body.n);
    return end > value->offset ? (struct slice){body.at + value->offset, end - value->offset}
                               : (struct slice){"", 0};
}

struct slice body_raw(struct request_walk *walk, const struct json_value *value)
{
    if (value->kind == JSON_OBJECT || value->kind == JSON_ARRAY) {
        if (!json_enter(walk->json) || !json_leave(walk->json))
            return (struct slice){"", 0};
    }
    return body_since(walk, value);
}

enum neutral_tri body_tri(struct request_walk *walk, const char *param,
                          const struct json_value *value)
{
    if (value->kind != JSON_BOOL) {
        body_wrong(walk, param, "must be true or false.");
        return TRI_UNSET;
    }
    return value->boolean ? TRI_TRUE : TRI_FALSE;
}

bool body_is_true(struct request_walk *walk, const char *param, const struct json_value *value)
{
    return body_tri(walk, param, value) == TRI_TRUE;
}

double body_real(struct request_walk *walk, const char *param, const struct json_value *value,
                 double least, double most)
{
    double real = value->kind == JSON_DOUBLE    ? value->real
                  : value->kind == JSON_INTEGER ? (double)value->integer
                                                : NAN;

    if (!(real >= least && real <= most)) {
        body_wrong(walk, param, "must be a number from %g to %g.", least, most);
        return NAN;
    }
    return real;
}

int64_t body_integer(struct request_walk *walk, const char *param, const struct json_value *value,
                     int64_t least, int64_t most)
{
    int64_t integer = value->kind == JSON_INTEGER ? value->integer : INT64_MIN;

    if (value->kind == JSON_DOUBLE && value->real == floor(value->real) &&
        fabs(value->real) <= 9007199254740992.0)
        integer = (int64_t)value->real;
    if (integer == INT64_MIN || integer < least || integer > most) {
        body_wrong(walk, param, "must be a whole number, %lld or more.", (long long)least);
        return least;
    }
    return integer;
}

size_t body_word(struct request_walk *walk, const char *param, const struct json_value *value,
                 const char *const *list)
{
    for (size_t i = 0; value->kind == JSON_STRING && list[i] != NULL; i++)
        if (json_text_is(value->string, list[i]))
            return i;
    body_wrong(walk, param, "has a value that is not known.");
    return 0;
}

void body_stops(struct request_walk *walk, const char *param, const struct json_value *value)
{
    struct neutral_request *request = walk->request;
    struct json_text key;
    struct json_value item;

    if (value->kind == JSON_STRING) {
        request->stops[0] = body_text(walk, param, value);
        request->n_stops = 1;
    } else if (body_enter(walk, param, value, JSON_ARRAY)) {
        while (body_next(walk, &key, &item)) {
            if (request->n_stops == NEUTRAL_STOPS_MAX)
                body_wrong(walk, param, "has more than %d.", NEUTRAL_STOPS_MAX);
            else
                request->stops[request->n_stops++] = body_text(walk, param, &item);
        }
    }
}

void body_foreign(struct request_walk *walk, enum neutral_field field)
{
    walk->request->foreign |= UINT64_C(1) << field;
}

static bool body_fits(struct request_walk *walk, size_t n, int most, const char *what)
{
    if (n < (size_t)most)
        return !walk->failed;
    body_fail(walk, "", "The body has more than %d %s.", most, what);
    return false;
}

static bool body_more(struct request_walk *walk, size_t n, const char *what)
{
    return body_fits(walk, n, NEUTRAL_PARTS_MAX, what);
}

void body_extra(struct request_walk *walk, struct slice key, struct slice raw)
{
    struct neutral_request *request = walk->request;
    char *name;

    if (key.n == 0 || raw.n == 0 || memchr(key.at, '\0', key.n) != NULL ||
        !body_more(walk, request->n_extras, "members"))
        return;
    name = neutral_room(request, key.n + 1);
    if (name == NULL ||
        !array_reserve(&request->extras, &request->extras_capacity, request->n_extras + 1)) {
        body_no_memory(walk);
        return;
    }
    memcpy(name, key.at, key.n);
    name[key.n] = '\0';
    request->extras[request->n_extras++] = (struct neutral_extra){name, raw};
}

void body_unknown(struct request_walk *walk, struct json_text key, const struct json_value *value)
{
    char *name = walk->request->unknown;
    size_t n = key.size < NEUTRAL_NAME_MAX - 1 ? key.size : NEUTRAL_NAME_MAX - 1;

    body_extra(walk, (struct slice){key.bytes, key.size}, body_raw(walk, value));
    if ((walk->request->foreign >> FIELD_UNKNOWN & 1) != 0)
        return;
    body_foreign(walk, FIELD_UNKNOWN);
    for (size_t i = 0; i < n; i++)
        name[i] =
            key.bytes[i] > ' ' && key.bytes[i] < 0x7f && key.bytes[i] != ',' ? key.bytes[i] : '?';
    name[n] = '\0';
}

void body_hosted_tool(struct request_walk *walk, const struct json_value *value)
{
    struct neutral_request *request = walk->request;

    body_foreign(walk, FIELD_HOSTED_TOOL);
    if (!body_more(walk, request->n_hosted, "tools"))
        return;
    if (!array_reserve(&request->hosted, &request->hosted_capacity, request->n_hosted + 1)) {
        body_no_memory(walk);
        return;
    }
    request->hosted[request->n_hosted++] = body_since(walk, value);
}

/* ---- Turns, parts, tools --------------------------------------------------------------------- */

struct neutral_turn *body_turn(struct request_walk *walk, enum neutral_role role)
{
    struct neutral_request *request = walk->request;

    if (!body_more(walk, request->n_turns, "messages"))
        return NULL;
    if (!array_reserve(&request->turns, &request->turns_capacity, request->n_turns + 1)) {
        body_no_memory(walk);
        return NULL;
    }
    struct neutral_turn *turn = &request->turns[request->n_turns++];
    *turn = (struct neutral_turn){role, false, request->n_parts, request->n_parts};
    return turn;
}

/* Room at the end of the last turn, if it may take more; else a new one. */
static void turn_from(struct request_walk *walk, enum neutral_role role, bool extends, size_t first)
{
    struct neutral_request *request = walk->request;
    struct neutral_turn *turn;

    if (walk->failed)
        return;
    if (extends) {
        request->turns[request->n_turns - 1].end = request->n_parts;
        return;
    }
    turn = body_turn(walk, role);
    if (turn != NULL)
        turn->first = first;
}

void body_model_turn(struct request_walk *walk, size_t first)
{
    const struct neutral_request *request = walk->request;

    turn_from(walk, ROLE_MODEL,
              request->n_turns > 0 && request->turns[request->n_turns - 1].role == ROLE_MODEL,
              first);
}

void body_result_turn(struct request_walk *walk, size_t first)
{
    const struct neutral_request *request = walk->request;
    const struct neutral_turn *last =
        request->n_turns > 0 ? &request->turns[request->n_turns - 1] : NULL;

    turn_from(walk, ROLE_USER,
              last != NULL && last->role == ROLE_USER && last->end > last->first &&
                  request->parts[last->first].kind == PART_RESULT,
              first);
}

void body_first_turn(struct request_walk *walk, size_t first)
{
    struct neutral_request *request = walk->request;
    struct neutral_turn *turn = body_turn(walk, ROLE_INSTRUCTION);

    if (turn == NULL)
        return;
    struct neutral_turn system = *turn;
    system.first = first;
    memmove(request->turns + 1, request->turns, (request->n_turns - 1) * sizeof system);
    request->turns[0] = system;
}

struct neutral_part *body_part_before(struct request_walk *walk, size_t at, enum neutral_kind kind)
{
    struct neutral_request *request = walk->request;

    if (!body_more(walk, request->n_parts, "parts"))
        return NULL;
    if (!array_reserve(&request->parts, &request->parts_capacity, request->n_parts + 1)) {
        body_no_memory(walk);
        return NULL;
    }
    assert(at <= request->n_parts);
    struct neutral_part *part = &request->parts[at];
    size_t behind = request->n_parts - at;
    memmove(part + 1, part, behind * sizeof *part);
    request->n_parts++;
    *part = (struct neutral_part){.kind = kind, .inner = (uint32_t)behind};
    return part;
}

struct neutral_part *body_part(struct request_walk *walk, enum neutral_kind kind)
{
    return body_part_before(walk, walk->request->n_parts, kind);
}

struct neutral_tool *body_tool(struct request_walk *walk)
{
    struct neutral_request *request = walk->request;

    if (!body_more(walk, request->n_tools, "tools"))
        return NULL;
    if (!array_reserve(&request->tools, &request->tools_capacity, request->n_tools + 1)) {
        body_no_memory(walk);
        return NULL;
    }
    struct neutral_tool *tool = &request->tools[request->n_tools++];
    *tool = (struct neutral_tool){.strict = TRI_UNSET};
    return tool;
}

void body_name(struct request_walk *walk, struct slice name)
{
    struct neutral_request *request = walk->request;

    if (!body_fits(walk, request->n_names, NEUTRAL_NAMES_MAX, "names in a choice of tools"))
        return;
    if (!array_reserve(&request->names, &request->names_capacity, request->n_names + 1)) {
        body_no_memory(walk);
        return;
    }
    request->names[request->n_names++] = name;
}

/* "data:image/png;base64,AAAA": parameters between type and data are left out. */
void body_address(struct request_walk *walk, struct neutral_part *part, struct slice address)
{
    const char *comma = address.n > 0 ? memchr(address.at, ',', address.n) : NULL;

    (void)walk;
    if (address.n < 5 || memcmp(address.at, "data:", 5) != 0 || comma == NULL) {
        part->source = SOURCE_URL;
        part->text = address;
        return;
    }
    size_t head = (size_t)(comma - address.at), end = 5;
    while (end < head && address.at[end] != ';')
        end++;
    part->source = SOURCE_INLINE;
    part->mime = (struct slice){address.at + 5, end - 5};
    part->text = (struct slice){comma + 1, address.n - head - 1};
    if (head < 7 || memcmp(comma - 7, ";base64", 7) != 0)
        body_fail(walk, "url", "A 'data:' address must be in base64.");
}

void body_call_id(struct request_walk *walk, struct neutral_part *part, struct slice id)
{
    struct slice bare, signature;

    part->id = id;
    if (!opaque_unpack_id(id, &bare, &signature))
        return;
    part->id = bare;
    if (part->kind != PART_CALL)
        return;
    char *room = neutral_room(walk->request, signature.n + 4);
    if (room == NULL) {
        body_no_memory(walk);
        return;
    }
    part->opaque_kind = OPAQUE_THOUGHT;
    part->opaque_dialect = DIALECT_GEMINI;
    part->opaque = (struct slice){room, opaque_unpack_signature(signature, room)};
}

void body_opaque(struct neutral_part *part, enum neutral_opaque kind, enum dialect own,
                 struct slice text)
{
    part->opaque_kind = kind;
    part->opaque_dialect = own;
    part->opaque = text;
    opaque_unpack(text, &part->opaque_kind, &part->opaque_dialect, &part->opaque_provider,
                  &part->opaque);
}
