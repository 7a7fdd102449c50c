#!/usr/bin/env python3
"""Draws docs/pictures/groups.svg: the ranks of a mesh on two nodes, the ring of each group there, and the parts in a slot.

    docs/pictures/groups.py
"""
import itertools
import pathlib

MESH, NODES = {"pp": 2, "dp": 2, "cp": 2}, 2  # as in docs/use/groups.md
FIELDS = {0: "tokens", 1: "labels"}           # pp -> what its ranks have
PIECES = 2 * MESH["cp"]
STYLE = """<style>text { font-family: "DejaVu Sans", Verdana, sans-serif; fill: #1b2733; font-size: 13px }
.name { font-weight: bold } .more { fill: #51606e; font-size: 12px } .middle { text-anchor: middle }
.box { fill: #f3f6f9; stroke: #b8c4cf } .ring { fill: #ffffff; stroke: #51606e }
.g0 { fill: #9cc3dd; stroke: #2f6690 } .g1 { fill: #f3cf9b; stroke: #b0701c }
.arrow { fill: none; stroke: #51606e; stroke-width: 1.6 }</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0L8 4L0 8z" fill="#51606e"/></marker></defs>"""
RANK_WIDTH, RANK_STEP, RING_STEP, NODE_STEP = 72, 80, 172, 380


def text(x, y, words, kind=""):
    return f'<text class="{kind}" x="{x}" y="{y}">{words}</text>'


def box(kind, x, y, width, height):
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="3"/>'


def pieces(part):
    """Of a zigzag."""
    return part, PIECES - 1 - part


def draw_ring(x, pp, dp, first):
    """A group's ring on a node, and the ranks that map it. `first`: its first rank."""
    yield box("ring", x, 62, 160, 74)
    yield text(x + 10, 82, f"ring of group {dp}", "more")
    for cp in range(MESH["cp"]):
        left = x + 8 + cp * RANK_STEP
        for i, piece in enumerate(pieces(cp)):
            yield box(f"g{dp}", left + 32 * i, 94, 32, 28)
            yield text(left + 32 * i + 16, 113, piece, "middle")
        middle = left + 32
        yield f'<path class="arrow" marker-end="url(#head)" d="M{middle} 124V166"/>'
        yield box(f"g{dp}", left - 4, 168, RANK_WIDTH, 68)
        yield text(middle, 188, f"rank {first + cp}", "name middle")
        for line, words in enumerate((f"pp {pp}, dp {dp}", f"cp {cp}")):
            yield text(middle, 207 + 17 * line, words, "more middle")


def draw():
    yield '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 268" width="760" height="268">'
    yield STYLE
    yield box("", 0, 0, 760, 268).replace('class=""', 'fill="#ffffff"').replace(' rx="3"', "")
    for node in range(NODES):
        x = 12 + node * NODE_STEP
        yield box("box", x, 12, 356, 242)
        yield text(x + 14, 36, f"node {node}", "name")
        yield text(x + 74, 36, f"{FIELDS[node]}, a sample in {PIECES} pieces, zigzag", "more")
    for rank, (pp, dp, cp) in enumerate(itertools.product(*map(range, MESH.values()))):
        if cp == 0:
            node = rank * NODES // (MESH["pp"] * MESH["dp"] * MESH["cp"])
            yield from draw_ring(24 + node * NODE_STEP + dp * RING_STEP, pp, dp, rank)
    yield "</svg>"


if __name__ == "__main__":
    pathlib.Path(__file__).with_name("groups.svg").write_text("\n".join(draw()) + "\n", encoding="utf-8")
