/* test_translate_drawn.c - random requests, written in a dialect and read again, are the same.
 *
 * A request is drawn with all that a dialect knows, and no more: nothing may be dropped, what is
 * read must be what was written, field by field, and writing it again must give the same bytes.
 * TG_ROUND_TRIPS says how many for each dialect, TG_SOAK=1 that it is 100,000; TG_SEED where they
 * begin.
 */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/array.h"
#include "lib/core/random.h"
#include "net_dialect_kit.h"

#define C DIALECT_CHAT
#define R DIALECT_RESPONSES
#define A DIALECT_ANTHROPIC

static struct json_reader *json;

/* One request that is being drawn. */
struct draw {
    struct random random;
    enum dialect dialect;
    struct neutral_request *request;
    size_t ids;
};

static size_t below(struct draw *draw, size_t n)
{
    return (size_t)(random_bits(&draw->random) % n);
}

static bool one_in(struct draw *draw, size_t n)
{
    return below(draw, n) == 0;
}

static struct slice keep(struct draw *draw, const char *text, size_t n)
{
    char *room = neutral_room(draw->request, n);

    assert_non_null(room);
    memcpy(room, text, n);
    return (struct slice){room, n};
}

static struct slice draw_text(struct draw *draw)
{
    static const char *const pieces[] = {"a", " b ", "\n", "\"", "\\",
                                         "\xc3\xa9", "{", "\x02", "0"};
    char text[256];
    size_t n = 0, most = 1 + below(draw, 30);

    for (size_t i = 0; i < most; i++) {
        const char *piece = pieces[below(draw, COUNT_OF(pieces))];
        memcpy(text + n, piece, strlen(piece));
        n += strlen(piece);
    }
    return keep(draw, text, n);
}

static struct slice draw_name(struct draw *draw)
{
    static const char chars[] = "abcXYZ019_-";
    char text[64];
    size_t n = 1 + below(draw, sizeof text - 8);

    for (size_t i = 0; i < n; i++)
        text[i] = chars[below(draw, sizeof chars - 1)];
    n += (size_t)snprintf(text + n, sizeof text - n, "_%zu", draw->ids++ % 100000);
    return keep(draw, text, n);
}

static struct slice draw_json(struct draw *draw)
{
    static const char *const values[] = {
        "{}", "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1.50}}}",
        "{ \"$ref\" : \"#/x\", \"n\":[1, 2e3,null]}", "{\"k\":\"\\u00e9\\n\"}"};

    return slice_of(values[below(draw, COUNT_OF(values))]);
}

static enum neutral_tri draw_tri(struct draw *draw)
{
    return (enum neutral_tri)below(draw, 3);
}

/* ---- Parts and turns ------------------------------------------------------------------------- */

static struct neutral_part *add_part(struct draw *draw, enum neutral_kind kind)
{
    struct neutral_request *request = draw->request;

    assert_true(array_reserve(&request->parts, &request->parts_capacity, request->n_parts + 1));
    struct neutral_part *part = &request->parts[request->n_parts++];
    *part = (struct neutral_part){.kind = kind};
    return part;
}

static void add_turn(struct draw *draw, enum neutral_role role, size_t first)
{
    struct neutral_request *request = draw->request;

    assert_true(array_reserve(&request->turns, &request->turns_capacity, request->n_turns + 1));
    request->turns[request->n_turns++] = (struct neutral_turn){
        role, draw->dialect == R && role == ROLE_INSTRUCTION && one_in(draw, 2), first,
        request->n_parts};
}

static void mark_cache(struct draw *draw, struct neutral_part *part)
{
    static size_t marks;

    if (draw->request->n_parts == 1)
        marks = 0;
    if (draw->dialect != A || marks >= 2 || !one_in(draw, 6))
        return;
    marks++;
    part->cache = true;
    if (one_in(draw, 2))
        part->ttl = SLICE("1h");
}

static void add_text(struct draw *draw)
{
    struct neutral_part *part = add_part(draw, PART_TEXT);

    part->text = draw_text(draw);
    mark_cache(draw, part);
}

static void add_image(struct draw *draw)
{
    struct neutral_part *part = add_part(draw, PART_MEDIA);

    part->media = MEDIA_IMAGE;
    part->source = one_in(draw, 2) ? SOURCE_INLINE : SOURCE_URL;
    part->text = part->source == SOURCE_INLINE ? SLICE("QUJD") : SLICE("https://x.example/a?b=,c");
    if (part->source == SOURCE_INLINE)
        part->mime = SLICE("image/webp");
    if (draw->dialect == R || (draw->dialect == C && one_in(draw, 2)))
        part->detail = one_in(draw, 2) ? SLICE("auto") : SLICE("high");
}

