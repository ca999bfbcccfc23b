/* recording.c - reading what `serve --record` wrote. See recording.h.
 *
 * Members that are not known are passed over: a later version may have more, and says so in its
 * first line if it means something else.
 */
#include "cli/replay/recording.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "server/obs/record.h"

static const char *const KINDS[] = {
#define RECORDED_WORD(name, word) word,
    RECORDED_KINDS(RECORDED_WORD)
#undef RECORDED_WORD
};

static const char *const RESULTS[] = {
#define RECORDED_WORD(name, word) word,
    RECORDED_RESULTS(RECORDED_WORD)
#undef RECORDED_WORD
};

const char *recorded_kind_word(enum recorded_kind kind)
{
    return KINDS[kind];
}

const char *recorded_result_word(enum recorded_result result)
{
    return RESULTS[result];
}

/* ---- memory ---- */

enum { BLOCK_BYTES = 256 * 1024, ALIGNMENT = 16 };

struct recording_block {
    struct recording_block *next;
    size_t used, room;
    _Alignas(ALIGNMENT) char bytes[];
};

/* All zero. Null: no memory. */
static void *recording_get(struct recording *recording, size_t bytes)
{
    struct recording_block *block = recording->blocks;

    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (block == NULL || block->room - block->used < bytes) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = calloc(1, sizeof *block + room);
        if (block == NULL)
            return NULL;
        block->room = room;
        block->next = recording->blocks;
        recording->blocks = block;
    }
    void *got = block->bytes + block->used;
    block->used += bytes;
    return got;
}

static const char *keep_text(struct recording *recording, struct json_text text)
{
    char *copy = recording_get(recording, text.size + 1);

    if (copy != NULL && text.size > 0)
        memcpy(copy, text.bytes, text.size);
    return copy;
}

void recording_free(struct recording *recording)
{
    while (recording->blocks != NULL) {
        struct recording_block *block = recording->blocks;
        recording->blocks = block->next;
        free(block);
    }
    free(recording->calls);
    free(recording->ops);
    *recording = (struct recording){.version = 0};
}

/* ---- values ---- */

static int64_t integer_of(const struct json_value *value)
{
    return value->kind == JSON_INTEGER ? value->integer : -1;
}

static double real_of(const struct json_value *value)
{
    return value->kind == JSON_INTEGER  ? (double)value->integer
           : value->kind == JSON_DOUBLE ? value->real
                                        : NAN;
}

static int word_of(struct json_text text, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (json_text_is(text, words[i]))
            return i;
    return -1;
}

/* ---- an operation ---- */

#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))

static const char *const OUTCOMES[] = {"ok", "dropped", "cancelled", "refused"};
static const char *const KEY_OUTCOMES[] = {"ok",      "limited",  "failed",
                                           "refused", "rejected", "cancelled"};
static const char *const HOLDS[] = {"cooling", "broken", "busy"};
static const char *const PLACES[] = {"", "gate", "slot", "money", "key", "limits"};

static void op_init(struct recorded_op *op)
{
    *op = (struct recorded_op){
        .outcome = -1,
        .cost = -1,
        .work = -1,
        .size = 0,
        .by = 0,
        .ttl = 0,
        .peek = -1,
        .actual = -1,
        .most = -1,
        .tokens = -1,
        .asked = 0,
        .lease = -1,
        .sample = -1,
        .latency = -1,
        .used = NAN,
        .came = {RESULT_NOTHING, NULL, -1, -1, -1, -1, -1, -1, NULL},
    };
}

static const char *read_names(struct recording *recording, struct json_reader *reader,
                              size_t *n_names)
{
    char names[1024];
    struct json_text key;
    struct json_value value;
    size_t n = 0;

    json_enter(reader);
    while (json_next(reader, &key, &value))
        if (value.kind == JSON_STRING && n + value.string.size + 1 <= sizeof names) {
            memcpy(names + n, value.string.bytes, value.string.size);
            n += value.string.size;
            names[n++] = '\0';
            ++*n_names;
        }
    return keep_text(recording, (struct json_text){names, n});
}

