"""Problems of many kinds over made tables of seven shapes, and how far off releases are: for what claims expect."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.mechanisms.mechanism import Claim
from conspectus.queries.workload import Workload
from conspectus.releases.planning import Plan

Rng = np.random.Generator
Columns = list[np.ndarray]
MOST_CELLS = 20_000
SMALLEST = 0.5
"""Of counts that are whole, errors below a half are as good as none."""


@dataclass(frozen=True)
class MadeProblem:
    """A table, its questions and a budget."""

    kind: str
    shape: str
    table: cs.Table
    workload: Workload
    budget: dict[str, Any] = field(default_factory=dict)

    def plan(self) -> Plan:
        return cs.plan(self.table.schema, self.workload, **self.budget)

    def errors(self, mechanism: str) -> tuple[float, float]:
        """The mean and the largest error of one release, in counts: of fractions of the rows, of sums those of what was
        measured for them."""
        settings = {"intervals": False} if mechanism == "adaptive" else {}
        release = cs.release(self.table, self.workload, mechanism=mechanism, **self.budget, **settings)
        measured = self.workload.measured(total_known=self.budget["neighbours"] == "replace")
        counts, rows = count(measured, self.table.chunks())
        shares, whole = release.answers, float(rows)
        if release.shares is not None:  # sums are no fractions: they do not follow the noisy total
            shares, whole = release.shares, release.total.divisor
        off = np.abs(shares * whole - counts / measured.grid)
        return float(off.mean()), float(off.max())


def uniform(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    return [rng.integers(0, size, rows) for size in sizes]


def skewed(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    return [rng.choice(size, rows, p=rng.dirichlet(np.full(size, 0.4))) for size in sizes]


def mixture(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    """A few kinds of rows, each with independent columns."""
    kinds = int(rng.integers(2, 8))
    kind = rng.choice(kinds, rows, p=rng.dirichlet(np.ones(kinds)))
    made = []
    for size in sizes:
        law = rng.dirichlet(np.full(size, 0.5), kinds).cumsum(axis=1)
        made.append(np.minimum((rng.random(rows)[:, None] > law[kind]).sum(axis=1), size - 1))
    return made


def chain(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    """Each column a noisy copy of the one before."""
    made = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.ones(sizes[0])))]
    for size in sizes[1:]:
        fresh = rng.choice(size, rows, p=rng.dirichlet(np.ones(size)))
        made.append(np.where(rng.random(rows) < 0.6, made[-1] % size, fresh))
    return made


def parity(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    """Every third column is nearly the sum of the two before it: of which pairs say nothing."""
    made = uniform(rng, sizes, rows)
    for place in range(2, len(sizes), 3):
        together = (made[place - 1] + made[place - 2]) % sizes[place]
        made[place] = np.where(rng.random(rows) < 0.05, made[place], together)
    return made


def few(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    """Sixty combinations of values, by Zipf's law."""
    weights = 1 / np.arange(1, 61)
    chosen = rng.choice(60, rows, p=weights / weights.sum())
    return [rng.integers(0, size, 60)[chosen] for size in sizes]


def log(rng: Rng, sizes: Sequence[int], rows: int) -> Columns:
    """A few kinds of rows, one more frequent by far than the next, and nearly all rows of a kind alike."""
    kind = rng.choice(5, rows, p=0.3 ** np.arange(5) / (0.3 ** np.arange(5)).sum())
    odd = rng.random((len(sizes), rows)) < rng.choice([0.0, 0.01, 0.05], len(sizes))[:, None]
    alike = [rng.integers(0, size, 5)[kind] for size in sizes]
    return [np.where(*each) for each in zip(odd, skewed(rng, sizes, rows), alike)]


SHAPES: tuple[Callable[[Rng, Sequence[int], int], Columns], ...] = (uniform, skewed, mixture, chain, parity, few, log)


def made_problem(seed: int) -> MadeProblem:
    """A problem that follows from its seed."""
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([1_000, 5_000, 20_000, 100_000]))
    budget = budget_of(rng, rows)
    kind = str(rng.choice([*KINDS, "records"]))
    if kind == "records":
        return records(rng, rows, budget)
    shape = SHAPES[rng.integers(len(SHAPES))]
    sizes = sizes_of(rng, kind)
    names = [f"c{place}" for place in range(len(sizes))]
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in zip(names, sizes)}
    schema = cs.Schema.from_dict({"name": shape.__name__, "columns": columns})
    table = cs.open_table(pa.table(dict(zip(names, shape(rng, sizes, rows)))), schema)
    return MadeProblem(kind, shape.__name__, table, asked(rng, kind, schema), budget)


def budget_of(rng: Rng, rows: int) -> dict[str, Any]:
    return {
        "epsilon": float(rng.choice([0.1, 1.0, 4.0])),
        "delta": float(rng.choice([0.0, 1e-6])),
        "neighbours": str(rng.choice(["replace", "replace", "add-remove"])),
        "rows": rows,
    }


