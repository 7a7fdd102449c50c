/* Configuration: one table of options makes the YAML reader, --set, the environment, --help and the
 * docs.
 *
 * Sources, later ones win: defaults, the YAML file, the environment (PENSTOCK_ORDER_SEED=3 for
 * order.seed), --set order.seed=3. A `struct config` owns its strings. One thread.
 */
#ifndef PENSTOCK_CONFIG_CONFIG_H
#define PENSTOCK_CONFIG_CONFIG_H

#include "base/error.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "mesh/cut.h"
#include "plan/order/plan.h"
#include "store/store.h"
#include "topology/topology.h"

#include <stdbool.h>
#include <stdint.h>

enum config_bad_sample { BAD_SAMPLE_FAIL, BAD_SAMPLE_MASK };
enum config_missing_chunk { MISSING_CHUNK_AUTO, MISSING_CHUNK_FILL, MISSING_CHUNK_FAIL };
enum config_early_leave { EARLY_LEAVE_FAIL, EARLY_LEAVE_WARN };

/* Whether another value gives another order of samples (docs/inside/order.md). */
enum config_order { KEEPS_ORDER, CHANGES_ORDER };

/* "train:0.9,val:0.1": a list of names and shares. */
struct config_shares {
    char *text;                 /* owned */
    struct samples_part *parts; /* [count], owned, with their names and ranges */
    size_t count;
};

/* "a:b": [begin, end). All 0: "". */
struct config_range {
    uint64_t begin, end; /* `end` UINT64_MAX: as far as there is anything */
    char *text;          /* owned: instead, a range by the coordinate (dataset/ranges.h) */
};

/* key, member, type, default, lowest, highest, order, help.
 * Types: STRING, LIST (of strings, as one string: base/text.h), U64 (a count), SIZE (bytes, with
 * unit), BOOL, AUTO_U64 and AUTO_SIZE (0 stands for "auto"), RANGE, SHARES, and CHOICE_* (one of a
 * list of names).
 * Limits hold for numbers. */
