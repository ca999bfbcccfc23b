/* test_grpc_server.c - RPCs of every kind, by a transport that is none. */
#include "check.h"

#include <grpc/health/v1/health.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "net_rpc_kit.h"

typedef Grpc__Health__V1__HealthCheckRequest request_t;
typedef Grpc__Health__V1__HealthCheckResponse reply_t;
typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus status_t;

#define REQUEST &grpc__health__v1__health_check_request__descriptor
#define REPLY &grpc__health__v1__health_check_response__descriptor

/* ---- a service that writes down what it is told ---- */

static struct {
    struct clock clock;
    struct net_loop *loop;
    struct grpc_server *server;
    char log[1000];
    struct grpc_call *call;  /* the last that came */
    struct grpc_call *other; /* whom a message "other" answers */
} world;

static void note(const char *word, const char *text)
{
    size_t n = strlen(world.log);

    snprintf(world.log + n, sizeof world.log - n, "%s%s%s;", word, *text ? " " : "", text);
}

static void note_begin(struct grpc_call *call)
{
    struct slice who = grpc_metadata(call, SLICE("authorization"));

    assert_ptr_equal(grpc_context(call), &world);
    for (size_t i = 0; i < sizeof call->state; i++)
        assert_int_equal(call->state[i], 0);
    memset(call->state, 1, sizeof call->state);
    world.call = call;
    note("begin", "");
    if (slice_equal(who, SLICE("nobody")))
        grpc_finish(call, GRPC_UNAUTHENTICATED, "who?");
}

static const char *text_of(const ProtobufCMessage *message)
{
    return ((const request_t *)(const void *)message)->service;
}

static void say(struct grpc_call *call, int number)
{
    reply_t reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    reply.status = (status_t)number;
    grpc_send(call, &reply.base);
}

/* "wait": no answer yet; "no": a status. Any other text is answered by its length. */
static void one_message(struct grpc_call *call, const ProtobufCMessage *message)
{
    reply_t reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    const struct http_field trailers[] = {{SLICE("grpc-retry-after-ms"), SLICE("100")}};

    note("message", text_of(message));
    reply.status = (status_t)strlen(text_of(message));
    if (strcmp(text_of(message), "no") == 0)
        grpc_finish_with(call, GRPC_RESOURCE_EXHAUSTED, "100% full", trailers, 1);
    else if (strcmp(text_of(message), "wait") != 0)
        grpc_reply(call, &reply.base);
}

static void answer_other(void)
{
    say(world.other, 77);
    grpc_finish(world.other, GRPC_OK, NULL);
}

static void many_message(struct grpc_call *call, const ProtobufCMessage *message)
{
    note("message", text_of(message));
    if (strcmp(text_of(message), "hold") == 0)
        grpc_hold(call, true);
    else if (strcmp(text_of(message), "other") == 0)
        answer_other();
    else if (strcmp(text_of(message), "stop") == 0)
        grpc_finish(call, GRPC_CANCELLED, "stopped");
    else
        say(call, (int)strlen(text_of(message)));
}

static void note_end(struct grpc_call *call)
{
    note("end", "");
    grpc_finish(call, GRPC_OK, NULL);
}

static void note_room(struct grpc_call *call)
{
    (void)call;
    note("room", "");
}

static void note_cancel(struct grpc_call *call)
{
    (void)call;
    note("cancel", "");
}

static void note_drain(struct grpc_call *call)
{
    note("drain", "");
    grpc_finish(call, GRPC_UNAVAILABLE, "over");
}

static const struct grpc_method METHODS[] = {
    {.name = "One",
     .request = REQUEST,
     .begin = note_begin,
     .message = one_message,
     .cancel = note_cancel},
    {.name = "Out",
     .request = REQUEST,
     .message = one_message,
     .room = note_room,
     .cancel = note_cancel,
     .drain = note_drain},
    {.name = "Many",
     .request = REQUEST,
     .many = true,
     .begin = note_begin,
     .message = many_message,
     .end = note_end,
     .room = note_room,
     .cancel = note_cancel,
     .drain = note_drain},
    {.name = "Bare", .request = REQUEST, .many = true, .message = many_message},
};
static const struct grpc_service SERVICE = {"a.Service", METHODS, 4};
static const struct grpc_service *const SERVICES[] = {&SERVICE};

