/* translation.h - a call in one dialect, answered in another.
 *
 *     struct neutral_request request;
 *     neutral_request_init(&request);
 *     from->read_request(...) and to->write_request(...)        the body for the provider
 *     reply_terms_init(&terms, &request, ...)                   what the reply will need of it
 *     neutral_request_fini(&request);
 *
 *     translation_init(&translation, json, &terms, client, stream);
 *     translation_feed(&translation, bytes, n, &out);           a stream, cut anywhere
 *     translation_end(&translation, &out);                      when the provider has ended it
 *     translation_reply(&translation, body, &out);              or a whole reply
 *     translation_fini(&translation);
 *
 * What the provider reports of its use, and what has been written until then, is read on the way:
 * translation.reader.usage, text_bytes and final.
 *
 * What is appended to `out` is for the client at once. However a stream is cut, the same bytes come
 * out (every_cut_gives_the_same_bytes). `ended` says that the client has all it will get, whether
 * or not the provider closes its stream.
 */
#ifndef TG_TRANSLATE_TRANSLATION_H
#define TG_TRANSLATE_TRANSLATION_H

#include "server/dialect/sse.h"
#include "server/dialect/translate/dialects.h"

/* Points into itself: not to be copied or moved. */
struct translation {
    struct sse sse;
    struct reply_reader reader;
    struct reply_writer writer;
    const struct dialect_ops *provider;
    struct json_writer *out; /* while it is fed */
    int64_t text_bytes;      /* bytes of output: text, reasoning, names of tools and arguments */
    bool final;              /* the usage is the provider's last word */
};

/* The reader's, copies of texts that were escaped, and what is written, with room to grow. */
#define TRANSLATION_FACTOR (JSON_READER_FACTOR + 5)

/* Bytes that the translation of a request of n bytes takes at most, besides the body. */
size_t translation_takes(size_t n);

/* `terms` and `json` must outlive it. `stream`: the client gets events. */
void translation_init(struct translation *translation, struct json_reader *json,
                      const struct reply_terms *terms, const struct dialect_ops *client,
                      bool stream);
void translation_fini(struct translation *translation);

/* False: no memory, and the client's reply cannot be completed. */
bool translation_feed(struct translation *translation, const char *bytes, size_t n,
                      struct json_writer *out);
bool translation_end(struct translation *translation, struct json_writer *out);
bool translation_reply(struct translation *translation, struct slice body, struct json_writer *out);

/* The provider's connection has broken, or it says no more for another reason: a stream that has
 * not ended is told so. False: as above. */
bool translation_break(struct translation *translation, const char *message,
                       struct json_writer *out);

/* The client has all it will get. */
bool translation_ended(const struct translation *translation);

/* Why there is no reply, or none but an error; null: there is. A stream has told it already, where
 * it had begun. */
const struct neutral_error *translation_error(const struct translation *translation);

#endif
