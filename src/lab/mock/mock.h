/* mock.h - an upstream that speaks the APIs of OpenAI, Anthropic and Gemini, by a script.
 *
 *     mock_options_init(&options);
 *     err = mock_start(&options, script, &mock, &problem);
 *     ... mock_port(mock) ...
 *     mock_stop(mock);
 *
 * For demonstrations, tests and benchmarks. It starts a thread for each worker; all else of this
 * interface is for one thread.
 */
#ifndef TG_MOCK_MOCK_H
#define TG_MOCK_MOCK_H

#include <stdio.h>

#include "lab/mock/mock_auth.h"
#include "lab/mock/mock_script.h"
#include "tollgate.h"

#define MOCK_WORKERS_MAX 64

struct mock_options {
    int port;           /* 0: any */
    int workers;        /* default 1 */
    const char *keys;   /* with commas: credentials that are good; null: all are */
    const char *models; /* with commas: what GET /v1/models lists */
    struct mock_auth_options auth;
    int64_t rpm;           /* requests a minute for each key; 0: any number */
    size_t keep;           /* how many records GET /mock/requests gives; default 10000 */
    struct mock_base base; /* what scripts begin with that come later, by POST /mock/script */
    FILE *record;          /* gets every record; borrowed; null: none */
};

void mock_options_init(struct mock_options *options);

struct mock;

/* Strings of the options are borrowed; the script is the mock's, also if it fails. TG_ERR_STORE:
 * the port cannot be had, or no thread. TG_ERR_MEMORY. `problem` says what is wrong. */
TG_MUST_CHECK enum tg_err mock_start(const struct mock_options *options, struct mock_script *script,
                                     struct mock **mock, struct tg_problem *problem);
int mock_port(const struct mock *mock);

/* Closes every connection and joins every thread. False: a record could not be written. */
bool mock_stop(struct mock *mock);

#endif
