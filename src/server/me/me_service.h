/* me_service.h - what a tenant sees of itself with its own key, as a service: see me_service.c. */
#ifndef TG_ME_ME_SERVICE_H
#define TG_ME_ME_SERVICE_H

#include "server/runtime/service.h"

extern const struct service me_service;

#endif
