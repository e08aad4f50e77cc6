"""What `adaptive` expects of listed conjunctions and what it does: `python -m bench.listed`.

The constants of the claim were chosen on other tables, which `mechanisms/typical/expectations.py` names. Here are
columns of Census-Income, Diabetic and ACS Income, and fewer rows of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import conspectus as cs
from bench import markdown, record
from bench.ordinary_tables import Case, acs, census, diabetic
from conspectus.counting.counters import count

QUESTIONS = 200
MOST_VALUES = 60
TABLES = ((census, 7, 5), (diabetic, 8, 1), (acs, 6, 1))
"""Tables, how many columns of each, and the public seed by which they are chosen."""

NOTE = (
    "{questions} random conjunctions of k columns, δ = 1e-6, replace, one run each; columns of up to {values} values "
    "are chosen at random. Errors in counts: what was expected from public facts over what was measured. *Noise* is "
    "the largest error that `gaussian` expects. Of the {lines} lines the expected mean is within a factor of two of "
    "the measured one in {mean}, within three in {mean3}; the expected maximum in {largest} and {largest3}. The "
    "middle ratios are {middle:.2f} and {middle_largest:.2f}."
)


def some(case: Case, columns: int, rows: int, seed: int) -> Case:
    """Some columns and rows of a table; all columns where there are fewer."""
    rng = np.random.default_rng(seed)
    usable = [name for name, size in case.sizes.items() if 2 <= size <= MOST_VALUES]
    names = [usable[place] for place in sorted(rng.choice(len(usable), min(columns, len(usable)), replace=False))]
    kept = np.random.default_rng(7).permutation(len(case.codes[names[0]]))[:rows]
    codes = {name: case.codes[name][kept] for name in names}
    ordered = tuple(name for name in case.ordered if name in names)
    return replace(case, codes=codes, sizes={name: case.sizes[name] for name in names}, ordered=ordered)


def ratios() -> Iterator[tuple[list[str], float, float]]:
    for load, columns, seed in TABLES:
        whole = load()
        for rows in (2_000, 5_000, 30_000):
            table = some(whole, columns, rows, seed).table()
            for epsilon in (0.1, 1.0, 4.0):
                for k in (2, 3, 4):
                    asked = cs.random_conjunctions(table.schema, k, QUESTIONS, 1)
                    counts, _ = count(asked, table.chunks())
                    budget = {"epsilon": epsilon, "delta": 1e-6, "neighbours": "replace", "rows": rows}
                    plan = cs.plan(table.schema, asked, **budget)
                    claims = {claim.mechanism: claim for claim in plan.claims}
                    release = cs.release(table, asked, mechanism="adaptive", intervals=False, **budget)
                    off = np.abs(release.answers * rows - counts)
                    said = claims["adaptive"]
                    line = [f"{whole.title.split(',')[0]}, {columns} columns", f"{rows:,}", f"{epsilon:g}", str(k)]
                    line += [
                        f"{said.expected_mean:.3g} / {off.mean():.3g}",
                        f"{said.expected_max:.3g} / {off.max():.3g}",
                    ]
                    line += [f"{claims['gaussian'].expected_max:.3g}", f"`{plan.best.mechanism}`"]
                    print(*line, sep=" | ", flush=True)
                    yield line, said.expected_mean / off.mean(), said.expected_max / off.max()


def main() -> None:
    found = list(ratios())
    mean, largest = (np.array([each[place] for each in found]) for place in (1, 2))
    within = [int((np.abs(np.log(r)) <= np.log(f)).sum()) for r in (mean, largest) for f in (2, 3)]
    note = NOTE.format(
        questions=QUESTIONS,
        values=MOST_VALUES,
        lines=len(found),
        mean=within[0],
        mean3=within[1],
        largest=within[2],
        largest3=within[3],
        middle=np.median(mean),
        middle_largest=np.median(largest),
    )
    heads = ["table", "rows", "ε", "k", "mean, expected / measured", "largest, expected / measured", "noise", "pick"]
    text = f"{note}\n\n{markdown(heads, [each[0] for each in found])}"
    record("listed", "What `adaptive` expects of listed conjunctions", text, "python -m bench.listed")


if __name__ == "__main__":
    main()
