/* config_catalogue.c - prices and limits of common models, for those that a configuration leaves
 * out.
 *
 * A catalogue is a file like share/catalogue.yaml, which is a part of the program: providers by the
 * hosts they serve at, and rows of models with the keys that a configuration has for them. It is
 * read by the reader of the configuration, by tables like its own, after everything else: a row
 * fills in what a model does not say itself.
 *
 *     the configuration  >  the last catalogue with a row of that name  >  its provider's line
 *
 * A price is taken whole or not at all: a cheaper input price beside somebody else's cache price
 * would be nobody's. Rows may have dates, and the one that holds now counts; a row that has ended
 * prices nothing.
 *
 * The catalogue in the program is read only if a provider can be in it: one whose host has a name
 * with a dot, or which says whose rows it takes. Tests and clusters of one's own have neither.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/core/num.h"
#include "server/config/config_reader.h"
#include "server/config/config_schema_rows.h"
#include "server/config/config_values.h"

#define BUILTIN "builtin"
#define DAY_MS INT64_C(86400000)

/* By the Makefile, from share/catalogue.yaml. */
extern const char catalogue_bytes[], catalogue_end[];

/* Both begin with what they say of models, so that the tables for models are theirs, too. */
struct catalogue_provider {
    struct config_model facts; /* the name is the provider's */
    struct config_names hosts;
    const char *rows_of; /* another provider, with the same models at the same prices; or null */
    const struct yaml_node *node;
};

struct catalogue_row {
    struct config_model facts; /* the name is the provider's for it */
    const char *provider;
    struct config_names aliases;
    const char *from, *until; /* dates; null: always */
    tg_ms from_at, until_at;
    const struct yaml_node *node;
};

struct catalogue {
    const char *name; /* "builtin", or the file's */
    const char *checked, *source;
    tg_ms checked_at;
    struct catalogue_provider *providers;
    size_t n_providers;
    struct catalogue_row *rows;
    size_t n_rows;
};

/* ---- tables ---- */

static void finish_provider(struct reader *reader, const struct yaml_node *node, void *into)
{
    (void)reader;
    ((struct catalogue_provider *)into)->node = node;
}

/* 2026-11-30, the beginning of that day in UTC. */
static tg_ms date_at(struct reader *reader, const struct yaml_node *node, const char *key,
                     const char *text, tg_ms otherwise)
{
    char time[64];
    tg_ms at;

    if (text == NULL)
        return otherwise;
    snprintf(time, sizeof time, "%.20sT00:00:00Z", text);
    if (value_time(time, &at))
        return at;
    config_error(reader, config_child_or_self(node, key),
                 "%s.%s is \"%.40s\"; it must be a date such as 2026-11-30", reader->path, key,
                 text);
    return otherwise;
}

static void finish_row(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct catalogue_row *row = into;

    row->node = node;
    row->from_at = date_at(reader, node, "from", row->from, 0);
    row->until_at = date_at(reader, node, "until", row->until, TG_NUMBER_MAX);
    config_finish_price(reader, node, &row->facts.price);
}

static void finish_catalogue(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct catalogue *catalogue = into;

    catalogue->checked_at = date_at(reader, node, "checked", catalogue->checked, 0);
}

#define FACTS                                                                                      \
    COUNT("most_tokens_per_s", 1, NUMBER_MAX, NULL, AT(config_model, most_tokens_per_s), "speed"), \
        WORD("tokenizer", "byte|nfc|nfkc", NULL, AT(config_model, tokenizer), "its family"),       \
        WORD("cut", "stops|runs", NULL, AT(config_model, cut), "what a hang-up does"),             \
        COUNT("image_most", 1, NUMBER_MAX, NULL, AT(config_model, image_most), "tokens"),          \
        COUNT("tool_prompt", 0, NUMBER_MAX, NULL, AT(config_model, tool_prompt), "tokens"),        \
        COUNT("rounds", 1, 1000, NULL, AT(config_model, rounds), "passes"),                        \
        WORD("tpm_counts", "provider|asked|used", NULL, AT(config_model, tpm_counts), "of keys")

static const struct schema_key provider_keys[] = {
    LIST_OF("hosts", SCHEMA_NAME, NULL, AT(catalogue_provider, hosts), "names, and those below"),
    VALUE("rows_of", SCHEMA_NAME, false, NULL, NULL, AT(catalogue_provider, rows_of), "another's"),
    FACTS,
    END,
};

