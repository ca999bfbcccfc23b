/* tls.h - certificates and trust: a context for each side, made once and shared by all threads.
 *
 * A context is immutable and counted. A reload makes a new one and gives it to the listeners; the
 * connections that run keep the old one alive until they end. TLS 1.2 at least. Clients always
 * verify the chain and the name: there is no way to turn that off.
 */
#ifndef TG_NET_TLS_H
#define TG_NET_TLS_H

#include "tollgate.h"

struct tls_context;

/* Files are PEM. `client_ca` null: clients need no certificate; otherwise they must show one that
 * it signed. TG_ERR_STORE: a file cannot be read or is not what it should be, or key and
 * certificate do not belong together; `problem` names the file. TG_ERR_MEMORY. */
TG_MUST_CHECK enum tg_err tls_server_new(const char *cert_path, const char *key_path,
                                         const char *client_ca_path, struct tls_context **context,
                                         struct tg_problem *problem);

/* `ca`: null, "" or "system" for the system's, otherwise a PEM file. A certificate of our own if
 * `cert_path` is not null. */
TG_MUST_CHECK enum tg_err tls_client_new(const char *ca, const char *cert_path,
                                         const char *key_path, struct tls_context **context,
                                         struct tg_problem *problem);

/* When the certificate that it shows ends, in epoch ms; -1: it shows none. */
tg_ms tls_context_not_after(const struct tls_context *context);

/* By any thread; null is allowed. Made with one reference. */
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context);

#endif
