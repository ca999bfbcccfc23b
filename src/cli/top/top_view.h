/* top_view.h - one frame of `tollgate top`: a snapshot on a screen of any size, or on a pipe. */
#ifndef TG_TOP_TOP_VIEW_H
#define TG_TOP_TOP_VIEW_H

#include "cli/top/top_tables.h"

#define TOP_VIEW_ALL SIZE_MAX

struct top_view {
    const char *url;
    size_t table;  /* the only one that is shown; TOP_VIEW_ALL: as much of each as fits */
    size_t scroll; /* its rows that have gone over the upper edge; kept within what there is */
    const char *trouble; /* why the snapshot is old; empty: it is not */
    int64_t age_ms;      /* the age of the snapshot, if there is one */
};

/* `of` null: there is none yet. The paper has begun, and is ended by the caller. */
void top_view_draw(struct top_view *view, const struct top_snapshot *of, struct top_paper *paper);

#endif
