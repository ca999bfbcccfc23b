/* takeover_wire.h - what two processes say to each other while one takes over from the other.
 *
 *     new                                       old
 *      | HELLO version, pid ------------------> |  same user? same version? nobody else is at it?
 *      |                                        |  follows its calls
 *      | <------- OFFER clock, seed; SOCKETS, LOCK (descriptors); EVENTS ...; OFFERED
 *      |  opens the ledger, reads budgets       |
 *      | READ --------------------------------> |
 *      |  makes workers and their threads,      |
 *      |  listens, has reached the store        |
 *      | READY where to relay to -------------> |
 *      | <------------------ STATE ..., COMMIT  |  limits, keys
 *      |  loads it                              |
 *      | TAKING ------------------------------> |  accepts nothing any more
 *      | <------------- EVENTS ..., HOLDING     |
 *      | TAKEN -------------------------------> |  relays
 *      | <------------- EVENTS ..., RETIRED     |
 *      |  accepts                               |  drains
 *      | <------------------------- EVENTS ...  |  as its calls are settled
 *      | <------------------------------- BYE   |  ends
 *
 * One of the two serves, whatever happens to the other or to the link: the old one up to RETIRED,
 * the new one from then on. REFUSED, with a text, may come instead of anything the old one says up
 * to RETIRED: it goes on, and the new one ends. So it does when the link ends, or the new one takes
 * too long for a step; between HOLDING and TAKEN that is a matter of seconds, since nobody accepts
 * then. A new process that hears no RETIRED, because the link ends without a word, looks at the
 * lock of the other's journal, which goes with its process: if it is free, the old one is dead, and
 * it serves alone; else the old one goes on, and it ends.
 *
 * A frame is one message of a SOCK_SEQPACKET socket: it has its end, and may carry descriptors.
 */
#ifndef TG_RUNTIME_TAKEOVER_WIRE_H
#define TG_RUNTIME_TAKEOVER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "tollgate.h"

/* Changes with every change of what is said, states included: both must have the same. */
#define TAKEOVER_VERSION 3

#define TAKEOVER_FRAME_MAX 65536 /* bytes of a payload */
#define TAKEOVER_SOCKETS_MAX 32  /* descriptors in one frame */

enum takeover_type {
    TAKEOVER_HELLO = 1,
    TAKEOVER_REFUSED,
    TAKEOVER_OFFER,
    TAKEOVER_SOCKETS,
    TAKEOVER_LOCK,
    TAKEOVER_OFFERED,
    TAKEOVER_READ,
    TAKEOVER_READY,
    TAKEOVER_STATE,
    TAKEOVER_COMMIT,
    TAKEOVER_TAKING,
    TAKEOVER_HOLDING,
    TAKEOVER_TAKEN,
    TAKEOVER_RETIRED, /* with the number of processes that left before, and have not ended */
    TAKEOVER_EVENTS,
    TAKEOVER_BYE,
};

struct takeover_hello {
    char magic[8];
    uint32_t version;
    int64_t pid;
};

struct takeover_offer {
    int64_t pid;
    int64_t epoch_ns; /* the steady clock's */
    uint64_t seed;    /* for everything that is hashed */
    uint32_t journal; /* the number of its journal, whose lock says that it lives */
};

struct takeover_sockets {
    char name[16]; /* "gateway", "grpc", "admin", "probe" */
    char address[256];
};

/* Where requests are relayed to that still come by connections of the old process. */
struct takeover_ready {
    char gateway[108], grpc[108]; /* paths of local sockets; grpc empty: it is not served */
};

/* Events and states are records, one behind the other, each with its length. */
enum takeover_record_kind {
    TAKEOVER_SENT = 1,    /* a call was sent: see struct spending_event */
    TAKEOVER_SETTLED,     /* it was settled */
    TAKEOVER_STORE,       /* a charge, a refund or a settlement of limits: see store_save() */
    TAKEOVER_LIMITS,      /* the name of a set of limits, by its number */
    TAKEOVER_STORE_STATE, /* a part of what store_save() gives */
    TAKEOVER_KEYS_STATE,  /* a part of what keyring_save() gives */
};

struct takeover_record {
    uint32_t kind;
    uint32_t bytes; /* what follows */
};

struct takeover_money {
    uint64_t call;
    int64_t micro, reserved_at;
    uint64_t entry;
    uint32_t journal, tenant, user_bytes; /* the user's name follows */
};

struct takeover_frame {
    enum takeover_type type;
    size_t n; /* bytes of the payload */
    size_t n_fds;
    int fds[TAKEOVER_SOCKETS_MAX]; /* the receiver's to close */
    char payload[TAKEOVER_FRAME_MAX];
};

/* "PATH.takeover" of a ledger. False: it is longer than the name of a local socket may be, or the
 * ledger is in memory. */
bool takeover_path(const char *ledger, const char *suffix, char path[108]);

/* A local socket that only this user may connect to, listening under that name; what was there is
 * replaced. -1: `problem` says why. */
int takeover_listen(const char *path, int type, struct tg_problem *problem);

/* Whether the process at the other end is of the same user. */
bool takeover_is_own(int fd);

/* 1: sent, received. 0: not now, for sockets that do not block. -1: it is over. */
int takeover_send(int fd, enum takeover_type type, const void *payload, size_t n, const int *fds,
                  size_t n_fds);
int takeover_receive(int fd, struct takeover_frame *frame);

/* Closes the descriptors that nobody took. */
void takeover_close_fds(struct takeover_frame *frame);

#endif
