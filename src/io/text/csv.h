/* csv.h - fields of comma-separated values (RFC 4180). */
#ifndef TG_TEXT_CSV_H
#define TG_TEXT_CSV_H

#include "io/text/text_out.h"

/* A field in quotes. One that a spreadsheet would take for a formula has a ' before it: users
 * choose their names. */
void csv_put(struct text_out *out, struct slice field);

#endif
