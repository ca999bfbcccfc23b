/* test_bound_drawn.c - no body is worth more tokens than its bound.
 *
 * Bodies are drawn with what they are worth beside them, counted here in another way than the bound
 * is: one token for each byte of the normalised text (which no tokenizer exceeds), tools as Python
 * writes them with an indent of 4, 5 tokens for a message and 3 for a reply (ChatML, Llama 3), 80
 * for tools. The normal forms are numbers from Python's unicodedata, not ours.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "server/dialect/bound.h"
#include "server/dialect/prefix.h"

#define ROUNDS 20000
#define BODY_MAX (1 << 20)

/* Texts, and the bytes of them in UTF-8, NFC and NFKC. */
static const struct text {
    uint32_t points[6];
    int64_t lengths[3];
} texts[] = {
    {{0x1d5, 0x323, 0x1d5, 0x323, 0x1d5, 0x323}, {12, 21, 21}},
    {{0x432, 0x319}, {4, 4, 4}},
    {{0x3240, 0x33a, 0x2fa1, 0x30}, {9, 9, 11}},
    {{0x316, 0x3260, 0x7d}, {6, 6, 6}},
    {{0x340, 0x65e5, 0xe9, 0x6587, 0x3180, 0xfbec}, {16, 16, 17}},
    {{0xff9e, 0x322, 0x326, 0x324, 0x340}, {11, 11, 11}},
    {{0x314, 0x438}, {4, 4, 4}},
    {{0x33d, 0x319}, {4, 4, 4}},
    {{0x6587, 0xfdb9, 0x1d605, 0x33e, 0x32}, {13, 13, 13}},
    {{0x5a, 0x31a, 0x1f13a, 0x344}, {9, 11, 8}},
    {{0xbe, 0x2034, 0xfdf0, 0x107a0, 0x333, 0x440}, {16, 16, 26}},
    {{0x41f, 0xfad5}, {5, 6, 6}},
    {{0x326, 0xfe90}, {5, 5, 4}},
    {{0x302, 0xfe32, 0x33, 0xfd9f, 0xfc05, 0x1f44d}, {16, 16, 20}},
    {{0x1d623, 0x5dc, 0xfc01, 0xfc3c, 0xfc34}, {15, 15, 15}},
    {{0x2176, 0x7b, 0x1f12c, 0x58}, {9, 9, 6}},
    {{0x1d5de}, {4, 4, 1}},
    {{0x304c, 0x3c, 0x59, 0x1f3fd, 0xfd94, 0xe9}, {14, 14, 17}},
    {{0x308}, {2, 2, 2}},
    {{0x322, 0x24c7, 0x334}, {7, 7, 5}},
    {{0x342, 0x119, 0x438, 0x4db, 0x333}, {10, 10, 10}},
    {{0x9, 0x31, 0xfce8}, {5, 5, 6}},
    {{0x4e2d, 0x3333, 0xfc8c, 0xfc6f}, {12, 12, 23}},
    {{0x59, 0xf9ea, 0x5a, 0x30d1, 0x1d435}, {12, 12, 9}},
    {{0xfc58, 0xfdfc, 0x327, 0x302, 0x318}, {12, 12, 18}},
    {{0x158, 0xad6d, 0xfca0, 0x3c, 0x31, 0x337d}, {13, 13, 17}},
    {{0x3233}, {3, 3, 5}},
    {{0x334c, 0x438, 0xfd5d, 0x322, 0x33f, 0xfcc5}, {15, 15, 28}},
    {{0x343, 0xfd8f, 0x307}, {7, 7, 10}},
    {{0x324, 0xfcca, 0x5dd, 0x1d6ce, 0x1c4}, {13, 13, 13}},
    {{0xf956, 0x326c}, {6, 6, 6}},
    {{0x93c, 0x1ff}, {5, 5, 5}},
    {{0x31f, 0x33e, 0x318, 0x33c6}, {9, 9, 12}},
    {{0xe9, 0xc5b4, 0xfa6a, 0xfd1c, 0xfc78, 0xad6d}, {17, 17, 19}},
    {{0x59, 0x3218}, {4, 4, 6}},
    {{0x65e5, 0x3325, 0x31b, 0x309}, {10, 10, 13}},
    {{0x6587, 0xd55c, 0x9}, {7, 7, 7}},
    {{0x2f32, 0x33f3}, {6, 6, 8}},
    {{0x5e9, 0x1f44d, 0xfa3b, 0xd4c, 0x33, 0x93c}, {16, 16, 16}},
    {{0x33c2, 0x1d73c, 0x321}, {9, 9, 8}},
    {{0x3259, 0xfc05, 0x32e}, {8, 8, 8}},
    {{0x334a, 0x31a, 0x31d, 0x318, 0x321}, {11, 11, 23}},
    {{0x2f995, 0x3320, 0x1d43a}, {11, 10, 19}},
    {{0x1f3fd, 0xc5b4, 0x3235}, {10, 10, 12}},
    {{0xfcd5, 0x5dc, 0xd55c, 0x41f, 0xfdb8, 0x1f244}, {17, 17, 26}},
    {{0x32d}, {2, 2, 2}},
    {{0x3099, 0x438, 0x1d60f, 0x31f}, {11, 11, 8}},
    {{0x1d560, 0x59, 0xfca4, 0x32b, 0xfe12, 0x328}, {15, 15, 13}},
    {{0x1d6df, 0x317, 0x63, 0x318, 0x31f}, {11, 11, 9}},
    {{0x33e, 0xe9, 0x212d}, {7, 7, 5}},
    {{0x3e, 0x3194, 0xfd64, 0x308, 0x4e2d, 0x31a}, {14, 14, 17}},
    {{0x20e, 0x1eeb3, 0xfc8a, 0x322b, 0x61, 0x31}, {14, 14, 15}},
    {{0x1fc9, 0x341, 0xfbef, 0x32b}, {10, 9, 10}},
    {{0xfb3c, 0x306}, {5, 6, 6}},
    {{0x31a, 0x329, 0x2f974, 0xf75, 0x305}, {13, 15, 15}},
    {{0x314, 0xa, 0x3208, 0x33ec, 0x1f54}, {12, 12, 16}},
    {{0xf4d}, {3, 6, 6}},
    {{0x6587}, {3, 3, 3}},
    {{0xff4e, 0x2152, 0xfcd3}, {9, 9, 11}},
    {{0xf93, 0x5d5, 0x308}, {7, 10, 10}},
    {{0x304c, 0x3099}, {6, 6, 6}},
    {{0x5dc}, {2, 2, 2}},
    {{0xfb34, 0x309, 0x30f, 0x7b}, {8, 9, 9}},
    {{0x337f, 0xfc7e, 0x335, 0x31, 0xffdc, 0x340}, {14, 14, 24}},
    {{0xeb3, 0xd55c}, {6, 6, 9}},
};

