"""Where the boxes of a picture stand: those that use others above them, arrows short and with few crossings.

After Sugiyama, Tagawa, Toda: Methods for visual understanding of hierarchical system structures (1981). The same arrows give
the same picture, to the last digit.
"""

import tree

SWEEPS = 24


def heights(arrows):
    """Node -> how far above the bottom: one more than the highest that it uses; a circle stands on one line."""
    circle = {node: frozenset(nodes) for nodes in tree.circles(arrows) for node in nodes}
    known = {}

    def height(node):
        if node not in known:
            group = circle.get(node, {node})
            below = [height(target) for member in sorted(group) for target in sorted(arrows[member]) if target not in group]
            known.update(dict.fromkeys(group, max(below, default=-1) + 1))
        return known[node]

    return {node: height(node) for node in sorted(arrows)}


def chains(arrows, height):
    """Lines of nodes from the bottom up, and for each arrow its nodes from top to bottom: those between are (from, to, height)."""
    lines = [[] for _ in range(max(height.values(), default=0) + 1)]
    for node in sorted(arrows):
        lines[height[node]].append(node)
    paths = {}
    for start in sorted(arrows):
        for end in sorted(arrows[start]):
            between = [(start, end, level) for level in range(height[start] - 1, height[end], -1)]
            for bend in between:
                lines[bend[2]].append(bend)
            paths[start, end] = [start, *between, end]
    return lines, paths


def neighbours(paths):
    near = {}
    for path in paths.values():
        for above, below in zip(path, path[1:]):
            near.setdefault(above, []).append(below)
            near.setdefault(below, []).append(above)
    return near


def crossings(lines, paths):
    position = {node: index for line in lines for index, node in enumerate(line)}
    level = {node: number for number, line in enumerate(lines) for node in line}
    edges = {}
    for path in paths.values():
        for above, below in zip(path, path[1:]):
            edges.setdefault(level[below], []).append((position[above], position[below]))
    return sum((one[0] - two[0]) * (one[1] - two[1]) < 0
               for list_ in edges.values() for index, one in enumerate(list_) for two in list_[:index])


def ordered(lines, paths):
    """Lines whose nodes stand near the middle of those that they are joined to."""
    near = neighbours(paths)
    best, least = [list(line) for line in lines], crossings(lines, paths)
    lines = [list(line) for line in lines]
    for sweep in range(SWEEPS):
        for line in lines if sweep % 2 else reversed(lines):
            position = {node: (index + 0.5) / len(other) for other in lines for index, node in enumerate(other)}
            middle = {node: sum(position[other] for other in near.get(node, [node])) / len(near.get(node, [node])) for node in line}
            line.sort(key=lambda node: middle[node])
        count = crossings(lines, paths)
        if count < least:
            best, least = [list(line) for line in lines], count
    return best


def spread(line, wish, width, gap):
    """x of each node of a line: as near to its wish as the others let it, from left to right."""
    groups = []  # of nodes that touch: [x of the first, sum of what they wish for it, nodes]
    for node in line:
        groups.append([wish[node], wish[node], [(node, 0.0)]])
        while len(groups) > 1:
            before, last = groups[-2], groups[-1]
            end, offset = before[2][-1]
            shift = offset + (width(end) + width(last[2][0][0])) / 2 + gap
            if before[0] + shift <= last[0]:
                break
            groups.pop()
            before[2] += [(node, shift + own) for node, own in last[2]]
            before[1] += last[1] - shift * len(last[2])
            before[0] = before[1] / len(before[2])
    return {node: first + offset for first, _, nodes in groups for node, offset in nodes}


def arranged(arrows, width, gap):
    """Node -> (x of its middle, height), bends included; arrow -> its nodes; all x are from 0 on."""
    height = heights(arrows)
    lines, paths = chains(arrows, height)
    lines, near = ordered(lines, paths), neighbours(paths)
    x = {node: index * 1.0 for line in lines for index, node in enumerate(line)}
    for line in lines:
        x.update(spread(line, x, width, gap))
    for sweep in range(SWEEPS):
        for line in lines if sweep % 2 else reversed(lines):
            wish = {node: sum(x[other] for other in near.get(node, [node])) / len(near.get(node, [node])) for node in line}
            x.update(spread(line, wish, width, gap))
    left = min((x[node] - width(node) / 2 for node in x), default=0)
    level = {node: number for number, line in enumerate(lines) for node in line}
    return {node: (x[node] - left, level[node]) for node in x}, paths
