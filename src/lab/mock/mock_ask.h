/* mock_ask.h - what a request asks the mock for: endpoint, and the fields its reply follows.
 *
 * The gateway reads requests too, and its reader is not used here on purpose: the mock is what the
 * gateway is tested against, and a mistake that both share would not be seen.
 */
#ifndef TG_MOCK_MOCK_ASK_H
#define TG_MOCK_MOCK_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/http/http.h"
#include "io/text/json_read.h"

#define MOCK_NAME_MAX 128    /* bytes of a model's or a tool's name */
#define MOCK_TOOLS_MAX 8     /* tools of a call that are known by name */
#define MOCK_STOPS_MAX 4     /* stop sequences of a call that are known */
#define MOCK_CHOICES_MAX 16  /* answers to one call */
#define MOCK_INPUTS_MAX 2048 /* texts to embed in one call */
#define MOCK_DIMENSIONS_MAX 4096

enum mock_api { MOCK_OPENAI, MOCK_ANTHROPIC, MOCK_GEMINI };

enum mock_endpoint {
    MOCK_OTHER, /* no path of any API */
    MOCK_CHAT,
    MOCK_COMPLETIONS,
    MOCK_RESPONSES,
    MOCK_EMBEDDINGS,
    MOCK_GENERATE, /* Gemini */
    MOCK_MESSAGES,
    MOCK_COUNT_TOKENS,
    MOCK_MODELS,
    MOCK_MODEL,
    MOCK_TOKEN, /* access tokens for service accounts */
};

struct mock_ask {
    enum mock_endpoint endpoint;
    enum mock_api api;
    bool method_ok;
    bool vertex;  /* Anthropic on Vertex AI: the body has a version, and no model */
    bool version; /* it has one */
    char model[MOCK_NAME_MAX + 1];
    char tools[MOCK_TOOLS_MAX][MOCK_NAME_MAX + 1]; /* the call offers them, or forces the one */
    size_t n_tools;
    char stops[MOCK_STOPS_MAX][MOCK_NAME_MAX + 1]; /* sequences that end the answer */
    size_t n_stops;
    bool forced;    /* the answer has to be a call of a tool */
    bool named;     /* and of the one that is named */
    bool forbidden; /* it must be none */
    bool alone;     /* and no more than one */
    bool stream;
    bool in_array;        /* a stream of Gemini's is a JSON array, not events */
    bool include_usage;   /* stream_options of OpenAI */
    bool base64;          /* embeddings: as base64 of little-endian floats */
    int64_t max_tokens;   /* -1: the call does not say */
    int64_t choices;      /* 1 or more */
    int64_t inputs;       /* embeddings: how many */
    int64_t dimensions;   /* embeddings: 8 unless the call says */
    int64_t prompt_bytes; /* bytes of text; payloads in base64 are not text */
    uint64_t hash;        /* hash of seed, path and body: the same request, the same reply */
};

/* Endpoint, API and, for MOCK_MODEL, the model; all else as if the body were empty. */
void mock_ask_head(struct mock_ask *ask, const struct http_head *head);

/* The body, after mock_ask_head(). `readable` as of json_begin(). Null: it is good; else what is
 * wrong with it, for a reply with 400. Static, or valid until the reader's next document. */
const char *mock_ask_body(struct mock_ask *ask, struct json_reader *reader, const char *body,
                          size_t n, size_t readable);

/* Four bytes are a token, and there is at least one. */
int64_t mock_ask_prompt_tokens(const struct mock_ask *ask);

#endif
