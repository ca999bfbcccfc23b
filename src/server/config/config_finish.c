/* config_finish.c - what several keys of one section say together.
 *
 * The reader (config_sections.c) calls one of these for a section when each of its keys has been
 * read by itself; the schema's tables say which. The policy and tenants have files of their own,
 * since they depend on other sections.
 *
 * A provider is data: what is written there is put into requests as it stands. So everything that
 * could end a header or a request line early, or carry a call elsewhere, is refused here, and a
 * query is escaped once rather than in each call.
 */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "io/redis/redis.h"
#include "lib/core/num.h"
#include "server/config/config_index.h"
#include "server/config/config_reader.h"
#include "server/config/config_values.h"
#include "server/dialect/ask.h"

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
                             "listen.%s has the same address as listen.%s; each must have its own",
                             all[i].name, all[k].name);
}

void config_finish_sizes(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct config_server_limits *limits = into;

    if (limits->body > limits->buffered_total)
        config_error(reader, node,
                     "limits: body is %lldB and buffered_total %lldB; buffered_total must be at "
                     "least as large as body",
                     (long long)limits->body, (long long)limits->buffered_total);
}

/* ---- Callers ---- */

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

/* The bits are those of enum jwt_algorithm, whose order the words in the schema have. */
void config_finish_callers_jwt(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_callers_jwt *to = into;

    if (yaml_tree_get(node, "algorithms") == NULL)
        to->algorithms = 1u << CONFIG_RS256 | 1u << CONFIG_ES256;
    else if (to->algorithms == 0)
        config_error(reader, yaml_tree_get(node, "algorithms"),
                     "callers_jwt.algorithms is empty; name one or more, or leave it out for "
                     "RS256 and ES256");
    if (to->stale < to->refresh)
        config_error(reader, node,
                     "callers_jwt.stale is shorter than refresh: keys would be given up before "
                     "newer ones are fetched");
}

/* Requests that a proxy asks about are asked in the name of one caller that no token has. */
void config_finish_authz(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct yaml_node *tenant = yaml_tree_get(node, "tenant");
    struct config_authz *to = into;

    to->entry = (struct config_caller){.name = "ext_authz",
                                       .may_tenant = true,
                                       .may_peer = true,
                                       .may_priority = true,
                                       .may_value = true};
    if (to->known_by == CONFIG_AUTHZ_BY_HEADER && tenant == NULL)
        config_error(reader, node,
                     "ext_authz.tenant is missing: `known_by: header` needs the header, such as "
                     "`tenant: \"header:x-team\"`");
    else if (to->known_by != CONFIG_AUTHZ_BY_HEADER && tenant != NULL)
        config_error(reader, tenant,
                     "ext_authz.tenant is read with `known_by: header` alone; without it a "
                     "client could name any tenant");
}

/* ---- The ledger ---- */

/* A daemon is started from anywhere, and whoever asks `tollgate spend` may stand elsewhere. Both
 * must mean the same file, so its path begins at the file that names it. */
static void place_ledger(struct reader *reader, struct config_ledger *to)
{
    if (to->path != NULL && strcmp(to->path, ":memory:") != 0)
        to->path = config_locate(reader, to->path);
}

static void finish_export(struct reader *reader, const struct yaml_node *node,
                          struct config_ledger *to)
{
    if (to->export == NULL)
        return;
    if (to->export[0] == '\0')
        config_error(reader, node, "ledger.export is empty; it must be a folder");
    else if (to->path != NULL && strcmp(to->path, ":memory:") == 0)
        config_error(reader, node,
                     "ledger.export needs a ledger in a file: ledger.path is "
                     ":memory:");
    else
        to->export = config_locate(reader, to->export);
}

