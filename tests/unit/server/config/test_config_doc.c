/* test_config_doc.c - docs/config.md lists every key of the schema, and says of each what it says.
 *
 * The part between the two marks is made from the tables of the reader. TG_UPDATE_GOLDEN=1 writes
 * it instead of comparing. Run from the top of the tree.
 */
#include "check.h"
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/limit/limit.h"
#include "server/config/config.h"
#include "server/config/config_schema.h"

#define DOC "docs/config.md"
#define BEGIN "<!-- keys: checked against the reader by test_config_doc.c -->\n"
#define END "<!-- end of keys -->\n"

/* ---- Making it ---- */

/* A bar would end the cell. */
static void put_cell(FILE *to, const char *text)
{
    for (; *text != '\0'; text++)
        fprintf(to, *text == '|' ? "\\%c" : "%c", *text);
}

static void put_row(FILE *to, const char *path, const struct schema_key *key)
{
    char what[200];

    schema_describe(key, what, sizeof what);
    fprintf(to, "| `%s` | %s", path,
            key->shape == SCHEMA_LIST && key->kind != SCHEMA_SECTION ? "a list; each " : "");
    put_cell(to, what);
    fprintf(to, " | %s%s%s%s | ", key->required ? "*required*" : "",
            key->otherwise != NULL ? "`" : "", key->otherwise != NULL ? key->otherwise : "",
            key->otherwise != NULL ? "`" : "");
    put_cell(to, key->help);
    fprintf(to, "%s%s%s |\n", key->later != NULL ? " (" : "", key->later != NULL ? key->later : "",
            key->later != NULL ? " is not available yet)" : "");
}

static void put_section(FILE *to, const char *path, const struct schema_section *section)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++) {
        char inner[200];
        snprintf(inner, sizeof inner, "%s%s%s%s", path, *path != '\0' ? "." : "", key->name,
                 key->shape == SCHEMA_LIST    ? "[]"
                 : key->shape == SCHEMA_NAMED ? ".NAME"
                                              : "");
        if (key->kind != SCHEMA_SECTION) {
            put_row(to, inner, key);
        } else if (key->section == &schema_concurrency && strncmp(path, "gate", 4) != 0) {
            fprintf(to, "| `%s` | the keys of `gate.concurrency` | | %s |\n", inner, key->help);
        } else if (key->section == &schema_budgets && *path != '\0') {
            fprintf(to, "| `%s` | the keys of `budgets[]` | | %s |\n", inner, key->help);
        } else {
            if (key->words != NULL)
                put_row(to, inner, key); /* a word may stand in its place */
            put_section(to, inner, key->section);
        }
    }
}

static void put_limiters(FILE *to)
{
    fprintf(to, "\n### Limiters\n\n"
                "`rate` and `cost`, of the gate or a tenant, take `strategy`, `mode` (default "
                "`enforce`) and the settings of the strategy. See [limiters.md](limiters.md).\n"
                "`cost` also takes `overdraft`, a whole number from 0 up: how many tokens calls in "
                "flight may use above what they were charged; if left out, 40 times what the "
                "limit holds. See [gate.md](gate.md#what-a-call-is-charged).\n\n"
                "| strategy | setting | takes | default |\n|---|---|---|---|\n");
    for (int i = 0; i < TG_STRATEGY_COUNT; i++) {
        const struct limit_strategy *strategy = limit_strategy_of((enum tg_strategy)i);
        for (size_t k = 0; k < LIMIT_FIELDS_MAX && strategy->fields[k].name != NULL; k++) {
            const struct limit_field *field = &strategy->fields[k];
            char normally[32] = "*required*";
            if (field->otherwise > 0)
                snprintf(normally, sizeof normally, "`%lld`", (long long)field->otherwise);
            else if (field->otherwise < 0)
                snprintf(normally, sizeof normally, "as `limit`");
            fprintf(to, "| `%s` | `%s` | %s | %s |\n", strategy->ops.name, field->name,
                    field->unit == LIMIT_TIME    ? "a duration, at least 1ms"
                    : field->unit == LIMIT_UNITS ? "a whole number from 1 up"
                                                 : "a number above 0, a second",
                    normally);
        }
    }
}

static void put_key(FILE *to, const struct schema_key *key)
{
    const struct schema_key one[2] = {*key, {.name = NULL}};
    const struct schema_section section = {one, 0, 0, NULL};

    put_section(to, "", &section);
}

#define HEAD "| key | takes | default | |\n|---|---|---|---|\n"

/* What is no section by itself comes first, in one table. */
static char *make_keys(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);

    assert_non_null(to);
    fprintf(to, "\n### Single keys\n\n" HEAD);
    for (const struct schema_key *key = config_schema.keys; key->name != NULL; key++)
        if (key->kind != SCHEMA_SECTION)
            put_key(to, key);
    for (const struct schema_key *key = config_schema.keys; key->name != NULL; key++)
        if (key->kind == SCHEMA_SECTION) {
            fprintf(to, "\n### %s\n\n`%s`: %s.\n\n" HEAD, key->name, key->name, key->help);
            put_key(to, key);
        }
    put_limiters(to);
    fputc('\n', to);
    fclose(to);
    return text;
}

/* ---- Comparing ---- */

static void the_document_lists_every_key(void **state)
{
    char *keys = make_keys();

    (void)state;
    expect_document(DOC, BEGIN, END, keys, strlen(keys));
    free(keys);
}

/* ---- The schema itself ---- */

static void check_section(const struct schema_section *section)
{
    for (const struct schema_key *key = section->keys; key->name != NULL; key++) {
        assert_non_null(key->help);
        assert_true(key->min <= key->max);
        if (key->kind == SCHEMA_SECTION)
            check_section(key->section);
        if (key->offset != SCHEMA_NOWHERE)
            assert_true(key->offset < section->bytes);
        if (key->kind == SCHEMA_WORD)
            assert_non_null(key->words);
    }
}

static void every_row_is_whole(void **state)
{
    (void)state;
    check_section(&config_schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_lists_every_key),
        cmocka_unit_test(every_row_is_whole),
    };

    return cmocka_run_group_tests_name("config document", tests, NULL, NULL);
}
