/* opaque_pack.h - what one provider wants back, carried by clients that know nothing of it.
 *
 * Clients of the chat API drop fields that they do not know, but all clients send back the ids of
 * tool calls. So Gemini's signature of a call travels in its id:
 *
 *     tg1g8_call_abcCiQB...     "tg1g", bytes of the id, "_", the id, the signature in base64url
 *
 * Clients of Anthropic's API send back signatures of thinking, those of the responses API
 * encrypted_content. There a text says whose it is, so that nobody else is shown it:
 *
 *     tg1.gemini.thought.google.CiQB...    dialect, kind, provider, and what was carried
 *
 * Both are made of the text alone, without a table: every gateway understands those of any other.
 */
#ifndef TG_NEUTRAL_OPAQUE_PACK_H
#define TG_NEUTRAL_OPAQUE_PACK_H

#include "io/text/text_out.h"
#include "server/dialect/neutral/neutral.h"

/* Appends the id with the signature in it; the id alone if the signature is no base64. */
void opaque_pack_id(struct text_out *out, struct slice id, struct slice signature);

/* False: the id carries nothing. `signature` is still in base64url. */
bool opaque_unpack_id(struct slice id, struct slice *bare, struct slice *signature);

/* Writes the signature as it was, to room for 4 bytes more than it has; how many. */
size_t opaque_unpack_signature(struct slice signature, char *room);

/* Whether a body has any of these in it, or an id that a translation made. It may say so of one in
 * which somebody's words look like them. */
bool opaque_is_in(struct slice body);

void opaque_pack(struct text_out *out, enum neutral_opaque kind, enum dialect dialect,
                 struct slice provider, struct slice text);

/* Leaves all as it is if the text carries nothing: it is the dialect's own then. */
void opaque_unpack(struct slice text, enum neutral_opaque *kind, enum dialect *dialect,
                   struct slice *provider, struct slice *carried);

#endif
