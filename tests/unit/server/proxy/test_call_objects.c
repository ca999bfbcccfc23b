/* test_call_objects.c - what tenants make at a provider is theirs: files, batches, responses. */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#include "server/runtime/object_owners.h"

#define ROWS                                                       \
    "passthrough: [{path: /v1/files, provider: p, per_call: 0},\n" \
    "  {path: \"/v1/files/*\", provider: p, per_call: 0},\n"       \
    "  {path: /v1/things, provider: p, per_call: 0},\n"            \
    "  {path: \"/v1/*/of/*\", provider: p, per_call: 0}]\n"
#define REFUSE "unknown_objects: refuse\n" ROWS

static const struct call_kit_config strict = {.top = REFUSE};

static tg_ms wall(void)
{
    return clock_wall_of(&call_kit.gateway->clock, call_kit.now);
}

static void made_by(const char *tenant, const char *id, const char *provider)
{
    object_owners_add(call_kit.gateway->owners, slice_of(id), OBJECT_OTHER, tenant, provider, "k1",
                      wall());
}

static enum object_claim claim(const char *id, struct object_place *place)
{
    return object_owners_find(call_kit.gateway->owners, slice_of(id), "one", wall(), place);
}

static void open_with(const struct call_kit_config *config)
{
    begin(config);
    made_by("one", "file-mine1", "p");
    made_by("one", "file-mine2", "p");
    made_by("two", "file-other1", "p");
}

/* A whole request. Null: no body. */
static void ask(const char *method, const char *target, const char *type, const char *body)
{
    call_client_new(&client);
    client.in.head.method = slice_of(method);
    client.in.head.target = slice_of(target);
    client.fields[1].value = slice_of(type);
    call_step(client.call, CALL_ON_HEAD, NULL);
    if (client.status == 0 && body != NULL)
        call_client_body(&client, body);
    if (client.status == 0)
        call_client_end(&client);
}

static void expect_gone(int status, const char *reason, const char *text)
{
    expect_state(CALL_OVER);
    assert_int_equal(client.status, status);
    assert_string_equal(client.reason, reason);
    expect_in(client.body, text);
    assert_int_equal(call_kit.n_outs, 0);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
}

static void expect_missing(const char *id)
{
    char text[200];

    snprintf(text, sizeof text, "there is no '%s' here", id);
    expect_gone(404, "object_not_found", text);
}

static void expect_served(const char *target)
{
    assert_int_equal(client.status, 0);
    assert_string_equal(call_kit_out()->target, target);
    reply_and_end(200, JSON, "{}");
}

/* ---- whose ---- */

static void an_object_in_a_path_is_its_makers(void **state)
{
    (void)state;
    open_with(&strict);
    ask("GET", "/v1/files/file-mine1", JSON, NULL);
    expect_served("/v1/files/file-mine1");
    ask("GET", "/v1/files/file-mine1/content", JSON, NULL);
    expect_served("/v1/files/file-mine1/content");
    ask("GET", "/v1/files/file-other1", JSON, NULL);
    expect_missing("file-other1");
    ask("GET", "/v1/files/file-other1/content", JSON, NULL);
    expect_missing("file-other1");
    ask("GET", "/v1/files/file-nobody1", JSON, NULL);
    expect_missing("file-nobody1");
    /* Below one of its own, what is known to be another's is not there either. */
    ask("GET", "/v1/files/file-mine1/parts/file-other1", JSON, NULL);
    expect_missing("file-other1");
    ask("GET", "/v1/files/file-mine1/parts/part-1", JSON, NULL);
    expect_served("/v1/files/file-mine1/parts/part-1");
    /* A word of the API is no id; nor is what stands where the row has no star. */
    ask("GET", "/v1/files/search", JSON, NULL);
    expect_served("/v1/files/search");
    ask("GET", "/v1/words/of/file-mine2", JSON, NULL);
    expect_served("/v1/words/of/file-mine2");
    ask("GET", "/v1/words/of/file-nobody1", JSON, NULL);
    expect_missing("file-nobody1");
    call_kit_close();
}

static void an_id_that_is_too_long_is_nobodys(void **state)
{
    char target[OBJECT_ID_MAX + 20] = "/v1/files/";
    size_t n = strlen(target);

    (void)state;
    begin(&(struct call_kit_config){.top = "unknown_objects: allow\n" ROWS});
    memset(target + n, 'a', OBJECT_ID_MAX + 1);
    ask("GET", target, JSON, NULL);
    target[n + OBJECT_ID_MAX] = '\0';
    expect_missing(target + n);
    ask("GET", target, JSON, NULL);
    expect_served(target);
    call_kit_close();
}