static const struct schema_section providers = {provider_keys, sizeof(struct catalogue_provider),
                                                NOWHERE, finish_provider};

static const struct schema_key row_keys[] = {
    VALUE("id", SCHEMA_NAME, true, NULL, NULL, AT(config_model, name), "its name"),
    LIST_OF("aliases", SCHEMA_NAME, NULL, AT(catalogue_row, aliases), "other names"),
    VALUE("provider", SCHEMA_NAME, true, NULL, NULL, AT(catalogue_row, provider), "whose it is"),
    VALUE("from", SCHEMA_TEXT, false, NULL, NULL, AT(catalogue_row, from), "a date"),
    VALUE("until", SCHEMA_TEXT, false, NULL, NULL, AT(catalogue_row, until), "a date"),
    COUNT("context", 1, NUMBER_MAX, NULL, AT(config_model, context), "tokens"),
    COUNT("max_output_tokens", 1, NUMBER_MAX, NULL, AT(config_model, max_output_tokens), "tokens"),
    SECTION("price", &schema_price, 0, "what it costs"),
    SECTION("image", &schema_image, AT(config_model, image), "by its size"),
    VALUE("cache_write_implicit", SCHEMA_BOOL, false, NULL, "false",
          AT(config_model, cache_write_implicit), "unasked"),
    FACTS,
    END,
};

static const struct schema_section rows = {row_keys, sizeof(struct catalogue_row), NOWHERE,
                                           finish_row};

static const struct schema_key file_keys[] = {
    VALUE("checked", SCHEMA_TEXT, true, NULL, NULL, AT(catalogue, checked), "a date"),
    VALUE("source", SCHEMA_TEXT, false, NULL, NULL, AT(catalogue, source), "where from"),
    NAMED_SECTIONS("providers", &providers, AT(catalogue, providers), AT(catalogue, n_providers),
                   "who serves where"),
    SECTIONS("models", &rows, AT(catalogue, rows), AT(catalogue, n_rows), "rows"),
    END,
};

static const struct schema_section whole_catalogue = {file_keys, sizeof(struct catalogue), NOWHERE,
                                                      finish_catalogue};

/* ---- reading ---- */

static void report_catalogue(void *context, size_t line, size_t column, const char *text)
{
    config_error_at(context, line, column, text);
}

/* Nothing of it is kept among the documents but its name, like Envoy's rules, and nothing in the
 * configuration: hundreds of rows end with the reading. */
static void read_text(struct reader *reader, const char *text, size_t bytes,
                      struct catalogue *catalogue)
{
    struct arena *const kept = reader->config->arena;
    struct yaml_node *root = NULL;

    if (!config_add_document(reader, catalogue->name) ||
        !yaml_tree_read(reader->scratch, text, bytes, report_catalogue, reader, &root))
        return;
    reader->config->arena = reader->scratch;
    config_set_defaults(reader, &whole_catalogue, catalogue);
    config_read_section(reader, &whole_catalogue, root, catalogue);
    reader->config->arena = kept;
}

static void read_catalogue_file(struct reader *reader, struct catalogue *catalogue)
{
    size_t bytes = 0;
    char *text = config_read_whole(catalogue->name, &bytes);

    if (text == NULL)
        return; /* said already */
    config_digest_add(reader, text, bytes);
    read_text(reader, text, bytes, catalogue);
    free(text);
}

static bool is_public(const struct config_provider *provider)
{
    const char *host = provider->base.host;

    return provider->catalogue != NULL ||
           (host != NULL && strchr(host, '.') != NULL && strchr(host, ':') == NULL &&
            strspn(host, "0123456789.") != strlen(host));
}

static bool may_have_rows(const struct config *config)
{
    for (size_t i = 0; i < config->n_providers; i++)
        if (is_public(&config->providers[i]))
            return true;
    return false;
}

static bool is_listed(const struct reader *reader)
{
    for (size_t i = 0; i < reader->n_documents; i++)
        if (yaml_tree_get(reader->documents[i].root, "catalogue") != NULL)
            return true;
    return false;
}

struct catalogues {
    struct catalogue *list;
    size_t n;
};

