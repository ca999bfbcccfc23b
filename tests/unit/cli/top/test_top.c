/* test_top.c - `tollgate top`: a snapshot is read whatever it holds, and drawn within its edges. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli/top/top_view.h"

static struct json_reader *reader;
static struct top_snapshot snapshot;
static struct top_paper paper;

static int set_up(void **state)
{
    (void)state;
    reader = json_reader_new();
    return reader != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    json_reader_free(reader);
    top_paper_fini(&paper);
    return 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

#define BEGIN "{'version':'0.1.0','now':1000000,'config':{'generation':7}"

/* JSON with single quotes, for the eye. */
static void put_json(const char *text, char *body, size_t bytes)
{
    snprintf(body, bytes - JSON_PADDING, "%s", text);
    for (char *at = body; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
}

static bool read_text(const char *text, char *why)
{
    char body[8192] = "";

    put_json(text, body, sizeof body);
    return top_snapshot_read(reader, (struct slice){body, strlen(text)}, &snapshot, why, 160);
}

static void expect_read(const char *text)
{
    char why[160] = "";

    if (!read_text(text, why))
        fail_msg("%s: %s", text, why);
}

static void what_is_no_snapshot_is_told_apart(void **state)
{
    static const char *const texts[] = {
        "",
        "<html>",
        "{",
        "[]",
        "{}",
        "{'version':'1'}",
        "{'version':1,'now':1,'config':{'generation':7}}",
        "{'version':'1','now':1,'config':null}",
        BEGIN ",'keys':[{]}",
        BEGIN "} {",
    };
    char why[160];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        why[0] = '\0';
        if (read_text(texts[i], why))
            fail_msg("taken for a snapshot: %s", texts[i]);
        assert_non_null(strstr(why, "the reply is"));
    }
}

static void members_that_are_null_absent_or_odd_are_none(void **state)
{
    (void)state;

    expect_read(BEGIN ",'ledger':null,'prices':null,'memory':{'used_ratio':null},"
                      "'gates':[{'name':'all','limit':null,'in_flight':'many'},7],"
                      "'keys':{},'news':{'a':[1,{}]}}");
    assert_int_equal(snapshot.config.generation, 7);
    assert_true(snapshot.config.last_reload.at == TOP_NONE);
    assert_string_equal(snapshot.ledger.state, "");
    assert_true(isnan(snapshot.prices.rate) && isnan(snapshot.memory.used_ratio));
    assert_int_equal(snapshot.n_gates, 1);
    assert_true(snapshot.gates[0].limit == TOP_NONE && snapshot.gates[0].in_flight == TOP_NONE);
    assert_true(snapshot.gates[0].queued.high == TOP_NONE);
    assert_int_equal(snapshot.n_keys, 0);
}

static void texts_are_printable_and_cut_to_their_room(void **state)
{
    (void)state;

    expect_read(BEGIN ",'tenants':[{'name':'a\\u001b[2Jb\\u00e9\\n'},"
                      "{'name':'0123456789012345678901234567890123456789"
                      "01234567890123456789012345678901234567890'}]}");
    assert_int_equal(snapshot.n_tenants, 2);
    assert_string_equal(snapshot.tenants[1].name, "a?[2Jb???");
    assert_int_equal(strlen(snapshot.tenants[0].name), sizeof snapshot.tenants[0].name - 1);
}

static void more_than_is_kept_is_left_out(void **state)
{
    char text[8192] = BEGIN ",'tenants':[{'name':'first','calls':9}";
    (void)state;

    for (int i = 0; i < 100; i++)
        strcat(text, ",{'name':'n','calls':1}");
    strcat(text, "],'tenants_total':101}");
    expect_read(text);
    assert_int_equal(snapshot.n_tenants, TOP_TENANTS_MAX);
    assert_int_equal(snapshot.tenants_total, 101);
    assert_string_equal(snapshot.tenants[0].name, "first");
}

