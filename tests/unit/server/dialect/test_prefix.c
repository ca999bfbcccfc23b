/* test_prefix.c - what a provider has counted is known again, and nothing else is. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/bound.h"
#include "server/dialect/prefix.h"

#define WORDS 400 /* bytes of a message, about */
#define BODY_MAX (1 << 20)

struct world {
    struct json_reader *reader;
    struct prefix_memory *memory;
    char *body;
};

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    world->reader = json_reader_new();
    world->memory = prefix_memory_new(4);
    world->body = malloc(BODY_MAX);
    *state = world;
    return world->reader == NULL || world->memory == NULL;
}

static int teardown(void **state)
{
    struct world *world = *state;

    json_reader_free(world->reader);
    prefix_memory_free(world->memory);
    free(world->body);
    free(world);
    return 0;
}

#define NAME(text)               \
    {                            \
        (text), sizeof(text) - 1 \
    }
#define WHO(tenant, provider, model, extra)                    \
    {                                                          \
        NAME(tenant), NAME(provider), NAME(model), NAME(extra) \
    }

static const struct prefix_who alice = WHO("alice", "p", "m", "");

/* A conversation of `turns` questions, each but the last with its answer. */
static struct ask conversation(struct world *world, enum endpoint endpoint, int turns,
                               const char *first, const char *fields)
{
    static const char *const names[] = {[ENDPOINT_CHAT] = "messages",
                                        [ENDPOINT_MESSAGES] = "messages",
                                        [ENDPOINT_RESPONSES] = "input"};
    char *body = world->body;
    size_t n = (size_t)sprintf(body, "{\"model\":\"m\",\"%s\":[", names[endpoint]);
    struct ask ask;
    struct ask_problem problem;

    for (int i = 0; i < turns; i++) {
        n += (size_t)sprintf(body + n, "%s{\"role\":\"user\",\"content\":\"%s %0*d\"}",
                             i > 0 ? ", " : "", i == 0 ? first : "", WORDS, i);
        if (i + 1 < turns)
            n += (size_t)sprintf(body + n, ",\n{\"content\":\"answer %0*d\",\"role\":"
                                           "\"assistant\"}",
                                 WORDS, i);
    }
    n += (size_t)sprintf(body + n, "]%s}", fields);
    assert_true(n < BODY_MAX);
    if (!ask_read(world->reader, endpoint, body, n, n, &ask, &problem))
        fail_msg("%s", problem.text);
    return ask;
}

static int64_t known(struct world *world, const struct prefix_who *who, struct ask *ask, tg_ms now)
{
    prefix_find(world->memory, who, world->body, ask, now);
    return ask->known_tokens;
}

static void turn_is_known_when_it_is_sent_again_with_more(void **state)
{
    struct world *world = *state;
    static const enum endpoint endpoints[] = {ENDPOINT_CHAT, ENDPOINT_MESSAGES, ENDPOINT_RESPONSES};

    for (size_t i = 0; i < COUNT_OF(endpoints); i++) {
        for (int turns = 10; turns < 40; turns++) {
            struct ask ask = conversation(world, endpoints[i], turns, "a", ",\"tools\":[]");
            int64_t before = known(world, &alice, &ask, turns);
            assert_int_equal(before, turns == 10 ? -1 : 100 * (turns - 1));
            if (turns > 10)
                assert_int_equal(ask.messages_measure.messages - ask.known.messages, 2);
            prefix_remember(world->memory, &alice, &ask, 100 * turns, turns);
        }
        /* The same once more, and a branch off an earlier turn. */
        struct ask ask = conversation(world, endpoints[i], 39, "a", ",\"tools\":[]");
        assert_int_equal(known(world, &alice, &ask, 40), 3900);
        assert_int_equal(ask.messages_measure.messages - ask.known.messages, 0);
    }
}

/* Fields that are numbers, where others are expected, belong to what the prompt depends on. */
static void number_is_a_frame(void **state)
{
    struct world *world = *state;
    struct ask ask = conversation(world, ENDPOINT_CHAT, 10, "number", ",\"verbosity\": 1");

    assert_int_equal(ask.n_frames, 1);
    assert_int_equal(ask.frames[0].n, 1);
    assert_int_equal(known(world, &alice, &ask, 1), -1);
    prefix_remember(world->memory, &alice, &ask, 1000, 1);
    ask = conversation(world, ENDPOINT_CHAT, 10, "number", ",\"verbosity\": 2");
    assert_int_equal(known(world, &alice, &ask, 2), -1);
    ask = conversation(world, ENDPOINT_CHAT, 10, "number", ",\"verbosity\": 1");
    assert_int_equal(known(world, &alice, &ask, 3), 1000);
}

