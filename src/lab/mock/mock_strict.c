/* mock_strict.c - what the real providers refuse, for scripts that say `strict`.
 *
 * A translation that sends a conversation in an order that its provider does not take would pass a
 * mock that takes everything. So here are the rules of each API about members, roles, the order of
 * turns, calls and their results, and signatures, as they were seen in the providers' own errors.
 * The gateway's readers are not used, so that no mistake is shared.
 *
 * A message is read whole before it is judged, because its members come in any order.
 */
#include "lab/mock/mock_strict.h"

#include <string.h>

#define IDS_MAX 32

/* A message of any API; an item of responses is one of its own. */
struct turn {
    struct json_text role, type, first_part, id;
    struct json_text calls[IDS_MAX], results[IDS_MAX]; /* ids; of Gemini the names */
    size_t n_calls, n_results, n_texts, n_parts;
    bool content;                  /* there is some */
    bool thinks, unsigned_thought; /* it has what was thought, and a signature that is not ours */
    bool unsigned_call;            /* Gemini: the first call has no signature */
    bool empty_text, late_result;  /* a text of no bytes; a result behind something else */
    bool bad_part, bad_name;       /* its kind, its name or its shape is not known */
};

struct strict {
    struct json_reader *reader;
    const char *problem;
    const char *kinds; /* what parts may be; null: Gemini's have no kind */
    struct turn before, now;
    bool any, reasoned; /* a turn was there; responses: the item before was reasoning */
    bool bound, tools, choice, forced, parallel, stream, stream_options, thinking, sampled;
    bool open_thought;  /* Anthropic: the last turn of the model called without having thought */
    bool unsigned_step; /* Gemini: a step since the user's last word is not signed */
    struct json_text open[IDS_MAX]; /* ids of calls whose result has not come */
    size_t n_open;
};

static void refuse(struct strict *strict, const char *problem)
{
    if (strict->problem == NULL)
        strict->problem = problem;
}

static bool is_one_of(struct json_text text, const char *words)
{
    for (const char *at = words; *at != '\0';) {
        size_t n = strcspn(at, " ");
        if (text.size == n && memcmp(text.bytes, at, n) == 0)
            return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

static bool has_class(struct json_text text, size_t most)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.bytes[i] == '\0' ||
            strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
                   text.bytes[i]) == NULL)
            return false;
    return text.size > 0 && text.size <= most;
}

/* What mock_signature() makes. */
static bool is_signature(struct json_text text)
{
    return text.size == 20 && memcmp(text.bytes, "c2ln", 4) == 0;
}

static bool same(struct json_text a, struct json_text b)
{
    return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

static void add(struct json_text list[IDS_MAX], size_t *n, struct json_text id)
{
    if (*n < IDS_MAX)
        list[(*n)++] = id;
}

static bool holds(const struct json_text list[IDS_MAX], size_t n, struct json_text id)
{
    for (size_t i = 0; i < n; i++)
        if (same(list[i], id))
            return true;
    return false;
}

/* Every call of `a` has a result in `b`, each once, and there are no others. */
static bool pairs(const struct turn *a, const struct turn *b)
{
    if (a->n_calls != b->n_results)
        return false;
    for (size_t i = 0; i < a->n_calls; i++)
        if (!holds(b->results, b->n_results, a->calls[i]))
            return false;
    return true;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* A part of a message: the members that are judged. */
struct part {
    struct json_text type, id, name, text, signature;
    bool has_text, call, result, known, thought, object;
};

/* The members of functionCall, functionResponse, or a call's function. */
static void read_inner(struct strict *strict, struct part *part)
{
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value))
        if (json_text_is(key, "name") && value.kind == JSON_STRING)
            part->name = value.string;
        else if (json_text_is(key, "response") || json_text_is(key, "args"))
            part->object = value.kind == JSON_OBJECT;
}

static void mock_strict_read_part(struct strict *strict, struct part *part)
{
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value)) {
        bool text = value.kind == JSON_STRING;

        part->known |= is_one_of(key, "text inlineData fileData");
        part->call |= json_text_is(key, "functionCall");
        part->result |= json_text_is(key, "functionResponse");
        if (json_text_is(key, "type") && text)
            part->type = value.string;
        else if (is_one_of(key, "id tool_use_id") && text)
            part->id = value.string;
        else if (is_one_of(key, "signature thoughtSignature") && text)
            part->signature = value.string;
        else if (json_text_is(key, "name") && text)
            part->name = value.string;
        else if (json_text_is(key, "thought"))
            part->thought = value.kind == JSON_BOOL && value.boolean;
        else if (json_text_is(key, "text") && text) {
            part->has_text = true;
            part->text = value.string;
        } else if (is_one_of(key, "functionCall functionResponse function") &&
                   value.kind == JSON_OBJECT && json_enter(strict->reader))
            read_inner(strict, part);
    }
}

