/* test_workload_trace.c - traces: both forms, what is left out, and what is wrong with its line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "lab/workload/workload_trace.h"

struct read {
    struct cluster_config config;
    struct workload workload;
    struct workload_problem problem;
    enum workload_read result;
};

/* Reads a text as a file. */
static void read_text(const char *text, struct read *read)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fflush(file), 0);
    assert_int_equal(lseek(fileno(file), 0, SEEK_SET), 0);
    cluster_config_init(&read->config);
    assert_true(workload_init(&read->workload));
    read->result =
        workload_trace_read(fileno(file), &read->config, &read->workload, &read->problem);
    fclose(file);
}

static void read_good(const char *text, struct read *read)
{
    read_text(text, read);
    if (read->result != WORKLOAD_READ)
        fail_msg("%llu: %s", (unsigned long long)read->problem.line, read->problem.text);
}

static const struct cluster_request *request_of(const struct read *read, size_t i)
{
    assert_true(i < read->workload.load.n);
    return &read->workload.load.requests[i];
}

/* ---- CSV ---- */

static void a_csv_says_all_of_a_request(void **state)
{
    struct read read;
    char id[WORKLOAD_ID_MAX];
    (void)state;

    read_good("request_id,client_id,tenant_id,slo_class,prefix_group,prefix_length,input_tokens,"
              "output_tokens,model,deadline_us,arrival_time_us,error_message\r\n"
              "7,c,acme,batch,g,50,185,1208,m,300002000,2000,\"a, \"\"b\"\"\"\r\n"
              "\r\n"
              "x-1,,,gold,,0,2,0,,0,1000,\r\n",
              &read);
    assert_int_equal(read.workload.load.n, 2);
    const struct cluster_request *second = request_of(&read, 1), *first = request_of(&read, 0);
    assert_int_equal(second->arrival_us, 2000);
    assert_int_equal(second->deadline_us, 300002000);
    assert_int_equal(second->input_tokens, 235); /* the prefix comes on top */
    assert_int_equal(second->prefix_tokens, 50);
    assert_int_equal(second->output_tokens, 1208);
    assert_int_equal(second->max_output_tokens, 1208);
    assert_string_equal(read.config.classes[second->slo_class].name, "batch");
    assert_string_equal(read.workload.load.tenants.texts[second->tenant], "acme");
    assert_string_equal(read.workload.load.groups.texts[second->prefix_group], "g");
    assert_string_equal(read.workload.load.models.texts[second->model], "m");
    assert_string_equal(workload_id(&read.workload, 1, id), "request_7");
    assert_string_equal(workload_id(&read.workload, 0, id), "x-1");
    assert_string_equal(read.config.classes[first->slo_class].name, "gold");
    assert_int_equal(read.config.classes[first->slo_class].priority, 3);
    workload_fini(&read.workload);
}

#define HEAD "request_id,input_tokens,output_tokens,arrival_time_us\n"

/* ---- JSON lines ---- */

static void a_recorded_line_says_all_of_a_call(void **state)
{
    struct read read;
    char id[WORKLOAD_ID_MAX];
    (void)state;

    read_good("{\"t\":1731650400123,\"id\":\"c1\",\"tenant\":\"team-a\",\"model\":\"m\","
              "\"user\":\"u\",\"priority\":\"low\",\"input_tokens\":812,"
              "\"max_output_tokens\":1024,\"output_tokens\":311,\"stream\":true,\"cost\":1836,"
              "\"value\":2.5,\"status\":200,\"reason\":\"\",\"latency_ms\":4212,\"ttfb_ms\":310}\n"
              "{\"t\":1731650401000.5,\"input_tokens\":10,\"output_tokens\":1}\n",
              &read);
    const struct cluster_request *call = request_of(&read, 0);
    const struct workload_note *note = workload_note_of(&read.workload, 0);
    assert_int_equal(call->arrival_us, 0); /* times since 1970 begin with the trace */
    assert_true(read.workload.epoch_ms == INT64_C(1731650400123));
    assert_int_equal(request_of(&read, 1)->arrival_us, 877500);
    assert_int_equal(call->input_tokens, 812);
    assert_int_equal(call->output_tokens, 311);
    assert_int_equal(call->max_output_tokens, 311); /* the cluster serves what was served */
    assert_true(note->allowed == 1024);
    assert_true(call->value == 2.5 && note->value == 2.5);
    assert_string_equal(workload_id(&read.workload, 0, id), "c1");
    assert_string_equal(workload_id(&read.workload, 1, id), "request_1");
    assert_string_equal(read.workload.users.texts[note->user], "u");
    assert_string_equal(read.config.classes[call->slo_class].name, "sheddable");
    assert_true(note->cost == 1836 && note->priority == TG_PRIORITY_LOW && note->tenant_peer);
    assert_true(workload_note_of(&read.workload, 1)->cost == -1);
    workload_fini(&read.workload);
}

