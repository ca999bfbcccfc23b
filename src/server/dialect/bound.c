/* bound.c - the most that a call can use: what is reserved for it.
 *
 * The table of what a feature of a request can cost is that of the providers' documents and SDKs.
 * Where they are silent, the larger answer is taken:
 *
 *   - The context bounds each pass, never their sum; each prompt of an array has one of its own.
 *   - Images by address and files are not bounded by their bytes. A PDF is its context, also where
 *     it is in the body: its pages can be counted, but the text on a page is compressed and has no
 *     bound.
 *   - A top-level key that is new to us reserves the context and the most output at the dearest
 *     factor. It is not refused: providers add harmless ones every month. A tool that is new to us
 *     is refused, because tools make passes.
 *   - Other models that a call brings in (fallbacks, advisor, models) have prices of their own,
 *     which are not known here: refused.
 *
 * A prefix of messages whose tokens the provider has reported counts as that many, and only what
 * follows it is bounded by bytes: see prefix.h.
 */
#include "server/dialect/bound.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/dialect/estimate.h"

#define BOUND_CHOICES_MAX 128
#define BOUND_DATA_DEPTH_MAX 64
#define BOUND_COMPACT_LEAST 1024 /* tokens between two compactions, at the least */
#define BOUND_COMPACT_DEFAULT 150000
/* The factor of what a server writes anew: an escape of 6 bytes for one of 2, at the worst. */
#define BOUND_ESCAPED 3

void bound_facts_init(struct bound_facts *facts)
{
    *facts = (struct bound_facts){
        .form = BOUND_NFKC,
        .per_call = 128,
        .per_message = 16,
        .per_part = 8,
        .per_tool = 64,
        .audio_per_s = 32,
        .rounds = 10,
    };
}

__attribute__((format(printf, 3, 4))) static bool bound_fail(struct ask_problem *problem,
                                                             const char *param, const char *format,
                                                             ...)
{
    va_list arguments;

    snprintf(problem->param, sizeof problem->param, "%s", param);
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof problem->text, format, arguments);
    va_end(arguments);
    return false;
}

static int64_t sum(int64_t a, int64_t b)
{
    return num_min(num_add(a, b), TG_NUMBER_MAX);
}

static int64_t quotient_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* ---- Images ---------------------------------------------------------------------------------- */

/* Fits into 2048 x 2048, then scales the shorter side to 768, up or down: documents say so, though
 * small images are seen to stay small. The shorter side is rounded down: then the longer one is no
 * less than by any way of rounding. */
static int64_t tiles_of(int64_t width, int64_t height)
{
    int64_t longer = num_max(width, height), shorter = num_min(width, height);

    if (longer > 2048) {
        shorter = num_max(1, shorter * 2048 / longer);
        longer = 2048;
    }
    longer = quotient_up(longer * 768, shorter);
    return 2 * quotient_up(longer, 512);
}

static int64_t patches_of(const struct bound_image *rule, const struct ask_image *image)
{
    int64_t factor = rule->factor_milli > 0 ? rule->factor_milli : 1000;
    int64_t patches = quotient_up(image->width, 32) * quotient_up(image->height, 32);

    if (rule->budget > 0 && image->detail != ASK_DETAIL_ORIGINAL)
        patches = num_min(patches, rule->budget);
    return quotient_up(num_times(patches, factor), 1000);
}

/* Tiles have two thirds of the shorter side, from 256 to 768. */
static int64_t gemini_tokens(int64_t width, int64_t height)
{
    int64_t side = num_max(256, num_min(768, num_min(width, height) * 2 / 3));

    if (width <= 384 && height <= 384)
        return 258;
    return 258 * quotient_up(width, side) * quotient_up(height, side);
}