static void take_gemini_part(struct turn *turn, const struct part *part)
{
    bool skips = json_text_is(part->signature, "skip_thought_signature_validator");

    turn->bad_part |= !part->known && !part->call && !part->result;
    turn->n_texts += !part->call && !part->result && !part->thought;
    if (part->call) {
        if (turn->n_calls == 0)
            turn->unsigned_call = !skips && !is_signature(part->signature);
        turn->bad_part |= part->name.size == 0;
        add(turn->calls, &turn->n_calls, part->name);
    }
    if (part->result) {
        turn->bad_part |= !part->object || part->name.size == 0;
        add(turn->results, &turn->n_results, part->name);
    }
}

static void take_part(struct turn *turn, const struct part *part, const char *kinds)
{
    if (turn->n_parts++ == 0)
        turn->first_part = part->type;
    turn->empty_text |= part->has_text && part->text.size == 0;
    turn->n_texts += part->has_text;
    if (is_one_of(part->type, "thinking redacted_thinking")) {
        turn->thinks = true;
        turn->unsigned_thought |=
            json_text_is(part->type, "thinking") && !is_signature(part->signature);
    } else if (json_text_is(part->type, "tool_use") && is_one_of(part->type, kinds)) {
        turn->bad_name |= !has_class(part->id, 256) || !has_class(part->name, 128);
        add(turn->calls, &turn->n_calls, part->id);
    } else if (json_text_is(part->type, "tool_result") && is_one_of(part->type, kinds)) {
        turn->late_result |= turn->n_parts != turn->n_results + 1;
        add(turn->results, &turn->n_results, part->id);
    } else {
        turn->bad_part |= !is_one_of(part->type, kinds);
    }
}

static void read_parts(struct strict *strict, struct turn *turn)
{
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value)) {
        struct part part = {.type = {"", 0}, .id = {"", 0}, .name = {"", 0}, .signature = {"", 0}};
        if (value.kind != JSON_OBJECT || !json_enter(strict->reader)) {
            turn->bad_part = true;
            continue;
        }
        mock_strict_read_part(strict, &part);
        if (strict->kinds == NULL)
            take_gemini_part(turn, &part);
        else
            take_part(turn, &part, strict->kinds);
    }
}

static void read_calls(struct strict *strict, struct turn *turn)
{
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value)) {
        struct part part = {.id = {"", 0}, .name = {"", 0}};
        if (value.kind != JSON_OBJECT || !json_enter(strict->reader))
            continue;
        mock_strict_read_part(strict, &part);
        turn->bad_name |= part.id.size == 0;
        add(turn->calls, &turn->n_calls, part.id);
    }
}

static void read_turn(struct strict *strict, struct turn *turn)
{
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value)) {
        bool text = value.kind == JSON_STRING, list = value.kind == JSON_ARRAY;

        if (json_text_is(key, "role") && text)
            turn->role = value.string;
        else if (json_text_is(key, "type") && text)
            turn->type = value.string;
        else if (is_one_of(key, "tool_call_id call_id") && text)
            turn->id = value.string;
        else if (json_text_is(key, "encrypted_content") && text)
            turn->unsigned_thought = !is_signature(value.string);
        else if (json_text_is(key, "content") && text)
            turn->content = true, turn->empty_text = value.string.size == 0, turn->n_texts = 1;
        else if (is_one_of(key, "content parts") && list && json_enter(strict->reader)) {
            read_parts(strict, turn);
            turn->content = true;
        } else if (json_text_is(key, "tool_calls") && list && json_enter(strict->reader))
            read_calls(strict, turn);
        else if (is_one_of(key, "refusal audio function_call"))
            turn->content |= value.kind != JSON_NULL;
    }
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void judge_chat(struct strict *strict)
{
    const struct turn *turn = &strict->now;

    if (!is_one_of(turn->role, "system developer user assistant tool function"))
        refuse(strict, "Invalid value of 'role': supported are 'system', 'assistant', 'user', "
                       "'function', 'tool', and 'developer'.");
    if (turn->bad_part || turn->bad_name)
        refuse(strict, "Invalid value in 'messages'.");
    if (!turn->content && turn->n_calls == 0)
        refuse(strict, "Invalid value for 'content': expected a string, got null.");
    if (json_text_is(turn->role, "tool")) {
        if (!holds(strict->open, strict->n_open, turn->id))
            refuse(strict, "Invalid parameter: messages with role 'tool' must be a response to a "
                           "preceeding message with 'tool_calls'.");
        for (size_t i = 0; i < strict->n_open; i++)
            if (same(strict->open[i], turn->id))
                strict->open[i] = strict->open[--strict->n_open];
        return;
    }
    if (strict->n_open > 0)
        refuse(strict, "An assistant message with 'tool_calls' must be followed by tool messages "
                       "responding to each 'tool_call_id'.");
    strict->n_open = 0;
    for (size_t i = 0; i < turn->n_calls; i++)
        add(strict->open, &strict->n_open, turn->calls[i]);
}

