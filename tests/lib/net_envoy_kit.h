/* net_envoy_kit.h - Envoy's rate limit service without a wire: rules from a file, requests written
 * short, answers as a line of codes.
 *
 * Rules go into a folder of the test's own and are read with a configuration, as `serve` does.
 */
#ifndef NET_ENVOY_KIT_H
#define NET_ENVOY_KIT_H

#include "check.h"
#include "server/envoy/envoy_rls.h"

#define ENVOY_NOW INT64_C(1767225600000) /* a start of a day, and so of all shorter units */

#define ENVOY_FOLDER_MAX 64

/* A new one, whose name it fills in. */
void envoy_make_folder(char folder[ENVOY_FOLDER_MAX]);

struct envoy_world {
    char folder[ENVOY_FOLDER_MAX];
    struct config config;
    struct config_problems problems;
    struct tg_store *store;
    struct limit_book *book;
    struct envoy_rls *rls;
    tg_ms now;
    struct envoy_rls_reply reply;
};

/* Rules of many kinds. */
extern const char envoy_mail[];

/* `section` is what `envoy_rls` holds beside the file. */
void envoy_open_with(struct envoy_world *world, const char *section, const char *rules,
                     size_t memory);
void envoy_open(struct envoy_world *world, const char *rules);
void envoy_close(struct envoy_world *world);

/* The rules are these from now on: what `serve` does at a reload. */
void envoy_reload(struct envoy_world *world, const char *rules);

/* Out of the configuration, which is there. */
void envoy_make(struct envoy_world *world);

enum { ENVOY_KIT_ENTRIES = 24 };

/* "a=1 b=2|c=3": two descriptors, the first of two entries. In brackets behind a descriptor:
 * "[5/minute]" a limit that it brings along, "[+3]" hits of its own, "[-3]" such that are to be
 * given back. */
struct envoy_asked {
    char text[600];
    struct envoy_rls_entry entries[ENVOY_KIT_ENTRIES];
    struct envoy_rls_descriptor descriptors[8];
    struct envoy_rls_request request;
};

void envoy_parse(struct envoy_asked *to, const char *domain, const char *text);

/* The answer is the world's until the next question. */
const struct envoy_rls_reply *envoy_ask_hits(struct envoy_world *world, const char *domain,
                                             const char *text, uint64_t hits);
const struct envoy_rls_reply *envoy_ask(struct envoy_world *world, const char *domain,
                                        const char *text);

/* Asks, and compares the codes of all statuses: "O" is OK, "X" over its limit, "-" OK without a
 * limit; behind a colon the overall code. */
#define envoy_expect(world, domain, text, want) envoy_expect_at(world, domain, text, want, __LINE__)
void envoy_expect_at(struct envoy_world *world, const char *domain, const char *text,
                     const char *want, int line);

/* How many of these are admitted, one after the other, at one moment. */
int envoy_admitted(struct envoy_world *world, const char *domain, const char *text, int most);

#endif
