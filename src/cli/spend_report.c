/* spend_report.c - what `tollgate spend` prints: rows, and budgets.
 *
 * Money is printed from its micro-dollars, digit by digit, never through a double.
 */
#include "cli/spend_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/text/csv.h"
#include "io/text/json_member.h"
#include "lib/core/array.h"
#include "lib/core/problem.h"

/* ---- Adding up ---- */

int64_t spend_add(int64_t a, int64_t b)
{
    return a > TG_MONEY_MAX - b ? TG_MONEY_MAX : a + b;
}

static void add_numbers(struct spend_row *to, const struct spend_row *from)
{
    to->calls = spend_add(to->calls, from->calls);
    to->usage.input = spend_add(to->usage.input, from->usage.input);
    to->usage.cached_input = spend_add(to->usage.cached_input, from->usage.cached_input);
    to->usage.cache_write = spend_add(to->usage.cache_write, from->usage.cache_write);
    to->usage.output = spend_add(to->usage.output, from->usage.output);
    to->micro = spend_add(to->micro, from->micro);
    to->uncertain = spend_add(to->uncertain, from->uncertain);
}

struct reading {
    struct spend_report *report;
    struct ledger_view *view;
    const char *tenant;
};

/* What rows are told apart by, at most two names; null: by one alone. */
static const char *const names_of[SPEND_BYS][2] = {
    [SPEND_TENANT_MODEL] = {"tenant", "model"},
    [SPEND_DAY] = {NULL, "day"},
    [SPEND_MODEL] = {NULL, "model"},
    [SPEND_TENANT] = {"tenant", NULL},
    [SPEND_USER] = {"tenant", "user"},
    [SPEND_KEY] = {"tenant", "key"},
    [SPEND_TAG] = {NULL, "tag"},
};

static void day_text(tg_ms day, char text[16])
{
    time_t seconds = (time_t)(day / 1000);
    struct tm utc;

    if (day <= 0 || gmtime_r(&seconds, &utc) == NULL || strftime(text, 16, "%Y-%m-%d", &utc) == 0)
        snprintf(text, 16, "long ago");
}

static struct ledger_text spend_text_of(const char *text)
{
    return (struct ledger_text){text, text != NULL ? strlen(text) : 0};
}

/* What its row is called besides its tenant. */
static struct ledger_text spend_name_of(const struct reading *reading, const struct ledger_sum *sum,
                                        char day[16])
{
    switch (reading->report->by) {
    case SPEND_DAY:
        day_text(sum->day, day);
        return spend_text_of(day);
    case SPEND_USER:
        return sum->user;
    case SPEND_KEY:
        return spend_text_of(ledger_view_key(reading->view, sum->tenant));
    case SPEND_TENANT:
        return spend_text_of(NULL);
    default:
        return sum->model;
    }
}

static void add_named(struct reading *reading, const struct spend_row *numbers,
                      struct ledger_text text)
{
    struct spend_report *report = reading->report;
    char *name = malloc(text.size + 1);

    if (name == NULL || !array_reserve(&report->rows, &report->max_rows, report->n_rows + 1)) {
        free(name);
        report->no_memory = true;
        return;
    }
    if (text.size > 0)
        memcpy(name, text.bytes, text.size);
    name[text.size] = '\0';
    report->rows[report->n_rows] = *numbers;
    report->rows[report->n_rows].name = name;
    report->rows[report->n_rows++].name_bytes = text.size;
}

/* One row for each line of the tags, or one without a name. */
static void add_tags(struct reading *reading, const struct spend_row *numbers, const char *tags)
{
    const char *at = tags != NULL ? tags : "";

    do {
        size_t n = strcspn(at, "\n");
        add_named(reading, numbers, (struct ledger_text){at, n});
        at += n;
    } while (*at++ == '\n');
}

static void add_row(void *context, const struct ledger_sum *sum)
{
    struct reading *reading = context;
    struct spend_report *report = reading->report;
    char day[16];

    if (reading->tenant != NULL &&
        !ledger_view_is_within(reading->view, sum->tenant, reading->tenant))
        return;
    const struct spend_row numbers = {
        .tenant =
            names_of[report->by][0] != NULL ? ledger_view_name(reading->view, sum->tenant) : "",
        .calls = sum->calls,
        .usage = sum->usage,
        .micro = sum->micro,
        .uncertain = sum->uncertain,
    };
    add_numbers(&report->total, &numbers);
    if (report->by == SPEND_TAG)
        add_tags(reading, &numbers, ledger_view_tags(reading->view, sum->tenant));
    else
        add_named(reading, &numbers, spend_name_of(reading, sum, day));
}