static void what_nobody_made_may_be_allowed(void **state)
{
    const struct call_kit_config allow = {.top = "unknown_objects: allow\n" ROWS};
    const struct call_kit_config local = {.top = "unknown_objects: auto\n" ROWS};
    const struct call_kit_config remote = {
        .first = "context: 8000", .top = "unknown_objects: auto\n" ROWS, .remote = true};
    const char *body = "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10,"
                       "\"previous_response_id\":\"resp_1\"}";

    (void)state;
    open_with(&allow);
    ask("GET", "/v1/files/file-nobody1", JSON, NULL);
    expect_served("/v1/files/file-nobody1");
    ask("GET", "/v1/files/file-other1", JSON, NULL);
    expect_missing("file-other1");
    call_kit_close();

    open_with(&local);
    ask("GET", "/v1/files/file-nobody1", JSON, NULL);
    expect_missing("file-nobody1");
    ask("POST", "/v1/responses", JSON, body);
    expect_missing("resp_1");
    call_kit_close();

    open_with(&remote); /* nobody at any gateway */
    ask("GET", "/v1/files/file-nobody1", JSON, NULL);
    expect_state(CALL_AT_OBJECTS);
    call_kit_answer_objects_of(NULL);
    expect_missing("file-nobody1");
    ask("POST", "/v1/responses", JSON, body);
    expect_state(CALL_AT_OBJECTS);
    call_kit_answer_objects_of(NULL);
    expect_missing("resp_1");
    call_kit_close();
}

/* ---- other gateways ---- */

#define SHARED "unknown_objects: auto\n" ROWS

static const struct call_kit_config fleet = {
    .first = "context: 8000", .top = SHARED, .remote = true};

static void what_another_gateway_knows_is_its_makers(void **state)
{
    (void)state;
    open_with(&fleet);
    ask("GET", "/v1/files/file-there1/content", JSON, NULL);
    expect_state(CALL_AT_OBJECTS);
    assert_int_equal(call_kit.objects_asked.n, 1);
    call_kit_answer_objects_of("one");
    expect_served("/v1/files/file-there1/content");
    ask("GET", "/v1/files/file-there1", JSON, NULL); /* it is known from then on */
    expect_served("/v1/files/file-there1");
    ask("GET", "/v1/files/file-there2", JSON, NULL);
    call_kit_answer_objects_of("two");
    expect_missing("file-there2");
    ask("GET", "/v1/files/file-there2", JSON, NULL);
    expect_missing("file-there2");
    ask("POST", "/v1/things?file_id=file-there3", JSON, "{\"input_file_id\":\"file-there4\"}");
    assert_int_equal(call_kit.objects_asked.n, 2);
    call_kit_answer_objects_of("one");
    expect_served("/v1/things?file_id=file-there3");
    ask("POST", "/v1/responses", JSON, CALL_KIT_NAMES);
    call_kit_answer_objects_of("two");
    expect_missing("resp_1");
    call_kit_close();
}

/* Below an object of its own, what another gateway knows as somebody else's is not there, and what
 * nobody knows is the provider's to judge. */
static void what_is_below_an_object_is_asked_for_too(void **state)
{
    (void)state;
    open_with(&fleet);
    ask("GET", "/v1/files/file-mine1/parts/part-1", JSON, NULL);
    call_kit_answer_objects_of(NULL);
    expect_served("/v1/files/file-mine1/parts/part-1");
    ask("GET", "/v1/files/file-mine1/parts/file-there1", JSON, NULL);
    call_kit_answer_objects_of("two");
    expect_missing("file-there1");
    call_kit_close();
}

static void without_the_store_nothing_unknown_may_be_named(void **state)
{
    const struct call_kit_config allow = {.top = "unknown_objects: allow\n" ROWS, .remote = true};

    (void)state;
    for (int i = 0; i < 2; i++) {
        open_with(i == 0 ? &fleet : &allow);
        ask("GET", "/v1/files/file-there1", JSON, NULL);
        call_kit_answer_objects(REMOTE_FAILS);
        expect_gone(503, "store_unavailable", "whose 'file-there1' is cannot be asked");
        call_kit.objects_away = true;
        ask("GET", "/v1/files/file-there1", JSON, NULL);
        expect_gone(503, "store_unavailable", "whose 'file-there1' is cannot be asked");
        ask("GET", "/v1/files/file-mine1", JSON, NULL);
        expect_served("/v1/files/file-mine1");
        ask("GET", "/v1/files/file-other1", JSON, NULL);
        expect_missing("file-other1");
        call_kit_close();
    }
}

