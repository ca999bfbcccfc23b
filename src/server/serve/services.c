/* services.c - the one table of services. Read this first: it is all that the gateway serves.
 *
 *     explain   what a call would be told: the others ask it, and it takes no request
 *     admit     decisions for those who run a gateway of their own: JSON and gRPC
 *     envoy     Envoy's rate limit service: JSON and gRPC
 *     me        what a tenant sees of itself with its own key
 *     protect   routes to any HTTP upstream, behind the gate
 *     proxy     calls to models: the OpenAI and Anthropic APIs; it takes what nobody else wants
 *     admin     what an operator sees: pages, API, metrics, logs, health and monitor by gRPC
 *
 * A request is offered to them in this order (front.c). The rooms of the services do not include
 * each other, and nothing below this room includes them.
 */
#include "server/serve/services.h"

#include "server/admin/admin_service.h"
#include "server/admit/admit.h"
#include "server/envoy/envoy_rls.h"
#include "server/explain/explain_service.h"
#include "server/me/me_service.h"
#include "server/protect/protect.h"
#include "server/proxy/proxy.h"
#include "server/serve/front.h"

static const struct service *const LIST[] = {&explain_service, &admit_service,   &envoy_service,
                                             &me_service,      &protect_service, &proxy_service,
                                             &admin_service};

const struct service_table services = {.list = LIST,
                                       .n = sizeof LIST / sizeof LIST[0],
                                       .gateway_ops = &front_gateway_ops,
                                       .grpc_ops = &front_grpc_ops,
                                       .relayed_ops = &front_relayed_ops,
                                       .relayed_grpc_ops = &front_relayed_grpc_ops};
