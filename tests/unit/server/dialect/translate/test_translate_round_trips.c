/* test_translate_round_trips.c - random replies, through one dialect and another, mean the same.
 *
 *     events --> writer of a provider's dialect --> bytes, cut anywhere --> translation --> bytes
 *        |                                                                                  |
 *        '--> whole reply of the client's dialect   ==   the same, of what the client reads <'
 *
 * Calls of tools interleave at random. The two whole replies are compared byte by byte: parts, ids,
 * arguments, signatures, stops and usage. TG_ROUND_TRIPS says how many of each pair, TG_SOAK=1 that
 * it is 100,000; TG_SEED where they begin.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/random.h"
#include "net_dialect_kit.h"

#define PARTS_MAX 6
#define TEXT_MAX 40

static struct json_reader *json;
static const char *const tool_names[] = {"f", "get_weather", "a-tool_2", "x"};

/* What a reply is made of. */
struct made_part {
    enum neutral_kind kind;
    char text[TEXT_MAX * 4 + 64], id[48];
    const char *name;
    size_t given; /* bytes of the text that were given as events */
    bool closed;
};

struct made_reply {
    struct made_part parts[PARTS_MAX];
    size_t n;
    enum neutral_stop stop;
    struct usage_reading usage;
};

static size_t below(struct random *random, size_t n)
{
    return (size_t)(random_bits(random) % n);
}

/* Letters, what JSON escapes, and characters of two to four bytes. */
static void make_text(struct random *random, char *text, size_t size)
{
    static const char *const pieces[] = {
        "a",
        "bc",
        " ",
        "\n",
        "\"",
        "\\",
        "\t",
        "\xc3\xa9",
        "\xe2\x82\xac",
        "{}",
        "[",
        "7",
        "\r",
        "\x01",
        "data: ",
        "\\n",
        "</s>",
        "\xf0\x9f\x98\x80",
    };
    size_t n = 1 + below(random, TEXT_MAX), have = 0;

    for (size_t i = 0; i < n; i++) {
        const char *piece = pieces[below(random, COUNT_OF(pieces))];
        if (have + strlen(piece) < size - 1) {
            memcpy(text + have, piece, strlen(piece));
            have += strlen(piece);
        }
    }
    text[have] = '\0';
}

/* The arguments of a call: an object with a text in it. */
static void make_arguments(struct random *random, char *text, size_t size)
{
    char value[TEXT_MAX * 2];
    struct json_writer out;

    make_text(random, value, sizeof value);
    json_writer_init(&out);
    json_write_object(&out);
    if (below(random, 5) > 0) {
        json_write_key(&out, "v");
        json_write_string(&out, value, strlen(value));
        json_write_key(&out, "n");
        json_write_raw(&out, "1.50", 4);
    }
    json_write_object_end(&out);
    snprintf(text, size, "%.*s", (int)out.text.size, out.text.bytes);
    json_writer_fini(&out);
}

/* The chat API has thoughts first, then one text, then calls; others have any order. */
static void make_part(struct random *random, enum dialect provider, size_t i,
                      enum neutral_kind before, struct made_part *part)
{
    static const enum neutral_kind kinds[] = {PART_TEXT, PART_CALL, PART_CALL, PART_REASONING};

    *part = (struct made_part){.kind = kinds[below(random, COUNT_OF(kinds))]};
    if (i > 0 && (part->kind == PART_REASONING || provider == DIALECT_CHAT))
        part->kind = PART_CALL;
    if (i == 1 && before == PART_REASONING && below(random, 2) == 0)
        part->kind = PART_TEXT;
    if (part->kind == PART_CALL) {
        part->name = tool_names[below(random, COUNT_OF(tool_names))];
        snprintf(part->id, sizeof part->id, "%s%zu_%zu",
                 provider == DIALECT_ANTHROPIC ? "toolu_" : "call_", i, below(random, 1000));
        make_arguments(random, part->text, sizeof part->text);
    } else {
        make_text(random, part->text, sizeof part->text);
    }
}

static void make_usage(struct random *random, struct usage_reading *usage)
{
    *usage = (struct usage_reading){.found = true, .has_input = true, .has_output = true};
    usage->usage.input = 1 + (int64_t)below(random, 1000);
    usage->usage.cached_input = (int64_t)below(random, 500);
    usage->usage.cache_write = (int64_t)below(random, 500);
    usage->usage.output = 1 + (int64_t)below(random, 1000);
    usage->reasoning = (int64_t)below(random, (size_t)usage->usage.output);
}

