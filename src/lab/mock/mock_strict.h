/* mock_strict.h - what the real providers refuse, for scripts that say `strict`. */
#ifndef TG_MOCK_MOCK_STRICT_H
#define TG_MOCK_MOCK_STRICT_H

#include "lab/mock/mock_ask.h"

/* Why the API of `ask` refuses a body that mock_ask_body() took; null: it does not. Static. */
const char *mock_strict_problem(const struct mock_ask *ask, struct json_reader *reader,
                                const char *body, size_t n, size_t readable);

#endif
