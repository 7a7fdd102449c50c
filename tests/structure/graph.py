"""Pictures of who includes whom, as SVG: folders.svg, rooms.svg and files.svg.

    python graph.py SOURCE_DIRECTORY [--check]

Writes all to docs/inside/architecture. --check: compares names and arrows of folders.svg and rooms.svg with what would be
written, and writes nothing.
"""

import pathlib
import re
import sys
from xml.sax.saxutils import escape

import layers
import tree

STYLE = """text { font-family: "DejaVu Sans", Verdana, sans-serif; fill: #1b2733 }
.name { font-weight: bold } .more { fill: #51606e }
.box { fill: #ffffff; stroke: #51606e } .room { fill: #f3f6f9; stroke: #b8c4cf }
.arrow { fill: none; stroke: #2f6690 }"""
BEND = 10
NOTE = ("An arrow: files of the upper folder include headers of the lower one.",
        "Where arrows lead there in two steps, the one that leads there at once is left out: the table in docs/inside/design.md has all.")
ROOMS_NOTE = ("A frame is a folder with rooms, a box is a room; `.` are the folder's own files, whose headers all its rooms may "
              "include. An arrow: files of the upper room include headers of the lower one.")
FILES_NOTE = ("A box is a file, .c and .h as one. An arrow: it includes the lower one. Under its name: the other folders of which it "
              "includes headers, but for base.")


def svg(width, height, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#2f6690"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>', *parts, "</svg>", ""])


def text(x, y, words, size, kind, anchor="middle"):
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x, y, width, height, kind="box"):
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"/>'