int64_t bound_image(const struct bound_image *rule, const struct ask_image *image)
{
    int64_t width = num_max(1, image->width), height = num_max(1, image->height);
    int64_t tokens = TG_NUMBER_MAX;

    switch (rule->rule) {
    case BOUND_IMAGE_TILES:
        tokens = image->detail == ASK_DETAIL_LOW
                     ? rule->base
                     : sum(rule->base, num_times(rule->tile, tiles_of(width, height)));
        break;
    case BOUND_IMAGE_PATCHES:
        tokens = patches_of(rule, image);
        break;
    case BOUND_IMAGE_CLAUDE:
        tokens = quotient_up(width, 28) * quotient_up(height, 28);
        break;
    case BOUND_IMAGE_GEMINI:
        tokens = gemini_tokens(width, height);
        break;
    case BOUND_IMAGE_MOST:
        break;
    }
    return rule->most > 0 ? num_min(tokens, rule->most) : num_min(tokens, TG_NUMBER_MAX);
}

/* All images but `before`, the first ones. These may be any of them, so the largest are assumed to
 * be left. */
static int64_t image_tokens(const struct ask *ask, const struct bound_facts *facts, int64_t before)
{
    const struct bound_image *rule = &facts->image;
    int64_t most = rule->most > 0 ? rule->most : TG_NUMBER_MAX;
    int64_t largest = ask->images_unknown > 0 ? most : 0;
    int64_t tokens = num_times(ask->images_unknown, most);

    for (size_t i = 0; i < ask->n_sizes; i++) {
        int64_t one = bound_image(rule, &ask->sizes[i]);
        tokens = sum(tokens, num_times(one, ask->sizes[i].count));
        largest = num_max(largest, one);
    }
    return num_min(tokens, num_times(largest, ask->measure.images - before));
}

/* ---- Input ----------------------------------------------------------------------------------- */

static int64_t length_in(const struct normal_length *length, enum bound_form form)
{
    return form == BOUND_BYTES ? length->bytes : form == BOUND_NFC ? length->nfc : length->nfkc;
}

/* Tokens of what lies between two points of the walk, without images and files. */
static int64_t text_tokens(const struct ask_measure *from, const struct ask_measure *to,
                           const struct bound_facts *facts)
{
    int64_t tokens = length_in(&to->text, facts->form) - length_in(&from->text, facts->form);
    int64_t data = to->data_bytes - from->data_bytes;

    assert(tokens >= 0 && data >= 0 && to->messages >= from->messages);
    if (facts->self_hosted)
        tokens = sum(tokens, num_times(data, BOUND_ESCAPED - 1));
    tokens = sum(tokens, to->token_ids - from->token_ids);
    tokens = sum(tokens, num_times(to->messages - from->messages, facts->per_message));
    return sum(tokens, num_times(to->parts - from->parts, facts->per_part));
}

static int64_t most_output(const struct bound_facts *facts)
{
    return facts->most_output > 0 ? facts->most_output : facts->context;
}

static int64_t tool_tokens(const struct ask *ask, const struct bound_facts *facts)
{
    int64_t anthropic = ask->endpoint == ENDPOINT_MESSAGES ? BOUND_ANTHROPIC_TOOLS : 0;
    int64_t tokens = num_times(sum(ask->tools, ask->schemas), facts->per_tool);

    if (ask->tools > 0)
        tokens = sum(tokens, num_max(facts->tool_prompt, anthropic));
    return sum(tokens, ask->tool_prompt);
}

#define ASK_ELSEWHERE                                                                              \
    (ASK_STORED | ASK_CONVERSATION | ASK_TEMPLATE | ASK_THREAD | ASK_CONTAINER |                   \
     ASK_CACHED_CONTENT | ASK_ITEM | ASK_NEW_PART | ASK_NEW_KEY)

/* Tokens of one pass from a point of the walk to another, `elsewhere` being what is not in them;
 * TG_NUMBER_MAX: not bounded by what is in the body. */
static int64_t tokens_between(const struct ask *ask, const struct bound_facts *facts,
                              const struct ask_measure *from, const struct ask_measure *to,
                              unsigned elsewhere)
{
    int64_t tokens = sum(facts->per_call, text_tokens(from, to, facts));

    int64_t recalled = to->recalled - from->recalled; /* each is from one reply */

    if ((ask->features & elsewhere) != 0 || to->files > from->files ||
        (recalled > 0 && most_output(facts) == 0))
        return TG_NUMBER_MAX;
    tokens = sum(tokens, num_times(recalled, most_output(facts)));
    tokens = sum(tokens, image_tokens(ask, facts, from->images));
    return sum(tokens, quotient_up(num_times(ask->audio_ms, facts->audio_per_s), 1000));
}

