/* test_admin_routes.c - the API that is documented and the API that is served are one.
 *
 * And how a path and a query are taken apart. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/yaml_tree.h"
#include "server/admin/admin_query.h"
#include "server/admin/admin_routes.h"

/* ---- docs/openapi.yaml ---- */

struct document {
    struct arena *arena;
    struct yaml_node *root;
};

static void report(void *context, size_t line, size_t column, const char *text)
{
    (void)context;
    fail_msg("docs/openapi.yaml:%zu:%zu: %s", line, column, text);
}

static void open_document(struct document *document)
{
    static char text[1 << 20];
    FILE *file = fopen("docs/openapi.yaml", "r");

    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    document->arena = arena_new();
    assert_non_null(document->arena);
    assert_true(yaml_tree_read(document->arena, text, n, report, NULL, &document->root));
}

static bool is_operation(const char *name)
{
    return strcmp(name, "get") == 0 || strcmp(name, "put") == 0 || strcmp(name, "post") == 0 ||
           strcmp(name, "delete") == 0;
}

static const struct admin_route *route_of(const char *path, const char *method)
{
    char upper[16] = "";

    for (size_t i = 0; method[i] != '\0'; i++)
        upper[i] = (char)(method[i] - 'a' + 'A');
    for (size_t i = 0; i < admin_routes_n; i++)
        if (strcmp(admin_routes[i].path, path) == 0 && strcmp(admin_routes[i].method, upper) == 0)
            return &admin_routes[i];
    return NULL;
}

static bool answers(const struct admin_route *route, int status)
{
    for (int i = 0; i < ADMIN_STATUSES_MAX && route->statuses[i] != 0; i++)
        if (route->statuses[i] == status)
            return true;
    return false;
}

static size_t count_statuses(const struct admin_route *route)
{
    size_t n = 0;

    while (n < ADMIN_STATUSES_MAX && route->statuses[n] != 0)
        n++;
    return n;
}

/* The names of its parameters in the query, separated by blanks. */
static void query_of(const struct yaml_node *operation, char text[256])
{
    const struct yaml_node *list = yaml_tree_get(operation, "parameters");

    text[0] = '\0';
    for (const struct yaml_node *at = list ? list->first : NULL; at != NULL; at = at->next) {
        if (strcmp(yaml_tree_get(at, "in")->text, "query") != 0)
            continue;
        snprintf(text + strlen(text), 256 - strlen(text), "%s%s", *text != '\0' ? " " : "",
                 yaml_tree_get(at, "name")->text);
    }
}

static void same_query(const struct admin_route *route, const struct yaml_node *operation)
{
    char documented[256];

    query_of(operation, documented);
    assert_string_equal(documented, route->query != NULL ? route->query : "");
    /* What is not GET is a change, and has its line in the audit log. */
    assert_int_equal(strcmp(route->method, "GET") == 0, route->action == NULL);
}

static void same_operation(const char *path, const struct yaml_node *operation)
{
    const char *method = operation->key->text;
    const struct admin_route *route = route_of(path, method);
    const struct yaml_node *replies = yaml_tree_get(operation, "responses");

    if (route == NULL)
        fail_msg("%s %s is documented and not served", method, path);
    for (const struct yaml_node *at = replies->first; at != NULL; at = at->next)
        if (!answers(route, atoi(at->key->text)))
            fail_msg("%s %s: %s is documented, and no status of its", method, path, at->key->text);
    if (count_statuses(route) != replies->n)
        fail_msg("%s %s: %zu statuses are documented, it has %zu", method, path, replies->n,
                 count_statuses(route));
    assert_int_equal(route->body, yaml_tree_get(operation, "requestBody") != NULL);
    same_query(route, operation);
    /* Without a token it is 401, and the document says so. */
    bool open = yaml_tree_get(operation, "security") != NULL;
    assert_int_equal(open, !answers(route, 401));
    assert_int_equal(open, !answers(route, 403));
}

static void what_is_documented_is_served_and_nothing_else(void **state)
{
    struct document document;
    size_t n = 0;
    (void)state;

    open_document(&document);
    const struct yaml_node *paths = yaml_tree_get(document.root, "paths");
    assert_non_null(paths);
    for (const struct yaml_node *path = paths->first; path != NULL; path = path->next)
        for (const struct yaml_node *at = path->first; at != NULL; at = at->next)
            if (is_operation(at->key->text)) {
                same_operation(path->key->text, at);
                n++;
            }
    assert_int_equal(n, admin_routes_n);
    arena_free(document.arena);
}