static void a_call_may_ask_about_so_many_objects(void **state)
{
    char body[4096] = "{\"file_ids\":[\"file-there0\"";
    size_t n = strlen(body);

    (void)state;
    for (int i = 1; i <= 64; i++)
        n += (size_t)snprintf(body + n, sizeof body - n, ",\"file-there%d\"", i);
    snprintf(body + n, sizeof body - n, "]}");
    open_with(&fleet);
    ask("POST", "/v1/things", JSON, body);
    expect_missing("file-there64");
    call_kit_close();
}

static void what_is_made_and_deleted_is_told_to_all(void **state)
{
    struct object_place place;

    (void)state;
    open_with(&fleet);
    ask("POST", "/v1/files", JSON, "{}");
    reply_and_end(200, JSON, "{\"id\":\"file-new1\"}");
    assert_int_equal(call_kit.objects_put, 1);
    assert_int_equal(claim("file-new1", &place), OBJECT_MINE);
    ask("DELETE", "/v1/files/file-new1", JSON, NULL);
    reply_and_end(200, JSON, "{\"id\":\"file-new1\",\"deleted\":true}");
    assert_int_equal(call_kit.objects_dropped, 1);
    assert_true(slice_equal(call_kit.dropped.key, call_kit.put.key));
    assert_int_equal(claim("file-new1", &place), OBJECT_UNKNOWN);
    /* What was made with a key that is gone is known by that one. */
    object_owners_add(call_kit.gateway->owners, SLICE("file-mine3"), OBJECT_OTHER, "one", "p", "k0",
                      wall());
    ask("DELETE", "/v1/files/file-mine3", JSON, NULL);
    reply_and_end(200, JSON, "{\"id\":\"file-mine3\",\"deleted\":true}");
    assert_int_equal(call_kit.objects_dropped, 2);
    assert_true(slice_equal(call_kit.dropped.key, SLICE("k0")));
    /* A reply that repeats the id of somebody at another gateway makes nobody its owner. */
    ask("POST", "/v1/files", JSON, "{}");
    reply_and_end(200, JSON, "{\"id\":\"file-there1\"}");
    assert_int_equal(claim("file-there1", &place), OBJECT_MINE);
    call_kit.put_refused(call_kit.put_context, &call_kit.put);
    assert_int_equal(claim("file-there1", &place), OBJECT_UNKNOWN);
    call_kit_close();
}

/* Without the store it shows what was made here. */
static void a_list_asks_for_all_that_the_tenant_has(void **state)
{
    (void)state;
    open_with(&fleet);
    for (int i = 0; i < 2; i++) {
        ask("GET", "/v1/files", JSON, NULL);
        assert_string_equal(call_kit.objects_asked.lister, "one");
        call_kit_answer_objects(i == 0 ? REMOTE_SAYS_NO : REMOTE_FAILS);
        assert_int_equal(client.status, 0);
        reply_and_end(200, JSON, "{\"data\":[{\"id\":\"file-mine1\"},{\"id\":\"file-other1\"}]}");
        expect_in(client.body, "file-mine1");
        assert_null(strstr(client.body, "file-other1"));
    }
    call_kit_close();
}

