/* test_mock_strict.c - what the mock refuses where a script says `strict`, and what it takes. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "io/text/json_read.h"
#include "lab/mock/mock_strict.h"

static struct json_reader *reader;

#define CHAT "/v1/chat/completions"
#define RESPONSES "/v1/responses"
#define MESSAGES "/v1/messages"
#define GENERATE "/v1beta/models/m:generateContent"

/* The problem with a body, written with ' for "; null: it is taken. */
static const char *problem_of(const char *path, const char *text)
{
    struct http_head head = {.method = SLICE("POST"), .target = slice_of(path)};
    struct mock_ask ask;
    static char body[2048];
    size_t n = strlen(text);

    assert_true(n < sizeof body);
    for (size_t i = 0; i <= n; i++)
        body[i] = text[i] == '\'' ? '"' : text[i];
    mock_ask_head(&ask, &head);
    assert_null(mock_ask_body(&ask, reader, body, n, n));
    return mock_strict_problem(&ask, reader, body, n, n);
}

#define USER "{'role':'user','content':'x'}"
#define TOOL "{'type':'function','function':{'name':'f'}}"
#define CALL "{'role':'assistant','tool_calls':[{'id':'a','function':{'name':'f'}}]}"
#define ANSWER "{'role':'tool','tool_call_id':'a','content':'y'}"
#define USE "{'role':'assistant','content':[{'type':'tool_use','id':'a','name':'f','input':{}}]}"
#define GIVE "{'role':'user','content':[{'type':'tool_result','tool_use_id':'a','content':'y'}]}"
#define SIGNED "'thoughtSignature':'c2ln0123456789abcdef'"
#define GO "{'role':'user','parts':[{'text':'x'}]}"
#define DID "{'role':'model','parts':[{'functionCall':{'name':'f','args':{}}," SIGNED "}]}"
#define UNSIGNED "{'role':'model','parts':[{'functionCall':{'name':'f'}}]}"
#define GOT "{'role':'user','parts':[{'functionResponse':{'name':'f','response':{}}}]}"