static void read_axis(struct json_reader *reader, struct tg_axes *axes, enum tg_axis axis)
{
    int64_t numbers[5] = {0};
    struct json_text key;
    struct json_value value;
    int n = 0;

    json_enter(reader);
    while (json_next(reader, &key, &value))
        if (n < COUNT(numbers))
            numbers[n++] = integer_of(&value);
    axes->present |= 1u << axis;
    axes->decision[axis] = (struct tg_decision){.allowed = numbers[0] == 1,
                                                .limit = numbers[1],
                                                .remaining = numbers[2],
                                                .reset_at = numbers[3],
                                                .retry_after_ms = numbers[4]};
}

static const struct tg_axes *read_axes(struct recording *recording, struct json_reader *reader)
{
    struct tg_axes *axes = recording_get(recording, sizeof *axes);
    struct json_text key;
    struct json_value value;

    if (axes == NULL)
        return NULL;
    json_enter(reader);
    while (json_next(reader, &key, &value)) {
        if (json_text_is(key, "rate") && value.kind == JSON_ARRAY)
            read_axis(reader, axes, TG_AXIS_RATE);
        else if (json_text_is(key, "cost") && value.kind == JSON_ARRAY)
            read_axis(reader, axes, TG_AXIS_COST);
        else if (json_text_is(key, "would_deny"))
            axes->would_deny = (unsigned)integer_of(&value);
        else if (json_text_is(key, "reset_at"))
            axes->reset_at = integer_of(&value);
        else if (json_text_is(key, "retry_after"))
            axes->retry_after_ms = integer_of(&value);
    }
    return axes;
}

static void read_op_text(struct recording *recording, struct recorded_op *op, struct json_text key,
                         struct json_text text)
{
    static const struct {
        const char *name;
        size_t at;
    } texts[] = {
        {"model", offsetof(struct recorded_op, model)},
        {"route", offsetof(struct recorded_op, route)},
        {"caller", offsetof(struct recorded_op, caller)},
        {"who", offsetof(struct recorded_op, who)},
        {"provider", offsetof(struct recorded_op, provider)},
        {"affinity", offsetof(struct recorded_op, affinity)},
        {"prefer", offsetof(struct recorded_op, prefer)},
        {"what", offsetof(struct recorded_op, what)},
        {"detail", offsetof(struct recorded_op, detail)},
        {"reason", offsetof(struct recorded_op, came.reason)},
        {"key", offsetof(struct recorded_op, came.key)},
    };
    int found;

    if (json_text_is(key, "op")) {
        found = word_of(text, KINDS, RECORDED_KIND_COUNT);
        op->kind = found >= 0 ? (enum recorded_kind)found : RECORDED_KIND_COUNT;
    } else if (json_text_is(key, "to")) {
        found = word_of(text, RESULTS, RESULT_COUNT);
        op->came.to = found >= 0 ? (enum recorded_result)found : RESULT_NOTHING;
    } else if (json_text_is(key, "at")) {
        found = word_of(text, PLACES, COUNT(PLACES));
        op->place = found >= 0 ? (enum recorded_place)found : PLACE_NONE;
    } else if (json_text_is(key, "outcome")) { /* "op" comes before it */
        op->outcome = op->kind == RECORDED_KEY_END
                          ? word_of(text, KEY_OUTCOMES, COUNT(KEY_OUTCOMES))
                          : word_of(text, OUTCOMES, COUNT(OUTCOMES));
    } else if (json_text_is(key, "why")) {
        op->outcome = word_of(text, HOLDS, COUNT(HOLDS));
    }
    for (int i = 0; i < COUNT(texts); i++)
        if (json_text_is(key, texts[i].name)) {
            const char *copy = keep_text(recording, text);
            memcpy((char *)op + texts[i].at, &copy, sizeof copy);
        }
}