static void a_client_may_leave_while_the_store_is_asked(void **state)
{
    (void)state;
    open_with(&fleet);
    ask("GET", "/v1/files/file-there1", JSON, NULL);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void what_is_shared_is_read_by_everyone_and_changed_by_nobody(void **state)
{
    const struct call_kit_config config = {.top = "shared_objects: [\"file-all*\"]\n" REFUSE};

    (void)state;
    open_with(&config);
    made_by("two", "file-all2", "p");
    ask("GET", "/v1/files/file-all1/content", JSON, NULL);
    expect_served("/v1/files/file-all1/content");
    ask("HEAD", "/v1/files/file-all2", JSON, NULL);
    expect_served("/v1/files/file-all2");
    ask("DELETE", "/v1/files/file-all2", JSON, NULL);
    expect_missing("file-all2");
    ask("POST", "/v1/files/file-all1", JSON, "{}");
    expect_missing("file-all1");
    /* Named in a body, it is read. */
    ask("POST", "/v1/things", JSON, "{\"input_file_id\":\"file-all1\"}");
    expect_served("/v1/things");
    ask("GET", "/v1/files/file-nobody1", JSON, NULL);
    expect_missing("file-nobody1");
    call_kit_close();
}

/* Objects are where they were made, whichever provider the row names. */
static void a_call_goes_where_its_object_is(void **state)
{
    const struct call_kit_config config = {.top = REFUSE, .providers = ANTHROPIC_PROVIDER};

    (void)state;
    open_with(&config);
    made_by("one", "file-there1", "q");
    ask("GET", "/v1/files/file-there1", JSON, NULL);
    assert_string_equal(call_provider(client.call)->config->name, "q");
    expect_served("/base/v1/files/file-there1");
    ask("GET", "/v1/files/file-mine1", JSON, NULL);
    assert_string_equal(call_provider(client.call)->config->name, "p");
    expect_served("/v1/files/file-mine1");
    /* Two that are at two providers are nowhere together. */
    ask("POST", "/v1/things", JSON, "{\"a_id\":\"file-mine1\",\"b_id\":\"file-there1\"}");
    expect_missing("file-there1");
    ask("POST", "/v1/things", JSON, "{\"a_id\":\"file-mine1\",\"b_id\":\"file-mine2\"}");
    expect_served("/v1/things");
    call_kit_close();
}

/* ---- query and body ---- */

static void an_object_in_a_query_is_its_makers(void **state)
{
    (void)state;
    open_with(&strict);
    ask("GET", "/v1/things?file_id=file-mine1&limit=3", JSON, NULL);
    expect_served("/v1/things?file_id=file-mine1&limit=3");
    ask("GET", "/v1/things?limit=3&file_id=file-other1", JSON, NULL);
    expect_missing("file-other1");
    ask("GET", "/v1/things?note=file-other1", JSON, NULL);
    expect_missing("file-other1");
    ask("GET", "/v1/things?file_id=file-nobody1", JSON, NULL);
    expect_missing("file-nobody1");
    ask("GET", "/v1/things?file_id=%zz", JSON, NULL);
    expect_gone(400, "invalid_request", "the query cannot be read");
    call_kit_close();
}

static void an_object_in_a_body_is_its_makers_whatever_its_type(void **state)
{
    static const struct {
        const char *type, *body;
        int status; /* 0: it is sent */
    } rows[] = {
        {JSON, "{\"file_id\":\"file-mine1\"}", 0},
        {JSON, "{\"file_id\":\"file-other1\"}", 404},
        {"text/plain", " \r\n\t{\"file_id\":\"file-other1\"}", 404},
        {"text/plain", "\xef\xbb\xbf{\"note\":\"x\"}", 400},
        {"text/plain", "[{\"file_id\":\"file-other1\"}]", 404},
        {"text/plain", "{\"file_id\":", 400},
        {"text/plain", "file-other1", 0},
        {"", "words", 0},
        {JSON, "words", 400},
        {"application/vnd.api+JSON; charset=utf-8", "words", 400},
        {JSON, " \n", 0},
        {"application/x-www-form-urlencoded", "a=b&file_id=file-other1", 404},
        {"Application/X-WWW-Form-Urlencoded; charset=utf-8", "file_id=file-other1", 404},
        {"application/x-www-form-urlencoded", "a=b&file_id=file-mine1", 0},
        {"application/x-www-form-urlencoded", "a=%zz", 400},
        {"multipart/form-data; boundary=b",
         "--b\r\ncontent-disposition: form-data; name=\"file_id\"\r\n\r\n"
         "file-other1\r\n--b--\r\n",
         404},
        {"multipart/form-data; boundary=b",
         "--b\r\ncontent-disposition: form-data; name=\"file_id\"\r\n\r\n"
         "file-mine1\r\n--b--\r\n",
         0},
        {"multipart/form-data", "{\"file_id\":\"file-mine1\"}", 400},
    };

    (void)state;
    open_with(&strict);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ask("POST", "/v1/things", rows[i].type, rows[i].body);
        if (rows[i].status != client.status)
            fail_msg("%s: %s: %d %s", rows[i].type, rows[i].body, client.status, client.body);
        if (client.status == 0)
            expect_served("/v1/things");
        else if (client.status == 404)
            expect_missing("file-other1");
        else
            expect_gone(400, "invalid_request", "the body cannot be read");
    }
    call_kit_close();
}

static void a_content_type_that_is_too_long_is_refused(void **state)
{
    char type[sizeof client.call->objects.type + 1];

    (void)state;
    open_with(&strict);
    memset(type, 'a', sizeof type);
    type[sizeof type - 1] = '\0';
    ask("POST", "/v1/things", type, "x");
    expect_gone(400, "invalid_request", "the content type cannot be read");
    type[sizeof type - 2] = '\0';
    ask("POST", "/v1/things", type, "x");
    expect_served("/v1/things");
    call_kit_close();
}

