/* See number.h. */
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool number_parse_part(const char *text, size_t length, uint64_t low, uint64_t high,
                       uint64_t *ret_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[i] - '0'), &number))
            return false;
    if (length == 0 || number < low || number > high)
        return false;
    *ret_number = number;
    return true;
}

bool number_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret_number)
{
    return number_parse_part(text, strlen(text), low, high, ret_number);
}

bool number_parse_real(const char *text, double low, double high, double *ret_number)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || !(number >= low && number <= high))
        return false;
    *ret_number = number;
    return true;
}