#define CONFIG_TABLE(X)                                                                            \
    X("dataset.uri", uri, LIST, "", 0, 0, CHANGES_ORDER,                                           \
      "the dataset: a Zarr group in a directory or .zip file, or behind http(s):// or s3://; or "  \
      "several groups, whose samples follow one another; a relative path starts at the YAML "      \
      "file's folder")                                                                             \
    X("dataset.group", group, STRING, "", 0, 0, CHANGES_ORDER,                                     \
      "group in which names of arrays start; a group with a '/' in front starts at the root")      \
    X("dataset.exclude", exclude, LIST, "", 0, 0, CHANGES_ORDER,                                   \
      "arrays that do not become fields by default: names, or patterns with * and ?")              \
    X("dataset.sample_axis", sample_axis, STRING, "0", 0, 0, CHANGES_ORDER,                        \
      "axis along which samples lie: the axis' number, or its dimension's name")                   \
    X("dataset.multiscale", multiscale, STRING, "", 0, 0, CHANGES_ORDER,                           \
      "OME-Zarr: the level of images: its number, or the one of the nearest scale along an axis: " \
      "y=0.5; \"\": fields are arrays")                                                            \
    X("dataset.hold_limit", hold_limit_bytes, SIZE, "1GiB", 0, UINT64_MAX / 2, KEEPS_ORDER,        \
      "joined arrays, and small arrays chunked unlike the rows, are held whole up to this size, "  \
      "each")                                                                                      \
    X("dataset.constants", constants, LIST, "", 0, 0, KEEPS_ORDER,                                 \
      "arrays without the sample axis that trainers get once, as they are stored: orography, "     \
      "coordinates, statistics")                                                                   \
    X("samples.episodes_ends", episodes_ends, STRING, "", 0, 0, CHANGES_ORDER,                     \
      "array of the frame behind each episode; \"\": each store is an episode")                    \
    X("samples.episodes_id", episodes_id, STRING, "", 0, 0, CHANGES_ORDER,                         \
      "instead: array of the number of each frame's episode")                                      \
    X("samples.episodes_jumps", episodes_jumps, STRING, "", 0, 0, CHANGES_ORDER,                   \
      "instead: array of the time of each frame; a new episode begins where the time jumps")       \
    X("samples.continuous", continuous, BOOL, "false", 0, 0, CHANGES_ORDER,                        \
      "true: the end of a store is no end of an episode")                                          \
    X("samples.stride", stride, U64, "1", 1, UINT32_MAX, CHANGES_ORDER,                            \
      "frames from one sample to the next, from the first frame of each episode")                  \
    X("samples.pad_before", pad_before, U64, "0", 0, DATASET_MAX_STEPS, CHANGES_ORDER,             \
      "how many steps of a sample may be missing before its episode")                              \
    X("samples.pad_after", pad_after, U64, "0", 0, DATASET_MAX_STEPS, CHANGES_ORDER,               \
      "how many steps of a sample may be missing behind its episode")                              \
    X("samples.fill", fill, CHOICE_FILL, "edge", 0, 0, CHANGES_ORDER,                              \
      "what stands at missing steps: edge (the nearest frame of the episode) or zero")             \
    X("samples.missing", missing, LIST, "", 0, 0, CHANGES_ORDER,                                   \
      "frames that no sample may have: array of a truth value for each frame, or of numbers of "   \
      "frames; or dates")                                                                          \
    X("samples.where", where, LIST, "", 0, 0, CHANGES_ORDER,                                       \
      "frames at which there may be samples: array of a truth value for each; or dates")           \
    X("samples.weight", weight, STRING, "", 0, 0, CHANGES_ORDER,                                   \
      "array of a weight for each frame: how often its sample comes in an epoch; 0: never")        \
    X("samples.draws", draws, U64, "0", 0, INT32_MAX, CHANGES_ORDER,                               \
      "so many samples an epoch, drawn with replacement by weight; 0: as weights say")             \
    X("samples.split_part", split_part, STRING, "", 0, 0, CHANGES_ORDER,                           \
      "the part of split_parts whose samples are delivered")                                       \
    X("samples.split_by", split_by, STRING, "episode", 0, 0, CHANGES_ORDER,                        \
      "what stays together in one part: episode, sample, or an array of a number for each frame")  \
    X("samples.split_parts", split_parts, SHARES, "", 0, 0, CHANGES_ORDER,                         \
      "parts and their shares: \"train:0.9,val:0.1\", in YAML also a map; or ranges of dates")     \
    X("samples.split_seed", split_seed, U64, "0", 0, UINT64_MAX, CHANGES_ORDER,                    \
      "seed of the split")                                                                         \
    X("samples.split_range", split_range, RANGE, "", 0, 0, CHANGES_ORDER,                          \
      "instead of parts: \"a:b\", frames from a on and before b, or dates; ends may be left out")  \
    X("samples.split_gap", split_gap, U64, "0", 0, UINT64_MAX / 2, CHANGES_ORDER,                  \
      "frames that are left out at the start of split_range, unless it starts at 0")               \
    X("samples.segments", segments, STRING, "", 0, 0, CHANGES_ORDER,                               \
      "array of the frame behind each document, for fields with segments: true")                   \
    X("samples.row_chunks", row_chunks, AUTO_U64, "auto", 1, UINT32_MAX, CHANGES_ORDER,            \
      "chunks along the sample axis that are read as one row; auto: as few as keep what is read "  \
      "twice at 5%")                                                                               \
    X("mix.samples", mix_samples, AUTO_U64, "auto", 1, UINT64_MAX / 2, CHANGES_ORDER,              \
      "samples of a mix's epoch, with a budget on average; auto: those of all sources")            \
    X("mix.schedule", mix_schedule, STRING, "", 0, 0, CHANGES_ORDER,                               \
      "weights by step: [{step: s, weights: {NAME: w}, ramp: linear}, ...]")                       \
    X("mix.repeat", mix_repeat, BOOL, "true", 0, 0, KEEPS_ORDER,                                   \
      "false: runs that pass over a source again are refused")                                     \
    X("batch.global_size", global_batch, U64, "256", 1, INT32_MAX, CHANGES_ORDER,                  \
      "samples in one step, over all trainers: one or more for each, or for each group of "        \
      "delivery.mesh; shares differ by one if they do not divide it")                              \
    X("batch.last", last, CHOICE_LAST, "drop", 0, 0, CHANGES_ORDER,                                \
      "samples that do not fill a step: drop, pad (some samples repeat, marked invalid) or "       \
      "partial")                                                                                   \
    X("batch.budget_field", budget_field, STRING, "", 0, 0, CHANGES_ORDER,                         \
      "batches by budget: the ragged field whose items count; \"\": a step has global_size "       \
      "samples")                                                                                   \
    X("batch.budget_items", budget_items, U64, "0", 0, UINT32_MAX, CHANGES_ORDER,                  \
      "a step's samples are of similar length, and their number times the longest is at most"      \
      " this; global_size then is the most samples of a step")                                     \
    X("batch.budget_buckets", budget_buckets, LIST, "", 0, 0, CHANGES_ORDER,                       \
      "the lengths that samples are rounded up to, rising: [512, 1024, 2048]; empty: 32 for each " \
      "power of two")                                                                              \
    X("order.seed", seed, U64, "0", 0, UINT64_MAX, CHANGES_ORDER,                                  \
      "seed of the shuffle and of the sample keys")                                                \
    X("order.shuffle", shuffle, BOOL, "true", 0, 0, CHANGES_ORDER,                                 \
      "false: samples come in order of index")                                                     \
    X("order.window_rows", window_rows, AUTO_U64, "auto", 1, UINT64_MAX / 2, CHANGES_ORDER,        \
      "chunk rows shuffled together; auto: computed from dataset and global batch")                \
    X("order.placement", placement, CHOICE_PLACEMENT, "local", 0, 0, CHANGES_ORDER,                \
      "who gets which sample of a step: local, a trainer near the sample's row, so that "          \
      "little travels; fixed, the trainer of its position")                                        \
    X("order.epochs", epochs, U64, "1", 0, UINT32_MAX, KEEPS_ORDER,                                \
      "number of epochs; 0: no end, until all trainers have left")                                 \
    X("readers.threads", threads, AUTO_U64, "auto", 1, 512, KEEPS_ORDER,                           \
      "worker threads of each reader; auto: the reader's cores, less one for each trainer, 64 at " \
      "most")                                                                                      \
    X("readers.bind", bind, CHOICE_BIND, "numa", 0, 0, KEEPS_ORDER,                                \
      "what workers are bound to: numa (their NUMA node), core or none")                           \
    X("readers.memory_limit", memory_limit_bytes, AUTO_SIZE, "auto", 1, UINT64_MAX / 2,            \
      KEEPS_ORDER,                                                                                 \
      "all memory of one reader; auto: half of what is available on the node, shared by its "      \
      "readers")                                                                                   \
    X("readers.cache", cache, CHOICE_CACHE, "auto", 0, 0, KEEPS_ORDER,                             \
      "rows kept in memory for later epochs: decoded, stored (as compressed), off, or auto")       \
    X("readers.cache_dir", cache_dir, STRING, "", 0, 0, KEEPS_ORDER,                               \
      "absolute path of a directory on a disk of each node that keeps stored chunks, for later "   \
      "runs too")                                                                                  \
    X("readers.cache_dir_bytes", cache_dir_bytes, AUTO_SIZE, "auto", 4096, UINT64_MAX / 2,         \
      KEEPS_ORDER,                                                                                 \
      "limit of cache_dir, over all runs that use it; auto: what it holds at the start, and 9/10 " \
      "of the free room")                                                                          \
    X("delivery.trainers", trainers, U64, "1", 1, 65536, KEEPS_ORDER,                              \
      "trainer processes, over all nodes")                                                         \
    X("delivery.trainers_least", trainers_least, AUTO_U64, "auto", 1, 65536, KEEPS_ORDER,          \
      "fewest trainers, if their number may change when all start again; auto: it stays")          \
    X("delivery.trainers_per_reader", trainers_per_reader, AUTO_U64, "auto", 1, 65536,             \
      KEEPS_ORDER,                                                                                 \
      "most trainers that a reader serves, and has memory for; auto: an equal share of all")       \
    X("delivery.mesh", mesh, LIST, "", 0, 0, KEEPS_ORDER,                                          \
      "axes of the mesh of trainers, and their sizes, whose product is delivery.trainers: [pp: "   \
      "2, dp: 4, tp: 2]; the last axis is fastest; \"\": each trainer has samples of its own")     \
    X("delivery.data", mesh_data, LIST, "", 0, 0, KEEPS_ORDER,                                     \
      "axes of the mesh that divide the batch; along all others it repeats")                       \
    X("delivery.slots", slots, AUTO_U64, "auto", 2, 1024, KEEPS_ORDER,                             \
      "batches in each ring; auto: 4, or more if rounds have several steps, as long as "           \
      "all rings of a reader take at most an eighth of its memory, and 512 MiB (32 MiB if all "    \
      "readers are on one node, 128 MiB or more if there is one reader)")                          \
    X("delivery.run_dir", run_dir, STRING, "auto", 0, 0, KEEPS_ORDER,                              \
      "directory of the sockets on each node; auto: a directory for this run alone, whose name "   \
      "spawned trainers are told")                                                                 \
    X("delivery.connect_timeout", connect_timeout_s, U64, "120", 1, 86400, KEEPS_ORDER,            \
      "seconds to wait for all trainers to connect")                                               \
    X("delivery.reconnect_timeout", reconnect_timeout_s, U64, "0", 0, 86400, KEEPS_ORDER,          \
      "seconds that trainers look for a lost reader, and readers wait for a lost trainer; 0: "     \
      "nobody looks or waits")                                                                     \
    X("delivery.drain_timeout", drain_timeout_s, U64, "10", 0, 3600, KEEPS_ORDER,                  \
      "seconds that trainers may take, at an orderly end, to consume the published batches")       \
    X("delivery.grace", grace_s, U64, "10", 0, 3600, KEEPS_ORDER,                                  \
      "seconds that spawned trainers may take to save a checkpoint when the run has failed")       \
    X("delivery.early_leave", early_leave, CHOICE_EARLY_LEAVE, "warn", 0, 0, KEEPS_ORDER,          \
      "when a trainer leaves before the end and others stay: warn, or fail (the run ends)")        \
    X("delivery.restarts", restarts, U64, "0", 0, 1000000, KEEPS_ORDER,                            \
      "how often each spawned trainer that fails is started again")                                \
    X("delivery.stall_warning", stall_warning_s, U64, "30", 0, 86400, KEEPS_ORDER,                 \
      "seconds after which the log names a trainer that all others wait for; 0: never")            \
    X("delivery.bind_trainers", bind_trainers, BOOL, "true", 0, 0, KEEPS_ORDER,                    \
      "bind spawned trainers to cpus without workers, near their GPU, if there are enough cpus")   \
    X("delivery.transform_run", transform_run, STRING, "", 0, 0, KEEPS_ORDER,                      \
      "command, for the shell, of a program that changes samples beside each reader; \"\": none")  \
    X("delivery.transform_processes", transform_processes, AUTO_U64, "auto", 1, 512, KEEPS_ORDER,  \
      "processes of it for each reader; auto: as many as readers.threads")                         \
    X("delivery.transform_fields", transform_fields, LIST, "", 0, 0, KEEPS_ORDER,                  \
      "fields that it gets, and whose place is taken by what it returns; \"\": all")               \
    X("delivery.transform_timeout", transform_timeout_s, U64, "300", 1, 86400, KEEPS_ORDER,        \
      "seconds until a process of it is ready, and for one batch; then it is started again")       \
    X("exchange.steps_per_round", steps_per_round, AUTO_U64, "auto", 1, 512, KEEPS_ORDER,          \
      "steps that one exchange carries, and that one reader alone publishes at once; auto: "       \
      "computed from sizes")                                                                       \
    X("exchange.buffer_limit", exchange_buffer_bytes, SIZE, "128MiB", 4096, UINT64_MAX / 2,        \
      KEEPS_ORDER,                                                                                 \
      "most bytes of packed records that a reader sends and receives in one round; rounds of "     \
      "several steps have up to a quarter")                                                        \
    X("store.timeout", store_timeout_s, U64, "60", 1, 86400, KEEPS_ORDER,                          \
      "seconds after which a read that has not come back ends the run; a warning comes after "     \
      "half the time")                                                                             \
    X("store.retries", store_retries, U64, "3", 0, 20, KEEPS_ORDER,                                \
      "how often a failed read is tried again, with growing pauses, if its cause may pass")        \
    X("store.index_cache", index_cache_bytes, SIZE, "64MiB", 0, UINT64_MAX / 2, KEEPS_ORDER,       \
      "most memory of each reader for the indices of shards; one index of each array is kept in "  \
      "any case")                                                                                  \
    X("store.coalesce_gap", coalesce_gap_bytes, AUTO_SIZE, "auto", 1, INT32_MAX, KEEPS_ORDER,      \
      "one request reads chunks of a shard that lie this close together; auto: 16 KiB for local "  \
      "files, 64 KiB for http and s3")                                                             \
    X("store.coalesce_size", coalesce_bytes, AUTO_SIZE, "auto", 1, INT32_MAX, KEEPS_ORDER,         \
      "most bytes that one such request reads, and one thread at once; auto: 256 KiB for local "   \
      "files, 4 MiB for http and s3")                                                              \
    X("store.direct", store_direct, BOOL, "false", 0, 0, KEEPS_ORDER,                              \
      "directories: chunks of 1 MiB or more that are read whole go past the page cache "           \
      "(O_DIRECT)")                                                                                \
    X("store.requests", store_requests, AUTO_U64, "auto", 1, 1024, KEEPS_ORDER,                    \
      "http and s3: requests in flight of each reader; auto: 4 to 256, as many as bring "          \
      "throughput")                                                                                \
    X("store.fetch_memory", store_fetch_bytes, SIZE, "128MiB", 1048576, UINT64_MAX / 2,            \
      KEEPS_ORDER,                                                                                 \
      "http and s3: memory of each reader for chunks on their way, ahead of decoding or asked "    \
      "for twice; at most a quarter of the reader's memory, and less if only so all rows stay in " \
      "memory")                                                                                    \
    X("store.hedge", store_hedge, BOOL, "true", 0, 0, KEEPS_ORDER,                                 \
      "http and s3: a request that takes far longer than usual is sent a second time (3 in 100 "   \
      "at most)")                                                                                  \
    X("store.missing_status", store_missing, STRING, "404", 0, 0, KEEPS_ORDER,                     \
      "http and s3: statuses that mean that a chunk is not there, separated by commas")            \
    X("store.ca_file", store_ca_file, STRING, "", 0, 0, KEEPS_ORDER,                               \
      "https: file of the certificates to trust, on each node; \"\": the system's certificates")   \
    X("store.headers", store_headers, STRING, "", 0, 0, KEEPS_ORDER,                               \
      "http(s): where headers of each request are ('Name: value', one a line), such as a "         \
      "bearer token: absolute path of a file, or env:VARIABLE; read anew before they are old")     \
    X("store.proxy", store_proxy, STRING, "", 0, 0, KEEPS_ORDER,                                   \
      "http://HOST:PORT of a proxy for all remote stores; \"\": none, whatever the "               \
      "environment says")                                                                          \
    X("store.endpoint", store_endpoint, STRING, "", 0, 0, KEEPS_ORDER,                             \
      "clouds: http(s)://HOST[:PORT] of a server; \"\": s3: from AWS_ENDPOINT_URL(_S3) or "        \
      "the profile, else the cloud's own")                                                         \
    X("store.s3_region", s3_region, STRING, "", 0, 0, KEEPS_ORDER,                                 \
      "s3: region; \"\": from AWS_REGION, AWS_DEFAULT_REGION or the profile, else us-east-1")      \
    X("store.s3_addressing", s3_addressing, CHOICE_ADDRESSING, "auto", 0, 0, KEEPS_ORDER,          \
      "s3: path (the bucket is in the path) or virtual (the bucket is in the host's name); auto: " \
      "virtual for AWS")                                                                           \
    X("store.anonymous", store_anonymous, BOOL, "false", 0, 0, KEEPS_ORDER,                        \
      "clouds: true for public data: requests are not signed, and no credentials are looked "      \
      "for")                                                                                       \
    X("store.metadata", store_metadata, BOOL, "false", 0, 0, KEEPS_ORDER,                          \
      "clouds: true: the metadata endpoint of container or instance may be asked for "             \
      "credentials, and Azure's login by workload identity")                                       \
    X("store.requester_pays", store_requester_pays, STRING, "", 0, 0, KEEPS_ORDER,                 \
      "s3: true: you pay for requests; gs: the project that pays; \"\": the owner of the "         \
      "data pays")                                                                                 \
    X("store.virtual", virtual_prefixes, LIST, "", 0, 0, KEEPS_ORDER,                              \
      "icechunk and references: prefixes that chunks elsewhere may be read from, such as "         \
      "s3://BUCKET/PREFIX/")                                                                       \
    X("metrics.listen", metrics_listen, STRING, "", 0, 0, KEEPS_ORDER,                             \
      "HOST:PORT at which each reader gives its metrics to Prometheus: 127.0.0.1:9400; "           \
      "readers of a node take one port after another; port 0: any, as the run directory "          \
      "says; \"\": nowhere")                                                                       \
    X("metrics.file", metrics_file, STRING, "", 0, 0, KEEPS_ORDER,                                 \
      "absolute path of a file NAME.prom for node_exporter's textfile collector, written every 5 " \
      "s on each node; {rank} stands for the reader's rank; \"\": none")                           \
    X("errors.bad_sample", bad_sample, CHOICE_BAD_SAMPLE, "fail", 0, 0, KEEPS_ORDER,               \
      "when a chunk or a transform fails: fail, or mask (its samples are zeros, and invalid)")     \
    X("errors.max_bad", max_bad, U64, "1000", 0, 10000000, KEEPS_ORDER,                            \
      "most masked samples, over all readers; with one more the run fails")                        \
    X("errors.missing_chunk", missing_chunk, CHOICE_MISSING_CHUNK, "auto", 0, 0, KEEPS_ORDER,      \
      "when a chunk is not there: fill (it has the fill value), fail (it is bad), or auto "        \
      "(fill, but an array without any chunk is an error)")                                        \
    X("errors.report", bad_list, STRING, "penstock-bad-chunks.jsonl", 0, 0, KEEPS_ORDER,           \
      "file that lists masked chunks, a JSON object a line; reader 0 writes it; \"\": none")

