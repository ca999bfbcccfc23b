/* translation.c - a call in one dialect, answered in another. */
#include "server/dialect/translate/translation.h"

static void pass_event(void *arg, const struct neutral_event *event)
{
    struct translation *translation = arg;

    if (event->kind == EVENT_TEXT || event->kind == EVENT_ARGS)
        translation->text_bytes += (int64_t)event->text.n;
    else if (event->kind == EVENT_OPEN)
        translation->text_bytes += (int64_t)event->name.n;
    else if (event->kind == EVENT_USAGE) /* before a stop there may be more */
        translation->final =
            translation->reader.any_stop && (event->usage->has_output || event->usage->absurd);
    else if (event->kind == EVENT_STOP && event->stop == STOP_REFUSAL)
        translation->reader.usage.refused |= translation->provider->dialect == DIALECT_ANTHROPIC;
    reply_writer_take(&translation->writer, event, translation->out);
}

void translation_init(struct translation *translation, struct json_reader *json,
                      const struct reply_terms *terms, const struct dialect_ops *client,
                      bool stream)
{
    sse_init(&translation->sse);
    reply_reader_init(&translation->reader, json, terms, pass_event, translation);
    reply_writer_init(&translation->writer, client, json, terms, stream);
    translation->provider = dialect_find(terms->from);
    translation->out = NULL;
    translation->text_bytes = 0;
    translation->final = false;
}

void translation_fini(struct translation *translation)
{
    sse_fini(&translation->sse);
    reply_reader_fini(&translation->reader);
    reply_writer_fini(&translation->writer);
}

static bool translation_holds(const struct translation *translation)
{
    return !translation->reader.no_memory && !translation->writer.no_memory;
}

static void translation_take(struct translation *translation, const struct sse_event *event)
{
    if (event->kind == SSE_EVENT)
        translation->provider->read_event(&translation->reader, event->name, event->data);
    else if (event->kind == SSE_PIECE)
        reader_fail(&translation->reader, ERROR_SERVER,
                    "The provider sent an event that is too large.");
    else if (event->raw.n > 0 && event->raw.at[0] == ':')
        reader_ping(&translation->reader);
}

bool translation_feed(struct translation *translation, const char *bytes, size_t n,
                      struct json_writer *out)
{
    struct sse_event event;

    translation->out = out;
    sse_feed(&translation->sse, bytes, n);
    while (sse_next(&translation->sse, &event))
        translation_take(translation, &event);
    return translation_holds(translation);
}

bool translation_end(struct translation *translation, struct json_writer *out)
{
    struct sse_event event;

    translation->out = out;
    if (sse_end(&translation->sse, &event))
        translation_take(translation, &event);
    if (!translation->reader.ended)
        translation->provider->read_eof(&translation->reader);
    return translation_holds(translation);
}

bool translation_reply(struct translation *translation, struct slice body, struct json_writer *out)
{
    translation->out = out;
    translation->provider->read_reply(&translation->reader, body);
    return translation_holds(translation);
}

bool translation_break(struct translation *translation, const char *message,
                       struct json_writer *out)
{
    translation->out = out;
    reader_fail(&translation->reader, ERROR_SERVER, message);
    return translation_holds(translation);
}

bool translation_ended(const struct translation *translation)
{
    return translation->writer.ended;
}

const struct neutral_error *translation_error(const struct translation *translation)
{
    return translation->writer.has_error ? &translation->writer.error : NULL;
}

/* What an array of parts and one of turns may be larger than they need. */
#define ARRAYS_GROW 2
#define PART_LEAST 16 /* bytes of a part in a request, at the least */

size_t translation_takes(size_t n)
{
    size_t parts = n / PART_LEAST < NEUTRAL_PARTS_MAX ? n / PART_LEAST : NEUTRAL_PARTS_MAX;

    return n * TRANSLATION_FACTOR +
           parts * ARRAYS_GROW * (sizeof(struct neutral_part) + sizeof(struct neutral_turn));
}
