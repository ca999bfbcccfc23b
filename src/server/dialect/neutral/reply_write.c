/* reply_write.c - what the writers of replies have in common.
 *
 * A whole reply is gathered from events and written at the end. A stream is written as the events
 * come; of its parts only names and ids are kept, and texts where the dialect repeats them.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "server/dialect/neutral/dialect_ops.h"
#include "server/dialect/neutral/opaque_pack.h"
#include "server/dialect/neutral/reply_events.h"
#include "server/dialect/neutral/tool_calls.h"

void reply_writer_init(struct reply_writer *writer, const struct dialect_ops *to,
                       struct json_reader *json, const struct reply_terms *terms, bool stream)
{
    *writer = (struct reply_writer){.to = to,
                                    .terms = terms,
                                    .json = json,
                                    .stream = stream,
                                    .n_choices = 1,
                                    .current = NO_PART};
}

static void part_fini(struct reply_part *part)
{
    text_out_fini(&part->id);
    text_out_fini(&part->name);
    text_out_fini(&part->text);
    text_out_fini(&part->wrapped);
    text_out_fini(&part->opaque);
}

void reply_writer_fini(struct reply_writer *writer)
{
    for (size_t i = 0; i < writer->n_parts; i++)
        part_fini(&writer->parts[i]);
    free(writer->parts);
    text_out_fini(&writer->stop_text);
    *writer = (struct reply_writer){.ended = true};
}

/* ---- Gathering ------------------------------------------------------------------------------- */

static void writer_append(struct reply_writer *writer, struct text_out *to, struct slice text)
{
    if (text.n > REPLY_GATHER_MAX - writer->gathered) {
        writer->no_memory = true;
        return;
    }
    writer->gathered += text.n;
    text_out_slice(to, text);
    writer->no_memory |= to->failed;
}

/* What a provider wants back, marked as its own where the client's dialect is another. */
static void gather_opaque(struct reply_writer *writer, struct reply_part *part,
                          const struct neutral_event *event)
{
    part->opaque_kind = event->opaque_kind;
    text_out_clear(&part->opaque);
    if (writer->terms->from == writer->to->dialect)
        text_out_slice(&part->opaque, event->opaque);
    else
        opaque_pack(&part->opaque, event->opaque_kind, writer->terms->from, writer->terms->provider,
                    event->opaque);
    writer->no_memory |= part->opaque.failed;
}

static void gather_open(struct reply_writer *writer, const struct neutral_event *event)
{
    char room[CALL_ID_MAX];

    assert(event->index == writer->n_parts);
    if (!array_reserve(&writer->parts, &writer->parts_capacity, writer->n_parts + 1)) {
        writer->no_memory = true;
        return;
    }
    struct reply_part *part = &writer->parts[writer->n_parts++];
    struct reply_choice *choice = &writer->choices[event->choice];
    *part = (struct reply_part){
        .kind = event->part, .choice = event->choice, .free = event->free, .state = PART_WAITING};
    if (event->choice >= writer->n_choices)
        writer->n_choices = event->choice + 1;
    if (event->part != PART_CALL && event->opaque_kind != OPAQUE_NONE)
        gather_opaque(writer, part, event);
    if (event->part != PART_CALL)
        return;
    part->number = choice->calls++;
    struct slice id = neutral_call_id(event->id, writer->to->dialect, IDS_ANY, room);
    if (event->opaque_kind == OPAQUE_THOUGHT)
        opaque_pack_id(&part->id, id, event->opaque);
    else
        text_out_slice(&part->id, id);
    text_out_slice(&part->name, event->name);
    writer->no_memory |= part->id.failed || part->name.failed;
}

static void gather(struct reply_writer *writer, const struct neutral_event *event)
{
    bool keeps = !writer->stream || writer->to->keeps_text;

    switch (event->kind) {
    case EVENT_OPEN:
        gather_open(writer, event);
        break;
    case EVENT_TEXT:
    case EVENT_ARGS:
        assert(event->index < writer->n_parts);
        if (keeps)
            writer_append(writer, &writer->parts[event->index].text, event->text);
        break;
    case EVENT_OPAQUE:
        gather_opaque(writer, &writer->parts[event->index], event);
        break;
    case EVENT_CLOSE:
        writer->parts[event->index].closed = true;
        break;
    case EVENT_BEGIN:
    case EVENT_USAGE:
        if (event->usage != NULL)
            writer->usage = *event->usage;
        break;
    case EVENT_STOP:
        writer->choices[event->choice].stopped = true;
        writer->choices[event->choice].stop = event->stop;
        if (event->choice >= writer->n_choices)
            writer->n_choices = event->choice + 1;
        text_out_clear(&writer->stop_text);
        text_out_slice(&writer->stop_text, event->text);
        break;
    case EVENT_ERROR:
        writer->error = *event->error;
        writer->has_error = true;
        break;
    case EVENT_PING:
    case EVENT_END:
        break;
    }
}

static void writer_pass(struct reply_writer *writer, const struct neutral_event *event,
                        struct json_writer *out)
{
    gather(writer, event);
    if (writer->no_memory)
        return;
    if (writer->stream)
        writer->to->write_event(writer, event, out);
    else if (event->kind == EVENT_END)
        writer->to->write_reply(writer, out);
    if (event->kind == EVENT_ARGS || event->kind == EVENT_TEXT)
        writer->parts[event->index].grown = true;
}

