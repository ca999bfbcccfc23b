/* fuzz_envoy_rls.c - any bytes as rules of Envoy's rate limit service, and any others as a request.
 *
 * What stands before the first zero byte is a file of rules, what stands behind it is a request in
 * JSON.
 * Rules are read or refused, with problems that can be shown; where they are read, the request is
 * decided twice. There is a status for each descriptor, they agree with the whole, and what was
 * refused has been charged nothing.
 */
#define _GNU_SOURCE /* memfd_create */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "insist.h"
#include "server/envoy/envoy_rls_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW INT64_C(1767225600000)

static void check_problems(const struct config_problems *problems)
{
    for (size_t i = 0; i < problems->n; i++) {
        const struct config_problem *problem = &problems->list[i];
        insist(problem->file != NULL && problem->text != NULL && problem->text[0] != '\0');
        insist((problem->line >= 1) == (problem->column >= 1));
    }
}

static void check_rules(const struct envoy_rules *rules)
{
    for (size_t i = 0; i < rules->n_domains; i++)
        insist(envoy_rules_domain(rules, slice_of(rules->domains[i].name)) == &rules->domains[i]);
    for (size_t i = 0; i < rules->n_limits; i++) {
        const struct envoy_rule *rule = rules->limits[i];
        const struct envoy_limit *limit = &rule->limit;
        insist(limit->present && limit->number == i && rule->path != NULL && rule->name.n > 0);
        insist(limit->unlimited || envoy_unit_ms(limit->unit) > 0);
        insist(limit->unlimited ||
               (limit->requests_per_unit >= 0 && limit->requests_per_unit <= UINT32_MAX));
    }
}

static void check_reply(const struct envoy_rls_request *request,
                        const struct envoy_rls_reply *reply)
{
    bool over = false;

    if (reply->result != ENVOY_RLS_DECIDED) {
        insist(reply->message[0] != '\0' && reply->n_statuses == 0);
        return;
    }
    insist(reply->n_statuses == request->n_descriptors);
    for (size_t i = 0; i < reply->n_statuses; i++) {
        const struct envoy_rls_status *status = &reply->statuses[i];
        over |= status->code == ENVOY_RLS_OVER_LIMIT;
        insist(status->has_limit || status->code == ENVOY_RLS_OK);
        insist(!status->has_limit || status->limit_remaining <= status->requests_per_unit);
        insist(status->until_reset >= 0);
    }
    insist(over == (reply->overall == ENVOY_RLS_OVER_LIMIT));
}

/* The same request again, at the same moment. */
static void decide_twice(const struct envoy_rls *rls, struct tg_store *store,
                         const struct envoy_rls_request *request)
{
    static struct envoy_rls_reply first, second;
    struct json_writer out;
    bool meters = false;

    envoy_rls_take(rls, store, request, NOW, &first);
    envoy_rls_take(rls, store, request, NOW, &second);
    check_reply(request, &first);
    check_reply(request, &second);
    for (size_t i = 0; i < request->n_descriptors; i++)
        meters |= request->descriptors[i].has_hits;
    insist(first.result == second.result);
    if (first.overall == ENVOY_RLS_OVER_LIMIT && !meters)
        for (size_t i = 0; i < first.n_statuses; i++)
            insist(first.statuses[i].limit_remaining == second.statuses[i].limit_remaining);
    if (first.result != ENVOY_RLS_DECIDED)
        return;
    json_writer_init(&out);
    envoy_rls_write(&out, &first);
    insist(!out.text.failed);
    json_writer_fini(&out);
}

static void ask(const struct config *config, struct slice body)
{
    static struct json_reader *reader;
    char problem[ENVOY_RLS_MESSAGE_MAX];
    struct tg_store_config settings;
    struct tg_store *store;
    struct envoy_rls *rls;

    if (reader == NULL)
        reader = json_reader_new();
    tg_store_config_init(&settings);
    settings.memory_bytes = 1 << 20;
    settings.shards = 1;
    insist(reader != NULL && tg_store_new(&settings, &store, NULL) == TG_OK);
    struct limit_book *book = limit_book_new(store);
    insist(book != NULL && envoy_rls_new(config, book, NULL, &rls, NULL) == TG_OK);
    struct envoy_rls_message *message = envoy_rls_read(reader, body, body.n, problem);
    insist((message == NULL) == (problem[0] != '\0'));
    if (message != NULL)
        decide_twice(rls, store, &message->request);
    free(message);
    envoy_rls_free(rls);
    limit_book_free(book);
    tg_store_free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t rules = zero != NULL ? (size_t)(zero - data) : size;
    size_t bytes = zero != NULL ? size - rules - 1 : 0;
    int fd = memfd_create("rules", MFD_CLOEXEC);
    char text[100];
    struct config_problems problems;
    struct config config;

    insist(fd >= 0 && write(fd, data, rules) == (ssize_t)rules);
    snprintf(text, sizeof text, "envoy_rls: {config: /proc/self/fd/%d, headers: true}\n", fd);
    enum config_result result = config_parse("fuzz", text, strlen(text), &config, &problems);
    check_problems(&problems);
    insist((result == CONFIG_READ) == (problems.errors == 0));
    if (result == CONFIG_READ) {
        char *body = malloc(bytes + 1); /* its own, so that a step beyond its end is seen */
        insist(body != NULL && config.envoy.rules != NULL);
        if (bytes > 0)
            memcpy(body, zero + 1, bytes);
        check_rules(config.envoy.rules);
        ask(&config, (struct slice){body, bytes});
        free(body);
    }
    config_free(&config);
    config_problems_free(&problems);
    close(fd);
    return 0;
}