/* A row that is shared keeps no account of whose is whose. */
static void a_shared_row_asks_nobody(void **state)
{
    const struct call_kit_config config = {
        .top = "unknown_objects: refuse\n"
               "passthrough: [{path: \"/v1/files/*\", provider: p, per_call: 0, shared: true}]\n"};

    (void)state;
    open_with(&config);
    ask("GET", "/v1/files/file-other1?file_id=file-other1", JSON, NULL);
    expect_served("/v1/files/file-other1?file_id=file-other1");
    ask("POST", "/v1/files/x", JSON, "{}");
    reply_and_end(200, JSON, "{\"id\":\"file-new1\"}");
    assert_int_equal(claim("file-new1", NULL), OBJECT_UNKNOWN);
    ask("DELETE", "/v1/files/file-mine1", JSON, NULL);
    reply_and_end(200, JSON, "{}");
    assert_int_equal(claim("file-mine1", NULL), OBJECT_MINE);
    call_kit_close();
}

/* ---- the reply ---- */

static void what_a_reply_makes_is_the_callers(void **state)
{
    struct object_place place = {NULL, NULL};

    (void)state;
    open_with(&strict);
    ask("POST", "/v1/files", "audio/wav", "sound");
    const char *key = client.call->attempt.owner->config->name;
    reply_and_end(200, JSON, "{\"id\":\"file-new1\",\"object\":\"file\"}");
    assert_int_equal(claim("file-new1", &place), OBJECT_MINE);
    assert_string_equal(place.provider, "p");
    assert_string_equal(place.key, key);
    ask("GET", "/v1/files/file-new1", JSON, NULL);
    expect_served("/v1/files/file-new1");
    ask("POST", "/v1/files", "audio/wav", "sound");
    reply_and_end(299, JSON, "{\"id\":\"file-new2\"}");
    assert_int_equal(claim("file-new2", NULL), OBJECT_MINE);
    /* The first owner stays. */
    ask("POST", "/v1/files", "audio/wav", "sound");
    reply_and_end(200, JSON, "{\"id\":\"file-other1\"}");
    assert_int_equal(claim("file-other1", NULL), OBJECT_OTHERS);
    call_kit_close();
}

static void a_reply_that_fails_makes_nothing(void **state)
{
    (void)state;
    open_with(&strict);
    ask("POST", "/v1/files", "audio/wav", "sound");
    reply_and_end(400, JSON, "{\"id\":\"file-new1\"}");
    assert_int_equal(claim("file-new1", NULL), OBJECT_UNKNOWN);
    ask("POST", "/v1/files", "audio/wav", "sound");
    reply_and_end(300, JSON, "{\"id\":\"file-new1\"}");
    assert_int_equal(claim("file-new1", NULL), OBJECT_UNKNOWN);
    ask("DELETE", "/v1/files/file-mine1", JSON, NULL);
    reply_and_end(404, JSON, "{}");
    assert_int_equal(claim("file-mine1", NULL), OBJECT_MINE);
    call_kit_close();
}

static void what_is_deleted_is_nobodys(void **state)
{
    (void)state;
    open_with(&strict);
    ask("DELETE", "/v1/files/file-mine1", JSON, NULL);
    reply_and_end(200, JSON, "{\"id\":\"file-mine1\",\"deleted\":true}");
    assert_int_equal(claim("file-mine1", NULL), OBJECT_UNKNOWN);
    assert_int_equal(claim("file-mine2", NULL), OBJECT_MINE);
    /* What is deleted below an object is not the object, nor one of the same name. */
    ask("DELETE", "/v1/files/file-mine2/parts/part-1", JSON, NULL);
    reply_and_end(200, JSON, "{}");
    assert_int_equal(claim("file-mine2", NULL), OBJECT_MINE);
    made_by("one", "file-mine3", "p");
    ask("DELETE", "/v1/files/file-mine2/parts/file-mine3", JSON, NULL);
    reply_and_end(200, JSON, "{}");
    assert_int_equal(claim("file-mine3", NULL), OBJECT_MINE);
    call_kit_close();
}

#define LIST                                                                                 \
    "{\"data\":[{\"id\":\"file-mine1\"},{\"id\":\"file-other1\"},{\"id\":\"file-nobody1\"}," \
    "{\"id\":\"file-all1\"}]}"