enum config_cache { CACHE_AUTO, CACHE_DECODED, CACHE_STORED, CACHE_OFF };

#define CONFIG_C_STRING               char *
#define CONFIG_C_LIST                 char *
#define CONFIG_C_U64                  uint64_t
#define CONFIG_C_SIZE                 uint64_t
#define CONFIG_C_AUTO_U64             uint64_t
#define CONFIG_C_AUTO_SIZE            uint64_t
#define CONFIG_C_BOOL                 bool
#define CONFIG_C_SHARES               struct config_shares
#define CONFIG_C_RANGE                struct config_range
#define CONFIG_C_CHOICE_FILL          enum samples_fill
#define CONFIG_C_CHOICE_LAST          enum plan_last
#define CONFIG_C_CHOICE_PLACEMENT     enum plan_placement
#define CONFIG_C_CHOICE_BIND          enum topology_bind
#define CONFIG_C_CHOICE_CACHE         enum config_cache
#define CONFIG_C_CHOICE_BAD_SAMPLE    enum config_bad_sample
#define CONFIG_C_CHOICE_MISSING_CHUNK enum config_missing_chunk
#define CONFIG_C_CHOICE_EARLY_LEAVE   enum config_early_leave
#define CONFIG_C_CHOICE_ADDRESSING    enum store_addressing

