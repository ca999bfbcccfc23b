/* test_yaml_tree.c - what is in the tree and where, and what is refused. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/yaml_tree.h"

struct reports {
    size_t n;
    size_t line, column; /* where the first one is */
    char text[300];
};

static void note(void *context, size_t line, size_t column, const char *text)
{
    struct reports *reports = context;

    if (reports->n++ == 0) {
        reports->line = line;
        reports->column = column;
        snprintf(reports->text, sizeof reports->text, "%s", text);
    }
}

static bool read_text(struct arena *arena, const char *text, struct reports *reports,
                      struct yaml_node **root)
{
    *reports = (struct reports){0};
    *root = NULL;
    return yaml_tree_read(arena, text, strlen(text), note, reports, root);
}

static void every_node_has_its_place(void **state)
{
    struct arena *arena = arena_new();
    struct reports reports;
    struct yaml_node *root, *a, *item;

    (void)state;
    assert_true(read_text(arena, "# head\na:\n  - x\n  - {k: \"v\"}\nb: '1'\nü: z\n", &reports,
                          &root));
    assert_int_equal(root->kind, YAML_MAP);
    assert_int_equal(root->n, 3);
    assert_int_equal(root->line, 2);
    a = yaml_tree_get(root, "a");
    assert_int_equal(a->kind, YAML_LIST);
    assert_int_equal(a->key->line, 2);
    assert_int_equal(a->n, 2);
    assert_string_equal(a->first->text, "x");
    assert_int_equal(a->first->line, 3);
    assert_int_equal(a->first->column, 5);
    assert_false(a->first->quoted);
    item = yaml_tree_get(a->first->next, "k");
    assert_true(item->quoted);
    assert_int_equal(item->line, 4);
    assert_int_equal(item->column, 9);
    assert_int_equal(item->key->column, 6);
    assert_true(yaml_tree_get(root, "b")->quoted);
    assert_int_equal(yaml_tree_get(root, "ü")->column, 4); /* characters, not bytes */
    assert_null(yaml_tree_get(root, "c"));
    assert_null(yaml_tree_get(a, "a"));
    assert_null(yaml_tree_get(NULL, "a"));
    arena_free(arena);
}

