/* config_reader.h - what the files of the configuration reader share. Private to this room.
 *
 *     config_load.c        the order of things, from top to bottom
 *       config_files.c       a file and those it includes, as trees
 *         config_vars.c        ${NAME}
 *         config_sources.c     which files they were, and their hash
 *       config_extras.c      tenants, keys and top-ups that stand in no file
 *       config_sections.c    a tree read by the schema, into the structs of config.h
 *         config_schema*.c     the schema: a row for every key
 *         config_scalars.c     single values; config_values.c and config_texts.c parse them
 *         config_secrets.c     those that are secret
 *         config_limiter.c     a limiter, whose keys depend on its strategy
 *         config_finish.c      what several keys of a section say together
 *         config_presets.c     what is known of common providers
 *         config_credentials.c keys of providers: what each way to authenticate needs
 *         envoy_rules_read.c   the rules of Envoy's rate limit service: files of their own
 *       config_rules.c       rules for fields and headers
 *       config_tenants.c     names, parents and levels of all tenants
 *       config_keys.c        virtual keys: a hash is allowed once
 *       config_refs.c        names that stand for something defined elsewhere, and their numbers
 *         config_catalogue.c   prices and facts that models do not give themselves
 *       config_policy.c      the policy, which depends on the axes that there are
 *       config_bounds.c      what there may be at most
 *       config_warnings.c    limits that cannot do what they say
 *         config_weak_keys.c   keys that anybody guesses
 *     config_problems.c    messages, and memory of the configuration
 *     config_index.c       names and their numbers
 */
#ifndef TG_CONFIG_CONFIG_READER_H
#define TG_CONFIG_CONFIG_READER_H

#include "io/text/yaml_tree.h"
#include "server/config/config.h"
#include "server/config/config_schema.h"

#define CONFIG_PROBLEMS_MAX 1000 /* kept; the rest are counted */
#define CONFIG_FILES_MAX 65536
#define CONFIG_NO_DOCUMENT SIZE_MAX

/* One file, or one extra. */
struct document {
    const char *name;       /* what messages call it */
    const char *folder;     /* where its relative paths begin, with a / at the end; null: nowhere */
    struct yaml_node *root; /* null: it is no tree */
    size_t includer;        /* the document that includes it, or CONFIG_NO_DOCUMENT */
    size_t include_line;    /* the line where that names it */
};

/* Where a tenant of the configuration is written. */
struct place {
    size_t document;
    const struct yaml_node *node;
};

/* A key of a tenant that is an extra. */
struct extra_key {
    size_t tenant, key; /* config.tenants[tenant].keys[key] */
    size_t document;
};

/* Text that is wiped when the reading ends. */
struct wipe {
    struct wipe *next;
    char *text;
    size_t bytes;
};

struct reader {
    struct config *config;
    struct config_problems *problems;
    struct arena *scratch; /* for what ends with the reading */
    struct document *documents;
    size_t n_documents, max_documents;
    size_t current;             /* the document that is being read */
    struct config_index *files; /* documents by what file they are; null: nothing is included */
    struct source *sources;     /* the last one first */
    size_t n_sources, n_files;
    struct evp_md_ctx_st *digest; /* hashes everything that is read */
    const struct config_extra *extras;
    size_t n_extras;
    size_t first_extra;     /* the document of the first one; the others follow */
    struct place *places;   /* where the tenants are written */
    struct extra_key *keys; /* those that are extras */
    size_t n_keys;
    struct wipe *wipes;
    bool no_memory;
    char path[256]; /* the key that is being read: gate.peers.limit */
    size_t path_bytes;
};

/* The child of a map, or the map itself if it has none of that name. */
static inline const struct yaml_node *config_child_or_self(const struct yaml_node *node,
                                                           const char *name)
{
    const struct yaml_node *child = yaml_tree_get(node, name);

    return child != NULL ? child : node;
}

/* The first item of a list; null: there is none, or it is no list. */
static inline const struct yaml_node *config_first(const struct yaml_node *list)
{
    return list != NULL && list->kind == YAML_LIST ? list->first : NULL;
}

/* What the i-th key that is an extra has of its own; null: nothing. It does not stand at the root
 * of its document, where a file has sections of these names. */
static inline const struct yaml_node *config_extra_key_node(const struct reader *reader, size_t i)
{
    return yaml_tree_get(reader->documents[reader->keys[i].document].root, "key");
}

