/* test_envoy_rls_message.c - requests and replies of Envoy's rate limit service as JSON. */
#include "net_envoy_kit.h"

#include <stdlib.h>
#include <string.h>

#include "server/envoy/envoy_rls_message.h"

static struct json_reader *reader;

static struct envoy_rls_message *read_text(const char *text, char problem[ENVOY_RLS_MESSAGE_MAX])
{
    return envoy_rls_read(reader, slice_of(text), strlen(text), problem);
}

static void is_text(struct slice text, const char *want)
{
    assert_true(slice_equal(text, slice_of(want)));
}

static void a_request_is_read_whole(void **state)
{
    static const char *const texts[] = {
        "{\"domain\": \"m\", \"descriptors\": [{\"entries\": [{\"key\": \"k\\u0031\", \"value\": "
        "\"v\\n\"}, {\"key\": \"k2\"}]}, {\"entries\": [], \"limit\": {\"requests_per_unit\": 3, "
        "\"unit\": \"HOUR\", \"unit_multiplier\": 24}, \"hits_addend\": 0}, "
        "{\"is_negative_hits\": true, "
        "\"hits_addend\": \"18446744073709551615\"}], \"hits_addend\": 7}",
        "{\"hitsAddend\": \"7\", \"descriptors\": [{\"limit\": null, \"entries\": [{\"value\": "
        "\"v\\n\", \"key\": \"k1\"}, {\"value\": \"\", \"key\": \"k2\"}]}, {\"hitsAddend\": "
        "\"0\", \"limit\": {\"unit\": 3, \"requestsPerUnit\": \"3\", \"unitMultiplier\": \"24\"}}, "
        "{\"entries\": null, \"isNegativeHits\": true, \"hitsAddend\": "
        "\"18446744073709551615\"}], "
        "\"domain\": \"m\"}",
    };
    char problem[ENVOY_RLS_MESSAGE_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct envoy_rls_message *message = read_text(texts[i], problem);
        if (message == NULL)
            fail_msg("%s", problem);
        const struct envoy_rls_request *request = &message->request;
        is_text(request->domain, "m");
        assert_int_equal(request->hits, 7);
        assert_int_equal(request->n_descriptors, 3);
        const struct envoy_rls_descriptor *first = &request->descriptors[0];
        assert_int_equal(first->n_entries, 2);
        is_text(first->entries[0].key, "k1");
        is_text(first->entries[0].value, "v\n");
        is_text(first->entries[1].key, "k2");
        is_text(first->entries[1].value, "");
        assert_false(first->has_hits);
        assert_false(first->has_limit);
        assert_true(request->descriptors[1].has_hits);
        assert_int_equal(request->descriptors[1].hits, 0);
        assert_true(request->descriptors[1].has_limit);
        assert_int_equal(request->descriptors[1].requests_per_unit, 3);
        assert_int_equal(request->descriptors[1].unit, ENVOY_HOUR);
        assert_int_equal(request->descriptors[1].unit_multiplier, 24);
        assert_false(request->descriptors[1].negative);
        assert_int_equal(request->descriptors[2].n_entries, 0);
        assert_true(request->descriptors[2].negative);
        assert_true(request->descriptors[2].hits == UINT64_MAX);
        free(message);
    }
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *text, *problem;
    } rows[] = {
        {"", "the body is not JSON: "},
        {"[]", "the body must be an object, not an array"},
        {"{\"domain\": \"m\"", "the body is not JSON: "},
        {"{\"domain\": \"m\"} x", "the body is not JSON: "},
        {"{\"domain\": \"m\", \"domain\": \"m\"}", "the body is not JSON: "},
        {"{\"domain\": 1}", "domain must be a string"},
        {"{\"domains\": \"m\"}", "there is no field 'domains' here"},
        {"{\"a\\u0000\\n\\u00e9\": \"m\"}", "there is no field 'a?"},
        {"{\"descriptors\": {}}", "descriptors must be a list of objects"},
        {"{\"descriptors\": [1]}", "descriptors must be a list of objects"},
        {"{\"descriptors\": [{\"key\": 1}]}", "there is no field 'key' here"},
        {"{\"descriptors\": [{\"entries\": [[]]}]}", "entries must be a list of objects"},
        {"{\"descriptors\": [{\"entries\": [{\"key\": null, \"value\": 5}]}]}",
         "value must be a string"},
        {"{\"descriptors\": [{\"limit\": 5}]}", "limit must be an object"},
        {"{\"descriptors\": [{\"hits_addend\": \"18446744073709551616\"}]}",
         "hits_addend must be a number from 0 on"},
        {"{\"descriptors\": [{\"is_negative_hits\": 1}]}",
         "is_negative_hits must be true or false"},
        {"{\"descriptors\": [{\"limit\": {\"unit\": \"FORTNIGHT\"}}]}", "unit must be SECOND, "},
        {"{\"descriptors\": [{\"limit\": {\"requestsPerUnit\": 4294967296}}]}",
         "requests_per_unit must be a number below 2^32"},
        {"{\"descriptors\": [{\"hitsAddend\": -1}]}", "hits_addend must be a number from 0 on"},
        {"{\"descriptors\": [{\"hitsAddend\": \"\"}]}", "hits_addend must be a number from 0 on"},
        {"{\"hitsAddend\": 1.5}", "hits_addend must be a number below 2^32"},
        {"{\"hitsAddend\": \"12x\"}", "hits_addend must be a number below 2^32"},
        {"{\"hitsAddend\": \"99999999999999999999\"}", "hits_addend must be a number below 2^32"},
    };
    char problem[ENVOY_RLS_MESSAGE_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(read_text(rows[i].text, problem));
        if (strncmp(problem, rows[i].problem, strlen(rows[i].problem)) != 0)
            fail_msg("%s: %s, not %s", rows[i].text, problem, rows[i].problem);
    }
}

