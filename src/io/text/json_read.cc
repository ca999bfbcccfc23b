/* json_read.cc - reading JSON with simdjson, behind a C interface.
 *
 * Bodies of calls to language models have up to some megabytes, nearly all of it in a few strings,
 * and we want a handful of numbers from them. simdjson finds the tokens with vector instructions
 * and its on-demand interface builds no tree: 5 KB of chat take 2 us, 4 us where every word has an
 * escape, and every byte of it is checked. The other parsers in Debian need several times that, or
 * accept what is no JSON. The price is this one file of C++. No exception is thrown in it, and what
 * simdjson returns as an error code becomes a text and an offset here.
 *
 * On demand means that nobody checks what nobody reads. We do not want that: a document that two
 * programs read differently is a way around a limit, so all of it must be JSON, byte by byte, also
 * what the caller passes over. Hence pass_over(), which walks like a caller would. For the same
 * reason a key that comes twice is an error (one program takes the first, another the last), in
 * the objects that somebody looks at; and a number that would have to be bent to fit is no number
 * but JSON_HUGE. Not an error: most calls carry numbers that are none of our business.
 *
 * Objects and arrays that are open form a stack of JSON_DEPTH_MAX levels in the reader, so deep
 * nesting is an error and never a stack overflow. All memory grows to the largest document seen,
 * some six times its bytes, and stays until json_reader_trim(): a reader that is warm allocates
 * nothing.
 *
 * simdjson may touch JSON_PADDING bytes behind the document; it does not care what they hold.
 */
#include "io/text/json_read.h"

#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/random.h>

#include "io/text/utf8.h"

namespace ondemand = simdjson::ondemand;

static_assert(JSON_PADDING >= simdjson::SIMDJSON_PADDING, "simdjson reads further than we say");

namespace
{

/* An object or array that was entered. */
struct level {
    bool is_object;
    bool started;    /* the iterator stands at a value that was given, not before the first */
    bool watch_keys; /* entered by the caller, who must not see a key twice */
    uint64_t id;     /* unlike that of every other level of this reader */
    ondemand::object_iterator field;
    ondemand::array_iterator item;
};

/* A key of a watched object. A slot is in use if its level was entered in this document. */
struct seen_key {
    uint64_t level_id;
    uint64_t hash;
    json_text key;
};

}

struct json_reader {
    ondemand::parser parser;
    ondemand::document document;
    const char *text;
    size_t bytes;
    char *copy; /* a copy of a document that has no room behind it */
    size_t copy_bytes;

    ondemand::value given; /* what json_next() gave; the root has no value of its own */
    json_kind given_kind;
    bool given_open;   /* it is an object or array, and was not entered yet */
    size_t number_end; /* behind the last number and its blanks: simdjson does not step over it */

    level levels[JSON_DEPTH_MAX];
    size_t depth;

    uint64_t last_id;  /* the id of the last level */
    uint64_t first_id; /* the id of the first level in this document */
    uint64_t seed;
    seen_key *seen; /* open addressing; more than half of it is always free */
    size_t seen_slots;
    size_t n_seen;

    bool failed;
    json_problem problem;
};

/* ---- Errors ---------------------------------------------------------------------------------- */

static bool json_read_fail(json_reader *reader, size_t offset, const char *text)
{
    if (!reader->failed) {
        reader->problem.no_memory = false;
        reader->failed = true;
        reader->problem.offset = offset;
        std::snprintf(reader->problem.text, sizeof reader->problem.text, "%s", text);
    }
    return false;
}

static bool json_read_no_memory(json_reader *reader, size_t offset)
{
    bool first = !reader->failed;

    (void)json_read_fail(reader, offset, "no memory to read JSON");
    reader->problem.no_memory |= first;
    return false;
}

/* Where simdjson stands. At the end of the document it has no answer. */
static size_t location(json_reader *reader)
{
    const char *at = nullptr;

    if (reader->document.current_location().get(at) || at < reader->text ||
        at > reader->text + reader->bytes)
        return reader->bytes;
    return static_cast<size_t>(at - reader->text);
}

/* An error in the tokens of the document, before any of it was walked. */
static bool fail_tokens(json_reader *reader, simdjson::error_code error)
{
    switch (error) {
    case simdjson::EMPTY:
        return json_read_fail(reader, 0, "there is no JSON here");
    case simdjson::UTF8_ERROR: /* it does not say where */
        return json_read_fail(reader, utf8_valid(reader->text, reader->bytes), "not UTF-8");
    case simdjson::UNCLOSED_STRING:
        return json_read_fail(reader, reader->bytes, "a string is not closed");
    case simdjson::UNESCAPED_CHARS:
        return json_read_fail(reader, reader->bytes,
                              "a control character stands unescaped in a string");
    case simdjson::CAPACITY:
        return json_read_fail(reader, 0, "too long for one JSON document");
    case simdjson::MEMALLOC:
        return json_read_no_memory(reader, 0);
    default:
        return json_read_fail(reader, reader->bytes, "not well-formed JSON");
    }
}

