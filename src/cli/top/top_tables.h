/* top_tables.h - the tables of `tollgate top`: their columns, and what a row says. */
#ifndef TG_TOP_TOP_TABLES_H
#define TG_TOP_TOP_TABLES_H

#include "cli/top/top_model.h"
#include "cli/top/top_paper.h"

#define TOP_COLUMNS_MAX 9
#define TOP_CELL_BYTES 256

struct top_column {
    const char *title;
    int width;      /* negative: numbers, at the right edge; a wide one is at least so wide */
    bool wide;      /* takes what the others leave */
    bool droppable; /* left out where the screen is narrow */
};

struct top_row {
    char cells[TOP_COLUMNS_MAX][TOP_CELL_BYTES];
    enum top_style style;
};

struct top_table {
    const char *title;
    const struct top_column *columns;
    size_t n_columns;
    size_t (*count)(const struct top_snapshot *of);
    void (*fill)(const struct top_snapshot *of, size_t i, struct top_row *row);
};

#define TOP_TABLES 6

/* In the order of the keys 1 to 6: routes, keys, budgets, tenants, denials, gateways. */
extern const struct top_table top_tables[TOP_TABLES];

/* "3d 04:12:09" */
void top_span_text(int64_t ms, char *text, size_t bytes);

#endif