static void read_op_number(struct recorded_op *op, struct json_text key,
                           const struct json_value *value)
{
    static const struct {
        const char *name;
        size_t at;
    } integers[] = {
        {"t", offsetof(struct recorded_op, t)},
        {"cost", offsetof(struct recorded_op, cost)},
        {"work", offsetof(struct recorded_op, work)},
        {"size", offsetof(struct recorded_op, size)},
        {"by", offsetof(struct recorded_op, by)},
        {"ttl", offsetof(struct recorded_op, ttl)},
        {"peek", offsetof(struct recorded_op, peek)},
        {"actual", offsetof(struct recorded_op, actual)},
        {"money", offsetof(struct recorded_op, money)},
        {"most", offsetof(struct recorded_op, most)},
        {"spent", offsetof(struct recorded_op, spent)},
        {"uncertain", offsetof(struct recorded_op, uncertain)},
        {"tokens", offsetof(struct recorded_op, tokens)},
        {"asked", offsetof(struct recorded_op, asked)},
        {"until", offsetof(struct recorded_op, until)},
        {"room", offsetof(struct recorded_op, room)},
        {"cool_until", offsetof(struct recorded_op, cool_until)},
        {"lease", offsetof(struct recorded_op, lease)},
        {"unrecorded", offsetof(struct recorded_op, unrecorded)},
        {"charge", offsetof(struct recorded_op, came.charge)},
        {"limit", offsetof(struct recorded_op, came.limit)},
        {"remaining", offsetof(struct recorded_op, came.remaining)},
        {"reset_at", offsetof(struct recorded_op, came.reset_at)},
        {"retry_after", offsetof(struct recorded_op, came.retry_after)},
        {"reserved", offsetof(struct recorded_op, came.reserved)},
    };

    for (int i = 0; i < COUNT(integers); i++)
        if (json_text_is(key, integers[i].name)) {
            int64_t number = integer_of(value);
            memcpy((char *)op + integers[i].at, &number, sizeof number);
            return;
        }
    if (json_text_is(key, "q"))
        op->number = value->kind == JSON_INTEGER ? (uint64_t)value->integer : 0;
    else if (json_text_is(key, "generation"))
        op->generation = (uint64_t)integer_of(value);
    else if (json_text_is(key, "hold"))
        op->hold = real_of(value);
    else if (json_text_is(key, "sample"))
        op->sample = real_of(value);
    else if (json_text_is(key, "latency"))
        op->latency = real_of(value);
    else if (json_text_is(key, "used"))
        op->used = real_of(value);
}

static void read_op(struct recording *recording, struct json_reader *reader, struct recorded_op *op)
{
    struct json_text key;
    struct json_value value;

    op_init(op);
    json_enter(reader);
    while (json_next(reader, &key, &value))
        switch (value.kind) {
        case JSON_STRING:
            read_op_text(recording, op, key, value.string);
            break;
        case JSON_BOOL:
            if (json_text_is(key, "up_to"))
                op->up_to = value.boolean;
            else if (json_text_is(key, "sent"))
                op->sent = value.boolean;
            else if (json_text_is(key, "hint"))
                op->hint = value.boolean;
            else if (json_text_is(key, "of_group"))
                op->of_group = value.boolean;
            else if (json_text_is(key, "store_failed"))
                op->store_failed = value.boolean;
            break;
        case JSON_OBJECT:
            if (json_text_is(key, "store"))
                op->axes = read_axes(recording, reader);
            break;
        case JSON_ARRAY:
            if (json_text_is(key, "tried"))
                op->tried = read_names(recording, reader, &op->n_tried);
            break;
        default:
            read_op_number(op, key, &value);
        }
}

/* The operations of a line, for a call or for none. False: no memory. */
static bool read_ops(struct recording *recording, struct json_reader *reader,
                     struct recorded_call *call)
{
    struct recorded_op found[64], *all = NULL;
    size_t n = 0;
    struct json_text key;
    struct json_value value;
    bool fine = true;

    json_enter(reader);
    while (json_next(reader, &key, &value)) {
        if (value.kind != JSON_OBJECT)
            continue;
        if (n == COUNT(found)) { /* a long call: the operations so far, and what comes */
            struct recorded_op *more = recording_get(recording, 1024 * sizeof *more);
            if (more == NULL)
                return false;
            memcpy(more, found, sizeof found);
            all = more;
        }
        if (n >= 1024)
            continue; /* no call has as many: its trail is bounded */
        struct recorded_op *op = all != NULL ? &all[n] : &found[n];
        read_op(recording, reader, op);
        if (op->number != 0 && op->kind != RECORDED_KIND_COUNT)
            n++; /* else it is of a later version, and passed over */
    }
    if (n == 0)
        return true;
    if (all == NULL) {
        all = recording_get(recording, n * sizeof *all);
        if (all == NULL)
            return false;
        memcpy(all, found, n * sizeof *all);
    }
    fine = array_reserve(&recording->ops, &recording->ops_room, recording->n_ops + n);
    for (size_t i = 0; fine && i < n; i++) {
        all[i].call = call;
        recording->ops[recording->n_ops++] = &all[i];
    }
    if (call != NULL) {
        call->ops = all;
        call->n_ops = n;
    }
    return fine;
}

