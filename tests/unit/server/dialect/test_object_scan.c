/* test_object_scan.c - objects in replies that pass by: those made, and those of a list. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/object_scan.h"

struct heard {
    char text[4096];
    size_t n;
};

static void hear(struct heard *heard, const char *bytes, size_t n)
{
    assert_true(heard->n + n < sizeof heard->text);
    memcpy(heard->text + heard->n, bytes, n);
    heard->n += n;
    heard->text[heard->n] = '\0';
}

static void made(void *context, struct slice id)
{
    hear(context, id.at, id.n);
    hear(context, ";", 1);
}

/* Ids that begin with "my". */
static bool is_mine(void *context, struct slice id)
{
    (void)context;
    return id.n >= 2 && memcmp(id.at, "my", 2) == 0;
}

static void pass(void *context, struct slice bytes)
{
    hear(context, bytes.at, bytes.n);
}

/* In pieces of so many bytes, each in memory of its own: nothing behind it may be read. */
static void feed(const char *text, size_t piece, bool list, struct heard *heard)
{
    struct object_scan scan;
    size_t n = strlen(text);

    object_scan_init(&scan);
    scan.context = heard;
    scan.made = made;
    scan.is_mine = is_mine;
    scan.pass = pass;
    *heard = (struct heard){.n = 0};
    for (size_t i = 0; i < n; i += piece) {
        size_t bytes = n - i < piece ? n - i : piece;
        char *copy = malloc(bytes);
        assert_non_null(copy);
        memcpy(copy, text + i, bytes);
        (list ? object_scan_list : object_scan_ids)(&scan, copy, bytes);
        free(copy);
    }
    object_scan_fini(&scan);
}

static void expect(const char *text, bool list, const char *wanted)
{
    struct heard heard;

    for (size_t piece = 1; piece <= strlen(text); piece++) {
        feed(text, piece, list, &heard);
        if (strcmp(heard.text, wanted) != 0)
            fail_msg("%s in pieces of %zu:\n%s\nis not\n%s", text, piece, heard.text, wanted);
    }
}

