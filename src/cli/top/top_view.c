/* top_view.c - one frame of `tollgate top`: a snapshot on a screen of any size, or on a pipe.
 *
 * Pure: the same snapshot and size give the same bytes. Where not everything fits, every table that
 * has rows keeps its first ones, which are those that need a look; 1 to 6 show one of them whole.
 */
#include "cli/top/top_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A gateway that has been silent for so long was taken away, most likely: its row says so, and no
 * more. */
#define LONG_SILENT_MS 600000

#define TABLE_HEAD 2 /* an empty line and the titles of the columns */

/* ---- The head -------------------------------------------------------------------------------- */

static void draw_title(const struct top_view *view, const struct top_snapshot *of,
                       struct top_paper *paper)
{
    char up[32], title[512], what[64];

    if (of == NULL) {
        snprintf(title, sizeof title, " tollgate   %s   asking ...", view->url);
    } else {
        top_span_text(of->uptime_ms, up, sizeof up);
        if (of->n_gateways > 1)
            snprintf(what, sizeof what, "fleet of %zu gateways", of->n_gateways);
        else
            snprintf(what, sizeof what, "generation %" PRId64, of->config.generation);
        snprintf(title, sizeof title, " tollgate %s   %s   up %s   %s   %s%s%s", of->version,
                 view->url, up, what,
                 of->draining ? "draining"
                 : of->ready  ? "ready"
                              : "not ready: ",
                 of->ready || of->draining ? "" : of->unready_reason, " ");
    }
    top_paper_put(paper, TOP_TITLE, "%s", title);
    if (paper->screen && paper->column < paper->columns)
        top_paper_put(paper, TOP_TITLE, "%*s", (int)(paper->columns - paper->column), "");
    top_paper_line(paper);
}

static void draw_trouble(const struct top_view *view, struct top_paper *paper)
{
    if (view->trouble[0] == '\0')
        return;
    top_paper_put(paper, TOP_BAD, "%s; what is shown is %" PRId64 " s old", view->trouble,
                  view->age_ms / 1000);
    top_paper_line(paper);
}

/* What is shown is not all there is. */
static void draw_missing(const struct top_snapshot *of, struct top_paper *paper)
{
    size_t answered = 0, n = 0;

    for (size_t i = 0; i < of->n_gateways; i++) {
        const struct top_gateway *one = &of->gateways[i];
        answered += top_gateway_answered(one);
        n += strcmp(one->answer, "silent") != 0 || one->silent_ms <= LONG_SILENT_MS;
    }
    if (answered == n)
        return;
    top_paper_put(paper, TOP_BAD, "%zu of %zu gateways answered%s", answered, n,
                  of->store_away ? ": the store is away" : "");
    top_paper_line(paper);
}

static void draw_rates(const struct top_snapshot *of, struct top_paper *paper)
{
    top_paper_put(paper, TOP_HEAD, "calls %.1f/s", of->rates.calls);
    top_paper_put(paper, TOP_GOOD, "  admitted %.1f/s", of->rates.admitted);
    top_paper_put(paper, of->rates.refused > 0 ? TOP_BAD : TOP_PLAIN, "  refused %.1f/s",
                  of->rates.refused);
    top_paper_put(paper, TOP_PLAIN,
                  "  total %" PRId64 " admitted %" PRId64 " refused %" PRId64 " retries %" PRId64
                  " hangups %" PRId64,
                  of->counters.calls, of->counters.admitted, of->counters.refused,
                  of->counters.retries, of->counters.hangups);
    top_paper_line(paper);
}

static enum top_style state_style(const char *state, const char *good)
{
    return strcmp(state, good) == 0 || strcmp(state, "off") == 0 ? TOP_PLAIN : TOP_BAD;
}