static int compare_rows(const void *left, const void *right)
{
    const struct spend_row *a = left, *b = right;
    int order = strcmp(a->tenant, b->tenant);
    size_t shorter = a->name_bytes < b->name_bytes ? a->name_bytes : b->name_bytes;

    if (order == 0)
        order = memcmp(a->name, b->name, shorter);
    return order != 0 ? order : (a->name_bytes > b->name_bytes) - (a->name_bytes < b->name_bytes);
}

/* The ledger tells more apart, and tenants that have moved and keys; here they are one. */
static void join_rows(struct spend_report *report)
{
    size_t kept = 0;

    if (report->n_rows > 0)
        qsort(report->rows, report->n_rows, sizeof *report->rows, compare_rows);
    for (size_t i = 0; i < report->n_rows; i++) {
        struct spend_row *row = &report->rows[i];
        if (kept > 0 && compare_rows(&report->rows[kept - 1], row) == 0) {
            add_numbers(&report->rows[kept - 1], row);
            free(row->name);
        } else {
            report->rows[kept++] = *row;
        }
    }
    report->n_rows = kept;
}

static void add_credit(void *context, const struct ledger_credit *credit)
{
    struct spend_report *report = context;

    if (array_reserve(&report->credits, &report->max_credits, report->n_credits + 1))
        report->credits[report->n_credits++] = *credit;
    else
        report->no_memory = true;
}

bool spend_report_read(struct spend_report *report, struct ledger_view *view, const char *tenant,
                       struct tg_problem *problem)
{
    struct reading reading = {report, view, tenant};

    if (!ledger_view_scan_days(view, report->since, report->until, add_row, &reading, problem))
        return false;
    if (report->no_memory) {
        return problem_fail(problem, "there is no memory for the report");
    }
    join_rows(report);
    report->damaged = ledger_view_damaged(view);
    if (!ledger_view_credits(view, tenant, report->since, add_credit, report, problem))
        return false;
    return !report->no_memory || problem_fail(problem, "there is no memory for the report");
}

void spend_report_fini(struct spend_report *report)
{
    for (size_t i = 0; i < report->n_rows; i++)
        free(report->rows[i].name);
    free(report->rows);
    free(report->budgets);
    free(report->credits);
}

/* ---- Numbers as text ---- */

struct number_text {
    char text[40];
};

static struct number_text usd_text(tg_micro micro)
{
    struct number_text usd;
    const char *sign = micro < 0 ? "-" : "";
    uint64_t size = micro < 0 ? 0 - (uint64_t)micro : (uint64_t)micro;

    snprintf(usd.text, sizeof usd.text, "%s%" PRIu64 ".%06" PRIu64, sign, size / 1000000,
             size % 1000000);
    return usd;
}

static struct number_text time_text(tg_ms at)
{
    struct number_text text = {"the beginning"};
    time_t seconds = (time_t)(at / 1000);
    struct tm utc;

