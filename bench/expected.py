"""What every mechanism expects of its errors, beside what it does: `python -m bench.expected`.

With the word `chosen` it prints the same for the tables on which factors were chosen.

Reported are other made tables of the same seven shapes, and columns of other real tables, with questions of all kinds.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from tests.made_problems import MadeProblem, Rng, asked, budget_of, made_problem, ratio, usable

from bench import markdown, record
from bench.listed import some
from bench.ordinary_tables import Case, acs, adult, census, diabetic, kdd, nltcs
from conspectus.mechanisms.mechanism import Claim
from conspectus.mechanisms.typical.expectations import VARIES

CHOSEN, CHOSEN_REAL = range(1_000, 1_280), range(50_000, 50_240)
"""Seeds of the problems that factors were chosen on, made and real."""
MADE, REAL = range(100_000, 100_120), range(110_000, 110_120)
"""Seeds of those reported: run once, after the factors were chosen."""
CHOSEN_TABLES, TABLES = (adult, nltcs, census), (diabetic, acs, kdd)

FEWEST = 20
"""How many releases on one kind of table say something about it."""
SLOW = 6.0
CLAIMS = partial(usable, slow=SLOW)
CELLS = 20_000
KINDS = ("whole", "marginals", "some", "conjunctions", "both")
"""The questions that are asked of real tables: their columns have no order that is known here."""

NOTE = (
    "{made} made problems (seven shapes of tables of 1,000 to 100,000 rows, questions of ten kinds, ε from 0.1 to 4, δ "
    "= 0 or above, both relations), and {real} of columns of Diabetic, ACS Income and KDD Cup 99, chosen at random. "
    "One release each by every mechanism that expects at most a quarter of the rows and at most {slow:g} s. *Factor* "
    "is what the plan says: expected errors are right within it in nine of ten releases. *Within* is the share of "
    "releases for which that was so, of the mean and of the largest error; *ratio* is the median of expected over "
    "measured. Errors below half a count are as good as none. Factors are those that held on the kind of table where "
    "errors vary most, of other made problems and of columns of Adult, NLTCS and Census-Income (`python -m "
    "bench.expected chosen`); this table was made after that, from new seeds. Its real tables are not wholly new: "
    "earlier runs on other columns of them had shown that the made tables lacked the shape of KDD Cup 99, which was "
    "added, and that factors for all tables together were too small for some. Of the models, one constant of "
    "`adaptive` was chosen on columns of Diabetic among others, and those of `dual-query` on KDD Cup 99 among others."
)


def real_table(seed: int, tables: list[Case], *, columns: range, cells: int) -> tuple[Case, int, Rng]:
    """Some columns and rows of a real table, how many rows, and what chooses the rest."""
    rng = np.random.default_rng(seed)
    whole = tables[int(rng.integers(len(tables)))]
    rows = int(rng.choice([1_000, 5_000, 20_000]))
    case = some(whole, int(rng.integers(columns.start, columns.stop)), rows, seed)
    while np.prod(list(case.sizes.values()), dtype=float) > cells:
        kept = list(case.sizes)[:-1]
        case = replace(case, codes={n: case.codes[n] for n in kept}, sizes={n: case.sizes[n] for n in kept})
    return case, len(next(iter(case.codes.values()))), rng


def real_problem(seed: int, tables: list[Case]) -> MadeProblem:
    """Some columns and rows of a real table, and questions about them."""
    case, rows, rng = real_table(seed, tables, columns=range(2, 7), cells=CELLS)
    table = case.table()
    kind = str(rng.choice(KINDS[: 5 if len(case.sizes) > 1 else 2]))
    return MadeProblem(kind, case.title, table, asked(rng, kind, table.schema), budget_of(rng, rows))


class Line(NamedTuple):
    """Of one release or session: the kind of table, the factor that is stated, and expected over measured errors."""

    table: str
    within: float
    mean: float
    largest: float


Found = dict[str, list[Line]]
"""The lines of each mechanism."""


class Problem(Protocol):
    """What can be released, or asked of a session."""

    @property
    def shape(self) -> str: ...

    @property
    def budget(self) -> dict[str, Any]: ...

    def errors(self, mechanism: str) -> tuple[float, float]: ...


P = TypeVar("P", bound=Problem)


def ratios(problems: Iterable[P], claims: Callable[[P], Iterable[Claim]]) -> Found:
    """What became of each claim; those that were outside of their factor are printed."""
    found: Found = defaultdict(list)
    for number, problem in enumerate(problems):
        for claim in claims(problem):
            assert claim.expected_within is not None
            mean, largest = problem.errors(claim.mechanism)
            both = ratio(claim.expected_mean, mean), ratio(claim.expected_max, largest)
            found[claim.mechanism].append(Line(problem.shape, claim.expected_within, *both))
            if max(abs(np.log(both))) > np.log(claim.expected_within):
                said = (f"{x:.2f}" for x in both)
                print(number, claim.mechanism, problem.shape, problem.budget, *said, flush=True)
    return found


def deciles(found: Found) -> None:
    """Print what factors rest on: the ninth decile of how far off expected errors were, of the mean and of the largest,
    on the kind of table where it is largest."""
    for name, lines in sorted(found.items()):
        print(name, len(lines), end="")
        for place in ("mean", "largest"):
            kinds: dict[str, list[float]] = defaultdict(list)
            for line in lines:
                kinds[line.table].append(abs(np.log(getattr(line, place))))
            worst = {kind: np.exp(np.quantile(off, 0.9)) for kind, off in kinds.items() if len(off) >= FEWEST}
            over_all = np.exp(np.quantile([each for off in kinds.values() for each in off], 0.9))
            kind = max(worst, key=worst.__getitem__, default="")
            print(f"; {place} {over_all:.2f}", f"{worst[kind]:.2f} {kind} {len(kinds[kind])}" if kind else "", end="")
        print(flush=True)


def shares_within(made: Found, real: Found, factors: dict[str, float], *, what: str) -> str:
    """The table: of each mechanism the shares within its factor, and the middle ratios."""
    words = (what, "mean within", "ratio", "largest within", "ratio")
    heads = ["mechanism", "factor"] + [f"{which}: {word}" for which in ("made", "real") for word in words]
    lines = [
        [f"`{name}`", f"{factor:g}", *_columns(made.get(name, [])), *_columns(real.get(name, []))]
        for name, factor in factors.items()
    ]
    return markdown(heads, lines)


def _columns(lines: list[Line]) -> Iterator[str]:
    if not lines:
        yield from ("0", "–", "–", "–", "–")
        return
    within, *both = np.array([line[1:] for line in lines]).T
    yield f"{len(lines)}"
    for off in both:
        yield f"{np.mean(np.abs(np.log(off)) <= np.log(within)):.2f}"
        yield f"{np.median(off):.2f}"


def found_on(seeds: range, real_seeds: range, loads: Iterable[Callable[[], Case]]) -> tuple[Found, Found]:
    """The ratios on made problems, and on those of real tables."""
    tables = [load() for load in loads]
    real = (real_problem(seed, tables) for seed in real_seeds)
    return ratios(map(made_problem, seeds), CLAIMS), ratios(real, CLAIMS)


def main() -> None:
    if sys.argv[1:] == ["chosen"]:
        for found in found_on(CHOSEN, CHOSEN_REAL, CHOSEN_TABLES):
            deciles(found)
        return
    made, real = found_on(MADE, REAL, TABLES)
    note = NOTE.format(made=len(MADE), real=len(REAL), slow=SLOW)
    text = f"{note}\n\n{shares_within(made, real, VARIES, what='releases')}"
    record("expected", "What mechanisms expect of their errors", text, "python -m bench.expected")


if __name__ == "__main__":
    main()
