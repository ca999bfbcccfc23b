/* call_bill.c - what an attempt is charged: by its provider's word, or without it.
 *
 * A reply that ends says what was used, and that is charged. A call that is cut (its client hung
 * up, we gave it up, the provider broke off) ends without that word, and the tenant may have chosen
 * the moment: hidden reasoning is written before the first byte, and the usage comes last. So the
 * bill of such a call follows the time that the provider has had, which nobody can talk down:
 *
 *     booked      input as the stream reported it, else as estimated;
 *                 output = max(text that has come, v x outputs x (t + 1 s))
 *     uncertain   price(bound) - price(booked), where the output of the bound is
 *                 most_tokens_per_s x outputs x (t + 1 s), and all that it may write at most where
 *                 providers go on after a hang-up (cut: runs), and in the background
 *
 * t is the time since the request was sent, v the speed of output_speed.h. Neither is ever above
 * what the call may cost at most, which is what was reserved where a budget bounds it. A reply that
 * ends without a usage is booked with the text that has come; what it may have thought besides is
 * uncertain, too. A provider that fails without saying whether it ran (call_settle.c) is booked
 * nothing, and the whole bound is uncertain.
 *
 * booked + uncertain >= what a provider bills that writes no faster than most_tokens_per_s:
 * tests/unit/server/proxy/test_call_cut.c.
 */
#include <assert.h>

#include "lib/core/num.h"
#include "server/proxy/call_translation.h"

/* A token of any known vocabulary has 128 bytes at most: fewer tokens than this cannot have made
 * the text. */
enum { TOKEN_BYTES_MAX = 128 };

/* What is known of an attempt when it ends. */
struct evidence {
    struct usage_reading reading;
    struct usage_passes passes; /* what it says of them one by one */
    int64_t text_bytes;         /* bytes of output that have come */
    bool whole;                 /* the reply has ended as it should */
    bool final;                 /* what the reading says of the output is the last word */
};

/* A whole reply that was cut has not been read: all of it is taken for text. */
static void collect_translated(const struct call *call, struct evidence *seen)
{
    const struct call_translation *translation = call->translation;
    const struct translation *reply = &translation->translation;
    const struct attempt *attempt = &call->attempt;

    if (!translation->replying)
        return;
    seen->reading = reply->reader.usage;
    seen->text_bytes = reply->text_bytes;
    if (!attempt->events && !attempt->ended)
        seen->text_bytes = (int64_t)translation->reply.n;
    seen->whole = translation_ended(reply) && translation_error(reply) == NULL;
    seen->final = reply->final;
}

static void collect_evidence(struct call *call, struct evidence *seen)
{
    const struct attempt *attempt = &call->attempt;

    *seen = (struct evidence){.whole = false};
    if (attempt->status == 0)
        return;
    if (call->translation != NULL) {
        collect_translated(call, seen);
    } else if (attempt->events) {
        seen->reading = call->meter.reading;
        seen->passes = call->meter.passes;
        seen->text_bytes = call->meter.text_bytes;
        seen->whole = call->meter.ended;
        /* Some providers send a usage with every chunk, and the last one is the last word. */
        seen->final =
            call->meter.final || (attempt->ended && call->api == WIRE_OPENAI &&
                                  call->endpoint != ENDPOINT_RESPONSES && seen->reading.has_output);
    } else {
        if (call->scan != NULL) {
            usage_scan_end(call->scan, call->worker->reader, &seen->passes, &seen->reading);
            seen->text_bytes = call->scan->text_bytes;
        }
        seen->whole = attempt->ended;
        seen->final = true;
    }
}

/* The most that a report can say: the model's context in each pass, and the most it writes for each
 * choice. What is not known bounds nothing, nor do calls that no hard budget would have let pass.
 */
static bool cannot_be(const struct call *call, const struct usage_reading *reading)
{
    const struct config_model *model = call->route->config;
    const struct tg_usage_bound *bound = &call->attempt.bound;
    struct tg_usage_bound most = {.input = TG_NUMBER_MAX, .output = TG_NUMBER_MAX};

    most.tool_calls = TG_NUMBER_MAX;
    if (!bound_holds(&call->ask))
        return reading->absurd;
    if (model->context > 0)
        most.input = num_max(model->context, bound->input);
    if (model->context > 0 && model->max_output_tokens > 0)
        most.output =
            num_max(num_times(model->max_output_tokens, ask_outputs(&call->ask)), bound->output);
    return reading->absurd || tg_usage_exceeds(&reading->usage, &most);
}

