/* test_fleet_merge.c - documents of several gateways as one: in any order, added to the unit, and
 * nothing of what is none. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/json_read.h"
#include "lib/core/random.h"
#include "server/fleet/fleet_merge.h"
#include "server/fleet/fleet_snapshot.h"

enum { DOCUMENTS = 7,
       ROUNDS = 300 };

static struct json_reader *reader;

static int open_reader(void **state)
{
    (void)state;
    reader = json_reader_new();
    return reader == NULL;
}

static int close_reader(void **state)
{
    (void)state;
    json_reader_free(reader);
    return 0;
}

static int by_size(const struct merge_node *a, const struct merge_node *b)
{
    double left = merge_real(a, "sum", 0), right = merge_real(b, "sum", 0);

    return (left < right) - (left > right);
}

#define RULE(member, rule)                  \
    {                                       \
        .name = member, .how = MERGE_##rule \
    }
#define LAST         \
    {                \
        .name = NULL \
    }

static const char *const states[] = {"good", "fair", "bad", NULL};
static const char *const name[] = {"name", NULL};
static const char *const said_keys[] = {"at", "by", NULL};

static const struct merge_rule row[] = {
    RULE("name", SAME),
    RULE("sum", SUM),
    {.name = "state", .how = MERGE_WORST, .words = states},
    {.name = "states", .how = MERGE_COUNTED, .from = "state"},
    LAST};

static const struct merge_rule said[] = {RULE("at", SAME), RULE("by", SOURCE), LAST};

static const struct merge_rule rules[] = {
    RULE("sum", SUM),
    RULE("limit", SUM_ALL),
    RULE("most", MOST),
    RULE("least", LEAST),
    RULE("mean", MEAN),
    RULE("every", EVERY),
    RULE("any", ANY),
    RULE("same", SAME),
    RULE("one", ONE),
    RULE("tally", TALLY),
    RULE("texts", TEXTS),
    {.name = "rows",
     .how = MERGE_ROWS,
     .inside = row,
     .words = name,
     .most = 3,
     .cut = "rows_cut",
     .order = by_size},
    RULE("rows_cut", ANY),
    {.name = "said", .how = MERGE_ROWS, .inside = said, .words = said_keys},
    LAST};

/* Documents are written here with ' for ". */
static void quote(char *text)
{
    for (; (text = strchr(text, '\'')) != NULL; text++)
        *text = '"';
}

/* A copy with room for what a reader reads beyond it. */
static bool add(struct merge *merge, const char *text, const char *source)
{
    size_t n = strlen(text);
    char *padded = calloc(1, n + JSON_PADDING);

    assert_non_null(padded);
    memcpy(padded, text, n);
    quote(padded);
    bool added = merge_add(merge, reader, (struct slice){padded, n}, source);
    free(padded);
    return added;
}

/* The documents as one, in an order; to be freed. */
static char *merged(const struct merge_rule *by, const char *const *texts, const size_t *order,
                    size_t n)
{
    static const char *const NAMES[] = {"g0", "g1", "g2", "g3", "g4", "g5", "g6"};
    struct merge *merge = merge_new(by);
    struct json_writer out;

    assert_non_null(merge);
    for (size_t i = 0; i < n; i++)
        assert_true(add(merge, texts[order[i]], NAMES[order[i]]));
    assert_int_equal(merge_count(merge), n);
    json_writer_init(&out);
    json_write_object(&out);
    merge_write(merge, &out);
    json_write_object_end(&out);
    assert_false(out.text.failed);
    char *text = calloc(1, out.text.size + 1);
    assert_non_null(text);
    memcpy(text, out.text.bytes, out.text.size);
    json_writer_fini(&out);
    merge_free(merge);
    return text;
}

static void expect_merged(const char *what, const char *const *texts, size_t n, const char *want)
{
    static const size_t ORDER[] = {0, 1, 2, 3, 4, 5, 6};
    char *got = merged(rules, texts, ORDER, n), *wanted = strdup(want);

    assert_non_null(wanted);
    quote(wanted);
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: %s, not %s", what, got, wanted);
    free(wanted);
    free(got);
}

