/* test_svg.c - a picture is the XML that was asked for, whatever the text in it. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "io/text/svg.h"

/* The elements between the background and the end. */
static void expect_body(struct svg *svg, const char *want)
{
    static const char head[] = "fill=\"#ffffff\"/>\n", tail[] = "</svg>\n";

    svg_end(svg);
    assert_false(svg->out.failed);
    assert_memory_equal(svg->out.bytes + svg->out.size - strlen(tail), tail, strlen(tail));
    svg->out.bytes[svg->out.size - strlen(tail)] = '\0';
    const char *body = strstr(svg->out.bytes, head);
    assert_non_null(body);
    assert_string_equal(body + strlen(head), want);
    svg_fini(svg);
}

static void expect_holds(const struct svg *svg, const char *words)
{
    for (size_t i = 0; i + strlen(words) <= svg->out.size; i++)
        if (memcmp(svg->out.bytes + i, words, strlen(words)) == 0)
            return;
    fail_msg("nothing of %s", words);
}

static void a_picture_says_what_it_is(void **state)
{
    struct svg svg;
    (void)state;

    svg_begin(&svg, 640, 480.5, "A & B", "<bars>");
    expect_holds(&svg, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                       "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    expect_holds(&svg, " width=\"640\" height=\"480.5\" viewBox=\"0 0 640 480.5\"");
    expect_holds(&svg, "<title>A &amp; B</title>");
    expect_holds(&svg, "<desc>&lt;bars&gt;</desc>");
    svg_fini(&svg);
}

static void shapes_are_plain_elements(void **state)
{
    struct svg svg;
    (void)state;

    svg_begin(&svg, 10, 10, "", "");
    svg_rect(&svg, &(struct svg_rect){1, 2, 3.456, 4, "#000000", NULL});
    svg_rect(&svg, &(struct svg_rect){1, 2, -3, 4, NULL, "#123456"});
    svg_line(&svg, &(struct svg_line){0, -0.0, 1e-9, 4, "#eeeeee"});
    expect_body(&svg, "<rect x=\"1\" y=\"2\" width=\"3.46\" height=\"4\" fill=\"#000000\"/>\n"
                      "<rect x=\"1\" y=\"2\" width=\"0\" height=\"4\" fill=\"none\" "
                      "stroke=\"#123456\"/>\n"
                      "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"4\" stroke=\"#eeeeee\"/>\n");
}

static void a_path_goes_from_point_to_point(void **state)
{
    static const double x[] = {0, 1.5, 3}, y[] = {9, NAN, -1};
    struct svg svg;
    (void)state;

    svg_begin(&svg, 10, 10, "", "");
    svg_path(&svg, &(struct svg_path){x, y, 3, "#0072b2", NULL, 2, true});
    svg_path(&svg, &(struct svg_path){x, y, 2, NULL, "#eeeeee", 0, false});
    expect_body(&svg, "<polyline points=\"0,9 1.5,0 3,-1\" fill=\"none\" stroke=\"#0072b2\""
                      " stroke-width=\"2\" stroke-linejoin=\"round\""
                      " stroke-dasharray=\"6 4\"/>\n"
                      "<polygon points=\"0,9 1.5,0\" fill=\"#eeeeee\"/>\n");
}

static void text_is_escaped(void **state)
{
    struct svg svg;
    (void)state;

    svg_begin(&svg, 10, 10, "", "");
    svg_text(&svg, &(struct svg_text){.x = 1, .y = 2, .text = "a<b>&\"c\" \xcf\x81"});
    svg_text(&svg, &(struct svg_text){.anchor = SVG_END,
                                      .size = 9,
                                      .fill = "#777777",
                                      .bold = true,
                                      .text = "\x01\xff\xef\xbf\xbf."});
    expect_body(&svg, "<text x=\"1\" y=\"2\" font-size=\"12\" fill=\"#222222\">"
                      "a&lt;b&gt;&amp;&quot;c&quot; \xcf\x81</text>\n"
                      "<text x=\"0\" y=\"0\" font-size=\"9\" fill=\"#777777\" text-anchor=\"end\""
                      " font-weight=\"bold\">\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.</text>\n");
}

/* A number that is none would make the whole picture unreadable. */
static void numbers_are_always_numbers(void **state)
{
    struct svg svg;
    (void)state;

    svg_begin(&svg, 10, 10, "", "");
    svg_line(&svg, &(struct svg_line){NAN, INFINITY, 1e300, -2.5, NULL});
    expect_body(&svg, "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"-2.5\" stroke=\"none\"/>\n");
}

static void it_grows(void **state)
{
    struct svg svg;
    (void)state;

    svg_begin(&svg, 10, 10, "", "");
    for (int i = 0; i < 10000; i++)
        svg_line(&svg, &(struct svg_line){i, i, i, i, "#000000"});
    svg_end(&svg);
    assert_false(svg.out.failed);
    assert_true(svg.out.size > 10000 * 40);
    expect_holds(&svg, "<line x1=\"9999\" y1=\"9999\"");
    svg_fini(&svg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture_says_what_it_is),
        cmocka_unit_test(shapes_are_plain_elements),
        cmocka_unit_test(a_path_goes_from_point_to_point),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(numbers_are_always_numbers),
        cmocka_unit_test(it_grows),
    };

    return cmocka_run_group_tests_name("svg", tests, NULL, NULL);
}
