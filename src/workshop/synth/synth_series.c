/* Numbers for synthetic frames that follow one another: robots, weather and text. Pure, any thread.
 *
 * As in synth_content.c, any thread can make any entry at any time, and all machines make the same
 * bytes: arithmetic is on integers, or on floats one operation at a time.
 */
#include "base/random.h"
#include "workshop/synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Streams of random numbers that several arrays of a dataset share. */
enum { STREAM_ENDS = 1000, STREAM_PATHS, STREAM_MISSING };

/* The end of episode i: as many frames for each, less up to half of them. */
static uint64_t episode_end(uint64_t seed, uint64_t i, uint64_t episodes, uint64_t frames)
{
    uint64_t end = (uint64_t)((unsigned __int128)(i + 1) * frames / episodes);
    if (i + 1 >= episodes)
        return frames;
    return end - random_below(random_u64(seed, STREAM_ENDS, i), frames / episodes / 2 + 1);
}

static uint64_t episode_of(const struct synth_array *array, uint64_t frame, uint64_t *ret_first)
{
    uint64_t episodes = array->range, frames = array->shape[0];
    uint64_t i = (uint64_t)((unsigned __int128)frame * episodes / frames);
    while (i > 0 && episode_end(array->seed, i - 1, episodes, frames) > frame)
        i--;
    while (episode_end(array->seed, i, episodes, frames) <= frame)
        i++;
    *ret_first = i > 0 ? episode_end(array->seed, i - 1, episodes, frames) : 0;
    return i;
}

void synth_fill_episode(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint64_t first;
    int64_t episode = (int64_t)episode_of(array, index, &first);
    memcpy(ret_entry, &episode, sizeof episode);
}

void synth_fill_episode_end(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    int64_t end = (int64_t)episode_end(array->seed, index, array->shape[0], array->range);
    memcpy(ret_entry, &end, sizeof end);
}

/* Where disc and block are, and the block's angle: each goes back and forth at its own speed. */
enum { POSE_NUMBERS = 5, POSE_RANGE = 512 };

static void find_pose(const struct synth_array *array, uint64_t frame, uint64_t ahead,
                      uint32_t ret_pose[POSE_NUMBERS])
{
    uint64_t first, episode = episode_of(array, frame, &first);
    for (uint64_t i = 0; i < POSE_NUMBERS; i++) {
        uint64_t bits = random_u64(array->seed, STREAM_PATHS, episode * POSE_NUMBERS + i);
        uint64_t at = (bits + (1 + (bits >> 32) % 9) * (frame + ahead - first)) % (2 * POSE_RANGE);
        ret_pose[i] = (uint32_t)(at < POSE_RANGE ? at : 2 * POSE_RANGE - at);
    }
}

static void put_floats(const uint32_t *numbers, size_t count, void *ret_entry)
{
    float *out = ret_entry;
    for (size_t i = 0; i < count; i++)
        out[i] = (float)numbers[i];
}

void synth_fill_state(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint32_t pose[POSE_NUMBERS];
    find_pose(array, index, 0, pose);
    put_floats(pose, POSE_NUMBERS, ret_entry);
}

void synth_fill_action(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint32_t pose[POSE_NUMBERS];
    find_pose(array, index, 1, pose);
    put_floats(pose, 2, ret_entry);
}

/* Grey paper with a grain, a blue disc and a green block. */
void synth_fill_camera(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    static const uint8_t disc[] = {65, 105, 225}, block[] = {119, 136, 153};
    int height = (int)array->shape[1], width = (int)array->shape[2], depth = (int)array->shape[3];
    uint32_t pose[POSE_NUMBERS];
    uint8_t *out = ret_entry;
    find_pose(array, index, 0, pose);
    for (int y = 0; y < height; y++) {
        uint64_t grain =
            random_u64(array->seed, array->stream, index * (uint64_t)height + (uint64_t)y);
        for (int x = 0; x < width; x++) {
            int sx = x * POSE_RANGE / width, sy = y * POSE_RANGE / height;
            int dx = sx - (int)pose[0], dy = sy - (int)pose[1];
            bool in_disc = dx * dx + dy * dy < 30 * 30;
            bool in_block = abs(sx - (int)pose[2]) < 50 && abs(sy - (int)pose[3]) < 50;
            for (int c = 0; c < depth; c++)
                *out++ = in_disc    ? disc[c % 3]
                         : in_block ? block[c % 3]
                                    : (uint8_t)(252 + (grain >> (x * 2 % 64) & 3));
        }
    }
}

static bool is_missing(const struct synth_array *array, uint64_t date)
{
    /* In runs of four dates, a day. */
    return random_below(random_u64(array->seed, STREAM_MISSING, date / 4), 50) == 0;
}

void synth_fill_missing(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    *(uint8_t *)ret_entry = is_missing(array, index);
}

static float mean_of(uint64_t variable)
{
    return 10 * (float)variable;
}

static float deviation_of(uint64_t variable)
{
    return 1 + (float)variable / 8;
}

void synth_fill_mean(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    (void)array;
    *(float *)ret_entry = mean_of(index);
}

void synth_fill_deviation(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    (void)array;
    *(float *)ret_entry = deviation_of(index);
}

void synth_fill_weather(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint64_t cells = array->shape[2] * array->shape[3];
    bool missing = is_missing(array, index);
    float *out = ret_entry;
    synth_fill_noise(array, index, ret_entry);
    for (uint64_t i = 0; i < array->entry_items; i++) {
        /* The noise has a deviation of 1.15. */
        float scaled = out[i] * 0.866F * deviation_of(i / cells);
        out[i] = missing ? NAN : scaled + mean_of(i / cells);
    }
}

void synth_fill_hours(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    int64_t hours = 6 * (int64_t)index;
    (void)array;
    memcpy(ret_entry, &hours, sizeof hours);
}

void synth_fill_latitude(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    *(float *)ret_entry = 90 - 180 * ((float)index + 0.5F) / (float)array->shape[0];
}

void synth_fill_longitude(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    *(float *)ret_entry = 360 * (float)index / (float)array->shape[0];
}

/* Four at the surface and five on each of 13 levels of pressure, as weather models have them. */
static void name_variable(uint64_t index, char ret_name[SYNTH_NAME_CHARACTERS + 1])
{
    static const char *const surface[] = {"t2m", "u10", "v10", "msl"};
    static const char above[] = "zqtuv";
    static const int levels[] = {50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 850, 925, 1000};
    if (index < 4)
        snprintf(ret_name, SYNTH_NAME_CHARACTERS + 1, "%s", surface[index]);
    else if (index < 4 + 5 * 13)
        snprintf(ret_name, SYNTH_NAME_CHARACTERS + 1, "%c%d", above[(index - 4) / 13],
                 levels[(index - 4) % 13]);
    else
        snprintf(ret_name, SYNTH_NAME_CHARACTERS + 1, "x%06u", (unsigned)index);
}

void synth_fill_variable(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    char name[SYNTH_NAME_CHARACTERS + 1] = {0};
    uint32_t *out = ret_entry;
    (void)array;
    name_variable(index, name);
    for (size_t i = 0; i < SYNTH_NAME_CHARACTERS; i++)
        out[i] = i < strlen(name) ? (unsigned char)name[i] : 0;
}

void synth_fill_tokens(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    uint64_t bits = random_u64(array->seed, array->stream, index);
    uint64_t bound = 1 + random_below(bits << 32, 50256);
    uint16_t token = (uint16_t)random_below(bits, bound);
    memcpy(ret_entry, &token, sizeof token);
}