/* Whether a reference within the document leads somewhere. */
static void check_reference(const struct document *document, const char *to)
{
    const struct yaml_node *at = document->root;
    char name[128];

    assert_memory_equal(to, "#/", 2);
    for (to += 2; *to != '\0'; to += strcspn(to, "/"), to += *to == '/') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(to, "/"), to);
        at = yaml_tree_get(at, name);
        if (at == NULL)
            fail_msg("a reference leads nowhere: %s", name);
    }
}

static void check_references(const struct document *document, const struct yaml_node *node)
{
    if (node->key != NULL && strcmp(node->key->text, "$ref") == 0)
        check_reference(document, node->text);
    for (const struct yaml_node *at = node->first; at != NULL; at = at->next)
        check_references(document, at);
}

static void every_reference_of_the_document_leads_somewhere(void **state)
{
    struct document document;
    (void)state;

    open_document(&document);
    check_references(&document, document.root);
    arena_free(document.arena);
}

/* An object that lists its members lists all of them, and which there must be. */
static void check_objects(const struct yaml_node *node)
{
    if (yaml_tree_get(node, "properties") != NULL &&
        yaml_tree_get(node, "additionalProperties") == NULL)
        fail_msg("docs/openapi.yaml:%zu: an object that takes anything", node->line);
    const struct yaml_node *required = yaml_tree_get(node, "required");
    for (const struct yaml_node *at =
             required != NULL && required->kind == YAML_LIST ? required->first : NULL;
         at != NULL; at = at->next)
        if (yaml_tree_get(yaml_tree_get(node, "properties"), at->text) == NULL)
            fail_msg("docs/openapi.yaml:%zu: %s is required and not there", at->line, at->text);
    for (const struct yaml_node *at = node->first; at != NULL; at = at->next)
        check_objects(at);
}

static void every_object_of_the_document_is_closed(void **state)
{
    struct document document;
    (void)state;

    open_document(&document);
    check_objects(yaml_tree_get(document.root, "components"));
    arena_free(document.arena);
}

/* ---- paths ---- */