static int open_world(void **state)
{
    const struct grpc_server_options options = {
        .services = SERVICES, .n_services = 1, .context = &world};
    struct grpc_server_options mine = options;

    (void)state;
    memset(&world, 0, sizeof world);
    clock_init(&world.clock);
    assert_int_equal(net_loop_new(&world.clock, &world.loop), TG_OK);
    mine.loop = world.loop;
    return grpc_server_new(&mine, &world.server) != TG_OK;
}

static int close_world(void **state)
{
    (void)state;
    grpc_server_free(world.server);
    net_loop_free(world.loop);
    return 0;
}

static ProtobufCMessage *asking(const char *text)
{
    static request_t request;

    grpc__health__v1__health_check_request__init(&request);
    request.service = (char *)(uintptr_t)text;
    return &request.base;
}

static void check_reply(struct rpc_exchange *exchange, int number)
{
    ProtobufCMessage *message = rpc_next(exchange, REPLY);

    assert_non_null(message);
    assert_int_equal(((reply_t *)(void *)message)->status, number);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* ---- one message each way ---- */

static void a_question_is_answered_by_head_message_and_trailers(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", NULL, asking("four"));
    assert_int_equal(exchange.status, 200);
    assert_true(rpc_said(&exchange, "content-type: application/grpc\n"));
    assert_false(exchange.alone);
    check_reply(&exchange, 4);
    assert_int_equal(exchange.code, GRPC_OK);
    assert_false(rpc_said(&exchange, "grpc-message"));
    assert_true(exchange.finished);
    assert_int_equal(exchange.writes, 1);
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;message four;");
}

static void a_question_in_single_bytes_is_the_same_question(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/One", NULL);
    rpc_put_message(&exchange, asking("seven.."), 1);
    assert_string_equal(world.log, "begin;");
    rpc_end(&exchange);
    check_reply(&exchange, 7);
    rpc_close(&exchange);
}

static void an_empty_message_is_a_message(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", NULL, asking(""));
    check_reply(&exchange, 0);
    rpc_close(&exchange);
}

static void a_status_without_messages_is_a_head_alone(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", NULL, asking("no"));
    assert_true(exchange.alone);
    assert_int_equal(exchange.status, 200);
    assert_int_equal(exchange.code, GRPC_RESOURCE_EXHAUSTED);
    assert_true(rpc_said(&exchange, "grpc-message: 100%25 full\n"));
    assert_true(rpc_said(&exchange, "grpc-retry-after-ms: 100\n"));
    assert_true(exchange.finished);
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;message no;"); /* no cancel behind a finish */
}

static void a_refusal_at_the_head_does_not_wait_for_the_message(void **state)
{
    static const char *const NOBODY[] = {"authorization: nobody", NULL};
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/One", NOBODY);
    assert_int_equal(exchange.code, GRPC_UNAUTHENTICATED);
    assert_true(exchange.finished);
    grpc_server_data(&exchange.in, SLICE("\0\0\0\0\0")); /* it was on its way */
    grpc_server_end(&exchange.in);
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;");
}

static void an_answer_may_come_later(void **state)
{
    reply_t reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", NULL, asking("wait"));
    assert_int_equal(exchange.status, 0);
    reply.status = 12;
    grpc_reply(world.call, &reply.base);
    check_reply(&exchange, 12);
    grpc_reply(world.call, &reply.base); /* and only once */
    grpc_finish(world.call, GRPC_INTERNAL, "no");
    assert_int_equal(exchange.code, GRPC_OK);
    assert_null(rpc_next(&exchange, REPLY));
    rpc_close(&exchange);
}

/* ---- what is no RPC of ours ---- */

static void what_is_not_there_is_unimplemented(void **state)
{
    static const char *const PATHS[] = {"/a.Service/Two", "/b.Service/One", "/a.Service",
                                        "/a.Service/One/", "/", "*", "/a.Service/one"};
    struct rpc_exchange exchange;

    (void)state;
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++) {
        rpc_ask(&exchange, world.server, PATHS[i], NULL, asking("x"));
        assert_int_equal(exchange.status, 200);
        assert_int_equal(exchange.code, GRPC_UNIMPLEMENTED);
        assert_true(exchange.alone && exchange.finished);
        rpc_close(&exchange);
    }
    assert_string_equal(world.log, "");
}