static void what_needs_a_look_comes_first(void **state)
{
    (void)state;

    expect_read(
        BEGIN ",'keys':[{'name':'a','status':'ready'},{'name':'b','status':'cooling'},"
              "{'name':'d','status':'suspended'},{'name':'c','status':'cooling'}],"
              "'budgets':[{'tenant':null,'used_ratio':0.2},{'tenant':'t','used_ratio':1.5}],"
              "'counters':{'refused_by_reason':{'cost':1,'rate':5,'budget':0}}}");
    assert_string_equal(snapshot.keys[0].name, "d");
    assert_string_equal(snapshot.keys[1].name, "b");
    assert_string_equal(snapshot.keys[2].name, "c");
    assert_string_equal(snapshot.keys[3].name, "a");
    assert_string_equal(snapshot.budgets[0].tenant, "t");
    assert_int_equal(snapshot.counters.refused_by_reason.n, 2);
    assert_string_equal(snapshot.counters.refused_by_reason.list[0].reason, "rate");
}

static void the_message_of_an_error_is_found(void **state)
{
    static const struct {
        const char *body, *message;
    } rows[] = {
        {"{'error':{'code':'unauthorized','message':'no\\u0007'}}", "no?"},
        {"{'error':'x'}", ""},
        {"<html>", ""},
        {"", ""},
        {"{'error':{'message':'cut'}", ""},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char body[256] = "", message[80];
        put_json(rows[i].body, body, sizeof body);
        top_error_read(reader, (struct slice){body, strlen(rows[i].body)}, message, sizeof message);
        assert_string_equal(message, rows[i].message);
    }
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static const char busy[] = BEGIN
    ",'uptime_ms':90061000,'ready':true,'draining':false,'connections':3,"
    "'rates':{'calls':12.5,'admitted':10,'refused':2.5,'refused_by_reason':{'rate':2.5}},"
    "'counters':{'calls':100,'admitted':90,'refused':10,'retries':1,'hangups':2,"
    "'refused_by_reason':{'rate':10},'would_deny_by_reason':{'cost':4}},"
    "'memory':{'used_ratio':0.5,'state':'ok'},'store':{'kind':'memory','state':'ok'},"
    "'gates':[{'name':'all','law':'none','mode':'enforce','limit':64,'in_flight':9,"
    "'queued':{'high':1,'normal':2,'low':3}}],"
    "'keys':[{'name':'k1','provider':'demo','model':'small','status':'cooling',"
    "'cooldown_until':1012345,'in_flight':4,'rpm':{'limit':60,'used':59}}],"
    "'budgets':[{'tenant':null,'per':'day','mode':'enforce','limit_micro_usd':50000000,"
    "'used_micro_usd':12999999,'reserved_micro_usd':1,'used_ratio':0.26,'reset_at':4600000}],"
    "'tenants':[{'name':'one','calls':100,'refused':10,'calls_per_s':12.5,"
    "'refused_per_s':2.5},{'name':'two'},{'name':'three'}],"
    "'denials':[{'at':999000,'tenant':'one','model':'small','reason':'rate',"
    "'text':'0 of 600 left'}]}";

static struct top_view view;

/* The frame as text that ends in 0. */
static const char *draw(size_t rows, size_t columns, bool screen, bool colour)
{
    view.url = "http://127.0.0.1:9090";
    if (view.trouble == NULL)
        view.trouble = "";
    top_paper_begin(&paper, rows, columns, screen, colour);
    top_view_draw(&view, &snapshot, &paper);
    top_paper_end(&paper);
    assert_false(paper.failed);
    char *text = malloc(paper.n + 1);
    assert_non_null(text);
    memcpy(text, paper.bytes, paper.n);
    text[paper.n] = '\0';
    return text;
}

static void expect_drawn(const char *text, const char *words)
{
    if (strstr(text, words) == NULL)
        fail_msg("nothing of '%s' in:\n%s", words, text);
}

static void a_pipe_gets_all_of_it_and_no_escape_codes(void **state)
{
    const char *text;
    (void)state;

    expect_read(busy);
    view = (struct top_view){.table = TOP_VIEW_ALL};
    text = draw(0, 0, false, true);
    assert_null(strchr(text, '\033'));
    expect_drawn(text, "tollgate 0.1.0   http://127.0.0.1:9090   up 1d 01:01:01   generation 7   "
                       "ready\n");
    expect_drawn(text, "calls 12.5/s  admitted 10.0/s  refused 2.5/s");
    expect_drawn(text, "refused by  rate 10 (2.5/s)  in shadow: cost 4\n");
    expect_drawn(text, "(all)");
    expect_drawn(text, "1/2/3");
    expect_drawn(text, "cooling        12.3s       4        59/60");
    expect_drawn(text, "(everyone)     day    enforce        12.99        0.00        50.00   26.0%"
                       "      01:00:00             -\n");
    expect_drawn(text, "three ");
    expect_drawn(text, "0 of 600 left\n");
    free((void *)(uintptr_t)text);
}

static void a_state_that_is_not_good_is_said(void **state)
{
    const char *text;
    (void)state;

    expect_read(BEGIN ",'ready':false,'unready_reason':'the ledger is full',"
                      "'store':{'kind':'redis','state':'degraded'},"
                      "'fleet':{'state':'behind','version':7,'gateways':5,'behind':2},"
                      "'ledger':{'state':'full'}}");
    snapshot.config.last_reload.at = 1;
    snapshot.config.last_reload.errors = 3;
    view = (struct top_view){
        .table = TOP_VIEW_ALL, .trouble = "no answer: Connection refused", .age_ms = 12400};
    text = draw(0, 0, false, false);
    expect_drawn(text, "not ready: the ledger is full");
    expect_drawn(text, "store redis degraded  fleet behind, version 7, 5 gateways, 2 behind  "
                       "ledger full");
    expect_drawn(text, "LAST RELOAD FAILED: 3 errors");
    expect_drawn(text, "no answer: Connection refused; what is shown is 12 s old\n");
    free((void *)(uintptr_t)text);
}

static void a_fleet_has_a_row_a_gateway_and_says_who_is_missing(void **state)
{
    const char *text;
    (void)state;

    expect_read(
        "{'version':'0.2.0','scope':'fleet','complete':false,'store_away':false,'now':1000000,"
        "'config':{'generation':null,'hash':null},'gateways':["
        "{'name':'gw1 :80','program':'0.2.0','answer':'self','silent_ms':0,'snapshot':{"
        "'ready':true,'draining':false,'store':{'state':'ok'},"
        "'rates':{'calls':1.5,'refused':0},'gates':[{'name':'all','in_flight':3}]}},"
        "{'name':'gw0 :80','program':'0.2.0','answer':'answered','silent_ms':90,'snapshot':{"
        "'ready':true,'draining':true,'gates':[]}},"
        "{'name':'gw2 :80','program':'0.1.9','answer':'silent','silent_ms':65000,"
        "'snapshot':null}],"
        "'budgets':[{'tenant':'one','per':'day','mode':'enforce','limit_micro_usd':5000000,"
        "'used_micro_usd':1000000,'reserved_micro_usd':0,'held_micro_usd':500000,"
        "'left_micro_usd':3500000,'used_ratio':0.2,'reset_at':null},"
        "{'tenant':'one','key':'ci','per':'day','mode':'enforce','limit_micro_usd':2000000,"
        "'used_micro_usd':0,'reserved_micro_usd':0,'left_micro_usd':2000000,'used_ratio':0,"
        "'reset_at':null}]}");
    view = (struct top_view){.table = TOP_VIEW_ALL};
    text = draw(0, 0, false, false);
    expect_drawn(text, "fleet of 3 gateways");
    expect_drawn(text, "2 of 3 gateways answered\n");
    expect_drawn(text, "20.0%                        3.50\n");
    expect_drawn(text, "one, key ci");
    expect_drawn(text, "gw2 :80          silent      00:01:05 0.1.9               -        "
                       "         -          -       -\ngw0 :80");
    expect_drawn(text, "gw1 :80          self                 0.2.0     ready     ok       "
                       "       1.5        0.0       3\n");
    expect_drawn(text, "draining");
    free((void *)(uintptr_t)text);
    snapshot.gateways[0].silent_ms = 600001;
    text = draw(0, 0, false, false);
    assert_null(strstr(text, "answered\n"));
    free((void *)(uintptr_t)text);
    snapshot.gateways[0].silent_ms = 600000;
    snapshot.store_away = true;
    text = draw(0, 0, false, false);
    expect_drawn(text, "2 of 3 gateways answered: the store is away\n");
    free((void *)(uintptr_t)text);
}

/* How many columns the widest line of a screen takes, and how many lines there are. */
static void measure(const char *text, size_t *rows, size_t *columns)
{
    size_t column = 0;

    *rows = 1;
    *columns = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\033') {
            while (*at != 'H' && *at != 'K' && *at != 'J' && *at != 'm')
                at++;
        } else if (*at == '\n') {
            ++*rows;
            column = 0;
        } else if (*at != '\r' && ++column > *columns) {
            *columns = column;
        }
    }
}