struct config;

/* A dataset of a mix. */
struct config_source {
    char *name;        /* owned: the source's file, or else what messages call the source */
    char *weight_text; /* owned: as given */
    uint32_t weight;   /* of the ratio of all weights in whole numbers, without common divisor; at
                        * most 2^31; 0: none is given */
    struct config *config; /* owned. Of its own it has `dataset` without hold_limit, `samples`,
                            * order.window_rows and order.shuffle; nothing else counts */
};

/* dataset.cuts.NAME. All texts are owned; "" where nothing is given. */
struct config_cut {
    const char *name, *over, *order, *split;
};

/* What trainers have of a field: one entry of its `cut`, or of its `only`. All texts are owned. */
struct config_share {
    const char *field;
    bool is_cut;
    const char *key;   /* of a cut, an axis of the field's samples; else an axis of the mesh */
    const char *value; /* the cut's name; or coordinates */
};

enum { CONFIG_MAX_CUTS = 8 };

struct config {
#define CONFIG_MEMBER(key, member, type, preset, low, high, order, help) CONFIG_C_##type member;
    CONFIG_TABLE(CONFIG_MEMBER)
#undef CONFIG_MEMBER
    struct dataset_field_spec *fields; /* dataset.fields; NULL: default fields */
    size_t field_count;
    struct config_cut cuts[CONFIG_MAX_CUTS]; /* dataset.cuts */
    size_t cut_count;
    struct config_share *shares; /* [share_count], of all fields */
    size_t share_count;
    struct config_source *sources; /* mix.sources */
    uint32_t source_count;         /* 0: no mix */
};