/* Tokens that all outputs together write in the attempt's time, and a second, at this speed. */
static int64_t written_at(const struct call *call, double tokens_per_s)
{
    tg_ms took = call_now(call) - call->attempt.began_at + OUTPUT_SPEED_MARGIN_MS;

    return output_speed_tokens(tokens_per_s * (double)ask_outputs(&call->ask), took);
}

/* Whether the provider has replied with what nobody here can read. */
static bool is_unreadable(const struct call *call)
{
    const struct attempt *attempt = &call->attempt;
    bool scanned = call->translation == NULL && !attempt->events && attempt->status != 0;

    return attempt->packed || (scanned && (call->scan == NULL || call->scan->broken));
}

/* The output that is booked without the provider's last word. */
static int64_t likely_output(const struct call *call, const struct evidence *seen)
{
    const struct attempt *attempt = &call->attempt;
    const struct config_model *model = call->route->config;
    int64_t output = estimate_text(seen->text_bytes, &call->route->estimate);

    if (call->ask.background || is_unreadable(call))
        return attempt->bound.output; /* it goes on, or nobody can read how much it is */
    output = num_max(output, tg_usage_output(&seen->reading.usage));
    if (!seen->whole)
        output =
            num_max(output, written_at(call, output_speed_of(call->route->speed,
                                                             (double)model->most_tokens_per_s)));
    return num_min(output, num_max(attempt->bound.output, seen->text_bytes / TOKEN_BYTES_MAX));
}

/* The most that it can have written by now. */
static int64_t most_output(const struct call *call)
{
    const struct config_model *model = call->route->config;

    if (model->cut == CONFIG_CUT_RUNS || call->ask.background)
        return call->attempt.bound.output;
    return num_min(call->attempt.bound.output, written_at(call, (double)model->most_tokens_per_s));
}

/* The price of a usage with so much output, of the dearest kind that the call can cause. */
static tg_micro dearest_output(const struct call *call, struct tg_usage usage, int64_t output)
{
    const struct tg_price *price = &call->route->config->price;
    const struct tg_usage_bound *bound = &call->attempt.bound;

    assert(usage.audio_output == 0 && usage.image_output == 0);
    usage.output = 0;
    usage.factor_milli = num_max(usage.factor_milli, bound->factor_milli);
    struct tg_usage text = usage, audio = usage, image = usage;
    text.output = audio.audio_output = image.image_output = output;
    tg_micro most = tg_price_of(price, &text);
    if (bound->kinds & TG_OUTPUT_AUDIO)
        most = num_max(most, tg_price_of(price, &audio));
    if (bound->kinds & TG_OUTPUT_IMAGE)
        most = num_max(most, tg_price_of(price, &image));
    return most;
}

/* What the provider may bill at most for an attempt of which it has not said the last word. The
 * input is known once a stream has reported it, unless tools of the provider's make further passes.
 */
static tg_micro most_money(const struct call *call, const struct evidence *seen,
                           const struct tg_usage *booked)
{
    const struct attempt *attempt = &call->attempt;
    struct tg_usage_bound bound = attempt->bound;
    bool one_pass = bound.tool_calls == 0 && (bound.longest == 0 || bound.longest == bound.input);

    bound.output = num_max(most_output(call), booked->output);
    if (seen->reading.has_input && one_pass)
        return num_min(dearest_output(call, *booked, bound.output), attempt->most);
    return num_min(tg_price_bound(&call->route->config->price, &bound), attempt->most);
}

/* What the provider bills for a usage, by the tier, speed and region that the reply says it got. A
 * call with tools that the provider runs reports the sum of its passes, and which one was the
 * longest nobody says: it is taken to be as long as it can have been. */
static tg_micro price_served(const struct call *call, const struct evidence *seen,
                             struct tg_usage *usage)
{
    const struct config_model *model = call->route->config;
    const struct tg_usage_bound *bound = &call->attempt.bound;

    usage->factor_milli = config_served_factor(model, seen->reading.tier, seen->reading.speed,
                                               seen->reading.geo, bound->factor_milli);
    if (usage->longest == 0)
        usage->longest = num_min(bound->longest, tg_usage_input(usage));
    return tg_price_of(&model->price, usage);
}

