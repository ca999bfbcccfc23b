/* insist.h - how a fuzz target says that something does not hold. */
#ifndef INSIST_H
#define INSIST_H

#include <stdio.h>
#include <stdlib.h>

/* assert(), but NDEBUG does not turn it off: a fuzzer that checks nothing finds nothing. */
#define insist(holds)                                                                              \
    ((holds)                                                                                       \
         ? (void)0                                                                                 \
         : (fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #holds), abort()))

#endif