static void what_is_not_grpc_gets_a_status_of_http(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_prepare(&exchange, "/a.Service/One", NULL);
    exchange.fields[0].value = SLICE("application/json");
    grpc_server_begin(world.server, &exchange.in);
    assert_int_equal(exchange.status, 415);
    rpc_close(&exchange);
    rpc_prepare(&exchange, "/a.Service/One", NULL);
    exchange.in.head.n_fields = 0;
    grpc_server_begin(world.server, &exchange.in);
    assert_int_equal(exchange.status, 415);
    rpc_close(&exchange);
    rpc_prepare(&exchange, "/a.Service/One", NULL);
    exchange.in.head.method = SLICE("GET");
    grpc_server_begin(world.server, &exchange.in);
    assert_int_equal(exchange.status, 405);
    rpc_close(&exchange);
    rpc_prepare(&exchange, "/a.Service/One", NULL);
    exchange.in.head.version = 11;
    grpc_server_begin(world.server, &exchange.in);
    assert_int_equal(exchange.status, 505);
    assert_int_equal(exchange.code, -1);
    rpc_close(&exchange);
}

/* A frame of gzip; `cut` bytes are missing at its end, and `more` follow it. */
static size_t put_gzip(char *frame, size_t size, const void *bytes, size_t n, size_t cut,
                       size_t more)
{
    z_stream stream = {0};

    assert_int_equal(
        deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)n;
    stream.next_out = (Bytef *)frame + GRPC_FRAME_HEAD;
    stream.avail_out = (uInt)(size - GRPC_FRAME_HEAD);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    n = size - GRPC_FRAME_HEAD - stream.avail_out - cut + more;
    deflateEnd(&stream);
    grpc_frame_put_head(frame, (uint32_t)n);
    frame[0] = 1;
    return GRPC_FRAME_HEAD + n;
}

static const char *const GZIP[] = {"grpc-encoding: gzip", NULL};

static void a_message_may_be_compressed_by_gzip(void **state)
{
    char packed[1000], frame[1000];
    struct rpc_exchange exchange;
    size_t n = protobuf_c_message_pack(asking("seven.."), (uint8_t *)packed);
    size_t size = put_gzip(frame, sizeof frame, packed, n, 0, 0);

    (void)state;
    for (size_t piece = 1; piece <= size; piece += size - 1) {
        rpc_open(&exchange, world.server, "/a.Service/One", GZIP);
        for (size_t at = 0; at < size; at += piece)
            rpc_put(&exchange, frame + at, size - at < piece ? size - at : piece);
        rpc_end(&exchange);
        check_reply(&exchange, 7);
        rpc_close(&exchange);
    }
    /* A stream may have some that are and some that are not. */
    rpc_open(&exchange, world.server, "/a.Service/Many", GZIP);
    rpc_put(&exchange, frame, size);
    rpc_put_message(&exchange, asking("four"), SIZE_MAX);
    rpc_put(&exchange, frame, size);
    rpc_end(&exchange);
    for (int i = 0; i < 3; i++) {
        reply_t *reply = (reply_t *)(void *)rpc_next(&exchange, REPLY);
        assert_non_null(reply);
        assert_int_equal(reply->status, i == 1 ? 4 : 7);
        protobuf_c_message_free_unpacked(&reply->base, NULL);
    }
    assert_int_equal(exchange.code, GRPC_OK);
    rpc_close(&exchange);
}