/* n times the same, between two other texts; to be freed. */
static char *repeat(const char *before, const char *text, size_t n, const char *after)
{
    size_t bytes = strlen(text);
    char *all = malloc(strlen(before) + n * (bytes + 1) + strlen(after) + 1), *at = all;

    assert_non_null(all);
    at += strlen(strcpy(at, before));
    for (size_t i = 0; i < n; i++) {
        memcpy(at, text, bytes);
        at += bytes;
        *at++ = i + 1 < n ? ',' : ' ';
    }
    strcpy(at, after);
    return all;
}

static void what_is_too_much_is_refused(void **state)
{
    static const char before[] = "{\"domain\": \"m\", \"descriptors\": [";
    static const char entries[] = "{\"domain\": \"m\", \"descriptors\": [{\"entries\": [";
    static const struct {
        const char *before, *text;
        size_t most;
        const char *after, *problem;
    } rows[] = {
        {before, "{}", ENVOY_RLS_DESCRIPTORS_MAX, "]}", "descriptors has more than 128 items"},
        {entries, "{}", ENVOY_RLS_ENTRIES_MAX, "]}]}",
         "the descriptors have more than 1024 entries"},
    };
    char problem[ENVOY_RLS_MESSAGE_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *text = repeat(rows[i].before, rows[i].text, rows[i].most, rows[i].after);
        struct envoy_rls_message *message = read_text(text, problem);
        if (message == NULL)
            fail_msg("%s", problem);
        free(message);
        free(text);
        text = repeat(rows[i].before, rows[i].text, rows[i].most + 1, rows[i].after);
        assert_null(read_text(text, problem));
        assert_string_equal(problem, rows[i].problem);
        free(text);
    }
}