static void add_document(struct draw *draw)
{
    struct neutral_part *part = add_part(draw, PART_MEDIA);

    part->media = MEDIA_DOCUMENT;
    part->source = draw->dialect != C && one_in(draw, 2) ? SOURCE_URL : SOURCE_INLINE;
    part->text = part->source == SOURCE_INLINE ? SLICE("UERG") : SLICE("https://x.example/a.pdf");
    if (part->source == SOURCE_INLINE)
        part->mime = SLICE("application/pdf");
    part->name = draw_text(draw);
}

/* What the dialect knows and no other does: by its id at the provider, or as bytes. */
static void add_own(struct draw *draw)
{
    struct neutral_part *part;

    if (one_in(draw, 2)) {
        part = add_part(draw, PART_FOREIGN);
        part->text = SLICE("{\"type\":\"hologram\",\"x\": [1.0]}");
        draw->request->foreign |= UINT64_C(1) << FIELD_HOSTED_PART;
        return;
    }
    part = add_part(draw, PART_MEDIA);
    part->media = MEDIA_DOCUMENT;
    part->source = SOURCE_STORED;
    part->text = draw_name(draw);
    draw->request->foreign |= UINT64_C(1) << FIELD_STORED_FILE;
}

static void add_content(struct draw *draw)
{
    for (size_t n = 1 + below(draw, 3); n > 0; n--)
        switch (below(draw, 8)) {
        case 0:
            add_image(draw);
            break;
        case 1:
            add_document(draw);
            break;
        case 2:
            add_own(draw);
            break;
        default:
            add_text(draw);
        }
}

static void add_call(struct draw *draw)
{
    struct neutral_part *part = add_part(draw, PART_CALL);

    part->free = draw->dialect != A && one_in(draw, 4);
    part->id = draw_name(draw);
    part->name = draw_name(draw);
    part->text = part->free ? draw_text(draw) : draw_json(draw);
}

static void add_reasoning(struct draw *draw)
{
    struct neutral_part *part = add_part(draw, PART_REASONING);
    bool redacted = draw->dialect == A && one_in(draw, 3);

    part->opaque_kind = draw->dialect == R ? OPAQUE_ENCRYPTED
                        : redacted         ? OPAQUE_REDACTED
                                           : OPAQUE_SIGNATURE;
    part->opaque_dialect = draw->dialect;
    part->opaque = draw_name(draw);
    if (!redacted)
        part->text = draw_text(draw);
    if (draw->dialect == R && one_in(draw, 2))
        part->item_id = draw_name(draw);
}

/* A turn of the model's, and the results of its calls. */
static void add_model_turn(struct draw *draw)
{
    struct neutral_request *request = draw->request;
    size_t first = request->n_parts, calls = below(draw, 4);

    if (draw->dialect != C && one_in(draw, 2))
        add_reasoning(draw);
    if (calls == 0 || one_in(draw, 2)) {
        add_text(draw);
        if (draw->dialect == R && one_in(draw, 3))
            request->parts[request->n_parts - 1].phase = SLICE("commentary");
    }
    for (size_t i = 0; i < calls; i++)
        add_call(draw);
    size_t end = request->n_parts;
    add_turn(draw, ROLE_MODEL, first);
    if (calls == 0)
        return;
    first = end;
    for (size_t i = end - calls; i < end; i++) {
        size_t at = request->n_parts;
        struct slice id = request->parts[i].id;
        add_part(draw, PART_RESULT)->id = id;
        request->parts[at].error = draw->dialect == A && one_in(draw, 3);
        for (size_t n = draw->dialect == C ? 1 : 1 + below(draw, 2); n > 0; n--)
            if (draw->dialect != C && one_in(draw, 3))
                add_image(draw);
            else
                add_text(draw);
        request->parts[at].inner = (uint32_t)(request->n_parts - at - 1);
        /* Several texts are one where no picture is between them. */
        if (draw->dialect == R && request->parts[at].inner == 2 &&
            request->parts[at + 1].kind == PART_TEXT && request->parts[at + 2].kind == PART_TEXT) {
            request->n_parts--;
            request->parts[at].inner = 1;
        }
    }
    /* Anthropic's has what the user says in the same message. */
    if (draw->dialect == A && one_in(draw, 2))
        add_content(draw);
    add_turn(draw, ROLE_USER, first);
}