/* A few bytes cannot become more than a message may have. */
static void what_is_no_gzip_or_too_much_is_told_so(void **state)
{
    static char zeros[GRPC_MESSAGE_MAX + 1], frame[2000];
    static const struct {
        size_t n, cut, more;
        int code;
    } rows[] = {
        {GRPC_MESSAGE_MAX + 1, 0, 0, GRPC_RESOURCE_EXHAUSTED},
        {GRPC_MESSAGE_MAX, 0, 0, GRPC_INVALID_ARGUMENT}, /* it fits, and is no message */
        {10, 1, 0, GRPC_INVALID_ARGUMENT},
        {10, 12, 0, GRPC_INVALID_ARGUMENT},
        {10, 0, 1, GRPC_INVALID_ARGUMENT},
    };
    struct rpc_exchange exchange;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = put_gzip(frame, sizeof frame, zeros, rows[i].n, rows[i].cut, rows[i].more);
        rpc_open(&exchange, world.server, "/a.Service/One", GZIP);
        rpc_put(&exchange, frame, n);
        rpc_end(&exchange);
        assert_int_equal(exchange.code, rows[i].code);
        rpc_close(&exchange);
    }
    assert_null(strstr(world.log, "message"));
}

static void another_compression_is_unimplemented_and_says_what_there_is(void **state)
{
    static const char *const SNAPPY[] = {"grpc-encoding: snappy", NULL};
    static const char *const IDENTITY[] = {"grpc-encoding: identity", NULL};
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", SNAPPY, asking("x"));
    assert_int_equal(exchange.code, GRPC_UNIMPLEMENTED);
    assert_true(rpc_said(&exchange, "grpc-accept-encoding: identity,gzip\n"));
    rpc_close(&exchange);
    assert_string_equal(world.log, "");
    rpc_open(&exchange, world.server, "/a.Service/One", NULL);
    rpc_put(&exchange, "\1\0\0\0\1x", 6);
    assert_int_equal(exchange.code, GRPC_INTERNAL);
    rpc_close(&exchange);
    rpc_ask(&exchange, world.server, "/a.Service/One", IDENTITY, asking("x"));
    assert_int_equal(exchange.code, GRPC_OK);
    rpc_close(&exchange);
}

static void bytes_that_are_no_message_are_told_so(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        int code;
    } TABLE[] = {
        {"", 0, GRPC_INVALID_ARGUMENT},                      /* none */
        {"\0\0\0\0", 4, GRPC_INVALID_ARGUMENT},              /* a head that is cut */
        {"\0\0\0\0\2x", 6, GRPC_INVALID_ARGUMENT},           /* a message that is */
        {"\0\0\0\0\1\xff", 6, GRPC_INVALID_ARGUMENT},        /* no protobuf */
        {"\0\0\0\0\0\0\0\0\0\0", 10, GRPC_INVALID_ARGUMENT}, /* two */
        {"\0\0\1\0\1", 5, GRPC_RESOURCE_EXHAUSTED},          /* one byte too many */
        {"\0\xff\xff\xff\xff", 5, GRPC_RESOURCE_EXHAUSTED},  /* far too many */
        {"\0\0\0\0\0\0\0", 7, GRPC_INVALID_ARGUMENT},        /* one, and the begin of another */
    };
    struct rpc_exchange exchange;

    (void)state;
    for (size_t i = 0; i < sizeof TABLE / sizeof TABLE[0]; i++) {
        world.log[0] = '\0';
        rpc_open(&exchange, world.server, "/a.Service/One", NULL);
        rpc_put(&exchange, TABLE[i].bytes, TABLE[i].n);
        rpc_end(&exchange);
        assert_int_equal(exchange.code, TABLE[i].code);
        assert_true(exchange.finished);
        assert_string_equal(world.log, "begin;cancel;");
        rpc_close(&exchange);
        assert_string_equal(world.log, "begin;cancel;");
    }
}

/* ---- deadlines and cancellation ---- */

static void the_deadline_ends_what_has_no_answer(void **state)
{
    static const char *const SOON[] = {"grpc-timeout: 1m", NULL};
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", SOON, asking("wait"));
    assert_true(world.call->deadline > 0);
    while (!exchange.finished)
        net_loop_turn(world.loop, true);
    assert_int_equal(exchange.code, GRPC_DEADLINE_EXCEEDED);
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;message wait;cancel;");
}