/* ---- lines ---- */

static bool read_first(struct recording *recording, struct json_reader *reader,
                       const struct line *line)
{
    struct json_text key;
    struct json_value value;

    json_begin(reader, line->text, line->bytes, line->readable, &value);
    json_enter(reader);
    while (json_next(reader, &key, &value)) {
        if (json_text_is(key, "tollgate_recording"))
            recording->version = integer_of(&value);
        else if (json_text_is(key, "t"))
            recording->t = integer_of(&value);
        else if (json_text_is(key, "ahead_ms") && value.kind == JSON_INTEGER)
            recording->ahead_ms = value.integer;
        else if (json_text_is(key, "generation"))
            recording->generation = (uint64_t)integer_of(&value);
        else if (json_text_is(key, "chance"))
            recording->chance = (uint64_t)integer_of(&value);
        else if (json_text_is(key, "workers"))
            recording->workers = integer_of(&value);
        else if (json_text_is(key, "store") && value.kind == JSON_STRING)
            recording->store = keep_text(recording, value.string);
        else if (json_text_is(key, "config") && value.kind == JSON_STRING)
            recording->config = keep_text(recording, value.string);
        else if (json_text_is(key, "inherited") && value.kind == JSON_BOOL)
            recording->inherited = value.boolean;
        else if (json_text_is(key, "policy_learned") && value.kind == JSON_BOOL)
            recording->policy_learned = value.boolean;
    }
    return json_end(reader) && recording->version == RECORD_VERSION && recording->store != NULL &&
           recording->config != NULL;
}

static bool read_call_member(struct recording *recording, struct json_text key,
                             const struct json_value *value, struct recorded_call *call)
{
    struct {
        const char *name;
        const char **to;
    } texts[] = {{"id", &call->id},
                 {"tenant", &call->tenant},
                 {"user", &call->user},
                 {"peer", &call->peer},
                 {"model", &call->model},
                 {"kind", &call->kind},
                 {"virtual_key", &call->virtual_key}};

    if (value->kind == JSON_STRING) {
        for (int i = 0; i < COUNT(texts); i++)
            if (json_text_is(key, texts[i].name)) {
                *texts[i].to = keep_text(recording, value->string);
                return *texts[i].to != NULL;
            }
        if (json_text_is(key, "priority"))
            for (int i = 0; i < TG_PRIORITY_COUNT; i++)
                if (json_text_is(value->string, tg_priority_name((enum tg_priority)i)))
                    call->priority = (enum tg_priority)i;
    } else if (json_text_is(key, "t")) {
        call->t = integer_of(value);
    } else if (json_text_is(key, "generation")) {
        call->generation = (uint64_t)integer_of(value);
    } else if (json_text_is(key, "value")) {
        call->value = real_of(value);
    } else if (json_text_is(key, "input_tokens")) {
        call->input_tokens = integer_of(value);
    } else if (json_text_is(key, "max_output_tokens")) {
        call->max_output_tokens = integer_of(value);
    }
    return true;
}

static void read_settled(struct json_reader *reader, struct recorded_spend *spend)
{
    struct json_text key;
    struct json_value value;

    json_enter(reader);
    while (json_next(reader, &key, &value))
        if (spend->n < TG_BUDGETS_MAX)
            spend->settled[spend->n++] = integer_of(&value);
}

enum line_result { LINE_GOOD, LINE_BROKEN, LINE_NO_MEMORY };