static void judge_item(struct strict *strict)
{
    const struct turn *turn = &strict->now;
    bool message = turn->type.size == 0 || json_text_is(turn->type, "message");
    bool model = json_text_is(turn->role, "assistant");
    bool call = is_one_of(turn->type, "function_call custom_tool_call");
    bool thought = json_text_is(turn->type, "reasoning");

    if (strict->reasoned && !call && !thought && !(message && model))
        refuse(strict, "Item of type 'reasoning' was provided without its required following "
                       "item.");
    strict->reasoned = thought;
    if (message && !is_one_of(turn->role, "user assistant system developer"))
        refuse(strict, "Invalid value of 'role' in 'input'.");
    if (message && model && turn->n_parts > 0 &&
        !is_one_of(turn->first_part, "output_text refusal"))
        refuse(strict, "Invalid value: supported values are: 'output_text' and 'refusal'.");
    if (message && !model && is_one_of(turn->first_part, "output_text refusal"))
        refuse(strict, "Invalid value: supported values are: 'input_text', 'input_image', and "
                       "'input_file'.");
    if (turn->bad_part || (message && !turn->content))
        refuse(strict, "Invalid value in 'input'.");
    if (thought && turn->unsigned_thought)
        refuse(strict, "The encrypted content could not be verified.");
    if (call)
        add(strict->open, &strict->n_open, turn->id);
    if (!is_one_of(turn->type, "function_call_output custom_tool_call_output"))
        return;
    if (!holds(strict->open, strict->n_open, turn->id))
        refuse(strict, "No tool call found for function call output with this call_id.");
    for (size_t i = 0; i < strict->n_open; i++)
        if (same(strict->open[i], turn->id))
            strict->open[i] = strict->open[--strict->n_open];
}

static void judge_message(struct strict *strict)
{
    const struct turn *turn = &strict->now, *before = &strict->before;
    bool model = json_text_is(turn->role, "assistant");

    if (!is_one_of(turn->role, "user assistant"))
        refuse(strict, "messages: role: Input should be 'user' or 'assistant'");
    if (!strict->any && model)
        refuse(strict, "messages: first message must use the \"user\" role");
    if (strict->any && same(turn->role, before->role))
        refuse(strict, "messages: roles must alternate between \"user\" and \"assistant\"");
    if (turn->bad_part || !turn->content)
        refuse(strict, "messages: content: Input does not match any of the expected tags");
    if (turn->bad_name)
        refuse(strict, "messages: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'");
    if (turn->empty_text)
        refuse(strict, "messages: text content blocks must be non-empty");
    if (turn->unsigned_thought)
        refuse(strict, "messages: Invalid `signature` in `thinking` block");
    if (turn->late_result)
        refuse(strict, "messages: `tool_result` blocks must come first");
    if (!model && strict->any && !pairs(before, turn))
        refuse(strict, "messages: each `tool_use` block must have a corresponding `tool_result` "
                       "block in the next message, and no other");
    if (!model && !strict->any && turn->n_results > 0)
        refuse(strict, "messages: unexpected `tool_use_id` found in `tool_result` blocks");
    if (model)
        strict->open_thought =
            turn->n_calls > 0 && !is_one_of(turn->first_part, "thinking redacted_thinking");
    else if (turn->n_results == 0)
        strict->open_thought = false;
}

static void judge_content(struct strict *strict)
{
    const struct turn *turn = &strict->now, *before = &strict->before;
    bool model = json_text_is(turn->role, "model");

    if (!is_one_of(turn->role, "user model"))
        refuse(strict, "Please use a valid role: user, model.");
    if (!strict->any && model)
        refuse(strict, "Please ensure that multiturn requests begin with a user turn.");
    if (turn->bad_part || !turn->content)
        refuse(strict, "Invalid value at 'contents': a part must have one initialized field.");
    if ((before->n_calls > 0 || turn->n_results > 0) && !pairs(before, turn))
        refuse(strict, "Please ensure that the number of function response parts is equal to the "
                       "number of function call parts of the function call turn.");
    if (turn->n_calls > 0 && turn->unsigned_call)
        strict->unsigned_step = true;
    if (!model && turn->n_results == 0)
        strict->unsigned_step = false;
}

