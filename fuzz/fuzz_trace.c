/* fuzz_trace.c - any bytes as lines of a trace: a call or a message, and the same one each time.
 *
 * Each line is read twice: in place, with bytes behind it that must not matter, and from a block of
 * memory that ends where the line ends, so that the sanitizer sees every byte too many.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay/trace.h"
#include "insist.h"
#include "io/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_call(const struct trace_call *call)
{
    insist(call->t >= 0 && call->t <= TG_NUMBER_MAX);
    insist(call->cost >= 0 && call->cost <= TG_NUMBER_MAX);
    insist(utf8_valid(call->key.bytes, call->key.size) == call->key.size);
}

static void check_same(const struct trace_call *a, const struct trace_call *b)
{
    insist(a->t == b->t && a->cost == b->cost && a->key.size == b->key.size);
    insist(memcmp(a->key.bytes, b->key.bytes, a->key.size) == 0);
}

static void check_event(const struct trace_event *event)
{
    check_call(&event->call);
    insist(event->id.bytes == NULL ||
           utf8_valid(event->id.bytes, event->id.size) == event->id.size);
    insist(event->op != TRACE_RELEASE || event->id.bytes != NULL);
    insist(event->op != TRACE_MEMORY || event->has_used);
    insist(!(event->used < 0 || event->used > 1) && event->hold_s >= 0);
    insist((unsigned)event->priority < TG_PRIORITY_COUNT && event->release.actual >= -1);
}

/* What is a call is an event too, and may be told to a gate. */
static void try_event(struct json_reader *const readers[2], const struct line lines[2],
                      enum trace_result as_call)
{
    struct trace_event events[2];
    struct tg_problem problems[2];
    enum trace_result first = trace_read_event(readers[0], &lines[0], &events[0], &problems[0]);
    enum trace_result second = trace_read_event(readers[1], &lines[1], &events[1], &problems[1]);

    insist(first == second && (as_call == TRACE_WRONG || first == as_call));
    if (first == TRACE_CALL) {
        check_event(&events[0]);
        check_same(&events[0].call, &events[1].call);
        insist(events[0].op == events[1].op && events[0].id.size == events[1].id.size);
    } else if (first == TRACE_WRONG) {
        insist(problems[0].text[0] != '\0' && strcmp(problems[0].text, problems[1].text) == 0);
    }
}

static void try_line(struct json_reader *const readers[2], const char *text, size_t bytes,
                     char behind)
{
    char *exact = malloc(bytes);
    char *padded = malloc(bytes + JSON_PADDING);
    struct trace_call calls[2];
    struct tg_problem problems[2];

    insist((exact != NULL || bytes == 0) && padded != NULL);
    if (bytes > 0) {
        memcpy(exact, text, bytes);
        memcpy(padded, text, bytes);
    }
    memset(padded + bytes, behind, JSON_PADDING);
    struct line lines[2] = {{exact, bytes, bytes}, {padded, bytes, bytes + JSON_PADDING}};

    enum trace_result first = trace_read(readers[0], &lines[0], &calls[0], &problems[0]);
    enum trace_result second = trace_read(readers[1], &lines[1], &calls[1], &problems[1]);
    insist(first == second);
    if (first == TRACE_CALL) {
        check_call(&calls[0]);
        check_same(&calls[0], &calls[1]);
    } else if (first == TRACE_WRONG) {
        insist(memchr(problems[0].text, '\0', sizeof problems[0].text) != NULL);
        insist(problems[0].text[0] != '\0');
        insist(strcmp(problems[0].text, problems[1].text) == 0);
    }
    try_event(readers, lines, first);
    free(exact);
    free(padded);
}

/* The first byte stands behind every line, the rest are lines. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Kept from input to input, as replay keeps its reader from line to line. */
    static struct json_reader *readers[2];

    for (int i = 0; i < 2; i++)
        if (readers[i] == NULL)
            insist((readers[i] = json_reader_new()) != NULL);
    if (size == 0)
        return 0;

    const char *at = (const char *)data + 1;
    const char *end = (const char *)data + size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        try_line(readers, at, (size_t)(stop - at), (char)data[0]);
        at = stop + 1;
    }
    return 0;
}