/* Defaults. NO_MEMORY. */
MUST_USE enum status config_init(struct config *ret_config, struct error *err);

/* Whether a file is standard input, a pipe, or whatever else can be read once and has no folder:
 * paths in it are relative to the current one. */
bool config_file_is_stream(const char *path);

/* Reads a YAML file over what is set. NOT_FOUND/IO: the file. INVALID: not YAML, an unknown key
 * (with file, line and the nearest known key), a key given twice, a value of the wrong type or out
 * of range. After a failure some options of the file may have been set. Fields of a file add to
 * those there are, one of the same name replaces it. Sources of a mix replace all. The files of
 * sources are read, too: a path that is relative starts at the folder of the file that has the
 * path. */
MUST_USE enum status config_read_file(struct config *config, const char *path, struct error *err);

/* Like config_read_file(), for text in memory. `name` is the file's name in messages; relative URIs
 * and sources start at `folder`. With `folder` NULL URIs stay as they are, and no source is a file.
 */
MUST_USE enum status config_read_text(struct config *config, const char *text, size_t size,
                                      const char *name, const char *folder, struct error *err);

/* Environment variables PENSTOCK_<SECTION>_<KEY>; the value of PENSTOCK_MIX_SOURCES is as that of
 * config_set(). An empty one counts as not set. INVALID: a value of the wrong type or out
 * of range, a KEY that a known section does not have. Other variables (PENSTOCK_RUN_DIR) are not
 * looked at, nor those that Kubernetes makes of its services. */