static int64_t pass_tokens(const struct ask *ask, const struct bound_facts *facts)
{
    static const struct ask_measure nothing;
    bool is_counted = ask->stored_tokens >= 0;
    int64_t tokens = tokens_between(ask, facts, &nothing, &ask->measure,
                                    ASK_ELSEWHERE & ~(is_counted ? ASK_STORED : 0));

    if (ask->hosted_tools > 0)
        return TG_NUMBER_MAX; /* what they are described with is the provider's, though unused */
    tokens = sum(tokens, tool_tokens(ask, facts));
    if (is_counted)
        tokens = sum(tokens, ask->stored_tokens);
    if (ask->known_tokens < 0)
        return tokens;
    /* Tools are among what was counted, and so is an earlier response, which never changes. */
    int64_t behind = tokens_between(ask, facts, &ask->known, &ask->messages_measure,
                                    ASK_ELSEWHERE & ~ASK_STORED);
    return num_min(tokens, sum(ask->known_tokens, behind));
}

/* ---- Output ---------------------------------------------------------------------------------- */

int64_t bound_stated_output(const struct ask *ask, const struct bound_facts *facts)
{
    bool known = !facts->only_max_tokens || ask->bounds[0].name == NULL;

    for (size_t i = 0; i < ASK_BOUNDS_MAX && !known; i++)
        known = ask->bounds[i].name != NULL &&
                strcmp(ask->bounds[i].name, "max_completion_tokens") != 0;
    return known ? ask->max_output : -1;
}

/* Tokens of one choice of one pass; 0 may be unknown. */
static int64_t choice_tokens(const struct ask *ask, const struct bound_facts *facts,
                             int64_t max_output)
{
    int64_t most = most_output(facts);

    if (ask->features & ASK_NEW_KEY && most > 0)
        return most;
    if (max_output < 0)
        return most;
    return most > 0 ? num_min(max_output, most) : max_output;
}

/* The same bound with another limit of output for each choice: for a call that was clamped. */
static int64_t bound_output_tokens(const struct ask *ask, const struct bound_facts *facts,
                                   int64_t max_output)
{
    int64_t tokens = choice_tokens(ask, facts, max_output);

    if (!estimate_has_output(ask->endpoint))
        return 0;
    tokens = sum(tokens, length_in(&ask->prediction, facts->form));
    return num_times(num_times(tokens, num_max(1, ask->choices)), num_max(1, ask->prompts));
}

/* ---- Passes ---------------------------------------------------------------------------------- */

/* How often the provider may use its own tools; -1: without bound. */
static int64_t uses_of(const struct ask *ask)
{
    if (ask->hosted_tools == 0)
        return 0;
    if (ask->endpoint == ENDPOINT_RESPONSES)
        return ask->max_tool_calls;
    if (ask->endpoint == ENDPOINT_MESSAGES && (ask->features & ASK_USES) == 0)
        return ask->max_uses;
    return -1;
}

static int64_t passes_of(const struct ask *ask, const struct bound_facts *facts, int64_t uses)
{
    int64_t passes = sum(num_max(uses, 0), 1), most = num_max(1, facts->rounds);

    if (uses < 0 || bound_has_other_models(ask))
        return most; /* nothing bounds them, and no budget is hard */
    return ask->endpoint == ENDPOINT_MESSAGES ? num_min(passes, most) : passes;
}

/* Passes that compact the context: one before each pass, and one for each so many tokens written.
 */
static int64_t compactions_of(const struct ask *ask, int64_t passes, int64_t output)
{
    int64_t above = ask->compact_above < 0 ? BOUND_COMPACT_DEFAULT
                                           : num_max(ask->compact_above, BOUND_COMPACT_LEAST);

    return (ask->features & ASK_COMPACTION) != 0 ? sum(passes, output / above) : 0;
}

/* ---- Factors --------------------------------------------------------------------------------- */

