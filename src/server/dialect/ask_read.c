/* ask_read.c - reads what we act on out of the body of a call, and measures its prompt.
 *
 * A limit that can be talked around is none, so what is read here must be what the provider reads:
 *
 *   - A key that comes twice in one object, at any depth, is refused: one parser takes the first,
 *     another the last. Keys are compared unescaped ("mod\u0065l" is "model").
 *   - A field that we act on and do not understand is refused; any other is none of our business.
 *   - Numbers that are whole may be written as 100.0 or 1e2; others, and those above 2^53, are
 *     refused.
 *   - A key that differs from one that is read in the case of its letters alone is refused: Go's
 *     encoding/json would take it for that one.
 *
 * Keys and values are bounded in number, so that what a reading may cost is: docs/decisions/0035.
 *
 * The whole body is walked once, by one loop with a stack of its own, and no tree is built. On its
 * way the walk measures the prompt, in one of three ways by the top-level field that it is in:
 *
 *   QUIET  what is no prompt: sampling parameters, metadata
 *   PROSE  messages, system, instructions, input: text is counted, and not the frame around it
 *          (keys, roles, ids); integers in arrays are tokens; payloads are not text
 *   DATA   tools, functions, schemas, and arguments of tool calls: counted as compact JSON, keys
 *          too, because that is about what providers show to the model
 *
 * A payload is what stands where a payload belongs (url, image_url, file_data, data, ...),
 * whatever it looks like: a "data:" URL in a text is text to the model, and counts. Images,
 * recordings and files are counted by the type of the block that they are in, when the block ends,
 * because "type" may be its last key. A document whose source is plain text is text.
 *
 * On the same way it finds what moves a bill (see ask.h): how many prompts, which tools the
 * provider runs, how large images are, what is kept in a cache. There the rule is the opposite
 * one: what could be shown to the model counts (ask.measure), also what an estimate leaves out, and
 * a type or top-level key that is unknown is reported as such.
 */
#include "server/dialect/ask_walk_internal.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* A field that the prompt depends on. The order of fields does not change it, but a client sends
 * them in the same one each time. */
static void keep_frame(struct ask_walk *walk, const struct ask_field *field,
                       const struct json_value *value)
{
    struct ask *ask = walk->ask;

    assert(ask_walk_end(walk) >= value->offset); /* its reader has walked it to its end */
    if (ask->n_frames < ASK_FRAMES)
        ask->frames[ask->n_frames] = (struct ask_frame){
            (uint32_t)value->offset, (uint32_t)(ask_walk_end(walk) - value->offset),
            (uint32_t)XXH3_64bits(field->name, strlen(field->name))};
    if (ask->n_frames <= ASK_FRAMES)
        ask->n_frames++;
}

static void walk_root(struct ask_walk *walk, const struct json_value *root)
{
    static const char *const api[] = {"messages", "system", "input", "tools", NULL};
    struct ask *ask = walk->ask;
    struct json_text key = {"", 0};
    struct json_value value;

    if (!ask_walk_push(walk, QUIET, key, root))
        return;
    while (ask_walk_next(walk, &key, &value)) {
        const struct ask_field *field = ask_field_find(ask->endpoint, key);
        walk->is_api = field != NULL && field->mode != QUIET && ask_is_one_of(key, api);
        if (field == NULL) {
            if (ask->new_key.at[0] == '\0')
                ask_word_set(&ask->new_key, key);
            ask->features |= ASK_NEW_KEY;
            ask_walk_value(walk, QUIET, &value);
            continue;
        }
        if (value.kind != JSON_NULL)
            ask->features |= field->feature;
        field->read(walk, field, &value);
        if (field->framing == FRAME && walk->n >= ASK_PREFIX_LEAST && !walk->failed)
            keep_frame(walk, field, &value);
    }
}

bool ask_read(struct json_reader *reader, enum endpoint endpoint, const char *body, size_t n,
              size_t readable, struct ask *ask, struct ask_problem *problem)
{
    return ask_read_watching(reader, ASK_VALUES_MAX, endpoint, body, n, readable, NULL, NULL, ask,
                             problem);
}

bool ask_read_watching(struct json_reader *reader, size_t values, enum endpoint endpoint,
                       const char *body, size_t n, size_t readable, const struct ask_watch *watch,
                       struct ask_seen *seen, struct ask *ask, struct ask_problem *problem)
{
    struct ask_walk walk; /* its levels are not cleared */
    struct json_value root;

    memset(&walk, 0, offsetof(struct ask_walk, levels));
    walk.reader = reader;
    walk.body = body;
    walk.n = n;
    walk.ask = ask;
    walk.problem = problem;
    walk.max_values = values;
    walk.watch = watch;
    walk.seen = seen;
    walk.given = watch != NULL ? watch->nodes : NULL;
    if (watch != NULL)
        memset(seen, 0, watch->n_fields * sizeof *seen);
    problem->too_many = problem->no_memory = false;
    memset(ask, 0, offsetof(struct ask, sizes));
    ask->endpoint = endpoint;
    ask->body_bytes = n;
    ask->max_output = ask->max_tool_calls = ask->compact_above = ask->known_tokens =
        ask->stored_tokens = -1;
    ask->choices = ask->prompts = 1;
    if (!ask_field_is_any(endpoint))
        return ask_walk_fail(&walk, "", "this endpoint takes no body");
    if (!json_begin(reader, body, n, readable, &root))
        return ask_walk_fail_json(&walk);
    if (root.kind != JSON_OBJECT)
        return ask_walk_fail(&walk, "", "the body must be an object, not %s",
                             json_kind_name(root.kind));
    ask->root_at = root.offset;
    walk_root(&walk, &root);
    if (walk.failed)
        return false;
    if (!json_end(reader))
        return ask_walk_fail_json(&walk);
    if (walk.no_bound)
        ask->max_output = -1;
    return ask->model.n > 0 || ask_walk_fail(&walk, "model", "'model' is missing");
}
