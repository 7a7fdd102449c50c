/* The screen of `penstock top`: a job's readers and trainers as text. Pure. */
#ifndef PENSTOCK_CLI_TOP_TOP_SCREEN_H
#define PENSTOCK_CLI_TOP_TOP_SCREEN_H

#include "base/text.h"
#include "metrics/verdict.h"

#include <stdbool.h>

/* How fast a run publishes steps, over several looks: a look may be shorter than a step. Begins
 * zeroed. */
struct top_pace {
    struct {
        uint64_t ms, steps;
    } older, newer;
    double steps_per_s; /* 0: not known yet */
};

/* Takes a look at a reader into account: the rate is of the last half minute or more, and of some
 * steps. */
void top_pace_take(struct top_pace *pace, const struct metrics_snapshot *now);

struct top_view {
    const char *run_dir;
    const struct metrics_pair *pairs; /* [count], readers in order of rank; count > 0 */
    size_t count;
    bool asks_others; /* readers of other nodes are among the pairs, if they answer */
    const struct metrics_verdict *verdict;
    double steps_per_s; /* of the run; 0: not known yet */
    bool color;
    int width, height; /* of the terminal */
};

/* Appends at most `height` lines of at most `width` characters. */
void top_screen(const struct top_view *view, struct text *out);

/* Appends one line, for logs. */
void top_line(const struct top_view *view, struct text *out);

/* Appends one line of JSON: what the snapshots say, rates, and the verdict. */
void top_json(const struct top_view *view, struct text *out);

#endif