struct worth {
    int64_t forms[3]; /* tokens of input, by what the tokenizer does first */
    int64_t output;
};

struct body {
    char *at;
    size_t n;
    struct worth worth;
};

static void put(struct body *body, const char *text)
{
    size_t n = strlen(text);

    assert_true(body->n + n < BODY_MAX);
    memcpy(body->at + body->n, text, n + 1);
    body->n += n;
}

static void add(struct body *body, int64_t tokens)
{
    for (int i = 0; i < 3; i++)
        body->worth.forms[i] += tokens;
}

/* A code point as it may be written in JSON. Returns the bytes that json.dumps would escape it
 * with, more than it has. */
static int64_t put_point(struct draw *draw, struct body *body, uint32_t point)
{
    char text[16];
    bool special = point == '"' || point == '\\' || point < 0x20;

    if (special || draw_chance(draw, 30)) {
        if (point >= 0x10000)
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                     0xdc00 + ((point - 0x10000) & 0x3ff));
        else
            snprintf(text, sizeof text, "\\u%04x", point);
    } else if (point < 0x80) {
        snprintf(text, sizeof text, "%c", (int)point);
    } else if (point < 0x800) {
        snprintf(text, sizeof text, "%c%c", (int)(0xc0 | point >> 6), (int)(0x80 | (point & 0x3f)));
    } else if (point < 0x10000) {
        snprintf(text, sizeof text, "%c%c%c", (int)(0xe0 | point >> 12),
                 (int)(0x80 | (point >> 6 & 0x3f)), (int)(0x80 | (point & 0x3f)));
    } else {
        snprintf(text, sizeof text, "%c%c%c%c", (int)(0xf0 | point >> 18),
                 (int)(0x80 | (point >> 12 & 0x3f)), (int)(0x80 | (point >> 6 & 0x3f)),
                 (int)(0x80 | (point & 0x3f)));
    }
    put(body, text);
    return special ? 1 : 0; /* \n, \t, \" and \\ */
}

/* Some texts with blanks between them, within quotes. Returns what escaping adds. */
static int64_t put_string(struct draw *draw, struct body *body)
{
    int64_t escapes = 0;

    put(body, "\"");
    for (int64_t n = draw_between(draw, 0, draw_chance(draw, 10) ? 60 : 5); n > 0; n--) {
        const struct text *text = &texts[draw_bits(draw) % COUNT_OF(texts)];
        for (size_t i = 0; i < COUNT_OF(text->points) && text->points[i] != 0; i++)
            escapes += put_point(draw, body, text->points[i]);
        for (int i = 0; i < 3; i++)
            body->worth.forms[i] += text->lengths[i] + 1;
        put(body, " ");
    }
    put(body, "\"");
    return escapes;
}