static void a_reply_is_written_as_protobuf_writes_it(void **state)
{
    static const struct envoy_rls_reply reply = {
        .overall = ENVOY_RLS_OVER_LIMIT,
        .n_statuses = 4,
        .statuses = {{.code = ENVOY_RLS_OVER_LIMIT,
                      .has_limit = true,
                      .requests_per_unit = 1,
                      .unit = ENVOY_MINUTE,
                      .until_reset = 1250},
                     {.code = ENVOY_RLS_OK},
                     {.code = ENVOY_RLS_OK, .limit_remaining = UINT32_MAX},
                     {.code = ENVOY_RLS_OK,
                      .has_limit = true,
                      .requests_per_unit = 5,
                      .unit = ENVOY_WEEK,
                      .name = {"a \"name\"", 8},
                      .limit_remaining = 4,
                      .until_reset = 60000}},
        .n_headers = 1,
        .headers = {{{"ratelimit-limit", 15}, {"1", 1}}},
    };
    static const char want[] =
        "{\"overallCode\":\"OVER_LIMIT\",\"statuses\":["
        "{\"code\":\"OVER_LIMIT\",\"currentLimit\":{\"requestsPerUnit\":1,\"unit\":\"MINUTE\"},"
        "\"durationUntilReset\":\"1.250s\"},"
        "{\"code\":\"OK\"},"
        "{\"code\":\"OK\",\"limitRemaining\":4294967295},"
        "{\"code\":\"OK\",\"currentLimit\":{\"requestsPerUnit\":5,\"unit\":\"WEEK\",\"name\":"
        "\"a \\\"name\\\"\"},\"limitRemaining\":4,\"durationUntilReset\":\"60s\"}],"
        "\"responseHeadersToAdd\":[{\"key\":\"ratelimit-limit\",\"value\":\"1\"}]}\n";
    struct json_writer out;

    (void)state;
    json_writer_init(&out);
    envoy_rls_write(&out, &reply);
    assert_false(out.text.failed);
    assert_int_equal(out.text.size, sizeof want - 1);
    assert_memory_equal(out.text.bytes, want, out.text.size);
    json_writer_fini(&out);
}

static void metadata_tell_what_was_asked_and_which_quotas_are_over(void **state)
{
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: q, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}\n"
        "  - {key: n, rate_limit: {unit: hour, requests_per_unit: 5}}\n";
    static const char want[] =
        "\"dynamicMetadata\":{\"domain\":\"d\",\"descriptors\":["
        "{\"entries\":[\"n=1\",\"x=?\"]},{\"entries\":[\"q=a?\xc3\xa9?b\"]},"
        "{\"entries\":[\"n=2\"],\"limit\":\"requests_per_unit:3 unit:DAY\",\"hitsAddend\":2}],"
        "\"hitsAddend\":4,\"quotaModeViolations\":[1],\"quotaModeEnabled\":true}}\n";
    struct envoy_world world;
    struct envoy_asked asked;
    struct json_writer out;

    (void)state;
    envoy_open_with(&world, "metadata: true", rules, (size_t)4 << 20);
    envoy_parse(&asked, "d", "n=1 x=?|q=?|n=2 [3/day] [+2]");
    /* What is no character would cost the whole answer. */
    asked.entries[2].value = (struct slice){"a\xff\xc3\xa9\0b", 6};
    asked.request.hits = 4;
    envoy_rls_take(world.rls, world.store, &asked.request, world.now, &world.reply);
    json_writer_init(&out);
    envoy_rls_write(&out, &world.reply);
    assert_false(out.text.failed);
    assert_true(out.text.size > sizeof want);
    assert_memory_equal(out.text.bytes + out.text.size - (sizeof want - 1), want, sizeof want - 1);
    json_writer_fini(&out);
    envoy_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read_whole),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(what_is_too_much_is_refused),
        cmocka_unit_test(a_reply_is_written_as_protobuf_writes_it),
        cmocka_unit_test(metadata_tell_what_was_asked_and_which_quotas_are_over),
    };
    reader = json_reader_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_reader_free(reader);
    return failed;
}
