/* test_descriptor_set.c - files of contracts by their names and by what they define. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "io/grpc/descriptor_set.h"

static bool starts_with_name(struct slice file, const char *name)
{
    size_t n = strlen(name);

    /* FileDescriptorProto begins with its name: field 1, length-delimited. */
    return file.n > n + 2 && file.at[0] == 0x0a && (size_t)file.at[1] == n &&
           memcmp(file.at + 2, name, n) == 0;
}

static void every_kind_of_name_leads_to_its_file(void **state)
{
    static const char ADMISSION[] = "tollgate/v1/admission.proto";
    static const char RLS[] = "envoy/service/ratelimit/v3/rls.proto";
    static const struct {
        const char *symbol, *file; /* null: nobody defines it */
    } rows[] = {
        {"tollgate.v1.Admission", ADMISSION},
        {"tollgate.v1.Admission.Admit", ADMISSION},
        {"tollgate.v1.AdmitRequest", ADMISSION},
        {"tollgate.v1.Priority", ADMISSION},
        {"tollgate.v1.Monitor.Watch", "tollgate/v1/monitor.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
        {"envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit", RLS},
        {"grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"},
        {"grpc.reflection.v1alpha.ServerReflection", "grpc/reflection/v1alpha/reflection.proto"},
        {"tollgate.v1", NULL}, /* a package is no symbol */
        {"tollgate.v1.", NULL},
        {"tollgate.v1.Admissio", NULL},
        {"tollgate.v1.Admission.", NULL},
        {"tollgate.v1.Admission.admit", NULL},
        {"tollgate.v1.Admission.Admit.more", NULL},
        {"Admission", NULL},
        {"", NULL},
    };
    struct slice file;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool found = descriptor_set_find_symbol(descriptor_set_own(), slice_of(rows[i].symbol),
                                                &file);
        if (found != (rows[i].file != NULL) || (found && !starts_with_name(file, rows[i].file)))
            fail_msg("'%s' is found in the wrong place, or not at all", rows[i].symbol);
    }
}

static void a_file_is_found_by_its_name_alone(void **state)
{
    struct slice file;

    (void)state;
    assert_true(descriptor_set_find_file(descriptor_set_own(),
                                         SLICE("grpc/health/v1/health.proto"), &file));
    assert_true(starts_with_name(file, "grpc/health/v1/health.proto"));
    assert_false(descriptor_set_find_file(descriptor_set_own(), SLICE("health.proto"), &file));
    assert_false(descriptor_set_find_file(descriptor_set_own(), SLICE(""), &file));
}

static void only_messages_are_messages(void **state)
{
    struct slice set = descriptor_set_own();

    (void)state;
    assert_true(descriptor_set_has_message(set, SLICE("tollgate.v1.AdmitRequest")));
    assert_false(descriptor_set_has_message(set, SLICE("tollgate.v1.Admission")));
    assert_false(descriptor_set_has_message(set, SLICE("tollgate.v1.Priority")));
    assert_false(descriptor_set_has_message(
        set, SLICE("grpc.health.v1.HealthCheckResponse.ServingStatus")));
}

/* Each cut in memory of its own, so that a sanitizer sees a step too far. */
static void a_set_that_is_cut_off_ends_the_search(void **state)
{
    struct slice set = descriptor_set_own(), file;
    size_t found = 0;

    (void)state;
    for (size_t n = 0; n <= set.n; n += n + 40 < set.n ? 7 : 1) {
        char *bytes = malloc(n + 1);
        assert_non_null(bytes);
        memcpy(bytes, set.at, n);
        struct slice cut = {bytes, n};
        found += descriptor_set_find_symbol(cut, SLICE("tollgate.v1.WatchEvent"), &file);
        assert_false(descriptor_set_find_symbol(cut, SLICE("tollgate.v1.Nothing"), &file));
        free(bytes);
    }
    assert_true(found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_name_leads_to_its_file),
        cmocka_unit_test(a_file_is_found_by_its_name_alone),
        cmocka_unit_test(only_messages_are_messages),
        cmocka_unit_test(a_set_that_is_cut_off_ends_the_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
