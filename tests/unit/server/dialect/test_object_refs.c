/* test_object_refs.c - ids that requests name, in queries, JSON and forms. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/dialect/object_refs.h"

static struct json_reader *reader;
static char heard[2048];
static const char *stop_at;

static int setup(void **state)
{
    (void)state;
    reader = json_reader_new();
    return reader == NULL;
}

static int teardown(void **state)
{
    (void)state;
    json_reader_free(reader);
    return 0;
}

/* "id!" where it is named, "id" where it only stands there. */
static bool seen(void *context, struct slice id, bool named)
{
    size_t n = strlen(heard);

    (void)context;
    snprintf(heard + n, sizeof heard - n, "%.*s%s ", (int)id.n, id.at, named ? "!" : "");
    return stop_at == NULL || !slice_equal(id, slice_of(stop_at));
}

static enum object_refs of_json(const char *text, bool any)
{
    const struct object_watch watch = {.seen = seen, .any = any};

    heard[0] = '\0';
    return object_refs_json(reader, text, strlen(text), strlen(text), 1000, &watch);
}

static void keys_that_name_objects_are_known(void **state)
{
    static const struct {
        const char *text, *calls, *paths; /* what is heard of calls of models, and of any path */
    } rows[] = {
        {"{\"file_id\":\"f1\"}", "f1! ", "f1! "},
        {"{\"File_ID\":\"f1\"}", "f1! ", "f1! "},
        {"{\"f\\u0069le_id\":\"\\u00661\"}", "f1! ", "f1! "},
        {"{\"input\":[{\"content\":[{\"type\":\"input_file\",\"file_id\":\"f1\"}]}]}",
         "input_file f1! ", "input_file f1! "},
        {"{\"tools\":[{\"vector_store_ids\":[\"v1\",\"v2\"]}]}", "v1! v2! ", "v1! v2! "},
        {"{\"container\":{\"type\":\"auto\",\"file_ids\":[\"f1\"]}}", "auto f1! ", "auto f1! "},
        {"{\"container\":\"auto\"}", "auto ", "auto "},
        {"{\"conversation\":\"c1\"}", "c1! ", "c1! "},
        {"{\"conversation\":{\"id\":\"c1\"}}", "c1! ", "c1! "},
        {"{\"prompt\":{\"id\":\"p1\"}}", "p1 ", "p1 "},
        {"{\"id\":\"x1\"}", "x1 ", "x1 "},
        {"{\"widget_id\":\"w1\",\"widget_ids\":[\"w2\"]}", "w1 w2 ", "w1! w2! "},
        {"{\"custom_id\":\"c1\",\"user_id\":\"u1\"}", "c1 u1 ", "c1 u1 "},
        {"{\"metadata\":{\"file_id\":\"f1\"}}", "f1 ", "f1 "},
        {"{\"m\":[{\"type\":\"tool_use\",\"input\":{\"file_id\":\"f1\"}}]}", "tool_use f1 ",
         "tool_use f1 "},
        {"{\"input\":{\"file_id\":\"f1\"}}", "f1! ", "f1! "},
        {"{\"parameters\":{\"properties\":{\"file_id\":{\"enum\":[\"f1\"]}}}}", "f1 ", "f1 "},
        {"[{\"file_id\":\"f1\"},{\"a\":1,\"b\":null,\"c\":true}]", "f1! ", "f1! "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(of_json(rows[i].text, false), OBJECT_REFS_FINE);
        if (strcmp(heard, rows[i].calls) != 0)
            fail_msg("%s: %s", rows[i].text, heard);
        assert_int_equal(of_json(rows[i].text, true), OBJECT_REFS_FINE);
        if (strcmp(heard, rows[i].paths) != 0)
            fail_msg("%s: %s", rows[i].text, heard);
    }
}

static void a_walk_ends_where_it_is_told_to(void **state)
{
    const struct object_watch watch = {.seen = seen};

    (void)state;
    stop_at = "b";
    assert_int_equal(of_json("[\"a\",\"b\",\"c\"]", false), OBJECT_REFS_STOPPED);
    assert_string_equal(heard, "a b ");
    stop_at = NULL;
    assert_int_equal(of_json("[\"a\"", false), OBJECT_REFS_MALFORMED);
    assert_int_equal(of_json("{\"file_id\":\"a\",}", false), OBJECT_REFS_MALFORMED);
    assert_int_equal(object_refs_json(reader, "[1,2,3]", 7, 7, 2, &watch), OBJECT_REFS_TOO_MANY);
    assert_int_equal(object_refs_json(reader, "[1,2,3]", 7, 7, 3, &watch), OBJECT_REFS_FINE);
}

static void a_query_names_objects(void **state)
{
    static const struct {
        const char *query, *wanted;
        enum object_refs refs;
    } rows[] = {
        {"", "", OBJECT_REFS_FINE},
        {"limit=20&after=f1", "20 f1 ", OBJECT_REFS_FINE},
        {"file_id=f1", "f1! ", OBJECT_REFS_FINE},
        {"file%5Fid=%661", "f1! ", OBJECT_REFS_FINE},
        {"file_ids[]=f1&file_ids%5b%5D=f2", "f1! f2! ", OBJECT_REFS_FINE},
        {"&&a&=b&file_id=", "b ", OBJECT_REFS_FINE},
        {"file_id=a+b1", "a b1! ", OBJECT_REFS_FINE},
        {"file_id=a%2Bb1&file_id=a%20b1", "a+b1! a b1! ", OBJECT_REFS_FINE},
        {"q=%61bcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz&file_id=f1",
         "f1! ", OBJECT_REFS_FINE},
        {"a=%zz", "", OBJECT_REFS_MALFORMED},
        {"file_id=%6", "", OBJECT_REFS_MALFORMED},
        {"a=%00", "", OBJECT_REFS_MALFORMED},
    };
    const struct object_watch watch = {.seen = seen, .any = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        heard[0] = '\0';
        assert_int_equal(object_refs_query(slice_of(rows[i].query), &watch), rows[i].refs);
        if (strcmp(heard, rows[i].wanted) != 0)
            fail_msg("%s: %s", rows[i].query, heard);
    }
}

#define DISPOSITION "Content-Disposition: form-data; "

static void a_form_names_objects(void **state)
{
    static const struct {
        const char *type, *body, *wanted;
        enum object_refs refs;
    } rows[] = {
        {"multipart/form-data; boundary=b",
         "--b\r\n" DISPOSITION "name=\"file_id\"\r\n\r\nf1\r\n--b\r\n" DISPOSITION
         "name=x\r\n\r\nf2\r\n--b--\r\n",
         "f1! f2 ", OBJECT_REFS_FINE},
        {"multipart/form-data; charset=x; BOUNDARY=\"b\"",
         "--b\r\nx: y\r\ncontent-disposition: form-data; filename=\"a;name=file_id\"; "
         "name=\"file_id\"\r\n\r\nf1\r\n--b--",
         "f1 ", OBJECT_REFS_FINE},
        {"multipart/form-data", "--b\r\n", "", OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b; boundary=c", "--b--", "", OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b", "", "", OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b", "--b", "", OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b", "--b--", "", OBJECT_REFS_FINE},
        {"multipart/form-data; boundary=b", "x--b--", "", OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b", "--b\r\n" DISPOSITION "name=x\r\n\r\nf2", "",
         OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b", "--b\r\n\r\nf2\r\n--b--", "", OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b",
         "--b\r\n" DISPOSITION "name=x; name=file_id\r\n\r\nf2\r\n--b--", "",
         OBJECT_REFS_MALFORMED},
        {"multipart/form-data; boundary=b",
         "--b\r\n" DISPOSITION "name=x\r\n" DISPOSITION "name=file_id\r\n\r\nf2\r\n--b--", "",
         OBJECT_REFS_MALFORMED},
    };
    const struct object_watch watch = {.seen = seen, .any = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        heard[0] = '\0';
        if (object_refs_form(reader, slice_of(rows[i].type), rows[i].body, strlen(rows[i].body),
                             strlen(rows[i].body), 1000, &watch) !=
                rows[i].refs ||
            strcmp(heard, rows[i].wanted) != 0)
            fail_msg("%zu %s: %s", i, rows[i].body, heard);
    }
}

#define FILE_PART "--b\r\n" DISPOSITION "name=file; filename=x\r\n\r\n"
#define PURPOSE(word) "--b\r\n" DISPOSITION "name=purpose\r\n\r\n" word "\r\n"

#define LINES                                                    \
    "{\"custom_id\":\"c1\",\"body\":{\"file_id\":\"f1\"}}\n\r\n" \
    "{\"order_id\":\"o1\",\"body\":{\"previous_response_id\":\"r1\"}}"
#define MARKED "\xef\xbb\xbf{\"body\":{\"input\":{\"file_id\":\"f1\"}}}"

/* Each line is a call of a model: its keys are those of one, its input is not free, and what its
 * caller names by any other `_id` is no object. A file as short as these is told whole, too. */
static void the_lines_of_a_batch_name_objects(void **state)
{
    static const struct {
        const char *body, *wanted;
        enum object_refs refs;
    } rows[] = {
        {PURPOSE("batch") FILE_PART LINES "\r\n--b--", "batch " LINES " c1 f1! o1 r1! ",
         OBJECT_REFS_FINE},
        {FILE_PART MARKED "\r\n" PURPOSE(" Batch") "--b--", MARKED " Batch f1! ",
         OBJECT_REFS_FINE},
        {PURPOSE("user_data") FILE_PART "{\"file_id\":\"f1\"}\r\n--b--",
         "user_data {\"file_id\":\"f1\"} ", OBJECT_REFS_FINE},
        {PURPOSE("batch") FILE_PART "no json\r\n--b--", "batch no json ", OBJECT_REFS_MALFORMED},
        {PURPOSE("batch") FILE_PART "{}\r\n" FILE_PART "{}\r\n--b--", "batch {} {} ",
         OBJECT_REFS_MALFORMED},
        {PURPOSE("batch") "--b--", "batch ", OBJECT_REFS_FINE},
    };
    const struct object_watch watch = {.seen = seen, .any = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t n = strlen(rows[i].body);
        heard[0] = '\0';
        enum object_refs refs =
            object_refs_form(reader, SLICE("multipart/form-data; boundary=b"), rows[i].body, n, n,
                             1000, &watch);
        if (refs != rows[i].refs || strcmp(heard, rows[i].wanted) != 0)
            fail_msg("%zu %s: %s", i, rows[i].body, heard);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_name_objects_are_known),
        cmocka_unit_test(a_walk_ends_where_it_is_told_to),
        cmocka_unit_test(a_query_names_objects),
        cmocka_unit_test(a_form_names_objects),
        cmocka_unit_test(the_lines_of_a_batch_name_objects),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
