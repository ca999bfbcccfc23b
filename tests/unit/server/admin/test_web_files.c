/* test_web_files.c - the dashboard stands in the program, whole, and asks nobody else for anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "server/admin/web_files.h"

static const struct web_file *found(const char *path)
{
    return web_file_find(slice_of(path));
}

static bool holds(const struct web_file *file, const char *words)
{
    struct slice bytes = web_file_bytes(file);

    for (size_t i = 0; i + strlen(words) <= bytes.n; i++)
        if (memcmp(bytes.at + i, words, strlen(words)) == 0)
            return true;
    return false;
}

static void every_file_is_found_by_its_path(void **state)
{
    (void)state;

    assert_true(web_files_n >= 4);
    for (size_t i = 0; i < web_files_n; i++)
        assert_ptr_equal(found(web_files[i].path), &web_files[i]);
    assert_string_equal(found("/")->type, "text/html; charset=utf-8");
    assert_string_equal(found("/app.js")->type, "text/javascript; charset=utf-8");
    assert_string_equal(found("/style.css")->type, "text/css; charset=utf-8");
    assert_true(holds(found("/chart.js"), "Chart.js v"));
}

static void no_other_path_is_a_file(void **state)
{
    static const char *const paths[] = {"", "/x", "/app.jsx", "/app.j", "/index.html", "app.js",
                                        "/../web/app.js"};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(paths); i++)
        assert_null(found(paths[i]));
}

static void tags_are_quoted_and_differ(void **state)
{
    (void)state;

    for (size_t i = 0; i < web_files_n; i++) {
        assert_int_equal(strlen(web_files[i].etag), 18);
        assert_true(web_files[i].etag[0] == '"' && web_files[i].etag[17] == '"');
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(web_files[i].etag, web_files[k].etag);
    }
}

static void bytes_are_those_of_the_source(void **state)
{
    FILE *file = fopen("web/app.js", "rb");
    struct slice bytes = web_file_bytes(found("/app.js"));
    char *text = malloc(bytes.n + 1);
    (void)state;

    assert_non_null(file); /* tests run where the source is */
    assert_non_null(text);
    assert_int_equal(fread(text, 1, bytes.n + 1, file), bytes.n);
    assert_memory_equal(text, bytes.at, bytes.n);
    free(text);
    fclose(file);
}

/* What the policy would refuse to run is not there in the first place. */
static void the_page_holds_nothing_inline_and_names_no_host(void **state)
{
    (void)state;

    const struct web_file *page = found("/");
    assert_false(holds(page, "<style"));
    assert_false(holds(page, " style="));
    assert_false(holds(page, "<script>"));
    assert_false(holds(page, " onclick="));
    for (size_t i = 0; i < web_files_n; i++)
        if (strcmp(web_files[i].path, "/chart.js") != 0 &&
            strcmp(web_files[i].path, "/icon.svg") != 0)
            assert_false(holds(&web_files[i], "://"));
}

/* What a client chose is never markup. */
static void scripts_put_in_text_and_no_markup(void **state)
{
    static const char *const never[] = {"innerHTML", "outerHTML", "insertAdjacentHTML",
                                        "document.write", "eval("};
    (void)state;

    for (size_t i = 0; i < web_files_n; i++)
        for (size_t k = 0; k < COUNT_OF(never); k++)
            if (holds(&web_files[i], never[k]))
                fail_msg("%s uses %s", web_files[i].path, never[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_found_by_its_path),
        cmocka_unit_test(no_other_path_is_a_file),
        cmocka_unit_test(tags_are_quoted_and_differ),
        cmocka_unit_test(bytes_are_those_of_the_source),
        cmocka_unit_test(the_page_holds_nothing_inline_and_names_no_host),
        cmocka_unit_test(scripts_put_in_text_and_no_markup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
