/* net_dialect_kit.c - translations for the tests of dialects: text in, text out. */
#include "net_dialect_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define NOW 1700000000
#define NONCE 42
#define PROMPT_TOKENS 77

void dialect_case_init(struct dialect_case *c)
{
    *c = (struct dialect_case){.json = json_reader_new()};
    assert_non_null(c->json);
    neutral_target_init(&c->target);
    c->target.strict = false;
}

void dialect_case_fini(struct dialect_case *c)
{
    json_reader_free(c->json);
    free(c->text);
    c->text = NULL;
}

int dialect_open(void **state)
{
    static struct dialect_case c;

    dialect_case_init(&c);
    *state = &c;
    return 0;
}

int dialect_close(void **state)
{
    dialect_case_fini(*state);
    return 0;
}

static char *swapped(const char *text, size_t n, char from, char to)
{
    char *copy = malloc(n + 1);

    assert_non_null(copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = text[i] == from ? to : text[i];
    copy[n] = '\0';
    return copy;
}

static const char *keep_text(struct dialect_case *c, const struct text_out *out)
{
    assert_false(out->failed);
    free(c->text);
    c->text = swapped(out->bytes, out->size, '"', '\'');
    return c->text;
}

const char *dialect_request(struct dialect_case *c, enum dialect from, enum dialect to,
                            const char *body)
{
    char *json = swapped(body, strlen(body), '\'', '"');
    struct neutral_request request;
    struct json_writer out;
    const char *text = NULL;

    neutral_request_init(&request);
    json_writer_init(&out);
    c->dropped = (struct neutral_dropped){.n = 0};
    if (dialect_find(from)->read_request(c->json, json, strlen(json), strlen(json), &request,
                                         &c->problem) &&
        dialect_find(to)->write_request(c->json, &request, &c->target, &out, &c->dropped,
                                        &c->problem)) {
        struct json_value root;
        assert_true(json_begin(c->json, out.text.bytes, out.text.size, out.text.size, &root));
        assert_true(json_end(c->json)); /* what is written is JSON */
        text = keep_text(c, &out.text);
    } else {
        assert_true(c->problem.text[0] != '\0');
    }
    json_writer_fini(&out);
    neutral_request_fini(&request);
    free(json);
    return text;
}

static void make_terms(struct dialect_case *c, enum dialect provider, enum dialect client,
                       const char *body, struct reply_terms *terms)
{
    char *json = swapped(body, strlen(body), '\'', '"');
    struct neutral_request request;

    neutral_request_init(&request);
    if (!dialect_find(client)->read_request(c->json, json, strlen(json), strlen(json), &request,
                                            &c->problem))
        fail_msg("the request: %s", c->problem.text);
    assert_true(reply_terms_init(terms, &request, provider, SLICE("prov"), request.model, NOW,
                                 NONCE, PROMPT_TOKENS));
    neutral_request_fini(&request);
    free(json);
}

static void put_error(const struct neutral_error *error, enum dialect client,
                      struct json_writer *out)
{
    out->text.size = 0;
    out->comma = false;
    text_out_format(&out->text, "%d ", neutral_error_status(error, client));
    neutral_error_write(error, client, out);
}

const char *dialect_reply(struct dialect_case *c, enum dialect provider, enum dialect client,
                          const char *body, const char *reply)
{
    char *json = swapped(reply, strlen(reply), '\'', '"');
    struct translation translation;
    struct reply_terms terms;
    struct json_writer out;

    make_terms(c, provider, client, body, &terms);
    json_writer_init(&out);
    translation_init(&translation, c->json, &terms, dialect_find(client), false);
    assert_true(translation_reply(&translation, (struct slice){json, strlen(json)}, &out));
    assert_true(translation_ended(&translation));
    if (translation_error(&translation) != NULL)
        put_error(translation_error(&translation), client, &out);
    const char *text = keep_text(c, &out.text);
    translation_fini(&translation);
    reply_terms_fini(&terms);
    json_writer_fini(&out);
    free(json);
    return text;
}

const char *dialect_stream(struct dialect_case *c, enum dialect provider, enum dialect client,
                           const char *body, const char *stream, size_t first, size_t piece)
{
    char *bytes = swapped(stream, strlen(stream), '\'', '"');
    size_t n = strlen(stream);
    struct translation translation;
    struct reply_terms terms;
    struct json_writer out;

    make_terms(c, provider, client, body, &terms);
    json_writer_init(&out);
    translation_init(&translation, c->json, &terms, dialect_find(client), true);
    for (size_t at = 0; at < n;) {
        size_t now = at == 0 && first > 0 ? first : piece;
        now = now < n - at ? now : n - at;
        char *exact = malloc(now);
        assert_non_null(exact);
        memcpy(exact, bytes + at, now);
        assert_true(translation_feed(&translation, exact, now, &out));
        free(exact);
        at += now;
    }
    assert_true(translation_end(&translation, &out));
    assert_true(translation_ended(&translation));
    const char *text = keep_text(c, &out.text);
    translation_fini(&translation);
    reply_terms_fini(&terms);
    json_writer_fini(&out);
    free(bytes);
    return text;
}

const char *dialect_plain(enum dialect client)
{
    switch (client) {
    case DIALECT_CHAT:
        return "{'model':'m','messages':[{'role':'user','content':'hi'}],'stream':true,"
               "'stream_options':{'include_usage':true},"
               "'tools':[{'type':'function','function':{'name':'f'}}]}";
    case DIALECT_RESPONSES:
        return "{'model':'m','input':'hi','stream':true,"
               "'tools':[{'type':'function','name':'f','parameters':null,'strict':false}]}";
    default:
        return "{'model':'m','max_tokens':9,'messages':[{'role':'user','content':'hi'}],"
               "'stream':true,'tools':[{'name':'f','input_schema':{'type':'object'}}]}";
    }
}

const char *dialect_error(struct dialect_case *c, enum dialect client, int status, const char *body)
{
    char *json = swapped(body, strlen(body), '\'', '"');
    struct neutral_error error;
    struct json_writer out;

    json_writer_init(&out);
    neutral_error_read(c->json, status, (struct slice){json, strlen(json)}, &error);
    put_error(&error, client, &out);
    const char *text = keep_text(c, &out.text);
    json_writer_fini(&out);
    free(json);
    return text;
}

void expect_text(const char *text, const char *want, bool has, const char *file, int line)
{
    if (text != NULL && (strstr(text, want) != NULL) == has)
        return;
    print_error("%s:%d: %s\n", file, line, text != NULL ? text : "(refused)");
    _fail(file, line);
}
