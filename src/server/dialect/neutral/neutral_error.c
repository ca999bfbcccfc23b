/* neutral_error.c - an error of a provider's, in no dialect's words.
 *
 * All dialects put an object under "error" with a message and some of type, code, status and param,
 * and the words do not collide, so one reader understands all of them. Gemini sometimes puts an
 * array around it, and details that name the reason and the wait; OpenRouter's code is a number,
 * and comes with 200.
 *
 * Clients compact a conversation when they are told that it is too long, and each knows it by other
 * signs: OpenAI's by a code, Anthropic's by how the message begins. So this class is found by the
 * texts of all providers, and told in the client's own form.
 */
#include "server/dialect/neutral/neutral_error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/utf8.h"

/* What a client is told, by class. */
static const struct {
    int openai_status, anthropic_status;
    const char *openai_type, *openai_code, *anthropic_type;
} told[ERROR_CLASS_COUNT] = {
    [ERROR_BAD_REQUEST] = {400, 400, "invalid_request_error", NULL, "invalid_request_error"},
    [ERROR_AUTH] = {401, 401, "invalid_request_error", "invalid_api_key", "authentication_error"},
    [ERROR_BILLING] = {429, 402, "insufficient_quota", "insufficient_quota", "billing_error"},
    [ERROR_PERMISSION] = {403, 403, "invalid_request_error", NULL, "permission_error"},
    [ERROR_NOT_FOUND] = {404, 404, "invalid_request_error", "model_not_found", "not_found_error"},
    [ERROR_TOO_LARGE] = {413, 413, "invalid_request_error", NULL, "request_too_large"},
    [ERROR_CONTEXT] = {400, 400, "invalid_request_error", "context_length_exceeded",
                       "invalid_request_error"},
    [ERROR_RATE] = {429, 429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
    [ERROR_OVERLOADED] = {503, 529, "server_error", "overloaded", "overloaded_error"},
    [ERROR_TIMEOUT] = {504, 504, "server_error", "timeout", "timeout_error"},
    [ERROR_SERVER] = {500, 500, "server_error", NULL, "api_error"},
    [ERROR_FILTER] = {400, 400, "invalid_request_error", "content_policy_violation",
                      "invalid_request_error"},
};

void neutral_error_init(struct neutral_error *error, enum error_class class, const char *message)
{
    *error = (struct neutral_error){.class = class};
    snprintf(error->message, sizeof error->message, "%s", message);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void keep_word(char word[ERROR_WORD_MAX], const struct json_value *value)
{
    size_t n = 0;

    if (value->kind == JSON_INTEGER)
        snprintf(word, ERROR_WORD_MAX, "%lld", (long long)value->integer);
    if (value->kind != JSON_STRING)
        return;
    for (; n < value->string.size && n < ERROR_WORD_MAX - 1; n++) {
        char c = value->string.bytes[n];
        word[n] = (char)(c > ' ' && c < 0x7f ? c : '_');
    }
    word[n] = '\0';
}

/* Cut between characters. Control characters would command a terminal that shows a log. */
static void keep_message(char message[ERROR_MESSAGE_MAX], struct json_text text)
{
    size_t n = 0;

    while (n < text.size) {
        size_t bytes = utf8_bytes(text.bytes + n, text.size - n);
        if (bytes == 0 || n + bytes > ERROR_MESSAGE_MAX - 1)
            break;
        n += bytes;
    }
    for (size_t i = 0; i < n; i++)
        message[i] =
            (char)((unsigned char)text.bytes[i] < ' ' || text.bytes[i] == 0x7f ? ' '
                                                                               : text.bytes[i]);
    message[n] = '\0';
}

/* "34s", "1.5s" */
static int64_t delay_ms(struct json_text text)
{
    char digits[32];
    size_t n = text.size < sizeof digits - 1 ? text.size : sizeof digits - 1;

    memcpy(digits, text.bytes, n);
    digits[n] = '\0';
    double seconds = strtod(digits, NULL);
    return seconds > 0 && seconds < 86400 ? (int64_t)(seconds * 1000) : 0;
}

/* Gemini's [{"@type": "...RetryInfo", "retryDelay": "34s"}, {"reason": "API_KEY_INVALID"}], and
 * Anthropic's {"error_code": "..."}. */
static void read_details(struct json_reader *json, const struct json_value *value,
                         struct neutral_error *error)
{
    struct json_text key;
    struct json_value inner;

    if ((value->kind != JSON_OBJECT && value->kind != JSON_ARRAY) || !json_enter(json))
        return;
    while (json_next(json, &key, &inner)) {
        if (json_text_is(key, "retryDelay") && inner.kind == JSON_STRING)
            error->retry_ms = delay_ms(inner.string);
        else if (json_text_is(key, "reason") || json_text_is(key, "error_code") ||
                 json_text_is(key, "quotaId"))
            keep_word(error->code, &inner);
        else if (json_text_is(key, "violations") || key.size == 0)
            read_details(json, &inner, error);
    }
}

static bool contains(const char *text, const char *what)
{
    size_t n = strlen(what);

    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (i < n && tolower((unsigned char)text[i]) == tolower((unsigned char)what[i]))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static bool says_context(const struct neutral_error *error)
{
    static const char *const signs[] = {
        "maximum context length is",
        "prompt is too long",
        "exceed context limit",
        "exceeds the maximum number of tokens allowed",
        "longer than the model's context length",
        "input is too long for requested model",
        "please reduce the length of the messages",
    };

    if (strcmp(error->code, "context_length_exceeded") == 0)
        return true;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (contains(error->message, signs[i]))
            return true;
    return contains(error->message, "context window") && contains(error->message, "exceed");
}

static enum error_class class_of_status(int status)
{
    switch (status) {
    case 401:
        return ERROR_AUTH;
    case 402:
        return ERROR_BILLING;
    case 403:
        return ERROR_PERMISSION;
    case 404:
        return ERROR_NOT_FOUND;
    case 413:
        return ERROR_TOO_LARGE;
    case 429:
        return ERROR_RATE;
    case 408:
    case 504:
        return ERROR_TIMEOUT;
    case 503:
    case 529:
        return ERROR_OVERLOADED;
    default:
        return status >= 400 && status < 500 ? ERROR_BAD_REQUEST : ERROR_SERVER;
    }
}

/* The words of all dialects; the first that is found counts. */
static bool class_of_code(const struct neutral_error *error, enum error_class *class)
{
    static const struct {
        const char *word;
        enum error_class class;
    } words[] = {
        {"insufficient_quota", ERROR_BILLING},
        {"billing_error", ERROR_BILLING},
        {"enforced_spend_limit_reached", ERROR_BILLING},
        {"API_KEY_INVALID", ERROR_AUTH},
        {"invalid_api_key", ERROR_AUTH},
        {"authentication_error", ERROR_AUTH},
        {"UNAUTHENTICATED", ERROR_AUTH},
        {"content_policy_violation", ERROR_FILTER},
        {"content_filter", ERROR_FILTER},
        {"permission_error", ERROR_PERMISSION},
        {"PERMISSION_DENIED", ERROR_PERMISSION},
        {"model_not_found", ERROR_NOT_FOUND},
        {"not_found_error", ERROR_NOT_FOUND},
        {"NOT_FOUND", ERROR_NOT_FOUND},
        {"request_too_large", ERROR_TOO_LARGE},
        {"rate_limit_exceeded", ERROR_RATE},
        {"rate_limit_error", ERROR_RATE},
        {"RESOURCE_EXHAUSTED", ERROR_RATE},
        {"throttlingException", ERROR_RATE},
        {"overloaded_error", ERROR_OVERLOADED},
        {"overloaded", ERROR_OVERLOADED},
        {"UNAVAILABLE", ERROR_OVERLOADED},
        {"serviceUnavailableException", ERROR_OVERLOADED},
        {"timeout_error", ERROR_TIMEOUT},
        {"DEADLINE_EXCEEDED", ERROR_TIMEOUT},
        {"modelTimeoutException", ERROR_TIMEOUT},
        {"server_error", ERROR_SERVER},
        {"api_error", ERROR_SERVER},
        {"INTERNAL", ERROR_SERVER},
        {"internalServerException", ERROR_SERVER},
        {"modelStreamErrorException", ERROR_SERVER},
        {"invalid_prompt", ERROR_BAD_REQUEST},
        {"invalid_request_error", ERROR_BAD_REQUEST},
        {"INVALID_ARGUMENT", ERROR_BAD_REQUEST},
        {"FAILED_PRECONDITION", ERROR_BAD_REQUEST},
        {"validationException", ERROR_BAD_REQUEST},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(error->code, words[i].word) == 0 || strcmp(error->type, words[i].word) == 0) {
            *class = words[i].class;
            return true;
        }
    return false;
}

/* A daily quota of Gemini's does not come back in the time that anyone waits. */
static bool is_daily(const struct neutral_error *error)
{
    return contains(error->code, "PerDay");
}

static void classify(struct neutral_error *error, int status)
{
    int number = atoi(error->code); /* some put the status there */

    if (status < 400 && number >= 400 && number < 600)
        status = number;
    if (says_context(error)) {
        error->class = ERROR_CONTEXT;
    } else if (!class_of_code(error, &error->class) ||
               (error->class == ERROR_BAD_REQUEST && status > 400) ||
               (error->class == ERROR_SERVER && status > 500)) {
        error->class = class_of_status(status);
    }
    if (error->class == ERROR_RATE && is_daily(error))
        error->class = ERROR_BILLING;
}

void neutral_error_take(struct json_reader *json, const struct json_value *value, int status,
                        struct neutral_error *error)
{
    struct json_text key;
    struct json_value inner;
    struct json_value number = {.kind = JSON_NULL};

    *error = (struct neutral_error){.class = ERROR_SERVER};
    if (value->kind == JSON_STRING) {
        keep_message(error->message, value->string);
    } else if (value->kind == JSON_OBJECT && json_enter(json)) {
        while (json_next(json, &key, &inner)) {
            if (json_text_is(key, "message") && inner.kind == JSON_STRING)
                keep_message(error->message, inner.string);
            else if (json_text_is(key, "type") || json_text_is(key, "status"))
                keep_word(error->type, &inner);
            else if (json_text_is(key, "code") && inner.kind == JSON_INTEGER)
                number = inner;
            else if (json_text_is(key, "code"))
                keep_word(error->code, &inner);
            else if (json_text_is(key, "param"))
                keep_word(error->param, &inner);
            else if (json_text_is(key, "details"))
                read_details(json, &inner, error);
        }
    }
    if (error->code[0] == '\0' && number.kind == JSON_INTEGER)
        keep_word(error->code, &number);
    classify(error, status);
}

/* The object that holds "error", or is one. */
static bool find_error(struct json_reader *json, const struct json_value *root, int status,
                       struct neutral_error *error)
{
    struct json_text key;
    struct json_value value;
    bool found = false;

    if (!json_enter(json))
        return false;
    while (json_next(json, &key, &value)) {
        if (root->kind == JSON_ARRAY && value.kind == JSON_OBJECT && !found) {
            found = find_error(json, &value, status, error);
        } else if (json_text_is(key, "error") && value.kind != JSON_NULL) {
            neutral_error_take(json, &value, status, error);
            found = true;
        } else if (!found && value.kind == JSON_STRING &&
                   (json_text_is(key, "message") || json_text_is(key, "detail"))) {
            keep_message(error->message, value.string);
        } else if (!found && json_text_is(key, "code")) {
            keep_word(error->code, &value); /* an event of the responses API */
        }
    }
    return found;
}

void neutral_error_read(struct json_reader *json, int status, struct slice body,
                        struct neutral_error *error)
{
    struct json_value root;

    *error = (struct neutral_error){.class = class_of_status(status)};
    if (json_begin(json, body.at, body.n, body.n, &root)) {
        if (!find_error(json, &root, status, error))
            classify(error, status);
        (void)json_end(json);
    }
    if (error->message[0] == '\0')
        snprintf(error->message, sizeof error->message, "The provider answered with an error.");
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool is_anthropic(enum dialect to)
{
    return to == DIALECT_ANTHROPIC;
}

int neutral_error_status(const struct neutral_error *error, enum dialect to)
{
    return is_anthropic(to) ? told[error->class].anthropic_status
                            : told[error->class].openai_status;
}

static const char *neutral_error_type(const struct neutral_error *error, enum dialect to)
{
    return is_anthropic(to) ? told[error->class].anthropic_type : told[error->class].openai_type;
}

static const char *neutral_error_code(const struct neutral_error *error)
{
    return told[error->class].openai_code;
}

/* The next number of the message, with or without commas in it; 0: there is none. */
static int64_t next_number(const char **at)
{
    int64_t number = 0;

    while (**at != '\0' && !isdigit((unsigned char)**at))
        (*at)++;
    for (; isdigit((unsigned char)**at) || (**at == ',' && isdigit((unsigned char)(*at)[1]));
         (*at)++)
        if (**at != ',' && number < INT32_MAX)
            number = number * 10 + (**at - '0');
    return number;
}

/* "prompt is too long: N tokens > M maximum": clients match that text. N and M are the two largest
 * numbers that the provider's message has. */
static void write_context_message(const struct neutral_error *error, struct json_writer *out)
{
    char text[ERROR_MESSAGE_MAX + 64];
    const char *at = error->message;
    int64_t most = 0, second = 0, number;

    while ((number = next_number(&at)) > 0)
        if (number > most) {
            second = most;
            most = number;
        } else if (number > second && number < most) {
            second = number;
        }
    if (strncmp(error->message, "prompt is too long", 18) == 0)
        snprintf(text, sizeof text, "%s", error->message);
    else if (second >= 256)
        snprintf(text, sizeof text, "prompt is too long: %lld tokens > %lld maximum",
                 (long long)most, (long long)second);
    else
        snprintf(text, sizeof text, "prompt is too long: %s", error->message);
    json_write_string(out, text, strlen(text));
}

static void write_member(struct json_writer *out, const char *key, const char *text)
{
    json_write_key(out, key);
    if (text == NULL || text[0] == '\0')
        json_write_null(out);
    else
        json_write_string(out, text, strlen(text));
}

void neutral_error_write(const struct neutral_error *error, enum dialect to,
                         struct json_writer *out)
{
    bool anthropic = is_anthropic(to);

    json_write_object(out);
    if (anthropic)
        write_member(out, "type", "error");
    json_write_key(out, "error");
    json_write_object(out);
    write_member(out, "type", neutral_error_type(error, to));
    json_write_key(out, "message");
    if (anthropic && error->class == ERROR_CONTEXT)
        write_context_message(error, out);
    else
        json_write_string(out, error->message, strlen(error->message));
    if (!anthropic) {
        write_member(out, "param", error->class == ERROR_BAD_REQUEST ? error->param : NULL);
        write_member(out, "code", neutral_error_code(error));
    }
    json_write_object_end(out);
    json_write_object_end(out);
}
