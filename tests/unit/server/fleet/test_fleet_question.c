/* test_fleet_question.c - one gateway asks, the others answer through a real Redis: once each, to
 * whoever still waits, within bounds. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_remote_kit.h"
#include "redis_group.h"
#include "server/fleet/fleet_question.h"

/* A gateway: answers "ID TEXT", but keeps silent on "silence". */
struct one {
    struct remote_kit kit;
    struct fleet *fleet;
    char id[24];
    int asked;
};

static void was_asked(void *context, const struct fleet_asked *asked, struct slice text)
{
    struct one *one = context;
    char answer[128];

    one->asked++;
    if (slice_equal(text, SLICE("silence")))
        return;
    snprintf(answer, sizeof answer, "%s %.*s", one->id, (int)text.n, text.at);
    fleet_answer(one->fleet, asked, slice_of(answer));
}

static void open_one(struct one *one, struct net_loop *loop, const char *id)
{
    struct fleet_options options = {
        .prefix = "tg", .id = id, .process = "p", .name = id, .program = "1"};

    *one = (struct one){.asked = 0};
    snprintf(one->id, sizeof one->id, "%s", id);
    remote_kit_open(&one->kit, loop, &server);
    options.loop = one->kit.loop;
    options.redis = one->kit.redis;
    assert_int_equal(fleet_new(&options, &one->fleet), TG_OK);
    fleet_on_question(one->fleet, was_asked, one);
}

/* In the order of the control thread: the client goes between the two. */
static void close_one(struct one *one)
{
    fleet_stop(one->fleet);
    remote_kit_cut(&one->kit);
    fleet_free(one->fleet);
}

static size_t heard_of(const struct one *one)
{
    struct fleet_view view;
    size_t n = 0;

    fleet_get_view(one->fleet, &view);
    for (size_t i = 0; i < view.n_reports; i++)
        n += fleet_can_answer(&view.reports[i]);
    return n;
}

static struct one all[3];

static void open_all(void)
{
    net_redis_do(&server, "FLUSHALL");
    open_one(&all[0], NULL, "a");
    open_one(&all[1], all[0].kit.loop, "b");
    open_one(&all[2], all[0].kit.loop, "c");
    remote_until(&all[0].kit,
                 heard_of(&all[0]) == 3 && heard_of(&all[1]) == 3 && heard_of(&all[2]) == 3);
}

static void close_all(void)
{
    for (int i = 0; i < 3; i++)
        close_one(&all[i]);
    net_loop_free(all[0].kit.loop);
}

/* What was told of a question: "a:TEXT|c:TEXT|", by the alphabet of their ids. */
struct told {
    int n;
    bool away, busy;
    char text[400];
};

static void take(void *context, const struct fleet_replies *replies)
{
    struct told *told = context;

    told->n++;
    told->away = replies->away;
    told->busy = replies->busy;
    told->text[0] = '\0';
    for (char id = 'a'; id <= 'z'; id++)
        for (size_t i = 0; i < replies->n; i++)
            if (replies->list[i].id[0] == id)
                snprintf(told->text + strlen(told->text), 100, "%s:%.*s|", replies->list[i].process,
                         (int)replies->list[i].text.n, replies->list[i].text.at);
}

static void each_other_answers_once(void **state)
{
    struct told told[4] = {{.n = 0}};
    struct fleet_question *asked[4];
    (void)state;

    open_all();
    /* All at once, and two of one text from one gateway. */
    for (int i = 0; i < 4; i++)
        asked[i] = fleet_question_new(all[i % 3].fleet, SLICE("what now"), take, &told[i]);
    remote_until(&all[0].kit, told[0].n + told[1].n + told[2].n + told[3].n == 4);
    assert_string_equal(told[0].text, "b.p:b what now|c.p:c what now|");
    assert_string_equal(told[1].text, "a.p:a what now|c.p:c what now|");
    assert_string_equal(told[2].text, "a.p:a what now|b.p:b what now|");
    assert_string_equal(told[3].text, told[0].text);
    for (int i = 0; i < 4; i++) {
        assert_false(told[i].away || told[i].busy);
        fleet_question_end(asked[i]);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(all[i].asked, 1, 3);
    close_all();
}

static void who_keeps_silent_is_not_in_the_answer(void **state)
{
    struct told told = {.n = 0};
    struct fleet_question *asked;
    (void)state;

    open_all();
    asked = fleet_question_new(all[1].fleet, SLICE("silence"), take, &told);
    remote_until(&all[0].kit, told.n == 1);
    assert_string_equal(told.text, "");
    assert_false(told.away || told.busy);
    assert_int_equal(all[0].asked + all[2].asked, 2);
    fleet_question_end(asked);
    close_all();
}

static void who_has_left_is_told_nothing(void **state)
{
    struct told told = {.n = 0}, last = {.n = 0};
    struct fleet_question *asked;
    (void)state;

    open_all();
    fleet_question_end(fleet_question_new(all[0].fleet, SLICE("x"), take, &told));
    asked = fleet_question_new(all[0].fleet, SLICE("x"), take, &last);
    remote_until(&all[0].kit, last.n == 1);
    fleet_question_end(asked);
    assert_int_equal(told.n, 0);
    /* And what is in flight when the client goes. */
    assert_non_null(fleet_question_new(all[0].fleet, SLICE("y"), take, &told));
    close_all();
    assert_int_equal(told.n, 0);
}

static void questions_have_an_end(void **state)
{
    static char text[FLEET_TEXT_MAX + 1];
    struct told told = {.n = 0};
    struct fleet_question *asked;
    (void)state;

    open_all();
    memset(text, 'x', sizeof text);
    assert_null(fleet_question_new(all[0].fleet, (struct slice){text, sizeof text}, take, &told));
    for (int i = 1; i <= 64; i++)
        net_redis_do(&server,
                     "EVAL return(redis.call('HSET',KEYS[1],'%d',redis.call('TIME')[1]..'000'.."
                     "string.char(32)..'z')) 1 tg:fleet:{fleet}:questions",
                     i);
    asked = fleet_question_new(all[0].fleet, SLICE("one too many"), take, &told);
    remote_until(&all[0].kit, told.n == 1);
    assert_true(told.busy);
    fleet_question_end(asked);
    close_all();
}

static void a_store_that_is_away_is_said(void **state)
{
    struct told told = {.n = 0};
    struct fleet_question *asked;
    (void)state;

    open_all();
    net_redis_kill(&server);
    remote_until(&all[0].kit, !redis_is_up(all[0].kit.redis, NULL));
    asked = fleet_question_new(all[0].fleet, SLICE("x"), take, &told);
    remote_until(&all[0].kit, told.n == 1);
    assert_true(told.away);
    fleet_question_end(asked);
    close_all();
    net_redis_again(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_other_answers_once),
        cmocka_unit_test(who_keeps_silent_is_not_in_the_answer),
        cmocka_unit_test(who_has_left_is_told_nothing),
        cmocka_unit_test(questions_have_an_end),
        cmocka_unit_test(a_store_that_is_away_is_said),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
