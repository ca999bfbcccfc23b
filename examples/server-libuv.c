/* server-libuv.c - a server in a loop of libuv, in which requests wait.
 *
 *     cc server-libuv.c $(pkg-config --cflags --libs tollgate-posix libuv) -o server-libuv
 *     ./server-libuv 8080
 *
 * Four requests are served at once; others wait for up to 10 s, and leave the queue when their
 * client hangs up. The work is a timer of 20 ms. Without a port, the system chooses one; it is
 * printed. SIGTERM ends the server, which then prints what it has done.
 *
 * What belongs to Tollgate is marked by the number of its step in docs/library.md, "Event loops
 * that wait". libuv sleeps by itself, so step 4 becomes a handle that sets a timer
 * before each sleep.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tollgate_posix.h>
#include <uv.h>

static struct tg_gate *gate;
static struct tg_wakes *wakes;
static uv_timer_t due;

struct request {
    uv_tcp_t client;
    uv_timer_t work;
    uv_write_t write;
    struct tg_call call;
    struct tg_waiter waiter;
    tg_lease lease;
    bool asked, closing;
    int handles; /* open */
    size_t n;
    char text[2048];
};

static void on_closed(uv_handle_t *handle)
{
    struct request *request = handle->data;

    if (--request->handles == 0)
        free(request);
}

/* Ends a call that works, or that still waits. */
static void give_back(struct request *request)
{
    if (request->lease != 0)
        tg_gate_release(gate, request->lease, tg_clock_now(), NULL);
    request->lease = 0;
    tg_waiter_forget(&request->waiter); /* 5 */
}

static void finish(struct request *request)
{
    if (request->closing)
        return;
    request->closing = true;
    give_back(request);
    uv_close((uv_handle_t *)&request->work, on_closed);
    uv_close((uv_handle_t *)&request->client, on_closed);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    finish(write->data);
}

static void reply(struct request *request, const char *text)
{
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)text, (unsigned)strlen(text));

    request->write.data = request;
    if (uv_write(&request->write, (uv_stream_t *)&request->client, &buffer, 1, on_written))
        finish(request);
}

static void on_work_done(uv_timer_t *work)
{
    give_back(work->data);
    reply(work->data, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nserved\n");
}

/* What the gate has said, at first or after a wait. */
static void follow(struct request *request, enum tg_err err, const struct tg_answer *answer)
{
    request->lease = err ? 0 : answer->lease;
    if (err)
        reply(request, "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n");
    else if (answer->step == TG_DECIDED && answer->decision.allowed)
        uv_timer_start(&request->work, on_work_done, 20, 0);
    else if (answer->step == TG_DECIDED)
        reply(request, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct request *request = handle->data;

    (void)suggested;
    *buffer =
        uv_buf_init(request->text + request->n, (unsigned)(sizeof request->text - 1 - request->n));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct request *request = stream->data;
    struct tg_answer answer;

    (void)buffer;
    if (got < 0) { /* it has hung up, whatever it was doing */
        finish(request);
        return;
    }
    request->n += (size_t)got;
    request->text[request->n] = '\0';
    if (request->asked || strstr(request->text, "\r\n\r\n") == NULL)
        return;
    request->asked = true;
    tg_call_init(&request->call);
    request->call.waiter = &request->waiter; /* 2 */
    enum tg_err err = tg_gate_admit(gate, &request->call, 0, tg_clock_now(), &answer);
    follow(request, err, &answer);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct request *request = status == 0 ? calloc(1, sizeof *request) : NULL;

    if (request == NULL)
        return;
    uv_tcp_init(server->loop, &request->client);
    uv_timer_init(server->loop, &request->work);
    request->client.data = request->work.data = request;
    request->handles = 2;
    tg_waiter_init(&request->waiter, wakes, request); /* 2 */
    if (uv_accept(server, (uv_stream_t *)&request->client) ||
        uv_read_start((uv_stream_t *)&request->client, give_room, on_read))
        finish(request);
}

static void on_wakes(uv_poll_t *poll, int status, int events)
{
    struct request *request;
    struct tg_answer answer;

    (void)poll;
    (void)status;
    (void)events;
    while ((request = tg_wakes_next(wakes)) != NULL) { /* 3 */
        enum tg_err err =
            tg_gate_resume(gate, request->lease, &request->call, tg_clock_now(), &answer);
        follow(request, err, &answer);
    }
}

static void on_due(uv_timer_t *timer)
{
    (void)timer;
    tg_gate_tick(gate, tg_clock_now()); /* 4 */
}

static void before_sleep(uv_prepare_t *prepare)
{
    int timeout = tg_gate_timeout(gate, tg_clock_now()); /* 4 */

    uv_update_time(prepare->loop);
    if (timeout >= 0)
        uv_timer_start(&due, on_due, (uint64_t)timeout, 0);
    else
        uv_timer_stop(&due);
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    uv_stop(signal->loop);
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    struct sockaddr_in address;
    int length = sizeof address;
    uv_tcp_t server;
    uv_poll_t woken;
    uv_prepare_t prepare;
    uv_signal_t ends;
    struct tg_gate_config config;
    struct tg_gate_stats stats;
    struct tg_problem problem = {""};

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    tg_law_config_choose(&config.concurrency.law, TG_LAW_FIXED);
    config.concurrency.law.min = config.concurrency.law.initial = 4;
    config.concurrency.wait[TG_PRIORITY_NORMAL] = 10000;
    config.wake = tg_waiter_wake; /* 1 */
    if (tg_gate_new(&config, &gate, &problem) || tg_wakes_new(&wakes)) {
        fprintf(stderr, "cannot start: %s\n", problem.text);
        return 1;
    }

    uv_timer_init(loop, &due);
    uv_prepare_init(loop, &prepare);
    uv_prepare_start(&prepare, before_sleep);
    uv_poll_init(loop, &woken, tg_wakes_fd(wakes)); /* 1 */
    uv_poll_start(&woken, UV_READABLE, on_wakes);
    uv_signal_init(loop, &ends);
    uv_signal_start(&ends, on_signal, SIGTERM);
    uv_tcp_init(loop, &server);
    uv_ip4_addr("127.0.0.1", argc > 1 ? atoi(argv[1]) : 0, &address);
    if (uv_tcp_bind(&server, (struct sockaddr *)&address, 0) ||
        uv_listen((uv_stream_t *)&server, 1024, on_connection) ||
        uv_tcp_getsockname(&server, (struct sockaddr *)&address, &length)) {
        fprintf(stderr, "cannot listen\n");
        return 1;
    }
    printf("http://127.0.0.1:%d/\n", ntohs(address.sin_port));
    fflush(stdout);

    uv_run(loop, UV_RUN_DEFAULT);
    tg_gate_get_stats(gate, &stats);
    printf("admitted %llu, refused %llu, in flight %lld\n", (unsigned long long)stats.admitted,
           (unsigned long long)stats.refused[TG_REASON_CONCURRENCY], (long long)stats.in_flight);
    return 0;
}