MUST_USE enum status config_read_environment(struct config *config, struct error *err);

/* One "section.key=value", and also "mix.sources=FILE:WEIGHT,FILE:WEIGHT",
 * "dataset.fields.NAME=ARRAY", "dataset.fields.NAME=ARRAY[INDEX]" and, for one property of a field,
 * "dataset.fields.NAME.PROPERTY=value", PROPERTY being array, index, cast, scale, offset or
 * sample_axis. A field that has no array yet gets the one of its name. */
MUST_USE enum status config_set(struct config *config, const char *assignment, struct error *err);

/* Checks across options: a dataset.uri or a mix is given, readers.cache_dir is absolute, the
 * store's settings make sense, the global batch has a sample for each trainer. */
MUST_USE enum status config_check(const struct config *config, struct error *err);

/* The same of a run of --also, before it has the trainers and the mesh of the training: see
 * also_adapt(). */
MUST_USE enum status config_check_beside(const struct config *config, struct error *err);

/* The whole configuration as YAML that config_read_text() reads back to the same; also how rank 0
 * sends it. */
void config_print(const struct config *config, struct text *out);

/* The options for --help: key, default, help, one a line. */
void config_help(struct text *out);

/* The options as a Markdown table, for docs/use/configuration.md. */
void config_help_markdown(struct text *out);

