/* test_ask_watch.c - what the walk over a body sees of the fields that rules name. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/ask_watch.h"

struct world {
    struct json_reader *reader;
    struct ask_watch watch;
    struct ask_seen seen[ASK_WATCH_FIELDS_MAX];
    char body[1024];
};

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    world->reader = json_reader_new();
    ask_watch_init(&world->watch);
    *state = world;
    return world->reader == NULL;
}

static int teardown(void **state)
{
    struct world *world = *state;

    json_reader_free(world->reader);
    free(world);
    return 0;
}

static size_t add(struct world *world, const char *name)
{
    size_t field;

    assert_true(ask_watch_add(&world->watch, name, false, &field));
    return field;
}

static unsigned add_text(struct world *world, size_t field, const char *text)
{
    struct watch_value value = {.kind = JSON_STRING, .text = slice_of(text)};
    unsigned bit;

    assert_true(ask_watch_value(&world->watch, field, &value, &bit));
    return bit;
}

/* Bodies are written with ' for ". */
static void see_body(struct world *world, enum endpoint endpoint, const char *body)
{
    size_t n = strlen(body);
    struct ask ask;
    struct ask_problem problem;

    for (size_t i = 0; i <= n; i++)
        world->body[i] = body[i] == '\'' ? '"' : body[i];
    if (!ask_read_watching(world->reader, ASK_VALUES_MAX, endpoint, world->body, n, n,
                           &world->watch, world->seen, &ask, &problem))
        fail_msg("%s: %s", body, problem.text);
}

static void every_spelling_of_max_tokens_is_seen(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body;
        double low, high;
        size_t n;
    } rows[] = {
        {ENDPOINT_CHAT, "{'model':'m','max_tokens':5}", 5, 5, 1},
        {ENDPOINT_CHAT, "{'max_completion_tokens':9,'model':'m','max_tokens':5}", 5, 9, 2},
        {ENDPOINT_RESPONSES, "{'max_output_tokens':7,'model':'m'}", 7, 7, 1},
        {ENDPOINT_RESPONSES, "{'max_tokens':7,'model':'m'}", 0, 0, 0},
        {ENDPOINT_MESSAGES, "{'max_tokens':1e3,'model':'m'}", 1000, 1000, 1},
        {ENDPOINT_MESSAGES, "{'max_tokens':null,'model':'m'}", 0, 0, 0},
        {ENDPOINT_COMPLETIONS, "{'model':'m','metadata':{'max_tokens':7}}", 0, 0, 0},
    };
    struct world *world = *state;
    size_t field = add(world, "max_completion_tokens"), same = add(world, "max_tokens");

    assert_int_equal(field, same);
    assert_int_equal(add(world, "max_output_tokens"), field);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        see_body(world, rows[i].endpoint, rows[i].body);
        const struct ask_seen *seen = &world->seen[field];
        if (seen->n != rows[i].n || seen->low != rows[i].low || seen->high != rows[i].high)
            fail_msg("row %zu: %zu, %g, %g", i, seen->n, seen->low, seen->high);
    }
}

static void values_that_rules_know_are_bits(void **state)
{
    struct world *world = *state;
    size_t tier = add(world, "service_tier");
    unsigned flex = add_text(world, tier, "flex"), fast = add_text(world, tier, "fast");

    assert_int_equal(add_text(world, tier, "flex"), flex);
    see_body(world, ENDPOINT_CHAT, "{'model':'m','service_tier':'f\\u0061st'}");
    assert_int_equal(world->seen[tier].values, 1u << fast);
    assert_int_equal(world->seen[tier].other.n, 0);
    see_body(world, ENDPOINT_CHAT, "{'model':'m','service_tier':'priority'}");
    assert_int_equal(world->seen[tier].values, 0);
    assert_int_equal(world->seen[tier].other.n, strlen("\"priority\""));
    see_body(world, ENDPOINT_CHAT, "{'model':'m','service_tier':null}");
    assert_int_equal(world->seen[tier].n, 0);
    assert_int_equal(world->seen[tier].span.n, 4);
}

static void arrays_are_passed_through(void **state)
{
    struct world *world = *state;
    size_t type = add(world, "tools.type"), list = add(world, "modalities");
    size_t tools = add(world, "tools");
    unsigned web = add_text(world, type, "web_search"), audio = add_text(world, list, "audio");

    see_body(world, ENDPOINT_RESPONSES,
             "{'model':'m','modalities':['text','audio'],'tools':[{'type':'f','x':{'type':1}},"
             "{'type':'web_search'}]}");
    assert_int_equal(world->seen[type].values, 1u << web);
    assert_int_equal(world->seen[type].n, 2);
    assert_true(world->seen[type].other.n > 0);
    assert_int_equal(world->seen[list].values, 1u << audio);
    assert_int_equal(world->seen[list].n, 3);
    assert_int_equal(world->seen[tools].kinds >> JSON_ARRAY & 1, 1);
    see_body(world, ENDPOINT_RESPONSES, "{'model':'m','tools':[[{'type':'web_search'}]]}");
    assert_int_equal(world->seen[type].values, 1u << web);
}

