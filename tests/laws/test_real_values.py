"""Whatever is counted in steps of a grid: intervals hold its real value, from its definition and not from the grid."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.queries.blocks.statistic import KINDS, Statistic, Statistics
from conspectus.queries.blocks.unsafe_functions import DeclaredFunction
from conspectus.queries.query import Sparse
from conspectus.queries.workload import Workload

ROWS, RUNS = 3000, 20
RNG = np.random.Generator(np.random.PCG64(11))
SIZES = {"a": 97, "b": 257, "c": 258, "d": 1000, "e": 2, "f": 1}
SCHEMA = cs.Schema.from_dict(
    {
        "name": "bins",
        "neighbours": "replace",
        "columns": {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in SIZES.items()},
    }
)
CODES = {name: np.minimum((RNG.beta(2, 3, ROWS) * size).astype(np.int64), size - 1) for name, size in SIZES.items()}
TABLE = cs.open_table(pa.table(CODES), SCHEMA)
REFERENCE = [float(weight) for weight in RNG.random(97)]
SOME = CODES["e"] == 1

Real = Callable[[], Fraction]
"""The real value in counts of rows, by definition."""


def position(name: str, low: int, high: int) -> list[Fraction]:
    return [Fraction(int(np.clip(code - low, 0, high - low)), high - low) for code in CODES[name]]


def lorenz(name: str, q: Fraction) -> Fraction:
    return sum(sorted(position(name, 0, SIZES[name] - 1))[: int(q * ROWS)], Fraction(0))


def kolmogorov(weights: list[float]) -> Fraction:
    exact, below = [Fraction(weight) for weight in weights], np.cumsum(np.bincount(CODES["a"], minlength=97))
    return max(abs(int(n) - ROWS * sum(exact[: k + 1]) / sum(exact)) for k, n in enumerate(below))


def dependence(a: str, b: str) -> Fraction:
    cells = [[int(((CODES[a] == x) & (CODES[b] == y)).sum()) for y in range(SIZES[b])] for x in range(SIZES[a])]
    rows, columns = [sum(line) for line in cells], [sum(line) for line in zip(*cells)]
    off = [abs(n - Fraction(r * s, ROWS)) for line, r in zip(cells, rows) for n, s in zip(line, columns)]
    return sum(off, Fraction(0)) / 4


STATISTICS: dict[str, tuple[Workload, Real]] = {
    **{
        f"mean of {name}": (cs.truncated_means(SCHEMA, name), lambda name=name: sum(position(name, 0, SIZES[name] - 1)))
        for name in "abcde"
    },
    "mean between": (cs.truncated_means(SCHEMA, "d", [(100, 703)]), lambda: sum(position("d", 100, 703))),
    "mean of some": (
        cs.truncated_means(SCHEMA, "c", given=[{"e": 1}]),
        lambda: sum((p for p, there in zip(position("c", 0, 257), SOME) if there), Fraction(0)),
    ),
    "lowest third": (cs.quantile_shares(SCHEMA, "a", [1 / 3]), lambda: lorenz("a", Fraction(1, 3))),
    "lowest part": (cs.quantile_shares(SCHEMA, "d", [0.123457]), lambda: lorenz("d", Fraction(123457, 10**6))),
    "reference": (cs.kolmogorov_distances(SCHEMA, "a", [REFERENCE]), lambda: kolmogorov(REFERENCE)),
    "uniform": (cs.kolmogorov_distances(SCHEMA, "a"), lambda: kolmogorov([1.0] * 97)),
    "independence": (cs.independence_distances(SCHEMA, [("a", "e")]), lambda: dependence("a", "e")),
    "satisfied": (
        cs.satisfied_shares(SCHEMA, [[{"e": 1}, {"a": 30}, {"a": 40}]]),
        lambda: Fraction(int(SOME.sum() + (CODES["a"] == 30).sum() + (CODES["a"] == 40).sum()), 3),
    ),
    "mode": (cs.mode_shares(SCHEMA, ["e"]), lambda: Fraction(int(max(SOME.sum(), ROWS - SOME.sum())))),
    "balance": (cs.interval_balances(SCHEMA, "e"), lambda: Fraction(int(min(SOME.sum(), ROWS - SOME.sum())))),
}


def test_every_kind_is_here() -> None:
    assert {asked.query(0).kind for asked, _ in STATISTICS.values()} == set(KINDS)


@pytest.mark.parametrize("name", STATISTICS)
def test_a_value_in_steps_is_as_near_to_the_real_one_as_it_says(name: str) -> None:
    asked, real = STATISTICS[name]
    (steps,), _ = count(asked, TABLE.chunks())
    off = abs(Fraction(int(steps), asked.grid) - real())
    assert off <= asked.query(0).rounding(ROWS, ROWS) <= 1 / 200  # of a row: nothing that anybody would see


@pytest.mark.parametrize("name", STATISTICS)
def test_intervals_hold_the_real_value(name: str) -> None:
    """At an ε so large that rounding is all that is left; then at 80 % and an ordinary one, as often as they say."""
    asked, real = STATISTICS[name]
    truth = float(real() / ROWS)
    for _ in range(3):
        answer = cs.release(TABLE, asked, epsilon=1e6, mechanism="laplace").ask(asked)
        assert answer.low <= truth <= answer.high
    held = 0
    for _ in range(RUNS):
        answer = cs.release(TABLE, asked, epsilon=2.0, mechanism="laplace").ask(asked, confidence=0.8)
        held += answer.low <= truth <= answer.high
    assert held >= binom.ppf(1e-6, RUNS, 0.8)


def test_weights_of_records() -> None:
    """Intervals that fail once in 10⁹ runs; those of `sparse-project`, by a hash that keeps three records apart, are a
    thousand times as wide as its noise."""
    sure = 1 - 1e-9
    rows = np.repeat(["x", "y", "z"], [70_000, 20_000, 10_000])
    table = cs.open_records(rows, neighbours="replace")
    weights = {"x": 1e-7, "y": 1 / 3, "z": 1.0}
    truth = (70_000 * 1e-7 + 20_000 / 3 + 10_000) / 100_000
    for mechanism, epsilon, confidence, own in (
        ("laplace", 1e4, sure, {}),
        ("sparse-project", 2.0, 0.95, {"public_seed": 1}),
    ):
        asked = cs.sparse([weights, {"y": 1 / 3}, ["z"]])
        release = cs.release(table, asked, epsilon=epsilon, delta=1e-6, mechanism=mechanism, **own)
        for place, real in enumerate((truth, 20_000 / 3 / 100_000, 0.1)):
            answer = release.ask(asked[place], confidence=confidence)
            assert answer.low - 1e-12 <= real <= answer.high + 1e-12
    assert Sparse((1,), (4,), 4).rounding(1e9, 1e9) == 0  # a weight of one is no rounded one
    assert Sparse((1, 2), (1, 4), 4).rounding(1e9, 8.0) == 32 / 65536
    with cs.open_session(table, epsilon=20.0, questions=5, mechanism="sparse-mw") as session:
        answer = session.ask(cs.sparse([{"y": 1 / 3}]), confidence=sure)
        assert answer.low <= 20_000 / 3 / 100_000 <= answer.high


def test_functions_of_ones_own() -> None:
    own = cs.unsafe_functions(SCHEMA, {"third": (lambda codes: 1 / 3 + 0 * codes.size, 1 / 3000)})
    answer = cs.release(TABLE, own, epsilon=1e6, mechanism="laplace").ask(own)
    assert answer.low <= 1 / 3 <= answer.high
    assert isinstance(own.query(0), DeclaredFunction)


def test_weights_of_files_from_before_were_rounded_down_and_their_intervals_say_so() -> None:
    ramp = tuple(code * 256 // 999 for code in range(1000))
    old = Statistic("mean", ((),), (3,), (tuple(range(1000)),), ramp)
    asked = Workload(SCHEMA.domain, (Statistics(SCHEMA.domain, (old,)),))
    assert Workload.from_json(asked.to_json()) == asked
    assert len(asked.to_json()["blocks"][0]["functions"][0]) == 5
    answer = cs.release(TABLE, asked, epsilon=1e6, mechanism="laplace").ask(asked)
    assert answer.low <= float(sum(position("d", 0, 999)) / ROWS) <= answer.high
