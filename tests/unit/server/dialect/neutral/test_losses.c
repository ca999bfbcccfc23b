/* test_losses.c - the table of what has no counterpart, and that docs/dialects.md shows it.
 *
 * The part between the two marks is made from the table. TG_UPDATE_GOLDEN=1 writes it instead of
 * comparing. Run from the top of the tree.
 */
#include "check.h"
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/neutral/losses.h"

#define DOC "docs/dialects.md"
#define BEGIN "<!-- losses: made by test_losses.c from the table of the program -->\n"
#define END "<!-- end of losses -->\n"

static void the_document_shows_the_table(void **state)
{
    struct text_out want = {.size = 0};

    (void)state;
    losses_describe(&want);
    assert_false(want.failed);
    expect_document(DOC, BEGIN, END, want.bytes, want.size);
    text_out_fini(&want);
}

static void every_field_has_one_row_for_each_pair(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_losses; i++) {
        assert_true(losses[i].to != 0 && losses[i].name[0] != '\0');
        for (size_t k = 0; k < i; k++)
            assert_false(losses[k].field == losses[i].field && losses[k].from == losses[i].from &&
                         (losses[k].to & losses[i].to) != 0);
    }
}

static void names_are_told_once_and_within_bounds(void **state)
{
    struct neutral_dropped dropped = {.n = 0};
    char name[32];

    (void)state;
    neutral_dropped_add(&dropped, "a");
    neutral_dropped_add(&dropped, "bc");
    neutral_dropped_add(&dropped, "a");
    neutral_dropped_add(&dropped, "b");
    assert_string_equal(dropped.names, "a, bc, b");
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "field_number_%d", i);
        neutral_dropped_add(&dropped, name);
        assert_int_equal(strlen(dropped.names), dropped.n);
        assert_true(dropped.n < DROPPED_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_shows_the_table),
        cmocka_unit_test(every_field_has_one_row_for_each_pair),
        cmocka_unit_test(names_are_told_once_and_within_bounds),
    };

    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}