static void a_list_shows_the_caller_its_own(void **state)
{
    const struct call_kit_config shared = {.top = "shared_objects: [\"file-all*\"]\n" REFUSE};
    const struct call_kit_config allow = {.top = "unknown_objects: allow\n" ROWS};

    (void)state;
    open_with(&strict);
    ask("GET", "/v1/files", JSON, NULL);
    reply_and_end(200, JSON, LIST);
    assert_string_equal(client.body, "{\"data\":[{\"id\":\"file-mine1\"}]}");
    ask("GET", "/v1/files?limit=2", JSON, NULL);
    reply_and_end(200, EVENT_STREAM, LIST); /* a list that nobody here can read */
    assert_string_equal(client.body, "");
    ask("GET", "/v1/files", JSON, NULL);
    reply_and_end(206, JSON, LIST);
    assert_string_equal(client.body, "");
    /* An error is no list. */
    ask("GET", "/v1/files", JSON, NULL);
    reply_and_end(400, JSON, "{\"error\":[{\"id\":\"file-other1\"}]}");
    assert_string_equal(client.body, "{\"error\":[{\"id\":\"file-other1\"}]}");
    /* What is listed is not made; what follows its own object is no list of everyone's. */
    assert_int_equal(claim("file-nobody1", NULL), OBJECT_UNKNOWN);
    ask("GET", "/v1/files/file-mine1/parts", JSON, NULL);
    reply_and_end(200, JSON, "{\"data\":[{\"id\":\"part-1\"}]}");
    assert_string_equal(client.body, "{\"data\":[{\"id\":\"part-1\"}]}");
    call_kit_close();

    open_with(&shared);
    ask("GET", "/v1/files", JSON, NULL);
    reply_and_end(200, JSON, LIST);
    assert_string_equal(client.body,
                        "{\"data\":[{\"id\":\"file-mine1\"},{\"id\":\"file-all1\"}]}");
    call_kit_close();

    open_with(&allow);
    ask("GET", "/v1/files", JSON, NULL);
    reply_and_end(200, JSON, LIST);
    expect_in(client.body, "file-nobody1");
    expect_not_in(client.body, "file-other1");
    call_kit_close();
}

static void a_list_that_is_packed_is_not_shown(void **state)
{
    (void)state;
    open_with(&strict);
    ask("GET", "/v1/files", JSON, NULL);
    call_out_says("content-encoding", "gzip");
    reply_and_end(200, JSON, LIST);
    assert_string_equal(client.body, "");
    call_kit_close();
}

/* ---- responses ---- */

#define ASK "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10"
#define RESPONSE(id)                                                                     \
    "{\"id\":\"" id "\",\"object\":\"response\",\"status\":\"completed\",\"output\":[]," \
    "\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}"