/* ---- Tools that take plain text -------------------------------------------------------------- */

static void put_escape(struct text_out *out, const char *at)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *found = *at != '\0' ? strchr(from, *at) : NULL;

    text_out_char(out, found != NULL ? to[found - from] : *at);
}

static unsigned hex_of(const char *at)
{
    char digits[5] = {at[0], at[1], at[2], at[3], '\0'};

    return (unsigned)strtoul(digits, NULL, 16);
}

static void put_utf8(struct text_out *out, unsigned c)
{
    if (c < 0x80) {
        text_out_char(out, (char)c);
        return;
    }
    if (c >= 0x10000) {
        text_out_char(out, (char)(0xf0 | c >> 18));
        text_out_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
    } else if (c >= 0x800) {
        text_out_char(out, (char)(0xe0 | c >> 12));
    }
    text_out_char(out, (char)(c < 0x800 ? 0xc0 | c >> 6 : 0x80 | (c >> 6 & 0x3f)));
    text_out_char(out, (char)(0x80 | (c & 0x3f)));
}

/* The \u escape at at[i], and the second of a pair; where its last byte is. */
static size_t put_unicode(struct text_out *out, struct slice text, size_t i)
{
    if (text.n - i < 5)
        return text.n;
    unsigned c = hex_of(text.at + i + 1);
    i += 4;
    if (c >= 0xd800 && c < 0xdc00 && text.n - i > 6 && text.at[i + 1] == '\\' &&
        text.at[i + 2] == 'u') {
        unsigned low = hex_of(text.at + i + 3);
        c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
        i += 6;
    }
    put_utf8(out, c);
    return i;
}

/* {"input": "text"}, in which a tool that takes plain text was wrapped, taken off. Arguments of
 * another form are given as they are. */
static void unwrap(struct slice text, struct text_out *out)
{
    static const char key[] = "\"input\"";
    size_t i = 0;

    while (i + sizeof key - 1 < text.n && memcmp(text.at + i, key, sizeof key - 1) != 0)
        i++;
    i += sizeof key - 1;
    while (i < text.n && strchr(" \t\r\n:", text.at[i]) != NULL)
        i++;
    if (i >= text.n || text.at[i] != '"') {
        text_out_slice(out, text);
        return;
    }
    for (i++; i < text.n && text.at[i] != '"'; i++) {
        if (text.at[i] != '\\' || i + 1 == text.n)
            text_out_char(out, text.at[i]);
        else if (text.at[++i] == 'u')
            i = put_unicode(out, text, i);
        else
            put_escape(out, &text.at[i]);
    }
}

/* Arguments that the provider's dialect wraps are kept until they are complete. True: the event
 * has been dealt with. */
static bool take_wrapped(struct reply_writer *writer, const struct neutral_event *event,
                         struct json_writer *out)
{
    bool wraps = writer->terms->from == DIALECT_ANTHROPIC || writer->terms->from == DIALECT_GEMINI;

    if (!wraps || (event->kind != EVENT_ARGS && event->kind != EVENT_CLOSE) ||
        !writer->parts[event->index].free)
        return false;
    struct reply_part *part = &writer->parts[event->index];
    if (event->kind == EVENT_ARGS) {
        writer_append(writer, &part->wrapped, event->text);
        return true;
    }
    struct text_out text = {.size = 0};
    struct neutral_event args = *event;
    unwrap(text_out_written(&part->wrapped), &text);
    args.kind = EVENT_ARGS;
    args.text = text_out_written(&text);
    writer->no_memory |= text.failed;
    if (!text.failed)
        writer_pass(writer, &args, out);
    text_out_fini(&text);
    return false;
}

void reply_writer_take(struct reply_writer *writer, const struct neutral_event *event,
                       struct json_writer *out)
{
    if (writer->ended || writer->no_memory || take_wrapped(writer, event, out) || writer->no_memory)
        return;
    writer_pass(writer, event, out);
    writer->ended = event->kind == EVENT_END || event->kind == EVENT_ERROR;
    writer->no_memory |= out->text.failed;
}

/* ---- For the dialects ------------------------------------------------------------------------ */

void json_depth_feed(struct json_depth *json, struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i];
        if (json->escaped) {
            json->escaped = false;
        } else if (json->quoted) {
            json->escaped = c == '\\';
            json->quoted = c != '"';
        } else if (c == '"') {
            json->quoted = true;
        } else if (c == '{' || c == '[') {
            json->depth += json->depth < INT32_MAX;
        } else if (c == '}' || c == ']') {
            json->depth -= json->depth > 0;
            json->complete |= json->depth == 0;
        }
    }
}

void sse_begin(struct json_writer *out, const char *event)
{
    if (event != NULL) {
        text_out_text(&out->text, "event: ");
        text_out_text(&out->text, event);
        text_out_char(&out->text, '\n');
    }
    text_out_text(&out->text, "data: ");
    out->comma = false;
}

void sse_finish(struct json_writer *out)
{
    text_out_text(&out->text, "\n\n");
    out->comma = false;
}

void writer_id(const struct reply_writer *writer, const char *prefix, char id[64])
{
    XXH128_hash_t hash = XXH3_128bits(&writer->terms->nonce, sizeof writer->terms->nonce);

    snprintf(id, 64, "%s%08llx%016llx", prefix, (unsigned long long)(hash.high64 >> 32),
             (unsigned long long)hash.low64);
}
