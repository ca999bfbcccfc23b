/* http.c - what a message is: comparing, looking up, collecting fields. See http.h. */
#include "io/http/http.h"

#include <assert.h>

#include "io/text/text_out.h"

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

bool slice_equal_nocase(struct slice a, struct slice b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (a.at[i] != b.at[i] && lower(a.at[i]) != lower(b.at[i]))
            return false;
    return true;
}

bool http_next(const struct http_head *head, struct slice name, size_t *i, struct slice *value)
{
    while (*i < head->n_fields) {
        const struct http_field *field = &head->fields[(*i)++];

        if (field->name.n == name.n && slice_equal_nocase(field->name, name)) {
            *value = field->value;
            return true;
        }
    }
    return false;
}

struct slice http_find(const struct http_head *head, struct slice name)
{
    struct slice value = {NULL, 0};
    size_t i = 0;

    if (http_next(head, name, &i, &value) && value.at == NULL)
        value.at = "";
    return value;
}

size_t http_count(const struct http_head *head, struct slice name)
{
    struct slice value;
    size_t i = 0, n = 0;

    while (http_next(head, name, &i, &value))
        n++;
    return n;
}

/* Takes the next token of a comma-separated list off its front. */
static bool next_token(struct slice *list, struct slice *token)
{
    if (list->n == 0)
        return false;
    const char *comma = memchr(list->at, ',', list->n);
    size_t n = comma != NULL ? (size_t)(comma - list->at) : list->n;

    *token = (struct slice){list->at, n};
    while (token->n > 0 && (*token->at == ' ' || *token->at == '\t'))
        token->at++, token->n--;
    while (token->n > 0 && (token->at[token->n - 1] == ' ' || token->at[token->n - 1] == '\t'))
        token->n--;
    n += comma != NULL;
    list->at += n;
    list->n -= n;
    return true;
}

bool http_has_token(const struct http_head *head, struct slice name, struct slice token)
{
    struct slice list, found;
    size_t i = 0;

    while (http_next(head, name, &i, &list))
        while (next_token(&list, &found))
            if (slice_equal_nocase(found, token))
                return true;
    return false;
}

/* By length, which settles it for nearly all that are asked about: every field is, on its way in
 * and on its way out. */
static bool is_hop_name(struct slice name)
{
    switch (name.n) {
    case 2:
        return slice_equal_nocase(name, SLICE("te"));
    case 4:
        return slice_equal_nocase(name, SLICE("host"));
    case 6:
        return slice_equal_nocase(name, SLICE("expect"));
    case 7:
        return slice_equal_nocase(name, SLICE("trailer")) ||
               slice_equal_nocase(name, SLICE("upgrade"));
    case 10:
        return slice_equal_nocase(name, SLICE("connection")) ||
               slice_equal_nocase(name, SLICE("keep-alive"));
    case 14:
        return slice_equal_nocase(name, SLICE("content-length"));
    case 16:
        return slice_equal_nocase(name, SLICE("proxy-connection"));
    case 17:
        return slice_equal_nocase(name, SLICE("transfer-encoding"));
    case 18:
        return slice_equal_nocase(name, SLICE("proxy-authenticate"));
    case 19:
        return slice_equal_nocase(name, SLICE("proxy-authorization"));
    default:
        return false;
    }
}

struct http_hops http_hops_of(const struct http_head *head)
{
    return (struct http_hops){head, http_find(head, SLICE("connection")).at != NULL};
}

bool http_hops_has(const struct http_hops *hops, struct slice name)
{
    return is_hop_name(name) ||
           (hops->named && http_has_token(hops->head, SLICE("connection"), name));
}

bool http_is_hop(const struct http_head *head, struct slice name)
{
    return is_hop_name(name) || http_has_token(head, SLICE("connection"), name);
}

bool http_expects_no_more(const struct http_head *head)
{
    struct slice value;
    size_t i = 0;

    while (http_next(head, SLICE("expect"), &i, &value))
        if (!slice_equal_nocase(value, SLICE("100-continue")))
            return false;
    return true;
}

