/* prefix.h - what a provider has counted of the messages of a call before.
 *
 * An agent sends its whole conversation again in each turn, and some more. Bounded by its bytes, a
 * turn of 600 KB would reserve several times what it costs. But the provider has counted nearly
 * all of it before: the reply to the last turn said how many tokens that had. So
 *
 *     prefix_find(memory, &who, body, &ask, now);           before bound_of()
 *     ...
 *     prefix_remember(memory, &who, &ask, tokens, now);     when the reply has reported its usage
 *
 * and bound_of() takes the reported tokens for the longest prefix that is known, and bytes for what
 * follows it: replies that are sent back are among what follows, because nobody reports what they
 * cost as input.
 *
 * Why this is a bound. The tokens are the provider's own count of a prompt that began with the same
 * bytes: the same messages, tools, instructions and other fields that a prompt is made of, at the
 * same model, for the same tenant. A longer prompt has these tokens, and those of what was added:
 * templates write messages one after the other, and separate them by tokens of their own. Where
 * that does not hold nothing is looked up or remembered: prompts of which the provider leaves out
 * parts (truncation, context_management), which refer to what may change (conversations, templates,
 * images by address), or which tools of the provider run several times.
 *
 * An earlier response that a call continues (previous_response_id) is the same without its bytes:
 * its input and its output are the input of the next. The provider has counted both, and shows them
 * again with frames of its own around the items of the output, each of which has more than half as
 * many tokens as its frame: so the output counts three times. It is known for the model that wrote
 * it, if what was before it was whole and known, too.
 *
 * The hash is keyed, with a key that is drawn when the process starts and never shown: whoever
 * sends bodies cannot make two of them that are taken for the same. See prefix.c.
 *
 * Each tenant has a table of its own, of a fixed size: none uses or evicts another's. All of it is
 * allocated at the start; a tenant that comes when all tables are taken, by tenants that were here
 * in the last half hour, has none, and is bounded by bytes.
 *
 * Threads: any. Hashing takes no lock.
 */
#ifndef TG_DIALECT_PREFIX_H
#define TG_DIALECT_PREFIX_H

#include "server/dialect/ask.h"
#include "tollgate.h"

#define PREFIX_KEPT_MS (30 * 60 * 1000) /* how long a count is believed */
#define PREFIX_TENANT_ENTRIES 512       /* prefixes of one tenant, of all its conversations */
#define PREFIX_BYTES_MAX (4 << 20)      /* messages; hashing more takes longer than a turn may */

/* Who asks, and where: all that a prompt depends on beside the body. */
struct prefix_who {
    struct slice tenant;
    struct slice provider, model; /* by their names upstream */
    struct slice extra;           /* headers that change prompts, as betas do; may be empty */
};

struct prefix_memory;

/* With tables for so many tenants, of about 12 KiB each. Null: no memory, or no random bytes. */
struct prefix_memory *prefix_memory_new(size_t tenants);
void prefix_memory_free(struct prefix_memory *memory); /* null is fine */

/* Sets what is known in the ask, of its messages and of the response that it continues, and its
 * hash for prefix_remember(); nothing where nothing is known or the call is not of the kind that
 * has a prefix. The body is the one that the ask was read
 * from. Asked for another model it forgets what it found before. */
void prefix_find(struct prefix_memory *memory, const struct prefix_who *who, const char *body,
                 struct ask *ask, tg_ms now);

/* The provider has counted `tokens` of input for this call, of all kinds. Only for what a provider
 * reported, for the call that was sent as it is: not for estimates. */
void prefix_remember(struct prefix_memory *memory, const struct prefix_who *who,
                     const struct ask *ask, int64_t tokens, tg_ms now);

/* The same of a response with this id, and of its input and output; `id` is not empty. Only for a
 * call whose prefix_find() was made. */
void prefix_remember_response(struct prefix_memory *memory, const struct prefix_who *who,
                              const struct ask *ask, struct slice id, const struct tg_usage *usage,
                              tg_ms now);

#endif