static void a_path_finds_its_route_and_its_names(void **state)
{
    static const struct {
        const char *method, *path, *want, *names[2];
    } rows[] = {
        {"GET", "/", "/", {NULL}},
        {"HEAD", "/healthz", "/healthz", {NULL}},
        {"GET", "/api/v1/tenants", "/api/v1/tenants", {NULL}},
        {"PUT", "/api/v1/tenants/a%2Fb", "/api/v1/tenants/{tenant}", {"a%2Fb", NULL}},
        {"DELETE",
         "/api/v1/tenants/a/keys/k",
         "/api/v1/tenants/{tenant}/keys/{key}",
         {"a", "k"}},
        {"POST", "/api/v1/keys/k/reset", "/api/v1/keys/{key}/reset", {"k", NULL}},
        {"POST",
         "/api/v1/keys/p/k/reset",
         "/api/v1/keys/{provider}/{key}/reset",
         {"p", "k"}},
        {"GET", "/api/v1/tenants/", NULL, {NULL}},
        {"GET", "/api/v1/tenants//keys", NULL, {NULL}},
        {"GET", "/api/v1/tenants/a/", NULL, {NULL}},
        {"GET", "//", NULL, {NULL}},
        {"GET", "", NULL, {NULL}},
        {"GET", "*", NULL, {NULL}},
        {"GET", "/api/v1/snapshot/", NULL, {NULL}},
        {"GET", "/API/v1/snapshot", NULL, {NULL}},
        {"GET", "http://x/healthz", NULL, {NULL}},
        {"PATCH", "/api/v1/tenants/a", NULL, {NULL}},
        {"get", "/healthz", NULL, {NULL}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct slice names[ADMIN_NAMES_MAX] = {{0}};
        char allow[64];
        const struct admin_route *route = admin_route_find(
            slice_of(rows[i].method), slice_of(rows[i].path), names, allow);
        if ((route == NULL) != (rows[i].want == NULL))
            fail_msg("%s %s", rows[i].method, rows[i].path);
        for (int k = 0; route != NULL && k < 2; k++) {
            assert_string_equal(route->path, rows[i].want);
            if (rows[i].names[k] != NULL)
                assert_true(slice_equal(names[k], slice_of(rows[i].names[k])));
        }
    }
}

static void another_method_is_told_which_there_are(void **state)
{
    struct slice names[ADMIN_NAMES_MAX] = {{0}};
    char allow[64];
    (void)state;

    assert_null(
        admin_route_find(SLICE("PATCH"), SLICE("/api/v1/tenants/a"), names, allow));
    assert_string_equal(allow, "GET, HEAD, PUT, DELETE");
    assert_null(admin_route_find(SLICE("GET"), SLICE("/api/v1/reload"), names, allow));
    assert_string_equal(allow, "POST");
    assert_null(admin_route_find(SLICE("GET"), SLICE("/nothing"), names, allow));
    assert_string_equal(allow, "");
}

/* ---- names ---- */

static void names_are_decoded_or_refused(void **state)
{
    static const struct {
        const char *text, *want;
        bool plus;
    } rows[] = {
        {"plain", "plain", false},
        {"a%2Fb", "a/b", false},
        {"%e2%82%ac", "\xe2\x82\xac", false},
        {"a+b", "a+b", false},
        {"a+b", "a b", true},
        {"%25", "%", false},
        {"", "", false},
        {"12345678", NULL, false},
        {"%", NULL, false},
        {"%4", NULL, false},
        {"%zz", NULL, false},
        {"a%00b", NULL, false},
        {"%2", NULL, true},
        {"1234567", "1234567", true},
        {"%31%32%33%34%35%36%37", "1234567", true},
    };
    char to[8];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool good = admin_decode(slice_of(rows[i].text), rows[i].plus, to, sizeof to);
        if (good != (rows[i].want != NULL) || (good && strcmp(to, rows[i].want) != 0))
            fail_msg("\"%s\"", rows[i].text);
    }
}

/* ---- queries ---- */

static void a_query_gives_its_parameters(void **state)
{
    struct slice query = SLICE("tenant=a%26b&&model=x+y&user=&last");
    char to[16];
    (void)state;

    assert_true(admin_query_get(query, "tenant", to, sizeof to));
    assert_string_equal(to, "a&b");
    assert_true(admin_query_get(query, "model", to, sizeof to));
    assert_string_equal(to, "x y");
    assert_true(admin_query_get(query, "user", to, sizeof to));
    assert_string_equal(to, "");
    assert_true(admin_query_get(query, "last", to, sizeof to));
    assert_string_equal(to, "");
    assert_false(admin_query_get(query, "ten", to, sizeof to));
    assert_false(admin_query_get((struct slice){"", 0}, "tenant", to, sizeof to));
}

static void what_is_not_a_parameter_is_named(void **state)
{
    static const struct {
        const char *query, *wrong; /* null: good */
    } rows[] = {
        {"", NULL},
        {"a=1&b=2", NULL},
        {"c=1", "c"},
        {"a=1&a=2", "a"},
        {"a=%zz", "a"},
        {"a=%", "a"},
        {"b=1234567", NULL},
        {"b=12345678", "b"},
        {"a=%00", "a"},
        {"=1", ""},
        {"&&a=1&", NULL},
        {"b=%31%32%33%34%35%36%37", NULL},
        {"ab=1", "ab"},
    };
    char wrong[64];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool good = admin_query_check(slice_of(rows[i].query), "a b", 8, wrong);
        if (good != (rows[i].wrong == NULL) || (!good && strcmp(wrong, rows[i].wrong) != 0))
            fail_msg("\"%s\"", rows[i].query);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_documented_is_served_and_nothing_else),
        cmocka_unit_test(every_reference_of_the_document_leads_somewhere),
        cmocka_unit_test(every_object_of_the_document_is_closed),
        cmocka_unit_test(a_path_finds_its_route_and_its_names),
        cmocka_unit_test(another_method_is_told_which_there_are),
        cmocka_unit_test(names_are_decoded_or_refused),
        cmocka_unit_test(a_query_gives_its_parameters),
        cmocka_unit_test(what_is_not_a_parameter_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
