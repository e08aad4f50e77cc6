"""The crossover: maximum error against the number of questions, for four mechanisms, and what the planner picks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import conspectus as cs
from bench import data_file, markdown, record
from bench.svg import dot, drawing, line, logarithmic, path, text
from conspectus.counting.counters import count
from conspectus.queries.workload import Workload

FILE = Path(__file__).parent.parent / "docs" / "crossover.svg"
BLOCKS = (3, 32, 312, 3125)
EPSILON, DELTA, WIDTH = 1.0, 1e-6, 5
SINGLES = (100, 1000, 10_000)
PLAYERS = {"gaussian": "d", "mwem": "b", "projection": "c", "boosting": "a"}
NOTE = (
    f"NLTCS, marginals of {WIDTH} columns chosen at random, ε = 1, δ = 1e-6, replace; one run each. In "
    "brackets what the planner expects before anything is spent; bold is its pick, by public facts alone. Noise on "
    "everything is as good as anything while there are few questions, and then gives way: its error grows like the "
    "root of the number of marginals, that of the others hardly at all.\n\n"
    "![error against the number of questions](crossover.svg)"
)


def main() -> None:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    schema = cs.Schema.from_dict({"name": "nltcs", "columns": {name: {"type": "boolean"} for name in frame.columns}})
    table = cs.open_table(frame, schema)
    marginals, singles = workloads(schema)
    publish(*([measured(table, schema, asked) for asked in kind] for kind in (marginals, singles)))


def workloads(schema) -> tuple[list[Workload], list[Workload]]:
    """Random sets of marginals, and random single questions, the same every time."""
    every = cs.marginals(schema, WIDTH)
    rng = np.random.Generator(np.random.PCG64(1))
    chosen = [sorted(rng.permutation(len(every.blocks))[:size]) for size in BLOCKS]
    marginals = [Workload(every.domain, tuple(every.blocks[i] for i in places)) for places in chosen]
    return marginals, [cs.random_conjunctions(schema, WIDTH, size, 1) for size in SINGLES]


@dataclass(frozen=True)
class Point:
    """One workload: what each mechanism's maximum error was, what was expected of it, and what the planner picks."""

    questions: int
    errors: dict[str, float]
    claims: dict[str, float]
    pick: str

    def cells(self) -> list[str]:
        """A line of the table."""
        found = [f"{self.questions:,}" + ("" if self.pick in PLAYERS else f" (picks `{self.pick}`)")]
        for name in PLAYERS:
            shown = f"{self.errors[name]:.4f} ({self.claims[name]:.4f})" if name in self.errors else "refused"
            found.append(f"**{shown}**" if name == self.pick else shown)
        return found


def planned(schema, workload: Workload, rows: int) -> tuple[dict[str, float], str]:
    """What the planner expects of each mechanism, as fractions, and its pick."""
    plan = cs.plan(schema, workload, rows=rows, epsilon=EPSILON, delta=DELTA)
    return {claim.mechanism: claim.expected_max / rows for claim in plan.claims}, plan.best.mechanism


def measured(table, schema, workload: Workload) -> Point:
    counts, rows = count(workload, table.chunks())
    claims, pick = planned(schema, workload, rows)
    errors = {}
    for name in PLAYERS:
        if name in claims:
            release = cs.release(table, workload, epsilon=EPSILON, delta=DELTA, mechanism=name)
            errors[name] = float(np.abs(release.answers - counts / rows).max())
    return Point(len(workload), errors, claims, pick)


def publish(marginals: list[Point], singles: list[Point]) -> None:
    """Write the plot and the section."""
    sizes = [point.questions for point in marginals]
    found = {name: [point.errors[name] for point in marginals] for name in PLAYERS}
    FILE.write_text(draw(sizes, found, [point.pick for point in marginals]), encoding="utf-8")
    heads = ["questions", *(f"`{name}`" for name in PLAYERS)]
    told = (
        "The same for single questions, conjunctions of five columns drawn at random, of which a measurement tells "
        "much less. What is expected of those that are never measured has the theorems' shape and a constant that was "
        f"chosen on this very table.\n\n{markdown(heads, [point.cells() for point in singles])}"
    )
    body = f"{NOTE}\n\n{markdown(heads, [point.cells() for point in marginals])}\n\n{told}"
    record("crossover", "How many questions: the crossover", body, "python -m bench crossover")


def draw(sizes: list[int], found: dict[str, list[float]], picks: list[str]) -> str:
    """Both axes in logarithms; a ring around what the planner picks."""
    width, height, left, right, top, floor = 920, 430, 78, 800, 84, 372
    every = [value for values in found.values() for value in values]
    x = logarithmic(sizes[0], sizes[-1], left, right)
    y = logarithmic(min(every) * 0.8, max(every) * 1.2, floor, top)
    parts = [
        text(28, 34, "Maximum error against the number of questions", kind="title"),
        text(28, 56, "NLTCS, 5-way marginals, ε = 1, δ = 1e-6. Rings: what the planner picks beforehand.", kind="soft"),
    ]
    for level in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1):
        if min(every) * 0.8 <= level <= max(every) * 1.2:
            parts.append(line(left, y(level), right, y(level), "grid"))
            parts.append(text(left - 8, y(level) + 4, f"{level:g}", kind="soft", end="end"))
    for size in sizes:
        parts.append(text(x(size), floor + 22, f"{size:,}", kind="soft", end="middle"))
    parts.append(line(left, floor, right, floor, "axis"))
    parts.append(text((left + right) / 2, floor + 44, "questions", kind="soft", end="middle"))
    # Names stand apart at the right end, in the order of the last points.
    last, names = 0.0, sorted(PLAYERS, key=lambda name: y(found[name][-1]))
    for name in names:
        kind = PLAYERS[name]
        points = [(x(size), y(value)) for size, value in zip(sizes, found[name])]
        parts.append(path(points, kind))
        parts += [dot(*point, kind) for point in points]
        last = max(y(found[name][-1]) + 4, last + 17)
        parts.append(text(right + 14, last, name, kind=kind))
    for size, name, number in zip(sizes, picks, range(len(sizes))):
        if name in found:
            ring = f'cx="{x(size):.1f}" cy="{y(found[name][number]):.1f}"'
            parts.append(f'<circle class="{PLAYERS[name]} line" {ring} r="9"/>')
    return drawing(width, height, "Maximum error against the number of questions", parts)


if __name__ == "__main__":
    main()