/* ---- config_problems.c ---- */

void config_error(struct reader *reader, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void config_warning(struct reader *reader, const struct yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A warning about a file or variable that is not there. */
void config_missing(struct reader *reader, const struct yaml_node *at, bool unread,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* An error of the current file at a place, or as a whole with line 0. */
void config_error_at(struct reader *reader, size_t line, size_t column, const char *text);

void config_problems_sort(struct config_problems *problems);

/* The path of the key that is being read, for messages. Returns what config_path_pop() wants. */
size_t config_path_push(struct reader *reader, const char *name);
void config_path_pop(struct reader *reader, size_t bytes);

/* Memory of the configuration; on null, no_memory is set. */
void *config_alloc(struct reader *reader, size_t bytes);
const char *config_text(struct reader *reader, const char *text);
const char *config_bytes(struct reader *reader, const char *text, size_t bytes);
const char *config_lower(struct reader *reader, const char *text); /* in lower case */

/* Memory that ends with the reading; on null, no_memory is set. */
void *config_scratch(struct reader *reader, size_t bytes);
const char *config_scratch_text(struct reader *reader, const char *text, size_t bytes);
struct config_index *config_scratch_index(struct reader *reader, size_t n);

/* ---- config_files.c ---- */

/* The document of `text` and all that it includes. False if the first one is no tree. */
bool config_read_documents(struct reader *reader, const char *name, const char *text, size_t bytes);

/* Adds a document, which becomes the current one; reads its tree. False: no memory, or what is
 * wrong with it has been reported. */
bool config_add_document(struct reader *reader, const char *name);
bool config_read_tree(struct reader *reader, const char *text, size_t bytes);

/* The whole of a regular file, to be freed. Null if it cannot be read, and errno says why: EINVAL
 * if it is not a regular one, EFBIG if it is too large. */
char *config_read_whole(const char *path, size_t *bytes);

/* Whether a file can be read; `path` is relative to the current document. True where files are not
 * read at all. */
bool config_file_readable(struct reader *reader, const char *path);

/* The path as this process finds it, in memory of the configuration. */
const char *config_locate(struct reader *reader, const char *path);

/* A walk over the items of a top-level section, in all documents; the current document follows. */
struct config_walk {
    const char *section;
    enum yaml_kind kind; /* what has another one is skipped */
    size_t n;            /* items given so far */
    size_t document;     /* the next one to search */
    const struct yaml_node *node;
};

#define CONFIG_MAP(name)                                                                           \
    {                                                                                              \
        .section = name, .kind = YAML_MAP                                                          \
    }
#define CONFIG_LIST(name)                                                                          \
    {                                                                                              \
        .section = name, .kind = YAML_LIST                                                         \
    }

/* The next item; null: there are no more. */
const struct yaml_node *config_walk_next(struct reader *reader, struct config_walk *walk);

/* ---- config_vars.c ---- */

void config_put_variables(struct reader *reader, struct yaml_node *root);

/* ---- config_sources.c ---- */

/* Before the file is read. */
void config_source_add(struct reader *reader, enum config_source_kind kind, const char *path);
void config_sources_keep(struct reader *reader);

bool config_digest_begin(struct reader *reader);
void config_digest_add(struct reader *reader, const void *bytes, size_t n);
void config_digest_end(struct reader *reader);

/* ---- config_catalogue.c ---- */

/* Prices and facts of models that the configuration does not give, after providers are known. */
void config_fill_models(struct reader *reader);

/* ---- config_credentials.c ---- */

/* What the provider's way to authenticate needs of each of these keys, whose list is `node`. */
void config_finish_credentials(struct reader *reader, const struct yaml_node *node,
                               const struct config_provider *provider,
                               struct config_provider_key *keys, size_t n);

/* ---- config_finish.c ---- */

/* What a section with a `price` leaves out of it, and its lengths of context. */
void config_finish_price(struct reader *reader, const struct yaml_node *node,
                         struct tg_price *price);

/* ---- config_extras.c ---- */

/* After the documents of all files: a document for each extra. */
void config_add_extras(struct reader *reader);

/* After all files have been read: the tenants among the extras. */
void config_read_extra_tenants(struct reader *reader);

/* After all tenants are known by name: keys and top-ups. */
void config_apply_extras(struct reader *reader);

/* ---- config_sections.c ---- */

/* Reads a map into the section's struct, which holds its defaults. Without a struct, checks it all
 * the same. */
void config_read_section(struct reader *reader, const struct schema_section *section,
                         const struct yaml_node *node, void *into);

/* Appends one section to a list of them, which `into` holds; `path` stands in messages. */
void config_append_section(struct reader *reader, const struct schema_key *key, const char *path,
                           const struct yaml_node *node, void *into);

/* Sets the defaults of a section and of those within it. */
void config_set_defaults(struct reader *reader, const struct schema_section *section, void *into);

/* ---- config_scalars.c ---- */

/* Reads one scalar; false if it was wrong, which has been reported, or is not known. */
bool config_read_value(struct reader *reader, const struct schema_key *key,
                       const struct yaml_node *node, void *into);

void config_set_default(struct reader *reader, const struct schema_key *key, void *place);

/* ---- config_secrets.c ---- */

/* A scalar that is a secret; file:PATH is read. */
bool config_read_secret(struct reader *reader, const struct yaml_node *node,
                        struct config_secret *into);

/* The same of many lines: the whole of the file. */
bool config_read_secret_document(struct reader *reader, const struct yaml_node *node,
                                 struct config_secret *into);

/* A secret that was found in another one. False: no memory, which has been noted. */
bool config_keep_secret(struct reader *reader, const char *text, size_t bytes,
                        struct config_secret *into);

/* Wipes what the configuration has kept, at its end. */
void config_wipe_secrets(struct config *config);

/* A copy of a text that may contain a secret, which is wiped with the configuration. Empty: no
 * memory, which has been noted. */
const char *config_secret_text(struct reader *reader, const char *text);

/* Notes a text to be wiped when the reading ends; wipes all of these. */
void config_wipe_later(struct reader *reader, const char *text, size_t bytes);
void config_wipe_now(struct reader *reader);

void config_wipe(void *memory, size_t bytes);

/* ---- config_limiter.c ---- */

/* The overdraft that a section of limits has, as struct tg_limit has it. */
int64_t config_read_overdraft(int64_t units, const struct yaml_node *node);

void config_read_limiter(struct reader *reader, const struct schema_key *key,
                         const struct yaml_node *node, struct config_limiter *into);

/* ---- config_tenants.c ---- */

/* After all tenants have been read: names, parents, levels. */
void config_link_tenants(struct reader *reader);

/* ---- config_keys.c ---- */

/* A hash is allowed once: what files have twice is an error, an extra is dropped. */
void config_check_keys(struct reader *reader);

/* ---- config_own.c ---- */

/* After that: keys of one name have the same of their own. */
void config_link_keys(struct reader *reader);

/* ---- config_policy.c ---- */

/* After everything has been read, and is right. */
void config_check_policy(struct reader *reader);

/* Sets the budgets of `online` to what the limits let through, and its window and `replenish` to
 * those of the limits unless a window is given. False: there is no such sum. */
bool config_derive_budgets(const struct config *config, bool window_given,
                           struct config_policy *policy);

/* What the limits let through in a window, if that is far from what is given; else 0. */
double config_budget_of_limits(const struct config *config, enum tg_axis axis, double given,
                               tg_ms window);

/* ---- config_rules.c ---- */

/* Before anything is read, and after everything has been. */
void config_watch_prices(struct reader *reader);
void config_check_rules(struct reader *reader);

/* ---- config_refs.c ---- */

void config_check_references(struct reader *reader);

/* After everything has been read, and is right: numbers in place of names. */
void config_link_routes(struct reader *reader);

/* ---- config_passthrough.c ---- */

/* For config_link_routes(): rows that no call can reach, endpoints that there are not. */
void config_check_passthrough(struct reader *reader);
void config_check_endpoints(struct reader *reader);

void config_warn_of_passthrough(struct reader *reader);

/* ---- config_useless.c ---- */

/* Settings that have no effect, because what they are for is not there. */
void config_warn_of_useless(struct reader *reader);

/* ---- config_bounds.c, config_warnings.c, config_weak_keys.c: at the end, if all is right ---- */

void config_check_bounds(struct reader *reader);
void config_warn(struct reader *reader);
void config_warn_of_weak_keys(struct reader *reader);

#endif