static void draw_health(const struct top_snapshot *of, struct top_paper *paper)
{
    if (isnan(of->memory.used_ratio))
        top_paper_put(paper, state_style(of->memory.state, "ok"), "memory %s", of->memory.state);
    else
        top_paper_put(paper, state_style(of->memory.state, "ok"), "memory %.0f%% %s",
                      of->memory.used_ratio * 100, of->memory.state);
    top_paper_put(paper, state_style(of->store.state, "ok"), "  store %s %s", of->store.kind,
                  of->store.state);
    if (of->fleet.state[0] != '\0')
        top_paper_put(paper, state_style(of->fleet.state, "current"),
                      "  fleet %s, version %" PRId64 ", %" PRId64 " gateways, %" PRId64 " behind",
                      of->fleet.state, of->fleet.version, of->fleet.gateways, of->fleet.behind);
    if (of->ledger.state[0] != '\0')
        top_paper_put(paper, state_style(of->ledger.state, "well"), "  ledger %s",
                      of->ledger.state);
    if (of->connections != TOP_NONE)
        top_paper_put(paper, TOP_PLAIN, "  connections %" PRId64, of->connections);
    if (of->tenants_total != TOP_NONE)
        top_paper_put(paper, TOP_PLAIN, "  tenants %" PRId64, of->tenants_total);
    if (!isnan(of->prices.rate))
        top_paper_put(paper, TOP_PLAIN, "  bid prices %g/%g/%g", of->prices.rate, of->prices.cost,
                      of->prices.concurrency);
    if (of->config.last_reload.at != TOP_NONE && !of->config.last_reload.ok)
        top_paper_put(paper, TOP_BAD, "  LAST RELOAD FAILED: %" PRId64 " errors",
                      of->config.last_reload.errors);
    top_paper_line(paper);
}

static double rate_of(const struct top_snapshot *of, const char *reason)
{
    const struct top_by_reason *rates = &of->rates.refused_by_reason;

    for (size_t i = 0; i < rates->n; i++)
        if (strcmp(rates->list[i].reason, reason) == 0)
            return rates->list[i].value;
    return 0;
}

