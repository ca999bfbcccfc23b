/* key_probe.h - tries a key that a provider has turned away, with a request of our own.
 *
 * 401 and 403 can be the doing of one odd call. Whether a key is really bad is found out by asking
 * for the provider's list of models with it, which costs nothing.
 */
#ifndef TG_RUNTIME_KEY_PROBE_H
#define TG_RUNTIME_KEY_PROBE_H

#include "io/http/http_client.h"
#include "tollgate.h"

struct control;

/* One at a time. */
struct key_probe {
    struct control *control;
    struct http_outbound *out; /* null: none is under way */
    struct tg_probe probe;
    int status;
};

void key_probe_init(struct key_probe *probe);

/* Begins one if it is due and none is under way. */
void key_probe_tick(struct key_probe *probe, struct control *control);

void key_probe_fini(struct key_probe *probe);

#endif