static enum line_result read_line(struct recording *recording, struct json_reader *reader,
                                  const struct line *line, uint64_t number)
{
    struct recorded_call *call = recording_get(recording, sizeof *call);
    struct recorded_spend *spend = recording_get(recording, sizeof *spend);
    size_t ops_before = recording->n_ops;
    struct json_text key;
    struct json_value value;
    bool fine = call != NULL && spend != NULL;
    bool is_call = false, is_spend = false;

    if (!fine)
        return LINE_NO_MEMORY;
    *call = (struct recorded_call){.line = number,
                                   .priority = TG_PRIORITY_NORMAL,
                                   .value = -1,
                                   .input_tokens = -1,
                                   .max_output_tokens = -1};
    json_begin(reader, line->text, line->bytes, line->readable, &value);
    json_enter(reader);
    while (fine && json_next(reader, &key, &value)) {
        if (json_text_is(key, "ops") && value.kind == JSON_ARRAY) {
            fine = read_ops(recording, reader, is_call ? call : NULL);
        } else if (json_text_is(key, "op") && value.kind == JSON_STRING) {
            is_spend = json_text_is(value.string, "spent");
        } else if (is_spend && json_text_is(key, "settled") && value.kind == JSON_ARRAY) {
            read_settled(reader, spend);
        } else {
            is_call |= json_text_is(key, "id");
            fine = read_call_member(recording, key, &value, call);
        }
    }
    if (!fine)
        return LINE_NO_MEMORY;
    if (!json_end(reader)) {
        recording->n_ops = ops_before;
        return LINE_BROKEN;
    }
    if (is_spend) {
        spend->tenant = call->tenant;
        spend->user = call->user;
        spend->virtual_key = call->virtual_key;
        spend->next = recording->spends;
        recording->spends = spend;
    } else if (is_call) {
        if (!array_reserve(&recording->calls, &recording->calls_room, recording->n_calls + 1))
            return LINE_NO_MEMORY;
        call->number = recording->n_calls;
        recording->calls[recording->n_calls++] = call;
    }
    return LINE_GOOD;
}

bool recording_is_first(struct json_reader *reader, const struct line *line)
{
    struct json_text key;
    struct json_value value;
    bool found = false;

    if (line_is_blank(line))
        return false;
    json_begin(reader, line->text, line->bytes, line->readable, &value);
    if (value.kind == JSON_OBJECT && json_enter(reader) && json_next(reader, &key, &value))
        found = json_text_is(key, "tollgate_recording");
    return found && json_end(reader);
}

/* ---- the order ---- */

static int by_number(const void *a, const void *b)
{
    const struct recorded_op *const *x = a, *const *y = b;

    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

static void put_in_order(struct recording *recording)
{
    uint64_t expected = 1;

    if (recording->n_ops > 0)
        qsort(recording->ops, recording->n_ops, sizeof recording->ops[0], by_number);
    for (size_t i = 0; i < recording->n_ops; i++) {
        uint64_t number = recording->ops[i]->number;
        if (number > expected) {
            if (recording->first_missing == 0)
                recording->first_missing = expected;
            recording->missing += number - expected;
        }
        expected = number + 1;
        if (recording->ops[i]->kind == RECORDED_END) {
            recording->ended = true;
            recording->unrecorded = (uint64_t)recording->ops[i]->unrecorded;
        }
    }
}

bool recording_read(struct replay_input *input, struct line *first, struct recording *recording,
                    bool *more, int *status)
{
    struct line line;

    *recording = (struct recording){.version = 0};
    *more = false;
    if (!read_first(recording, input->reader, first)) {
        char text[200];
        snprintf(text, sizeof text,
                 "a recording of version %" PRId64
                 " made by another serve; this one reads version %d",
                 recording->version, RECORD_VERSION);
        *status = replay_input_stop(input, STATUS_WRONG, input->lines.number, text);
        return false;
    }
    while (replay_input_next(input, &line, status)) {
        if (line_is_blank(&line))
            continue;
        if (recording_is_first(input->reader, &line)) {
            *first = line;
            *more = true;
            break;
        }
        enum line_result result = read_line(recording, input->reader, &line, input->lines.number);
        if (result == LINE_NO_MEMORY) {
            *status = replay_input_stop(input, STATUS_FAILED, input->lines.number,
                                        tg_strerror(TG_ERR_MEMORY));
            return false;
        }
        /* The last one of a process that was killed, or one that a full disk took a part of. */
        recording->cut += result == LINE_BROKEN;
    }
    if (!*more && *status != STATUS_DONE)
        return false;
    put_in_order(recording);
    return true;
}
