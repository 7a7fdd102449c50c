/* Replay buffers of robots, as diffusion policy and UMI write them: arrays data/NAME of all frames,
 * and the frames behind each episode in meta/episode_ends. */
#include "cli/kinds/kinds_internal.h"

#include "base/size.h"

#include <string.h>

static const char data[] = "data/", ends[] = "meta/episode_ends";

/* The name of an array of frames; NULL: it is none. */
static const char *frames_name(const struct kind_look *look, const struct zarr_node *node)
{
    const char *path = kind_path(look, node);
    return path && strncmp(path, data, strlen(data)) == 0 && node->status == STATUS_OK
               ? path + strlen(data)
               : NULL;
}

static uint64_t count_frames(const struct kind_look *look)
{
    const struct zarr_node *largest = NULL;
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        if (frames_name(look, node) &&
            (!largest || node->array.total_bytes > largest->array.total_bytes))
            largest = node;
    }
    return largest ? largest->array.shape[0] : 0;
}

static bool has_action(const struct kind_look *look)
{
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const char *name = frames_name(look, &look->hierarchy->nodes[i]);
        if (name && strncmp(name, "action", strlen("action")) == 0)
            return true;
    }
    return false;
}

/* What a policy predicts: actions, or, of a buffer without these (UMI), the poses that they are
 * made of. */
static bool is_predicted(const struct zarr_node *node, const char *name, bool has_actions)
{
    return has_actions ? strncmp(name, "action", strlen("action")) == 0 : node->array.rank <= 2;
}

bool kind_robot(const struct kind_look *look, struct kind_finding *finding)
{
    const struct zarr_node *episodes = kind_array(look, ends);
    uint64_t frames = count_frames(look);
    bool has_actions = has_action(look);
    if (!episodes || episodes->array.rank != 1 || frames == 0)
        return false;
    finding->name = "replay buffer";
    text_append(
        &finding->about,
        "This is a replay buffer of a robot, as diffusion policy and UMI have it: %s frames "
        "in %s episode%s. A sample is at a frame: observations of this frame and the one "
        "before, and 16 %s from there on, which never go on in the next episode.",
        count_format(frames).text, count_format(episodes->array.shape[0]).text,
        count_plural(episodes->array.shape[0]), has_actions ? "actions" : "poses");
    bool predicts = false;
    text_append(&finding->dataset, "  fields:    # steps are frames from the sample's own\n");
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        const char *name = frames_name(look, node);
        if (!name || node->array.shape[0] != frames)
            continue;
        kind_put_field("", name, kind_path(look, node), &finding->dataset);
        bool is_one = is_predicted(node, name, has_actions);
        text_append(&finding->dataset, ", steps: \"%s\"}\n", is_one ? "-1:15" : "-1:1");
        predicts = predicts || is_one;
    }
    text_append(
        &finding->rest,
        "samples:\n"
        "  episodes: {ends: %s}\n"
        "  pad: {before: 1, after: %d}    # steps that may be missing at an episode's ends: "
        "F.valid tells\n"
        "  # split: {part: train, parts: {train: 0.9, val: 0.1}}    # by episode\n",
        ends, predicts ? 7 : 0);
    return true;
}