bool http_is_host(struct slice text)
{
    static const char others[] = "-._~!$&'()*+,;=:%[]";

    for (size_t i = 0; i < text.n; i++) {
        char c = text.at[i], small = (char)(c | 0x20);
        if (!((c >= '0' && c <= '9') || (small >= 'a' && small <= 'z') ||
              (c != '\0' && strchr(others, c) != NULL)))
            return false;
    }
    return true;
}

bool http_fields_add(struct http_fields *fields, struct slice name, struct slice value)
{
    assert(fields->n <= HTTP_FIELDS_MAX);
    if (fields->n == HTTP_FIELDS_MAX)
        return false;
    fields->list[fields->n++] = (struct http_field){name, value};
    return true;
}

void http_fields_drop(struct http_fields *fields, struct slice name)
{
    size_t kept = 0;

    for (size_t i = 0; i < fields->n; i++)
        if (!slice_equal_nocase(fields->list[i].name, name))
            fields->list[kept++] = fields->list[i];
    fields->n = kept;
}

size_t http_put_number(char text[HTTP_NUMBER_MAX], int64_t number)
{
    char digits[TEXT_DIGITS_MAX];
    size_t sign = number < 0;
    size_t n = text_digits(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, digits);

    assert(sign + n <= HTTP_NUMBER_MAX);
    *text = '-';
    memcpy(text + sign, digits, n);
    return sign + n;
}

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {100, "Continue"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {425, "Too Early"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
        {529, "Overloaded"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Unknown";
}

const char *http_why_text(enum http_why why)
{
    switch (why) {
    case HTTP_DONE:
        return "done";
    case HTTP_HANGUP:
        return "client_hangup";
    case HTTP_ABORTED:
        return "aborted";
    case HTTP_ERROR:
        return "client_error";
    case HTTP_TIMEOUT:
        return "client_timeout";
    case HTTP_UNRESOLVED:
        return "upstream_unresolved";
    case HTTP_UNREACHABLE:
        return "upstream_unreachable";
    case HTTP_UNTRUSTED:
        return "upstream_untrusted";
    case HTTP_NO_TUNNEL:
        return "proxy_refused";
    case HTTP_LATE_CONNECT:
        return "upstream_connect_timeout";
    case HTTP_LATE_FIRST_BYTE:
        return "upstream_first_byte_timeout";
    case HTTP_LATE_IDLE:
        return "upstream_idle_timeout";
    case HTTP_LATE_TOTAL:
        return "upstream_total_timeout";
    case HTTP_RESET:
        return "upstream_reset";
    case HTTP_GARBAGE:
        return "upstream_garbage";
    case HTTP_UNFIT:
        return "request_unfit";
    case HTTP_NO_MEMORY:
        return "no_memory";
    }
    return "unknown";
}

const char *http_cause_name(enum http_cause cause)
{
    static const char *const names[HTTP_CAUSES] = {
        [HTTP_CAUSE_NAME] = "name_not_found",
        [HTTP_CAUSE_REFUSED] = "refused",
        [HTTP_CAUSE_UNREACHABLE] = "unreachable",
        [HTTP_CAUSE_CERTIFICATE] = "certificate",
        [HTTP_CAUSE_HANDSHAKE] = "handshake",
        [HTTP_CAUSE_PROXY] = "proxy",
        [HTTP_CAUSE_RESET] = "reset",
        [HTTP_CAUSE_CLOSED] = "closed_early",
        [HTTP_CAUSE_GARBAGE] = "garbage",
        [HTTP_CAUSE_CONNECT_TIMEOUT] = "connect_timeout",
        [HTTP_CAUSE_HANDSHAKE_TIMEOUT] = "handshake_timeout",
        [HTTP_CAUSE_FIRST_BYTE_TIMEOUT] = "first_byte_timeout",
        [HTTP_CAUSE_IDLE_TIMEOUT] = "idle_timeout",
        [HTTP_CAUSE_TOTAL_TIMEOUT] = "total_timeout",
        [HTTP_CAUSE_REQUEST] = "request",
        [HTTP_CAUSE_MEMORY] = "memory",
    };

    return names[cause];
}
