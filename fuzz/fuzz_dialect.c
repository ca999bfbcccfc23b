/* fuzz_dialect.c - any bytes as a request, a reply or a stream in any dialect, told in any other.
 *
 * The first byte chooses the dialects and what the rest is, the second how a stream is cut. A
 * request that is read and written is JSON, and is read again where clients speak its dialect; a
 * whole reply is JSON; a stream gives the same bytes however it is cut.
 *
 * FUZZ_READER=N fuzzes one reader alone: N % 4 is its dialect, in the order of enum dialect, and
 * N / 4 what it reads: 0 a request, 1 a whole reply, 2 a stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "server/dialect/translate/translation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct dialect_ops *ops_of(unsigned n, bool client)
{
    const struct dialect_ops *ops = dialect_find((enum dialect)(n % DIALECT_COUNT));

    return (client ? ops->read_request != NULL : ops->write_request != NULL)
               ? ops
               : dialect_find(DIALECT_CHAT);
}

static void check_json(struct json_reader *json, struct slice text)
{
    struct json_value root;

    insist(json_begin(json, text.at, text.n, text.n, &root) && root.kind == JSON_OBJECT);
    insist(json_end(json));
}

static void check_text(const struct ask_problem *problem)
{
    insist(problem->text[0] != '\0' || problem->no_memory);
}

static void fuzz_request(struct json_reader *json, const struct dialect_ops *from,
                         const struct dialect_ops *to, struct slice body, bool strict)
{
    struct neutral_request request, again;
    struct neutral_target target;
    struct neutral_dropped dropped = {.n = 0};
    struct ask_problem problem;
    struct json_writer out;

    neutral_request_init(&request);
    neutral_request_init(&again);
    neutral_target_init(&target);
    json_writer_init(&out);
    target.strict = strict;
    if (!from->read_request(json, body.at, body.n, body.n, &request, &problem) ||
        !to->write_request(json, &request, &target, &out, &dropped, &problem)) {
        check_text(&problem);
    } else {
        struct slice text = text_out_written(&out.text);
        check_json(json, text);
        insist(strlen(dropped.names) == dropped.n);
        if (to->read_request != NULL)
            if (!to->read_request(json, text.at, text.n, text.n, &again, &problem)) {
                fprintf(stderr, "%s to %s: %s: %.*s\n", from->name, to->name, problem.text,
                        (int)text.n, text.at);
                insist(false);
            }
    }
    json_writer_fini(&out);
    neutral_request_fini(&again);
    neutral_request_fini(&request);
}

/* The reply to a client; a piece of 0: a whole one. */
static void tell(struct json_reader *json, const struct dialect_ops *provider,
                 const struct dialect_ops *client, struct slice text, size_t piece,
                 struct json_writer *out)
{
    struct neutral_tool tools[] = {{.name = SLICE("f")}, {.name = SLICE("g"), .free = true}};
    struct neutral_request request = {.tools = tools, .n_tools = 2, .want_usage = true};
    struct translation translation;
    struct reply_terms terms;

    insist(reply_terms_init(&terms, &request, provider->dialect, SLICE("p"), SLICE("m"), 1, 2, 3));
    translation_init(&translation, json, &terms, client, piece > 0);
    if (piece == 0) {
        insist(translation_reply(&translation, text, out));
    } else {
        for (size_t at = 0; at < text.n; at += piece)
            insist(translation_feed(&translation, text.at + at,
                                    piece < text.n - at ? piece : text.n - at, out));
        insist(translation_end(&translation, out));
    }
    insist(translation_ended(&translation));
    if (piece == 0 && translation_error(&translation) == NULL)
        check_json(json, text_out_written(&out->text));
    translation_fini(&translation);
    reply_terms_fini(&terms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *json;
    static const char *alone;
    struct json_writer one, two;
    struct neutral_error error;

    if (json == NULL) {
        json = json_reader_new();
        alone = getenv("FUZZ_READER");
    }
    if (size < 3 || json == NULL)
        return 0;
    struct slice text = {(const char *)data + 2, size - 2};
    unsigned what = data[0] / 16 % 3, from = data[0] % 4u, to = data[0] / 4u;
    if (alone != NULL) {
        from = (unsigned)atoi(alone) % 4;
        what = (unsigned)atoi(alone) / 4 % 3;
    }
    json_writer_init(&one);
    json_writer_init(&two);
    if (what == 0) {
        fuzz_request(json, ops_of(from, true), ops_of(to, false), text, data[1] % 2 == 0);
    } else if (what == 1) {
        tell(json, ops_of(from, false), ops_of(to, true), text, 0, &one);
    } else {
        tell(json, ops_of(from, false), ops_of(to, true), text, text.n, &one);
        tell(json, ops_of(from, false), ops_of(to, true), text, 1u + data[1] % 64, &two);
        insist(slice_equal(text_out_written(&one.text), text_out_written(&two.text)));
    }
    neutral_error_read(json, 400 + data[1], text, &error);
    insist(error.class < ERROR_CLASS_COUNT && strlen(error.message) < ERROR_MESSAGE_MAX);
    json_writer_fini(&one);
    json_writer_fini(&two);
    return 0;
}
