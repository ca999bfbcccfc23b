/* hex.h - a digit of base 16. */
#ifndef TG_TEXT_HEX_H
#define TG_TEXT_HEX_H

/* Its value, of a small letter or a capital; -1: it is none. */
static inline int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
