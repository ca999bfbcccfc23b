/* test_admin_key_faults.c - no memory, at any moment of making or changing a key with settings: the
 * key is there with all of them, or it is what it was before; never without its limits.
 *
 * Every allocation fails once, in turn, and then all from there on.
 */
#include "failing_malloc.h"
#include "net_admin_kit.h"

#include <stdlib.h>
#include <string.h>

static const char YAML[] = "gate: {peers: {}}\n"
                           "providers:\n"
                           "  demo: {base_url: \"http://127.0.0.1:9\", api: openai,\n"
                           "         keys: [{name: k1, secret: x}]}\n"
                           "models:\n"
                           "  small: {provider: demo, price: {input: 1, output: 2}}\n"
                           "tenants: [{name: team}]\n";

static const char KEYS[] = "/api/v1/tenants/team/keys", KEY[] = "/api/v1/tenants/team/keys/ci";

static struct admin_kit kit;

static const struct config_key *key_in_force(void)
{
    const struct config_tenant *team = config_tenant(&kit.generation->config, "team", 4);

    return team != NULL ? config_find_key(team, "ci") : NULL;
}

/* The first limit of the key; 0: it has none. */
static int64_t limit_of(const struct config_key *key)
{
    return key->own.n_limits > 0 ? (int64_t)key->own.limits[0].limiters[0].limiter.limit : 0;
}

/* What is stored holds from the next reload on, too. */
static void reload(void)
{
    assert_int_equal(admin_kit_ask(&kit, "POST", "/api/v1/reload", NULL), 200);
}

/* Asks with the nth allocation failing; whether one did. */
static bool ask_without(long nth, bool from_there_on, const char *method, const char *target,
                        const char *body, int *status)
{
    keeps_failing = from_there_on;
    until_failure = nth;
    *status = admin_kit_ask(&kit, method, target, body);
    bool failed = until_failure < 0 || (from_there_on && until_failure == 0);
    until_failure = -1;
    return failed;
}

static void make_each(bool from_there_on)
{
    bool failed = true;
    int status, made = 0;
    long i = 0;

    for (; failed; i++) {
        failed = ask_without(i, from_there_on, "POST", KEYS,
                             "{\"name\":\"ci\",\"limits\":[{\"rpm\":7}],\"tags\":{\"a\":\"b\"}}",
                             &status);
        if (status == 201)
            assert_non_null(key_in_force());
        if (!failed)
            assert_int_equal(status, 201);
        for (int again = 0; again < 2; again++) {
            const struct config_key *key = key_in_force();
            if (key != NULL)
                assert_int_equal(limit_of(key), 7);
            reload();
        }
        made += key_in_force() != NULL;
        int dropped = admin_kit_ask(&kit, "DELETE", KEY, NULL);
        assert_true(dropped == 200 || dropped == 404);
        assert_null(key_in_force());
    }
    assert_true(made > 0 && i > 100);
}

static void a_key_is_made_with_all_that_it_has_or_not_at_all(void **state)
{
    (void)state;
    need_allocator();
    make_each(false);
    make_each(true);
}

static void change_each(bool from_there_on)
{
    bool failed = true;
    int status;
    long i = 0;

    for (; failed; i++) {
        assert_int_equal(admin_kit_ask(&kit, "PUT", KEY, "{\"limits\":[{\"rpm\":7}]}"), 200);
        failed = ask_without(i, from_there_on, "PUT", KEY, "{\"limits\":[{\"rpm\":9}]}", &status);
        int64_t limit = limit_of(key_in_force());
        assert_true(limit == 9 || (status != 200 && limit == 7));
        reload();
        limit = limit_of(key_in_force());
        assert_true(limit == 9 || (status != 200 && limit == 7));
        if (!failed)
            assert_int_equal(status, 200);
    }
    assert_true(i > 100);
}

static void a_key_is_changed_whole_or_not_at_all(void **state)
{
    (void)state;
    need_allocator();
    assert_int_equal(admin_kit_ask(&kit, "POST", KEYS, "{\"name\":\"ci\"}"), 201);
    change_each(false);
    change_each(true);
}

static int open_kit(void **state)
{
    (void)state;
    admin_kit_open(&kit, YAML);
    return admin_kit_ask(&kit, "GET", "/", NULL) != 200; /* room for any answer */
}

static int close_kit(void **state)
{
    (void)state;
    admin_kit_close(&kit);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_is_made_with_all_that_it_has_or_not_at_all, open_kit,
                                        close_kit),
        cmocka_unit_test_setup_teardown(a_key_is_changed_whole_or_not_at_all, open_kit, close_kit),
    };

    return cmocka_run_group_tests_name("admin key faults", tests, NULL, NULL);
}
