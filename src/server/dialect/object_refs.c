/* object_refs.c - ids that a request names. See object_refs.h. */
#include "server/dialect/object_refs.h"

#include <string.h>

#include "server/dialect/ask.h"

/* ---- Keys ---- */

enum { KEY_MAX = 40 };

static bool is_among(const char *key, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(key, *words) == 0)
            return true;
    return false;
}

static bool ends_with(const char *key, size_t n, const char *end)
{
    size_t bytes = strlen(end);

    return n > bytes && strcmp(key + n - bytes, end) == 0;
}

/* In lower case, as some providers read keys in any. False: none that we know is so long. */
static bool fold_key(struct slice key, char text[KEY_MAX])
{
    if (key.n >= KEY_MAX)
        return false;
    for (size_t i = 0; i < key.n; i++)
        text[i] = (char)(key.at[i] >= 'A' && key.at[i] <= 'Z' ? key.at[i] + 32 : key.at[i]);
    text[key.n] = '\0';
    return strlen(text) == key.n;
}

static bool names_objects(struct slice key, bool any)
{
    static const char *const objects[] = {"file_id",
                                          "file_ids",
                                          "input_file_id",
                                          "training_file",
                                          "conversation",
                                          "validation_file",
                                          "container",
                                          "previous_response_id",
                                          "container_id",
                                          "conversation_id",
                                          "vector_store_id",
                                          "vector_store_ids",
                                          "assistant_id",
                                          "thread_id",
                                          "response_id",
                                          "batch_id",
                                          "run_id",
                                          "upload_id",
                                          "part_ids",
                                          "job_id",
                                          "video_id",
                                          "eval_id",
                                          NULL};
    static const char *const others[] = {"custom_id",  "call_id",    "tool_call_id", "tool_use_id",
                                         "user_id",    "session_id", "client_id",    "trace_id",
                                         "request_id", "prompt_id",  "model_id",     "skill_id",
                                         "voice_id",   NULL};
    char text[KEY_MAX];

    /* A part of a form may be a list: "file_ids[]". */
    if (key.n > 2 && memcmp(key.at + key.n - 2, "[]", 2) == 0)
        key.n -= 2;
    if (!fold_key(key, text))
        return any && key.n >= 3 && memcmp(key.at + key.n - 3, "_id", 3) == 0;
    if (is_among(text, objects))
        return true;
    return any && !is_among(text, others) &&
           (ends_with(text, key.n, "_id") || ends_with(text, key.n, "_ids"));
}

/* What callers fill with words of their own. The arguments of a tool's call are an object, and the
 * input of a call, at its top, never is. */
static bool is_free(struct slice key, bool object, bool at_top)
{
    static const char *const words[] = {"metadata",   "schema",       "json_schema", "parameters",
                                        "properties", "input_schema", NULL};
    char text[KEY_MAX];

    if (!object || !fold_key(key, text))
        return false;
    return is_among(text, words) ||
           (!at_top && (strcmp(text, "input") == 0 || strcmp(text, "arguments") == 0));
}

static bool tell(const struct object_watch *watch, struct slice id, bool named)
{
    if (id.n == 0 || id.n > OBJECT_ID_MAX)
        return true;
    return watch->seen(watch->context, id, named && object_is_id(id));
}

/* ---- JSON ---- */

struct level {
    bool array;
    bool named; /* array: its texts are ids; object: its `id` is one */
    bool free;
};

/* `top` is the level at which fields of a call are. */
static enum object_refs watch_json(struct json_reader *reader, struct slice body, size_t readable,
                                   size_t values, size_t top, const struct object_watch *watch)
{
    struct level levels[JSON_DEPTH_MAX + 1];
    struct json_value value;
    struct json_text key;
    size_t depth = 0;

    if (json_begin(reader, body.at, body.n, readable, &value) && json_enter(reader))
        levels[++depth] = (struct level){.array = value.kind == JSON_ARRAY};
    while (depth > 0) {
        struct level *level = &levels[depth];
        if (!json_next(reader, &key, &value)) {
            depth--;
            continue;
        }
        if (values-- == 0)
            return OBJECT_REFS_TOO_MANY;
        struct slice name = {key.bytes, key.size};
        bool named = level->array ? level->named
                                  : names_objects(name, watch->any) ||
                                        (level->named && slice_equal(name, SLICE("id")));
        bool object = value.kind == JSON_OBJECT, array = value.kind == JSON_ARRAY;
        bool is_free_here =
            level->free || (!level->array && is_free(name, object || array, depth <= top));
        if (value.kind == JSON_STRING &&
            !tell(watch, (struct slice){value.string.bytes, value.string.size},
                  named && !is_free_here))
            return OBJECT_REFS_STOPPED;
        if ((object || array) && depth < JSON_DEPTH_MAX && json_enter(reader))
            levels[++depth] = (struct level){.array = array, .named = named, .free = is_free_here};
    }
    if (json_end(reader))
        return OBJECT_REFS_FINE;
    return json_reader_problem(reader)->no_memory ? OBJECT_REFS_NO_MEMORY : OBJECT_REFS_MALFORMED;
}

