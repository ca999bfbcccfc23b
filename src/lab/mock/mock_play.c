/* mock_play.c - the course of one reply: when it begins, at what pace it goes, where it breaks.
 *
 * Nothing here looks at wall-clock time but for pace and dates: what is sent follows from the
 * request and the script alone.
 */
#include "lab/mock/mock_internal.h"

#define BREAK_MS 5 /* for the kernel to send what was written before a reset */

/* ---- Faults ---------------------------------------------------------------------------------- */

static void mock_play_finish(struct mock_exchange *x)
{
    x->stage = MOCK_ENDED;
    mock_out_finish(&x->out);
}

static void close_now(struct mock_exchange *x)
{
    x->stage = MOCK_ENDED;
    mock_out_close(&x->out);
}

static void send_error(struct mock_exchange *x)
{
    struct text_out *event = &x->worker->scratch;

    text_out_clear(event);
    mock_error_event(&x->reply, x->event, event);
    mock_out_body(&x->out, text_out_written(event));
    mock_play_finish(x);
}

static void break_down(struct mock_exchange *x)
{
    x->faulted = true;
    switch (x->action->fault) {
    case MOCK_HANG:
        x->stage = MOCK_HUNG;
        break;
    case MOCK_RESET:
        x->stage = MOCK_BREAKING;
        net_timer_set(x->worker->loop, &x->timer, BREAK_MS);
        break;
    case MOCK_GARBAGE:
        mock_out_bytes(&x->out, SLICE("\x16\x03\x01 this is not HTTP \xff\xfe\r\n\r\n"));
        close_now(x);
        break;
    case MOCK_BAD_CHUNK:
        mock_out_bytes(&x->out, SLICE("zz\r\nthis is no chunk\r\n"));
        close_now(x);
        break;
    case MOCK_ERROR:
    case MOCK_FAILED:
        send_error(x);
        break;
    default:
        close_now(x);
    }
}

static bool breaks_at_start(const struct mock_exchange *x)
{
    return x->refused == 0 && x->action->fault != MOCK_NO_FAULT &&
           x->action->place == MOCK_AT_START;
}

/* Whether the reply, as far as it has been sent, is where it breaks. */
static bool breaks_here(const struct mock_exchange *x)
{
    const struct mock_action *action = x->action;

    if (action->fault == MOCK_NO_FAULT || x->refused != 0)
        return false;
    if (action->place == MOCK_AT_EVENT)
        return x->event == action->at;
    return action->place == MOCK_AT_BYTE && x->sent_bytes >= action->at;
}

/* Sends a piece of the body, up to where the reply breaks if that is within it. */
static size_t send_piece(struct mock_exchange *x, struct slice bytes)
{
    const struct mock_action *action = x->action;

    if (action->fault != MOCK_NO_FAULT && x->refused == 0 && action->place == MOCK_AT_BYTE &&
        (int64_t)bytes.n > action->at - x->sent_bytes)
        bytes.n = (size_t)(action->at - x->sent_bytes);
    else
        x->event++;
    x->sent_bytes += (int64_t)bytes.n;
    return mock_out_body(&x->out, bytes);
}

/* What could not be written whole is not sent as if it were. */
static bool lacks_memory(struct mock_exchange *x)
{
    if (!x->worker->scratch.failed)
        return false;
    x->stage = MOCK_BREAKING;
    http_inbound_abort(x->in);
    return true;
}

/* ---- In one piece ---------------------------------------------------------------------------- */

/* The body is in the worker's scratch. A fault of streams has no place here. */
static void send_whole(struct mock_exchange *x, int status, const char *type)
{
    struct slice body = text_out_written(&x->worker->scratch);
    bool in_chunks = x->action->fault == MOCK_BAD_CHUNK && x->refused == 0;

    if (lacks_memory(x))
        return;
    mock_send_head(x, status, type, in_chunks ? -1 : (int64_t)body.n);
    if (x->action->fault == MOCK_ERROR || x->action->fault == MOCK_FAILED) {
        mock_out_body(&x->out, body);
        mock_play_finish(x);
        return;
    }
    if (!breaks_here(x))
        send_piece(x, body);
    if (breaks_here(x))
        break_down(x);
    else
        mock_play_finish(x);
}

static void send_refusal(struct mock_exchange *x, int status, const char *message)
{
    static const struct mock_action plain = {0};

    text_out_clear(&x->worker->scratch);
    mock_error_body(&x->ask, x->refused != 0 ? &plain : x->action, status, message,
                    &x->worker->scratch);
    send_whole(x, status, "application/json");
}

/* ---- As a stream ----------------------------------------------------------------------------- */

static double rate_per_ms(const struct mock_exchange *x)
{
    return x->action->pace * (double)x->ask.choices / 1000;
}

/* How many events may have been sent by now: the first piece at once, each other in its time. */
static int64_t events_due(const struct mock_exchange *x)
{
    double due, elapsed = (double)(net_loop_now(x->worker->loop) - x->pace_at);

    if (x->action->pace <= 0)
        return x->reply.events;
    due = 1 + elapsed * rate_per_ms(x);
    if (due >= (double)x->reply.paced)
        return x->reply.events;
    return x->reply.before + (int64_t)due;
}