static bool ends_with_results(const struct neutral_request *request)
{
    const struct neutral_turn *turn = &request->turns[request->n_turns - 1];

    return turn->role == ROLE_USER && request->parts[turn->first].kind == PART_RESULT;
}

static void draw_turns(struct draw *draw)
{
    struct neutral_request *request = draw->request;
    size_t first = 0;

    if (one_in(draw, 2)) {
        add_text(draw);
        add_turn(draw, ROLE_INSTRUCTION, 0);
        first = request->n_parts;
    }
    add_content(draw);
    add_turn(draw, ROLE_USER, first);
    for (size_t n = below(draw, 4); n > 0; n--) {
        add_model_turn(draw);
        if (draw->dialect == A && ends_with_results(request))
            continue;
        first = request->n_parts;
        add_content(draw);
        add_turn(draw, ROLE_USER, first);
    }
}

/* ---- Tools and options ----------------------------------------------------------------------- */

static void draw_tool(struct draw *draw)
{
    struct neutral_request *request = draw->request;

    assert_true(array_reserve(&request->tools, &request->tools_capacity, request->n_tools + 1));
    struct neutral_tool *tool = &request->tools[request->n_tools++];
    *tool = (struct neutral_tool){.name = draw_name(draw)};
    if (one_in(draw, 2))
        tool->description = draw_text(draw);
    tool->free = draw->dialect != A && one_in(draw, 4);
    if (!tool->free) {
        tool->schema = draw_json(draw);
        tool->strict = draw->dialect == A ? one_in(draw, 2) ? TRI_TRUE : TRI_UNSET : draw_tri(draw);
    } else if (one_in(draw, 2)) {
        tool->syntax = SLICE("lark");
        tool->grammar = draw_text(draw);
    }
}

static void draw_tools(struct draw *draw)
{
    struct neutral_request *request = draw->request;
    static const enum neutral_choice choices[] = {
        CHOICE_AUTO, CHOICE_NONE, CHOICE_REQUIRED, CHOICE_ONE, CHOICE_ALLOWED,
        CHOICE_ALLOWED_REQUIRED};
    size_t n = below(draw, 4);

    for (size_t i = 0; i < n; i++)
        draw_tool(draw);
    if (n == 0)
        return;
    if (one_in(draw, 2))
        request->choice = choices[below(draw, draw->dialect == A ? 4 : COUNT_OF(choices))];
    if (request->choice >= CHOICE_ONE) {
        assert_true(array_reserve(&request->names, &request->names_capacity, n));
        request->n_names = request->choice == CHOICE_ONE ? 1 : 1 + below(draw, n);
        for (size_t i = 0; i < request->n_names; i++)
            request->names[i] = request->tools[i].name;
    }
    if (draw->dialect != A)
        request->parallel = draw_tri(draw);
    else if (request->choice != CHOICE_UNSET && request->choice != CHOICE_NONE && one_in(draw, 2))
        request->parallel = TRI_FALSE;
    if (one_in(draw, 4)) {
        assert_true(array_reserve(&request->hosted, &request->hosted_capacity, 1));
        request->hosted[request->n_hosted++] = SLICE("{\"type\":\"search_2\", \"n\":1.0}");
        request->foreign |= UINT64_C(1) << FIELD_HOSTED_TOOL;
    }
}

static void draw_format(struct draw *draw)
{
    struct neutral_request *request = draw->request;

    if (one_in(draw, 2))
        return;
    request->format = draw->dialect == A || one_in(draw, 2) ? FORMAT_SCHEMA : FORMAT_JSON;
    if (request->format != FORMAT_SCHEMA)
        return;
    request->format_schema = draw_json(draw);
    request->format_strict = draw->dialect == A ? TRI_TRUE : draw_tri(draw);
    if (draw->dialect == A)
        return;
    request->format_name = draw_name(draw);
    if (one_in(draw, 2))
        request->format_description = draw_text(draw);
}

static double draw_real(struct draw *draw)
{
    return (double)below(draw, 100) / 100;
}

