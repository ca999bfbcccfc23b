/* config_values.h - values as they are written in a configuration: numbers, units, addresses.
 *
 * Each reads a text that ends in 0 and says whether it is one; the result is untouched if not.
 * Nothing may stand before or after.
 */
#ifndef TG_CONFIG_CONFIG_VALUES_H
#define TG_CONFIG_CONFIG_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "server/config/config.h"

/* Digits alone, up to TG_NUMBER_MAX. */
bool value_count(const char *text, int64_t *count);

/* -1.5, 2, 1e-3; finite. */
bool value_number(const char *text, double *number);

/* A whole number and one of ms, s, m, h, d, up to TG_NUMBER_MAX ms. */
bool value_duration(const char *text, tg_ms *duration);

/* A whole number and one of B, KiB, MiB, GiB, TiB, up to TG_NUMBER_MAX bytes. */
bool value_size(const char *text, int64_t *bytes);

/* 50, 0.15: at most six decimals, exact; up to TG_NUMBER_MAX micro-dollars. */
bool value_usd(const char *text, int64_t *micro_usd);

/* 2, 0.5, 1.75: at most three decimals, exact, in thousandths. */
bool value_factor(const char *text, int64_t *milli);

bool value_sha256(const char *text, uint8_t hash[32]);

/* RFC 3339, from 1970 on: 2027-12-31T00:00:00Z, also with a fraction or an offset. */
bool value_time(const char *text, tg_ms *at);

/* Texts of a form. */
bool value_is_name(const char *text);
bool value_is_zone(const char *text);
bool value_is_line(const char *text);
bool value_is_address(const char *text);
bool value_is_path(const char *text);
bool value_is_store(const char *text);
bool value_is_pattern(const char *text);
bool value_is_field(const char *text);

/* A network; an address alone is a network of one. Bits after the prefix are cleared. */
bool value_network(const char *text, struct config_range *range);

/* Parts of a URL; they point into it. */
struct value_url {
    bool tls;
    const char *host; /* IPv6 without brackets */
    size_t host_bytes;
    int port;         /* the usual one if there is none */
    const char *path; /* without slashes at its end */
    size_t path_bytes;
    bool has_query; /* or a fragment */
};

bool value_url(const char *text, struct value_url *url);

/* "header:NAME"; `name` then points into the text. */
bool value_is_header(const char *text, const char **name);

#endif
