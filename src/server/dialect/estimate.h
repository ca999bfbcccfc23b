/* estimate.h - how many tokens a call is likely to take, before anybody has counted them.
 *
 *     prompt = ceil(text_bytes / bytes_per_token) + token_ids + 4 * messages
 *              + image * (images + audios + files)
 *     output = (max_output, or what is assumed) * choices * prompts
 *
 * Rounded up, and TG_NUMBER_MAX at most. Without files, images and audio the prompt is rarely under
 * what the provider counts at bytes_per_token 3, and close to it at 4. This is for limits; money is
 * reserved by bound.h.
 */
#ifndef TG_DIALECT_ESTIMATE_H
#define TG_DIALECT_ESTIMATE_H

#include "server/dialect/ask.h"
#include "tollgate.h"

#define ESTIMATE_MESSAGE_TOKENS 4 /* role and separators of a message */

/* Bytes of a file in base64 that are counted as one token. A page of text has less, a scanned one
 * more; without this a book would be taken for a picture, and with one byte for a token a picture
 * for a book. */
#define ESTIMATE_FILE_BYTES 100

struct estimate_rule {
    double bytes_per_token; /* greater than 0; anything else counts as 4; default 4 */
    int64_t image; /* tokens of an image or recording, and of a file at least; negative is 0;
                      default 1500 */
};

void estimate_rule_init(struct estimate_rule *rule);

int64_t estimate_prompt(const struct ask *ask, const struct estimate_rule *rule);

/* Tokens of all choices of all prompts. `assumed` is for a call that does not say; embeddings and
 * count_tokens have none. */
int64_t estimate_output(const struct ask *ask, int64_t assumed);

/* Tokens in bytes that a model wrote. */
int64_t estimate_text(int64_t bytes, const struct estimate_rule *rule);

/* Whether the endpoint makes output at all. */
bool estimate_has_output(enum endpoint endpoint);

#endif
