/* fuzz_admit.c - any bytes as a message of a caller, in JSON or in a query: read, or refused with
 * words.
 *
 * The first byte chooses the kind. What was read is in its range, and its texts lie within what was
 * given; what was refused has a reason of at most a line.
 */
#include <stdlib.h>
#include <string.h>

#include "insist.h"
#include "server/admit/admit_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const struct refusal *why)
{
    insist(why->reason == REPLY_INVALID_REQUEST);
    insist(why->text[0] != 0 && strlen(why->text) < sizeof why->text);
    insist(strlen(why->param) < sizeof why->param);
    for (const char *at = why->text; *at != 0; at++)
        insist((unsigned char)*at >= ' ');
}

static void check_message(const struct admit_message *message)
{
    const struct admit_ask *ask = &message->ask;

    insist(ask->cost >= 0 && ask->cost <= TG_NUMBER_MAX);
    insist(ask->ttl_ms >= 0 && ask->ttl_ms <= TG_NUMBER_MAX);
    insist(message->timeout_ms >= 0 && message->timeout_ms <= TG_NUMBER_MAX);
    insist(!ask->has_value || ask->value >= 0);
    insist(ask->hold_s >= 0);
    insist(ask->priority <= TG_PRIORITY_COUNT);
    insist(message->release.outcome <= TG_OUTCOME_CANCELLED);
    insist(message->release.actual >= -1);
    insist(message->n_leases <= ADMIT_HEARTBEAT_MAX);
    insist(message->used <= sizeof message->room);
    for (size_t i = 0; i < message->n_leases; i++)
        insist(message->leases[i].n == 0 || message->leases[i].at != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct json_reader *reader;
    static struct admit_message message;
    struct refusal why;
    bool fine;

    if (reader == NULL)
        reader = json_reader_new();
    if (size == 0 || reader == NULL)
        return 0;
    char *text = malloc(size); /* its own, so that a step beyond its end is seen */
    memcpy(text, data + 1, size - 1);
    struct slice body = {text, size - 1};
    if (data[0] % 4 == 3) {
        const struct http_head head = {.target = body};
        fine = admit_read_query(&head, &message, &why);
    } else {
        fine = admit_read(reader, body, body.n, (enum admit_kind)(data[0] % 4), &message, &why);
    }
    if (fine)
        check_message(&message);
    else
        check_refusal(&why);
    free(text);
    return 0;
}