static void an_answer_in_time_stops_the_clock(void **state)
{
    static const char *const LATER[] = {"grpc-timeout: 99999999H", NULL};
    reply_t reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", LATER, asking("wait"));
    for (int i = 0; i < 10; i++)
        net_loop_turn(world.loop, false);
    assert_false(exchange.finished);
    assert_true(net_timer_is_set(&world.call->timer));
    grpc_reply(world.call, &reply.base);
    assert_int_equal(exchange.code, GRPC_OK);
    assert_false(net_timer_is_set(&world.call->timer));
    rpc_close(&exchange);
}

static void a_deadline_that_is_past_or_none_is_told_at_once(void **state)
{
    static const char *const PAST[] = {"grpc-timeout: 0m", NULL};
    static const char *const NONE[] = {"grpc-timeout: soon", NULL};
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/One", PAST);
    assert_int_equal(exchange.code, GRPC_DEADLINE_EXCEEDED);
    rpc_close(&exchange);
    rpc_open(&exchange, world.server, "/a.Service/One", NONE);
    assert_int_equal(exchange.code, GRPC_INVALID_ARGUMENT);
    rpc_close(&exchange);
    assert_string_equal(world.log, "");
}

static void who_leaves_is_cancelled_once(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_ask(&exchange, world.server, "/a.Service/One", NULL, asking("wait"));
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;message wait;cancel;");
    assert_int_equal(exchange.status, 0);
}

/* ---- streams ---- */

static void what_comes_together_is_answered_in_one_write(void **state)
{
    struct rpc_exchange exchange;
    char bytes[200];
    size_t n = 0;

    (void)state;
    for (unsigned i = 1; i <= 5; i++) { /* "1", "22", "333" ... of field 1 */
        grpc_frame_put_head(bytes + n, 2 + i);
        bytes[n + GRPC_FRAME_HEAD] = 1 << 3 | 2;
        bytes[n + GRPC_FRAME_HEAD + 1] = (char)i;
        memset(bytes + n + GRPC_FRAME_HEAD + 2, '0' + (int)i, i);
        n += GRPC_FRAME_HEAD + 2 + i;
    }
    rpc_open(&exchange, world.server, "/a.Service/Many", NULL);
    rpc_put(&exchange, bytes, n - 3); /* the last is not all there */
    assert_int_equal(exchange.writes, 1);
    for (int i = 1; i <= 4; i++)
        check_reply(&exchange, i);
    assert_null(rpc_next(&exchange, REPLY));
    rpc_put(&exchange, bytes + n - 3, 3);
    check_reply(&exchange, 5);
    assert_int_equal(exchange.writes, 2);
    rpc_end(&exchange);
    assert_int_equal(exchange.code, GRPC_OK);
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;message 1;message 22;message 333;message 4444;"
                                   "message 55555;end;");
}

/* What is packed for one and not written yet does not go to another. */
static void a_stream_may_answer_another_call_between_its_own_answers(void **state)
{
    struct rpc_exchange one, many;

    (void)state;
    rpc_ask(&one, world.server, "/a.Service/One", NULL, asking("wait"));
    world.other = world.call;
    rpc_open(&many, world.server, "/a.Service/Many", NULL);
    rpc_put(&many,
            "\0\0\0\0\3\x0a\1x"
            "\0\0\0\0\7\x0a\5other"
            "\0\0\0\0\4\x0a\2yy",
            8 + 12 + 9);
    check_reply(&one, 77);
    assert_null(rpc_next(&one, REPLY));
    assert_int_equal(one.code, GRPC_OK);
    check_reply(&many, 1);
    check_reply(&many, 2);
    assert_null(rpc_next(&many, REPLY));
    rpc_close(&one);
    rpc_close(&many);
}

static void a_stream_that_is_finished_reads_no_further(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/Many", NULL);
    rpc_put(&exchange, "\0\0\0\0\6\x0a\4stop\0\0\0\0\3\x0a\1x", 19);
    assert_int_equal(exchange.code, GRPC_CANCELLED);
    assert_string_equal(world.log, "begin;message stop;");
    rpc_close(&exchange);
}

static void a_stream_without_an_end_of_its_own_ends_well(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/Bare", NULL);
    rpc_end(&exchange);
    assert_int_equal(exchange.code, GRPC_OK);
    assert_true(exchange.alone);
    rpc_close(&exchange);
}