    if (at > 0 && gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(text.text, sizeof text.text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

/* ---- As a table ---- */

#define NUMBERS 7
#define COLUMNS (2 + NUMBERS)

struct cells {
    struct number_text number[NUMBERS];
    const char *text[COLUMNS];
};

/* The names that there are, and how many. */
static size_t put_names(const struct spend_report *report, const char *tenant, const char *name,
                        const char **texts)
{
    size_t n = 0;

    if (names_of[report->by][0] != NULL)
        texts[n++] = tenant;
    if (names_of[report->by][1] != NULL)
        texts[n++] = name;
    return n;
}

static struct number_text integer_text(int64_t number)
{
    struct number_text text;

    snprintf(text.text, sizeof text.text, "%" PRId64, number);
    return text;
}

static void cells_of(const struct spend_report *report, const struct spend_row *row,
                     struct cells *cells)
{
    const int64_t numbers[] = {row->calls, row->usage.input, row->usage.cached_input,
                               row->usage.cache_write, row->usage.output};

    size_t names = put_names(report, row->tenant, row->name, cells->text);
    for (size_t i = 0; i < 5; i++)
        cells->number[i] = integer_text(numbers[i]);
    cells->number[5] = usd_text(row->micro);
    cells->number[6] = usd_text(row->uncertain);
    for (size_t i = 0; i < NUMBERS; i++)
        cells->text[i + names] = cells->number[i].text;
}

static void widen(int *widths, const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((int)strlen(texts[i]) > widths[i])
            widths[i] = (int)strlen(texts[i]);
}

/* Names to the left, numbers to the right. Bytes that would move the cursor are shown as `?`: a
 * name comes from a caller. */
static void print_cell(const char *text, int width, bool left)
{
    int length = (int)strlen(text), pad = width > length ? width - length : 0;

    printf("%*s", left ? 0 : pad, "");
    for (; *text != '\0'; text++)
        putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
    printf("%*s", left ? pad : 0, "");
}

static void print_line(const int *widths, const char *const *texts, size_t n, size_t names)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            fputs("  ", stdout);
        print_cell(texts[i], i + 1 < n || i >= names ? widths[i] : 0, i < names);
    }
    putchar('\n');
}

static void print_rows(const struct spend_report *report)
{
    static const char *const numbers[NUMBERS] = {"calls",  "input", "cached",       "cache write",
                                                 "output", "USD",   "uncertain USD"};
    const char *head[COLUMNS];
    size_t names = put_names(report, names_of[report->by][0], names_of[report->by][1], head);
    size_t columns = names + NUMBERS;
    struct spend_row total = report->total;
    int widths[COLUMNS] = {0};
    struct cells cells;

    memcpy(head + names, numbers, sizeof numbers);
    total.tenant = "total";
    total.name = (char *)(names == 2 ? "" : "total");
    widen(widths, head, columns);
    for (size_t i = 0; i <= report->n_rows; i++) {
        cells_of(report, i < report->n_rows ? &report->rows[i] : &total, &cells);
        widen(widths, cells.text, columns);
    }
    print_line(widths, head, columns, names);
    for (size_t i = 0; i <= report->n_rows; i++) {
        cells_of(report, i < report->n_rows ? &report->rows[i] : &total, &cells);
        print_line(widths, cells.text, columns, names);
    }
}

static const char *per_name(enum config_period per)
{
    static const char *const names[] = {"day", "week", "month", "total"};

    return names[per];
}

struct owner_text {
    char text[280]; /* two names of 128 bytes */
};

static struct owner_text owner_text(const struct spend_budget *budget, const char *everyone)
{
    struct owner_text of;