static bool read_catalogues(struct reader *reader, struct catalogues *all)
{
    struct config_names names = reader->config->catalogue;
    const char *const builtin = BUILTIN;
    const size_t home = reader->current;
    const bool files = reader->documents[0].folder != NULL;

    if (!is_listed(reader))
        names = (struct config_names){(const char **)&builtin, 1};
    all->list = config_scratch(reader, (names.n + 1) * sizeof *all->list);
    for (size_t i = 0; all->list != NULL && i < names.n; i++) {
        struct catalogue *catalogue = &all->list[all->n];
        bool shipped = strcmp(names.names[i], BUILTIN) == 0;
        if (shipped ? !may_have_rows(reader->config) : !files)
            continue;
        *catalogue = (struct catalogue){.name = shipped ? BUILTIN : names.names[i]};
        all->n++;
        if (shipped)
            read_text(reader, catalogue_bytes, (size_t)(catalogue_end - catalogue_bytes),
                      catalogue);
        else
            read_catalogue_file(reader, catalogue);
    }
    reader->current = home;
    return !reader->no_memory && reader->problems->errors == 0 && all->n > 0;
}

/* ---- finding ---- */

/* The host itself, or one below it. */
static bool is_at(const char *host, const struct config_names *hosts)
{
    size_t bytes = strlen(host);

    for (size_t i = 0; i < hosts->n; i++) {
        size_t n = strlen(hosts->names[i]);
        if (n <= bytes && strcmp(host + bytes - n, hosts->names[i]) == 0 &&
            (n == bytes || host[bytes - n - 1] == '.'))
            return true;
    }
    return false;
}

static const struct catalogue_provider *find_catalogue_provider(
    const struct catalogues *all, const struct config_provider *provider)
{
    for (size_t i = all->n; i-- > 0;)
        for (size_t k = 0; k < all->list[i].n_providers; k++) {
            const struct catalogue_provider *one = &all->list[i].providers[k];
            if (provider->catalogue != NULL
                    ? strcmp(provider->catalogue, one->facts.name) == 0
                    : provider->base.host != NULL && is_at(provider->base.host, &one->hosts))
                return one;
        }
    return NULL;
}

static bool is_called(const struct catalogue_row *row, const char *name)
{
    if (strcmp(row->facts.name, name) == 0)
        return true;
    for (size_t i = 0; i < row->aliases.n; i++)
        if (strcmp(row->aliases.names[i], name) == 0)
            return true;
    return false;
}

/* What a model is by the catalogues, if it is there. */
struct match {
    const struct catalogue *catalogue;
    const struct catalogue_row *row;
    const struct catalogue_row *ended; /* without a row that holds now: the last one */
};

static struct match find_row(const struct catalogues *all, const char *provider, const char *name,
                             tg_ms now)
{
    struct match match = {0};

    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->list[i].n_rows; k++) {
            const struct catalogue_row *row = &all->list[i].rows[k];
            if (strcmp(row->provider, provider) != 0 || !is_called(row, name))
                continue;
            if (row->from_at <= now && now < row->until_at) {
                match = (struct match){.catalogue = &all->list[i], .row = row};
            } else if (match.row == NULL && row->until_at <= now) {
                match.catalogue = &all->list[i];
                match.ended = row;
            }
        }
    return match;
}

/* ---- filling in ---- */

#define FACT(member)                                                                               \
    {                                                                                              \
#member, offsetof(struct config_model, member), sizeof(((struct config_model *)0)->member) \
    }

static const struct {
    const char *name;
    size_t offset, bytes;
} facts[] = {FACT(context),
             FACT(max_output_tokens),
             FACT(most_tokens_per_s),
             FACT(tokenizer),
             FACT(cut),
             FACT(image_most),
             FACT(tool_prompt),
             FACT(rounds),
             FACT(cache_write_implicit),
             FACT(image)};

static void fill_facts(const struct config_model *from, const struct yaml_node *said,
                       const struct yaml_node *own, struct config_model *model)
{
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        if (yaml_tree_get(said, facts[i].name) != NULL && yaml_tree_get(own, facts[i].name) == NULL)
            memcpy((char *)model + facts[i].offset, (const char *)from + facts[i].offset,
                   facts[i].bytes);
    if (yaml_tree_get(said, "tpm_counts") != NULL && yaml_tree_get(own, "tpm_counts") == NULL)
        model->tpm_counts = from->tpm_counts;
}

static struct config_factors copy_factors(struct reader *reader, const struct config_factors *from)
{
    struct config_factors to = {config_alloc(reader, (from->n + 1) * sizeof *to.list), 0};