void config_finish_ledger(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct yaml_node *path = yaml_tree_get(node, "path");
    struct config_ledger *to = into;

    finish_export(reader, config_child_or_self(node, "export"), to);
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

/* ---- The gate ---- */

/* The defaults are those of the law, and make room for what is given: `{law: fixed, initial: 4}`
 * means what it says, although the default of min is above it. What is given stands as it is, and
 * is checked. */
static void fit_defaults(const struct yaml_node *node, struct tg_law_config *law)
{
    bool initial = yaml_tree_get(node, "initial") != NULL;
    bool min = yaml_tree_get(node, "min") != NULL;
    bool max = yaml_tree_get(node, "max") != NULL;
    struct tg_law_config own;

    tg_law_config_choose(&own, law->law);
    if (!initial)
        law->initial = own.initial;
    if (!min)
        law->min = own.min;
    if (!max)
        law->max = num_min(law->max, own.max);
    if (!min && initial)
        law->min = num_min(law->min, law->initial);
    if (!min && max)
        law->min = num_min(law->min, law->max);
    if (!max && initial)
        law->max = num_max(law->max, law->initial);
    if (!max && min)
        law->max = num_max(law->max, law->min);
    if (!initial && law->min <= law->max)
        law->initial = num_max(law->min, num_min(law->initial, law->max));
}

void config_finish_concurrency(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_concurrency *concurrency = into;
    struct tg_problem problem;

    fit_defaults(node, &concurrency->law);
    if (tg_law_config_check(&concurrency->law, &problem) != TG_OK)
        config_error(reader, node, "%s: %s", reader->path, problem.text);
}

void config_finish_memory(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct config_memory *memory = into;

    if (memory->pressure > memory->critical || memory->critical > memory->limit)
        config_error(reader, node,
                     "%s: pressure is %g, critical %g and limit %g; each must be at least the one "
                     "before it",
                     reader->path, memory->pressure, memory->critical, memory->limit);
}

/* ---- Providers: headers ---- */

/* Where a message ends, how it is packed and to whom it goes is not for a configuration to say. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"host",
                                       "content-length",
                                       "transfer-encoding",
                                       "connection",
                                       "proxy-connection",
                                       "keep-alive",
                                       "upgrade",
                                       "te",
                                       "trailer",
                                       "expect",
                                       "accept-encoding"};

    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strcasecmp(name, ours[i]) == 0)
            return true;
    return strncasecmp(name, "x-tollgate-", strlen("x-tollgate-")) == 0;
}

static bool is_above(const struct yaml_node *map, const struct yaml_node *below)
{
    for (const struct yaml_node *child = map->first; child != below; child = child->next)
        if (strcasecmp(child->key->text, below->key->text) == 0)
            return true;
    return false;
}

static void check_set_header(struct reader *reader, const struct yaml_node *set,
                             const struct yaml_node *node, const char *auth_header)
{
    const char *name = node->key->text;

    if (!value_is_field(name))
        config_error(reader, node->key,
                     "%s.headers.set: \"%.60s\" is not the name of a header; it must be a token",
                     reader->path, name);
    else if (is_ours(name))
        config_error(reader, node->key,
                     "%s.headers.set: the header %.60s is the gateway's own; it cannot be set",
                     reader->path, name);
    else if (auth_header != NULL && strcasecmp(name, auth_header) == 0)
        config_error(reader, node->key,
                     "%s.headers.set: the header %.60s carries the key; it must not be set",
                     reader->path, name);
    else if (is_above(set, node))
        config_error(reader, node->key,
                     "%s.headers.set: the header %.60s is given twice; each is allowed once",
                     reader->path, name);
}

enum { SET_HEADERS_MAX = 64 };

static void finish_headers(struct reader *reader, const struct yaml_node *node,
                           struct config_provider *provider)
{
    const struct yaml_node *set = yaml_tree_get(yaml_tree_get(node, "headers"), "set");

    if (set != NULL && set->kind == YAML_MAP && set->n > SET_HEADERS_MAX)
        config_error(reader, set, "%s.headers.set has %zu headers; at most %d are allowed",
                     reader->path, set->n, SET_HEADERS_MAX);
    else if (set != NULL && set->kind == YAML_MAP)
        for (const struct yaml_node *child = set->first; child != NULL; child = child->next)
            check_set_header(reader, set, child, provider->auth_header);
    for (size_t i = 0; i < provider->set_headers.n; i++)
        provider->set_headers.list[i].name =
            config_lower(reader, provider->set_headers.list[i].name);
}

/* Tokens and signatures have one place. */
static const char *auth_header_of(const struct config_provider *provider)
{
    enum config_api api = provider->api;

    if (provider->auth != CONFIG_AUTH_HEADER)
        return "authorization";
    if (provider->preset == CONFIG_PRESET_AZURE)
        return "api-key";
    return api == CONFIG_ANTHROPIC ? "x-api-key"
           : api == CONFIG_GEMINI  ? "x-goog-api-key"
                                   : "authorization";
}

/* A prefix of its own is for the header that is called so everywhere. */
static void finish_auth(struct reader *reader, const struct yaml_node *node,
                        struct config_provider *provider)
{
    const struct yaml_node *header = yaml_tree_get(yaml_tree_get(node, "auth"), "header");

    if (provider->auth_header == NULL)
        provider->auth_header = auth_header_of(provider);
    if (provider->auth_prefix == NULL)
        provider->auth_prefix =
            strcmp(provider->auth_header, "authorization") == 0 ? "Bearer " : "";
    if (is_ours(provider->auth_header))
        config_error(reader, header,
                     "%s.auth.header is %.60s, the gateway's own; it must be another one",
                     reader->path, provider->auth_header);
    if (strlen(provider->auth_prefix) > 64)
        config_error(reader, yaml_tree_get(yaml_tree_get(node, "auth"), "prefix"),
                     "%s.auth.prefix is too long; it must be at most 64 characters", reader->path);
}

/* ---- Providers: where they are ---- */

static const char *percent_encode(struct reader *reader, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    char *escaped = config_alloc(reader, strlen(text) * 3 + 1);
    size_t n = 0;

    for (; escaped != NULL && *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            escaped[n++] = *text;
        else
            n += (size_t)snprintf(escaped + n, 4, "%%%02X", (unsigned)(unsigned char)*text);
    }
    assert(escaped == NULL || escaped[n] == '\0');
    return escaped;
}

static bool ends_in_v1(const char *path)
{
    size_t bytes = path != NULL ? strlen(path) : 0;

    return bytes >= 3 && strcmp(path + bytes - 3, "/v1") == 0;
}

/* What SDKs call a base URL ends in /v1; here calls bring that themselves. */
static void finish_path(struct reader *reader, const struct yaml_node *node,
                        struct config_provider *provider)
{
    const struct yaml_node *prefix = yaml_tree_get(node, "path_prefix");

    if (provider->path_prefix != NULL && strcmp(provider->path_prefix, "/") == 0)
        provider->path_prefix = "";
    if (prefix != NULL && ends_in_v1(provider->path_prefix))
        config_warning(reader, prefix, "%s.path_prefix ends in /v1, and so every path has it twice",
                       reader->path);
    else if (ends_in_v1(provider->base.path) && provider->path_prefix[0] == '\0')
        config_warning(reader, yaml_tree_get(node, "base_url"),
                       "%s.base_url ends in /v1, and so every path has it twice", reader->path);
}

static void finish_proxy(struct reader *reader, const struct yaml_node *node,
                         struct config_provider *provider)
{
    struct value_url url;

    if (provider->proxy == NULL || strcmp(provider->proxy, "none") == 0) {
        provider->proxy = NULL;
        return;
    }
    if (value_url(provider->proxy, &url) && (url.tls || url.path_bytes > 0 || url.has_query))
        config_error(reader, yaml_tree_get(node, "proxy"),
                     "%s.proxy is not the address of a proxy; it must be none or http://HOST:PORT",
                     reader->path);
}

/* ---- Providers: the whole ---- */

/* Keys of a list that have the same name. */
static void check_key_names(struct reader *reader, const struct yaml_node *keys)
{
    struct config_index *index;
    size_t i = 0;

    if (keys == NULL || keys->kind != YAML_LIST || keys->n < 2)
        return;
    index = config_scratch_index(reader, keys->n);
    if (index == NULL)
        return;
    for (const struct yaml_node *key = keys->first; key != NULL; key = key->next, i++) {
        const struct yaml_node *name = yaml_tree_get(key, "name");
        if (name == NULL || name->kind != YAML_TEXT || name->unknown)
            continue;
        size_t first = config_index_put(index, name->text, i);
        if (first != CONFIG_INDEX_NONE)
            config_error(reader, name,
                         "%s.keys[%zu].name is \"%.60s\", which keys[%zu] has already; each name "
                         "is allowed once",
                         reader->path, i, name->written, first);
    }
}

/* A key whose limits hold for all models together is a group of its own. */
static void finish_own_groups(struct reader *reader, const struct yaml_node *node,
                              struct config_provider *provider)
{
    static const char PREFIX[] = "key:";
    const struct yaml_node *keys = yaml_tree_get(node, "keys");
    const struct yaml_node *item = keys != NULL && keys->kind == YAML_LIST ? keys->first : NULL;

    for (size_t i = 0; i < provider->n_keys && item != NULL; i++, item = item->next) {
        struct config_provider_key *key = &provider->keys[i];
        if (!key->per_key || key->name == NULL)
            continue;
        if (key->group != NULL)
            config_error(reader, config_child_or_self(item, "per"),
                         "%s.keys[%zu] has both a group and per: key; a group's own limits hold "
                         "for all models together already",
                         reader->path, i);
        size_t size = sizeof PREFIX + strlen(key->name);
        char *name = config_alloc(reader, size);
        if (name == NULL)
            return;
        snprintf(name, size, "%s%s", PREFIX, key->name);
        key->group = name;
        for (size_t g = 0; g < provider->n_groups; g++)
            if (provider->groups[g].name != NULL && strcmp(provider->groups[g].name, name) == 0)
                config_error(reader, config_child_or_self(node, "groups"),
                             "%s.groups: \"%.60s\" is what the key \"%.60s\" with per: key makes "
                             "for itself; it must be another name",
                             reader->path, name, key->name);
    }
}

void config_finish_provider(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_provider *provider = into;

    config_finish_preset(reader, node, provider);
    finish_auth(reader, node, provider);
    finish_headers(reader, node, provider);
    for (size_t i = 0; i < provider->query.n; i++) {
        struct config_pair *pair = &provider->query.list[i];
        pair->name = percent_encode(reader, pair->name);
        pair->value = percent_encode(reader, pair->value);
    }
    finish_path(reader, node, provider);
    finish_proxy(reader, node, provider);
    check_key_names(reader, yaml_tree_get(node, "keys"));
    config_finish_credentials(reader, yaml_tree_get(node, "keys"), provider, provider->keys,
                              provider->n_keys);
    finish_own_groups(reader, node, provider);
}

/* ---- Models ---- */

static bool is_given(const struct yaml_node *section, const char *name)
{
    const struct yaml_node *child = yaml_tree_get(section, name);

    return child != NULL && !child->unknown;
}

/* {200000: 2.0}: a length of context, and what it multiplies prices by. */
static bool read_step(struct reader *reader, const struct yaml_node *node, int64_t *above,
                      int64_t *milli)
{
    if (node->kind != YAML_TEXT || node->unknown || !value_factor(node->text, milli))
        return false; /* said already */
    if (value_count(node->key->text, above) && *above > 0)
        return true;
    config_error(reader, node->key,
                 "%s.price.factors: \"%.40s\" is not a length of context; it must be a number of "
                 "tokens from 1 up",
                 reader->path, node->key->text);
    return false;
}

static void finish_steps(struct reader *reader, const struct yaml_node *factors,
                         struct tg_price *price)
{
    const struct yaml_node *all = yaml_tree_get(factors, "above_tokens");
    const struct yaml_node *output = yaml_tree_get(factors, "above_tokens_output");
    int64_t above, milli;
    size_t n = 0;

    for (const struct yaml_node *node = all != NULL && all->kind == YAML_MAP ? all->first : NULL;
         node != NULL; node = node->next) {
        if (!read_step(reader, node, &above, &milli))
            continue;
        if (n == TG_PRICE_STEPS) {
            config_error(reader, node->key,
                         "%s.price.factors.above_tokens has more than %d lengths", reader->path,
                         TG_PRICE_STEPS);
            return;
        }
        price->steps[n].above = above;
        price->steps[n].input_milli = price->steps[n].output_milli = milli;
        n++;
    }
    for (const struct yaml_node *node = output != NULL && output->kind == YAML_MAP ? output->first
                                                                                   : NULL;
         node != NULL; node = node->next) {
        size_t i = 0;
        if (!read_step(reader, node, &above, &milli))
            continue;
        while (i < n && price->steps[i].above != above)
            i++;
        if (i < n)
            price->steps[i].output_milli = milli;
        else
            config_error(reader, node->key,
                         "%s.price.factors.above_tokens_output: %" PRId64
                         " is not among above_tokens; it must be one of them",
                         reader->path, above);
    }
}

void config_finish_price(struct reader *reader, const struct yaml_node *node, struct tg_price *into)
{
    const struct yaml_node *price = yaml_tree_get(node, "price");

    static const struct {
        const char *name;
        size_t offset;
    } kinds[] = {
        {"cached_input", offsetof(struct tg_price, cached_input)},
        {"cache_write", offsetof(struct tg_price, cache_write)},
        {"cache_write_1h", offsetof(struct tg_price, cache_write_long)},
        {"audio_input", offsetof(struct tg_price, audio_input)},
        {"image_input", offsetof(struct tg_price, image_input)},
        {"audio_output", offsetof(struct tg_price, audio_output)},
        {"image_output", offsetof(struct tg_price, image_output)},
    };

    into->struct_size = sizeof *into; /* so that a kind at 0 is free */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!is_given(price, kinds[i].name)) /* it costs what a plainer kind does */
            *(int64_t *)((char *)into + kinds[i].offset) = -1;
    finish_steps(reader, yaml_tree_get(price, "factors"), into);
}

