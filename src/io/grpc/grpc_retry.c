/* grpc_retry.c - when a refused client may come back: see grpc_retry.h. */
#include "io/grpc/grpc_retry.h"

#include <assert.h>
#include <google/rpc/retry.pb-c.h>
#include <openssl/evp.h>
#include <string.h>

#define TYPE_URL "type.googleapis.com/google.rpc.RetryInfo"

static char *unchanged(const char *text) /* messages have no const; what is packed is only read */
{
    return (char *)(uintptr_t)text;
}

/* The details in base64. A text that is too long is left out: it stands in grpc-message, too. */
static size_t write_details(enum grpc_code code, const char *text, tg_ms wait,
                            char out[GRPC_RETRY_ROOM])
{
    Google__Rpc__Duration delay = GOOGLE__RPC__DURATION__INIT;
    Google__Rpc__RetryInfo info = GOOGLE__RPC__RETRY_INFO__INIT;
    Google__Rpc__Any any = GOOGLE__RPC__ANY__INIT, *details = &any;
    Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
    uint8_t packed_info[32], packed[GRPC_RETRY_TEXT_MAX + 128];

    delay.seconds = wait / 1000;
    delay.nanos = (int32_t)(wait % 1000) * 1000000;
    info.retry_delay = &delay;
    assert(google__rpc__retry_info__get_packed_size(&info) <= sizeof packed_info);
    any.type_url = unchanged(TYPE_URL);
    any.value.len = google__rpc__retry_info__pack(&info, packed_info);
    any.value.data = packed_info;
    status.code = (int32_t)code;
    if (text != NULL && strlen(text) <= GRPC_RETRY_TEXT_MAX)
        status.message = unchanged(text);
    status.n_details = 1;
    status.details = &details;
    assert(google__rpc__status__get_packed_size(&status) <= sizeof packed);
    size_t n = google__rpc__status__pack(&status, packed);
    return (size_t)EVP_EncodeBlock((unsigned char *)out, packed, (int)n);
}

void grpc_retry_write(enum grpc_code code, const char *text, tg_ms wait, struct grpc_retry *retry)
{
    retry->n = 0;
    if (wait <= 0) {
        retry->fields[retry->n++] =
            (struct http_field){SLICE("grpc-retry-pushback-ms"), SLICE("-1")};
        return;
    }
    const struct slice ms = {retry->digits, http_put_number(retry->digits, wait)};
    const struct slice details = {retry->details, write_details(code, text, wait, retry->details)};
    retry->fields[retry->n++] = (struct http_field){SLICE("grpc-retry-after-ms"), ms};
    retry->fields[retry->n++] = (struct http_field){SLICE("grpc-retry-pushback-ms"), ms};
    retry->fields[retry->n++] = (struct http_field){SLICE("grpc-status-details-bin"), details};
}