static void read_turns(struct strict *strict, void (*judge)(struct strict *))
{
    static const struct turn none = {
        .role = {"", 0}, .type = {"", 0}, .first_part = {"", 0}, .id = {"", 0}};
    struct json_text key;
    struct json_value value;

    strict->before = none;
    while (json_next(strict->reader, &key, &value)) {
        strict->now = none;
        if (value.kind != JSON_OBJECT || !json_enter(strict->reader)) {
            refuse(strict, "A message must be an object.");
            continue;
        }
        read_turn(strict, &strict->now);
        judge(strict);
        strict->before = strict->now;
        strict->any = true;
    }
}

/* ---- The body -------------------------------------------------------------------------------- */

/* Members of the body, and the words for one that is not there. */
static const struct api {
    const char *turns, *kinds, *members, *unknown;
    void (*judge)(struct strict *);
} apis[] = {
    [MOCK_CHAT] = {"messages", "text image_url input_audio file refusal",
                   "messages model audio frequency_penalty function_call functions logit_bias "
                   "logprobs max_completion_tokens max_tokens metadata modalities moderation n "
                   "parallel_tool_calls prediction presence_penalty prompt_cache_key "
                   "prompt_cache_options prompt_cache_retention reasoning_effort response_format "
                   "safety_identifier seed service_tier stop store stream stream_options "
                   "temperature tool_choice tools top_logprobs top_p user verbosity "
                   "web_search_options",
                   "Unrecognized request argument supplied", judge_chat},
    [MOCK_RESPONSES] =
        {"input",
         "input_text input_image input_file input_audio output_text refusal reasoning_text",
         "background context_management conversation include input instructions "
         "max_output_tokens max_tool_calls metadata model moderation "
         "parallel_tool_calls previous_response_id prompt prompt_cache_key "
         "prompt_cache_options prompt_cache_retention reasoning safety_identifier "
         "service_tier store stream stream_options temperature text tool_choice "
         "tools top_logprobs top_p truncation user",
         "Unknown parameter", judge_item},
    [MOCK_MESSAGES] = {"messages", "text image document search_result tool_use tool_result",
                       "cache_control container inference_geo max_tokens messages metadata model "
                       "output_config service_tier speed stop_sequences stream system temperature "
                       "thinking tool_choice tools top_k top_p",
                       "Extra inputs are not permitted", judge_message},
    [MOCK_GENERATE] = {"contents", NULL,
                       "cachedContent contents generationConfig labels safetySettings serviceTier "
                       "store systemInstruction toolConfig tools",
                       "Invalid JSON payload received. Unknown name: Cannot find field.",
                       judge_content},
};

static const char generation[] =
    "candidateCount enableEnhancedCivicAnswers frequencyPenalty imageConfig logprobs "
    "maxOutputTokens mediaResolution presencePenalty responseJsonSchema responseLogprobs "
    "responseMimeType responseModalities responseSchema seed speechConfig stopSequences "
    "temperature thinkingConfig topK topP";

/* The older form of schemas has a few names alone. */
static void judge_schema(struct strict *strict)
{
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value)) {
        if (is_one_of(key, "$schema $ref $defs const additionalProperties oneOf allOf not "
                           "exclusiveMinimum propertyNames"))
            refuse(strict, apis[MOCK_GENERATE].unknown);
        if ((value.kind == JSON_OBJECT || value.kind == JSON_ARRAY) && json_enter(strict->reader))
            judge_schema(strict);
    }
}

/* What stands in tools, generationConfig and the choice of a tool, as far as it is judged. */
static void read_below(struct strict *strict, struct json_text of, enum mock_endpoint endpoint)
{
    bool gemini = endpoint == MOCK_GENERATE;
    struct json_text key;
    struct json_value value;

    while (json_next(strict->reader, &key, &value)) {
        bool below = value.kind == JSON_OBJECT || value.kind == JSON_ARRAY;

        if (json_text_is(of, "generationConfig") && !is_one_of(key, generation))
            refuse(strict, apis[MOCK_GENERATE].unknown);
        if (json_text_is(of, "tool_choice") && value.kind == JSON_STRING)
            strict->forced |= json_text_is(key, "type") && is_one_of(value.string, "any tool");
        if (json_text_is(of, "thinking") && json_text_is(key, "type"))
            strict->thinking = value.kind == JSON_STRING && !json_text_is(value.string, "disabled");
        if (json_text_is(of, "tools") && json_text_is(key, "name") && value.kind == JSON_STRING &&
            !has_class(value.string, gemini ? 128 : 64) && !gemini)
            refuse(strict, "Invalid name of a tool: it must match '^[a-zA-Z0-9_-]{1,64}$'.");
        if (gemini && json_text_is(key, "parameters") && below && json_enter(strict->reader))
            judge_schema(strict);
        else if (is_one_of(key, "parameters input_schema parametersJsonSchema"))
            continue;
        else if (json_text_is(of, "tools") && below && json_enter(strict->reader))
            read_below(strict, of, endpoint);
    }
}