/* False: a word that has no price. */
static bool factor_of(const struct ask_word *word, int64_t milli, int64_t *factor)
{
    static const char *const ordinary[] = {"",     "auto",  "default", "standard", "standard_only",
                                           "flex", "batch", "global",  NULL};
    bool known = milli > 0;

    for (size_t i = 0; ordinary[i] != NULL && !known; i++)
        known = strcmp(word->at, ordinary[i]) == 0;
    *factor = num_min(quotient_up(num_times(*factor, milli > 0 ? milli : 1000), 1000),
                      TG_FACTOR_MILLI_MAX);
    return known;
}

static bool find_factor(const struct ask *ask, const struct bound_facts *facts, int64_t *factor,
                        struct ask_problem *problem)
{
    const struct {
        const char *name;
        const struct ask_word *word;
        int64_t milli;
    } words[] = {{"service_tier", &ask->service_tier, facts->tier_milli},
                 {"speed", &ask->speed, facts->speed_milli},
                 {"inference_geo", &ask->inference_geo, facts->geo_milli}};
    bool priced = true;

    *factor = 1000;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!factor_of(words[i].word, words[i].milli, factor))
            priced = bound_fail(problem, words[i].name,
                                "'%s' is \"%s\", which has no price here, and this call has a "
                                "budget; leave it out, or send \"%s\"",
                                words[i].name, words[i].word->at,
                                i == 0   ? "default"
                                : i == 1 ? "standard"
                                         : "global");
    if (!priced || (ask->features & ASK_NEW_KEY) != 0)
        *factor = num_max(*factor, facts->dearest_milli);
    return priced;
}

/* ---- What cannot be bounded ------------------------------------------------------------------ */

static const struct refused {
    unsigned feature;
    const char *param, *accepted;
} refused[] = {
    {ASK_MODELS, "models",
     "which model or host serves it would be the provider's choice; name one "
     "in 'model', and leave out 'models', 'route', 'provider', 'plugins' and "
     "'transforms'"},
    {ASK_FALLBACKS, "fallbacks",
     "each of them has a price of its own; leave it out: fallbacks are "
     "configured in the gateway"},
    {ASK_ADVISOR, "tools", "an advisor is another model at its own price; leave it out"},
    {ASK_PRO, "reasoning.mode",
     "it runs several samples, and nothing bounds their sum; send "
     "\"standard\" or leave it out"},
    {ASK_CODE, "tools",
     "containers for code are billed by time; leave out code_interpreter, "
     "code_execution and shell"},
    {ASK_IMAGE_TOOL, "tools",
     "images are billed at another model's price; leave out "
     "image_generation"},
    {ASK_MCP_SERVERS, "mcp_servers",
     "nothing bounds their calls; leave it out, and run the tools "
     "on your side"},
    {ASK_SEARCH, "web_search_options",
     "nothing bounds the number of queries; use the tool "
     "web_search with a bound on its uses"},
};

static bool check_features(const struct ask *ask, struct ask_problem *problem)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if ((ask->features & refused[i].feature) != 0)
            return bound_fail(problem, refused[i].param,
                              "'%s' cannot be bounded, and this call has a budget: %s",
                              refused[i].param, refused[i].accepted);
    if ((ask->features & ASK_NEW_TOOL) != 0)
        return bound_fail(problem, "tools",
                          "a tool of type \"%s\" cannot be bounded, and this call has a budget; "
                          "use functions",
                          ask->new_tool.at);
    if (ask->choices > BOUND_CHOICES_MAX)
        return bound_fail(problem, "n", "at most %d choices can be bounded", BOUND_CHOICES_MAX);
    if (ask->data_depth > BOUND_DATA_DEPTH_MAX)
        return bound_fail(problem, "tools",
                          "tools, schemas and arguments may be nested %d deep under a budget",
                          BOUND_DATA_DEPTH_MAX);
    return true;
}

bool bound_holds(const struct ask *ask)
{
    return check_features(ask, &(struct ask_problem){.param = ""}) && uses_of(ask) >= 0;
}