    snprintf(of.text, sizeof of.text, "%s%s%s", budget->tenant != NULL ? budget->tenant : everyone,
             budget->key != NULL ? ", key " : "", budget->key != NULL ? budget->key : "");
    return of;
}

#define BUDGET_COLUMNS 6

struct budget_cells {
    struct owner_text of;
    struct number_text begin, spent, amount;
    const char *text[BUDGET_COLUMNS];
};

static void cells_of_budget(const struct spend_budget *budget, struct budget_cells *cells)
{
    cells->begin = time_text(budget->begin);
    cells->spent = usd_text(budget->spent);
    cells->amount = usd_text(budget->budget->micro_usd);
    cells->of = owner_text(budget, "(everyone)");
    cells->text[0] = cells->of.text;
    cells->text[1] = per_name(budget->budget->per);
    cells->text[2] = budget->budget->tz;
    cells->text[3] = cells->begin.text;
    cells->text[4] = cells->spent.text;
    cells->text[5] = cells->amount.text;
}

static void print_budgets(const struct spend_report *report)
{
    static const char *const head[BUDGET_COLUMNS] = {"budget", "per",       "zone",
                                                     "since",  "spent USD", "of USD"};
    int widths[BUDGET_COLUMNS] = {0};
    struct budget_cells cells;

    widen(widths, head, BUDGET_COLUMNS);
    for (size_t i = 0; i < report->n_budgets; i++) {
        cells_of_budget(&report->budgets[i], &cells);
        widen(widths, cells.text, BUDGET_COLUMNS);
    }
    putchar('\n');
    print_line(widths, head, BUDGET_COLUMNS, 4);
    for (size_t i = 0; i < report->n_budgets; i++) {
        cells_of_budget(&report->budgets[i], &cells);
        print_line(widths, cells.text, BUDGET_COLUMNS, 4);
    }
}

/* What the store has of all gateways, and what this ledger has not told it. */
#define STORE_COLUMNS 7

struct store_cells {
    struct owner_text of;
    struct number_text all, ledgers, told, difference;
    const char *text[STORE_COLUMNS];
};

static void cells_of_store(const struct spend_budget *budget, struct store_cells *cells)
{
    cells->all = usd_text(budget->stored_micro);
    cells->ledgers = integer_text((int64_t)budget->ledgers);
    cells->told = usd_text(budget->told);
    cells->difference = usd_text(budget->spent - budget->told);
    cells->of = owner_text(budget, "everyone");
    cells->text[0] = cells->of.text;
    cells->text[1] = per_name(budget->budget->per);
    cells->text[2] = budget->budget->tz;
    cells->text[3] = cells->all.text;
    cells->text[4] = cells->ledgers.text;
    cells->text[5] = cells->told.text;
    cells->text[6] = cells->difference.text;
}

static void print_store(const struct spend_report *report)
{
    static const char *const head[STORE_COLUMNS] = {
        "all gateways", "per", "zone", "spent USD", "ledgers", "of this one USD", "difference USD"};
    int widths[STORE_COLUMNS] = {0};
    struct store_cells cells;

    widen(widths, head, STORE_COLUMNS);
    for (size_t i = 0; i < report->n_budgets; i++) {
        cells_of_store(&report->budgets[i], &cells);
        widen(widths, cells.text, STORE_COLUMNS);
    }
    putchar('\n');
    print_line(widths, head, STORE_COLUMNS, 3);
    for (size_t i = 0; i < report->n_budgets; i++) {
        cells_of_store(&report->budgets[i], &cells);
        if (report->budgets[i].stored)
            print_line(widths, cells.text, STORE_COLUMNS, 3);
    }
}

#define CREDIT_COLUMNS 6

struct credit_cells {
    struct number_text made_at, usd;
    const char *text[CREDIT_COLUMNS];
};

static void cells_of_credit(const struct ledger_credit *credit, struct credit_cells *cells)
{
    cells->made_at = time_text(credit->made_at);
    cells->usd = usd_text(credit->micro);
    cells->text[0] = credit->tenant;
    cells->text[1] = credit->user;
    cells->text[2] = cells->made_at.text;
    cells->text[3] = cells->usd.text;
    cells->text[4] = credit->actor;
    cells->text[5] = credit->reason;
}

static void print_credits(const struct spend_report *report)
{
    static const char *const head[CREDIT_COLUMNS] = {"credit to", "user", "at",
                                                     "USD",       "by",   "reason"};
    int widths[CREDIT_COLUMNS] = {0};
    struct credit_cells cells;

    widen(widths, head, CREDIT_COLUMNS);
    for (size_t i = 0; i < report->n_credits; i++) {
        cells_of_credit(&report->credits[i], &cells);
        widen(widths, cells.text, CREDIT_COLUMNS);
    }
    putchar('\n');
    print_line(widths, head, CREDIT_COLUMNS, CREDIT_COLUMNS);
    for (size_t i = 0; i < report->n_credits; i++) {
        cells_of_credit(&report->credits[i], &cells);
        print_line(widths, cells.text, CREDIT_COLUMNS, CREDIT_COLUMNS);
    }
}

void spend_report_print(const struct spend_report *report)
{
    printf("since %s", time_text(report->since).text);
    if (report->until != TG_NUMBER_MAX)
        printf(" until %s", time_text(report->until).text);
    printf("\n\n");
    print_rows(report);
    if (report->n_budgets > 0)
        print_budgets(report);
    if (report->store == SPEND_STORE_OK)
        print_store(report);
    if (report->n_credits > 0)
        print_credits(report);
}

/* ---- As CSV ---- */

static void print_field(const char *text, size_t n)
{
    struct text_out out = {0};

    csv_put(&out, (struct slice){text, n});
    fwrite(out.bytes, 1, out.size, stdout);
    text_out_fini(&out);
}

void spend_report_print_csv(const struct spend_report *report)
{
    const char *const *names = names_of[report->by];

    for (size_t i = 0; i < 2; i++)
        if (names[i] != NULL)
            printf("%s,", names[i]);
    printf("calls,input,cached_input,cache_write,output,micro_usd,usd,uncertain_micro_usd\r\n");
    for (size_t i = 0; i < report->n_rows; i++) {
        const struct spend_row *row = &report->rows[i];
        if (names[0] != NULL) {
            print_field(row->tenant, strlen(row->tenant));
            putchar(',');
        }
        if (names[1] != NULL) {
            print_field(row->name, row->name_bytes);
            putchar(',');
        }
        printf("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%" PRId64
               "\r\n",
               row->calls, row->usage.input, row->usage.cached_input, row->usage.cache_write,
               row->usage.output, row->micro, usd_text(row->micro).text, row->uncertain);
    }
}

/* ---- As JSON ---- */

static void write_numbers(struct json_writer *out, const struct spend_row *row)
{
    json_member_number(out, "calls", row->calls);
    json_member_number(out, "input", row->usage.input);
    json_member_number(out, "cached_input", row->usage.cached_input);
    json_member_number(out, "cache_write", row->usage.cache_write);
    json_member_number(out, "output", row->usage.output);
    json_member_number(out, "micro_usd", row->micro);
    json_member_text(out, "usd", usd_text(row->micro).text);
    json_member_number(out, "uncertain_micro_usd", row->uncertain);
}

static void write_rows(struct json_writer *out, const struct spend_report *report)
{
    json_write_key(out, "rows");
    json_write_array(out);
    for (size_t i = 0; i < report->n_rows; i++) {
        json_write_object(out);
        if (names_of[report->by][0] != NULL)
            json_member_text(out, names_of[report->by][0], report->rows[i].tenant);
        if (names_of[report->by][1] != NULL) {
            json_write_key(out, names_of[report->by][1]);
            json_write_string(out, report->rows[i].name, report->rows[i].name_bytes);
        }
        write_numbers(out, &report->rows[i]);
        json_write_object_end(out);
    }
    json_write_array_end(out);
    json_write_key(out, "total");
    json_write_object(out);
    write_numbers(out, &report->total);
    json_write_object_end(out);
}

static void write_budget(struct json_writer *out, const struct spend_budget *budget)
{
    json_write_object(out);
    json_write_key(out, "tenant");
    if (budget->tenant != NULL)
        json_write_string(out, budget->tenant, strlen(budget->tenant));
    else
        json_write_null(out);
    if (budget->key != NULL)
        json_member_text(out, "key", budget->key);
    json_member_text(out, "per", per_name(budget->budget->per));
    json_member_text(out, "tz", budget->budget->tz);
    json_member_text(out, "mode", budget->budget->mode == CONFIG_SHADOW ? "shadow" : "enforce");
    json_member_number(out, "begin_ms", budget->begin);
    json_member_number(out, "end_ms", budget->end);
    json_member_number(out, "spent_micro_usd", budget->spent);
    json_member_number(out, "uncertain_micro_usd", budget->uncertain);
    json_member_number(out, "amount_micro_usd", budget->budget->micro_usd);
    if (budget->stored) {
        json_write_key(out, "store");
        json_write_object(out);
        json_member_number(out, "micro_usd", budget->stored_micro);
        json_member_number(out, "ledgers", (int64_t)budget->ledgers);
        json_member_number(out, "told_micro_usd", budget->told);
        json_member_number(out, "difference_micro_usd", budget->spent - budget->told);
        json_write_object_end(out);
    }
    json_write_object_end(out);
}

static void write_credits(struct json_writer *out, const struct spend_report *report)
{
    json_write_key(out, "credits");
    json_write_array(out);
    for (size_t i = 0; i < report->n_credits; i++) {
        const struct ledger_credit *credit = &report->credits[i];
        json_write_object(out);
        json_member_number(out, "id", credit->id);
        json_member_number(out, "made_at_ms", credit->made_at);
        json_member_text(out, "tenant", credit->tenant);
        json_member_text(out, "user", credit->user);
        json_member_number(out, "micro_usd", credit->micro);
        json_member_text(out, "reason", credit->reason);
        json_member_text(out, "actor", credit->actor);
        json_write_object_end(out);
    }
    json_write_array_end(out);
}

void spend_report_write(const struct spend_report *report, struct json_writer *out)
{
    json_write_object(out);
    json_member_number(out, "since_ms", report->since);
    if (report->until != TG_NUMBER_MAX)
        json_member_number(out, "until_ms", report->until);
    write_rows(out, report);
    json_write_key(out, "budgets");
    json_write_array(out);
    for (size_t i = 0; i < report->n_budgets; i++)
        write_budget(out, &report->budgets[i]);
    json_write_array_end(out);
    if (report->store != SPEND_STORE_NONE)
        json_member_text(out, "store", report->store == SPEND_STORE_OK ? "ok" : "away");
    write_credits(out, report);
    json_member_number(out, "damaged", (int64_t)report->damaged);
    json_write_object_end(out);
    json_write_line_end(out);
}
