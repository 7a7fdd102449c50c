/* A sample source whose samples encoders make of another source's (targets.h): of frames latents,
 * say. The dtype and the shape of a sample are known with the first batch, and are kept in the
 * journal's folder, with that batch's result:
 *
 *     encoded        penstock-encoded 1 <digest> <samples> <dtype> <axes> <lengths...>, a new line,
 *                    and the result of the first samples
 *     encoded.lock   locked by the process that asks for the first batch
 *
 * So all processes agree, and no sample is encoded twice. Encoders are started when a batch is
 * wanted, and not before.
 */
#ifndef PENSTOCK_WORKSHOP_ENCODE_ENCODING_H
#define PENSTOCK_WORKSHOP_ENCODE_ENCODING_H

#include "base/error.h"
#include "workshop/making/making.h"
#include "workshop/making/targets.h"

#include <stdint.h>

struct encoding_options {
    const char *command; /* NULL: none */
    uint64_t encoders;   /* processes, 1 to 256 */
    uint64_t batch;      /* samples of a batch, at most */
    uint64_t timeout_s;  /* until an encoder connects, and of one batch */
};

/* What is not given on a command line: one process, a batch of one sample, 600 s. */
#define ENCODING_DEFAULTS                            \
    {                                                \
        .encoders = 1, .batch = 1, .timeout_s = 600, \
    }

/* What encoders make of what. */
struct encoding_plan {
    const struct encoding_options *options;
    uint64_t memory_bytes; /* that the process takes, encoders' included */
    struct sample_source inner;
    const struct target *inputs; /* [input_count] of the inner source, in order of path; encoders
                                  * get fields of these names */
    size_t input_count;
    const char *output; /* path of the target that encoders make; others are the inner source's */
};

struct encoding;

/* All of `plan` is borrowed. UNSUPPORTED: an input that encoders cannot get. INVALID: inputs of
 * unequal lengths. NO_MEMORY, also where memory_bytes does not hold the encoders' rings.
 * encoding_free() ends the encoders; NULL is fine. */
MUST_USE enum status encoding_new(const struct encoding_plan *plan, struct encoding **ret_encoding,
                                  struct error *err);
void encoding_free(struct encoding *encoding);

/* What a sample is: from the folder `folder_fd`, or from the first batch. `digest` stands for all
 * that decides the results: those of another one are refused. `wish` gets dtype, rank and the shape
 * behind the first axis. Blocks while another process asks for the first batch. INVALID: results of
 * another command. Errors of the inner source and of the encoders. */
MUST_USE enum status encoding_settle(struct encoding *encoding, int folder_fd, const char *digest,
                                     struct target_wish *wish, struct error *err);

/* The source; borrows the encoding. Its samples of `output` are checked against what was settled.
 */
struct sample_source encoding_source(struct encoding *encoding);

/* Slabs of an encoded target are whole batches, and as short as can be: each is asked for again
 * after an interruption. */
void encoding_cut(const struct encoding_options *options, struct target *target);

/* making_run() with the encoders' memory within making->memory_bytes. */
MUST_USE enum status encoding_make(const struct encoding *encoding,
                                   const struct making_options *making, struct targets *targets,
                                   struct making_result *ret_result, struct error *err);

#endif
