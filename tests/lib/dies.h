/* dies.h - whether something asserts: it runs in a child process, which may abort.
 *
 * For tables of states and events, in which some events are impossible. Where asserts are compiled
 * out there is nothing to see: ASSERTS_ARE_ON says so.
 */
#ifndef DIES_H
#define DIES_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#ifdef NDEBUG
enum { ASSERTS_ARE_ON = false };
#else
enum { ASSERTS_ARE_ON = true };
#endif

/* True: `body` has ended its process by abort(). */
static inline bool dies(void (*body)(void *arg), void *arg)
{
    int status;
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        body(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif /* DIES_H */