def sizes_of(rng: Rng, kind: str) -> list[int]:
    match kind:
        case "parities":
            return [2] * int(rng.integers(6, 13))
        case "prefixes" | "ranges":
            return [int(rng.choice([8, 20, 64])), 2, 3]
        case "numbers":
            return [int(rng.choice([10, 60, 100])), int(rng.choice([2, 5, 12])), 3]
        case _ if rng.random() < 0.5:
            return [2] * int(rng.integers(4, 13))
    sizes = [int(size) for size in rng.choice([2, 2, 3, 4, 5, 9, 16], int(rng.integers(2, 8)))]
    while math.prod(sizes) > MOST_CELLS:
        sizes.pop()
    return sizes


def whole_table(rng: Rng, schema: cs.Schema) -> Workload:
    return cs.marginals(schema, len(schema.domain))


def all_marginals(rng: Rng, schema: cs.Schema) -> Workload:
    return cs.marginals(schema, int(rng.integers(1, min(4, len(schema.domain)) + 1)))


def some_marginals(rng: Rng, schema: cs.Schema) -> Workload:
    names, columns = schema.domain.names, int(rng.integers(1, min(4, len(schema.domain)) + 1))
    chosen = [sorted(rng.choice(names, columns, replace=False).tolist()) for _ in range(int(rng.integers(1, 7)))]
    return sum((cs.marginal(schema, each) for each in chosen[1:]), cs.marginal(schema, chosen[0]))


def conjunctions(rng: Rng, schema: cs.Schema) -> Workload:
    columns = int(rng.integers(1, min(4, len(schema.domain)) + 1))
    # Half of all there are at the least: so that distinct ones are found.
    fewest = math.comb(len(schema.domain), columns) * 2**columns // 2
    listed = int(min(fewest, rng.choice([5, 50, 500])))
    return cs.random_conjunctions(schema, columns, listed, int(rng.integers(1_000_000)))


def marginals_and_others(rng: Rng, schema: cs.Schema) -> Workload:
    return cs.marginals(schema, 2) + cs.random_conjunctions(schema, 2, 4, int(rng.integers(1_000_000)))


def prefixes(rng: Rng, schema: cs.Schema) -> Workload:
    return cs.prefixes(schema, "c0")


def ranges(rng: Rng, schema: cs.Schema) -> Workload:
    return cs.ranges(schema, "c0")


def parities(rng: Rng, schema: cs.Schema) -> Workload:
    return cs.parities(schema, int(rng.integers(1, 4)))


def numbers(rng: Rng, schema: cs.Schema) -> Workload:
    asks = (cs.sums, cs.means)[rng.integers(2)]
    return asks(schema, "c0", by=["c1"] if rng.random() < 0.6 else ())


KINDS: dict[str, Callable[[Rng, cs.Schema], Workload]] = {
    "whole": whole_table,
    "marginals": all_marginals,
    "some": some_marginals,
    "conjunctions": conjunctions,
    "both": marginals_and_others,
    "prefixes": prefixes,
    "ranges": ranges,
    "parities": parities,
    "numbers": numbers,
}


def asked(rng: Rng, kind: str, schema: cs.Schema) -> Workload:
    return KINDS[kind](rng, schema)


def records(rng: Rng, rows: int, budget: dict[str, Any]) -> MadeProblem:
    """Words by a power law, and questions that list some of them."""
    words, power = int(rng.choice([20, 300, 3_000])), float(rng.choice([0.0, 0.7, 1.2]))
    weights = 1 / np.arange(1, words + 1) ** power
    table = cs.open_records([f"w{word}" for word in rng.choice(words, rows, p=weights / weights.sum())])
    listed = [int(rng.choice([1, 1, 3, 10])) for _ in range(int(rng.choice([3, 20, 100])))]
    asks = cs.sparse([[f"w{word}" for word in rng.choice(words, each, replace=False)] for each in listed])
    if budget["delta"]:
        budget = {**budget, "delta": 1e-8}
    return MadeProblem("records", f"power {power}", table, asks, budget)


def usable(problem: MadeProblem, *, slow: float) -> Iterator[Claim]:
    """The claims of a plan that say something and are carried out within so many seconds."""
    plan = problem.plan()
    for claim in plan.claims:
        effort = plan.efforts.get(claim.mechanism)
        quick = effort is None or effort.seconds <= slow
        if claim.expected_within is not None and quick and claim.expected_max <= problem.budget["rows"] / 4:
            yield claim


def ratio(expected: float, measured: float) -> float:
    """Expected over measured, where errors that are as good as none are alike."""
    return max(expected, SMALLEST) / max(measured, SMALLEST)