static void objects_say_where_a_key_can_be_put(void **state)
{
    struct world *world = *state;
    size_t team = add(world, "metadata.team"), around = add(world, "metadata");

    see_body(world, ENDPOINT_CHAT, "{'model':'m','metadata':{}}");
    assert_int_equal(world->seen[team].n, 0);
    assert_int_equal(world->seen[around].span.at, strlen("{'model':'m','metadata':"));
    assert_false(world->seen[around].filled);
    see_body(world, ENDPOINT_CHAT, "{'model':'m','metadata':{'team':'a'}}");
    assert_true(world->seen[around].filled);
    assert_int_equal(world->seen[team].n, 1);
    assert_memory_equal(world->body + world->seen[team].span.at, "\"a\"", 3);
}

static void user_is_metadata_of_anthropic(void **state)
{
    struct world *world = *state;
    size_t user = add(world, "user"), literal = add(world, "metadata.user_id");

    see_body(world, ENDPOINT_MESSAGES, "{'model':'m','metadata':{'user_id':'u'}}");
    assert_int_equal(world->seen[user].n, 1);
    assert_int_equal(world->seen[literal].n, 1);
    see_body(world, ENDPOINT_CHAT, "{'model':'m','user':'u','metadata':{'user_id':'v'}}");
    assert_int_equal(world->seen[user].n, 1);
    assert_int_equal(world->seen[literal].n, 1);
    assert_string_equal(ask_watch_spelling("user", ENDPOINT_MESSAGES), "metadata.user_id");
    assert_string_equal(ask_watch_spelling("max_tokens", ENDPOINT_RESPONSES), "max_output_tokens");
    assert_string_equal(ask_watch_spelling("service_tier", ENDPOINT_CHAT), "service_tier");
    assert_null(ask_watch_spelling("n", ENDPOINT_MESSAGES));
    assert_null(ask_watch_spelling("service_tier", ENDPOINT_EMBEDDINGS));
}

static void what_rules_name_is_refused_in_other_letters(void **state)
{
    static const char *const bodies[] = {"{\"model\":\"m\",\"Service_Tier\":\"fast\"}",
                                         "{\"model\":\"m\",\"metadata\":{\"TEAM\":1}}"};
    struct world *world = *state;
    struct ask ask;
    struct ask_problem problem;

    add(world, "service_tier");
    add(world, "metadata.team");
    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        if (ask_read_watching(world->reader, ASK_VALUES_MAX, ENDPOINT_CHAT, bodies[i],
                              strlen(bodies[i]), strlen(bodies[i]), &world->watch, world->seen,
                              &ask, &problem))
            fail_msg("%s", bodies[i]);
}

static void names_and_room_have_an_end(void **state)
{
    static const char *const wrong[] = {"", ".a", "a.", "a..b", "a.b.c.d.e"};
    struct world *world = *state;
    size_t field;
    char names[ASK_WATCH_FIELDS_MAX + 1][8];

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        ask_watch_init(&world->watch);
        assert_false(ask_watch_add(&world->watch, wrong[i], false, &field));
    }
    ask_watch_init(&world->watch);
    for (size_t i = 0; i <= ASK_WATCH_FIELDS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "f%zu", i);
        assert_int_equal(ask_watch_add(&world->watch, names[i], false, &field),
                         i < ASK_WATCH_FIELDS_MAX);
    }
    for (size_t i = 0; i <= ASK_WATCH_VALUES_MAX; i++) {
        struct watch_value value = {.kind = JSON_DOUBLE, .number = (double)i};
        unsigned bit;
        assert_int_equal(ask_watch_value(&world->watch, 0, &value, &bit), i < ASK_WATCH_VALUES_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_spelling_of_max_tokens_is_seen, setup, teardown),
        cmocka_unit_test_setup_teardown(values_that_rules_know_are_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(arrays_are_passed_through, setup, teardown),
        cmocka_unit_test_setup_teardown(objects_say_where_a_key_can_be_put, setup, teardown),
        cmocka_unit_test_setup_teardown(user_is_metadata_of_anthropic, setup, teardown),
        cmocka_unit_test_setup_teardown(what_rules_name_is_refused_in_other_letters, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(names_and_room_have_an_end, setup, teardown),
    };

    return cmocka_run_group_tests_name("ask_watch", tests, NULL, NULL);
}
