/* explain_service.h - what answers questions about limits, as a service: see explain_service.c. */
#ifndef TG_EXPLAIN_EXPLAIN_SERVICE_H
#define TG_EXPLAIN_EXPLAIN_SERVICE_H

#include "server/runtime/service.h"

extern const struct service explain_service;

#endif