static void a_response_is_its_callers(void **state)
{
    struct object_place place = {NULL, NULL};

    (void)state;
    open_with(&strict);
    ask("POST", "/v1/responses", JSON, ASK "}");
    const char *key = client.call->attempt.owner->config->name;
    reply_and_end(200, JSON, RESPONSE("resp_1"));
    assert_int_equal(claim("resp_1", &place), OBJECT_MINE);
    assert_string_equal(place.key, key);
    ask("POST", "/v1/responses", JSON, ASK ",\"previous_response_id\":\"resp_1\"}");
    assert_int_equal(client.status, 0);
    assert_string_equal(client.call->attempt.owner->config->name, key);
    reply_and_end(200, JSON, RESPONSE("resp_2"));
    made_by("two", "resp_3", "p");
    ask("POST", "/v1/responses", JSON, ASK ",\"previous_response_id\":\"resp_3\"}");
    expect_missing("resp_3");
    ask("POST", "/v1/responses", JSON, ASK ",\"previous_response_id\":\"resp_4\"}");
    expect_missing("resp_4");
    /* What a chat calls its answer is no object. */
    ask("POST", "/v1/chat/completions", JSON, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(claim("x", NULL), OBJECT_UNKNOWN);
    call_kit_close();
}

/* Providers keep a response for 30 days, and other objects until they are deleted. */
static void a_response_is_forgotten_before_a_file(void **state)
{
    (void)state;
    open_with(&strict);
    ask("POST", "/v1/responses", JSON, ASK "}");
    reply_and_end(200, JSON, RESPONSE("anything_1"));
    ask("POST", "/v1/files", "audio/wav", "sound");
    reply_and_end(200, JSON, "{\"id\":\"file-new1\"}");
    ask("POST", "/v1/files", "audio/wav", "sound");
    reply_and_end(200, JSON, "{\"id\":\"resp_new1\"}");
    tg_ms later = wall() + OBJECT_RESPONSE_MS + 1;
    struct object_owners *owners = call_kit.gateway->owners;
    assert_int_equal(object_owners_find(owners, SLICE("anything_1"), "one", later, NULL),
                     OBJECT_UNKNOWN);
    assert_int_equal(object_owners_find(owners, SLICE("resp_new1"), "one", later, NULL),
                     OBJECT_UNKNOWN);
    assert_int_equal(object_owners_find(owners, SLICE("file-new1"), "one", later, NULL),
                     OBJECT_MINE);
    call_kit_close();
}

static void a_streamed_response_is_its_callers(void **state)
{
    (void)state;
    open_with(&strict);
    ask("POST", "/v1/responses", JSON, ASK ",\"stream\":true}");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(),
                  "event: response.created\ndata: {\"type\":\"response.created\","
                  "\"response\":{\"id\":\"resp_7\",\"status\":\"in_progress\"}}\n\n");
    assert_int_equal(claim("resp_7", NULL), OBJECT_MINE);
    call_out_data(call_kit_out(),
                  "event: response.completed\ndata: {\"type\":\"response.completed\","
                  "\"response\":" RESPONSE("resp_7") "}\n\n");
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* Only responses are forgotten as soon as their provider forgets them. */
static void what_is_no_response_is_remembered_as_long_as_a_file(void **state)
{
    (void)state;
    open_with(&strict);
    ask("POST", "/v1/things", "audio/wav", "sound");
    reply_and_end(200, JSON, "{\"id\":\"vs_new1\"}");
    ask("POST", "/v1/things", "audio/wav", "sound");
    reply_and_end(200, JSON, "{\"id\":\"batch_new1\"}");
    tg_ms later = wall() + OBJECT_RESPONSE_MS + 1;
    struct object_owners *owners = call_kit.gateway->owners;
    assert_int_equal(object_owners_find(owners, SLICE("vs_new1"), "one", later, NULL), OBJECT_MINE);
    assert_int_equal(object_owners_find(owners, SLICE("batch_new1"), "one", later, NULL),
                     OBJECT_MINE);
    call_kit_close();
}

/* A passthrough goes where its path says; an object in its body that is elsewhere is not there. So
 * it is with the model of a call and an object that it names. */
static void an_object_of_another_provider_is_not_at_this_one(void **state)
{
    const struct call_kit_config config = {
        .providers = "  q: {api: openai, base_url: \"http://127.0.0.1:1\", "
                     "keys: [{name: q1, secret: \"${CALL_KIT_SECRET}\"}]}\n",
        .top = REFUSE};

    (void)state;
    begin(&config);
    made_by("one", "file-there1", "q");
    made_by("one", "resp_there1", "q");
    ask("POST", "/v1/things", JSON, "{\"file_id\":\"file-there1\"}");
    expect_gone(404, "object_not_found", "the object that this call names is at provider q");
    ask("POST", "/v1/responses", JSON,
        "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10,"
        "\"previous_response_id\":\"resp_there1\"}");
    expect_gone(404, "object_not_found",
                "the object that this call names is at provider q, and its model is not");
    call_kit_close();
}

/* The same of what only the remote store knew. */
static void an_object_that_others_made_elsewhere_is_not_at_this_provider(void **state)
{
    const struct call_kit_config config = {
        .first = "context: 8000",
        .providers = "  q: {api: openai, base_url: \"http://127.0.0.1:1\", "
                     "keys: [{name: q1, secret: \"${CALL_KIT_SECRET}\"}]}\n",
        .top = SHARED,
        .remote = true};

    (void)state;
    open_with(&config);
    call_kit.objects_provider = "q";
    ask("POST", "/v1/things", JSON, "{\"file_id\":\"file-there1\"}");
    expect_state(CALL_AT_OBJECTS);
    call_kit_answer_objects_of("one");
    expect_gone(404, "object_not_found", "the object that this call names is at provider q");
    ask("POST", "/v1/responses", JSON, CALL_KIT_NAMES);
    call_kit_answer_objects_of("one");
    expect_gone(404, "object_not_found",
                "the object that this call names is at provider q, and its model is not");
    assert_int_equal(call_kit.n_outs, 0);
    call_kit_close();
}

static void a_fallback_at_another_provider_has_not_the_object(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 0, context: 100000, fallback: [there]",
        .providers = "  q: {api: openai, base_url: \"http://127.0.0.1:1\", "
                     "keys: [{name: q1, secret: \"${CALL_KIT_SECRET}\"}]}\n",
        .models = "  there: {provider: q, price: {input: 1, output: 2}}\n",
        .top = REFUSE};

    (void)state;
    begin(&config);
    made_by("one", "resp_1", "p");
    for (int names_it = 0; names_it < 2; names_it++) {
        ask("POST", "/v1/responses", JSON,
            names_it ? CALL_KIT_NAMES
                     : "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10}");
        call_out_reply(call_kit_out(), 503, JSON, "{}");
        expect_state(names_it ? CALL_OVER : CALL_ASKING);
        call_client_gone(&client, names_it ? HTTP_DONE : HTTP_HANGUP);
        call_kit_expect_released(&client);
    }
    call_kit_close();
}