/* What DESIGN asks for: the reserve of a long conversation is near what it costs. */
static void agent_reserves_near_its_cost(void **state)
{
    struct world *world = *state;
    struct bound_facts facts;
    struct tg_usage_bound without, with;
    struct ask_problem problem;

    bound_facts_init(&facts);
    struct ask before = conversation(world, ENDPOINT_CHAT, 700, "agent", "");
    known(world, &alice, &before, 0);
    int64_t tokens = before.measure.text.bytes / 4;
    prefix_remember(world->memory, &alice, &before, tokens, 0);

    struct ask ask = conversation(world, ENDPOINT_CHAT, 701, "agent", "");
    assert_true(ask.body_bytes > 600000);
    assert_true(bound_of(&ask, &facts, false, &without, &problem));
    assert_true(known(world, &alice, &ask, 1) == tokens);
    assert_true(bound_of(&ask, &facts, false, &with, &problem));
    assert_true(with.input >= tokens && with.input < tokens + tokens / 50);
    assert_true(without.input > 4 * tokens);
}

static void whatever_differs_is_not_known(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *first, *fields;
        struct prefix_who who;
        int64_t tokens;
    } rows[] = {
        {"b", ",\"tools\":[]", WHO("alice", "p", "m", ""), 77},
        /* no prompt depends on these */
        {"b", ",\"temperature\":1,\"max_tokens\":5,\"stream\":true,\"tools\":[]",
         WHO("alice", "p", "m", ""), 77},
        {"c", ",\"tools\":[]", WHO("alice", "p", "m", ""), -1},
        {"b", "", WHO("alice", "p", "m", ""), -1},
        {"b", ",\"tools\":[{\"name\":\"f\"}]", WHO("alice", "p", "m", ""), -1},
        {"b", ",\"tools\":[],\"tool_choice\":\"any\"", WHO("alice", "p", "m", ""), -1},
        {"b", ",\"tools\":[],\"reasoning_effort\":\"high\"", WHO("alice", "p", "m", ""), -1},
        {"b", ",\"functions\":[]", WHO("alice", "p", "m", ""), -1},
        {"b", ",\"tools\":[]", WHO("bob", "p", "m", ""), -1},
        {"b", ",\"tools\":[]", WHO("alice", "q", "m", ""), -1},
        {"b", ",\"tools\":[]", WHO("alice", "p", "n", ""), -1},
        {"b", ",\"tools\":[]", WHO("alice", "pm", "", ""), -1},
        {"b", ",\"tools\":[]", WHO("alice", "p", "m", "beta"), -1},
    };
    struct ask ask = conversation(world, ENDPOINT_CHAT, 20, "b", ",\"tools\":[]");

    known(world, &alice, &ask, 0);
    prefix_remember(world->memory, &alice, &ask, 77, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask = conversation(world, ENDPOINT_CHAT, 21, rows[i].first, rows[i].fields);
        if (known(world, &rows[i].who, &ask, 1) != rows[i].tokens)
            fail_msg("row %zu: %lld", i, (long long)ask.known_tokens);
    }
}

/* Any byte of the prefix counts, wherever the blocks of the hash begin. */
static void every_byte_of_a_prefix_counts(void **state)
{
    struct world *world = *state;
    struct ask ask = conversation(world, ENDPOINT_CHAT, 8, "bytes", "");

    assert_int_equal(known(world, &alice, &ask, 0), -1);
    prefix_remember(world->memory, &alice, &ask, 55, 0);
    assert_int_equal(known(world, &alice, &ask, 0), 55);
    for (size_t i = ask.messages_at; i < ask.messages_end; i++) {
        world->body[i] ^= 1;
        if (known(world, &alice, &ask, 0) != -1)
            fail_msg("byte %zu of %d", i, (int)ask.messages_end);
        world->body[i] ^= 1;
    }
}

static void counts_are_forgotten_after_half_an_hour(void **state)
{
    struct world *world = *state;
    struct ask ask = conversation(world, ENDPOINT_CHAT, 20, "old", "");

    known(world, &alice, &ask, 1000);
    prefix_remember(world->memory, &alice, &ask, 77, 1000);
    assert_int_equal(known(world, &alice, &ask, 1000 + PREFIX_KEPT_MS), 77);
    assert_int_equal(known(world, &alice, &ask, 1001 + PREFIX_KEPT_MS), -1);
}

