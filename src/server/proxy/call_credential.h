/* call_credential.h - what lets a request in at its provider: a key, a token, a signature.
 *
 *     struct credential credential;
 *     credential_write(call, &credential);
 *     http_fields_add(...);                               the fields of the request
 *     credential_sign(call, &credential, head, body, n, &fields);
 *     ... send ...
 *     credential_wipe(&credential);
 */
#ifndef TG_PROXY_CALL_CREDENTIAL_H
#define TG_PROXY_CALL_CREDENTIAL_H

#include "io/sign/sigv4.h"
#include "server/proxy/call.h"

struct credential {
    char time[SIGV4_TIME_BYTES]; /* AWS: what x-amz-date says */
    size_t n;                    /* bytes of what the header says; 0: it is signed, not yet */
    char at[64 + 8000];          /* the longest prefix and key that a configuration may have */
};

/* The key with its prefix, or the token. False: the token has just ended. */
bool credential_write(const struct call *call, struct credential *credential);

/* Whether a field of the client's would be taken for one of a signature. */
bool credential_owns(const struct config_provider *provider, struct slice name);

/* Adds the fields that let the request in. `head` has method and target, `pieces` is its body. The
 * fields point into the credential. False: there is no room, or no memory. */
bool credential_add(const struct call *call, struct credential *credential, struct slice target,
                    const struct slice *pieces, size_t n, struct http_fields *fields);

void credential_wipe(struct credential *credential);

#endif