static void wait_for_next(struct mock_exchange *x)
{
    double elapsed = (double)(net_loop_now(x->worker->loop) - x->pace_at);
    double at = (double)(x->event - x->reply.before) / rate_per_ms(x);

    net_timer_set(x->worker->loop, &x->timer, (tg_ms)(at > elapsed ? at - elapsed : 0) + 1);
}

static void send_events(struct mock_exchange *x)
{
    struct text_out *event = &x->worker->scratch;
    int64_t due = events_due(x);

    while (x->event < due && !breaks_here(x)) {
        text_out_clear(event);
        mock_reply_event(&x->reply, x->event, event);
        if (lacks_memory(x))
            return;
        if (send_piece(x, text_out_written(event)) > MOCK_OUTPUT_HIGH && x->event < due)
            return; /* goes on when there is room */
    }
    if (breaks_here(x))
        break_down(x);
    else if (x->event == x->reply.events)
        mock_play_finish(x);
    else
        wait_for_next(x);
}

void mock_play_room(struct mock_exchange *x)
{
    if (x->stage == MOCK_SENDING && x->ask.stream && !net_timer_is_set(&x->timer))
        send_events(x);
}

void mock_play_drained(void *arg)
{
    mock_play_room(arg);
}

/* ---- What is replied ------------------------------------------------------------------------- */

static const char *json_or(const char *type)
{
    return type != NULL ? type : "application/json";
}

static void send_scripted(struct mock_exchange *x)
{
    const struct mock_action *action = x->action;
    int status = action->status != 0 ? action->status : 200;

    text_out_clear(&x->worker->scratch);
    if (action->body != NULL)
        text_out_text(&x->worker->scratch, action->body);
    else if (status >= 400)
        mock_error_body(&x->ask, action, status, NULL, &x->worker->scratch);
    send_whole(x, status, json_or(action->content_type));
}

static void send_answer(struct mock_exchange *x)
{
    int status = x->action->status != 0 ? x->action->status : 200;

    if (x->ask.stream) {
        mock_send_head(x, status,
                       x->ask.in_array ? "application/json; charset=UTF-8"
                                       : "text/event-stream; charset=utf-8",
                       -1);
        send_events(x);
        return;
    }
    text_out_clear(&x->worker->scratch);
    if (x->ask.endpoint == MOCK_TOKEN) {
        int64_t wall_ms = clock_wall_of(&x->worker->mock->clock, net_loop_now(x->worker->loop));
        status = mock_auth_token(&x->worker->mock->auth, http_find(&x->in->head, SLICE("host")),
                                 (struct slice){x->body_bytes > 0 ? x->body : "", x->body_bytes},
                                 wall_ms, &x->worker->scratch);
        send_whole(x, status, "application/json");
        return;
    }
    mock_reply_body(&x->reply, slice_of(x->worker->mock->options.models), &x->worker->scratch);
    send_whole(x, status, json_or(x->action->content_type));
}

static bool is_scripted(const struct mock_action *action)
{
    return action->body != NULL || action->status >= 300;
}

static void mock_play_start(struct mock_exchange *x)
{
    if (breaks_at_start(x))
        break_down(x);
    else if (x->refused != 0)
        send_refusal(x, x->refused, NULL);
    else if (is_scripted(x->action))
        send_scripted(x);
    else if (x->ask.endpoint == MOCK_OTHER)
        send_refusal(x, 404, NULL);
    else if (!x->ask.method_ok)
        send_refusal(x, 405, NULL);
    else if (x->too_large)
        send_refusal(x, 413, NULL);
    else if (x->problem != NULL)
        send_refusal(x, 400, x->problem);
    else
        send_answer(x);
}

/* A reply in one piece takes as long as its tokens would have. */
static tg_ms wait_ms(struct mock_exchange *x)
{
    const struct mock_action *action = x->action;
    tg_ms ms = mock_latency_draw(action, x->script->seed, x->ask.hash + x->number);

    if (action->pace > 0 && !x->ask.stream && !is_scripted(action) && x->problem == NULL &&
        x->ask.endpoint != MOCK_EMBEDDINGS && x->ask.endpoint <= MOCK_MESSAGES)
        ms += (tg_ms)((double)x->reply.output * 1000 / action->pace);
    return ms;
}

void mock_play(struct mock_exchange *x)
{
    tg_ms wait;

    mock_reply_init(&x->reply, &x->ask, x->action);
    mock_out_begin(&x->out, x->in, x->action);
    x->stage = MOCK_WAITING;
    wait = x->refused == 0 ? wait_ms(x) : 0;
    if (wait > 0)
        net_timer_set(x->worker->loop, &x->timer, wait);
    else
        mock_play_start(x);
}

void mock_play_timer(void *arg)
{
    struct mock_exchange *x = arg;

    if (x->stage == MOCK_READING)
        http_inbound_resume(x->in);
    else if (x->stage == MOCK_WAITING)
        mock_play_start(x);
    else if (x->stage == MOCK_SENDING)
        send_events(x);
    else if (x->stage == MOCK_BREAKING)
        http_inbound_abort(x->in);
}
