/* token_fetch.h - fetches the tokens of service accounts: see access_token.h. On the control
 * thread. */
#ifndef TG_RUNTIME_TOKEN_FETCH_H
#define TG_RUNTIME_TOKEN_FETCH_H

#include "server/runtime/control.h"

/* Asks for those of the newest generation that are due. */
void token_fetch_tick(struct control *control);

/* Cancels what is on its way, before the client is freed. */
void token_fetch_stop(struct control *control);

#endif