void config_done(struct config *config);

/* The settings of remote stores. INVALID: a text that is too long, or not a value of its option. */
MUST_USE enum status config_store_settings(const struct config *config,
                                           struct store_settings *ret_settings, struct error *err);

/* Opens the dataset, or the mix, of a configuration that config_check() accepted. `caches`: with
 * readers.cache_dir. `watch` may be NULL, and is borrowed. Errors as of dataset_open() and
 * dataset_open_mix(). */
MUST_USE enum status config_open_dataset(const struct config *config, bool caches,
                                         struct store_watch *watch, struct dataset **ret_dataset,
                                         struct error *err);

/* Weights of a mix from a step of the run on, in whole numbers of 0 to 2^31 without common divisor.
 * A ramp: weights go to these in a line, from the step of the entry before on. */
struct config_weights {
    uint64_t step;
    bool ramp;
    uint64_t of[DATASET_MAX_SOURCES];
};
enum { CONFIG_MAX_ENTRIES = 64, CONFIG_MAX_WEIGHTS = CONFIG_MAX_ENTRIES + 1 };

/* Those of a mix, with mix.schedule and without: ret_weights[CONFIG_MAX_WEIGHTS]; the first are
 * those of step 0. INVALID: mix.schedule is no list of entries, or an entry makes no sense; there
 * are no weights for step 0. NO_MEMORY. */
