/* key_probe.h - tries a key that a provider has refused, with a request of our own.
 *
 * One odd call can cause a 401 or a 403. Whether a key is really bad is found out by asking for the
 * provider's list of models with it, which costs nothing.
 *
 * Everything here belongs to the control thread.
 */
#ifndef TG_RUNTIME_KEY_PROBE_H
#define TG_RUNTIME_KEY_PROBE_H

#include "io/http/http_fetch.h"
#include "tollgate.h"

struct control;

/* One key is tried at a time. */
struct key_probe {
    struct control *control;
    struct http_fetch fetch;
    struct tg_probe probe; /* the key that is being tried */
};

void key_probe_init(struct key_probe *probe);

/* Begins one if it is due and none is under way. */
void key_probe_tick(struct key_probe *probe, struct control *control);

void key_probe_fini(struct key_probe *probe);

#endif