/* An error in how the tokens follow each other. */
static bool fail_walk(json_reader *reader, simdjson::error_code error)
{
    if (error == simdjson::INCOMPLETE_ARRAY_OR_OBJECT)
        return json_read_fail(reader, reader->bytes,
                              "the end is not the end of the object or array begun");
    return json_read_fail(reader, location(reader), "not well-formed JSON");
}

/* ---- Keys that come twice -------------------------------------------------------------------- */

static seen_key *seen_slot(json_reader *reader, const seen_key &wanted)
{
    size_t mask = reader->seen_slots - 1;

    for (size_t i = wanted.hash & mask;; i = (i + 1) & mask) {
        seen_key *slot = &reader->seen[i];
        if (slot->level_id < reader->first_id)
            return slot;
        if (slot->hash == wanted.hash && slot->level_id == wanted.level_id &&
            slot->key.size == wanted.key.size &&
            std::memcmp(slot->key.bytes, wanted.key.bytes, wanted.key.size) == 0)
            return slot;
    }
}

static bool seen_grow(json_reader *reader)
{
    seen_key *old = reader->seen;
    size_t old_slots = reader->seen_slots;
    size_t slots = old_slots == 0 ? 64 : old_slots * 2;
    void *bigger = std::calloc(slots, sizeof *old);

    if (bigger == nullptr)
        return false;
    reader->seen = static_cast<seen_key *>(bigger);
    reader->seen_slots = slots;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].level_id >= reader->first_id)
            *seen_slot(reader, old[i]) = old[i];
    std::free(old);
    return true;
}

/* A hash with a secret seed: whoever sends us a document must not be able to make this slow. The
 * object comes in, too: a list of a thousand messages has each key a thousand times. */
static bool watch_key(json_reader *reader, const level &level, json_text key, size_t offset)
{
    uint64_t seed = reader->seed + level.id * UINT64_C(0x9e3779b97f4a7c15);
    seen_key wanted = {level.id, XXH3_64bits_withSeed(key.bytes, key.size, seed), key};
    char text[sizeof reader->problem.text];

    if (reader->n_seen * 2 >= reader->seen_slots && !seen_grow(reader))
        return json_read_no_memory(reader, offset);
    seen_key *slot = seen_slot(reader, wanted);
    if (slot->level_id < reader->first_id) {
        *slot = wanted;
        reader->n_seen++;
        return true;
    }
    /* A key that looks like a word is named; any other would need escaping again. */
    for (size_t i = 0; i < key.size; i++)
        if (static_cast<unsigned char>(key.bytes[i]) <= ' ' || key.bytes[i] == '"' ||
            static_cast<unsigned char>(key.bytes[i]) >= 0x7f || i == 64)
            return json_read_fail(reader, offset, "a key comes twice");
    std::snprintf(text, sizeof text, "the key \"%.*s\" comes twice", static_cast<int>(key.size),
                  key.bytes);
    return json_read_fail(reader, offset, text);
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Tells a number that is too big for simdjson from one that is none. `token` may have blanks at its
 * end. */
static bool is_number(const char *at, const char *end)
{
    auto digits = [&] {
        const char *begin = at;
        while (at < end && *at >= '0' && *at <= '9')
            at++;
        return at > begin;
    };

    if (at < end && *at == '-')
        at++;
    if (at < end && *at == '0')
        at++;
    else if (!digits())
        return false;
    if (at < end && *at == '.' && (at++, !digits()))
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        if (!digits())
            return false;
    }
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at == end;
}

static bool json_read_read_number(json_reader *reader, ondemand::value &from,
                                  std::string_view token, json_value *value)
{
    ondemand::number number;

    if (from.get_number().get(number)) {
        if (!is_number(token.data(), token.data() + token.size()))
            return json_read_fail(reader, value->offset, "not a number");
        value->kind = JSON_HUGE;
    } else if (number.is_int64()) {
        value->kind = JSON_INTEGER;
        value->integer = number.get_int64();
    } else if (number.is_uint64()) {
        value->kind = JSON_HUGE;
    } else {
        value->kind = JSON_DOUBLE;
        value->real = number.get_double();
    }
    return true;
}

static bool read_string(json_reader *reader, ondemand::value &from, json_value *value)
{
    std::string_view string;

    if (from.get_string().get(string))
        return json_read_fail(reader, value->offset, "a string holds an escape that means nothing");
    value->kind = JSON_STRING;
    value->string = {string.data(), string.size()};
    return true;
}