/* Takes a pass of another model out of what the model that was asked has used. */
static void take_out(struct tg_usage *usage, const struct tg_usage *pass)
{
    usage->input = num_less(usage->input, pass->input);
    usage->cached_input = num_less(usage->cached_input, pass->cached_input);
    usage->cache_write = num_less(usage->cache_write, pass->cache_write);
    usage->cache_write_long = num_less(usage->cache_write_long, pass->cache_write_long);
    usage->output = num_less(usage->output, pass->output);
}

/* The same for a reply that reports its passes: each at the price of the model that it names, or at
 * the dearest of the provider's where that is not known. The factor is the call's. */
static tg_micro price_passes(const struct call *call, const struct evidence *seen,
                             struct tg_usage *usage)
{
    const struct config_provider *provider = call->route->provider->config;
    const struct config_model *model = call->route->config;
    tg_micro all = price_served(call, seen, usage), others = 0;
    struct tg_usage own = *usage;
    bool apart = false;

    own.longest = 0;
    for (size_t i = 0; i < seen->passes.n; i++) {
        const struct usage_pass *pass = &seen->passes.list[i];
        struct tg_usage of = pass->usage;
        const char *name = pass->unknown ? NULL : pass->model;
        if (name != NULL && (name[0] == '\0' || config_is_model(provider, model, name))) {
            own.longest = num_max(own.longest, of.longest);
            continue;
        }
        apart = true;
        of.factor_milli = usage->factor_milli;
        others = num_add(others, config_price_of_pass(provider, model, name, &of));
        take_out(&own, &of);
    }
    return apart ? num_add(tg_price_of(&model->price, &own), others) : all;
}

static void bill_without_word(const struct call *call, const struct evidence *seen,
                              struct call_bill *bill)
{
    bill->flags |= LEDGER_ESTIMATED;
    if (!seen->reading.has_input)
        bill->usage.input = num_min(call->attempt.prompt, call->attempt.bound.input);
    bill->usage.audio_output = bill->usage.image_output = 0;
    bill->usage.output = likely_output(call, seen);
    bill->spent = price_served(call, seen, &bill->usage);
    bill->uncertain = num_less(most_money(call, seen, &bill->usage), bill->spent);
}

/* An attempt of which nobody says whether it ran: most likely it did not. */
static void bill_failure(const struct call *call, struct call_bill *bill)
{
    const struct evidence seen = {.whole = false};

    bill->flags |= LEDGER_ESTIMATED;
    bill->uncertain = call->route ? most_money(call, &seen, &bill->usage) : call->attempt.asked;
}

void call_bill(struct call *call, enum call_charge charge, struct call_bill *bill)
{
    struct evidence seen;

    assert(charge != CHARGE_NOTHING);
    *bill = (struct call_bill){.spent = 0};
    if (charge == CHARGE_UNCERTAIN) {
        bill_failure(call, bill);
        return;
    }
    if (call->route == NULL) {
        bill->spent = call->attempt.asked;
        return;
    }
    collect_evidence(call, &seen);
    if (cannot_be(call, &seen.reading)) {
        /* What cannot be believed neither refunds nor charges: the reservation stands. */
        bill->flags = LEDGER_ABSURD | LEDGER_ESTIMATED;
        bill->usage =
            (struct tg_usage){.input = call->attempt.prompt, .output = call->attempt.output};
        bill->spent = -1;
        return;
    }
    if (seen.reading.has_input)
        bill->usage = seen.reading.usage;
    if (!seen.reading.found || !seen.final) {
        bill_without_word(call, &seen, bill);
        return;
    }
    if (!seen.reading.has_input) {
        bill->usage = seen.reading.usage;
        bill->usage.input = call->attempt.prompt;
    }
    bill->usage.output +=
        num_less(seen.text_bytes / TOKEN_BYTES_MAX, tg_usage_output(&bill->usage));
    bill->reported = true;
    bill->counted = seen.reading.has_input;
    if (usage_is_free(&seen.reading, seen.text_bytes))
        return; /* a refusal before any output; limits count it */
    bill->reasoning = seen.reading.reasoning;
    bill->spent = price_passes(call, &seen, &bill->usage);
}