static void good_conversations_are_taken(void **state)
{
    static const char *const rows[][2] = {
        {CHAT, "{'model':'m','messages':[" USER "," CALL "," ANSWER "],'tools':[" TOOL "],"
               "'tool_choice':'auto','stream':true,'stream_options':{}}"},
        {RESPONSES, "{'model':'m','input':'x'}"},
        {RESPONSES, "{'model':'m','input':[" USER ",{'type':'reasoning','summary':[],"
                    "'encrypted_content':'c2ln0123456789abcdef'},{'type':'function_call',"
                    "'call_id':'a','name':'f','arguments':'{}'},{'type':'function_call_output',"
                    "'call_id':'a','output':'y'}]}"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "," USE "," GIVE "]}"},
        {GENERATE, "{'contents':[" GO "," DID "," GOT "],'generationConfig':{'topK':1}}"},
        {GENERATE, "{'contents':[" GO "," UNSIGNED "," GOT "," GO "]}"},
        {"/v1/embeddings", "{'model':'m','input':'x','anything':1}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *problem = problem_of(rows[i][0], rows[i][1]);
        if (problem != NULL)
            fail_msg("%s: %s", rows[i][1], problem);
    }
}

static void what_providers_refuse_is_refused(void **state)
{
    static const char *const rows[][3] = {
        {CHAT, "{'model':'m','messages':[{'role':'me','content':'x'}]}", "'role'"},
        {CHAT, "{'model':'m','messages':[]}", "a message at least"},
        {CHAT, "{'model':'m','messages':[" USER "],'top_k':1}", "Unrecognized"},
        {CHAT, "{'model':'m','messages':[" USER "," ANSWER "]}", "preceeding"},
        {CHAT, "{'model':'m','messages':[" USER "," CALL "," USER "]}", "must be followed"},
        {CHAT, "{'model':'m','messages':[" USER "," CALL "]}", "must be followed"},
        {CHAT, "{'model':'m','messages':[" USER "," CALL "," ANSWER "," ANSWER "]}", "preceeding"},
        {CHAT, "{'model':'m','messages':[{'role':'user','content':null}]}", "got null"},
        {CHAT, "{'model':'m','messages':[" USER "],'tool_choice':'auto'}", "'tool_choice'"},
        {CHAT, "{'model':'m','messages':[" USER "],'parallel_tool_calls':true}", "'parallel"},
        {CHAT, "{'model':'m','messages':[" USER "],'stream_options':{}}", "'stream_options'"},
        {CHAT, "{'model':'m','messages':[{'role':'user','content':[{'type':'tool_result'}]}]}",
         "Invalid value"},
        {CHAT, "{'model':'m','messages':[" USER "],'tools':[{'function':{'name':'a b'}}]}",
         "Invalid name"},
        {RESPONSES, "{'model':'m','input':'x','stop':'y'}", "Unknown parameter"},
        {RESPONSES, "{'model':'m','input':[{'role':'me','content':'x'}]}", "'role'"},
        {RESPONSES, "{'model':'m','input':[{'role':'assistant','content':[{'type':'input_text',"
                    "'text':'x'}]}]}",
         "'output_text'"},
        {RESPONSES, "{'model':'m','input':[{'role':'user','content':[{'type':'output_text',"
                    "'text':'x'}]}]}",
         "'input_text'"},
        {RESPONSES, "{'model':'m','input':[{'type':'function_call_output','call_id':'a'}]}",
         "No tool call"},
        {RESPONSES, "{'model':'m','input':[{'type':'function_call','call_id':'a','name':'f'}]}",
         "No tool output"},
        {RESPONSES, "{'model':'m','input':[{'type':'reasoning','summary':[]}," USER "]}",
         "following item"},
        {RESPONSES, "{'model':'m','input':[{'type':'reasoning','encrypted_content':'x'}]}",
         "could not be verified"},
        {MESSAGES, "{'model':'m','messages':[" USER "]}", "max_tokens"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "],'stop':'x'}", "Extra inputs"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[{'role':'system','content':'x'}]}",
         "'user' or 'assistant'"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "," USER "]}", "alternate"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USE "," GIVE "]}", "first message"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "," USE "," USER "]}",
         "corresponding"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" GIVE "]}", "unexpected"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER ",{'role':'assistant',"
                   "'content':[{'type':'text','text':'x'}]}]}",
         "prefill"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[{'role':'user','content':''}]}",
         "non-empty"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "," USE ",{'role':'user',"
                   "'content':[{'type':'text','text':'x'},{'type':'tool_result',"
                   "'tool_use_id':'a'}]}]}",
         "come first"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER ",{'role':'assistant',"
                   "'content':[{'type':'thinking','thinking':'x','signature':'tg1.x'}]}," USER "]}",
         "`signature`"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "," USE "," GIVE "],"
                   "'thinking':{'type':'adaptive'}}",
         "Expected `thinking`"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "],'tools':[{'name':'f'}],"
                   "'tool_choice':{'type':'any'},'thinking':{'type':'enabled'}}",
         "forces"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER "],'temperature':1,"
                   "'thinking':{'type':'enabled'}}",
         "`temperature`"},
        {MESSAGES, "{'model':'m','max_tokens':9,'messages':[" USER ",{'role':'assistant','content'"
                   ":[{'type':'tool_use','id':'f:0','name':'f'}]}," GIVE "]}",
         "pattern"},
        {GENERATE, "{'contents':[{'role':'assistant','parts':[{'text':'x'}]}]}", "valid role"},
        {GENERATE, "{'contents':[" DID "," GOT "]}", "begin with a user"},
        {GENERATE, "{'contents':[" GO "],'tool_choice':'auto'}", "Unknown name"},
        {GENERATE, "{'contents':[" GO "],'generationConfig':{'max_tokens':1}}", "Unknown name"},
        {GENERATE, "{'contents':[" GO "," DID "," GO "]}", "function response parts"},
        {GENERATE, "{'contents':[" GO "," GOT "]}", "function response parts"},
        {GENERATE, "{'contents':[" GO "," UNSIGNED "," GOT "]}", "thought_signature"},
        {GENERATE, "{'contents':[{'role':'user','parts':[{}]}]}", "initialized"},
        {GENERATE, "{'contents':[" GO "],'tools':[{'functionDeclarations':[{'name':'f',"
                   "'parameters':{'type':'OBJECT','$schema':'x'}}]}]}",
         "Unknown name"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *problem = problem_of(rows[i][0], rows[i][1]);
        if (problem == NULL || strstr(problem, rows[i][2]) == NULL)
            fail_msg("%s: %s", rows[i][1], problem != NULL ? problem : "is taken");
    }
}

static int setup(void **state)
{
    (void)state;
    reader = json_reader_new();
    return reader == NULL;
}

static int teardown(void **state)
{
    (void)state;
    json_reader_free(reader);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_conversations_are_taken),
        cmocka_unit_test(what_providers_refuse_is_refused),
    };

    return cmocka_run_group_tests_name("mock_strict", tests, setup, teardown);
}
