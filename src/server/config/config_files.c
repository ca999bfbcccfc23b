/* config_files.c - a configuration file and those it includes, as trees.
 *
 * Includes are followed file by file, in the order in which files were found, so that a tree of
 * them costs no stack. A file is known by device and inode, whatever it is called: one that is met
 * again is refused, as a circle if it is above the one that includes it. That, and the bound on
 * files, is what makes the walk end.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/core/array.h"
#include "server/config/config_index.h"
#include "server/config/config_reader.h"

/* ---- Paths ---- */

/* A path as the current document means it. Null if it is too long. */
static const char *resolve_path(struct reader *reader, const char *path, char *buffer, size_t bytes)
{
    const char *folder = reader->documents[reader->current].folder;
    int length = snprintf(buffer, bytes, "%s%s", path[0] == '/' ? "" : folder, path);

    return length > 0 && (size_t)length < bytes ? buffer : NULL;
}

bool config_file_readable(struct reader *reader, const char *path)
{
    char buffer[4096];

    if (reader->documents[reader->current].folder == NULL)
        return true;
    path = resolve_path(reader, path, buffer, sizeof buffer);
    return path != NULL && access(path, R_OK) == 0;
}

const char *config_locate(struct reader *reader, const char *path)
{
    const char *folder = reader->documents[reader->current].folder;
    size_t bytes = (folder != NULL ? strlen(folder) : 0) + strlen(path) + 1;
    char *located = config_alloc(reader, bytes);

    if (located != NULL)
        snprintf(located, bytes, "%s%s", path[0] == '/' || folder == NULL ? "" : folder, path);
    return located;
}

/* ---- Documents ---- */

bool config_add_document(struct reader *reader, const char *name)
{
    const char *kept = arena_text(reader->problems->arena, name, strlen(name));

    if (kept == NULL ||
        !array_reserve(&reader->documents, &reader->max_documents, reader->n_documents + 1)) {
        reader->no_memory = true;
        return false;
    }
    reader->current = reader->n_documents++;
    reader->documents[reader->current] =
        (struct document){.name = kept, .includer = CONFIG_NO_DOCUMENT};
    return true;
}

const struct yaml_node *config_walk_next(struct reader *reader, struct config_walk *walk)
{
    const struct yaml_node *next = walk->node != NULL ? walk->node->next : NULL;

    while (next == NULL && walk->document < reader->n_documents) {
        const struct yaml_node *section =
            yaml_tree_get(reader->documents[walk->document++].root, walk->section);
        if (section != NULL && section->kind == walk->kind)
            next = section->first;
    }
    walk->node = next;
    if (next != NULL) {
        reader->current = walk->document - 1;
        walk->n++;
    }
    return next;
}

static void report(void *context, size_t line, size_t column, const char *text)
{
    config_error_at(context, line, column, text);
}

bool config_read_tree(struct reader *reader, const char *text, size_t bytes)
{
    struct yaml_node *root = NULL;

    if (!yaml_tree_read(reader->scratch, text, bytes, report, reader, &root))
        return false;
    reader->documents[reader->current].root = root;
    return true;
}

/* Makes `text` the next document; without a path it is of no file. */
static bool add_file(struct reader *reader, const char *path, const char *text, size_t bytes)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    config_digest_add(reader, text, bytes);
    if (!config_add_document(reader, path != NULL ? path : "(text)"))
        return false;
    if (slash != NULL)
        reader->documents[reader->current].folder =
            config_scratch_text(reader, path, (size_t)(slash - path) + 1);
    else if (path != NULL)
        reader->documents[reader->current].folder = "";
    if (reader->no_memory || !config_read_tree(reader, text, bytes))
        return false;
    config_put_variables(reader, reader->documents[reader->current].root);
    return true;
}

/* ---- Includes ---- */

/* The document that has included another, and where. */
struct inclusion {
    size_t document;
    const struct yaml_node *pattern;
};

/* What one file is, by any name. False: it is not there. */
static bool identify(const char *path, char *identity, size_t bytes)
{
    struct stat about;

    if (stat(path, &about) != 0)
        return false;
    snprintf(identity, bytes, "%jx:%jx", (uintmax_t)about.st_dev, (uintmax_t)about.st_ino);
    return true;
}

static bool is_above(const struct reader *reader, size_t document, size_t below)
{
    for (size_t at = below; at != CONFIG_NO_DOCUMENT; at = reader->documents[at].includer)
        if (at == document)
            return true;
    return false;
}

