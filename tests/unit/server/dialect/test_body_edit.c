/* test_body_edit.c - an edited body is the document with the edits made, and nothing else. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "server/dialect/body_edit.h"

static int setup(void **state)
{
    *state = json_reader_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    json_reader_free(*state);
    return 0;
}

/* Bodies are written with ' for ". */
static void quote(char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            *text = '"';
}

static struct ask read_ask(struct json_reader *reader, enum endpoint endpoint, const char *body)
{
    struct ask ask;
    struct ask_problem problem;

    if (!ask_read(reader, endpoint, body, strlen(body), strlen(body), &ask, &problem))
        fail_msg("%s: %s", body, problem.text);
    return ask;
}

static void apply(const struct body_edit *edit, const char *body, char *out, size_t size)
{
    struct slice slices[BODY_SLICES_MAX];
    size_t total = 0;
    size_t used = 0;
    size_t n = body_edit_slices(edit, body, strlen(body), slices, &total);

    assert_true(n <= BODY_SLICES_MAX && total < size);
    for (size_t i = 0; i < n; i++) {
        memcpy(out + used, slices[i].at, slices[i].n);
        used += slices[i].n;
    }
    assert_int_equal(used, total);
    out[used] = '\0';
}

enum what { MODEL = 1,
            BOUND = 2,
            USAGE = 4 };

