"""Small restrained plots as SVG: a paper background, few lines, light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, sans-serif; fill: #23262b; }
.soft { fill: #636a74; font-size: 12px; } .title { font-size: 17px; font-weight: 600; } .paper { fill: #fbfaf7; }
.axis { stroke: #b9b4a8; } .grid { stroke: #e7e3d9; } .a { stroke: #1f6f78; fill: #1f6f78; }
.b { stroke: #d9822b; fill: #d9822b; } .c { stroke: #7a5ea8; fill: #7a5ea8; } .d { stroke: #8a8f98; fill: #8a8f98; }
@media (prefers-color-scheme: dark) { text { fill: #e7e5df; } .soft { fill: #a2a7ae; } .paper { fill: #16181b; }
.axis { stroke: #4a4f56; } .grid { stroke: #2a2d32; } .a { stroke: #62b8bf; fill: #62b8bf; }
.b { stroke: #ffb266; fill: #ffb266; } .c { stroke: #b9a3e3; fill: #b9a3e3; } .d { stroke: #9aa0a8; fill: #9aa0a8; } }
text.a, text.b, text.c, text.d { stroke: none; } .line { fill: none; stroke-width: 2; }
.faint { fill-opacity: .6; stroke: none; } .dash { stroke-dasharray: 4 4; fill: none; }
"""


def text(x: float, y: float, words: str, *, kind: str = "", end: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{end}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{max(height, 0):.2f}"/>'


def path(points: Sequence[tuple[float, float]], kind: str) -> str:
    joined = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="{kind} line" d="M{joined}"/>'


def dot(x: float, y: float, kind: str, radius: float = 3.5) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def logarithmic(low: float, high: float, start: float, end: float):
    """A scale from [low, high] to [start, end] in logarithms."""

    def at(value: float) -> float:
        share = (math.log(max(value, 1e-300)) - math.log(low)) / (math.log(high) - math.log(low))
        return start + share * (end - start)

    return at


def drawing(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}"><style>{STYLE}</style>\n'
        f'<rect class="paper" width="{width}" height="{height}" rx="10"/>\n{body}\n</svg>\n'
    )