static void a_refused_call_is_taken_for_an_average_one(void **state)
{
    struct read read;
    (void)state;

    read_good("{\"t\":0,\"input_tokens\":10,\"max_output_tokens\":900,\"status\":429}\n"
              "{\"t\":1,\"input_tokens\":10,\"output_tokens\":100}\n"
              "{\"t\":2,\"input_tokens\":10,\"output_tokens\":300}\n"
              "{\"t\":3,\"input_tokens\":10,\"max_output_tokens\":50,\"output_tokens\":null}\n"
              "{\"t\":4,\"input_tokens\":10,\"max_output_tokens\":999999999999}\n",
              &read);
    assert_int_equal(request_of(&read, 4)->output_tokens, 200);
    assert_int_equal(request_of(&read, 0)->output_tokens, 200);
    assert_int_equal(request_of(&read, 3)->output_tokens, 50);
    workload_fini(&read.workload);
}

static void a_line_of_replay_is_a_request_of_its_cost(void **state)
{
    struct read read;
    (void)state;

    read_good("{\"t\":1000,\"key\":\"a\",\"cost\":70,\"id\":3,\"peer\":\"p\",\"hold\":1.5,"
              "\"priority\":\"high\"}\n"
              "{\"t\":1500,\"op\":\"release\",\"id\":3,\"actual\":60,\"sample\":12}\n"
              "{\"t\":1600,\"op\":\"memory\",\"used\":0.5}\n"
              "{\"t\":2000,\"key\":\"b\",\"op\":\"admit\"}\n",
              &read);
    assert_int_equal(read.workload.load.n, 2);
    assert_int_equal(read.workload.passed, 2);
    const struct workload_note *note = workload_note_of(&read.workload, 0);
    assert_int_equal(request_of(&read, 0)->arrival_us, 1000000);
    assert_int_equal(request_of(&read, 0)->input_tokens, 70);
    assert_int_equal(request_of(&read, 0)->output_tokens, 1);
    assert_true(note->cost == 70 && note->hold_s == 1.5 && note->priority == TG_PRIORITY_HIGH);
    assert_string_equal(read.workload.peers.texts[note->peer], "p");
    note = workload_note_of(&read.workload, 1);
    assert_true(note->cost == 1 && !note->tenant_peer && note->peer == 0);
    assert_string_equal(read.workload.load.tenants.texts[request_of(&read, 1)->tenant], "b");
    workload_fini(&read.workload);
}

/* ---- Wrong ---- */