static void nothing_is_drawn_beyond_the_edges_of_any_screen(void **state)
{
    (void)state;

    expect_read(busy);
    for (size_t rows = 1; rows < 40; rows++)
        for (size_t columns = 1; columns < 150; columns += 7)
            for (size_t table = 0; table <= TOP_TABLES; table++) {
                size_t drawn_rows, drawn_columns;
                view = (struct top_view){.table = table < TOP_TABLES ? table : TOP_VIEW_ALL,
                                         .scroll = rows};
                const char *text = draw(rows, columns, true, rows % 2 == 0);
                measure(text, &drawn_rows, &drawn_columns);
                free((void *)(uintptr_t)text);
                assert_int_equal(drawn_rows, rows);
                assert_in_range(drawn_columns, 0, columns);
            }
}

static void a_small_screen_has_a_row_of_every_table_that_fits(void **state)
{
    const char *text;
    (void)state;

    expect_read(busy);
    view = (struct top_view){.table = TOP_VIEW_ALL};
    text = draw(20, 80, true, false);
    expect_drawn(text, "(all)");
    expect_drawn(text, "k1");
    expect_drawn(text, "(everyone)");
    expect_drawn(text, "one");
    expect_drawn(text, "TENANT (1 of 3)");
    expect_drawn(text, "0 of 600 left");
    expect_drawn(text, "q quit");
    free((void *)(uintptr_t)text);
}

