/* call_translated.c - a provider's reply in the dialect of the client.
 *
 * A stream is passed on as it comes: what one piece of it says is written at once. Its head waits
 * for the first event, like that of every stream, so that an error in its place can be tried
 * elsewhere. A whole reply is kept until its end, because its first byte may depend on the last.
 *
 * Nothing of the provider's head goes to the client: it is another API's.
 */
#include <assert.h>

#include "io/text/json_member.h"
#include "server/dialect/gemini/gemini.h"
#include "server/proxy/call_translation.h"

/* ---- the head ---- */

static void note_request_id(struct call *call, const struct http_head *head)
{
    struct slice id = http_find(head, SLICE("request-id"));

    if (id.at == NULL)
        id = http_find(head, SLICE("x-request-id"));
    if (id.at != NULL)
        report_notes_upstream_id(&call->notes, id);
}

void call_translated_head(struct call *call)
{
    struct call_translation *translation = call->translation;

    call_translated_forget(call);
    note_request_id(call, call->attempt.head);
    translation_init(&translation->translation, call->worker->reader, &translation->terms,
                     translation->client, call->ask.stream);
    translation->replying = true;
}

bool call_translated_is_lost(const struct call *call)
{
    const struct call_translation *translation = call->translation;

    return translation != NULL && translation->replying &&
           (translation->translation.reader.no_memory ||
            translation->translation.writer.no_memory ||
            translation_error(&translation->translation) != NULL);
}

/* ---- to the client ---- */

/* Begins the reply with a head of ours. */
static void begin(struct call *call, int status, bool stream, int64_t length)
{
    /* Streams of the providers have the same two; the second, so that nobody keeps them. */
    const struct http_field fields[] = {
        {SLICE("content-type"),
         stream ? SLICE("text/event-stream; charset=utf-8") : SLICE("application/json")},
        {SLICE("cache-control"), SLICE("no-cache")},
    };
    const struct http_head head = {
        .status = status, .fields = fields, .n_fields = stream ? 2 : 1, .length = length};

    call_answer_begin(call, &head);
}

bool call_translated_error(struct call *call, const struct neutral_error *error)
{
    const enum dialect client = call->api == WIRE_ANTHROPIC ? DIALECT_ANTHROPIC : DIALECT_CHAT;
    struct json_writer out;

    json_writer_init(&out);
    neutral_error_write(error, client, &out);
    bool fine = !out.text.failed;
    if (fine) {
        begin(call, neutral_error_status(error, client), false, (int64_t)out.text.size);
        call_answer_pass(call, text_out_written(&out.text));
    }
    json_writer_fini(&out);
    return fine;
}

/* ---- what the provider says ---- */

static enum call_failure failure_of(enum error_class class)
{
    switch (class) {
    case ERROR_RATE:
    case ERROR_BILLING:
        return FAILURE_LIMITED;
    case ERROR_OVERLOADED:
    case ERROR_TIMEOUT:
    case ERROR_SERVER:
        return FAILURE_SERVER;
    default:
        return FAILURE_NONE;
    }
}

/* The reply is an error, and nothing has gone to the client. */
static enum call_failure take_error(struct call *call, const struct neutral_error *error)
{
    enum call_failure failure = failure_of(error->class);

    /* What the provider does not own up to itself may have run, and be billed. */
    call->attempt.gave_up =
        error->class == ERROR_TIMEOUT || (error->type[0] == '\0' && error->code[0] == '\0');
    if (failure == FAILURE_NONE && !call_translated_error(call, error))
        return FAILURE_MEMORY;
    return failure;
}

/* What was written goes to the client. `fine`: nothing is missing for want of memory. */
static enum call_failure pass_written(struct call *call, bool fine)
{
    struct call_translation *translation = call->translation;
    const struct neutral_error *error = translation_error(&translation->translation);
    struct slice written = text_out_written(&translation->out.text);

    assert(!fine || !translation->out.text.failed);
    if (call->in == NULL)
        return FAILURE_NONE; /* it is read on for its usage */
    if (call->state == CALL_ASKING) {
        if (!fine)
            return FAILURE_MEMORY;
        if (error != NULL)
            return take_error(call, error);
        if (written.n == 0)
            return FAILURE_NONE;
        begin(call, 200, call->ask.stream, call->ask.stream ? -1 : (int64_t)written.n);
    }
    call_answer_pass(call, written);
    return FAILURE_NONE;
}

enum call_failure call_translated_data(struct call *call, struct slice bytes)
{
    struct call_translation *translation = call->translation;

    if (call->attempt.packed)
        return FAILURE_NONE;
    if (!call->attempt.events) {
        translation->lost |=
            body_buffer_add(&translation->reply, call->gateway, call->generation,
                            call->generation->shares[call->tenant], -1, bytes) != BODY_FITS;
        return FAILURE_NONE;
    }
    json_writer_clear(&translation->out);
    bool fine = translation_feed(&translation->translation, bytes.at, bytes.n, &translation->out);
    return pass_written(call, fine);
}

/* The count of a prompt's tokens. False: there is no memory. */
static bool write_count(struct call *call, struct slice body)
{
    struct call_translation *translation = call->translation;
    struct json_writer *out = &translation->out;
    int64_t tokens;

    if (!gemini_read_count(call->worker->reader, body, &tokens))
        return translation_break(&translation->translation,
                                 "The provider's reply has no count of tokens.", out);
    json_write_object(out);
    json_member_number(out, "input_tokens", tokens);
    json_write_object_end(out);
    return true;
}

enum call_failure call_translated_end(struct call *call)
{
    struct call_translation *translation = call->translation;
    struct slice whole = {translation->reply.bytes, translation->reply.n};
    bool fine;

    json_writer_clear(&translation->out);
    if (call->attempt.packed)
        fine = translation_break(
            &translation->translation,
            "The provider's reply is encoded in a form that was not asked for.", &translation->out);
    else if (call->attempt.events)
        fine = translation_end(&translation->translation, &translation->out);
    else if (translation->lost)
        fine = false;
    else if (call->endpoint == ENDPOINT_COUNT_TOKENS)
        fine = write_count(call, whole);
    else
        fine = translation_reply(&translation->translation, whole, &translation->out);
    return pass_written(call, fine);
}

void call_translated_broken(struct call *call)
{
    struct call_translation *translation = call->translation;

    assert(call->state == CALL_ANSWERING && call->in != NULL);
    json_writer_clear(&translation->out);
    if (!translation_ended(&translation->translation))
        (void)translation_break(&translation->translation, "The provider broke off its answer.",
                                &translation->out);
    if (translation->translation.reader.no_memory || translation->translation.writer.no_memory) {
        http_inbound_abort(call->in);
        return;
    }
    call_answer_pass(call, text_out_written(&translation->out.text));
    http_inbound_finish(call->in);
}