static void what_is_wrong_is_told_with_its_line(void **state)
{
    static const struct {
        const char *text;
        unsigned long long line;
        const char *words;
    } rows[] = {
        {"", 0, "no requests"},
        {"\n\n", 0, "no requests"},
        {HEAD, 0, "no requests"},
        {"hello\n", 1, "neither a JSON object nor the head of a CSV"},
        {"input_tokens,arrival_time_us\n", 1, "no column 'output_tokens'"},
        {"arrival_time_us,input_tokens,output_tokens,input_tokens\n", 1, "is there twice"},
        {HEAD "0,1,1,5\n1,x,1,5\n", 3, "'input_tokens' is 'x'; it must be a whole number"},
        {HEAD "0,-1,1,5\n", 2, "'input_tokens' is '-1'"},
        {HEAD "0,1.5,1,5\n", 2, "'input_tokens' is '1.5'"},
        {HEAD "0,,1,5\n", 2, "'input_tokens' is ''"},
        {HEAD "0,1,1,99999999999999999999\n", 2, "'arrival_time_us' is"},
        {HEAD "0,1,1\n", 2, "3 fields, where the first line names 4 columns"},
        {HEAD "0,1,1,5,6\n", 2, "5 fields"},
        {HEAD "0,\"1,1,5\n", 2, "quote"},
        {HEAD "0,\033[2J,1,5\n", 2, "is '?[2J'"},
        {"{\"t\":1}\nhello\n", 2, ""},
        {"{\"t\":1}\n[1]\n", 2, "a line must be an object"},
        {"{\"t\":1,\"cots\":1}\n", 1, "there is no field \"cots\""},
        {"{\"cost\":1}\n", 1, "\"t\" is missing"},
        {"{\"t\":1,\"arrival_us\":1}\n", 1, "give one of them"},
        {"{\"t\":1,\"tenant\":\"a\",\"key\":\"b\"}\n", 1, "give one of them"},
        {"{\"t\":-1}\n", 1, "\"t\" must be a number from 0"},
        {"{\"t\":\"1\"}\n", 1, "\"t\" must be a number from 0"},
        {"{\"t\":1,\"input_tokens\":1.5}\n", 1, "\"input_tokens\" must be a whole number"},
        {"{\"t\":1,\"id\":1.5}\n", 1, "\"id\" must be a string or a whole number"},
        {"{\"t\":1,\"priority\":\"urgent\"}\n", 1, "it must be high, normal or low"},
        {"{\"t\":1,\"op\":\"forget\"}\n", 1, "it must be admit, release, memory or limits"},
        {"{\"t\":1,\"stream\":1}\n", 1, "\"stream\" must be true or false"},
        {"{\"t\":1,\"t\":2}\n", 1, ""},
        {"{\"t\":1,\"input_tokens\":5,\"prefix_length\":6}\n", 1, "\"prefix_length\" is above"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        read_text(rows[i].text, &read);
        if (read.result != WORKLOAD_WRONG || read.problem.line != rows[i].line ||
            strstr(read.problem.text, rows[i].words) == NULL)
            fail_msg("%d, line %llu: %s\nof: %s", (int)read.result,
                     (unsigned long long)read.problem.line, read.problem.text, rows[i].text);
        workload_fini(&read.workload);
    }
}

static void there_are_so_many_classes_and_no_more(void **state)
{
    char text[4096] = "slo_class,input_tokens,output_tokens,arrival_time_us\n";
    struct read read;
    (void)state;

    for (int i = 0; i < CLUSTER_CLASSES_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "class-%d,1,1,%d\n", i, i);
    read_text(text, &read);
    assert_int_equal(read.result, WORKLOAD_WRONG);
    assert_non_null(strstr(read.problem.text, "one slo_class too many"));
    workload_fini(&read.workload);
}

static void a_file_that_cannot_be_read_is_told(void **state)
{
    struct read read;
    (void)state;

    cluster_config_init(&read.config);
    assert_true(workload_init(&read.workload));
    assert_int_equal(workload_trace_read(-1, &read.config, &read.workload, &read.problem),
                     WORKLOAD_WRONG);
    assert_non_null(strstr(read.problem.text, "cannot be read"));
    workload_fini(&read.workload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_csv_says_all_of_a_request),
        cmocka_unit_test(a_recorded_line_says_all_of_a_call),
        cmocka_unit_test(a_refused_call_is_taken_for_an_average_one),
        cmocka_unit_test(a_line_of_replay_is_a_request_of_its_cost),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(there_are_so_many_classes_and_no_more),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told),
    };

    return cmocka_run_group_tests_name("workload_trace", tests, NULL, NULL);
}