enum object_refs object_refs_json(struct json_reader *reader, const char *body, size_t n,
                                  size_t readable, size_t values, const struct object_watch *watch)
{
    return watch_json(reader, (struct slice){body, n}, readable, values, 1, watch);
}

/* ---- Forms ---- */

static struct slice trim(struct slice text)
{
    while (text.n > 0 && (text.at[0] == ' ' || text.at[0] == '\t'))
        text.at++, text.n--;
    while (text.n > 0 && (text.at[text.n - 1] == ' ' || text.at[text.n - 1] == '\t'))
        text.n--;
    return text;
}

/* The value of `; name=value`, perhaps in quotes. False: it is not there, or twice. */
static bool find_parameter(struct slice text, const char *name, struct slice *value)
{
    size_t found = 0, bytes = strlen(name);
    bool quoted = false;

    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] == '"')
            quoted = !quoted;
        else if (text.at[i] == '\\' && quoted)
            i++;
        if (quoted || text.at[i] != ';')
            continue;
        struct slice rest = trim((struct slice){text.at + i + 1, text.n - i - 1});
        if (rest.n <= bytes || rest.at[bytes] != '=' ||
            !slice_equal_nocase((struct slice){rest.at, bytes}, (struct slice){name, bytes}))
            continue;
        rest = (struct slice){rest.at + bytes + 1, rest.n - bytes - 1};
        if (rest.n > 0 && rest.at[0] == '"') {
            const char *end = memchr(rest.at + 1, '"', rest.n - 1);
            if (end == NULL)
                return false;
            *value = (struct slice){rest.at + 1, (size_t)(end - rest.at - 1)};
        } else {
            const char *end = memchr(rest.at, ';', rest.n);
            *value = trim((struct slice){rest.at, end != NULL ? (size_t)(end - rest.at) : rest.n});
        }
        found++;
    }
    return found == 1;
}

/* Takes a line off, without its end. */
static bool next_line(struct slice *rest, struct slice *line)
{
    const char *end = rest->n > 0 ? memchr(rest->at, '\n', rest->n) : NULL;

    if (end == NULL)
        return false;
    *line = (struct slice){rest->at, (size_t)(end - rest->at)};
    *rest = (struct slice){end + 1, rest->n - line->n - 1};
    if (line->n > 0 && line->at[line->n - 1] == '\r')
        line->n--;
    return true;
}

struct form {
    const struct object_watch *watch;
    struct slice file; /* the last one */
    size_t files;
    bool is_batch;
};

/* One part: its head, a blank line, its bytes. */
static enum object_refs take_part(struct form *form, struct slice part)
{
    static const char disposition[] = "content-disposition:";
    const size_t bytes = sizeof disposition - 1;
    struct slice line, name = {NULL, 0}, file;
    bool is_file = false;

    for (;;) {
        if (!next_line(&part, &line))
            return OBJECT_REFS_MALFORMED;
        if (line.n == 0)
            break;
        if (line.n <= bytes ||
            !slice_equal_nocase((struct slice){line.at, bytes}, (struct slice){disposition, bytes}))
            continue;
        if (name.at != NULL || !find_parameter(line, "name", &name))
            return OBJECT_REFS_MALFORMED;
        is_file =
            find_parameter(line, "filename", &file) || find_parameter(line, "filename*", &file);
    }
    if (name.at == NULL)
        return OBJECT_REFS_MALFORMED;
    if (is_file) {
        form->file = part;
        form->files++;
    } else if (slice_equal_nocase(name, SLICE("purpose"))) {
        form->is_batch |= slice_equal_nocase(trim(part), SLICE("batch"));
    }
    return tell(form->watch, trim(part), !is_file && names_objects(name, form->watch->any))
               ? OBJECT_REFS_FINE
               : OBJECT_REFS_STOPPED;
}

enum { BOUNDARY_MAX = 80 };

static const char *find_mark(const char *at, const char *end, const char *mark, size_t n)
{
    for (; (size_t)(end - at) >= n; at++) {
        at = memchr(at, mark[0], (size_t)(end - at) - n + 1);
        if (at == NULL)
            return NULL;
        if (memcmp(at, mark, n) == 0)
            return at;
    }
    return NULL;
}

static enum object_refs take_parts(struct form *form, struct slice type, const char *body, size_t n)
{
    char mark[BOUNDARY_MAX + 4];
    struct slice boundary;
    const char *at = body, *end = body + n;