static void who_does_not_read_is_not_read(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/Many", NULL);
    rpc_put_message(&exchange, asking("x"), SIZE_MAX);
    assert_false(exchange.paused);
    exchange.queued = HTTP_OUTPUT_HIGH + 1;
    rpc_put_message(&exchange, asking("x"), SIZE_MAX);
    assert_true(exchange.paused);
    assert_false(grpc_has_room(world.call));
    rpc_take(&exchange);
    assert_false(exchange.paused);
    assert_true(grpc_has_room(world.call));
    rpc_close(&exchange);
    assert_string_equal(world.log, "begin;message x;message x;room;cancel;");
}

static void an_owner_that_holds_is_not_given_more(void **state)
{
    struct rpc_exchange exchange;

    (void)state;
    rpc_open(&exchange, world.server, "/a.Service/Many", NULL);
    rpc_put_message(&exchange, asking("hold"), SIZE_MAX);
    assert_true(exchange.paused);
    exchange.queued = HTTP_OUTPUT_HIGH + 1;
    say(world.call, 1);
    grpc_hold(world.call, false);
    assert_true(exchange.paused); /* the client does not read, either */
    rpc_take(&exchange);
    assert_false(exchange.paused);
    rpc_close(&exchange);
}

static void a_server_that_ends_tells_the_streams(void **state)
{
    struct rpc_exchange one, out, many;

    (void)state;
    rpc_ask(&one, world.server, "/a.Service/One", NULL, asking("wait"));
    rpc_ask(&out, world.server, "/a.Service/Out", NULL, asking("wait"));
    rpc_open(&many, world.server, "/a.Service/Many", NULL);
    grpc_server_drain(world.server);
    assert_false(one.finished); /* it ends by itself */
    assert_int_equal(out.code, GRPC_UNAVAILABLE);
    assert_int_equal(many.code, GRPC_UNAVAILABLE);
    rpc_close(&one);
    rpc_close(&out);
    rpc_close(&many);
}

/* A struct is used again, and knows nothing of who had it before: note_begin() looks. */
static void structs_are_used_again_and_are_new(void **state)
{
    struct rpc_exchange exchange;
    struct grpc_call *first = NULL;

    (void)state;
    for (int i = 0; i < 3; i++) {
        rpc_ask(&exchange, world.server, "/a.Service/One", NULL, asking("x"));
        if (i == 0)
            first = world.call;
        assert_ptr_equal(world.call, first);
        check_reply(&exchange, 1);
        rpc_close(&exchange);
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_question_is_answered_by_head_message_and_trailers),
        WORLD_TEST(a_question_in_single_bytes_is_the_same_question),
        WORLD_TEST(an_empty_message_is_a_message),
        WORLD_TEST(a_status_without_messages_is_a_head_alone),
        WORLD_TEST(a_refusal_at_the_head_does_not_wait_for_the_message),
        WORLD_TEST(an_answer_may_come_later),
        WORLD_TEST(what_is_not_there_is_unimplemented),
        WORLD_TEST(what_is_not_grpc_gets_a_status_of_http),
        WORLD_TEST(a_message_may_be_compressed_by_gzip),
        WORLD_TEST(what_is_no_gzip_or_too_much_is_told_so),
        WORLD_TEST(another_compression_is_unimplemented_and_says_what_there_is),
        WORLD_TEST(bytes_that_are_no_message_are_told_so),
        WORLD_TEST(the_deadline_ends_what_has_no_answer),
        WORLD_TEST(an_answer_in_time_stops_the_clock),
        WORLD_TEST(a_deadline_that_is_past_or_none_is_told_at_once),
        WORLD_TEST(who_leaves_is_cancelled_once),
        WORLD_TEST(what_comes_together_is_answered_in_one_write),
        WORLD_TEST(a_stream_may_answer_another_call_between_its_own_answers),
        WORLD_TEST(a_stream_that_is_finished_reads_no_further),
        WORLD_TEST(a_stream_without_an_end_of_its_own_ends_well),
        WORLD_TEST(who_does_not_read_is_not_read),
        WORLD_TEST(an_owner_that_holds_is_not_given_more),
        WORLD_TEST(a_server_that_ends_tells_the_streams),
        WORLD_TEST(structs_are_used_again_and_are_new),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
