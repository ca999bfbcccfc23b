/* net_call_case.h - what most tests of a call have in common: a client, and perhaps another one in
 * its way. See net_call_kit.h.
 */
#ifndef NET_CALL_CASE_H
#define NET_CALL_CASE_H

#include "net_call_kit.h"

extern struct call_client client, other;

/* Opens a kit without any clients. */
void begin(const struct call_kit_config *config);

/* Both calls have ended, or there was only one, and nothing is held. */
void end(void);

/* The client sees its reply end; nothing is held. */
void reply_and_end(int status, const char *type, const char *text);

void expect_state(enum call_state state);

/* Fails the test unless `part` is in the text, or is not. */
void expect_in(const char *text, const char *part);
void expect_not_in(const char *text, const char *part);

#endif