    for (; to.list != NULL && to.n < from->n; to.n++)
        to.list[to.n] = (struct config_factor){config_text(reader, from->list[to.n].name),
                                               from->list[to.n].milli};
    return to;
}

static void take_price(struct reader *reader, const struct match *match, struct config_model *model)
{
    const struct config_model *from = &match->row->facts;
    char text[400];

    model->has_price = true;
    model->price = from->price;
    model->service_tier = copy_factors(reader, &from->service_tier);
    model->speed = copy_factors(reader, &from->speed);
    model->inference_geo = copy_factors(reader, &from->inference_geo);
    snprintf(text, sizeof text, "%.200s of %.20s, %.60s %.80s", match->catalogue->name,
             match->catalogue->checked, match->row->provider, from->name);
    model->price_from = config_text(reader, text);
    if (reader->config->catalogue_checked_at == 0 ||
        match->catalogue->checked_at < reader->config->catalogue_checked_at)
        reader->config->catalogue_checked_at = match->catalogue->checked_at;
    if (match->row->until_at < reader->config->catalogue_until)
        reader->config->catalogue_until = match->row->until_at;
}

static void warn_of_age(struct reader *reader, const struct yaml_node *node,
                        const struct match *match, tg_ms now)
{
    int64_t days = (now - match->catalogue->checked_at) / DAY_MS;

    if (days > CONFIG_CATALOGUE_DAYS)
        config_warning(reader, node->key,
                       "models.%.60s takes its price from the catalogue %.200s, which was checked "
                       "%" PRId64 " days ago; prices may have changed: take a newer one, or give "
                       "the price",
                       node->key->text, match->catalogue->name, days);
}

/* Returns whether an old catalogue has been warned of. */
static bool fill_model(struct reader *reader, const struct catalogues *all,
                       const struct yaml_node *node, struct config_model *model, bool counts,
                       tg_ms now, bool warned)
{
    const struct config_provider *provider = &reader->config->providers[model->provider];
    const struct catalogue_provider *line = find_catalogue_provider(all, provider);

    if (line == NULL)
        return warned;
    fill_facts(&line->facts, line->node, node, model);
    struct match match = find_row(all, line->facts.name, model->upstream_model, now);
    if (match.row == NULL && match.ended == NULL && line->rows_of != NULL)
        match = find_row(all, line->rows_of, model->upstream_model, now);
    if (match.row != NULL)
        fill_facts(&match.row->facts, match.row->node, node, model);
    if (counts) /* the provider says so itself */
        model->tpm_counts = CONFIG_TPM_AS_PROVIDER;
    if (match.row != NULL && !model->has_price) {
        take_price(reader, &match, model);
        if (!warned)
            warn_of_age(reader, node, &match, now);
        return true;
    }
    if (match.ended != NULL && !model->has_price)
        config_warning(reader, node->key,
                       "models.%.60s: its price in the catalogue %.200s ended on %.20s; it needs a "
                       "newer one, or a price",
                       model->name, match.catalogue->name, match.ended->until);
    return warned;
}

/* What a provider's factor makes of token prices, rounded up; fees are not by token. */
static void multiply_price(struct tg_price *price, int64_t milli)
{
    int64_t *const parts[] = {&price->input,       &price->cached_input,     &price->cache_write,
                              &price->output,      &price->cache_write_long, &price->audio_input,
                              &price->image_input, &price->audio_output,     &price->image_output};

    for (size_t i = 0; milli != 1000 && i < sizeof parts / sizeof parts[0]; i++) {
        int64_t part = num_min(*parts[i], INT64_C(1000000000000000)); /* more is not counted */
        if (part > 0)
            *parts[i] = part / 1000 * milli + (part % 1000 * milli + 999) / 1000;
    }
}

/* ---- other models of a call ---- */

/* Under a name, and others that mean the same. */
static void add_pass_price(struct reader *reader, struct config_provider *provider,
                           const char *name, const struct config_names *others,
                           const struct tg_price *price)
{
    struct config_pass_price *one = &provider->pass_prices[provider->n_pass_prices];
    struct config_names names = {config_alloc(reader, (others->n + 1) * sizeof *names.names), 0};

    if (names.names == NULL)
        return;
    names.names[names.n++] = config_text(reader, name);
    for (size_t i = 0; i < others->n; i++)
        names.names[names.n++] = config_text(reader, others->names[i]);
    *one = (struct config_pass_price){.names = names, .price = *price};
    one->price.per_call = 0; /* the call has paid it */
    provider->n_pass_prices++;
}