static void each_rule_says_what_is_written(void **state)
{
    static const struct {
        const char *what, *a, *b, *want;
    } rows_of[] = {
        {"numbers are added", "{'sum':2}", "{'sum':3}", "{'sum':5}"},
        {"and with fractions", "{'sum':2}", "{'sum':0.5}", "{'sum':2.5}"},
        {"null adds nothing", "{'sum':2}", "{'sum':null}", "{'sum':2}"},
        {"a sum has an end",
         "{'sum':9223372036854775807}",
         "{'sum':9223372036854775807}",
         "{'sum':9007199254740991}"},
        {"no limit at one is none for all", "{'limit':2}", "{'limit':null}", "{'limit':null}"},
        {"limits are added", "{'limit':2}", "{'limit':4}", "{'limit':6}"},
        {"the most", "{'most':-2}", "{'most':-3}", "{'most':-2}"},
        {"the least", "{'least':2}", "{'least':3}", "{'least':2}"},
        {"a mean is of those who have one", "{'mean':2}", "{'mean':null}", "{'mean':2}"},
        {"a mean", "{'mean':2}", "{'mean':3}", "{'mean':2.5}"},
        {"every", "{'every':true}", "{'every':false}", "{'every':false}"},
        {"any", "{'any':true}", "{'any':false}", "{'any':true}"},
        {"the same", "{'same':'x'}", "{'same':'x'}", "{'same':'x'}"},
        {"not the same", "{'same':'x'}", "{'same':'y'}", "{'same':null}"},
        {"not the same, for one has none", "{'same':'x'}", "{'same':null}", "{'same':null}"},
        {"the same number", "{'same':1}", "{'same':1}", "{'same':1}"},
        {"not the same number", "{'same':1}", "{'same':2}", "{'same':null}"},
        {"one of them", "{'one':null}", "{'one':'y'}", "{'one':'y'}"},
        {"names are added",
         "{'tally':{'a':1,'b':2}}",
         "{'tally':{'c':4,'b':3}}",
         "{'tally':{'a':1,'b':5,'c':4}}"},
        {"texts", "{'texts':['b']}", "{'texts':['a','b']}", "{'texts':['a','b']}"},
        {"what is not known is passed over",
         "{'sum':2,'new':{'sum':1}}",
         "{'sum':3}",
         "{'sum':5}"},
        {"so is what has another kind",
         "{'sum':'2','tally':[],'rows':{}}",
         "{'sum':3,'every':1}",
         "{'sum':3}"},
        {"what one lacks", "{'sum':2}", "{'most':3}", "{'sum':2,'most':3}"},
        {"rows are joined, and the worst is shown",
         "{'rows':[{'name':'x','sum':1,'state':'bad'}]}",
         "{'rows':[{'name':'y','sum':2},{'name':'x','sum':4,'state':'good'}]}",
         "{'rows':[{'name':'x','sum':5,'state':'bad','states':{'bad':1,'good':1}},"
         "{'name':'y','sum':2}]}"},
        {"a row without its keys is none", "{'rows':[{'sum':1},4,{'name':[]}]}",
         "{'rows':[{'name':'a','sum':2}]}", "{'rows':[{'name':'a','sum':2}]}"},
        {"a list that is cut says so",
         "{'rows':[{'name':'a','sum':1},{'name':'b','sum':2}],'rows_cut':false}",
         "{'rows':[{'name':'c','sum':3},{'name':'d','sum':4}],'rows_cut':false}",
         "{'rows':[{'name':'d','sum':4},{'name':'c','sum':3},{'name':'b','sum':2}],"
         "'rows_cut':true}"},
        {"or was cut before",
         "{'rows':[],'rows_cut':true}",
         "{'rows':[],'rows_cut':false}",
         "{'rows':[],'rows_cut':true}"},
        {"who said it is told",
         "{'said':[{'at':1}]}",
         "{'said':[{'at':1}]}",
         "{'said':[{'at':1,'by':'g0'},{'at':1,'by':'g1'}]}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows_of); i++) {
        const char *const texts[] = {rows_of[i].a, rows_of[i].b};
        expect_merged(rows_of[i].what, texts, 2, rows_of[i].want);
        const char *const other[] = {rows_of[i].b, rows_of[i].a};
        if (strstr(rows_of[i].want, "'by'") == NULL)
            expect_merged(rows_of[i].what, other, 2, rows_of[i].want);
    }
}

static void what_is_no_document_adds_nothing(void **state)
{
    static const char *const TEXTS[] = {
        "", "x", "[]", "3", "{'sum':4", "{'sum':4,'rows':[{'sum':7},]}", "{'sum':1,'sum':2}"};
    struct merge *merge = merge_new(rules);
    struct json_writer out;

    (void)state;
    assert_non_null(merge);
    assert_true(add(merge, "{\"sum\":1,\"rows\":[]}", "a"));
    for (size_t i = 0; i < COUNT_OF(TEXTS); i++)
        assert_false(add(merge, TEXTS[i], "b"));
    assert_int_equal(merge_count(merge), 1);
    json_writer_init(&out);
    merge_write(merge, &out);
    assert_int_equal(out.text.size, strlen("\"sum\":1,\"rows\":[]"));
    assert_memory_equal(out.text.bytes, "\"sum\":1,\"rows\":[]", out.text.size);
    json_writer_fini(&out);
    merge_free(merge);
}

/* ---- any order ---- */

static size_t draw(struct random *random, size_t n)
{
    return (size_t)(random_bits(random) % n);
}

/* Its numbers are such that doubles hold and add them without loss. */
static void draw_snapshot(struct random *random, char *text, size_t bytes, int64_t *calls,
                          int64_t *flight)
{
    static const char *const STATUS[] = {"ready", "full", "cooling", "broken", "later"};
    struct text_out out;

    text_out_fixed(&out, text, bytes - 1);
    int64_t own = (int64_t)draw(random, 1000), gate = (int64_t)draw(random, 50);
    *calls += own;
    *flight += gate;
    text_out_format(&out, "{'version':'%d','now':%d,'ready':%s,", (int)draw(random, 3),
                    (int)draw(random, 99), draw(random, 2) ? "true" : "false");
    text_out_format(&out, "'counters':{'calls':%lld,'refused_by_reason':{'r%d':%d}},",
                    (long long)own, (int)draw(random, 3), (int)draw(random, 9));
    text_out_format(&out, "'rates':{'calls':%g},", (double)draw(random, 64) / 8);
    text_out_format(&out, "'gates':[{'name':'all','limit':%s,'in_flight':%lld}],'keys':[",
                    draw(random, 9) ? "16" : "null", (long long)gate);
    for (int i = 0, n = (int)draw(random, 4); i < n; i++)
        text_out_format(&out,
                        "%s{'provider':'p','model':'m%d','name':'k','status':'%s',"
                        "'latency_ms':%s,'rpm':{'limit':9,'used':%d}}",
                        i ? "," : "", i, STATUS[draw(random, 5)],
                        draw(random, 2) ? "12.5" : "null", (int)draw(random, 9));
    text_out_text(&out, "],'denials':[");
    for (int i = 0, n = (int)draw(random, 30); i < n; i++)
        text_out_format(&out, "%s{'at':%d,'id':'%d','text':'t'}", i ? "," : "",
                        (int)draw(random, 40), i);
    text_out_text(&out, "],'later':[{'x':{}}]}");
    assert_false(out.failed);
    text[out.size] = '\0';
}

static void the_order_does_not_matter_and_sums_add(void **state)
{
    struct random random;
    char *texts[DOCUMENTS];

    (void)state;
    random_init(&random, 4711, 0);
    for (int i = 0; i < DOCUMENTS; i++)
        assert_non_null(texts[i] = malloc(8192));
    for (int round = 0; round < ROUNDS; round++) {
        size_t order[DOCUMENTS], n = 1 + draw(&random, DOCUMENTS);
        int64_t calls = 0, flight = 0;
        char want[64];
        for (size_t i = 0; i < n; i++) {
            draw_snapshot(&random, texts[i], 8192, &calls, &flight);
            order[i] = i;
        }
        char *first = merged(fleet_snapshot_rules, (const char *const *)texts, order, n);
        for (size_t i = n; i-- > 1;) {
            size_t k = draw(&random, i + 1), other = order[i];
            order[i] = order[k];
            order[k] = other;
        }
        char *second = merged(fleet_snapshot_rules, (const char *const *)texts, order, n);
        if (strcmp(first, second) != 0)
            fail_msg("round %d, %zu documents: %s, and in another order %s", round, n, first,
                     second);
        snprintf(want, sizeof want, "\"counters\":{\"calls\":%lld,", (long long)calls);
        assert_non_null(strstr(first, want));
        snprintf(want, sizeof want, "\"in_flight\":%lld}]", (long long)flight);
        assert_non_null(strstr(first, want));
        free(first);
        free(second);
    }
    for (int i = 0; i < DOCUMENTS; i++)
        free(texts[i]);
}

static void lists_are_bounded_however_much_is_told(void **state)
{
    enum { ROWS = MERGE_ROWS_MAX + 200 };
    struct merge *merge = merge_new(rules);
    struct text_out out = {0};
    struct json_writer written;

    (void)state;
    assert_non_null(merge);
    text_out_text(&out, "{\"rows\":[");
    for (int i = 0; i < ROWS; i++)
        text_out_format(&out, "%s{\"name\":\"%d\",\"sum\":1}", i ? "," : "", i);
    text_out_text(&out, "],\"rows_cut\":false,\"tally\":{");
    for (int i = 0; i < 500; i++)
        text_out_format(&out, "%s\"%d\":1", i ? "," : "", i);
    text_out_text(&out, "}}");
    text_out_char(&out, '\0');
    assert_false(out.failed);
    assert_true(add(merge, out.bytes, "a"));
    assert_true(add(merge, out.bytes, "b"));
    assert_int_equal(merge_rows_n(merge_rows(merge, "rows")), MERGE_ROWS_MAX);
    json_writer_init(&written);
    json_write_object(&written);
    merge_write(merge, &written);
    json_write_object_end(&written);
    text_out_char(&written.text, '\0');
    assert_non_null(strstr(written.text.bytes, "\"rows_cut\":true"));
    assert_true(written.text.size < 2000);
    json_writer_fini(&written);
    text_out_fini(&out);
    merge_free(merge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_says_what_is_written),
        cmocka_unit_test(what_is_no_document_adds_nothing),
        cmocka_unit_test(the_order_does_not_matter_and_sums_add),
        cmocka_unit_test(lists_are_bounded_however_much_is_told),
    };

    return cmocka_run_group_tests(tests, open_reader, close_reader);
}