static void draw_reasons(const struct top_snapshot *of, struct top_paper *paper)
{
    const struct top_by_reason *totals = &of->counters.refused_by_reason;
    const struct top_by_reason *would = &of->counters.would_deny_by_reason;

    top_paper_put(paper, TOP_PLAIN, "refused by");
    if (totals->n == 0)
        top_paper_put(paper, TOP_PLAIN, " nothing");
    for (size_t i = 0; i < totals->n; i++) {
        double rate = rate_of(of, totals->list[i].reason);
        top_paper_put(paper, rate > 0 ? TOP_BAD : TOP_PLAIN, "  %s %.0f (%.1f/s)",
                      totals->list[i].reason, totals->list[i].value, rate);
    }
    for (size_t i = 0; i < would->n; i++)
        top_paper_put(paper, TOP_FAINT, "  %s%s %.0f", i == 0 ? "in shadow: " : "",
                      would->list[i].reason, would->list[i].value);
    top_paper_line(paper);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

struct layout {
    int widths[TOP_COLUMNS_MAX]; /* 0: left out */
};

static int wide_of(int width)
{
    return width < 0 ? -width : width;
}

static size_t longest_cell(const struct top_table *table, const struct top_snapshot *of, size_t k)
{
    size_t longest = 0, n = table->count(of);

    for (size_t i = 0; i < n; i++) {
        struct top_row row = {.style = TOP_PLAIN};
        table->fill(of, i, &row);
        if (strlen(row.cells[k]) > longest)
            longest = strlen(row.cells[k]);
    }
    return longest;
}

/* Columns that may go do so from the right, until the wide one has what it needs. */
static void top_view_lay_out(const struct top_table *table, const struct top_snapshot *of,
                             size_t columns, struct layout *layout)
{
    size_t wide = 0;
    int used = 0;

    for (size_t k = 0; k < table->n_columns; k++) {
        layout->widths[k] = table->columns[k].width;
        used += wide_of(layout->widths[k]) + (k > 0);
        if (table->columns[k].wide)
            wide = k;
    }
    for (size_t k = table->n_columns; columns > 0 && k-- > 0 && used > (int)columns;)
        if (table->columns[k].droppable) {
            used -= wide_of(layout->widths[k]) + (k > 0);
            layout->widths[k] = 0;
        }
    if (columns == 0) {
        int longest = (int)longest_cell(table, of, wide);
        if (longest > layout->widths[wide])
            layout->widths[wide] = longest;
    } else if (used < (int)columns) {
        layout->widths[wide] += (int)columns - used;
    }
}

static void draw_cells(const struct top_table *table, const struct layout *layout,
                       const struct top_row *row, enum top_style style, struct top_paper *paper)
{
    for (size_t k = 0; k < table->n_columns; k++) {
        if (layout->widths[k] == 0)
            continue;
        if (k > 0)
            top_paper_put(paper, TOP_PLAIN, " ");
        top_paper_cell(paper, style, layout->widths[k], row->cells[k]);
    }
    top_paper_line(paper);
}

static void draw_table(const struct top_table *table, const struct top_snapshot *of, size_t first,
                       size_t rows, struct top_paper *paper)
{
    struct top_row head = {.style = TOP_HEAD};
    struct layout layout = {{0}};
    size_t n = table->count(of);

    top_view_lay_out(table, of, paper->columns, &layout);
    for (size_t k = 0; k < table->n_columns; k++)
        snprintf(head.cells[k], TOP_CELL_BYTES, "%s", table->columns[k].title);
    if (rows < n && table->columns[0].wide)
        snprintf(head.cells[0], TOP_CELL_BYTES, "%s (%zu of %zu)", table->columns[0].title, rows,
                 n);
    top_paper_line(paper);
    draw_cells(table, &layout, &head, TOP_HEAD, paper);
    for (size_t i = first; i < n && i < first + rows; i++) {
        struct top_row row = {.style = TOP_PLAIN};
        table->fill(of, i, &row);
        draw_cells(table, &layout, &row, row.style, paper);
    }
}

static void draw_one(struct top_view *view, const struct top_snapshot *of, struct top_paper *paper,
                     size_t lines)
{
    const struct top_table *table = &top_tables[view->table];
    size_t rows = lines > TABLE_HEAD ? lines - TABLE_HEAD : 0, n = table->count(of);

    if (view->scroll > n - (n < rows ? n : rows))
        view->scroll = n - (n < rows ? n : rows);
    draw_table(table, of, view->scroll, rows, paper);
}

/* One row for each table that has any and finds room, then one more for each in turn. */
static void share_lines(const struct top_snapshot *of, size_t lines, size_t rows[TOP_TABLES])
{
    bool given = true;

    memset(rows, 0, TOP_TABLES * sizeof rows[0]);
    for (size_t t = 0; t < TOP_TABLES; t++)
        if (top_tables[t].count(of) > 0 && lines > TABLE_HEAD) {
            rows[t] = 1;
            lines -= TABLE_HEAD + 1;
        }
    while (given && lines > 0) {
        given = false;
        for (size_t t = 0; t < TOP_TABLES && lines > 0; t++)
            if (rows[t] > 0 && rows[t] < top_tables[t].count(of)) {
                rows[t]++;
                lines--;
                given = true;
            }
    }
}

static void draw_tables(struct top_view *view, const struct top_snapshot *of,
                        struct top_paper *paper, size_t lines)
{
    size_t rows[TOP_TABLES];

    if (view->table < TOP_TABLES) {
        draw_one(view, of, paper, lines);
        return;
    }
    share_lines(of, lines, rows);
    for (size_t t = 0; t < TOP_TABLES; t++)
        if (rows[t] > 0)
            draw_table(&top_tables[t], of, 0, rows[t], paper);
}

static void draw_keys_of_the_view(struct top_paper *paper)
{
    while (top_paper_left(paper) > 1)
        top_paper_line(paper);
    top_paper_put(paper, TOP_TITLE, " q quit  0 all");
    for (size_t t = 0; t < TOP_TABLES; t++)
        top_paper_put(paper, TOP_TITLE, "  %s", top_tables[t].title);
    top_paper_put(paper, TOP_TITLE, "  j k scroll  g one gateway, or all ");
    top_paper_line(paper);
}

void top_view_draw(struct top_view *view, const struct top_snapshot *of, struct top_paper *paper)
{
    size_t left;

    draw_title(view, of, paper);
    draw_trouble(view, paper);
    if (of != NULL) {
        draw_missing(of, paper);
        draw_rates(of, paper);
        draw_health(of, paper);
        draw_reasons(of, paper);
        left = top_paper_left(paper);
        draw_tables(view, of, paper, left > 0 && paper->screen ? left - 1 : left);
    }
    if (paper->screen)
        draw_keys_of_the_view(paper);
}
