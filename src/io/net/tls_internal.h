/* tls_internal.h - TLS on a wire: what wire.c asks of tls_wire.c. */
#ifndef TG_NET_TLS_INTERNAL_H
#define TG_NET_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdatomic.h>

#include "io/net/buf.h"
#include "io/net/tls.h"

struct wire;

struct tls_context {
    atomic_int refs;
    bool server;
    SSL_CTX *ssl;
    BIO_METHOD *method; /* reads and writes a wire's buffers */
};

/* A session to resume, for one origin on one loop. */
struct tls_ticket {
    SSL_SESSION *session; /* null: none */
};

void tls_ticket_fini(struct tls_ticket *ticket);

/* The TLS of one wire; `ssl` null: plain. */
struct tls_wire {
    SSL *ssl;
    bool http2; /* it is offered to the peer, or taken from it, by ALPN; set before the start */
    bool http2_only; /* a client offers nothing else */
    struct tls_context *context;
    struct tls_ticket *ticket; /* null: none, or the server's side */
    const char *in;            /* what the socket gave, during a read */
    size_t in_bytes;
    struct buf raw;    /* the same, kept while the owner takes nothing */
    struct buf cipher; /* encrypted, to be written */
    char reason[160];
};

/* The BIO through which OpenSSL reads and writes a wire's buffers, for a context. */
BIO_METHOD *tls_wire_method(void);

bool tls_wire_init(struct wire *wire, struct tls_context *context, const char *name,
                   struct tls_ticket *ticket);
void tls_wire_fini(struct wire *wire);

/* The handshake is over, and HTTP/2 was chosen. */
bool tls_wire_is_http2(const struct wire *wire);

/* Which of the client's protocols is taken: SSL_CTX_set_alpn_select_cb(). */
int tls_wire_choose(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_n,
                    const unsigned char *offered, unsigned offered_n, void *arg);

/* Bytes arrived; or none did, and what is kept shall be tried again. */
void tls_wire_input(struct wire *wire, const char *bytes, size_t n);

/* The first move of a handshake, and every further one. */
void tls_wire_shake(struct wire *wire);

/* Encrypts and sends as much as the socket takes. */
void tls_wire_flush(struct wire *wire);

/* Sends close_notify, if the socket takes it at once. */
void tls_wire_close_notify(struct wire *wire);

#endif
