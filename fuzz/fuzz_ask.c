/* fuzz_ask.c - any bytes as the body of a call: read or refused, and edited to what was wanted.
 *
 * The first byte chooses the endpoint. What was read lies within the body; an edited body is read
 * again and says what the edits wanted. A bound is never below the text that it is for, and what
 * was remembered of a body is found again.
 */
#include <stdlib.h>

#include "insist.h"
#include "server/dialect/body_edit.h"
#include "server/dialect/bound.h"
#include "server/dialect/estimate.h"
#include "server/dialect/prefix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_span(const struct ask *ask, struct ask_span span)
{
    insist(span.at <= ask->body_bytes && span.n <= ask->body_bytes - span.at);
}

static void check_ask(const struct ask *ask, const char *body)
{
    struct estimate_rule rule;

    check_span(ask, ask->model_span);
    check_span(ask, ask->stream_options);
    check_span(ask, ask->include_usage_span);
    insist(ask->model.n > 0 && ask->model.n <= ASK_TEXT_MAX &&
           ask->model_span.n >= ask->model.n + 2);
    insist(body[ask->model_span.at] == '"');
    insist(body[ask->model_span.at + ask->model_span.n - 1] == '"');
    insist(body[ask->root_at] == '{');
    insist(ask->choices >= 1 && ask->max_output >= -1);
    for (size_t i = 0; i < ASK_BOUNDS_MAX; i++)
        if (ask->bounds[i].name != NULL) {
            check_span(ask, ask->bounds[i].span);
            insist(ask->bounds[i].span.n > 0 &&
                   (ask->max_output < 0 || ask->bounds[i].value <= ask->max_output));
        }
    insist(ask->text_bytes >= 0 && ask->text_bytes <= 8 * (int64_t)ask->body_bytes);
    insist(ask->media_bytes >= 0 && ask->media_bytes <= (int64_t)ask->body_bytes);
    estimate_rule_init(&rule);
    insist(estimate_prompt(ask, &rule) >= 0 && estimate_output(ask, 4096) >= 0);
}

static void check_measure(const struct ask_measure *from, const struct ask_measure *to)
{
    insist(from->text.bytes <= to->text.bytes && from->text.nfc <= to->text.nfc &&
           from->text.nfkc <= to->text.nfkc && from->messages <= to->messages &&
           from->parts <= to->parts && from->images <= to->images && from->files <= to->files &&
           from->data_bytes <= to->data_bytes && from->token_ids <= to->token_ids &&
           from->recalled <= to->recalled);
}

static void check_bound(const struct ask *ask)
{
    struct bound_facts facts;
    struct tg_usage_bound bound, hard;
    struct ask_problem problem = {.text = ""};

    bound_facts_init(&facts);
    for (int form = 0; form < 3; form++) {
        facts.form = (enum bound_form)form;
        facts.context = 0;
        insist(bound_of(ask, &facts, false, &bound, &problem));
        insist(bound.input >= ask->text_bytes && bound.input >= ask->token_ids);
        insist(bound.input >= ask->measure.text.bytes && bound.longest <= bound.input);
        insist(bound.output >= 0 && bound.tool_calls >= 0 && bound.factor_milli >= 1000);
        facts.context = 1000000;
        if (bound_of(ask, &facts, true, &hard, &problem))
            insist(hard.input >= 0 &&
                   hard.input >= (bound.input < 1000000 ? bound.input : 1000000));
        else
            insist(problem.text[0] != '\0');
    }
}

/* What a provider has counted of a body: more tokens than any has bytes here. */
enum { COUNTED = 1234567 };

static void check_prefix(struct ask *ask, const char *body)
{
    static struct prefix_memory *memory;
    const struct prefix_who who = {SLICE("t"), SLICE("p"), SLICE("m"), SLICE("")};
    size_t n = ask->n_prefixes < ASK_PREFIXES ? ask->n_prefixes : ASK_PREFIXES;

    if (memory == NULL)
        memory = prefix_memory_new(1);
    insist(ask->messages_at <= ask->messages_end && ask->messages_end <= ask->body_bytes);
    for (size_t i = 0; i < n; i++) {
        insist(ask->prefixes[i].end > ask->messages_at && ask->prefixes[i].end < ask->messages_end);
        check_measure(&ask->prefixes[i].measure, &ask->messages_measure);
    }
    check_measure(&ask->messages_measure, &ask->measure);
    for (size_t i = 0; i < ask->n_frames && i < ASK_FRAMES; i++)
        check_span(ask, (struct ask_span){ask->frames[i].at, ask->frames[i].n});
    prefix_find(memory, &who, body, ask, 1);
    prefix_remember(memory, &who, ask, COUNTED, 1);
    if (ask->prefix_hash[0] != 0) {
        prefix_find(memory, &who, body, ask, 2);
        insist(ask->known_tokens == COUNTED);
        check_bound(ask);
    }
}

static void check_edited(struct json_reader *reader, const struct ask *ask, const char *body)
{
    struct slice slices[BODY_SLICES_MAX];
    struct body_edit edit;
    struct ask after;
    struct ask_problem problem;
    size_t total;
    size_t used = 0;

    body_edit_init(&edit);
    insist(body_edit_model(&edit, ask, SLICE("n\"\n")));
    bool bounded = body_edit_bound(&edit, ask, 7, "max_tokens") != NULL;
    bool asked = body_edit_include_usage(&edit, ask);
    size_t n = body_edit_slices(&edit, body, ask->body_bytes, slices, &total);
    char *edited = malloc(total);
    for (size_t i = 0; i < n; used += slices[i++].n)
        memcpy(edited + used, slices[i].at, slices[i].n);
    insist(ask_read(reader, ask->endpoint, edited, total, total, &after, &problem));
    insist(after.model.n == 3 && memcmp(after.model.at, "n\"\n", 3) == 0);
    insist(bounded == estimate_has_output(ask->endpoint));
    insist(!bounded || (after.max_output >= 0 && after.max_output <= 7));
    insist(after.include_usage == (ask->include_usage || asked));
    insist(after.text_bytes == ask->text_bytes && after.images == ask->images);
    free(edited);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *reader;
    struct ask ask;
    struct ask_problem problem = {.text = ""};

    if (reader == NULL)
        reader = json_reader_new();
    if (size < 1 || reader == NULL)
        return 0;
    enum endpoint endpoint = (enum endpoint)(data[0] % (ENDPOINT_COUNT + 1));
    size_t n = size - 1;
    char *body = malloc(n > 0 ? n : 1);
    memcpy(body, data + 1, n);
    if (ask_read(reader, endpoint, body, n, n, &ask, &problem)) {
        check_ask(&ask, body);
        check_edited(reader, &ask, body);
        check_bound(&ask);
        check_prefix(&ask, body);
    } else {
        insist(problem.text[0] != '\0');
        for (const char *at = problem.text; *at != '\0'; at++)
            insist(*at >= ' ' && *at <= '~');
    }
    struct slice target = {body, n};
    struct endpoint_match match = endpoint_of(SLICE("GET"), target);
    char text[64];
    (void)endpoint_unescape(match.model, text, sizeof text, &n);
    free(body);
    return 0;
}