static void make_reply(struct random *random, enum dialect provider, struct made_reply *made)
{
    bool called = false;

    made->n = 1 + below(random, PARTS_MAX);
    for (size_t i = 0; i < made->n; i++) {
        make_part(random, provider, i, i > 0 ? made->parts[i - 1].kind : PART_CALL,
                  &made->parts[i]);
        called |= made->parts[i].kind == PART_CALL;
    }
    if (provider != DIALECT_ANTHROPIC && !called && below(random, 6) == 0) {
        made->parts[0].kind = PART_REFUSAL;
        made->n = 1;
        made->stop = STOP_REFUSAL;
    } else if (below(random, 6) == 0) {
        made->stop = STOP_LENGTH;
    } else {
        made->stop = called ? STOP_TOOL : STOP_END;
    }
    make_usage(random, &made->usage);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void put_open(struct made_reply *made, size_t i, neutral_sink *sink, void *arg)
{
    struct made_part *part = &made->parts[i];

    sink(arg, &(struct neutral_event){.kind = EVENT_OPEN,
                                      .index = (uint32_t)i,
                                      .part = part->kind,
                                      .id = slice_of(part->id),
                                      .name = slice_of(part->name != NULL ? part->name : "")});
}

static bool is_char_start(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Some more of a part; a character is not cut, as no provider does. */
static void put_some(struct random *random, struct made_reply *made, size_t i, neutral_sink *sink,
                     void *arg)
{
    struct made_part *part = &made->parts[i];
    size_t end = part->given + 1 + below(random, 12), whole = strlen(part->text);

    while (end < whole && !is_char_start(part->text[end]))
        end++;
    end = end < whole ? end : whole;
    sink(arg, &(struct neutral_event){.kind = part->kind == PART_CALL ? EVENT_ARGS : EVENT_TEXT,
                                      .index = (uint32_t)i,
                                      .part = part->kind,
                                      .text = {part->text + part->given, end - part->given}});
    part->given = end;
}

static void put_close(struct made_reply *made, size_t i, enum dialect provider, neutral_sink *sink,
                      void *arg)
{
    struct made_part *part = &made->parts[i];

    if (part->kind == PART_REASONING && provider != DIALECT_CHAT)
        sink(arg, &(struct neutral_event){.kind = EVENT_OPAQUE,
                                          .index = (uint32_t)i,
                                          .part = part->kind,
                                          .opaque_kind = provider == DIALECT_ANTHROPIC
                                                             ? OPAQUE_SIGNATURE
                                                             : OPAQUE_ENCRYPTED,
                                          .opaque = SLICE("c2lnbmVk")});
    sink(arg, &(struct neutral_event){.kind = EVENT_CLOSE,
                                      .index = (uint32_t)i,
                                      .part = part->kind});
    part->closed = true;
}

static bool part_is_given(const struct made_part *part)
{
    return part->text[part->given] == '\0';
}

/* All parts; calls that follow each other interleave where `mixes`. */
static void put_parts(struct random *random, struct made_reply *made, enum dialect provider,
                      bool mixes, neutral_sink *sink, void *arg)
{
    for (size_t i = 0, end; i < made->n; i = end) {
        end = i + 1;
        put_open(made, i, sink, arg);
        if (made->parts[i].kind == PART_CALL && mixes)
            for (; end < made->n && made->parts[end].kind == PART_CALL; end++)
                put_open(made, end, sink, arg);
        for (size_t left = end - i; left > 0;) {
            size_t k = i + below(random, end - i);
            if (made->parts[k].closed)
                continue;
            if (!part_is_given(&made->parts[k]))
                put_some(random, made, k, sink, arg);
            if (part_is_given(&made->parts[k])) {
                put_close(made, k, provider, sink, arg);
                left--;
            }
        }
    }
}

static void put_events(struct random *random, struct made_reply *made, enum dialect provider,
                       bool mixes, neutral_sink *sink, void *arg)
{
    static const struct usage_reading none;

    for (size_t i = 0; i < made->n; i++) {
        made->parts[i].given = 0;
        made->parts[i].closed = false;
    }
    sink(arg, &(struct neutral_event){.kind = EVENT_BEGIN, .usage = &none});
    put_parts(random, made, provider, mixes, sink, arg);
    sink(arg, &(struct neutral_event){.kind = EVENT_STOP, .stop = made->stop});
    sink(arg, &(struct neutral_event){.kind = EVENT_USAGE, .usage = &made->usage});
    sink(arg, &(struct neutral_event){.kind = EVENT_END});
}

/* ---- Ways ------------------------------------------------------------------------------------ */

struct into {
    struct reply_writer writer;
    struct json_writer out;
};

static void take(void *arg, const struct neutral_event *event)
{
    struct into *into = arg;

    reply_writer_take(&into->writer, event, &into->out);
}

static void into_init(struct into *into, enum dialect to, const struct reply_terms *terms,
                      bool stream)
{
    json_writer_init(&into->out);
    reply_writer_init(&into->writer, dialect_find(to), json, terms, stream);
}

static void into_fini(struct into *into)
{
    reply_writer_fini(&into->writer);
    json_writer_fini(&into->out);
}

static void make_terms(enum dialect from, struct reply_terms *terms)
{
    struct neutral_tool tools[COUNT_OF(tool_names)];
    struct neutral_request request = {.tools = tools, .n_tools = COUNT_OF(tool_names)};

    for (size_t i = 0; i < COUNT_OF(tool_names); i++)
        tools[i] = (struct neutral_tool){.name = slice_of(tool_names[i])};
    request.stream = request.want_usage = true;
    assert_true(
        reply_terms_init(terms, &request, from, SLICE("prov"), SLICE("m"), 1700000000, 42, 7));
}

/* Reads bytes of one dialect, in pieces, and appends what a client of another gets. */
static void translate(struct random *random, struct slice bytes, enum dialect from, enum dialect to,
                      bool stream, size_t cut, struct json_writer *out)
{
    struct translation translation;
    struct reply_terms terms;
    bool bytewise = cut == SIZE_MAX;

    make_terms(from, &terms);
    translation_init(&translation, json, &terms, dialect_find(to), stream);
    for (size_t at = 0; at < bytes.n;) {
        size_t n = bytewise ? 1 : cut > 0 && at == 0 ? cut
                              : cut > 0              ? bytes.n
                                                     : 1 + below(random, 99);
        n = n < bytes.n - at ? n : bytes.n - at;
        assert_true(translation_feed(&translation, bytes.at + at, n, out));
        at += n;
    }
    assert_true(translation_end(&translation, out));
    assert_true(translation_ended(&translation));
    assert_null(translation_error(&translation));
    translation_fini(&translation);
    reply_terms_fini(&terms);
}

static void expect_same(struct slice got, struct slice want, enum dialect from, enum dialect to,
                        uint64_t seed)
{
    if (slice_equal(got, want))
        return;
    print_error("%s to %s, TG_SEED=%llu\n%.*s\n%.*s\n", dialect_name(from), dialect_name(to),
                (unsigned long long)seed, (int)want.n, want.at, (int)got.n, got.at);
    fail();
}

/* One random reply from a provider's dialect to a client's. */
static void check_reply(enum dialect from, enum dialect to, uint64_t seed)
{
    struct into provider, wanted;
    struct reply_terms terms;
    struct made_reply made;
    struct random random;
    struct json_writer client, read;

    random_init(&random, seed, (uint64_t)from * DIALECT_COUNT + to);
    make_reply(&random, from, &made);
    make_terms(from, &terms);
    /* What the provider sends, as it would, and what its client shall understand. */
    into_init(&provider, from, &terms, true);
    put_events(&random, &made, from, from != DIALECT_ANTHROPIC, take, &provider);
    into_init(&wanted, to, &terms, false);
    put_events(&random, &made, from, false, take, &wanted);

    json_writer_init(&client);
    json_writer_init(&read);
    translate(&random, text_out_written(&provider.out.text), from, to, true, 0, &client);
    translate(&random, text_out_written(&client.text), to, to, false, 0, &read);
    expect_same(text_out_written(&read.text), text_out_written(&wanted.out.text), from, to, seed);
    json_writer_clear(&read);
    translate(&random, text_out_written(&provider.out.text), from, to, false, 0, &read);
    expect_same(text_out_written(&read.text), text_out_written(&wanted.out.text), from, to, seed);
    if (seed % 1000 == 0) {
        struct slice bytes = text_out_written(&provider.out.text);
        for (size_t cut = 1; cut <= bytes.n; cut++) {
            json_writer_clear(&read);
            translate(&random, bytes, from, to, true, cut < bytes.n ? cut : SIZE_MAX, &read);
            expect_same(text_out_written(&read.text), text_out_written(&client.text), from, to,
                        seed);
        }
    }
    json_writer_fini(&read);
    json_writer_fini(&client);
    into_fini(&provider);
    into_fini(&wanted);
    reply_terms_fini(&terms);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void replies_mean_the_same_in_every_dialect(void **state)
{
    uint64_t seed = number_of("TG_SEED", 0);
    uint64_t n = number_of("TG_ROUND_TRIPS", getenv("TG_SOAK") != NULL ? 100000 : 300);

    (void)state;
    for (uint64_t i = seed; i < seed + n; i++)
        for (enum dialect from = 0; from < DIALECT_GEMINI; from++)
            for (enum dialect to = 0; to < DIALECT_GEMINI; to++)
                check_reply(from, to, i);
    print_message("%llu replies of each of 9 pairs from seed %llu\n", (unsigned long long)n,
                  (unsigned long long)seed);
}

static int setup(void **state)
{
    (void)state;
    json = json_reader_new();
    return json == NULL;
}

static int teardown(void **state)
{
    (void)state;
    json_reader_free(json);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_mean_the_same_in_every_dialect),
    };

    return cmocka_run_group_tests_name("translate_round_trips", tests, setup, teardown);
}