MUST_USE enum status config_mix_weights(const struct config *config,
                                        struct config_weights *ret_weights, uint32_t *ret_count,
                                        struct error *err);

/* The options for opening the dataset, from a configuration without a mix that config_check()
 * accepted. Borrows the configuration's strings, and `watch`, which may be NULL. */
struct dataset_options config_dataset_options(const struct config *config,
                                              struct store_watch *watch);

/* Sets the mesh of trainers, delivery.mesh and delivery.data. NO_MEMORY. */
MUST_USE enum status config_put_mesh(struct config *config, const char *mesh, const char *data,
                                     struct error *err);

/* The mesh of trainers, which config_check() has accepted. Errors as of mesh_parse(). */
MUST_USE enum status config_mesh(const struct config *config, struct mesh *ret_mesh,
                                 struct error *err);

/* A cut of dataset.cuts. Errors as of cut_parse(). */
MUST_USE enum status config_parse_cut(const struct config_cut *cut, const struct mesh *mesh,
                                      struct cut *ret_cut, struct error *err);

/* The entries of fields' `cut` and `only`: of a mix those of its first source. */
const struct config_share *config_shares(const struct config *config, size_t *ret_count);

/* Whether a coordinate along an axis of that size is one of `coordinates`: "first", "last", a
 * number, or a list of these. */
bool config_has_coordinate(const char *coordinates, uint32_t size, uint32_t coordinate);

/* Among how many the global batch is divided: the groups of the mesh, or the trainers. */
uint32_t config_group_count(const struct config *config);

/* The fewest trainers that a session may have: delivery.trainers_least, or delivery.trainers. */
static inline uint32_t config_least_trainers(const struct config *config)
{
    return (uint32_t)(config->trainers_least > 0 ? config->trainers_least : config->trainers);
}

/* order.epochs as a number: where it is 0, more epochs than any trainer lives for, and so few that
 * cursors stay below 2^62. */
enum { CONFIG_ENDLESS_EPOCHS = 1 << 28 };
uint64_t config_epochs(const struct config *config);

/* Whether rows may be kept as stored. Then a run has to find out their size in the store. */
bool config_may_keep_stored(const struct config *config);

#endif