/* A value of a schema at a depth. Adds its length when it is written with an indent of 4. */
static void put_value(struct draw *draw, struct body *body, int depth)
{
    static const struct {
        const char *sent;
        int64_t written; /* by json.dumps */
    } scalars[] = {{"1", 1}, {"1e15", 18}, {"-0.5", 4}, {"1E2", 5}, {"true", 4}, {"null", 4}};
    int64_t n = draw_between(draw, 0, 4);
    bool is_array = draw_chance(draw, 50);
    char key[16];

    if (depth > 6 || draw_chance(draw, 40)) {
        size_t i = draw_bits(draw) % COUNT_OF(scalars);
        if (draw_chance(draw, 50)) {
            add(body, 2 + put_string(draw, body));
        } else {
            put(body, scalars[i].sent);
            add(body, scalars[i].written);
        }
        return;
    }
    put(body, is_array ? "[" : "{");
    for (int64_t i = 0; i < n; i++) {
        put(body, i > 0 ? "," : "");
        add(body, 1 + 4 * (depth + 1) + (i > 0)); /* a line, and the comma before it */
        if (!is_array) {
            snprintf(key, sizeof key, "\"k%d\":", (int)i);
            put(body, key);
            add(body, (int64_t)strlen(key) + 1);
        }
        put_value(draw, body, depth + 1);
    }
    put(body, is_array ? "]" : "}");
    add(body, 2 + (n > 0 ? 1 + 4 * depth : 0));
}

static void put_tools(struct draw *draw, struct body *body, bool anthropic)
{
    put(body, ",\"tools\":[");
    for (int64_t n = draw_between(draw, 1, 3); n > 0; n--) {
        put(body, anthropic
                      ? "{\"name\":\"f\",\"input_schema\":"
                      : "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":");
        add(body, 2 + 1 + 12); /* braces, a line; what a function costs beside its text */
        add(body, anthropic ? 2 * 5 + 11 + 17 : 2 * 5 + 2 * 9 + 20 + 14 + 11 + 16);
        put_value(draw, body, anthropic ? 2 : 3);
        put(body, anthropic ? "}" : "}}");
        put(body, n > 1 ? "," : "");
    }
    put(body, "]");
    add(body, anthropic ? 804 : 80);
}

static void put_message(struct draw *draw, struct body *body, const char *role)
{
    put(body, "{\"role\":\"");
    put(body, role);
    put(body, "\",\"content\":");
    if (draw_chance(draw, 50)) {
        put_string(draw, body);
    } else {
        put(body, "[");
        for (int64_t n = draw_between(draw, 1, 4); n > 0; n--) {
            put(body, "{\"type\":\"text\",\"text\":");
            put_string(draw, body);
            put(body, n > 1 ? "}," : "}");
            add(body, 1); /* SentencePiece's prefix */
        }
        put(body, "]");
    }
    put(body, "}");
    add(body, 5 + (int64_t)strlen(role));
}

static void begin(struct body *body)
{
    body->n = 0;
    memset(&body->worth, 0, sizeof body->worth);
    put(body, "{\"model\":\"m\"");
    add(body, 3 + 25 + 2); /* a reply's head, a default system message, begin and end */
}

static enum endpoint put_chat(struct draw *draw, struct body *body)
{
    bool anthropic = draw_chance(draw, 50);
    int64_t n = draw_between(draw, 1, 3), most = draw_between(draw, 1, 100);
    char text[64];

    begin(body);
    if (draw_chance(draw, 50))
        put_tools(draw, body, anthropic);
    put(body, ",\"messages\":[");
    for (int64_t i = draw_between(draw, 0, 8); i >= 0; i--) {
        put_message(draw, body, i % 2 == 0 ? "user" : "assistant");
        put(body, i > 0 ? "," : "");
    }
    snprintf(text, sizeof text, "],\"max_tokens\":%d", (int)most);
    put(body, text);
    body->worth.output = most;
    if (!anthropic) {
        snprintf(text, sizeof text, ",\"n\":%d", (int)n);
        put(body, text);
        body->worth.output = most * n;
    }
    put(body, "}");
    return anthropic ? ENDPOINT_MESSAGES : ENDPOINT_CHAT;
}

static enum endpoint put_completion(struct draw *draw, struct body *body)
{
    int64_t prompts = draw_between(draw, 1, 6), most = draw_between(draw, 1, 100);
    bool ids = draw_chance(draw, 30);
    char text[64];

    begin(body);
    put(body, ",\"prompt\":[");
    for (int64_t i = 0; i < prompts; i++) {
        put(body, i > 0 ? "," : "");
        if (ids) {
            put(body, "[1,2,3]");
            add(body, 3);
        } else {
            put_string(draw, body);
        }
        add(body, 3); /* begin, end, and a prefix */
    }
    snprintf(text, sizeof text, "],\"best_of\":2,\"max_tokens\":%d}", (int)most);
    put(body, text);
    body->worth.output = 2 * prompts * most;
    return ENDPOINT_COMPLETIONS;
}

static void no_body_is_worth_more_than_its_bound(void **state)
{
    uint64_t seed = draw_seed("test_bound_drawn");
    struct json_reader *reader = json_reader_new();
    struct body body = {.at = malloc(BODY_MAX)};

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct draw draw = draw_stream(seed, round);
        enum endpoint endpoint =
            draw_chance(&draw, 70) ? put_chat(&draw, &body) : put_completion(&draw, &body);
        struct bound_facts facts;
        struct tg_usage_bound bound;
        struct ask_problem problem;
        struct ask ask;
        if (!ask_read(reader, endpoint, body.at, body.n, body.n, &ask, &problem))
            fail_msg("%s: %.*s", problem.text, (int)body.n, body.at);
        /* Without what the overheads have to spare, so that they do not hide a mistake. */
        bound_facts_init(&facts);
        facts.per_call = 30;
        facts.per_message = 5;
        facts.per_part = 3;
        facts.tool_prompt = 80;
        facts.per_tool = 12;
        for (int i = 0; i < 3; i++) {
            facts.form = (enum bound_form)i;
            if (!bound_of(&ask, &facts, true, &bound, &problem))
                fail_msg("%s: %.*s", problem.text, (int)body.n, body.at);
            if (bound.input < body.worth.forms[i] || bound.output < body.worth.output)
                fail_msg("form %d: %lld and %lld of %lld and %lld: %.*s", i, (long long)bound.input,
                         (long long)bound.output, (long long)body.worth.forms[i],
                         (long long)body.worth.output, (int)body.n, body.at);
            assert_true(ask.measure.text.bytes <= ask.measure.text.nfc &&
                        ask.measure.text.nfc <= ask.measure.text.nfkc);
        }
    }
    json_reader_free(reader);
    free(body.at);
}

