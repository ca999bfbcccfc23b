/* mock_lists.c - embeddings, and the models there are.
 *
 * Embeddings come as numbers or, as the official clients ask for without telling anybody, as base64
 * of little-endian floats.
 */
#include <openssl/evp.h>

#include "lab/mock/mock_reply.h"
#include "lib/core/random.h"

/* ---- Embeddings ------------------------------------------------------------------------------ */

/* Coordinates are multiples of 1/1024: floats hold them exactly, and so do six decimals. */
static float coordinate(struct random *random)
{
    return (float)((int64_t)(random_bits(random) >> 53) - 1024) / 1024.0F;
}

static void put_floats(struct random *random, int64_t n, struct text_out *out)
{
    unsigned char bytes[MOCK_DIMENSIONS_MAX * 4];

    for (int64_t i = 0; i < n; i++) {
        float value = coordinate(random);
        uint32_t bits;

        memcpy(&bits, &value, sizeof bits);
        for (int k = 0; k < 4; k++)
            bytes[i * 4 + k] = (unsigned char)(bits >> (8 * k));
    }
    text_out_text(out, "\"");
    if (text_out_reserve(out, ((size_t)n * 4 + 2) / 3 * 4 + 1)) /* it writes a zero, too */
        out->size +=
            (size_t)EVP_EncodeBlock((unsigned char *)out->bytes + out->size, bytes, (int)n * 4);
    text_out_text(out, "\"");
}

static void put_numbers(struct random *random, int64_t n, struct text_out *out)
{
    text_out_text(out, "[");
    for (int64_t i = 0; i < n; i++)
        text_out_format(out, "%s%.10g", i > 0 ? "," : "", (double)coordinate(random));
    text_out_text(out, "]");
}

void mock_embeddings_body(const struct mock_reply *reply, struct text_out *out)
{
    const struct mock_ask *ask = reply->ask;
    struct random random;

    text_out_text(out, "{\"object\":\"list\",\"data\":[");
    for (int64_t i = 0; i < ask->inputs; i++) {
        random_init(&random, ask->hash, (uint64_t)i);
        text_out_text(out, i > 0 ? ",{" : "{");
        text_out_text(out, "\"object\":\"embedding\",\"index\":");
        text_out_number(out, i);
        text_out_text(out, ",\"embedding\":");
        if (ask->base64)
            put_floats(&random, ask->dimensions, out);
        else
            put_numbers(&random, ask->dimensions, out);
        text_out_text(out, "}");
    }
    text_out_text(out, "],\"model\":");
    mock_model_json(reply, out);
    mock_openai_usage(reply, out);
    text_out_text(out, "}");
}

/* ---- Models ---------------------------------------------------------------------------------- */

void mock_model_object(const struct mock_reply *reply, struct slice model, struct text_out *out)
{
    bool anthropic = reply->ask->api == MOCK_ANTHROPIC;

    text_out_text(out, "{\"id\":");
    text_out_json(out, model);
    if (anthropic) {
        text_out_text(out, ",\"type\":\"model\",\"display_name\":");
        text_out_json(out, model);
        text_out_text(out, ",\"created_at\":\"2023-11-14T22:13:20Z\"}");
        return;
    }
    text_out_text(out, ",\"object\":\"model\",\"created\":");
    text_out_number(out, MOCK_CREATED);
    text_out_text(out, ",\"owned_by\":\"mock\"}");
}

static void put_bound(const char *key, struct slice model, struct text_out *out)
{
    text_out_text(out, key);
    text_out_json(out, model);
}

/* `models` is a list with commas. */
void mock_models_body(const struct mock_reply *reply, struct slice models, struct text_out *out)
{
    struct slice first = {models.at, 0}, model = first;

    text_out_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t from = 0; from < models.n; from += model.n + 1) {
        const char *comma = memchr(models.at + from, ',', models.n - from);

        model.at = models.at + from;
        model.n = comma != NULL ? (size_t)(comma - model.at) : models.n - from;
        text_out_text(out, from > 0 ? "," : "");
        mock_model_object(reply, model, out);
        if (from == 0)
            first = model;
    }
    text_out_text(out, "]");
    if (reply->ask->api == MOCK_ANTHROPIC) {
        put_bound(",\"has_more\":false,\"first_id\":", first, out);
        put_bound(",\"last_id\":", model, out);
    }
    text_out_text(out, "}");
}