/* The catalogue's rows that hold now, of the provider and of the one that it has its rows of. */
static void add_rows(struct reader *reader, const struct catalogues *all,
                     const struct catalogue_provider *line, tg_ms now,
                     struct config_provider *provider)
{
    for (size_t i = all->n; i-- > 0;) /* the later wins */
        for (size_t k = 0; k < all->list[i].n_rows; k++) {
            const struct catalogue_row *row = &all->list[i].rows[k];
            struct tg_price price = row->facts.price;
            if (now < row->from_at || now >= row->until_at ||
                (strcmp(row->provider, line->facts.name) != 0 &&
                 (line->rows_of == NULL || strcmp(row->provider, line->rows_of) != 0)))
                continue;
            multiply_price(&price, provider->price_factor);
            add_pass_price(reader, provider, row->facts.name, &row->aliases, &price);
        }
}

/* What passes cost that a reply of this provider reports of other models than the one asked. */
static void find_pass_prices(struct reader *reader, const struct catalogues *all, size_t at,
                             tg_ms now)
{
    struct config *config = reader->config;
    struct config_provider *provider = &config->providers[at];
    const struct catalogue_provider *line = find_catalogue_provider(all, provider);
    size_t most = config->n_models;

    for (size_t i = 0; i < all->n && line != NULL; i++)
        most += all->list[i].n_rows;
    provider->pass_prices = config_scratch(reader, (most + 1) * sizeof *provider->pass_prices);
    for (size_t i = 0; i < config->n_models && provider->pass_prices != NULL; i++) {
        const struct config_model *model = &config->models[i];
        struct match match = {0};
        if (model->provider != at || !model->has_price)
            continue;
        if (line != NULL)
            match = find_row(all, line->facts.name, model->upstream_model, now);
        add_pass_price(reader, provider, model->upstream_model,
                       match.row != NULL ? &match.row->aliases : &(struct config_names){0},
                       &model->price);
    }
    if (line != NULL && provider->pass_prices != NULL)
        add_rows(reader, all, line, now, provider);
    struct config_pass_price *kept =
        config_alloc(reader, (provider->n_pass_prices + 1) * sizeof *kept);
    if (kept != NULL && provider->n_pass_prices > 0)
        memcpy(kept, provider->pass_prices, provider->n_pass_prices * sizeof *kept);
    provider->pass_prices = kept;
    provider->n_pass_prices = kept != NULL ? provider->n_pass_prices : 0;
}

void config_fill_models(struct reader *reader)
{
    struct config *config = reader->config;
    const tg_ms now = (tg_ms)time(NULL) * 1000;
    struct catalogues all = {0};
    const struct yaml_node *node;
    bool warned = false, read, *counts;

    config->catalogue_until = TG_NUMBER_MAX;
    read = config->n_models > 0 && read_catalogues(reader, &all);
    counts = config_scratch(reader, config->n_providers + 1);
    if (counts == NULL || reader->problems->errors > 0)
        return; /* a catalogue is wrong */
    for (struct config_walk walk = CONFIG_MAP("providers");
         (node = config_walk_next(reader, &walk)) != NULL;)
        counts[walk.n - 1] = yaml_tree_get(node, "tpm_counts") != NULL;
    for (struct config_walk walk = CONFIG_MAP("models");
         (node = config_walk_next(reader, &walk)) != NULL;) {
        struct config_model *model = &config->models[walk.n - 1];
        if (model->has_price)
            model->price_from = "the configuration";
        if (read && model->provider != CONFIG_NONE)
            warned = fill_model(reader, &all, node, model, counts[model->provider], now, warned);
        if (!model->has_price)
            config_warning(reader, node->key,
                           "models.%.60s has no price: calls of tenants with a budget are refused, "
                           "those of others cost nothing; price: {} if it is free",
                           model->name);
        if (model->max_output_tokens == 0)
            model->max_output_tokens = model->context;
        if (model->provider != CONFIG_NONE)
            multiply_price(&model->price, config->providers[model->provider].price_factor);
    }
    for (size_t i = 0; i < config->n_providers; i++)
        if (config->providers[i].api == CONFIG_ANTHROPIC)
            find_pass_prices(reader, &all, i, now);
}