/* Remembers a file as the next document. False, and reported, if it is one already. */
static bool is_first(struct reader *reader, const struct inclusion *by, const char *path)
{
    char text[64];
    const char *identity;
    size_t first;

    if (!identify(path, text, sizeof text))
        return true; /* reading it will say why */
    identity = config_scratch_text(reader, text, strlen(text));
    if (identity == NULL)
        return false;
    first = config_index_put(reader->files, identity, reader->n_documents);
    if (first == CONFIG_INDEX_NONE)
        return true;
    assert(first < reader->n_documents);
    if (is_above(reader, first, by->document))
        config_error(reader, by->pattern,
                     "the included file %.200s is the one that includes, or one above it; includes "
                     "must not go in a circle",
                     path);
    else
        config_error(reader, by->pattern,
                     "the file %.200s is included twice, first by %s:%zu; once is allowed", path,
                     reader->documents[reader->documents[first].includer].name,
                     reader->documents[first].include_line);
    return false;
}

char *config_read_whole(const char *path, size_t *bytes)
{
    /* O_NONBLOCK: this must not wait for the other end, should it be a pipe. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    char *text = NULL;
    size_t used = 0;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        errno = EINVAL;
    else if (about.st_size > (off_t)YAML_TREE_BYTES_MAX)
        errno = EFBIG;
    else
        text = malloc((size_t)about.st_size + 1);
    while (text != NULL && used < (size_t)about.st_size) {
        ssize_t got = read(fd, text + used, (size_t)about.st_size - used);
        if (got < 0) {
            free(text);
            text = NULL;
        } else if (got == 0) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    *bytes = used;
    return text;
}

static void include_file(struct reader *reader, const struct inclusion *by, const char *path)
{
    size_t bytes = 0, number = reader->n_documents;
    char *text = NULL;

    reader->current = by->document;
    if (number == CONFIG_FILES_MAX) {
        config_error(reader, by->pattern, "too many files are included; at most %d are read",
                     CONFIG_FILES_MAX - 1);
        return;
    }
    if (!is_first(reader, by, path))
        return;
    config_source_add(reader, CONFIG_SOURCE_FILE, path);
    if ((text = config_read_whole(path, &bytes)) == NULL)
        config_error(reader, by->pattern, "the included file %.200s cannot be read: %s", path,
                     errno == EINVAL  ? "it is not a regular file"
                     : errno == EFBIG ? "it is too large"
                                      : strerror(errno));
    else
        (void)add_file(reader, path, text, bytes); /* what is wrong with it has been reported */
    if (reader->n_documents > number) {
        reader->documents[number].includer = by->document;
        reader->documents[number].include_line = by->pattern->line;
    }
    config_wipe(text, bytes);
    free(text);
}

static void include_pattern(struct reader *reader, const struct inclusion *by)
{
    char buffer[4096];
    glob_t found;
    const char *path;

    reader->current = by->document;
    path = resolve_path(reader, by->pattern->text, buffer, sizeof buffer);
    if (path == NULL) {
        config_error(reader, by->pattern, "the path to include is too long");
        return;
    }
    int result = glob(path, 0, NULL, &found);
    if (result == 0)
        for (size_t i = 0; i < found.gl_pathc && !reader->no_memory; i++)
            include_file(reader, by, found.gl_pathv[i]);
    else if (result != GLOB_NOMATCH)
        config_error(reader, by->pattern, "the pattern \"%.60s\" cannot be expanded: %s",
                     by->pattern->written,
                     result == GLOB_NOSPACE ? "no memory" : "a folder cannot be read");
    globfree(&found);
}

/* The table of files is made when the first include is seen: most configurations have none. */
static bool begin_including(struct reader *reader, const char *name)
{
    char identity[64];
    const char *kept;

    if (reader->files != NULL)
        return true;
    reader->files = config_scratch_index(reader, CONFIG_FILES_MAX);
    if (reader->files != NULL && identify(name, identity, sizeof identity)) {
        kept = config_scratch_text(reader, identity, strlen(identity));
        if (kept != NULL)
            (void)config_index_put(reader->files, kept, 0);
    }
    return !reader->no_memory;
}

static void follow_includes(struct reader *reader, const char *name, size_t document)
{
    const struct yaml_node *list = yaml_tree_get(reader->documents[document].root, "include");

    if (list == NULL || list->kind != YAML_LIST || !begin_including(reader, name))
        return;
    for (const struct yaml_node *item = list->first; item != NULL; item = item->next)
        if (item->kind == YAML_TEXT && item->bytes > 0 && !item->unknown)
            include_pattern(reader, &(struct inclusion){document, item});
}

bool config_read_documents(struct reader *reader, const char *name, const char *text, size_t bytes)
{
    if (name != NULL)
        config_source_add(reader, CONFIG_SOURCE_FILE, name);
    if (!add_file(reader, name, text, bytes))
        return false;
    for (size_t i = 0; name != NULL && i < reader->n_documents && !reader->no_memory; i++)
        follow_includes(reader, name, i);
    return true;
}
