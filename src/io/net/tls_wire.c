/* tls_wire.c - TLS on a wire: OpenSSL reads and writes our buffers, never the socket.
 *
 * OpenSSL is given a BIO that takes bytes from what the wire has just read and puts bytes into a
 * queue that the wire sends. OpenSSL's own memory BIO does the same with one copy more, and keeps
 * the memory of its largest moment for as long as the connection lives.
 *
 * Bounded: no more is encrypted than the socket took of what was encrypted before, and no more is
 * decrypted than the owner takes; what arrived meanwhile stays encrypted, at most one read of it.
 */
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "io/net/wire.h"

/* ---- The BIO --------------------------------------------------------------------------------- */

static int bio_write(BIO *bio, const char *bytes, size_t n, size_t *wrote)
{
    struct wire *wire = BIO_get_data(bio);

    if (!buf_append(wire->loop, &wire->tls.cipher, bytes, n))
        return 0;
    *wrote = n;
    return 1;
}

static int bio_read(BIO *bio, char *bytes, size_t n, size_t *got)
{
    struct wire *wire = BIO_get_data(bio);
    struct tls_wire *tls = &wire->tls;

    assert(tls->in != NULL || tls->in_bytes == 0);
    BIO_clear_retry_flags(bio);
    if (tls->in_bytes == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    if (n > tls->in_bytes)
        n = tls->in_bytes;
    memcpy(bytes, tls->in, n);
    tls->in += n;
    tls->in_bytes -= n;
    *got = n;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_wire_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire");

    if (method == NULL)
        return NULL;
    BIO_meth_set_write_ex(method, bio_write);
    BIO_meth_set_read_ex(method, bio_read);
    BIO_meth_set_ctrl(method, bio_control);
    return method;
}

/* ---- Setting up ------------------------------------------------------------------------------ */

/* The name is verified, always; an address by the certificate's addresses, a name also by SNI. */
static bool expect_name(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
        return true;
    ERR_clear_error();
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* HTTP/2 first, then HTTP/1.1, as a list of texts with their lengths. */
static const unsigned char protocols[] = "\x02h2\x08http/1.1";
#define HTTP2_BYTES 3

bool tls_wire_is_http2(const struct wire *wire)
{
    const unsigned char *chosen = NULL;
    unsigned n = 0;

    if (wire->tls.ssl != NULL)
        SSL_get0_alpn_selected(wire->tls.ssl, &chosen, &n);
    return n == 2 && memcmp(chosen, "h2", 2) == 0;
}

/* A client that offers only others is refused: what followed would be no HTTP. */
int tls_wire_choose(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_n,
                    const unsigned char *offered, unsigned offered_n, void *arg)
{
    const struct wire *wire = BIO_get_data(SSL_get_rbio(ssl));
    unsigned skip = wire->tls.http2 ? 0 : HTTP2_BYTES;
    unsigned char *found;

    (void)arg;
    if (SSL_select_next_proto(&found, chosen_n, protocols + skip,
                              (unsigned)sizeof protocols - 1 - skip, offered,
                              offered_n) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

static bool offer_http2(SSL *ssl, bool only)
{
    unsigned n = only ? HTTP2_BYTES : (unsigned)sizeof protocols - 1;

    return SSL_set_alpn_protos(ssl, protocols, n) == 0;
}

static bool set_up_client(SSL *ssl, const struct wire *wire, const char *name,
                          struct tls_ticket *ticket)
{
    SSL_set_connect_state(ssl);
    if (wire->tls.http2 && !offer_http2(ssl, wire->tls.http2_only))
        return false;
    SSL_set_app_data(ssl, ticket);
    if (ticket != NULL && ticket->session != NULL)
        SSL_set_session(ssl, ticket->session);
    return expect_name(ssl, name);
}

bool tls_wire_init(struct wire *wire, struct tls_context *context, const char *name,
                   struct tls_ticket *ticket)
{
    SSL *ssl = SSL_new(context->ssl);
    BIO *bio = ssl != NULL ? BIO_new(context->method) : NULL;

    assert(wire->tls.ssl == NULL && (context->server || name != NULL));
    if (bio == NULL)
        goto free_ssl;
    BIO_set_data(bio, wire);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    if (context->server)
        SSL_set_accept_state(ssl);
    else if (!set_up_client(ssl, wire, name, ticket))
        goto free_ssl;
    wire->tls.ssl = ssl;
    wire->tls.context = tls_context_ref(context);
    wire->tls.ticket = ticket;
    return true;

free_ssl:
    ERR_clear_error();
    SSL_free(ssl);
    return false;
}

void tls_wire_fini(struct wire *wire)
{
    struct tls_wire *tls = &wire->tls;

    /* A session whose connection was not ended by both is still good to resume. */
    SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(tls->ssl);
    tls_context_unref(tls->context);
    buf_release(wire->loop, &tls->raw);
    buf_release(wire->loop, &tls->cipher);
    tls->ssl = NULL;
    tls->context = NULL;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void send_cipher(struct wire *wire)
{
    struct buf *cipher = &wire->tls.cipher;

    while (buf_bytes(cipher) > 0 && !wire->blocked && !wire->deaf) {
        long n = wire_send(wire, buf_first(cipher), buf_bytes(cipher));

        if (n <= 0)
            return;
        buf_consume(wire->loop, cipher, (size_t)n);
    }
}

void tls_wire_flush(struct wire *wire)
{
    send_cipher(wire);
    while (wire->state == WIRE_OPEN && buf_bytes(&wire->out) > 0 && !wire->deaf &&
           buf_bytes(&wire->tls.cipher) == 0) {
        size_t n = buf_bytes(&wire->out), wrote = 0;

        ERR_clear_error();
        if (SSL_write_ex(wire->tls.ssl, buf_first(&wire->out),
                         n < NET_READ_BYTES ? n : NET_READ_BYTES, &wrote) != 1) {
            int error = SSL_get_error(wire->tls.ssl, 0);
            if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
                wire_break_later(wire, WIRE_NO_TLS, "TLS does not take what is written");
            return;
        }
        assert(wrote <= n);
        buf_consume(wire->loop, &wire->out, wrote);
        send_cipher(wire);
    }
}

void tls_wire_close_notify(struct wire *wire)
{
    ERR_clear_error();
    SSL_shutdown(wire->tls.ssl);
    while (buf_bytes(&wire->tls.cipher) > 0) {
        long n = wire_send(wire, buf_first(&wire->tls.cipher), buf_bytes(&wire->tls.cipher));

        if (n <= 0)
            break;
        buf_consume(wire->loop, &wire->tls.cipher, (size_t)n);
    }
    ERR_clear_error();
}

/* What OpenSSL holds against the peer, in words. */
static void tls_wire_fail(struct wire *wire)
{
    struct tls_wire *tls = &wire->tls;
    long verify = SSL_get_verify_result(tls->ssl);
    unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    bool plain = ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST;

    if (verify != X509_V_OK)
        snprintf(tls->reason, sizeof tls->reason, "certificate: %s",
                 X509_verify_cert_error_string(verify));
    else
        snprintf(tls->reason, sizeof tls->reason, "TLS: %s",
                 reason != NULL ? reason : "connection closed");
    ERR_clear_error();
    if (plain) /* an alert would be garbage to whoever speaks no TLS */
        buf_release(wire->loop, &tls->cipher);
    else
        send_cipher(wire); /* the alert that tells the peer why */
    wire_break(wire, plain ? WIRE_PLAIN : WIRE_NO_TLS, tls->reason);
}

void tls_wire_shake(struct wire *wire)
{
    assert(wire->state == WIRE_SHAKING);
    ERR_clear_error();
    int result = SSL_do_handshake(wire->tls.ssl);
    if (result != 1 && SSL_get_error(wire->tls.ssl, result) != SSL_ERROR_WANT_READ) {
        tls_wire_fail(wire);
        return;
    }
    send_cipher(wire);
    if (result == 1) {
        wire->state = WIRE_OPEN;
        net_later_put(wire->loop, &wire->later);
        wire->ops->up(wire);
    }
}

/* Decrypts and delivers until the owner or the input has had enough. */
static void decrypt(struct wire *wire)
{
    struct tls_wire *tls = &wire->tls;
    char *plain = wire->loop->plain_scratch;

    while (wire->state == WIRE_OPEN && !wire->paused && !wire->eof) {
        size_t n = 0;

        ERR_clear_error();
        if (SSL_read_ex(tls->ssl, plain, NET_READ_BYTES, &n) == 1) {
            wire_deliver(wire, plain, n);
            continue;
        }
        int error = SSL_get_error(tls->ssl, 0);
        if (error == SSL_ERROR_ZERO_RETURN)
            wire_end_of_input(wire, false);
        else if (error != SSL_ERROR_WANT_READ)
            tls_wire_fail(wire);
        break;
    }
    if (wire->state == WIRE_OPEN && buf_bytes(&tls->cipher) > 0)
        net_later_put(wire->loop, &wire->later);
}

/* What the owner did not let us look at stays for later. */
static void keep_rest(struct wire *wire, bool was_kept)
{
    struct tls_wire *tls = &wire->tls;

    if (was_kept) {
        size_t n = buf_bytes(&tls->raw);
        assert(tls->in_bytes <= n);
        if (n > tls->in_bytes)
            buf_consume(wire->loop, &tls->raw, n - tls->in_bytes);
    } else if (!buf_append(wire->loop, &tls->raw, tls->in, tls->in_bytes)) {
        wire_break(wire, WIRE_NO_MEMORY, "no memory");
        return;
    }
    tls->in = NULL;
    tls->in_bytes = 0;
}

void tls_wire_input(struct wire *wire, const char *bytes, size_t n)
{
    struct tls_wire *tls = &wire->tls;
    bool kept = buf_bytes(&tls->raw) > 0;

    if (kept && n > 0 && !buf_append(wire->loop, &tls->raw, bytes, n)) {
        wire_break(wire, WIRE_NO_MEMORY, "no memory");
        return;
    }
    tls->in = kept ? buf_first(&tls->raw) : bytes;
    tls->in_bytes = kept ? buf_bytes(&tls->raw) : n;
    if (wire->state == WIRE_SHAKING)
        tls_wire_shake(wire);
    if (wire->state == WIRE_OPEN)
        decrypt(wire);
    if (wire->state != WIRE_CLOSED)
        keep_rest(wire, kept);
}
