"""The picture of a live session: error and budget over the stream of questions."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

FILE = Path(__file__).parent.parent / "docs" / "live.svg"
STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, sans-serif; fill: #23262b; } .soft { fill: #636a74; font-size: 12px; }
.title { font-size: 17px; font-weight: 600; } .axis { stroke: #b9b4a8; } .paper { fill: #fbfaf7; }
.line { fill: none; stroke-width: 2; } .thin { stroke-width: 1.2; stroke-dasharray: 4 3; }
.s0 { stroke: #1f6f78; } .s1 { stroke: #7a5ea8; } .s2 { stroke: #d9822b; }
@media (prefers-color-scheme: dark) { text { fill: #e7e5df; } .soft { fill: #a2a7ae; } .axis { stroke: #4a4f56; }
.paper { fill: #16181b; } .s0 { stroke: #62b8bf; } .s1 { stroke: #b49be0; } .s2 { stroke: #ffb266; } }
"""
WIDTH, HEIGHT, LEFT, WIDE, TALL, TOP = 920, 400, 60, 360, 230, 96


def draw(series: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]], length: int) -> None:
    """Two panels: the largest (solid) and mean (dashed) error so far, on a log scale, and the share of budget spent."""
    chosen = [(name, data) for (name, asked), data in series.items() if asked == length]
    at = np.unique(np.geomspace(1, length, 160).astype(int)) - 1
    x = np.log(at + 1) / np.log(length) * WIDE
    parts = [
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        f'<text class="title" x="28" y="34">{length:,} adaptive questions about NLTCS, ε = 1</text>',
        '<text class="soft" x="28" y="56">Left: largest (solid) and mean (dashed) error so far. '
        "Right: share of the budget spent.</text>",
    ]
    right = LEFT + WIDE + 90
    for left, marks in ((LEFT, (0.001, 0.01, 0.1)), (right, (0.0, 0.5, 1.0))):
        parts.append(f'<path class="axis" d="M{left} {TOP}V{TOP + TALL}H{left + WIDE}" fill="none"/>')
        for mark in marks:
            y = _level(mark) if left == LEFT else TOP + TALL * (1 - mark)
            parts.append(f'<text class="soft" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
        for power in range(int(np.log10(length)) + 1):
            place = left + power / np.log10(length) * WIDE
            where = f'x="{place:.0f}" y="{TOP + TALL + 20}" text-anchor="middle"'
            parts.append(f'<text class="soft" {where}>{10**power:,}</text>')
    for number, (name, (errors, budget)) in enumerate(chosen):
        most = np.maximum.accumulate(errors)[at]
        mean = (np.cumsum(errors) / np.arange(1, length + 1))[at]
        for values, kind in ((most, ""), (mean, " thin")):
            path = " ".join(f"{LEFT + a:.1f},{_level(v):.1f}" for a, v in zip(x, values))
            parts.append(f'<polyline class="line s{number}{kind}" points="{path}"/>')
        path = " ".join(f"{right + a:.1f},{TOP + TALL * (1 - v):.1f}" for a, v in zip(x, budget[at]))
        parts.append(f'<polyline class="line s{number}" points="{path}"/>')
        place = 60 + 270 * number
        parts.append(f'<path class="line s{number}" d="M{place} {HEIGHT - 26}h24"/>')
        parts.append(f'<text x="{place + 32}" y="{HEIGHT - 22}">{escape(name.replace("`", ""))}</text>')
    body = "\n".join(parts)
    FILE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="Error and budget over a stream of questions"><style>{STYLE}</style>\n{body}\n</svg>\n',
        encoding="utf-8",
    )


def _level(error: float) -> float:
    low, high = np.log10(0.0005), np.log10(0.3)
    return float(TOP + TALL * (1 - (np.clip(np.log10(max(error, 1e-9)), low, high) - low) / (high - low)))