/* The limits that the call itself has to state, or the configuration. */
static bool check_bounds(const struct ask *ask, const struct bound_facts *facts, int64_t pass,
                         int64_t uses, struct ask_problem *problem)
{
    if (uses < 0)
        return bound_fail(problem, ask->endpoint == ENDPOINT_RESPONSES ? "max_tool_calls" : "tools",
                          "tools that the provider runs need a bound on their uses under a budget: "
                          "send %s",
                          ask->endpoint == ENDPOINT_RESPONSES  ? "'max_tool_calls'"
                          : ask->endpoint == ENDPOINT_MESSAGES ? "'max_uses' in each of them"
                                                               : "functions instead");
    if (estimate_has_output(ask->endpoint) &&
        choice_tokens(ask, facts, bound_stated_output(ask, facts)) <= 0 && ask->max_output != 0)
        return bound_fail(problem, "max_tokens",
                          "the most that this model writes is not known; send 'max_tokens' or its "
                          "like, or set max_output_tokens or context of the model");
    if (facts->context > 0 || (pass < TG_NUMBER_MAX && uses == 0))
        return true;
    return bound_fail(problem, (ask->features & ASK_NEW_KEY) != 0 ? ask->new_key.at : "",
                      "this call has input that is not in its body (files, images by address, "
                      "earlier responses, tools of the provider, or a field unknown here), and the "
                      "model's context is not configured");
}

/* ---- The interface --------------------------------------------------------------------------- */

static unsigned kinds_of(const struct ask *ask, const struct bound_facts *facts)
{
    unsigned kinds = 0;
    bool elsewhere = (ask->features & ASK_ELSEWHERE) != 0 || ask->measure.files > 0;

    if ((ask->features & ASK_CACHE) != 0 || facts->cache_write_implicit)
        kinds |= TG_INPUT_WRITE;
    if ((ask->features & ASK_CACHE_LONG) != 0)
        kinds |= TG_INPUT_WRITE | TG_INPUT_WRITE_LONG;
    if (ask->audios > 0 || elsewhere)
        kinds |= TG_INPUT_AUDIO;
    if (ask->images > 0 || elsewhere)
        kinds |= TG_INPUT_IMAGE;
    if ((ask->features & (ASK_AUDIO_OUT | ASK_NEW_KEY)) != 0)
        kinds |= TG_OUTPUT_AUDIO;
    if ((ask->features & (ASK_IMAGE_OUT | ASK_NEW_KEY)) != 0)
        kinds |= TG_OUTPUT_IMAGE;
    return kinds;
}

bool bound_of(const struct ask *ask, const struct bound_facts *facts, bool hard_budget,
              struct tg_usage_bound *bound, struct ask_problem *problem)
{
    int64_t prompts = num_max(1, ask->prompts);
    int64_t pass = pass_tokens(ask, facts);
    int64_t uses = uses_of(ask);
    int64_t passes = passes_of(ask, facts, uses);
    int64_t output = bound_output_tokens(ask, facts, bound_stated_output(ask, facts));
    struct ask_problem unpriced;
    int64_t factor;

    if (hard_budget &&
        (!check_features(ask, problem) || !check_bounds(ask, facts, pass, uses, problem)))
        return false;
    if (!find_factor(ask, facts, &factor, hard_budget ? problem : &unpriced) && hard_budget)
        return false;
    /* Later passes have the results of tools in them: nothing but the context bounds these. */
    int64_t longest = passes > 1 ? TG_NUMBER_MAX : pass;
    int64_t input = pass;
    if (facts->context > 0) {
        longest = num_min(longest, facts->context);
        input = num_min(pass, num_times(facts->context, prompts));
    }
    if (passes > 1)
        input = num_times(facts->context > 0 ? facts->context : pass, passes);
    if (ask->endpoint == ENDPOINT_MESSAGES)
        output = num_times(output, passes);
    int64_t compactions = compactions_of(ask, passes, output);
    input = sum(input, num_times(compactions, facts->context));
    output = sum(output, num_times(compactions, most_output(facts)));
    if (input == TG_NUMBER_MAX) /* not known, and no budget to keep */
        input = longest = text_tokens(&(struct ask_measure){0}, &ask->measure, facts);
    *bound = (struct tg_usage_bound){
        .input = input,
        .longest = num_min(longest, input),
        .output = output,
        .kinds = kinds_of(ask, facts),
        .tool_calls = num_max(uses, 0),
        .factor_milli = factor,
    };
    return true;
}