static void an_object_is_made_by_the_id_at_the_top(void **state)
{
    static const char *const rows[][2] = {
        {"{\"id\":\"file-1\",\"object\":\"file\"}", "file-1;"},
        {" {\"a\":[{\"id\":\"x\"}],\"id\" : \"b\"}", "b;"},
        {"\xef\xbb\xbf{\"id\":\"b\"}", "b;"},
        {"{\"metadata\":{\"id\":\"x\",\"output_file_id\":\"y\"},\"object\":\"id\"}", ""},
        {"{\"id\":1,\"x\":\"id\",\"y\":\"z\"}", ""},
        {"{\"id\":\"b\",\"output_file_id\":\"o\",\"error_file_id\":null,\"input_file_id\":\"i\"}",
         "b;o;"},
        {"{\"id\":\"r\",\"thread_id\":\"t\"}", "r;t;"},
        {"{\"id\":\"a\\u0062\"}", ""},
        {"{\"i\\u0064\":\"a\"}", ""},
        {"{\"x\":\"\\\"id\\\":\\\"a\\\"\"}", ""},
        {"[{\"id\":\"a\"}]", ""},
        {"\"id\":\"a\"", ""},
        {"id: a", ""},
        {"{\"id\":\"\"}", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect(rows[i][0], false, rows[i][1]);
}

static void a_list_has_what_is_mine(void **state)
{
    static const char *const rows[][2] = {
        {"{\"object\":\"list\",\"data\":[{\"id\":\"a\",\"x\":1},{\"id\":\"my1\",\"x\":2}, "
         "{\"x\":[{\"id\":\"a\"}],\"id\":\"my2\"},{\"id\":\"b\"}],"
         "\"first_id\":\"a\",\"last_id\":\"b\","
         "\"has_more\":false}",
         "{\"object\":\"list\",\"data\":[{\"id\":\"my1\",\"x\":2},"
         "{\"x\":[{\"id\":\"a\"}],\"id\":\"my2\"}]"
         ",\"first_id\":\"my1\",\"last_id\":\"my2\",\"has_more\":false}"},
        {"{\"data\":[{\"id\":\"a\"}],\"first_id\":\"a\",\"last_id\":\"a\"}",
         "{\"data\":[],\"first_id\":null,\"last_id\":null}"},
        {"{\"last_id\":\"b\",\"data\":[ ]}", "{\"last_id\":null,\"data\":[]}"},
        {"{\"last_id\":null,\"data\":[]}", "{\"last_id\":null,\"data\":[]}"},
        {"[{\"id\":\"a\"},{\"id\":\"my1\"}]", "[{\"id\":\"my1\"}]"},
        {"\xef\xbb\xbf[{\"id\":\"a\"}]", "\xef\xbb\xbf[]"},
        /* Without an id, or with one that is none, it is nobody's. */
        {"{\"data\":[{\"name\":\"x\"},{\"id\":7},{\"id\":null},"
         "{\"id\":\"my\\u0031\"},[{\"id\":\"my1\"}]]}",
         "{\"data\":[]}"},
        /* The first id counts, whatever a later one says. */
        {"{\"data\":[{\"id\":\"a\",\"id\":\"my1\"}]}", "{\"data\":[]}"},
        /* A name below it is no id of its own. */
        {"{\"data\":[{\"x\":{\"id\":\"my1\"},\"id\":\"a\"}]}", "{\"data\":[]}"},
        {"{\"data\":[{\"x\":\"\\\"id\\\":\\\"my1\\\"\",\"id\":\"a\"}]}", "{\"data\":[]}"},
        /* Texts may be ids themselves; words and numbers are none. */
        {"{\"data\":[\"file-1\",\"my-1\",\"word\",1,true,null]}",
         "{\"data\":[\"my-1\",\"word\",1,true,null]}"},
        {"{\"files\":[{\"id\":\"a\"}],\"batches\":[{\"id\":\"b\"},{\"id\":\"my1\"}]}",
         "{\"files\":[],\"batches\":[{\"id\":\"my1\"}]}"},
        {"{\"x\":{\"y\":[{\"id\":\"a\"}]}}", "{\"x\":{\"y\":[{\"id\":\"a\"}]}}"},
        {"{\"id\":\"my1\",\"x\":1}", "{\"id\":\"my1\",\"x\":1}"},
        {"plain text [{\"id\":\"a\"}]", "plain text [{\"id\":\"a\"}]"},
        {"{\"data\":[]}\n", "{\"data\":[]}"},
        {"{}", "{}"},
        {"[]", "[]"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect(rows[i][0], true, rows[i][1]);
}

/* An object of somebody else where a list was expected, a second document, broken JSON: what
 * follows is not passed on. */
static void what_cannot_be_judged_ends(void **state)
{
    static const char *const rows[] = {
        "{\"id\":\"a\",\"secret\":1}",
        "{\"x\":1}\n{\"secret\":1}",
        "{\"data\":[{\"id\":\"my1\"]},\"secret\":1}",
        "{\"data\":[{\"id\":\"a\",\"secret\":1",
    };
    struct heard heard;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t piece = 1; piece < 9; piece++) {
            feed(rows[i], piece, true, &heard);
            if (strstr(heard.text, "secret") != NULL)
                fail_msg("%s: %s", rows[i], heard.text);
        }
}

static void an_element_whose_id_comes_late_is_nobodys(void **state)
{
    struct object_scan scan;
    struct heard heard = {.n = 0};
    const char *end = "\",\"id\":\"my1\"},{\"id\":\"my2\"}]";
    char filler[1024];

    (void)state;
    memset(filler, 'x', sizeof filler);
    object_scan_init(&scan);
    scan.context = &heard;
    scan.is_mine = is_mine;
    scan.pass = pass;
    object_scan_list(&scan, "[{\"x\":\"", 7);
    for (size_t i = 0; i < 2 * OBJECT_HELD_MAX / sizeof filler; i++)
        object_scan_list(&scan, filler, sizeof filler);
    assert_true(scan.held_room <= OBJECT_HELD_MAX);
    object_scan_list(&scan, end, strlen(end));
    object_scan_fini(&scan);
    assert_string_equal(heard.text, "[{\"id\":\"my2\"}]");
}

static void an_id_is_no_word(void **state)
{
    static const char *const ids[] = {"file-1", "batch_Ab", "a.b", "x:y", "A", "7", "a b",
                                      "averyveryveryveryverylongwordthatnobodyuses"};
    static const char *const words[] = {"content", "input_items", "file-search", "runs", ""};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        assert_true(object_is_id(slice_of(ids[i])));
    for (size_t i = 0; i < COUNT_OF(words); i++)
        assert_false(object_is_id(slice_of(words[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_made_by_the_id_at_the_top),
        cmocka_unit_test(a_list_has_what_is_mine),
        cmocka_unit_test(what_cannot_be_judged_ends),
        cmocka_unit_test(an_element_whose_id_comes_late_is_nobodys),
        cmocka_unit_test(an_id_is_no_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
