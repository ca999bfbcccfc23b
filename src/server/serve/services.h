/* services.h - the services of a gateway: see services.c. */
#ifndef TG_SERVE_SERVICES_H
#define TG_SERVE_SERVICES_H

#include "server/runtime/service.h"

extern const struct service_table services;

#endif
