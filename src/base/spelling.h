/* The word that was probably meant, for messages about an unknown one. Pure, safe from any thread.
 */
#ifndef PENSTOCK_BASE_SPELLING_H
#define PENSTOCK_BASE_SPELLING_H

#include <stddef.h>

enum { SPELLING_BYTES = 64 }; /* longer words are compared up to here */

/* The candidate with the fewest letters to insert, remove or change (Levenshtein); NULL where even
 * that one is another word: more than one letter, and one more for each five of `word`. */
const char *spelling_nearest(const char *word, const char *const *candidates, size_t count);

#endif
