/* See spelling.h. */
#include "base/spelling.h"

#include "base/number.h"

#include <string.h>

/* Row by row. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t a_length = strnlen(a, SPELLING_BYTES), b_length = strnlen(b, SPELLING_BYTES);
    size_t row[SPELLING_BYTES + 1];
    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            row[j] = min_u64(diagonal + (a[i - 1] != b[j - 1]), min_u64(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[b_length];
}

const char *spelling_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    size_t least = 2 + strnlen(word, SPELLING_BYTES) / 5;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        if (distance < least) {
            least = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}
