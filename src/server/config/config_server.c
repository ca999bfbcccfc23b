/* config_server.c - what several keys of the server itself say together. */
#include "server/config/config_reader.h"

#include <string.h>

#include "io/redis/redis.h"

/* ---- Listeners ---- */

static bool is_same(const char *a, const char *b)
{
    size_t bytes = a != NULL ? strlen(a) : 0;

    /* With port 0 the system chooses, and not the same one twice. */
    return a != NULL && b != NULL && strcmp(a, b) == 0 && strcmp(a + bytes - 2, ":0") != 0;
}

void config_finish_listen(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct config_listen *listen = into;
    const struct {
        const char *name, *address;
    } all[] = {{"gateway", listen->gateway},
               {"admin", listen->admin},
               {"probe", listen->probe},
               {"grpc", listen->grpc}};

    for (size_t i = 1; i < sizeof all / sizeof all[0]; i++)
        for (size_t k = 0; k < i; k++)
            if (is_same(all[i].address, all[k].address))
                config_error(reader, yaml_tree_get(node, all[i].name),
                             "listen.%s is the address of listen.%s too; each must have its own",
                             all[i].name, all[k].name);
}

void config_finish_sizes(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct config_server_limits *limits = into;

    if (limits->body > limits->buffered_total)
        config_error(reader, node,
                     "limits: body is %lldB and buffered_total %lldB; one body must fit into it",
                     (long long)limits->body, (long long)limits->buffered_total);
}

/* ---- Who is believed ---- */

/* In the order of the words in the schema. */
enum { MAY_TENANT = 1, MAY_PEER = 2, MAY_PRIORITY = 4, MAY_VALUE = 8 };

void config_finish_caller(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_caller *caller = into;

    (void)reader;
    (void)node;
    caller->may_tenant = caller->may & MAY_TENANT;
    caller->may_peer = caller->may & MAY_PEER;
    caller->may_priority = caller->may & MAY_PRIORITY;
    caller->may_value = caller->may & MAY_VALUE;
}

/* ---- The ledger ---- */

/* A daemon is started from anywhere, and whoever asks `tollgate spend` may stand elsewhere. Both
 * must mean the same file, so its path begins at the file that names it. */
static void place_ledger(struct reader *reader, struct config_ledger *to)
{
    if (to->path != NULL && strcmp(to->path, ":memory:") != 0)
        to->path = config_locate(reader, to->path);
}

void config_finish_ledger(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct yaml_node *path = yaml_tree_get(node, "path");
    struct config_ledger *to = into;

    if (path == NULL)
        return;
    /* Not the default: spend that went there would be missing in the right place. */
    if (path->unknown)
        to->path = NULL;
    if (to->path != NULL && to->path[0] == '\0')
        config_error(reader, path, "ledger.path is empty; it must be a file or :memory:");
    place_ledger(reader, to);
}

/* ---- The store ---- */

static void check_store(struct reader *reader, const struct yaml_node *root,
                        const struct config_store *store)
{
    const struct yaml_node *node = yaml_tree_get(root, "store");
    struct redis_options options;
    struct tg_problem problem;

    if (node == NULL || store->url == NULL || !config_store_is_remote(store))
        return;
    redis_options_init(&options);
    if (redis_url_read(store->url, &options, &problem) != TG_OK)
        config_error(reader, node, "store: %s", problem.text);
    redis_options_wipe(&options);
    /* Braces decide about the slot of a key. */
    if (store->prefix != NULL && strpbrk(store->prefix, "{}") != NULL)
        config_error(reader, yaml_tree_get(root, "store_prefix"),
                     "store_prefix is '%s'; it must have no brace in it", store->prefix);
    if ((store->cert == NULL) != (store->key == NULL))
        config_error(reader, yaml_tree_get(root, "store_tls"),
                     "store_tls has a cert without a key, or a key without a cert; it must have "
                     "both or neither");
}

/* The default of the ledger is beside the first file, whether that has a `ledger` or not. */
void config_finish_root(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct yaml_node *given = yaml_tree_get(node, "ledger");

    check_store(reader, node, &((const struct config *)into)->store);
    if (reader->current == 0 &&
        (given == NULL || given->kind != YAML_MAP || yaml_tree_get(given, "path") == NULL))
        place_ledger(reader, &((struct config *)into)->ledger);
}