/* A name that has not the form of an id may be its tenant's own, and is served as any. */
static void a_name_that_is_no_id_may_be_an_objects(void **state)
{
    (void)state;
    open_with(&strict);
    made_by("one", "mine", "p");
    made_by("two", "others", "p");
    ask("GET", "/v1/files/mine", JSON, NULL);
    expect_served("/v1/files/mine");
    ask("GET", "/v1/files/others", JSON, NULL);
    expect_missing("others");
    call_kit_close();
}

/* A body with many values is read on a thread, whatever its path. */
static void a_long_body_of_a_passthrough_is_read_on_a_thread(void **state)
{
    (void)state;
    open_with(&strict);
    ask("POST", "/v1/things", JSON, call_kit_long_body());
    expect_state(CALL_PARSING);
    call_kit_parse();
    expect_served("/v1/things");
    call_kit_close();
}

/* What an attempt has made that failed is not what the next one makes. */
static void a_response_that_failed_is_not_the_one_that_goes_on(void **state)
{
    const struct call_kit_config config = {.first = "retries: 1", .top = REFUSE};

    (void)state;
    begin(&config);
    ask("POST", "/v1/responses", JSON, ASK ",\"stream\":true}");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(),
                  "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":"
                  "{\"id\":\"resp_8\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\"}}}"
                  "\n\n");
    expect_state(CALL_PAUSING);
    assert_int_equal(client.call->objects.made_n, strlen("resp_8"));
    call_kit_pass(call_kit.last_timer);
    call_out_head(call_kit_out(), 200, JSON);
    call_out_data(call_kit_out(), "{\"status\":\"completed\",\"output\":[]}");
    assert_int_equal(client.call->objects.made_n, 0);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    call_kit_close();
}

/* A body may have so many values that nobody reads them all. */
static void a_body_with_too_many_values_is_refused(void **state)
{
    static char body[2 * ASK_VALUES_MAX + 100];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"x\":[1");

    (void)state;
    while (n < 2 * (ASK_VALUES_MAX + 10)) {
        body[n++] = ',';
        body[n++] = '1';
    }
    snprintf(body + n, sizeof body - n, "]}");
    open_with(&strict);
    ask("POST", "/v1/things", JSON, body);
    expect_state(CALL_PARSING);
    call_kit_parse();
    expect_gone(400, "invalid_request", "the body has too many values");
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_in_a_path_is_its_makers),
        cmocka_unit_test(an_id_that_is_too_long_is_nobodys),
        cmocka_unit_test(what_nobody_made_may_be_allowed),
        cmocka_unit_test(what_another_gateway_knows_is_its_makers),
        cmocka_unit_test(what_is_below_an_object_is_asked_for_too),
        cmocka_unit_test(without_the_store_nothing_unknown_may_be_named),
        cmocka_unit_test(a_call_may_ask_about_so_many_objects),
        cmocka_unit_test(what_is_made_and_deleted_is_told_to_all),
        cmocka_unit_test(a_list_asks_for_all_that_the_tenant_has),
        cmocka_unit_test(a_client_may_leave_while_the_store_is_asked),
        cmocka_unit_test(what_is_shared_is_read_by_everyone_and_changed_by_nobody),
        cmocka_unit_test(a_call_goes_where_its_object_is),
        cmocka_unit_test(an_object_in_a_query_is_its_makers),
        cmocka_unit_test(an_object_in_a_body_is_its_makers_whatever_its_type),
        cmocka_unit_test(a_content_type_that_is_too_long_is_refused),
        cmocka_unit_test(a_shared_row_asks_nobody),
        cmocka_unit_test(what_a_reply_makes_is_the_callers),
        cmocka_unit_test(a_reply_that_fails_makes_nothing),
        cmocka_unit_test(what_is_deleted_is_nobodys),
        cmocka_unit_test(a_list_shows_the_caller_its_own),
        cmocka_unit_test(a_list_that_is_packed_is_not_shown),
        cmocka_unit_test(a_response_is_its_callers),
        cmocka_unit_test(a_response_is_forgotten_before_a_file),
        cmocka_unit_test(a_streamed_response_is_its_callers),
        cmocka_unit_test(what_is_no_response_is_remembered_as_long_as_a_file),
        cmocka_unit_test(an_object_of_another_provider_is_not_at_this_one),
        cmocka_unit_test(an_object_that_others_made_elsewhere_is_not_at_this_provider),
        cmocka_unit_test(a_fallback_at_another_provider_has_not_the_object),
        cmocka_unit_test(a_name_that_is_no_id_may_be_an_objects),
        cmocka_unit_test(a_long_body_of_a_passthrough_is_read_on_a_thread),
        cmocka_unit_test(a_response_that_failed_is_not_the_one_that_goes_on),
        cmocka_unit_test(a_body_with_too_many_values_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