static void draw_sampling(struct draw *draw)
{
    struct neutral_request *request = draw->request;

    if (draw->dialect == A || one_in(draw, 2))
        request->bound = 1 + (int64_t)below(draw, 4000);
    if (one_in(draw, 2))
        request->temperature = draw_real(draw);
    if (one_in(draw, 2))
        request->top_p = draw_real(draw);
    for (size_t n = draw->dialect == R ? 0 : below(draw, 5); n > 0; n--)
        request->stops[request->n_stops++] = draw_text(draw);
    if (draw->dialect == A && one_in(draw, 2))
        request->top_k = (int64_t)below(draw, 100);
    if (draw->dialect == R && one_in(draw, 2))
        request->top_logprobs = (int64_t)below(draw, 21);
    if (draw->dialect != C || one_in(draw, 2))
        return;
    request->presence = draw_real(draw);
    request->frequency = -draw_real(draw);
    request->has_seed = true;
    request->seed = (int64_t)random_bits(&draw->random) / 2;
    request->n = 1 + (int64_t)below(draw, 128);
    request->logprobs = TRI_TRUE;
    request->top_logprobs = (int64_t)below(draw, 21);
}

/* Anthropic's models think only where nothing else decides how they sample, and no tool is forced
 * or waits. */
static void draw_reasoning(struct draw *draw)
{
    struct neutral_request *request = draw->request;

    if (draw->dialect != A) {
        request->effort = (enum neutral_effort)below(draw, EFFORT_MAX);
        if (draw->dialect == R && one_in(draw, 2))
            request->show_reasoning = TRI_TRUE;
        return;
    }
    if (!isnan(request->temperature) || !isnan(request->top_p) || request->top_k >= 0 ||
        request->choice >= CHOICE_REQUIRED || ends_with_results(request) || one_in(draw, 2))
        return;
    if (one_in(draw, 3)) {
        request->budget = 0;
        return;
    }
    request->budget = BUDGET_DYNAMIC;
    request->effort = (enum neutral_effort)(EFFORT_LOW + below(draw, 5));
    request->show_reasoning = draw_tri(draw);
}

static void draw_service(struct draw *draw)
{
    struct neutral_request *request = draw->request;
    bool openai = draw->dialect != A;

    if (one_in(draw, 2))
        request->user = draw_text(draw);
    if (openai && one_in(draw, 2))
        request->cache_key = draw_text(draw);
    if (openai && one_in(draw, 2))
        request->metadata = SLICE("{\"k\": \"v\"}");
    if (openai && one_in(draw, 2))
        request->verbosity = SLICE("low");
    if (openai)
        request->store = draw_tri(draw);
    request->tier = (enum neutral_tier)below(draw, openai ? TIER_OTHER : TIER_FLEX);
    request->stream = one_in(draw, 2);
    request->want_usage = !(draw->dialect == C && !request->stream);
    if (one_in(draw, 3)) {
        assert_true(array_reserve(&request->extras, &request->extras_capacity, 1));
        request->extras[request->n_extras++] =
            (struct neutral_extra){"my_field", SLICE("[1.0, {\"a\":null}]")};
        request->foreign |= UINT64_C(1) << FIELD_UNKNOWN;
        snprintf(request->unknown, sizeof request->unknown, "my_field");
    }
}