static void edits_change_what_they_should(void **state)
{
    static const struct {
        enum endpoint endpoint;
        unsigned what;
        const char *before, *after;
    } rows[] = {
        {ENDPOINT_CHAT, 0, "{'model':'a'}", "{'model':'a'}"},
        {ENDPOINT_CHAT, MODEL, "{ 'model' : 'a' }", "{ 'model' : 'new' }"},
        {ENDPOINT_CHAT, MODEL, "{'x':1,'mod\\u0065l':'\\u0061'}", "{'x':1,'mod\\u0065l':'new'}"},
        {ENDPOINT_CHAT, MODEL, "{'model':'\\u006eew'}", "{'model':'\\u006eew'}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a'}", "{'max_completion_tokens':50,'model':'a'}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':51}", "{'model':'a','max_tokens':50}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':50}", "{'model':'a','max_tokens':50}"},
        {ENDPOINT_CHAT, BOUND, "{'max_tokens': 1e3 ,'model':'a'}",
         "{'max_tokens': 50 ,'model':'a'}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':null}", "{'model':'a','max_tokens':50}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':99,'max_completion_tokens':98}",
         "{'model':'a','max_tokens':50,'max_completion_tokens':50}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':null,'max_completion_tokens':9}",
         "{'model':'a','max_tokens':null,'max_completion_tokens':9}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':null,'max_completion_tokens':null}",
         "{'model':'a','max_tokens':null,'max_completion_tokens':50}"},
        /* 0 is no bound, and is replaced wherever it stands; to Anthropic it is one */
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':0}", "{'model':'a','max_tokens':50}"},
        {ENDPOINT_CHAT, BOUND, "{'model':'a','max_tokens':0,'max_completion_tokens':7}",
         "{'model':'a','max_tokens':50,'max_completion_tokens':7}"},
        {ENDPOINT_MESSAGES, BOUND, "{'model':'a','max_tokens':0}", "{'model':'a','max_tokens':0}"},
        {ENDPOINT_RESPONSES, BOUND, "{'model':'a'}", "{'max_output_tokens':50,'model':'a'}"},
        {ENDPOINT_COMPLETIONS, BOUND, "{'model':'a'}", "{'max_tokens':50,'model':'a'}"},
        {ENDPOINT_MESSAGES, BOUND, "{'model':'a','max_tokens':1000}",
         "{'model':'a','max_tokens':50}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':true}",
         "{'stream_options':{'include_usage':true},'model':'a','stream':true}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':true,'stream_options':null}",
         "{'model':'a','stream':true,'stream_options':{'include_usage':true}}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':true,'stream_options':{ }}",
         "{'model':'a','stream':true,'stream_options':{'include_usage':true }}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':true,'stream_options':{'x':1}}",
         "{'model':'a','stream':true,'stream_options':{'include_usage':true,'x':1}}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':true,'stream_options':"
                               "{'include_usage':false}}",
         "{'model':'a','stream':true,'stream_options':{'include_usage':true}}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':true,'stream_options':"
                               "{'include_usage':null}}",
         "{'model':'a','stream':true,'stream_options':{'include_usage':true}}"},
        {ENDPOINT_CHAT, USAGE, "{'model':'a','stream':false}", "{'model':'a','stream':false}"},
        {ENDPOINT_RESPONSES, USAGE, "{'model':'a','stream':true}", "{'model':'a','stream':true}"},
        {ENDPOINT_MESSAGES, USAGE, "{'model':'a','stream':true}", "{'model':'a','stream':true}"},
        {ENDPOINT_CHAT, MODEL | BOUND | USAGE, "\n{'stream':true,'model':'a'}\n",
         "\n{'max_completion_tokens':50,'stream_options':{'include_usage':true},'stream':true,"
         "'model':'new'}\n"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char before[256];
        char after[256];
        char got[512];
        struct body_edit edit;
        snprintf(before, sizeof before, "%s", rows[i].before);
        snprintf(after, sizeof after, "%s", rows[i].after);
        quote(before);
        quote(after);
        struct ask ask = read_ask(*state, rows[i].endpoint, before);
        body_edit_init(&edit);
        if ((rows[i].what & MODEL) != 0)
            assert_true(body_edit_model(&edit, &ask, SLICE("new")));
        if ((rows[i].what & BOUND) != 0)
            assert_non_null(body_edit_bound(&edit, &ask, 50, "max_completion_tokens"));
        if ((rows[i].what & USAGE) != 0)
            assert_int_equal(body_edit_include_usage(&edit, &ask), strcmp(before, after) != 0);
        apply(&edit, before, got, sizeof got);
        assert_string_equal(got, after);
    }
}

static void edits_that_cannot_be_made_are_refused(void **state)
{
    struct ask ask = read_ask(*state, ENDPOINT_CHAT, "{\"model\":\"a\"}");
    struct ask embeddings = read_ask(*state, ENDPOINT_EMBEDDINGS, "{\"model\":\"a\"}");
    struct body_edit edit;
    char name[ASK_TEXT_MAX + 1];

    memset(name, '\x01', sizeof name);
    body_edit_init(&edit);
    assert_false(body_edit_model(&edit, &ask, (struct slice){name, sizeof name}));
    assert_false(body_edit_model(&edit, &ask, SLICE("")));
    assert_false(body_edit_model(&edit, &ask, SLICE("\xff")));
    assert_null(body_edit_bound(&edit, &ask, -1, "max_tokens"));
    assert_null(body_edit_bound(&edit, &ask, 0, "max_tokens"));
    assert_null(body_edit_bound(&edit, &embeddings, 5, "max_tokens"));
    assert_int_equal(edit.n, 0);
    /* The longest name, all of it escaped, still has room, together with all other edits. */
    assert_true(body_edit_model(&edit, &ask, (struct slice){name, ASK_TEXT_MAX}));
    assert_non_null(body_edit_bound(&edit, &ask, INT64_MAX, "max_completion_tokens"));
    assert_int_equal(edit.n, 2);
}

/* ---- Any body -------------------------------------------------------------------------------- */

/* The model of a body: its fields in any order, spaced and escaped in any way. */
struct model {
    int has_stream;     /* 0 none, 1 true, 2 null */
    int options;        /* 0 none, 1 null, 2 object */
    int include;        /* within: 0 none, 1 true, 2 false, 3 null */
    bool other;         /* within: another key */
    int bounds[2];      /* -2 none, -1 null, or the value */
    char filler[2][40]; /* fields that are none of our business */
};

static void put_blanks(struct draw *draw, char *out)
{
    static const char *const blanks[] = {"", "", "", " ", "\n", "\t ", "\r\n"};

    strcat(out, blanks[draw_between(draw, 0, COUNT_OF(blanks) - 1)]);
}

static void put_member(struct draw *draw, char *out, const char *key, const char *value)
{
    bool first = out[strlen(out) - 1] == '{';

    if (!first)
        strcat(out, ",");
    put_blanks(draw, out);
    sprintf(out + strlen(out), "\"%s\"", key);
    put_blanks(draw, out);
    strcat(out, ":");
    put_blanks(draw, out);
    strcat(out, value);
    put_blanks(draw, out);
}

static struct model draw_model(struct draw *draw)
{
    static const char *const fillers[] = {"[1,{\"model\":\"x\"}]", "\"}{,\\\"\"", "-1.5e3", "{}"};
    struct model model = {
        .has_stream = (int)draw_between(draw, 0, 2),
        .options = (int)draw_between(draw, 0, 2),
        .include = (int)draw_between(draw, 0, 3),
        .other = draw_chance(draw, 50),
    };

    for (int i = 0; i < 2; i++) {
        model.bounds[i] = draw_chance(draw, 50) ? (int)draw_between(draw, -2, -1)
                                                : (int)draw_between(draw, 0, 100);
        snprintf(model.filler[i], sizeof model.filler[i], "%s", fillers[draw_between(draw, 0, 3)]);
    }
    return model;
}

static void put_options(struct draw *draw, const struct model *model, char *out)
{
    static const char *const words[] = {"", "true", "false", "null"};

    if (model->options == 1) {
        strcpy(out, "null");
        return;
    }
    strcpy(out, "{");
    if (model->other)
        put_member(draw, out, "other", "[true]");
    if (model->include > 0)
        put_member(draw, out, "include_usage", words[model->include]);
    put_blanks(draw, out);
    strcat(out, "}");
}

static void put_body(struct draw *draw, const struct model *model, char *out)
{
    static const char *const names[] = {"max_tokens", "max_completion_tokens"};
    int first = (int)draw_between(draw, 0, 6);
    char value[200];

    out[0] = '\0';
    put_blanks(draw, out);
    strcat(out, "{");
    for (int i = 0; i < 7; i++) {
        int what = (first + i) % 7;
        if (what == 0)
            put_member(draw, out, draw_chance(draw, 50) ? "model" : "mo\\u0064el", "\"o\\u006cd\"");
        else if (what == 1 && model->has_stream > 0)
            put_member(draw, out, "stream", model->has_stream == 1 ? "true" : "null");
        else if (what == 2 && model->options > 0)
            put_options(draw, model, value), put_member(draw, out, "stream_options", value);
        else if (what == 3 || what == 4)
            put_member(draw, out, what == 3 ? "a" : "b", model->filler[what - 3]);
        else if (what >= 5 && model->bounds[what - 5] > -2) {
            sprintf(value, "%d", model->bounds[what - 5]);
            put_member(draw, out, names[what - 5], model->bounds[what - 5] < 0 ? "null" : value);
        }
    }
    strcat(out, "}");
    put_blanks(draw, out);
}

/* What the edited body must say, read by the reader that the unedited one was read with. */
static void check_edited(const struct ask *before, const struct ask *after, int most, bool asked)
{
    int64_t bound = before->max_output < 0 || before->max_output > most ? most : before->max_output;

    assert_int_equal(after->max_output, bound);
    assert_int_equal(after->model.n, 3);
    assert_memory_equal(after->model.at, "n\"w", 3);
    assert_int_equal(after->stream, before->stream);
    assert_int_equal(after->include_usage, before->include_usage || asked);
    if (before->stream)
        assert_true(after->include_usage);
}

/* Taking the edited values back out leaves the bytes of the original. */
static void check_untouched(const struct body_edit *edit, const char *before, const char *after)
{
    size_t from = 0;
    size_t to = 0;

    for (size_t i = 0; i <= edit->n; i++) {
        size_t end = i < edit->n ? edit->list[i].at : strlen(before);
        assert_memory_equal(before + from, after + to, end - from);
        to += end - from + (i < edit->n ? edit->list[i].text_n : 0);
        from = end + (i < edit->n ? edit->list[i].n : 0);
    }
    assert_int_equal(to, strlen(after));
}

static void any_body_is_edited_to_the_same_document(void **state)
{
    uint64_t seed = draw_seed("test_body_edit");

    for (uint64_t round = 0; round < 20000; round++) {
        struct draw draw = draw_stream(seed, round);
        struct model model = draw_model(&draw);
        int most = (int)draw_between(&draw, 1, 100);
        char before[1024];
        char after[2048];
        struct body_edit edit;
        put_body(&draw, &model, before);
        struct ask ask = read_ask(*state, ENDPOINT_CHAT, before);
        body_edit_init(&edit);
        bool asked = body_edit_include_usage(&edit, &ask);
        assert_non_null(body_edit_bound(&edit, &ask, most, "max_completion_tokens"));
        assert_true(body_edit_model(&edit, &ask, SLICE("n\"w")));
        apply(&edit, before, after, sizeof after);
        struct ask edited = read_ask(*state, ENDPOINT_CHAT, after);
        check_edited(&ask, &edited, most, asked);
        check_untouched(&edit, before, after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_change_what_they_should),
        cmocka_unit_test(edits_that_cannot_be_made_are_refused),
        cmocka_unit_test(any_body_is_edited_to_the_same_document),
    };

    return cmocka_run_group_tests_name("body_edit", tests, setup, teardown);
}