    if (!find_parameter(type, "boundary", &boundary) || boundary.n == 0 ||
        boundary.n > BOUNDARY_MAX)
        return OBJECT_REFS_MALFORMED;
    /* "\r\n--boundary"; before the first one the line's end may be missing. */
    memcpy(mark, "\r\n--", 4);
    memcpy(mark + 4, boundary.at, boundary.n);
    const size_t mark_n = boundary.n + 4;
    if (n < mark_n - 2 || memcmp(at, mark + 2, mark_n - 2) != 0)
        return OBJECT_REFS_MALFORMED;
    at += mark_n - 2;
    for (;;) {
        if (end - at >= 2 && memcmp(at, "--", 2) == 0) {
            /* Some readers do not take a mark with more behind it for the end, and read on. */
            for (at += 2; at < end; at++)
                if (memchr(" \t\r\n", *at, 4) == NULL)
                    return OBJECT_REFS_MALFORMED;
            return OBJECT_REFS_FINE;
        }
        if (end - at < 2 || memcmp(at, "\r\n", 2) != 0)
            return OBJECT_REFS_MALFORMED;
        at += 2;
        const char *next = find_mark(at, end, mark, mark_n);
        if (next == NULL)
            return OBJECT_REFS_MALFORMED;
        enum object_refs refs = take_part(form, (struct slice){at, (size_t)(next - at)});
        if (refs != OBJECT_REFS_FINE)
            return refs;
        at = next + mark_n;
    }
}

/* Keys are those of calls of models, as in the body of such a call. */
static enum object_refs take_lines(struct json_reader *reader, struct slice lines, const char *end,
                                   size_t values, const struct object_watch *all)
{
    struct object_watch watch = *all;
    enum object_refs refs = OBJECT_REFS_FINE;
    struct slice line;

    watch.any = false;
    if (lines.n >= 3 && memcmp(lines.at, "\xef\xbb\xbf", 3) == 0)
        lines = (struct slice){lines.at + 3, lines.n - 3};
    while (refs == OBJECT_REFS_FINE && lines.n > 0) {
        if (!next_line(&lines, &line)) {
            line = lines;
            lines.n = 0;
        }
        if (trim(line).n > 0)
            refs = watch_json(reader, line, (size_t)(end - line.at), values, 2, &watch);
    }
    return refs;
}

enum object_refs object_refs_form(struct json_reader *reader, struct slice type, const char *body,
                                  size_t n, size_t readable, size_t values,
                                  const struct object_watch *watch)
{
    struct form form = {.watch = watch};
    enum object_refs refs = take_parts(&form, type, body, n);

    if (refs != OBJECT_REFS_FINE || !form.is_batch || form.files == 0)
        return refs;
    if (form.files > 1) /* nobody here knows which one the provider takes */
        return OBJECT_REFS_MALFORMED;
    return take_lines(reader, form.file, body + readable, values, watch);
}

/* ---- Queries ---- */

enum { QUERY_TEXT = 3 * OBJECT_ID_MAX }; /* the longest that an id may take, escaped */

/* A plus sign is a blank, and %2B a plus sign: so blanks come first. */
static bool unescape(struct slice part, char text[QUERY_TEXT], struct slice *to)
{
    char blanks[QUERY_TEXT];
    size_t n = 0;

    if (part.n > sizeof blanks)
        return false;
    for (size_t i = 0; i < part.n; i++)
        blanks[i] = part.at[i] == '+' ? ' ' : part.at[i];
    if (!endpoint_unescape((struct slice){blanks, part.n}, text, QUERY_TEXT, &n))
        return false;
    *to = (struct slice){text, n};
    return true;
}

enum object_refs object_refs_query(struct slice query, const struct object_watch *watch)
{
    while (query.n > 0) {
        const char *and = memchr(query.at, '&', query.n);
        struct slice pair = {query.at, and != NULL ? (size_t)(and-query.at) : query.n};
        const char *is = pair.n > 0 ? memchr(pair.at, '=', pair.n) : NULL;
        struct slice name = {pair.at, is != NULL ? (size_t)(is - pair.at) : pair.n};
        struct slice value = {NULL, 0};
        char names[QUERY_TEXT], values[QUERY_TEXT];
        if (is != NULL)
            value = (struct slice){is + 1, pair.n - name.n - 1};
        query = and != NULL ? (struct slice){and+1, query.n - pair.n - 1} : (struct slice){NULL, 0};
        /* What is too long is no id, and what is badly escaped has no one reading. */
        if (name.n > sizeof names)
            name.n = 0;
        else if (!unescape(name, names, &name))
            return OBJECT_REFS_MALFORMED;
        if (value.n > QUERY_TEXT)
            continue;
        if (!unescape(value, values, &value))
            return OBJECT_REFS_MALFORMED;
        if (!tell(watch, value, names_objects(name, watch->any)))
            return OBJECT_REFS_STOPPED;
    }
    return OBJECT_REFS_FINE;
}