static void draw_request(struct draw *draw, enum dialect dialect, uint64_t seed,
                         struct neutral_request *request)
{
    *draw = (struct draw){.dialect = dialect, .request = request};
    random_init(&draw->random, seed, dialect);
    neutral_request_init(request);
    request->from = dialect;
    request->model = draw_text(draw);
    draw_turns(draw);
    draw_tools(draw);
    draw_format(draw);
    draw_sampling(draw);
    draw_reasoning(draw);
    draw_service(draw);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* The first difference; null: there is none. */
static const char *difference;

static void same(bool equal, const char *what)
{
    if (!equal && difference == NULL)
        difference = what;
}

#define SAME(field) same(a->field == b->field, #field)
#define SAME_TEXT(field) same(slice_equal(a->field, b->field), #field)
#define SAME_REAL(field) \
    same(a->field == b->field || (isnan(a->field) && isnan(b->field)), #field)

static void compare_part(const struct neutral_part *a, const struct neutral_part *b)
{
    SAME(kind), SAME(media), SAME(source), SAME(error), SAME(free), SAME(cache), SAME(whole);
    SAME(inner), SAME(opaque_kind);
    SAME_TEXT(text), SAME_TEXT(id), SAME_TEXT(name), SAME_TEXT(mime), SAME_TEXT(detail);
    SAME_TEXT(ttl), SAME_TEXT(item_id), SAME_TEXT(phase), SAME_TEXT(opaque);
}

static void compare_lists(const struct neutral_request *a, const struct neutral_request *b)
{
    SAME(n_turns), SAME(n_parts), SAME(n_tools), SAME(n_names), SAME(n_stops), SAME(n_extras);
    SAME(n_hosted);
    for (size_t i = 0; difference == NULL && i < a->n_turns; i++) {
        SAME(turns[i].role), SAME(turns[i].developer);
        SAME(turns[i].first), SAME(turns[i].end);
    }
    for (size_t i = 0; difference == NULL && i < a->n_parts; i++)
        compare_part(&a->parts[i], &b->parts[i]);
    for (size_t i = 0; difference == NULL && i < a->n_tools; i++) {
        SAME_TEXT(tools[i].name), SAME_TEXT(tools[i].description), SAME_TEXT(tools[i].schema);
        SAME_TEXT(tools[i].syntax), SAME_TEXT(tools[i].grammar);
        SAME(tools[i].strict), SAME(tools[i].free), SAME(tools[i].cache);
    }
    for (size_t i = 0; difference == NULL && i < a->n_names; i++)
        SAME_TEXT(names[i]);
    for (size_t i = 0; difference == NULL && i < a->n_stops; i++)
        SAME_TEXT(stops[i]);
    for (size_t i = 0; difference == NULL && i < a->n_extras; i++)
        SAME_TEXT(extras[i].raw);
    for (size_t i = 0; difference == NULL && i < a->n_hosted; i++)
        SAME_TEXT(hosted[i]);
}

static void compare(const struct neutral_request *a, const struct neutral_request *b)
{
    compare_lists(a, b);
    SAME_TEXT(model), SAME(choice), SAME(parallel), SAME(format), SAME(format_strict);
    SAME_TEXT(format_name), SAME_TEXT(format_description), SAME_TEXT(format_schema);
    SAME(bound), SAME_REAL(temperature), SAME_REAL(top_p), SAME_REAL(presence);
    SAME_REAL(frequency), SAME(top_k), SAME(n), SAME(top_logprobs), SAME(seed), SAME(has_seed);
    SAME(logprobs), SAME(effort), SAME(budget), SAME(show_reasoning);
    SAME_TEXT(verbosity), SAME_TEXT(user), SAME_TEXT(cache_key), SAME_TEXT(metadata);
    SAME(store), SAME(tier), SAME(stream), SAME(want_usage), SAME(foreign);
}

static void write_it(const struct neutral_request *request, struct json_writer *out)
{
    struct neutral_target target;
    struct neutral_dropped dropped = {.n = 0};
    struct ask_problem problem;

    neutral_target_init(&target);
    target.developer = true;
    json_writer_clear(out);
    if (!dialect_find(request->from)
             ->write_request(json, request, &target, out, &dropped, &problem))
        fail_msg("not written: %s", problem.text);
    assert_string_equal(dropped.names, "");
}

static void check_request(enum dialect dialect, uint64_t seed)
{
    struct neutral_request drawn, again;
    struct json_writer first, second;
    struct ask_problem problem;
    struct draw draw;

    draw_request(&draw, dialect, seed, &drawn);
    neutral_request_init(&again);
    json_writer_init(&first);
    json_writer_init(&second);
    write_it(&drawn, &first);
    struct slice text = text_out_written(&first.text);
    if (!dialect_find(dialect)->read_request(json, text.at, text.n, text.n, &again, &problem))
        fail_msg("not read: %s\n%.*s", problem.text, (int)text.n, text.at);
    difference = NULL;
    compare(&drawn, &again);
    if (difference != NULL)
        fail_msg("%s, TG_SEED=%llu: %s\n%.*s", dialect_name(dialect), (unsigned long long)seed,
                 difference, (int)text.n, text.at);
    write_it(&again, &second);
    assert_true(slice_equal(text, text_out_written(&second.text)));
    neutral_request_fini(&again);
    neutral_request_fini(&drawn);
    json_writer_fini(&first);
    json_writer_fini(&second);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void requests_are_read_as_they_were_written(void **state)
{
    uint64_t seed = number_of("TG_SEED", 0);
    uint64_t n = number_of("TG_ROUND_TRIPS", getenv("TG_SOAK") != NULL ? 100000 : 2000);

    (void)state;
    for (uint64_t i = seed; i < seed + n; i++)
        for (enum dialect dialect = 0; dialect < DIALECT_GEMINI; dialect++)
            check_request(dialect, i);
    print_message("%llu requests of each dialect from seed %llu\n", (unsigned long long)n,
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
        cmocka_unit_test(requests_are_read_as_they_were_written),
    };

    return cmocka_run_group_tests_name("translate_drawn", tests, setup, teardown);
}
