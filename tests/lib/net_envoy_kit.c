/* net_envoy_kit.c - Envoy's rate limit service without a wire. See net_envoy_kit.h. */
#include "net_envoy_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char envoy_mail[] = "domain: mail\n"
                          "descriptors:\n"
                          "  - key: kind\n"
                          "    value: offer\n"
                          "    descriptors:\n"
                          "      - {key: to, rate_limit: {unit: day, requests_per_unit: 3}}\n"
                          "  - key: to\n"
                          "    rate_limit: {unit: day, requests_per_unit: 7}\n"
                          "  - key: address\n"
                          "    rate_limit: {unit: second, requests_per_unit: 4}\n"
                          "  - key: address\n"
                          "    value: 10.0.0.5\n"
                          "    rate_limit: {unit: second, requests_per_unit: 0}\n"
                          "  - key: address\n"
                          "    value: 10.0.0.6\n"
                          "  - key: path\n"
                          "    value: /files/*\n"
                          "    rate_limit: {unit: minute, requests_per_unit: 2}\n"
                          "  - key: path\n"
                          "    value: /files/big*\n"
                          "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
                          "  - key: path\n"
                          "    value: /files/one\n"
                          "    rate_limit: {unit: minute, requests_per_unit: 5}\n"
                          "  - key: path\n"
                          "    rate_limit: {unit: minute, requests_per_unit: 9}\n"
                          "  - key: level\n"
                          "    value: top\n"
                          "    rate_limit: {unit: hour, requests_per_unit: 6}\n"
                          "    descriptors:\n"
                          "      - key: user\n"
                          "        value: ann*\n"
                          "        rate_limit: {unit: hour, requests_per_unit: 2}\n"
                          "  - key: level\n"
                          "    descriptors:\n"
                          "      - {key: user, rate_limit: {unit: hour, requests_per_unit: 8}}\n"
                          "  - key: inside\n"
                          "    rate_limit: {unlimited: true}\n";

/* ---- a service ---- */

void envoy_make_folder(char folder[ENVOY_FOLDER_MAX])
{
    const char *in = getenv("TMPDIR");
    int bytes = snprintf(folder, ENVOY_FOLDER_MAX - 6, "%.40s/envoy-", in != NULL ? in : "/tmp");

    memset(folder + bytes, 'X', 6); /* to be replaced */
    folder[bytes + 6] = '\0';
    assert_non_null(mkdtemp(folder));
}