static bool read_word(json_reader *reader, ondemand::value &from, char first, json_value *value)
{
    bool is_null = false;

    value->kind = first == 'n' ? JSON_NULL : JSON_BOOL;
    if (first == 'n' ? !from.is_null().get(is_null) && is_null
                     : !from.get_bool().get(value->boolean))
        return true;
    return json_read_fail(reader, value->offset, "not a value");
}

static bool json_read_read_value(json_reader *reader, ondemand::value &from, json_value *value)
{
    std::string_view token = from.raw_json_token();
    char first = token.data()[0];

    *value = {};
    value->offset = static_cast<size_t>(token.data() - reader->text);
    switch (first) {
    case '{':
    case '[':
        value->kind = first == '{' ? JSON_OBJECT : JSON_ARRAY;
        reader->given = from;
        reader->given_kind = value->kind;
        reader->given_open = true;
        return true;
    case '"':
        return read_string(reader, from, value);
    case 't':
    case 'f':
    case 'n':
        return read_word(reader, from, first, value);
    default:
        if (first != '-' && (first < '0' || first > '9'))
            return json_read_fail(reader, value->offset, "a value is missing");
        reader->number_end = value->offset + token.size();
        return json_read_read_number(reader, from, token, value);
    }
}

/* ---- The walk -------------------------------------------------------------------------------- */

template <typename Container, typename Iterator>
static simdjson::error_code open_container(simdjson::simdjson_result<Container> from,
                                           Iterator &iterator)
{
    Container container;
    simdjson::error_code error = std::move(from).get(container);

    return error ? error : container.begin().get(iterator);
}

static bool json_read_enter(json_reader *reader, bool watch_keys)
{
    if (reader->failed || !reader->given_open)
        return false;
    if (reader->depth == JSON_DEPTH_MAX)
        return json_read_fail(reader, location(reader), "nested too deep");

    level &inner = reader->levels[reader->depth];
    bool root = reader->depth == 0;
    simdjson::error_code error;
    if (reader->given_kind == JSON_OBJECT)
        error = open_container(root ? reader->document.get_object() : reader->given.get_object(),
                               inner.field);
    else
        error = open_container(root ? reader->document.get_array() : reader->given.get_array(),
                               inner.item);
    if (error)
        return fail_walk(reader, error);

    inner.is_object = reader->given_kind == JSON_OBJECT;
    inner.started = false;
    inner.watch_keys = watch_keys;
    inner.id = ++reader->last_id;
    reader->given_open = false;
    reader->depth++;
    return true;
}

static bool next_field(json_reader *reader, level &in, json_text *key, json_value *value)
{
    ondemand::field field;
    std::string_view name;
    simdjson::error_code error = (*in.field).get(field);

    if (error)
        return fail_walk(reader, error);
    size_t offset = static_cast<size_t>(field.key().raw() - reader->text) - 1;
    if (field.unescaped_key().get(name))
        return json_read_fail(reader, offset, "a key holds an escape that means nothing");
    *key = {name.data(), name.size()};
    if (in.watch_keys && !watch_key(reader, in, *key, offset))
        return false;
    return json_read_read_value(reader, field.value(), value);
}

static bool next_item(json_reader *reader, level &in, json_value *value)
{
    ondemand::value item;
    simdjson::error_code error = (*in.item).get(item);

    return error ? fail_walk(reader, error) : json_read_read_value(reader, item, value);
}

/* One step in what was entered last. False, and a level up, at its end. */
static bool step(json_reader *reader, json_text *key, json_value *value)
{
    level &in = reader->levels[reader->depth - 1];

    if (in.started) {
        if (in.is_object)
            ++in.field;
        else
            ++in.item;
    }
    in.started = true;
    if (in.is_object ? !(in.field != in.field) : !(in.item != in.item)) {
        reader->depth--;
        return false;
    }
    return in.is_object ? next_field(reader, in, key, value) : next_item(reader, in, value);
}

/* Walks, and so checks, until `depth` levels are open and nothing waits to be entered. */
static bool pass_over(json_reader *reader, size_t depth)
{
    json_text key;
    json_value value;

    while (!reader->failed && (reader->given_open || reader->depth > depth)) {
        if (reader->given_open)
            json_read_enter(reader, false);
        else
            step(reader, &key, &value);
    }
    return !reader->failed;
}

/* ---- The interface --------------------------------------------------------------------------- */

struct json_reader *json_reader_new(void)
{
    json_reader *reader = new (std::nothrow) json_reader();

    if (reader == nullptr)
        return nullptr;
    reader->failed = true; /* until there is a document */
    reader->first_id = 1;
    if (getrandom(&reader->seed, sizeof reader->seed, 0) != sizeof reader->seed)
        reader->seed = reinterpret_cast<uintptr_t>(reader);
    return reader;
}

