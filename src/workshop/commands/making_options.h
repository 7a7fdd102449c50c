/* What the commands that make datasets share: which part of the work this process does, its
 * threads and memory, and what is told at the end. Main thread. */
#ifndef PENSTOCK_WORKSHOP_COMMANDS_MAKING_OPTIONS_H
#define PENSTOCK_WORKSHOP_COMMANDS_MAKING_OPTIONS_H

#include "cli/common/options.h"
#include "workshop/encode/encoding.h"
#include "workshop/making/making.h"

/* Rows of a command's table (options.h): how it makes, in the member `making` of its struct
 * options. `verify` there is true at first. */
// clang-format off
#define CLI_MAKING_OPTIONS(making)                                                             \
    {"no-verify", 0, NULL, "do not read the written chunks back", CLI_OFF(making.verify)},     \
    CLI_WORK_OPTIONS(making),                                                                  \
    {"part", 0, "I/N", "write part I (0 to N-1) of N parts, whatever the launcher says",       \
     CLI_OWN_IN(making, cli_making_part)}

/* Its threads and memory alone. */
#define CLI_WORK_OPTIONS(making)                                                               \
    {"threads", 'j', "N", "threads, or auto (one per CPU)",                                    \
     CLI_THREADS(making.thread_count, 1024)},                                                  \
    {"memory", 'm', "SIZE",                                                                    \
     "most memory of this process, or auto (half of the node's free memory, shared by its "    \
     "processes)",                                                                             \
     CLI_BYTES(making.memory_bytes)}

/* The codec of arrays that are made of something else, in the members of `made`. */
#define CLI_CODEC_OPTIONS(made)                                                                \
    {"codec", 0, "NAME", "as of penstock rechunk (zstd)", CLI_TEXT(made.codec)},               \
    {"level", 0, "N", "the codec's level (1)", CLI_OWN_IN(made.level, cli_making_level)},      \
    {"shuffle", 0, "HOW", "shuffle of blosc: noshuffle, shuffle or bitshuffle (bitshuffle)",   \
     CLI_TEXT(made.shuffle)}

/* The rows of a struct encoding_options, but its command. */
#define CLI_ENCODING_OPTIONS(encoding)                                                          \
    {"encoders", 0, "N", "processes of CMD (1)", CLI_COUNT(encoding.encoders, 1, 256)},         \
    {"batch", 'b', "N", "samples of a batch, at most (1)", CLI_COUNT(encoding.batch, 1, 4096)}, \
    {"encoder-timeout", 0, "S",                                                                 \
     "seconds until an encoder asks for its first batch, and for one batch (600)",              \
     CLI_COUNT(encoding.timeout_s, 1, 1000000)}
// clang-format on

/* Of help: how the command ends; what will fail again, but for wrong usage, follows. */
#define CLI_MAKING_EXIT_CODES                                                                  \
    "Exit code: 0 this part is done; 1 failed, and the same command can go on; 4 failed, and " \
    "will fail again: wrong usage, or "

/* Of --part: reads "0/4" into a struct making_options. */
cli_parse_argument cli_making_part;

/* Of --level: reads a codec's level into an int. */
cli_parse_argument cli_making_level;

/* Reads "a,b" into a struct making_names, whose list is the caller's to free. */
cli_parse_argument cli_making_names;

/* Settles what is 0: the part by the launcher's variables (part_count), threads, and memory.
 * INVALID: a launcher tells this process's rank, and nobody tells of how many. */
MUST_USE enum status cli_making_settle(struct making_options *making, struct error *err);

/* Prints what was done, and the digest where all is. `claim`: what reading back has shown, for a
 * destination that is complete. */
void cli_making_tell(const struct making_options *making, const struct making_result *result,
                     const char *claim);

#endif
