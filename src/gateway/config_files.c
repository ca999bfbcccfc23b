/* config_files.c - a configuration file and those it includes, as trees; ${NAME} put in place.
 *
 * Variables are put in place before anything else looks at the tree, so that a value from a
 * variable is checked like any other. Messages show what stands in the file, never what the
 * variable holds: it may be a secret.
 */
#include "gateway/config_reader.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Variables ---- */

enum { EXPANDED_BYTES_MAX = 65536 };

struct expansion {
    char *text;
    size_t bytes, room;
    bool missing, malformed;
};

static void append(struct expansion *to, const char *text, size_t bytes)
{
    if (bytes > to->room - to->bytes) {
        to->malformed = true;
        return;
    }
    memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
}

static size_t name_length(const char *text)
{
    size_t n = 0;

    while (text[n] == '_' || isalpha((unsigned char)text[n]) ||
           (n > 0 && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

/* Takes the variable at `text`, which begins "${". Returns what stands after it. */
static const char *expand_one(struct reader *reader, const struct yaml_node *node, bool unread,
                              const char *text, struct expansion *to)
{
    size_t bytes = name_length(text + 2);
    char name[128];

    if (bytes == 0 || bytes >= sizeof name || text[2 + bytes] != '}') {
        to->malformed = true;
        return text + strlen(text);
    }
    memcpy(name, text + 2, bytes);
    name[bytes] = '\0';
    const char *value = getenv(name);
    if (value != NULL) {
        append(to, value, strlen(value));
    } else {
        config_missing(reader, node, unread, "the environment variable %s is not set", name);
        to->missing = true;
    }
    return text + 2 + bytes + 1;
}

static void expand_text(struct reader *reader, struct yaml_node *node, bool unread)
{
    char *buffer;
    struct expansion to = {0};

    if (strstr(node->text, "${") == NULL)
        return;
    buffer = malloc(EXPANDED_BYTES_MAX);
    if (buffer == NULL) {
        reader->no_memory = true;
        return;
    }
    to.text = buffer;
    to.room = EXPANDED_BYTES_MAX;
    for (const char *at = node->text; *at != '\0' && !to.malformed;) {
        const char *next = strstr(at, "${");
        append(&to, at, next != NULL ? (size_t)(next - at) : strlen(at));
        at = next != NULL ? expand_one(reader, node, unread, next, &to) : at + strlen(at);
    }
    if (to.malformed)
        config_error(reader, node,
                     "\"%.60s\" has a variable that is none, or is too long; it must be ${NAME}",
                     node->written);
    node->unknown = to.missing || to.malformed;
    const char *copy = node->unknown ? node->text : arena_text(reader->scratch, buffer, to.bytes);
    if (copy == NULL) {
        reader->no_memory = true;
    } else if (!node->unknown) {
        node->text = copy;
        node->bytes = to.bytes;
        config_wipe_later(reader, copy, to.bytes);
    }
    config_wipe(buffer, to.bytes);
    free(buffer);
}

/* The tree is at most YAML_TREE_DEPTH_MAX deep. */
static void expand_tree(struct reader *reader, struct yaml_node *node, bool unread)
{
    if (node->kind == YAML_TEXT)
        expand_text(reader, node, unread);
    for (struct yaml_node *child = node->first; child != NULL; child = child->next)
        expand_tree(reader, child, unread);
}

static void expand_document(struct reader *reader, struct yaml_node *root)
{
    for (struct yaml_node *child = root->first; child != NULL; child = child->next) {
        const char *name = child->key != NULL ? child->key->text : "";
        expand_tree(reader, child, strcmp(name, "gate") == 0 || strcmp(name, "tenants") == 0);
    }
}

/* ---- Files ---- */

static const char *folder_of(struct reader *reader, const char *name)
{
    const char *slash = strrchr(name, '/');

    if (slash == NULL)
        return "";
    return arena_text(reader->scratch, name, (size_t)(slash - name) + 1);
}

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

static void report(void *context, size_t line, size_t column, const char *text)
{
    config_error_at(context, line, column, text);
}

/* Makes `text` the next document. */
static bool add_document(struct reader *reader, const char *name, const char *text, size_t bytes)
{
    struct document *document = &reader->documents[reader->n_documents];
    const char *shown = name != NULL ? name : "(text)";

    document->name = arena_text(reader->problems->arena, shown, strlen(shown));
    document->folder = name != NULL ? folder_of(reader, name) : NULL;
    if (document->name == NULL || (name != NULL && document->folder == NULL)) {
        reader->no_memory = true;
        return false;
    }
    reader->current = reader->n_documents++;
    if (!yaml_tree_read(reader->scratch, text, bytes, report, reader, &document->root))
        return false;
    expand_document(reader, document->root);
    return true;
}

/* The whole of a regular file. Null if it cannot be read, and errno says why. */
static char *read_whole(const char *path, size_t *bytes)
{
    /* Not to wait for the other end, should this be a pipe. */
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

static void include_file(struct reader *reader, const struct yaml_node *pattern, const char *path)
{
    size_t bytes = 0;
    char *text = NULL;

    reader->current = 0;
    if (reader->n_documents == CONFIG_FILES_MAX)
        config_error(reader, pattern, "too many files are included; at most %d are read",
                     CONFIG_FILES_MAX - 1);
    else if ((text = read_whole(path, &bytes)) == NULL)
        config_error(reader, pattern, "the included file %.200s cannot be read: %s", path,
                     errno == EINVAL  ? "it is not a regular file"
                     : errno == EFBIG ? "it is too large"
                                      : strerror(errno));
    else
        (void)add_document(reader, path, text, bytes); /* what is wrong with it has been said */
    config_wipe(text, bytes);
    free(text);
}

static void include_pattern(struct reader *reader, const struct yaml_node *pattern)
{
    char buffer[4096];
    glob_t found;
    const char *path;

    reader->current = 0;
    path = resolve_path(reader, pattern->text, buffer, sizeof buffer);
    if (path == NULL) {
        config_error(reader, pattern, "the path to include is too long");
        return;
    }
    int result = glob(path, 0, NULL, &found);
    if (result == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            include_file(reader, pattern, found.gl_pathv[i]);
    else if (result != GLOB_NOMATCH)
        config_error(reader, pattern, "\"%.60s\" cannot be looked for: %s", pattern->written,
                     result == GLOB_NOSPACE ? "no memory" : "a folder cannot be read");
    globfree(&found);
}

bool config_read_documents(struct reader *reader, const char *name, const char *text, size_t bytes)
{
    const struct yaml_node *include;

    reader->documents =
        arena_alloc(reader->scratch, CONFIG_FILES_MAX * sizeof reader->documents[0]);
    if (reader->documents == NULL) {
        reader->no_memory = true;
        return false;
    }
    if (!add_document(reader, name, text, bytes))
        return false;
    include = yaml_tree_get(reader->documents[0].root, "include");
    if (name == NULL || include == NULL || include->kind != YAML_LIST)
        return true;
    for (const struct yaml_node *item = include->first; item != NULL; item = item->next)
        if (item->kind == YAML_TEXT && item->bytes > 0 && !item->unknown)
            include_pattern(reader, item);
    return true;
}
