/* config_load.c - reads a configuration: files, sections, references, and then the result.
 *
 * Everything is checked before anything is given back, and every mistake is reported, because
 * whoever changes forty tenants does not want to hear of them one by one.
 *
 * Files are put together as if they were one: lists are appended, maps of names joined, anything
 * else may stand in one file alone.
 */
#include "server/config/config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/core/array.h"
#include "server/config/config_reader.h"

/* ---- Several files ---- */

enum { ROOT_KEYS_MAX = 64 };

/* Where each key of the top stands first. */
struct first {
    size_t document;
    const struct yaml_node *key;
};

static void check_once(struct reader *reader, const struct yaml_node *root, struct first *first)
{
    for (const struct yaml_node *child = root->first; child != NULL; child = child->next) {
        const struct schema_key *key = schema_find_key(&config_schema, child->key->text);
        size_t i = key != NULL ? (size_t)(key - config_schema.keys) : ROOT_KEYS_MAX;

        if (i >= ROOT_KEYS_MAX || key->shape != SCHEMA_ONE || strcmp(key->name, "version") == 0)
            continue;
        if (first[i].key != NULL)
            config_error(reader, child->key,
                         "%s is given twice, first in %s:%zu; it may be given in one file only",
                         key->name, reader->documents[first[i].document].name, first[i].key->line);
        else
            first[i] = (struct first){reader->current, child->key};
    }
}

static void read_files(struct reader *reader)
{
    struct first first[ROOT_KEYS_MAX] = {{0}};

    for (size_t i = 0; i < reader->first_extra; i++) {
        const struct yaml_node *root = reader->documents[i].root;
        reader->current = i;
        if (root == NULL || (i > 0 && root->kind == YAML_TEXT && root->bytes == 0 && !root->quoted))
            continue; /* an included file may be empty */
        if (root->kind == YAML_MAP)
            check_once(reader, root, first);
        config_read_section(reader, &config_schema, root, reader->config);
    }
}

static void read_documents(struct reader *reader)
{
    config_set_defaults(reader, &config_schema, reader->config);
    config_watch_prices(reader);
    if (!reader->no_memory)
        read_files(reader);
    if (!reader->no_memory)
        config_read_extra_tenants(reader);
    if (!reader->no_memory)
        config_link_tenants(reader);
    if (!reader->no_memory)
        config_apply_extras(reader);
    if (!reader->no_memory)
        config_check_keys(reader);
    if (!reader->no_memory)
        config_link_keys(reader);
    if (!reader->no_memory)
        config_check_references(reader);
    if (!reader->no_memory && reader->problems->errors == 0)
        config_check_rules(reader);
    if (!reader->no_memory && reader->problems->errors == 0)
        config_check_policy(reader);
    if (!reader->no_memory && reader->problems->errors == 0)
        config_link_routes(reader);
    if (!reader->no_memory && reader->problems->errors == 0)
        config_check_bounds(reader);
    if (!reader->no_memory && reader->problems->errors == 0)
        config_warn(reader);
}

/* ---- The result ---- */

static enum config_result config_no_memory(struct config *config, struct config_problems *problems)
{
    static const struct config_problem problem = {.file = "(memory)", .text = "there is none left"};

    config_free(config);
    config_problems_free(problems);
    problems->list = (struct config_problem *)&problem; /* there is one: nobody will sort it */
    problems->n = problems->errors = 1;
    return CONFIG_UNREADABLE;
}

enum config_result config_parse_with(const char *name, const char *text, size_t bytes,
                                     const struct config_extra *extras, size_t n_extras,
                                     struct config *config, struct config_problems *problems)
{
    struct reader reader = {
        .config = config, .problems = problems, .extras = extras, .n_extras = n_extras};

    *config = (struct config){.arena = arena_new()};
    *problems = (struct config_problems){.arena = arena_new()};
    reader.scratch = arena_new();
    reader.no_memory = config->arena == NULL || problems->arena == NULL || reader.scratch == NULL ||
                       !config_digest_begin(&reader);
    if (!reader.no_memory && config_read_documents(&reader, name, text, bytes)) {
        config_add_extras(&reader);
        if (!reader.no_memory)
            read_documents(&reader);
        config_sources_keep(&reader);
    }
    config_digest_end(&reader);
    config_wipe_now(&reader);
    arena_free(reader.scratch);
    free(reader.documents);
    if (reader.no_memory)
        return config_no_memory(config, problems);
    config_problems_sort(problems);
    assert(problems->unread <= problems->warnings);
    if (problems->errors == 0)
        return CONFIG_READ;
    config_free(config);
    return CONFIG_WRONG;
}

enum config_result config_parse(const char *name, const char *text, size_t bytes,
                                struct config *config, struct config_problems *problems)
{
    return config_parse_with(name, text, bytes, NULL, 0, config, problems);
}

void config_free(struct config *config)
{
    config_wipe_secrets(config);
    arena_free(config->arena);
    *config = (struct config){0};
}

/* ---- The first file ---- */

/* Reads to the end, whatever it is: a pipe is as good as a file. One byte more than is allowed, so
 * that too much is seen to be. */
static char *read_to_end(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0, room = 0;
    char *text = NULL;
    ssize_t got = 1;

    if (fd < 0)
        return NULL;
    while (got > 0 && used <= YAML_TREE_BYTES_MAX) {
        if (used == room && !array_reserve(&text, &room, used + 16384)) {
            got = -1;
            break;
        }
        got = read(fd, text + used, room - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        int why = errno;
        free(text);
        text = NULL;
        errno = why;
    }
    close(fd);
    *bytes = used;
    return text;
}

static enum config_result unreadable(const char *path, int why, struct config *config,
                                     struct config_problems *problems)
{
    struct config_problem *problem;

    *config = (struct config){0};
    *problems = (struct config_problems){.arena = arena_new()};
    problem = problems->arena != NULL ? arena_alloc(problems->arena, sizeof *problem) : NULL;
    if (problem == NULL)
        return config_no_memory(config, problems);
    problem->file = arena_text(problems->arena, path, strlen(path));
    problem->text = strerror(why);
    if (problem->file == NULL)
        return config_no_memory(config, problems);
    problems->list = problem;
    problems->n = problems->errors = 1;
    return CONFIG_UNREADABLE;
}

enum config_result config_load_with(const char *path, const struct config_extra *extras,
                                    size_t n_extras, struct config *config,
                                    struct config_problems *problems)
{
    size_t bytes;
    char *text = read_to_end(path, &bytes);
    enum config_result result;

    if (text == NULL)
        return unreadable(path, errno, config, problems);
    result = config_parse_with(path, text, bytes, extras, n_extras, config, problems);
    config_wipe(text, bytes);
    free(text);
    return result;
}

enum config_result config_load(const char *path, struct config *config,
                               struct config_problems *problems)
{
    return config_load_with(path, NULL, 0, config, problems);
}