static void mock_strict_read_member(struct strict *strict, struct json_text key,
                                    const struct json_value *value, enum mock_endpoint endpoint)
{
    const struct api *api = &apis[endpoint];
    bool below = value->kind == JSON_OBJECT || value->kind == JSON_ARRAY;

    if (!is_one_of(key, api->members))
        refuse(strict, api->unknown);
    strict->bound |= json_text_is(key, "max_tokens");
    strict->tools |= json_text_is(key, "tools") && below;
    strict->choice |= json_text_is(key, "tool_choice");
    strict->parallel |= json_text_is(key, "parallel_tool_calls");
    strict->sampled |= is_one_of(key, "temperature top_k");
    strict->stream_options |= json_text_is(key, "stream_options");
    strict->stream |= json_text_is(key, "stream") && value->kind == JSON_BOOL && value->boolean;
    if (json_text_is(key, api->turns)) {
        strict->any |= value->kind == JSON_STRING;
        if (value->kind == JSON_ARRAY && json_enter(strict->reader))
            read_turns(strict, api->judge);
    } else if (is_one_of(key, "tools tool_choice generationConfig thinking") && below &&
               json_enter(strict->reader)) {
        read_below(strict, key, endpoint);
    }
}

/* What only the whole body shows. */
static void judge_body(struct strict *strict, enum mock_endpoint endpoint)
{
    bool chat = endpoint == MOCK_CHAT;

    if (!strict->any)
        refuse(strict, "There must be a message at least.");
    if (endpoint != MOCK_GENERATE && strict->choice && !strict->tools)
        refuse(strict, "'tool_choice' is only allowed when 'tools' are specified.");
    if (chat && strict->parallel && !strict->tools)
        refuse(strict, "'parallel_tool_calls' is only allowed when 'tools' are specified.");
    if (chat && strict->stream_options && !strict->stream)
        refuse(strict, "'stream_options' is only allowed when 'stream' is enabled.");
    if (chat && strict->n_open > 0)
        refuse(strict, "An assistant message with 'tool_calls' must be followed by tool messages "
                       "responding to each 'tool_call_id'.");
    if (endpoint == MOCK_RESPONSES && strict->n_open > 0)
        refuse(strict, "No tool output found for function call.");
    if (endpoint == MOCK_RESPONSES && strict->reasoned)
        refuse(strict, "Item of type 'reasoning' was provided without its required following "
                       "item.");
    if (endpoint == MOCK_GENERATE && strict->unsigned_step)
        refuse(strict, "Function call is missing a thought_signature in functionCall parts.");
    if (endpoint != MOCK_MESSAGES)
        return;
    if (!strict->bound)
        refuse(strict, "max_tokens: Field required");
    if (json_text_is(strict->before.role, "assistant"))
        refuse(strict, "This model does not support assistant message prefill. The conversation "
                       "must end with a user message.");
    if (strict->thinking && strict->forced)
        refuse(strict, "Thinking may not be enabled when tool_choice forces tool use.");
    if (strict->thinking && strict->sampled)
        refuse(strict, "`temperature` may only be set to 1 when thinking is enabled.");
    if (strict->thinking && strict->open_thought)
        refuse(strict, "messages: Expected `thinking` or `redacted_thinking`, but found "
                       "`tool_use`.");
}

const char *mock_strict_problem(const struct mock_ask *ask, struct json_reader *reader,
                                const char *body, size_t n, size_t readable)
{
    struct strict strict = {.reader = reader};
    struct json_text key;
    struct json_value value;

    if ((size_t)ask->endpoint >= sizeof apis / sizeof apis[0] || apis[ask->endpoint].turns == NULL)
        return NULL;
    strict.kinds = apis[ask->endpoint].kinds;
    json_begin(reader, body, n, readable, &value);
    if (value.kind == JSON_OBJECT && json_enter(reader))
        while (json_next(reader, &key, &value))
            mock_strict_read_member(&strict, key, &value, ask->endpoint);
    if (json_end(reader))
        judge_body(&strict, ask->endpoint);
    return strict.problem;
}
