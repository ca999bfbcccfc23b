/* config_problems.c - what is wrong with a configuration, collected.
 *
 * Problems have memory of their own: they outlive a configuration that was wrong.
 */
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config/config_index.h"
#include "server/config/config_reader.h"

static void config_problems_add(struct reader *reader, struct config_problem problem,
                                const char *text)
{
    struct config_problems *problems = reader->problems;

    assert(reader->current < reader->n_documents);
    assert(problem.warning || (!problem.missing && !problem.unread));
    if (problem.warning)
        problems->warnings++;
    else
        problems->errors++;
    problems->unread += problem.unread;
    if (problems->n == CONFIG_PROBLEMS_MAX)
        return;
    if (problems->list == NULL)
        problems->list = arena_alloc(problems->arena, CONFIG_PROBLEMS_MAX * sizeof problem);
    problem.file = reader->documents[reader->current].name;
    problem.number = reader->current;
    problem.text = arena_text(problems->arena, text, strlen(text));
    if (problems->list == NULL || problem.text == NULL) {
        reader->no_memory = true;
        return;
    }
    problems->list[problems->n++] = problem;
    assert(problems->n <= problems->errors + problems->warnings);
}

static void add_formatted(struct reader *reader, struct config_problem problem, const char *format,
                          va_list args)
{
    char text[600];

    vsnprintf(text, sizeof text, format, args);
    config_problems_add(reader, problem, text);
}

void config_error(struct reader *reader, const struct yaml_node *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_formatted(reader, (struct config_problem){.line = at->line, .column = at->column}, format,
                  args);
    va_end(args);
}

void config_warning(struct reader *reader, const struct yaml_node *at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_formatted(reader,
                  (struct config_problem){.warning = true, .line = at->line, .column = at->column},
                  format, args);
    va_end(args);
}

void config_missing(struct reader *reader, const struct yaml_node *at, bool unread,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_formatted(reader,
                  (struct config_problem){.warning = true,
                                          .missing = true,
                                          .unread = unread,
                                          .line = at->line,
                                          .column = at->column},
                  format, args);
    va_end(args);
}

void config_error_at(struct reader *reader, size_t line, size_t column, const char *text)
{
    config_problems_add(reader, (struct config_problem){.line = line, .column = column}, text);
}

static int config_problems_compare(const void *a, const void *b)
{
    const struct config_problem *left = a, *right = b;

    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    if (left->line != right->line)
        return left->line < right->line ? -1 : 1;
    if (left->column != right->column)
        return left->column < right->column ? -1 : 1;
    return strcmp(left->text, right->text);
}

void config_problems_sort(struct config_problems *problems)
{
    if (problems->n > 1)
        qsort(problems->list, problems->n, sizeof problems->list[0], config_problems_compare);
}

void config_problems_free(struct config_problems *problems)
{
    arena_free(problems->arena);
    *problems = (struct config_problems){0};
}

/* ---- Paths ---- */

enum { PATH_NAME_MAX = 80 };

/* Without snprintf(): this is done for every key of every tenant. */
size_t config_path_push(struct reader *reader, const char *name)
{
    size_t before = reader->path_bytes, at = before;
    const size_t end = sizeof reader->path - 1;

    if (before > 0 && name[0] != '[' && at < end)
        reader->path[at++] = '.';
    for (size_t i = 0; name[i] != '\0' && i < PATH_NAME_MAX && at < end; i++)
        reader->path[at++] = name[i];
    reader->path[at] = '\0';
    reader->path_bytes = at;
    return before;
}

void config_path_pop(struct reader *reader, size_t bytes)
{
    assert(bytes <= reader->path_bytes);
    reader->path_bytes = bytes;
    reader->path[bytes] = '\0';
}

/* ---- Memory ---- */

void *config_alloc(struct reader *reader, size_t bytes)
{
    void *memory = arena_alloc(reader->config->arena, bytes);

    reader->no_memory |= memory == NULL;
    return memory;
}

const char *config_bytes(struct reader *reader, const char *text, size_t bytes)
{
    const char *copy = arena_text(reader->config->arena, text, bytes);

    reader->no_memory |= copy == NULL;
    return copy;
}

const char *config_text(struct reader *reader, const char *text)
{
    return config_bytes(reader, text, strlen(text));
}

const char *config_lower(struct reader *reader, const char *text)
{
    char *copy = (char *)config_text(reader, text);

    for (char *c = copy; c != NULL && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    return copy;
}

void *config_scratch(struct reader *reader, size_t bytes)
{
    void *memory = arena_alloc(reader->scratch, bytes);

    reader->no_memory |= memory == NULL;
    return memory;
}

const char *config_scratch_text(struct reader *reader, const char *text, size_t bytes)
{
    const char *copy = arena_text(reader->scratch, text, bytes);

    reader->no_memory |= copy == NULL;
    return copy;
}

struct config_index *config_scratch_index(struct reader *reader, size_t n)
{
    struct config_index *index = config_index_new(reader->scratch, n);

    reader->no_memory |= index == NULL;
    return index;
}
