/* top_term.c - the terminal of `tollgate top`: taken whole, and given back as it was.
 *
 * Plain escape codes that every terminal of the last thirty years knows: the other screen, cursor
 * home, clear to the end. A library of terminals would add a dependency for these six sequences.
 *
 * Signals are waited for by a thread (they are blocked in all of them), not handled: a handler
 * could neither take a lock nor draw, and would need a global. So every way out of the program, but
 * for SIGKILL, passes top_term_close(). Ctrl-Z gives the terminal back before it stops.
 */
#include "cli/top/top_term.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

void top_term_show(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(STDOUT_FILENO, bytes, n);
        if (wrote < 0 && errno != EINTR)
            return;
        if (wrote > 0) {
            bytes += wrote;
            n -= (size_t)wrote;
        }
    }
}

void top_term_size(size_t *rows, size_t *columns)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

    *rows = known && size.ws_row > 0 ? size.ws_row : 24;
    *columns = known && size.ws_col > 0 ? size.ws_col : 80;
}

/* Signals of keys stay: Ctrl-C is a SIGINT, and Ctrl-Z a SIGTSTP. */
static void take_screen(const struct top_term *term)
{
    struct termios raw = term->before;

    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    top_term_show(ENTER, strlen(ENTER));
}

static void give_screen_back(const struct top_term *term)
{
    top_term_show(LEAVE, strlen(LEAVE));
    tcsetattr(STDIN_FILENO, TCSANOW, &term->before);
}

/* ---- On the threads -------------------------------------------------------------------------- */

static void *read_keys(void *arg)
{
    struct top_term *term = arg;
    unsigned char key;
    ssize_t n;

    do {
        n = read(STDIN_FILENO, &key, 1);
        if (n < 0 && errno == EINTR)
            continue;
        /* Not to be ended with the lock held. */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        pthread_mutex_lock(&term->lock);
        if (n <= 0)
            term->ended = true;
        else if (term->n_keys < TOP_KEYS_MAX)
            term->keys[term->n_keys++] = key;
        pthread_mutex_unlock(&term->lock);
        net_loop_post(term->loop, &term->post);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return NULL;
}

static void *wait_for_signals(void *arg)
{
    struct top_term *term = arg;
    int which;

    for (;;) {
        if (sigwait(&term->signals, &which) != 0)
            continue;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        pthread_mutex_lock(&term->lock);
        if (which == SIGWINCH)
            term->resized = true;
        else if (which == SIGTSTP)
            term->stopped = true;
        else
            term->ended = true;
        pthread_mutex_unlock(&term->lock);
        net_loop_post(term->loop, &term->post);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    }
    return NULL;
}

/* ---- On the loop's --------------------------------------------------------------------------- */

static void stop_process(struct top_term *term)
{
    give_screen_back(term);
    raise(SIGSTOP);
    take_screen(term);
}

static void tell_events(void *arg)
{
    struct top_term *term = arg;
    unsigned char keys[TOP_KEYS_MAX];
    bool resized, ended, stopped;
    size_t n;

    pthread_mutex_lock(&term->lock);
    n = term->n_keys;
    memcpy(keys, term->keys, n);
    resized = term->resized;
    ended = term->ended;
    stopped = term->stopped;
    term->n_keys = 0;
    term->resized = term->stopped = false;
    pthread_mutex_unlock(&term->lock);

    if (stopped && !ended)
        stop_process(term);
    if (resized || stopped)
        term->event(term->context, TOP_RESIZED, 0);
    for (size_t i = 0; i < n; i++)
        term->event(term->context, TOP_KEY, keys[i]);
    if (ended)
        term->event(term->context, TOP_END, 0);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static void choose_signals(sigset_t *signals)
{
    static const int all[] = {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

    sigemptyset(signals);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sigaddset(signals, all[i]);
}

static bool start_threads(struct top_term *term)
{
    errno = pthread_create(&term->reader, NULL, read_keys, term);
    if (errno != 0)
        return false;
    errno = pthread_create(&term->waiter, NULL, wait_for_signals, term);
    if (errno == 0)
        return true;
    pthread_cancel(term->reader);
    pthread_join(term->reader, NULL);
    return false;
}

bool top_term_open(struct top_term *term, struct net_loop *loop, top_term_event *event,
                   void *context)
{
    *term = (struct top_term){.loop = loop, .event = event, .context = context};
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &term->before) != 0)
        return false;
    pthread_mutex_init(&term->lock, NULL);
    net_post_init(&term->post, tell_events, term);
    choose_signals(&term->signals);
    pthread_sigmask(SIG_BLOCK, &term->signals, NULL);
    if (!start_threads(term)) {
        pthread_sigmask(SIG_UNBLOCK, &term->signals, NULL);
        pthread_mutex_destroy(&term->lock);
        return false;
    }
    take_screen(term);
    term->open = true;
    return true;
}

void top_term_close(struct top_term *term)
{
    if (!term->open)
        return;
    term->open = false;
    give_screen_back(term);
    pthread_cancel(term->reader);
    pthread_cancel(term->waiter);
    pthread_join(term->reader, NULL);
    pthread_join(term->waiter, NULL);
    net_loop_unpost(term->loop, &term->post);
    pthread_sigmask(SIG_UNBLOCK, &term->signals, NULL);
    pthread_mutex_destroy(&term->lock);
}
