/* admit_client.c - asks Tollgate over gRPC before it works, and retries when it is told to.
 *
 *     protoc-c --proto_path=../../proto --c_out=. tollgate/v1/admission.proto
 *     cc -I. admit_client.c tollgate/v1/admission.pb-c.c -lcurl -lprotobuf-c
 *     ./a.out http://127.0.0.1:50051 TOKEN
 *
 * You need no gRPC library to call one method: an RPC is an HTTP/2 POST whose body is a message
 * with a prefix of five bytes, and whose status is in the trailers. libcurl does the rest.
 *
 * It asks for refusals as a status (x-tollgate-enforce). The back-off is a random time of 50 to
 * 200 ms, doubled after each attempt, but never less than the server says, and it makes three
 * attempts in all. Jitter keeps clients that were refused together from coming back together.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tollgate/v1/admission.pb-c.h>

enum { ATTEMPTS = 3, FRAME_HEAD = 5, RESOURCE_EXHAUSTED = 8, BODY_MAX = 4096 };

/* The result of one RPC. */
struct reply {
    int status; /* the gRPC status; -1: there was none */
    long retry_after_ms;
    char message[256];
    unsigned char body[BODY_MAX];
    size_t n;
};

struct client {
    CURL *curl;
    struct curl_slist *headers;
    const char *url;
};

/* Called for headers and trailers alike, one at a time. */
static size_t take_field(char *line, size_t one, size_t n, void *arg)
{
    struct reply *reply = arg;
    char text[512];

    snprintf(text, sizeof text, "%.*s", (int)(n < 511 ? n : 511), line);
    sscanf(text, "grpc-status: %d", &reply->status);
    sscanf(text, "grpc-retry-after-ms: %ld", &reply->retry_after_ms);
    sscanf(text, "grpc-message: %255[^\r\n]", reply->message);
    return one * n;
}

static size_t take_body(char *bytes, size_t one, size_t n, void *arg)
{
    struct reply *reply = arg;

    if (n > sizeof reply->body - reply->n)
        return 0;
    memcpy(reply->body + reply->n, bytes, n);
    reply->n += n;
    return one * n;
}

/* Returns the status, or -1 if there was none; the reply's message follows its first five bytes. */
static int call(const struct client *client, const char *method, const ProtobufCMessage *message,
                struct reply *reply)
{
    unsigned char frame[BODY_MAX];
    char url[512];
    size_t n = protobuf_c_message_get_packed_size(message);

    *reply = (struct reply){.status = -1};
    if (n > sizeof frame - FRAME_HEAD)
        return -1;
    memset(frame, 0, FRAME_HEAD); /* not compressed; then the length */
    frame[3] = (unsigned char)(n >> 8);
    frame[4] = (unsigned char)n;
    protobuf_c_message_pack(message, frame + FRAME_HEAD);
    snprintf(url, sizeof url, "%s/tollgate.v1.Admission/%s", client->url, method);
    curl_easy_setopt(client->curl, CURLOPT_URL, url);
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, frame);
    curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE, (long)(FRAME_HEAD + n));
    curl_easy_setopt(client->curl, CURLOPT_HEADERDATA, reply);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, reply);
    CURLcode code = curl_easy_perform(client->curl);
    if (code != CURLE_OK)
        snprintf(reply->message, sizeof reply->message, "%s", curl_easy_strerror(code));
    return reply->status;
}

static void pause_ms(double ms)
{
    struct timespec time = {(time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000L};

    nanosleep(&time, NULL);
}

/* Returns 0 if the call was admitted. */
static int admit(const struct client *client, const Tollgate__V1__AdmitRequest *request,
                 struct reply *reply)
{
    for (int attempt = 0;; attempt++) {
        int status = call(client, "Admit", &request->base, reply);
        if (status != RESOURCE_EXHAUSTED || attempt + 1 >= ATTEMPTS)
            return status;
        double wait = (50 + 150.0 * rand() / RAND_MAX) * (1 << attempt);
        if (wait < (double)reply->retry_after_ms)
            wait = (double)reply->retry_after_ms;
        fprintf(stderr, "refused: %s; again in %.0f ms\n", reply->message, wait);
        pause_ms(wait);
    }
}

/* Releases the lease, however the work has ended. */
static void release(const struct client *client, char *lease, Tollgate__V1__Outcome outcome)
{
    Tollgate__V1__ReleaseRequest request = TOLLGATE__V1__RELEASE_REQUEST__INIT;
    struct reply reply;

    request.lease_id = lease;
    request.outcome = outcome;
    if (*lease != '\0' && call(client, "Release", &request.base, &reply) != 0)
        fprintf(stderr, "not released: %s\n", reply.message);
}

static int work(const struct client *client)
{
    Tollgate__V1__AdmitRequest request = TOLLGATE__V1__ADMIT_REQUEST__INIT;
    struct reply reply;

    request.cost_given_case = TOLLGATE__V1__ADMIT_REQUEST__COST_GIVEN_COST;
    request.cost = 100;
    if (admit(client, &request, &reply) != 0 || reply.n < FRAME_HEAD) {
        fprintf(stderr, "not admitted: %s\n", reply.message);
        return 1;
    }
    Tollgate__V1__AdmitReply *answer =
        tollgate__v1__admit_reply__unpack(NULL, reply.n - FRAME_HEAD, reply.body + FRAME_HEAD);
    if (answer == NULL)
        return 1;
    puts("the work is done");
    release(client, answer->lease_id, TOLLGATE__V1__OUTCOME__OUTCOME_OK);
    tollgate__v1__admit_reply__free_unpacked(answer, NULL);
    return 0;
}

static void set_up(struct client *client, const char *token)
{
    char field[300];

    snprintf(field, sizeof field, "authorization: Bearer %s", token);
    client->headers = curl_slist_append(NULL, field);
    client->headers = curl_slist_append(client->headers, "content-type: application/grpc");
    client->headers = curl_slist_append(client->headers, "te: trailers");
    client->headers = curl_slist_append(client->headers, "x-tollgate-enforce: 1");
    curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, client->headers);
    if (strncmp(client->url, "https:", 6) == 0) {
        curl_easy_setopt(client->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    } else {
        curl_easy_setopt(client->curl, CURLOPT_HTTP_VERSION,
                         (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
        /* Version 7.88, in Debian 12, fails when it reuses such a connection. */
        curl_easy_setopt(client->curl, CURLOPT_FRESH_CONNECT, 1L);
    }
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS, 2000L);
    curl_easy_setopt(client->curl, CURLOPT_HEADERFUNCTION, take_field);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, take_body);
}

int main(int argc, char **argv)
{
    struct client client = {.curl = curl_easy_init()};

    if (argc != 3 || client.curl == NULL) {
        fprintf(stderr, "usage: %s http://HOST:PORT TOKEN\n", argv[0]);
        return 2;
    }
    srand((unsigned)time(NULL));
    client.url = argv[1];
    set_up(&client, argv[2]);
    int status = work(&client);
    curl_slist_free_all(client.headers);
    curl_easy_cleanup(client.curl);
    return status;
}
