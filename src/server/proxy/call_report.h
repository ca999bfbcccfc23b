/* call_report.h - what is reported of a call: admitted, refused, ended. See report_notes.h. */
#ifndef TG_PROXY_CALL_REPORT_H
#define TG_PROXY_CALL_REPORT_H

#include "server/runtime/report_notes.h"

struct call;

/* It goes upstream for the first time. */
void call_report_admitted(struct call *call);

/* It is refused, with this reply. */
void call_report_refused(struct call *call, const struct refusal *why, const struct reply *reply);

/* It has ended. */
void call_report(struct call *call);

#endif