static void write_file(const struct envoy_world *world, const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", world->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void read_config(struct envoy_world *world)
{
    char path[128];

    snprintf(path, sizeof path, "%s/c.yaml", world->folder);
    if (config_load(path, &world->config, &world->problems) != CONFIG_READ)
        fail_msg("%zu: %s", world->problems.list[0].line, world->problems.list[0].text);
}

void envoy_make(struct envoy_world *world)
{
    struct envoy_rls *before = world->rls;
    struct tg_problem problem;

    if (envoy_rls_new(&world->config, world->book, before, &world->rls, &problem) != TG_OK ||
        limit_book_apply(world->book, world->now, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    envoy_rls_free(before);
}

/* `section` is what `envoy_rls` holds beside the file. */
void envoy_open_with(struct envoy_world *world, const char *section, const char *rules,
                     size_t memory)
{
    struct tg_store_config store;
    char text[400];

    *world = (struct envoy_world){.now = ENVOY_NOW};
    envoy_make_folder(world->folder);
    snprintf(text, sizeof text,
             "listen: {grpc: \"127.0.0.1:1\"}\nenvoy_rls: {config: rules.yaml%s%s}\n",
             section[0] ? ", " : "", section);
    write_file(world, "c.yaml", text);
    write_file(world, "rules.yaml", rules);
    read_config(world);
    tg_store_config_init(&store);
    store.memory_bytes = memory;
    store.shards = 1;
    assert_int_equal(tg_store_new(&store, &world->store, NULL), TG_OK);
    world->book = limit_book_new(world->store);
    assert_non_null(world->book);
    envoy_make(world);
}

void envoy_open(struct envoy_world *world, const char *rules)
{
    envoy_open_with(world, "", rules, (size_t)4 << 20);
}

/* The rules as they are now: what `serve` does at a reload. */
void envoy_reload(struct envoy_world *world, const char *rules)
{
    struct config before = world->config;
    struct config_problems problems = world->problems;

    write_file(world, "rules.yaml", rules);
    read_config(world);
    envoy_make(world);
    config_free(&before);
    config_problems_free(&problems);
}

void envoy_close(struct envoy_world *world)
{
    char path[128];

    envoy_rls_free(world->rls);
    limit_book_free(world->book);
    tg_store_free(world->store);
    config_free(&world->config);
    config_problems_free(&world->problems);
    snprintf(path, sizeof path, "%s/c.yaml", world->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/rules.yaml", world->folder);
    unlink(path);
    assert_int_equal(rmdir(world->folder), 0);
}

/* ---- requests, written short ---- */

static void parse_brackets(struct envoy_rls_descriptor *to, char *text)
{
    char unit[16];
    unsigned number;

    if (text[0] == '+' || text[0] == '-') {
        to->has_hits = true;
        to->negative = text[0] == '-';
        to->hits = strtoull(text + 1, NULL, 10);
    } else if (sscanf(text, "%u/%15[a-z]", &number, unit) == 2) {
        to->has_limit = true;
        to->requests_per_unit = number;
        to->unit = envoy_unit_find(unit);
    } else {
        fail_msg("\"%s\" is no limit", text);
    }
}

static void parse_word(struct envoy_asked *to, struct envoy_rls_descriptor *descriptor, char *word,
                       size_t *used)
{
    char *equals = strchr(word, '=');

    if (word[0] == '[') {
        word[strcspn(word, "]")] = '\0';
        parse_brackets(descriptor, word + 1);
        return;
    }
    assert_non_null(equals);
    assert_true(*used < ENVOY_KIT_ENTRIES);
    *equals = '\0';
    to->entries[(*used)++] = (struct envoy_rls_entry){slice_of(word), slice_of(equals + 1)};
    descriptor->n_entries++;
}

void envoy_parse(struct envoy_asked *to, const char *domain, const char *text)
{
    size_t used = 0;
    char *rest, *piece, *words;

    memset(to, 0, sizeof *to);
    snprintf(to->text, sizeof to->text, "%s", text);
    to->request.domain = slice_of(domain);
    to->request.descriptors = to->descriptors;
    for (piece = strtok_r(to->text, "|", &rest); piece; piece = strtok_r(NULL, "|", &rest)) {
        struct envoy_rls_descriptor *descriptor = &to->descriptors[to->request.n_descriptors++];
        descriptor->entries = &to->entries[used];
        for (char *word = strtok_r(piece, " ", &words); word; word = strtok_r(NULL, " ", &words))
            parse_word(to, descriptor, word, &used);
    }
}

/* The codes of all statuses: "O" is OK, "X" over its limit, "-" OK without a limit; behind a colon
 * the overall code. */
static const char *codes(const struct envoy_rls_reply *reply, char text[160])
{
    size_t n = 0;

    if (reply->result != ENVOY_RLS_DECIDED)
        return reply->message;
    for (; n < reply->n_statuses; n++)
        text[n] = !reply->statuses[n].has_limit                     ? '-'
                  : reply->statuses[n].code == ENVOY_RLS_OVER_LIMIT ? 'X'
                                                                    : 'O';
    for (size_t i = 0; i < reply->n_statuses; i++)
        if (!reply->statuses[i].has_limit)
            assert_int_equal(reply->statuses[i].code, ENVOY_RLS_OK);
    snprintf(text + n, 160 - n, ":%c", reply->overall == ENVOY_RLS_OVER_LIMIT ? 'X' : 'O');
    return text;
}

const struct envoy_rls_reply *envoy_ask_hits(struct envoy_world *world, const char *domain,
                                             const char *text, uint64_t hits)
{
    struct envoy_asked request;

    envoy_parse(&request, domain, text);
    request.request.hits = hits;
    envoy_rls_take(world->rls, world->store, &request.request, world->now, &world->reply);
    return &world->reply;
}

const struct envoy_rls_reply *envoy_ask(struct envoy_world *world, const char *domain,
                                        const char *text)
{
    return envoy_ask_hits(world, domain, text, 0);
}

void envoy_expect_at(struct envoy_world *world, const char *domain, const char *text,
                     const char *want, int line)
{
    char got[160];

    if (strcmp(codes(envoy_ask(world, domain, text), got), want) != 0)
        fail_msg("line %d: %s: %s, not %s", line, text, codes(&world->reply, got), want);
}

/* How many of these are admitted, one after the other, at one moment. */
int envoy_admitted(struct envoy_world *world, const char *domain, const char *text, int most)
{
    int n = 0;

    while (n < most && envoy_ask(world, domain, text)->overall == ENVOY_RLS_OK)
        n++;
    return n;
}