void config_finish_model(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_model *model = into;
    const struct tg_factor *overbook = &model->overbook;

    model->provider = CONFIG_NONE;
    model->cheaper = CONFIG_NONE;
    model->concurrency.present = true;
    if (model->upstream_model == NULL)
        model->upstream_model = model->name;
    model->stated_context = model->context;
    model->stated_output = model->max_output_tokens;
    config_finish_price(reader, node, &model->price);
    if (!(overbook->min <= overbook->start && overbook->start <= overbook->max))
        config_error(reader, config_child_or_self(node, "overbook"),
                     "%s.overbook: min, start and max are %g, %g and %g; none may be below the one "
                     "before it",
                     reader->path, overbook->min, overbook->start, overbook->max);
    check_key_names(reader, yaml_tree_get(node, "keys"));
    for (size_t i = 0; i < model->n_keys; i++)
        if (model->keys[i].per_key)
            config_error(reader, yaml_tree_get(node, "keys"),
                         "%s.keys[%zu].per is key; that is for keys of a provider, which several "
                         "models use",
                         reader->path, i);
}

/* ---- Servers that are protected ---- */

static bool is_below(const char *path, const char *prefix)
{
    size_t bytes = strlen(prefix);

    if (strcmp(prefix, "/") == 0)
        return true;
    return strncmp(path, prefix, bytes) == 0 && (path[bytes] == '\0' || path[bytes] == '/');
}

