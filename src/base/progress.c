/* See progress.h. */
#include "base/progress.h"

#include "base/clock.h"
#include "base/size.h"

#include <stdio.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

static const uint64_t second_ns = 1000000000u;

void progress_init(struct progress *progress, const char *label, const char *unit, uint64_t total)
{
    uint64_t now = clock_now_ns();
    *progress = (struct progress){.label = label,
                                  .unit = unit,
                                  .total = total ? total : 1,
                                  .start_ns = now,
                                  .last_ns = now,
                                  .terminal = isatty(fileno(stderr))};
}

void progress_part(struct progress *progress, const char *label, uint64_t first, uint64_t total)
{
    progress->label = label;
    progress->first = first;
    progress->total = total ? total : 1;
    progress->start_ns = clock_now_ns();
}

static void draw(struct progress *progress, uint64_t done, uint64_t bytes, uint64_t now)
{
    double elapsed = (double)(now - progress->start_ns) / (double)second_ns;
    double share = (double)done / (double)progress->total;
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    struct size_text rate = rate_format(bytes, bytes ? elapsed : 0);
    double left = done > progress->first ? elapsed * (double)(progress->total - done) /
                                               (double)(done - progress->first)
                                         : 0;
    fprintf(stderr, "%s%s [%s] %3.0f%% %s of %s %s%s, %.0f s left%s",
            progress->terminal ? "\r" : "", progress->label, bar, share * 100,
            count_format(done).text, count_format(progress->total).text, progress->unit, rate.text,
            left, progress->terminal ? "\033[K" : "\n");
    fflush(stderr);
    progress->shown = true;
}

void progress_update(struct progress *progress, uint64_t done, uint64_t bytes)
{
    uint64_t now = clock_now_ns();
    uint64_t wait =
        progress->shown ? (progress->terminal ? second_ns : 10 * second_ns) : 2 * second_ns;
    if (now - progress->last_ns < wait)
        return;
    progress->last_ns = now;
    draw(progress, done, bytes, now);
}

void progress_done(struct progress *progress)
{
    if (progress->shown && progress->terminal)
        fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->shown = false;
}
