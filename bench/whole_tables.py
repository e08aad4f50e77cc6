"""One whole table of several columns: what `projection` expects of it, what it does, and whether what is printed of it
lies in its intervals: `python -m bench.whole_tables`.

The model of the claim was chosen on NLTCS, Adult and made tables. Here are columns of Census-Income, Diabetic and ACS
Income.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import conspectus as cs
from bench import markdown, record
from bench.listed import some
from bench.ordinary_tables import Case, acs, census, diabetic
from conspectus.counting.counters import count

TABLES = ((census, (2, 4, 6)), (diabetic, (2, 4, 6)), (acs, (2, 3, 4)))
ROWS, RUNS = 20_000, 4
CELLS = (64, 20_000)
"""How few and how many cells a table has; columns are chosen at random until it does."""

NOTE = (
    "All cells of a table of {rows:,} rows and some columns, chosen at random, asked at once; replace, means of {runs} "
    "runs. Errors in counts, on average and the largest one: what `projection` expected from public facts over what "
    "was measured; *noise* is what plain noise leaves on average, measured as well. *Outside* are the counts of single "
    "columns, as `release.table` prints them, whose 95 % interval does not hold the truth. Of the {lines} lines the "
    "expected mean is within a factor of two of the measured one in {mean}, the expected maximum in {largest}, and in "
    "{largest3} within three; the middle ratios are {middle:.2f} and {middle_largest:.2f}. The fit is less wrong than "
    "noise by a factor of {gain:.1f} at the median, and worse in {worse} lines, by {worst:.2f} at most."
)


def few(case: Case, columns: int) -> Case:
    """So many columns with a number of cells that is served."""
    for seed in range(1, 1_000):
        found = some(case, columns, ROWS, seed)
        if CELLS[0] <= math.prod(found.sizes.values()) <= CELLS[1]:
            return found
    raise SystemExit(f"no {columns} columns of {case.title} have between {CELLS[0]} and {CELLS[1]} cells")


def outside(release: cs.Release, table: cs.Table) -> tuple[int, int]:
    """How many printed counts of single columns miss the truth, and of how many."""
    missed = asked = 0
    for column in table.schema.columns:
        truth, _ = count(cs.marginals(table.schema, 1, [column.name]), table.chunks())
        printed = release.table([column.name]).to_arrow().to_pydict()
        inside = [low <= true <= high for low, high, true in zip(printed["low"], printed["high"], truth.tolist())]
        missed, asked = missed + inside.count(False), asked + len(inside)
    return missed, asked


def lines() -> Iterator[tuple[list[str], float, float, float]]:
    for load, sizes in TABLES:
        whole = load()
        for columns in sizes:
            table = few(whole, columns).table()
            asked = cs.marginals(table.schema, columns)
            counts, _ = count(asked, table.chunks())
            for epsilon in (0.1, 1.0, 4.0):
                for delta in (0.0, 1e-6):
                    budget = {"epsilon": epsilon, "delta": delta, "neighbours": "replace", "rows": ROWS}
                    plan = cs.plan(table.schema, asked, **budget)
                    said = next(claim for claim in plan.claims if claim.mechanism == "projection")
                    made = {
                        name: [cs.release(table, asked, mechanism=name, **budget) for _ in range(RUNS)]
                        for name in ("projection", "gaussian" if delta else "laplace")
                    }
                    fit, noise = (
                        [np.abs(one.answers * ROWS - counts) for one in releases] for releases in made.values()
                    )
                    mean, largest = np.mean(fit), np.mean([off.max() for off in fit])
                    missed, printed = np.sum([outside(one, table) for one in made["projection"]], axis=0)
                    line = [f"{whole.title.split(',')[0]}, {columns} columns", f"{len(asked):,}", f"{epsilon:g}"]
                    line += [f"{delta:g}", f"{said.expected_mean:.3g} / {mean:.3g}", f"{np.mean(noise):.3g}"]
                    line += [f"{said.expected_max:.3g} / {largest:.3g}", f"{missed} of {printed}"]
                    print(*line, sep=" | ", flush=True)
                    yield line, said.expected_mean / mean, said.expected_max / largest, float(np.mean(noise) / mean)


def main() -> None:
    found = list(lines())
    mean, largest, gain = (np.array([each[place] for each in found]) for place in (1, 2, 3))
    note = NOTE.format(
        rows=ROWS,
        runs=RUNS,
        lines=len(found),
        mean=int((np.abs(np.log(mean)) <= np.log(2)).sum()),
        largest=int((np.abs(np.log(largest)) <= np.log(2)).sum()),
        largest3=int((np.abs(np.log(largest)) <= np.log(3)).sum()),
        middle=np.median(mean),
        middle_largest=np.median(largest),
        gain=np.median(gain),
        worse=int((gain < 1).sum()),
        worst=1 / gain.min(),
    )
    heads = [
        "table",
        "cells",
        "ε",
        "δ",
        "mean, expected / measured",
        "noise",
        "largest, expected / measured",
        "outside",
    ]
    text = f"{note}\n\n{markdown(heads, [each[0] for each in found])}"
    record("whole-tables", "What a fit makes of one whole table", text, "python -m bench.whole_tables")


if __name__ == "__main__":
    main()
