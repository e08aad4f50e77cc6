"""`python -m bench.wide_story`: the picture of docs/wide-tables.md, error against ε on Adult and on KDD Cup 99.

The true errors are known to the benchmark alone; the package never shows them. Data as for `bench.dual_query`.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from bench.dual_query import conjunctions, measure
from bench.picture import STYLE

FILE = Path(__file__).parent.parent / "docs" / "wide-tables.svg"
QUESTIONS = 100_000
EPSILONS = (0.25, 0.5, 1.0, 2.0, 5.0)
WIDTH, HEIGHT, LEFT, TOP, TALL, WIDE = 920, 360, 70, 84, 210, 380

Line = list[tuple[float, float, float]]


def measured(runs: int = 3) -> dict[str, Line]:
    """(ε, average error, largest error) for each table and mechanism, means over runs."""
    found: dict[str, Line] = {}
    for table, mechanism in (("Adult", "dual-query"), ("KDD99", "dual-query"), ("Adult", "gaussian")):
        asked = conjunctions(table, QUESTIONS)
        line = found.setdefault(f"{table}, {mechanism}", [])
        for epsilon in EPSILONS:
            budget = {"epsilon": epsilon, "delta": 1e-3, "neighbours": "replace"}
            one = measure(asked, mechanism, runs=runs if mechanism == "dual-query" else 1, budget=budget)
            line.append((epsilon, one.mean, one.worst))
    return found


def draw(found: dict[str, Line]) -> str:
    """Two panels, average and largest error, both axes logarithmic."""
    said = f"{QUESTIONS:,} conjunctions of three literals, with negations, at δ = 0.001"
    parts = [
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        '<text class="title" x="28" y="34">Error against ε on a wide table</text>',
        f'<text class="soft" x="28" y="56">{said}. Means of three runs; both axes are logarithmic.</text>',
    ]
    for place, what in enumerate(("average error", "largest error")):
        left = LEFT + place * (WIDE + 60)
        values = [point[1 + place] for line in found.values() for point in line]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

        def at(epsilon: float, error: float, left: int = left, low: int = low, high: int = high) -> tuple[float, float]:
            across = math.log(epsilon / EPSILONS[0]) / math.log(EPSILONS[-1] / EPSILONS[0])
            return left + across * (WIDE - 60), TOP + TALL * (high - math.log10(error)) / (high - low)

        floor = TOP + TALL
        parts.append(f'<path class="axis" fill="none" d="M{left} {TOP}V{floor}H{left + WIDE - 50}"/>')
        for power in range(low, high + 1):
            y = TOP + TALL * (high - power) / (high - low)
            parts.append(f'<text class="soft" x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g}</text>')
        for epsilon in EPSILONS:
            x, _ = at(epsilon, 10.0**low)
            parts.append(f'<text class="soft" x="{x:.0f}" y="{floor + 18}" text-anchor="middle">{epsilon:g}</text>')
        parts.append(f'<text x="{left}" y="{floor + 42}">{what}, by ε</text>')
        for name, line in found.items():
            points = [at(point[0], point[1 + place]) for point in line]
            dashes = "" if name.endswith("dual-query") else ' stroke-dasharray="5 4"'
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline class="whisker" fill="none" stroke-width="2"{dashes} points="{path}"/>')
            parts += [f'<circle class="truth" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
            x, y = points[0]
            parts.append(f'<text x="{x + 8:.0f}" y="{y - 8:.0f}">{name}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="Average and largest error against epsilon"><style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    output = parser.parse_args().output
    output.write_text(draw(measured()), encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main()