static void scrolling_ends_with_the_table(void **state)
{
    const char *text;
    (void)state;

    expect_read(busy);
    view = (struct top_view){.table = 3, .scroll = 99};
    text = draw(8, 80, true, false); /* title, three lines, blank, head, one row, keys */
    assert_int_equal(view.scroll, 2);
    expect_drawn(text, "two");
    assert_null(strstr(text, "three "));
    free((void *)(uintptr_t)text);
}

static void without_colour_only_titles_are_marked(void **state)
{
    const char *text;
    (void)state;

    expect_read(busy);
    view = (struct top_view){.table = TOP_VIEW_ALL};
    text = draw(40, 120, true, false);
    assert_null(strstr(text, "\033[3"));
    expect_drawn(text, "\033[7m");
    free((void *)(uintptr_t)text);
    text = draw(40, 120, true, true);
    expect_drawn(text, "\033[31m");
    free((void *)(uintptr_t)text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_snapshot_is_told_apart),
        cmocka_unit_test(members_that_are_null_absent_or_odd_are_none),
        cmocka_unit_test(texts_are_printable_and_cut_to_their_room),
        cmocka_unit_test(more_than_is_kept_is_left_out),
        cmocka_unit_test(what_needs_a_look_comes_first),
        cmocka_unit_test(the_message_of_an_error_is_found),
        cmocka_unit_test(a_pipe_gets_all_of_it_and_no_escape_codes),
        cmocka_unit_test(a_state_that_is_not_good_is_said),
        cmocka_unit_test(a_fleet_has_a_row_a_gateway_and_says_who_is_missing),
        cmocka_unit_test(nothing_is_drawn_beyond_the_edges_of_any_screen),
        cmocka_unit_test(a_small_screen_has_a_row_of_every_table_that_fits),
        cmocka_unit_test(scrolling_ends_with_the_table),
        cmocka_unit_test(without_colour_only_titles_are_marked),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