/* "GET /api/read", in two. */
static bool read_priority(struct reader *reader, const struct yaml_node *node,
                          const struct config_protect *protect, struct config_protect_priority *to)
{
    const char *text = node->key->text;
    size_t bytes = text[0] == '/' ? 0 : strcspn(text, " ");
    /* The method of an RPC is in its path. */
    const char *method =
        bytes > 0 ? config_bytes(reader, text, bytes) : config_text(reader, "POST");
    const char *path = text + bytes + (text[bytes] == ' ');

    if (method == NULL)
        return false;
    if (strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != strlen(method) || !value_is_path(path)) {
        config_error(reader, node->key,
                     "%s.priorities: \"%.60s\" is not a method and a path; it must be like \"GET "
                     "/x\", or for an RPC \"/package.Service/Method\"",
                     reader->path, text);
        return false;
    }
    if (protect->prefix != NULL && !is_below(path, protect->prefix)) {
        config_error(reader, node->key,
                     "%s.priorities: \"%.60s\" is not below the prefix; its path must begin with "
                     "%.60s",
                     reader->path, text, protect->prefix);
        return false;
    }
    *to = (struct config_protect_priority){.method = method, .path = config_text(reader, path)};
    return node->kind == YAML_TEXT && !node->unknown &&
           schema_find_word("high|normal|low", node->text, &to->priority);
}

void config_finish_protect(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_protect *protect = into;
    const struct yaml_node *map = yaml_tree_get(node, "priorities");

    protect->concurrency.present = true;
    if ((protect->cert == NULL) != (protect->key == NULL))
        config_error(reader, node,
                     "%s has a certificate without a key, or a key without a certificate; it must "
                     "have both or neither",
                     reader->path);
    if (map == NULL || map->kind != YAML_MAP)
        return;
    protect->priorities = config_alloc(reader, (map->n + 1) * sizeof protect->priorities[0]);
    if (protect->priorities == NULL)
        return;
    for (const struct yaml_node *child = map->first; child != NULL; child = child->next)
        if (read_priority(reader, child, protect, &protect->priorities[protect->n_priorities]))
            protect->n_priorities++;
    assert(protect->n_priorities <= map->n);
}
