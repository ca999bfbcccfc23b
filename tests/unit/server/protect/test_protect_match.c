/* test_protect_match.c - which protected route a target is for, and whose headers are believed. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "server/protect/protect.h"
#include "server/tenancy/trust.h"

/* ---- routes ---- */

static struct config_protect_priority lines[] = {
    {"GET", "/api/read", CONFIG_HIGH},
    {"GET", "/api/read/bulk", CONFIG_LOW},
    {"POST", "/api", CONFIG_LOW},
};
static struct config_protect routes[] = {
    {.prefix = "/api", .priorities = lines, .n_priorities = 3},
    {.prefix = "/api/v2"},
    {.prefix = "/static/"},
};

static const char *found(const char *target)
{
    struct protected_route guarded[3] = {
        {.config = &routes[0]}, {.config = &routes[1]}, {.config = &routes[2]}};
    struct generation generation = {.protect = guarded,
                                    .config = {.protect = routes, .n_protect = 3}};
    const struct protected_route *route = protect_find(&generation, slice_of(target));

    return route ? route->config->prefix : "";
}

static void a_prefix_ends_where_a_part_of_the_path_ends(void **state)
{
    static const struct {
        const char *target, *prefix;
    } rows[] = {
        {"/api", "/api"},
        {"/api/", "/api"},
        {"/api/x", "/api"},
        {"/api?x=/api/v2", "/api"},
        {"/apix", ""},
        {"/ap", ""},
        {"/", ""},
        {"", ""},
        {"*", ""},
        {"/API", ""},
        {"/x/../api", ""},
        {"/%61pi", ""},
        {"//api", ""},
        {"/x?/api", ""},
        {"/api/v2", "/api/v2"},
        {"/api/v2/y", "/api/v2"},
        {"/api/v2?q", "/api/v2"},
        {"/api/v20", "/api"},
        {"/static", "/static/"},
        {"/static/a.js", "/static/"},
        {"/statics", ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(found(rows[i].target), rows[i].prefix) != 0)
            fail_msg("%s is for '%s', not for '%s'", rows[i].target, rows[i].prefix,
                     found(rows[i].target));
}

static void the_root_is_for_everything(void **state)
{
    struct config_protect root = {.prefix = "/"};
    struct protected_route guarded = {.config = &root};
    struct generation generation = {.protect = &guarded,
                                    .config = {.protect = &root, .n_protect = 1}};

    (void)state;
    assert_non_null(protect_find(&generation, SLICE("/anything/at?all")));
    assert_null(protect_find(&generation, SLICE("*")));
}

static void the_longest_line_of_the_method_decides_the_class(void **state)
{
    static const struct {
        const char *method, *target;
        enum tg_priority priority;
    } rows[] = {
        {"GET", "/api/read", TG_PRIORITY_HIGH},
        {"GET", "/api/read/1?x", TG_PRIORITY_HIGH},
        {"GET", "/api/read/bulk", TG_PRIORITY_LOW},
        {"GET", "/api/reads", TG_PRIORITY_NORMAL},
        {"GET", "/api", TG_PRIORITY_NORMAL},
        {"POST", "/api/read", TG_PRIORITY_LOW},
        {"HEAD", "/api/read", TG_PRIORITY_NORMAL},
        {"get", "/api/read", TG_PRIORITY_NORMAL},
    };
    struct protected_route route = {.config = &routes[0]};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (protect_priority(&route, slice_of(rows[i].method), slice_of(rows[i].target)) !=
            rows[i].priority)
            fail_msg("%s %s", rows[i].method, rows[i].target);
}

/* ---- trust ---- */

static bool covers(const char *ranges, const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    const struct sockaddr *any = (const struct sockaddr *)&in;
    struct config_problems problems;
    struct config config;
    char yaml[200];

    snprintf(yaml, sizeof yaml, "trust_headers_from: [%s]\n", ranges);
    assert_int_equal(config_parse(NULL, yaml, strlen(yaml), &config, &problems), CONFIG_READ);
    if (strchr(address, ':')) {
        assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
        any = (const struct sockaddr *)&in6;
    } else {
        assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
    }
    bool covered = trust_covers(&config, any);
    config_free(&config);
    config_problems_free(&problems);
    return covered;
}

static void a_range_covers_its_addresses_and_no_others(void **state)
{
    (void)state;
    assert_true(covers("127.0.0.1/32", "127.0.0.1"));
    assert_false(covers("127.0.0.1/32", "127.0.0.2"));
    assert_true(covers("10.0.0.0/9", "10.127.255.255"));
    assert_false(covers("10.0.0.0/9", "10.128.0.0"));
    assert_true(covers("1.2.3.4/32, \"fd00::/7\"", "fc12::1"));
    assert_false(covers("\"fd00::/7\"", "fe00::1"));
    assert_false(covers("127.0.0.1/32", "::1"));
    assert_true(covers("\"::1/128\"", "::1"));
    assert_false(covers("", "127.0.0.1"));
}

static void ipv4_by_way_of_ipv6_is_ipv4(void **state)
{
    (void)state;
    assert_true(covers("127.0.0.1/32", "::ffff:127.0.0.1"));
    assert_false(covers("127.0.0.1/32", "::ffff:127.0.0.2"));
    assert_false(covers("\"::/0\"", "::ffff:127.0.0.1"));
}

static void a_local_socket_is_in_no_range(void **state)
{
    struct config_range all = {.family = AF_UNIX};
    struct config config = {.trusted = &all, .n_trusted = 1};
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)state;
    assert_false(trust_covers(&config, (const struct sockaddr *)&address));
    assert_false(trust_covers(&config, NULL));
}

static void a_stated_class_is_one_of_three_words(void **state)
{
    struct http_field fields[] = {{SLICE("x-deriva-priority"), SLICE("low")},
                                  {SLICE("x-tollgate-priority"), SLICE("HIGH")},
                                  {SLICE("x-deriva-node-id"), SLICE("n1")}};
    struct http_head head = {.fields = fields, .n_fields = 3};

    (void)state;
    assert_int_equal(trust_priority(&head, TG_PRIORITY_NORMAL), TG_PRIORITY_HIGH);
    assert_true(slice_equal(trust_node(&head), SLICE("n1")));
    head.n_fields = 1;
    assert_int_equal(trust_priority(&head, TG_PRIORITY_NORMAL), TG_PRIORITY_LOW);
    assert_int_equal(trust_node(&head).n, 0);
    fields[0].value = SLICE("urgent");
    assert_int_equal(trust_priority(&head, TG_PRIORITY_NORMAL), TG_PRIORITY_NORMAL);
}

static void a_node_id_has_a_bound(void **state)
{
    char text[TRUST_NODE_MAX + 1];
    struct http_field field = {SLICE("x-deriva-node-id"), {text, TRUST_NODE_MAX}};
    struct http_head head = {.fields = &field, .n_fields = 1};

    (void)state;
    memset(text, 'n', sizeof text);
    assert_int_equal(trust_node(&head).n, TRUST_NODE_MAX);
    field.value.n++;
    assert_int_equal(trust_node(&head).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_ends_where_a_part_of_the_path_ends),
        cmocka_unit_test(the_root_is_for_everything),
        cmocka_unit_test(the_longest_line_of_the_method_decides_the_class),
        cmocka_unit_test(a_range_covers_its_addresses_and_no_others),
        cmocka_unit_test(ipv4_by_way_of_ipv6_is_ipv4),
        cmocka_unit_test(a_local_socket_is_in_no_range),
        cmocka_unit_test(a_stated_class_is_one_of_three_words),
        cmocka_unit_test(a_node_id_has_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
