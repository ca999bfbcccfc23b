/* top_term.h - the terminal of `tollgate top`: taken whole, and given back as it was.
 *
 *     top_term_open(&term, loop, event, context);    the screen is ours; event() comes on the loop
 *     top_term_show(&term, bytes, n);
 *     top_term_close(&term);                         also after a signal; may be called twice
 *
 * Keys and signals arrive on threads of the terminal's own and are told on the loop's, so that a
 * gateway that does not answer never keeps the terminal from ending.
 */
#ifndef TG_TOP_TOP_TERM_H
#define TG_TOP_TOP_TERM_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "io/net/loop.h"

#define TOP_KEYS_MAX 1024 /* waiting to be told; a hand is never that quick */

enum top_event {
    TOP_KEY,     /* `key` is the byte */
    TOP_RESIZED, /* or continued after a stop: draw all of it */
    TOP_END,     /* SIGINT, SIGTERM, SIGHUP, SIGQUIT, or the end of stdin */
};

typedef void top_term_event(void *context, enum top_event event, unsigned char key);

struct top_term {
    struct net_loop *loop;
    top_term_event *event;
    void *context;
    struct termios before;
    bool open;
    sigset_t signals; /* blocked while it is open */
    pthread_t reader, waiter;
    struct net_post post;

    pthread_mutex_t lock; /* guards what the two threads tell the loop's thread: */
    unsigned char keys[TOP_KEYS_MAX];
    size_t n_keys;
    bool resized, ended, stopped;
};

/* False, with errno: stdin or stdout is no terminal, or there are no threads. */
bool top_term_open(struct top_term *term, struct net_loop *loop, top_term_event *event,
                   void *context);
void top_term_close(struct top_term *term);

/* Lines and columns now; 24 and 80 where the terminal does not say. */
void top_term_size(size_t *rows, size_t *columns);

/* Writes all of it, or what the terminal takes: one that has gone ends the program by SIGHUP. */
void top_term_show(const char *bytes, size_t n);

#endif