static void what_may_change_or_be_left_out_is_never_known(void **state)
{
    struct world *world = *state;
    static const struct {
        enum endpoint endpoint;
        const char *first, *fields;
    } rows[] = {
        {ENDPOINT_RESPONSES, "", ",\"conversation\":\"c\""},
        {ENDPOINT_RESPONSES, "", ",\"truncation\":\"auto\""},
        {ENDPOINT_RESPONSES, "", ",\"prompt\":{\"id\":\"p\"}"},
        {ENDPOINT_RESPONSES, "", ",\"tools\":[{\"type\":\"web_search\"}],\"max_tool_calls\":1"},
        {ENDPOINT_MESSAGES, "", ",\"context_management\":{\"edits\":[]}"},
        {ENDPOINT_MESSAGES, "", ",\"thread\":{}"},
        {ENDPOINT_MESSAGES, "", ",\"container\":\"c\""},
        {ENDPOINT_CHAT, "", ",\"unheard_of\":1"},
        {ENDPOINT_CHAT,
         "\"},{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
         "{\"url\":\"https://a\"}}]},{\"role\":\"user\",\"content\":\"",
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask ask = conversation(world, rows[i].endpoint, 20, rows[i].first, rows[i].fields);
        known(world, &alice, &ask, 0);
        prefix_remember(world->memory, &alice, &ask, 77, 0);
        if (known(world, &alice, &ask, 0) != -1)
            fail_msg("row %zu", i);
    }
    /* An earlier response stays as it is. */
    const char *stored = ",\"previous_response_id\":\"r\"";
    struct ask ask = conversation(world, ENDPOINT_RESPONSES, 20, "", stored);
    known(world, &alice, &ask, 0);
    prefix_remember(world->memory, &alice, &ask, 77, 0);
    assert_int_equal(known(world, &alice, &ask, 0), 77);
}

/* ---- responses ---- */

static struct ask response_after(struct world *world, const char *id, const char *fields)
{
    char more[200];

    snprintf(more, sizeof more, "%s%s%s%s", id[0] != '\0' ? ",\"previous_response_id\":\"" : "", id,
             id[0] != '\0' ? "\"" : "", fields);
    return conversation(world, ENDPOINT_RESPONSES, 1, "turn", more);
}

static int64_t stored(struct world *world, const struct prefix_who *who, const char *id, tg_ms now)
{
    struct ask ask = response_after(world, id, "");

    prefix_find(world->memory, who, world->body, &ask, now);
    return ask.stored_tokens;
}

/* A response after `id` has been made. */
static void respond(struct world *world, const char *after, const char *fields, const char *id,
                    struct tg_usage usage)
{
    struct ask ask = response_after(world, after, fields);

    prefix_find(world->memory, &alice, world->body, &ask, 0);
    prefix_remember_response(world->memory, &alice, &ask, (struct slice){id, strlen(id)}, &usage,
                             0);
}

static void response_is_known_when_a_call_continues_it(void **state)
{
    struct world *world = *state;
    const struct prefix_who bob = WHO("bob", "p", "m", ""), other = WHO("alice", "p", "n", "");
    struct bound_facts facts;
    struct tg_usage_bound bound;
    struct ask_problem problem;

    assert_int_equal(stored(world, &alice, "r1", 0), -1);
    respond(world, "", "", "r1",
            (struct tg_usage){.input = 500, .cached_input = 100, .output = 20});
    assert_int_equal(stored(world, &alice, "r1", 0), 600 + 3 * 20);
    assert_int_equal(stored(world, &bob, "r1", 0), -1);
    assert_int_equal(stored(world, &other, "r1", 0), -1);
    assert_int_equal(stored(world, &alice, "r1", PREFIX_KEPT_MS + 1), -1);
    /* And so is what goes on from that. */
    respond(world, "r1", "", "r2", (struct tg_usage){.input = 900, .output = 10});
    assert_int_equal(stored(world, &alice, "r2", 0), 930);

    bound_facts_init(&facts);
    facts.context = 100000;
    facts.most_output = 1000;
    struct ask ask = response_after(world, "r2", "");
    assert_true(bound_of(&ask, &facts, true, &bound, &problem) && bound.input == 100000);
    prefix_find(world->memory, &alice, world->body, &ask, 0);
    assert_true(bound_of(&ask, &facts, true, &bound, &problem));
    assert_true(bound.input >= 930 + ask.measure.text.bytes && bound.input < 2000);
}

/* The provider may have counted less of these than the next call has. */
static void response_that_was_cut_short_or_may_change_is_not_known(void **state)
{
    struct world *world = *state;
    static const char *const fields[] = {
        ",\"truncation\":\"auto\"",
        ",\"context_management\":[{\"type\":\"compaction\"}]",
        ",\"conversation\":\"c\"",
        ",\"tools\":[{\"type\":\"web_search\"}],\"max_tool_calls\":1",
        ",\"unheard_of\":1",
    };
    const struct tg_usage usage = {.input = 500, .output = 20};

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        respond(world, "", fields[i], "r1", usage);
        assert_int_equal(stored(world, &alice, "r1", 0), -1);
    }
    respond(world, "unknown", "", "r2", usage);
    assert_int_equal(stored(world, &alice, "r2", 0), -1);
    respond(world, "", "", "r3", (struct tg_usage){.input = 0});
    assert_int_equal(stored(world, &alice, "r3", 0), -1);
}