def curve(points, title):
    """From the first point to the last, upright at each; between two of a circle, which stand on one line, below both."""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        middle = y0 + 20 if y0 == y1 else (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return f'<path class="arrow" marker-end="url(#head)" d="{path}"><title>{escape(title)}</title></path>'


def direct(arrows):
    """Without arrows that others make a way for: from a to c, where there are a to b and b to c."""
    def reached(node, seen):
        for target in arrows[node]:
            if target not in seen:
                seen.add(target)
                reached(target, seen)
        return seen
    return {start: {end for end in arrows[start] if not any(end in reached(other, set()) for other in arrows[start] - {end})}
            for start in arrows}


def drawn(arrows, size, gap, step):
    """(width, height, paths of arrows, {node: (x, y) of its box's upper left corner}); size(node): (width, height)."""
    position, paths = layers.arranged(arrows, lambda node: size(node)[0] if node in arrows else BEND, gap)
    top = max((level for _, level in position.values()), default=0)
    tall = max(size(node)[1] for node in arrows)
    y = {node: (top - level) * (tall + step) for node, (_, level) in position.items()}
    lines = []
    for (start, end), nodes in sorted(paths.items()):
        points = [(position[start][0], y[start] + size(start)[1])]
        for bend in nodes[1:-1]:
            points += [(position[bend][0], y[bend]), (position[bend][0], y[bend] + tall)]
        points.append((position[end][0], y[end] + (size(end)[1] if y[end] == y[start] else 0)))
        lines.append(curve(points, f"{start} includes {end}"))
    corners = {node: (position[node][0] - size(node)[0] / 2, y[node]) for node in arrows}
    width = max((corner[0] + size(node)[0] for node, corner in corners.items()), default=0)
    width = max([width] + [position[node][0] + BEND for node in position])
    return width, (top + 1) * tall + top * step, lines, corners


def wrapped(words, most):
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def folders(source):
    """base is below all, and has no arrows. Who is listed with nothing knows the public header, which is the client's."""
    table, there = tree.listed(source), tree.Folders(source)
    names = there.folders()
    client = {name for name in names if name.endswith("client")}
    arrows = {name: set(client) if table.get(name) == set() else set() for name in sorted(names - {"base"})}
    for start, end in tree.folder_arrows(there, tree.files(source)[0]):
        if end != "base":
            arrows[start].add(end)
    what = tree.described(source)
    says = {name: wrapped(what.get(name, "not listed"), 27) for name in sorted(names)}
    size = lambda node: (176, 30 + 13 * max(len(says[name]) for name in arrows))
    width, height, lines, corners = drawn(direct(arrows), size, 22, 44)
    margin, tall = 24, 44
    parts = [f'<g transform="translate({margin} {margin})" stroke-width="1.4">', *lines]
    corners["base"] = (0, height + 30)
    for name, (x, y) in corners.items():
        wide, high = (width, tall) if name == "base" else size(name)
        said = [f"{' '.join(says[name])} (arrows to base are left out)"] if name == "base" else says[name]
        parts += titled(x, y, wide, high, name, said)
    parts += [text(0, height + 30 + tall + 24 + 15 * index, line, 11, "more", "start") for index, line in enumerate(NOTE)]
    return svg(width + 2 * margin, height + 30 + tall + 4 * margin, [*parts, "</g>"])


def titled(x, y, wide, high, name, said):
    """A box with a name and lines below it."""
    return [box(x, y, wide, high), text(x + wide / 2, y + 18, name, 14, "name"),
            *(text(x + wide / 2, y + 34 + 13 * index, line, 10.5, "more") for index, line in enumerate(said))]


def frame(name, width, height, inside):
    """(width, height, parts) of a frame with a name around a drawing of that size."""
    width, height = max(width, 9 * len(name)) + 24, height + 54
    return width, height, [box(0, 0, width, height, "room"), text(12, 22, name, 15, "name", "start"),
                           '<g transform="translate(12 34)">', *inside, "</g>"]


def rooms_of(there, included, folder):
    """The frame of a folder with rooms."""
    readme = dict(there.readme(folder))
    arrows = {room: set() for room in sorted(there.rooms(folder))}
    for start, end in tree.room_arrows(there, included, folder):
        arrows[start].add(end)
    says = {room: wrapped(readme.get(room, "not listed").replace("`", ""), 27) for room in arrows}
    size = lambda node: (176, 30 + 13 * max((len(says[room]) for room in arrows), default=0))
    width, height, lines, corners = drawn(direct(arrows), size, 22, 44)
    parts = [*lines]
    for room, (x, y) in corners.items():
        parts += titled(x, y, *size(room), room, says[room])
    return frame(folder, width, height, parts)


def rooms(source):
    there, included = tree.Folders(source), tree.files(source)[0]
    frames = [rooms_of(there, included, folder) for folder in by_height(source) if len(there.rooms(folder)) > 1]
    return in_rows(frames, ROOMS_NOTE)


def by_height(source):
    """Names of folders, those that use others first."""
    table = tree.listed(source)
    height = layers.heights({name: uses & set(table) for name, uses in table.items()})
    return sorted(table, key=lambda name: (-height[name], name))


def in_rows(frames, note):
    """A picture of frames, in rows of about the same width."""
    across, x, y, tallest, parts, margin = max([1500, *(width for width, _, _ in frames)]), 0, 40, 0, [], 20
    for width, high, inside in frames:
        if x and x + width > across:
            x, y, tallest = 0, y + tallest + margin, 0
        parts += [f'<g transform="translate({x + margin:.1f} {y:.1f})" stroke-width="1.4">', *inside, "</g>"]
        x, tallest = x + width + margin, max(tallest, high)
    parts.append(text(margin, 26, note, 12, "more", "start"))
    return svg(across + 2 * margin, y + tallest + margin, parts)


def files_of(name, files, arrows):
    """The frame of a place: its modules, and under the name of each the other places of which it includes headers."""
    own = {node: {target for target in arrows[node] if target in files} for node in files}
    title = {node: node.rsplit("/", 1)[1] for node in files}
    others = {node: wrapped(" ".join(sorted({target.rsplit("/", 1)[0] for target in arrows[node] - own[node]} - {"base", tree.PUBLIC})), 24)
              for node in files}
    wide = {node: max(6.6 * len(title[node]), 5.6 * max(map(len, others[node]))) + 14 for node in files}
    tall = 20 + 11 * max(len(lines) for lines in others.values())
    width, height, lines, corners = drawn(own, lambda node: (wide[node], tall), 8, 40)
    parts = [*lines]
    for node, (x, y) in corners.items():
        parts += [box(x, y, wide[node], tall), text(x + wide[node] / 2, y + 14, title[node], 10.5, "name")]
        parts += [text(x + wide[node] / 2, y + 26 + 11 * index, line, 9, "more") for index, line in enumerate(others[node])]
    return frame(name, width, height, parts)


def files(source):
    """A frame for each room, those of folders that use others above them."""
    there, arrows = tree.Folders(source), tree.module_arrows(tree.files(source)[0])
    place = lambda node: node.rsplit("/", 1)[0]
    frames = []
    for folder in by_height(source):
        order = [room for room, _ in there.readme(folder)]
        for room in sorted(there.rooms(folder), key=lambda room: (order.index(room) if room in order else 0, room)):
            name = folder if room == "." else f"{folder}/{room}"
            frames.append(files_of(name, [node for node in sorted(arrows) if place(node) == name], arrows))
    return in_rows(frames, FILES_NOTE)


def shown(picture):
    """Names of boxes, and arrows in words."""
    return set(re.findall(r'class="name"[^>]*>([^<]*)<|<title>([^<]*)<', picture))


def outdated(old, new, name="folders.svg"):
    more, less = shown(new) - shown(old), shown(old) - shown(new)
    wrong = [f"{name} lacks: {''.join(what)}" for what in sorted(more)]
    wrong += [f"{name} shows, and there is no more: {''.join(what)}" for what in sorted(less)]
    return wrong + ["draw it anew: cmake --build DIRECTORY --target graph"] if wrong else []


def main():
    source = pathlib.Path(sys.argv[1])
    target = source / "docs" / "inside" / "architecture"
    if "--check" in sys.argv:
        wrong = [line for name, picture in (("folders.svg", folders(source)), ("rooms.svg", rooms(source)))
                 for line in outdated((target / name).read_text(encoding="utf-8"), picture, name)]
        print(*wrong, f"{len(wrong)} differences", sep="\n")
        return 1 if wrong else 0
    target.mkdir(exist_ok=True)
    for name, picture in {"folders.svg": folders(source), "rooms.svg": rooms(source), "files.svg": files(source)}.items():
        (target / name).write_text(picture, encoding="utf-8")
        print(target / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
