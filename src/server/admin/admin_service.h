/* admin_service.h - what an operator sees of the gateway, as a service: see admin_service.c. */
#ifndef TG_ADMIN_ADMIN_SERVICE_H
#define TG_ADMIN_ADMIN_SERVICE_H

#include "server/runtime/service.h"

extern const struct service admin_service;

#endif