/* A body with two lists of messages, in either order, long or not: a provider reads one of them, or
 * both, and what it counted says nothing about the next one. */
static void messages_that_come_twice_are_never_known(void **state)
{
    static const char turns[] = ",\"input\":[{\"role\":\"user\",\"content\":\"a\"},"
                                "{\"role\":\"assistant\",\"content\":\"b\"},"
                                "{\"role\":\"user\",\"content\":\"c\"}]";
    static const char *const seconds[] = {",\"input\":[]", ",\"input\":\"and this\"", turns};
    struct world *world = *state;

    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        struct ask once = conversation(world, ENDPOINT_CHAT, 20, "once", "");
        known(world, &alice, &once, 0);
        prefix_remember(world->memory, &alice, &once, 77, 0);
        assert_int_equal(known(world, &alice, &once, 0), 77);
        struct ask twice = conversation(world, ENDPOINT_CHAT, 20, "once", seconds[i]);
        assert_int_equal(known(world, &alice, &twice, 0), -1);
        prefix_remember(world->memory, &alice, &twice, 77, 0);
        assert_int_equal(known(world, &alice, &twice, 0), -1);
        assert_int_equal(twice.n_prefixes, 0);
    }
}

static void short_bodies_and_reports_of_nothing_are_not_kept(void **state)
{
    struct world *world = *state;
    struct ask ask = conversation(world, ENDPOINT_CHAT, 2, "short", "");

    known(world, &alice, &ask, 0);
    prefix_remember(world->memory, &alice, &ask, 77, 0);
    assert_int_equal(known(world, &alice, &ask, 0), -1);
    ask = conversation(world, ENDPOINT_CHAT, 30, "none", "");
    known(world, &alice, &ask, 0);
    prefix_remember(world->memory, &alice, &ask, 0, 0);
    assert_int_equal(known(world, &alice, &ask, 0), -1);
}

static void no_tenant_evicts_what_another_has(void **state)
{
    struct world *world = *state;
    struct ask mine = conversation(world, ENDPOINT_CHAT, 20, "mine", "");
    struct ask theirs = mine;
    static const struct prefix_who mallory = WHO("mallory", "p", "m", "");
    char name[16];

    known(world, &alice, &mine, 0);
    prefix_remember(world->memory, &alice, &mine, 77, 0);
    known(world, &mallory, &theirs, 0);
    for (int i = 0; i < 100000; i++) {
        theirs.prefix_hash[1]++;
        prefix_remember(world->memory, &mallory, &theirs, 5, 0);
    }
    assert_int_equal(known(world, &alice, &mine, 0), 77);
    /* More tenants than tables: those who come last have none. */
    for (int i = 0; i < 100; i++) {
        struct prefix_who who = alice;
        who.tenant = (struct slice){name, (size_t)snprintf(name, sizeof name, "tenant%d", i)};
        known(world, &who, &theirs, 0);
        prefix_remember(world->memory, &who, &theirs, 5, 0);
    }
    assert_int_equal(known(world, &alice, &mine, 0), 77);
    /* When nobody has come for half an hour, they have. */
    struct prefix_who late = alice;
    late.tenant = (struct slice){"late", 4};
    tg_ms later = 2 * PREFIX_KEPT_MS;
    known(world, &late, &theirs, later);
    prefix_remember(world->memory, &late, &theirs, 5, later);
    assert_int_equal(known(world, &late, &theirs, later), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(number_is_a_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(turn_is_known_when_it_is_sent_again_with_more, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(agent_reserves_near_its_cost, setup, teardown),
        cmocka_unit_test_setup_teardown(whatever_differs_is_not_known, setup, teardown),
        cmocka_unit_test_setup_teardown(every_byte_of_a_prefix_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(counts_are_forgotten_after_half_an_hour, setup, teardown),
        cmocka_unit_test_setup_teardown(what_may_change_or_be_left_out_is_never_known, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(response_is_known_when_a_call_continues_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(response_that_was_cut_short_or_may_change_is_not_known,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(messages_that_come_twice_are_never_known, setup, teardown),
        cmocka_unit_test_setup_teardown(short_bodies_and_reports_of_nothing_are_not_kept, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_tenant_evicts_what_another_has, setup, teardown),
    };

    return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}