void json_reader_free(struct json_reader *reader)
{
    if (reader == nullptr)
        return;
    std::free(reader->copy);
    std::free(reader->seen);
    delete reader;
}

void json_reader_trim(struct json_reader *reader, size_t bytes)
{
    reader->failed = true; /* until there is a document */
    if (reader->parser.capacity() > bytes)
        reader->parser = ondemand::parser();
    if (reader->copy_bytes > bytes + JSON_PADDING) {
        std::free(reader->copy);
        reader->copy = nullptr;
        reader->copy_bytes = 0;
    }
}

/* At least doubles, so that lines which grow byte by byte do not allocate each time. */
static size_t grown(size_t now, size_t needed)
{
    return needed > now * 2 ? needed : now * 2;
}

static bool json_read_copy_text(json_reader *reader, const char *text, size_t bytes)
{
    if (reader->copy_bytes < bytes + JSON_PADDING) {
        size_t bigger = grown(reader->copy_bytes, bytes + JSON_PADDING);
        void *copy = std::calloc(bigger, 1);
        if (copy == nullptr)
            return json_read_no_memory(reader, 0);
        std::free(reader->copy);
        reader->copy = static_cast<char *>(copy);
        reader->copy_bytes = bigger;
    }
    if (bytes > 0)
        std::memcpy(reader->copy, text, bytes);
    reader->copy[bytes] = '\n';
    reader->text = reader->copy;
    return true;
}

static bool find_tokens(json_reader *reader)
{
    simdjson::error_code error = simdjson::SUCCESS;
    size_t capacity = reader->parser.capacity();
    size_t most = reader->parser.max_capacity();

    if (capacity < reader->bytes && reader->bytes <= most) {
        size_t bigger = grown(capacity, reader->bytes < 1024 ? 1024 : reader->bytes);
        error = reader->parser.allocate(bigger < most ? bigger : most);
    }
    if (!error)
        error = reader->parser.iterate(reader->text, reader->bytes, reader->bytes + JSON_PADDING)
                    .get(reader->document);
    return error ? fail_tokens(reader, error) : true;
}

bool json_begin(struct json_reader *reader, const char *text, size_t bytes, size_t readable,
                struct json_value *root)
{
    ondemand::json_type type;

    *root = {};
    reader->failed = false;
    reader->text = text;
    reader->bytes = bytes;
    reader->depth = 0;
    reader->number_end = 0;
    reader->given_open = false;
    reader->first_id = reader->last_id + 1;
    reader->n_seen = 0;
    /* simdjson takes the byte behind for a token when brackets do not match, and may then name
     * another error. What is said about a document must not depend on what is behind it. */
    bool roomy = readable >= bytes && readable - bytes >= JSON_PADDING;
    if (!roomy || std::memchr(",]}", text[bytes], 3) != nullptr)
        if (!json_read_copy_text(reader, text, bytes))
            return false;
    if (!find_tokens(reader))
        return false;

    root->offset = location(reader);
    if (reader->document.type().get(type) ||
        (type != ondemand::json_type::object && type != ondemand::json_type::array))
        return json_read_fail(reader, root->offset, "neither an object nor an array");
    root->kind = type == ondemand::json_type::object ? JSON_OBJECT : JSON_ARRAY;
    reader->given_kind = root->kind;
    reader->given_open = true;
    return true;
}

bool json_enter(struct json_reader *reader)
{
    return json_read_enter(reader, true);
}

bool json_next(struct json_reader *reader, struct json_text *key, struct json_value *value)
{
    *key = {"", 0};
    if (reader->failed || reader->depth == 0 || !pass_over(reader, reader->depth))
        return false;
    return step(reader, key, value);
}

size_t json_here(struct json_reader *reader)
{
    return std::max(location(reader), reader->number_end);
}

bool json_leave(struct json_reader *reader)
{
    return pass_over(reader, reader->depth > 0 ? reader->depth - 1 : 0);
}

bool json_end(struct json_reader *reader)
{
    const char *at = nullptr;

    if (!pass_over(reader, 0))
        return false;
    if (reader->document.current_location().get(at) != simdjson::OUT_OF_BOUNDS)
        return json_read_fail(reader, location(reader), "something follows the end");
    return true;
}

const struct json_problem *json_reader_problem(const struct json_reader *reader)
{
    return reader->failed ? &reader->problem : nullptr;
}

const char *json_kind_name(enum json_kind kind)
{
    switch (kind) {
    case JSON_NULL:
        return "null";
    case JSON_BOOL:
        return "a boolean";
    case JSON_INTEGER:
    case JSON_DOUBLE:
    case JSON_HUGE:
        return "a number";
    case JSON_STRING:
        return "a string";
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    }
    return "nothing";
}
