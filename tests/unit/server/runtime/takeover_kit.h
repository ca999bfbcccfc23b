/* takeover_kit.h - a folder with a configuration, and the place of a ledger, for takeovers. */
#ifndef TAKEOVER_KIT_H
#define TAKEOVER_KIT_H

#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/runtime/takeover_wire.h"

struct takeover_folder {
    char folder[64], path[100], ledger[100], socket[108];
};

static void takeover_folder_make(struct takeover_folder *place, const char *name)
{
    FILE *file;

    signal(SIGPIPE, SIG_IGN);
    snprintf(place->folder, sizeof place->folder, "/tmp/tollgate-%s-%d", name, (int)getpid());
    assert_int_equal(mkdir(place->folder, 0700), 0);
    snprintf(place->path, sizeof place->path, "%s/t.yaml", place->folder);
    snprintf(place->ledger, sizeof place->ledger, "%s/spend.db", place->folder);
    assert_true(takeover_path(place->ledger, ".takeover", place->socket));
    file = fopen(place->path, "w");
    assert_non_null(file);
    fprintf(file,
            "listen: {gateway: \"127.0.0.1:0\"}\n"
            "ledger: {path: \"%s\"}\n"
            "log: {level: error}\n"
            "providers:\n"
            "  demo: {base_url: \"http://127.0.0.1:1\", api: openai,\n"
            "         keys: [{name: k, secret: s}]}\n"
            "models:\n"
            "  m: {provider: demo, price: {input: 1, output: 1}, max_output_tokens: 100}\n"
            "tenants:\n"
            "  - {name: a, budgets: [{usd: 1, per: total}]}\n",
            place->ledger);
    fclose(file);
}

static void takeover_folder_remove(const struct takeover_folder *place)
{
    char command[120];

    snprintf(command, sizeof command, "rm -rf %s", place->folder);
    assert_int_equal(system(command), 0);
}

#endif