static void texts_are_what_was_written(void **state)
{
    static const struct {
        const char *yaml, *text;
        bool quoted;
    } rows[] = {
        {"no", "no", false},
        {"1e3", "1e3", false},
        {"~", "~", false},
        {"'no'", "no", true},
        {"\"a\\nb\"", "a\nb", true},
        {"|\n  a\n  b\n", "a\nb\n", true},
        {"0x10", "0x10", false},
        {"", "", false},
        {"# only a comment\n", "", false},
        {"---\n...\n", "", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena *arena = arena_new();
        struct reports reports;
        struct yaml_node *root;
        assert_true(read_text(arena, rows[i].yaml, &reports, &root));
        assert_int_equal(root->kind, YAML_TEXT);
        assert_string_equal(root->text, rows[i].text);
        assert_int_equal(root->bytes, strlen(rows[i].text));
        assert_int_equal(root->quoted, rows[i].quoted);
        arena_free(arena);
    }
}

static void what_is_refused_is_said_where(void **state)
{
    static const struct {
        const char *yaml;
        size_t line, column;
        const char *words;
    } rows[] = {
        {"a: &x 1\nb: *x\n", 1, 4, "anchor"},
        {"a: *x\n", 1, 4, "alias"},
        {"a: !!int 1\n", 1, 4, "tag"},
        {"a: !x y\n", 1, 4, "tag"},
        {"a: 1\n---\nb: 2\n", 2, 1, "second document"},
        {"a: 1\n  b: 2\n", 2, 4, "not YAML"},
        {"a: [1, 2\n", 2, 1, "not YAML"},
        {"a: \"\\0\"\n", 1, 4, "zero character"},
        {"[a]: 1\n", 1, 1, "key"},
        {"\xff", 1, 1, "not a text"},
        {"a: b\nc: \xc3\x28\n", 2, 5, "not a text"},
        {"\xff\xfe"
         "a",
         1, 1, "not a text"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena *arena = arena_new();
        struct reports reports;
        struct yaml_node *root;
        assert_false(read_text(arena, rows[i].yaml, &reports, &root));
        if (reports.n != 1 || reports.line != rows[i].line || reports.column != rows[i].column ||
            strstr(reports.text, rows[i].words) == NULL)
            fail_msg("%s: %zu reports, %zu:%zu %s", rows[i].yaml, reports.n, reports.line,
                     reports.column, reports.text);
        arena_free(arena);
    }
}

static void duplicate_keys_are_told_and_dropped(void **state)
{
    struct arena *arena = arena_new();
    struct reports reports;
    struct yaml_node *root;

    (void)state;
    assert_true(read_text(arena, "a: 1\nb: 2\na: 3\nc: 4\na: 5\n", &reports, &root));
    assert_int_equal(reports.n, 2);
    assert_int_equal(reports.line, 3);
    assert_int_equal(root->n, 3);
    assert_string_equal(yaml_tree_get(root, "a")->text, "1");
    assert_string_equal(root->last->key->text, "c");
    arena_free(arena);
}

/* `n` times `text`, then `end`. */
static char *repeat(const char *text, size_t n, const char *end)
{
    char *made = malloc(n * strlen(text) + strlen(end) + 1);

    assert_non_null(made);
    made[0] = '\0';
    for (size_t i = 0; i < n; i++)
        memcpy(made + i * strlen(text), text, strlen(text));
    strcpy(made + n * strlen(text), end);
    return made;
}

static bool is_read(const char *text, size_t bytes, const char *words)
{
    struct arena *arena = arena_new();
    struct reports reports = {0};
    struct yaml_node *root;
    bool good = yaml_tree_read(arena, text, bytes, note, &reports, &root);

    if (!good && strstr(reports.text, words) == NULL)
        fail_msg("%s, not %s", reports.text, words);
    arena_free(arena);
    return good;
}

static bool read_aliases(struct arena *arena, const char *text, struct reports *reports,
                         struct yaml_node **root)
{
    *reports = (struct reports){0};
    return yaml_tree_read_aliases(arena, text, strlen(text), note, reports, root);
}

static void an_alias_is_a_copy_where_they_are_read(void **state)
{
    struct arena *arena = arena_new();
    struct reports reports;
    struct yaml_node *root;

    (void)state;
    assert_true(read_aliases(arena,
                             "a: &x {p: [1, 2], q: &y z}\nb: *x\nc: [*y, *x]\n"
                             "d: &x 5\ne: *x\n",
                             &reports, &root));
    assert_int_equal(reports.n, 0);
    const struct yaml_node *a = yaml_tree_get(root, "a"), *b = yaml_tree_get(root, "b");
    assert_ptr_not_equal(a, b);
    assert_string_equal(b->key->text, "b");
    assert_int_equal(b->n, 2);
    assert_ptr_not_equal(a->first, b->first);
    assert_string_equal(b->first->key->text, "p");
    assert_string_equal(b->first->last->text, "2");
    assert_null(b->first->last->next);
    const struct yaml_node *c = yaml_tree_get(root, "c");
    assert_int_equal(c->n, 2);
    assert_null(c->first->key);
    assert_string_equal(c->first->text, "z");
    assert_string_equal(yaml_tree_get(c->last, "q")->text, "z");
    /* The newest of a name. */
    assert_string_equal(yaml_tree_get(root, "e")->text, "5");
    assert_int_equal(root->n, 5);
    arena_free(arena);
}

/* Nine lines that stand for a thousand million values. */
static const char laughs[] = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
                             "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
                             "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
                             "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n"
                             "e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n"
                             "f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
                             "g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]\n"
                             "h: &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]\n"
                             "i: &i [*h, *h, *h, *h, *h, *h, *h, *h, *h, *h]\n";

static void aliases_are_bounded_and_never_go_round(void **state)
{
    char *anchors = repeat("- &a x\n", YAML_TREE_ANCHORS_MAX + 1, "");
    char deep[40 * 20] = "- &a0 [x]\n";
    struct {
        const char *text, *words;
    } rows[] = {
        {laughs, "too many values"},
        {"a: &a [1, *a]\n", "is part of what it refers to"},
        {"a: &a {b: {c: *a}}\n", "is part of what it refers to"},
        {"a: *b\n", "there is no anchor &b before this alias"},
        {"a: *b\nb: &b 1\n", "there is no anchor &b before this alias"},
        {"*a : 1\n", "there is no anchor &a before this alias"},
        {"&a [1]: 1\n", "a key must be a plain word"},
        {"- &a [1]\n- {*a : 2}\n", "a key must be a plain word"},
        {"a: !!str b\n", "a tag (!)"},
        {anchors, "too many anchors"},
        {deep, "nested too deep"},
    };

    (void)state;
    for (int i = 1; i < 36; i++) {
        size_t n = strlen(deep);
        snprintf(deep + n, sizeof deep - n, "- &a%d [*a%d]\n", i, i - 1);
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena *arena = arena_new();
        struct reports reports;
        struct yaml_node *root;
        assert_false(read_aliases(arena, rows[i].text, &reports, &root));
        if (reports.n != 1 || strstr(reports.text, rows[i].words) == NULL)
            fail_msg("%.60s: %zu, %s", rows[i].text, reports.n, reports.text);
        arena_free(arena);
    }
    free(anchors);
}

static void depth_nodes_and_size_are_bounded(void **state)
{
    char *nested = repeat("[", YAML_TREE_DEPTH_MAX, ""), *deeper = repeat("[", 100000, "");
    char *closed = repeat("[", YAML_TREE_DEPTH_MAX, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    char *many = repeat("- a\n", YAML_TREE_NODES_MAX + 1, "");
    char *large = repeat(" ", YAML_TREE_BYTES_MAX + 1, "");

    (void)state;
    assert_true(is_read(closed, strlen(closed), ""));
    assert_false(is_read(nested, strlen(nested), "not YAML"));
    assert_false(is_read(deeper, strlen(deeper), "nested too deep"));
    assert_false(is_read(many, strlen(many), "too many values"));
    assert_true(is_read(many, (YAML_TREE_NODES_MAX - 1) * 4, ""));
    assert_false(is_read(large, strlen(large), "at most 16 MiB"));
    free(nested);
    free(deeper);
    free(closed);
    free(many);
    free(large);
}

static void an_arena_gives_aligned_zeroed_memory(void **state)
{
    struct arena *arena = arena_new();

    (void)state;
    for (size_t bytes = 0; bytes < 9000; bytes += 37) {
        unsigned char *piece = arena_alloc(arena, bytes);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(piece[i], 0);
        memset(piece, 0xff, bytes);
    }
    assert_null(arena_alloc(arena, SIZE_MAX));
    assert_string_equal(arena_text(arena, "abc", 2), "ab");
    arena_free(arena);
    arena_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_has_its_place),
        cmocka_unit_test(texts_are_what_was_written),
        cmocka_unit_test(what_is_refused_is_said_where),
        cmocka_unit_test(duplicate_keys_are_told_and_dropped),
        cmocka_unit_test(an_alias_is_a_copy_where_they_are_read),
        cmocka_unit_test(aliases_are_bounded_and_never_go_round),
        cmocka_unit_test(depth_nodes_and_size_are_bounded),
        cmocka_unit_test(an_arena_gives_aligned_zeroed_memory),
    };

    return cmocka_run_group_tests_name("yaml tree", tests, NULL, NULL);
}
