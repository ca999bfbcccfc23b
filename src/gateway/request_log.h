/* request_log.h - one line a request, for whoever is on call. Never a prompt, never a secret.
 *
 * The line is made in a buffer on the stack and written with one write(), so that lines of several
 * workers never mix and nothing is allocated. Everything a client chose is escaped and cut.
 */
#ifndef TG_GATEWAY_REQUEST_LOG_H
#define TG_GATEWAY_REQUEST_LOG_H

#include "net/http.h"
#include "tollgate.h"

#define REQUEST_LINE_MAX 4096

struct call;
struct config;

/* What a line says. Empty slices, null texts and negative numbers are left out. */
struct request_line {
    tg_ms at; /* when it ended */
    uint64_t id;
    struct slice tenant, key, user; /* the key is the name of the virtual one */
    const char *endpoint;           /* "chat", "protect" */
    struct slice model_asked, model_served, provider, provider_key;
    struct slice peer, route; /* of a protected route: whom fairness counts, and its prefix */
    int status;               /* 0: none was sent */
    const char *reason;
    const char *failure; /* of the upstream: "upstream_reset" */
    const char *ended;   /* "done", "hangup_queued" */
    int64_t attempts;
    tg_ms waited_ms, ttfb_ms, total_ms;
    bool has_usage; /* then: */
    bool usage_reported;
    struct tg_usage usage;
    tg_micro micro_usd;
    int64_t bytes_out;
};

/* All left out. */
void request_line_init(struct request_line *line);

/* With a newline at its end, which is all that ends it. Returns its bytes. */
size_t request_line_write(const struct request_line *line, bool json, char text[REQUEST_LINE_MAX]);

/* To stderr, as JSON or text by the configuration, if its level lets it through. */
void request_log(const struct call *call);
void request_log_line(const struct config *config, const struct request_line *line);

#endif
