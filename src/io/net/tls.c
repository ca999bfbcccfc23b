/* tls.c - certificates and trust: OpenSSL contexts, set up once, and never less than this.
 *
 * Both sides: TLS 1.2 or newer, the compiler's usual suites of OpenSSL, no renegotiation, no
 * compression, memory given back while a connection is idle. ALPN offers http/1.1, and HTTP/2 where
 * the wire says so: see tls_wire.c.
 *
 * A context counts its references itself rather than through OpenSSL, because it is more than the
 * SSL_CTX: the BIO's methods belong to it, and nothing of that is global.
 */
#include "io/net/tls.h"

#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/net/tls_internal.h"
#include "lib/core/problem.h"

static const unsigned char protocols[] = "\x08http/1.1";

static const char *last_error(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());

    return text != NULL ? text : "no reason given";
}

static enum tg_err say_file(struct tg_problem *problem, const char *what, const char *path)
{
    enum tg_err err;

    if (access(path, R_OK) != 0)
        err = problem_say(problem, TG_ERR_STORE, "%s '%s': %s", what, path, strerror(errno));
    else
        err = problem_say(problem, TG_ERR_STORE, "%s '%s': %s; it must be a PEM file", what, path,
                          last_error());
    ERR_clear_error();
    return err;
}

/* A new ticket of the server's: the wire's origin keeps the last one. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_ticket *ticket = SSL_get_app_data(ssl);

    if (ticket == NULL)
        return 0;
    tls_ticket_fini(ticket);
    ticket->session = session;
    return 1;
}

void tls_ticket_fini(struct tls_ticket *ticket)
{
    SSL_SESSION_free(ticket->session);
    ticket->session = NULL;
}

static struct tls_context *new_context(bool server)
{
    struct tls_context *context = calloc(1, sizeof *context);

    if (context == NULL)
        return NULL;
    atomic_init(&context->refs, 1);
    context->server = server;
    context->method = tls_wire_method();
    context->ssl = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (context->method == NULL || context->ssl == NULL) {
        tls_context_unref(context);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_options(context->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                          SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context->ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return context;
}

static enum tg_err use_certificate(SSL_CTX *ssl, const char *cert, const char *key,
                                   struct tg_problem *problem)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, cert) != 1)
        return say_file(problem, "certificate", cert);
    if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1)
        return say_file(problem, "key", key);
    if (SSL_CTX_check_private_key(ssl) != 1)
        return problem_say(problem, TG_ERR_STORE, "key '%s' does not belong to certificate '%s'",
                           key, cert);
    return TG_OK;
}

static enum tg_err require_clients(SSL_CTX *ssl, const char *ca, struct tg_problem *problem)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);

    if (names == NULL || SSL_CTX_load_verify_locations(ssl, ca, NULL) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return say_file(problem, "client CA", ca);
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return TG_OK;
}

enum tg_err tls_server_new(const char *cert_path, const char *key_path, const char *client_ca_path,
                           struct tls_context **made, struct tg_problem *problem)
{
    static const unsigned char session_name[] = "tollgate";
    struct tls_context *context = new_context(true);

    if (context == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    SSL_CTX_set_alpn_select_cb(context->ssl, tls_wire_choose, NULL);
    SSL_CTX_set_session_id_context(context->ssl, session_name, sizeof session_name - 1);
    /* Tickets resume sessions for all workers; a cache would be one lock for all of them. */
    SSL_CTX_set_session_cache_mode(context->ssl, SSL_SESS_CACHE_OFF);
    enum tg_err err = use_certificate(context->ssl, cert_path, key_path, problem);
    if (err == TG_OK && client_ca_path != NULL)
        err = require_clients(context->ssl, client_ca_path, problem);
    if (err != TG_OK) {
        tls_context_unref(context);
        return err;
    }
    *made = context;
    return TG_OK;
}

static enum tg_err trust(SSL_CTX *ssl, const char *ca, struct tg_problem *problem)
{
    if (ca == NULL || *ca == '\0' || strcmp(ca, "system") == 0) {
        if (SSL_CTX_set_default_verify_paths(ssl) != 1)
            return problem_say(problem, TG_ERR_STORE, "the system's CAs cannot be read");
    } else if (SSL_CTX_load_verify_locations(ssl, ca, NULL) != 1) {
        return say_file(problem, "CA", ca);
    }
    return TG_OK;
}

enum tg_err tls_client_new(const char *ca, const char *cert_path, const char *key_path,
                           struct tls_context **made, struct tg_problem *problem)
{
    struct tls_context *context = new_context(false);

    if (context == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory");
    SSL_CTX_set_verify(context->ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(context->ssl, protocols, sizeof protocols - 1);
    SSL_CTX_set_session_cache_mode(context->ssl,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context->ssl, keep_session);
    enum tg_err err = trust(context->ssl, ca, problem);
    if (err == TG_OK && cert_path != NULL)
        err = use_certificate(context->ssl, cert_path, key_path != NULL ? key_path : cert_path,
                              problem);
    if (err != TG_OK) {
        tls_context_unref(context);
        return err;
    }
    *made = context;
    return TG_OK;
}

tg_ms tls_context_not_after(const struct tls_context *context)
{
    const X509 *certificate = SSL_CTX_get0_certificate(context->ssl);
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    tg_ms at = -1;
    int days, seconds;

    if (certificate != NULL && epoch != NULL &&
        ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(certificate)) == 1)
        at = ((tg_ms)days * 86400 + seconds) * 1000;
    ASN1_TIME_free(epoch);
    return at;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
    /* Relaxed: whoever has a reference to copy knows that the context lives. */
    if (context != NULL)
        atomic_fetch_add_explicit(&context->refs, 1, memory_order_relaxed);
    return context;
}

void tls_context_unref(struct tls_context *context)
{
    /* Release what this thread did with it, acquire what the others did, before it is freed. */
    if (context == NULL)
        return;
    int refs = atomic_fetch_sub_explicit(&context->refs, 1, memory_order_acq_rel);
    assert(refs > 0);
    if (refs > 1)
        return;
    SSL_CTX_free(context->ssl);
    BIO_meth_free(context->method);
    free(context);
}