/* Conversations that grow, of which some turns are reported: whatever is known of a prefix, what is
 * reserved is no less than the worst of the whole. */
static void known_prefixes_keep_the_bound(void **state)
{
    uint64_t seed = draw_seed("test_bound_drawn, prefixes");
    struct json_reader *reader = json_reader_new();
    struct body body = {.at = malloc(BODY_MAX)};
    struct prefix_memory *memory = prefix_memory_new(2);
    const struct prefix_who who = {SLICE("t"), SLICE("p"), SLICE("m"), SLICE("")};
    struct bound_facts facts;
    int found = 0;

    (void)state;
    bound_facts_init(&facts);
    facts.form = BOUND_NFKC;
    facts.per_message = 5;
    facts.per_part = 1;
    for (uint64_t round = 0; round < 300; round++) {
        struct draw draw = draw_stream(seed, round);
        begin(&body);
        put(&body, ",\"messages\":[");
        for (int turn = 0; turn < 120; turn++) {
            put_message(&draw, &body, turn % 2 == 0 ? "user" : "assistant");
            if (turn % 2 == 1 || draw_chance(&draw, 30)) {
                put(&body, ",");
                continue;
            }
            size_t n = body.n;
            struct ask ask;
            struct ask_problem problem;
            struct tg_usage_bound bound;
            put(&body, "]}");
            assert_true(ask_read(reader, ENDPOINT_CHAT, body.at, body.n, body.n, &ask, &problem));
            prefix_find(memory, &who, body.at, &ask, (tg_ms)round);
            found += ask.known_tokens >= 0;
            assert_true(bound_of(&ask, &facts, false, &bound, &problem));
            if (bound.input < body.worth.forms[BOUND_NFKC])
                fail_msg("turn %d: %lld of %lld", turn, (long long)bound.input,
                         (long long)body.worth.forms[BOUND_NFKC]);
            prefix_remember(memory, &who, &ask, body.worth.forms[BOUND_NFKC], (tg_ms)round);
            body.n = n;
            put(&body, ",");
        }
    }
    assert_true(found > 300);
    prefix_memory_free(memory);
    json_reader_free(reader);
    free(body.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_body_is_worth_more_than_its_bound),
        cmocka_unit_test(known_prefixes_keep_the_bound),
    };

    return cmocka_run_group_tests_name("bound", tests, NULL, NULL);
}
